#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/hdf5_internal.hpp"
#include "lightmill/frames/hdf5.hpp"
#include "lightmill/frames/hdf5_filters_internal.hpp"

namespace lightmill::frames {

using hdf5::check;
using hdf5::Extents;
using hdf5::Id;

std::span<const std::string_view> names(Compression) {
    static constexpr std::array<std::string_view, 3> k_names{"none", "gzip", "bitshuffle"};
    return k_names;
}

struct Hdf5Writer::Impl {
    Impl(const std::string& final_path, const Shape& frame_shape, const Hdf5WriteOptions& options)
        : path(final_path), partial(partial_path(final_path)), shape(frame_shape) {
        require_writable(path, options.overwrite);
        const hdf5::Session session;
        if (options.compression == Compression::bitshuffle)
            detail::require_filter(detail::k_bitshuffle, path);
        lock = FileDescriptor(::open(partial.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        if (!lock.is_open()) throw IoError(partial, "create", errno, io_advice(errno));
        try {
            create(options);
        } catch (...) {
            abandon();
            throw;
        }
    }

    ~Impl() { abandon(); }

    void create(const Hdf5WriteOptions& options) {
        constexpr const char* k_what = "create";
        file =
            Id(check(H5Fcreate(partial.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), partial, k_what));
        // Times would make each file another.
        const Id group_properties(check(H5Pcreate(H5P_GROUP_CREATE), partial, k_what));
        check(H5Pset_obj_track_times(group_properties.get(), false), partial, k_what);
        const auto group = [&](hid_t parent, const char* name, const char* nexus_class) {
            Id id(check(H5Gcreate2(parent, name, H5P_DEFAULT, group_properties.get(), H5P_DEFAULT), partial,
                        k_what));
            hdf5::write_text(id.get(), "NX_class", nexus_class, partial);
            return id;
        };
        hdf5::write_text(file.get(), "NX_class", "NXroot", partial);
        hdf5::write_text(file.get(), "default", "entry", partial);
        const auto entry = group(file.get(), "entry", "NXentry");
        hdf5::write_text(entry.get(), "default", "data", partial);
        const auto data = group(entry.get(), "data", "NXdata");
        hdf5::write_text(data.get(), "signal", "data", partial);

        const Id properties(check(H5Pcreate(H5P_DATASET_CREATE), partial, k_what));
        check(H5Pset_obj_track_times(properties.get(), false), partial, k_what);
        const std::array<hsize_t, 3> chunk = extents(1), none = extents(0),
                                     most{H5S_UNLIMITED, chunk[1], chunk[2]};
        check(H5Pset_chunk(properties.get(), 3, chunk.data()), partial, k_what);
        if (options.lost_pixels) {
            const Pixel fill = 65535;
            check(H5Pset_fill_value(properties.get(), H5T_NATIVE_UINT16, &fill), partial, k_what);
        }
        if (options.compression == Compression::gzip) {
            check(H5Pset_shuffle(properties.get()), partial, k_what);
            check(H5Pset_deflate(properties.get(), 1), partial, k_what);
        } else if (options.compression == Compression::bitshuffle) {
            const unsigned values[] = {0, 2};  // its own block size; LZ4
            check(H5Pset_filter(properties.get(), detail::k_bitshuffle, H5Z_FLAG_MANDATORY, 2, values),
                  partial, k_what);
        }
        const Id space(check(H5Screate_simple(3, none.data(), most.data()), partial, k_what));
        dataset = Id(check(H5Dcreate2(data.get(), "data", H5T_STD_U16LE, space.get(), H5P_DEFAULT,
                                      properties.get(), H5P_DEFAULT),
                           partial, k_what));
        hdf5::write_text(dataset.get(), "units", "ADU", partial);
    }

    [[nodiscard]] std::array<hsize_t, 3> extents(std::uint64_t count) const {
        return {count, static_cast<hsize_t>(shape.rows), static_cast<hsize_t>(shape.columns)};
    }

    // Takes the room on disk beforehand: HDF5 does not recover from a disk that is full half-way.
    void reserve(std::size_t bytes) const {
        const auto size = size_bytes(lock, partial);
        constexpr std::int64_t k_slack = 1 << 20;  // index, and compressed chunks that are larger than raw
        const auto more = static_cast<std::int64_t>(bytes + bytes / 64) + k_slack;
        rlimit limit{};
        if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
            static_cast<std::uint64_t>(size + more) > limit.rlim_cur)
            throw IoError(partial, "write", EFBIG, "raise the limit on file sizes (ulimit -f)");
        while (::fallocate(lock.get(), FALLOC_FL_KEEP_SIZE, size, more) != 0) {
            if (errno == EINTR) continue;
            if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
                throw IoError(partial, "write", errno, io_advice(errno));
            break;  // a file system that cannot
        }
    }

    void write(std::span<const Pixel> pixels) {
        const hdf5::Session session;
        constexpr const char* k_what = "write frames";
        const auto count = pixels.size() / static_cast<std::size_t>(shape.pixels());
        if (count == 0) return;
        reserve(pixels.size_bytes());
        const auto all = extents(frames + count), part = extents(count);
        const std::array<hsize_t, 3> start{frames, 0, 0};
        check(H5Dset_extent(dataset.get(), all.data()), partial, k_what);
        const Id in_file(check(H5Dget_space(dataset.get()), partial, k_what));
        check(H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, part.data(), nullptr),
              partial, k_what);
        const Id in_memory(check(H5Screate_simple(3, part.data(), nullptr), partial, k_what));
        check(H5Dwrite(dataset.get(), H5T_NATIVE_UINT16, in_memory.get(), in_file.get(), H5P_DEFAULT,
                       pixels.data()),
              partial, k_what);
        frames += count;
    }

    void finish() {
        {
            const hdf5::Session session;
            dataset.close(partial);
            file.close(partial);
        }
        // Gives back what was reserved and not needed.
        if (::ftruncate(lock.get(), size_bytes(lock, partial)) != 0)
            throw IoError(partial, "truncate", errno);
        publish(path);
        lock.close();
    }

    void abandon() noexcept {
        if (!lock.is_open()) return;
        dataset.reset();
        file.reset();
        lock.close();
        ::unlink(partial.c_str());
    }

    std::string path, partial;
    Shape shape;
    FileDescriptor lock;
    Id file, dataset;
    std::uint64_t frames = 0;
};

Hdf5Writer::Hdf5Writer(const std::string& path, const Shape& shape, const Hdf5WriteOptions& options)
    : impl_(std::make_unique<Impl>(path, shape, options)) {}
Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::write(std::span<const Pixel> pixels) {
    if (!impl_->file) {
        throw Error(ErrorCode::state, impl_->path + ": found a frame after finish(), expected none",
                    impl_->path);
    }
    const auto& shape = impl_->shape;
    if (pixels.size() % static_cast<std::size_t>(shape.pixels()) != 0) {
        throw Error(ErrorCode::range,
                    fmt::format("{}: found {} pixels, expected whole frames of {} × {}", impl_->path,
                                pixels.size(), shape.rows, shape.columns),
                    impl_->path);
    }
    impl_->write(pixels);
}

void Hdf5Writer::finish() {
    impl_->finish();
}

}  // namespace lightmill::frames

#include "lightmill/frames/npy.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/frame_numbers.hpp"
#include "lightmill/frames/npy_header_internal.hpp"

namespace lightmill::frames {
namespace {

std::size_t to_size(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

// Bytes a pixel. Refuses what is not an array of frames, and says how to make one.
int check_type(const detail::NpyHeader& header, const std::string& path) {
    const auto refuse = [&](const std::string& found, const std::string& advice) {
        throw FormatError(
            path, 10,
            fmt::format(
                "found an array {}, expected (frames, rows, columns) of '<u2' or '|u1' in C order; {}", found,
                advice));
    };
    const auto& type = header.type;
    if (header.is_structured) refuse(fmt::format("of the structured type {}", type), "save one field of it");
    if (type == ">u2") refuse("of big-endian '>u2'", "save array.astype('<u2')");
    if (type != "<u2" && type != "|u1")
        refuse(fmt::format("of type '{}'", type), "save array.astype('<u2'), if its values are 0 … 65535");
    if (header.fortran_order) refuse("in Fortran order", "save numpy.ascontiguousarray(array)");
    if (header.shape.size() == 2)
        refuse(fmt::format("of two dimensions ({})", fmt::join(header.shape, ", ")),
               "save one frame as array[None]");
    if (header.shape.size() != 3)
        refuse(fmt::format("of {} dimensions ({})", header.shape.size(), fmt::join(header.shape, ", ")),
               "save array.reshape(-1, rows, columns)");
    if (header.shape[1] == 0 || header.shape[2] == 0)
        refuse(fmt::format("({}) of frames without pixels", fmt::join(header.shape, ", ")),
               "save one with pixels");
    return type == "<u2" ? 2 : 1;
}

class NpySource final : public Source {
  public:
    explicit NpySource(const std::string& path) : file_(path) {
        const auto header = detail::parse_npy_header(file_.bytes(), path);
        item_bytes_ = check_type(header, path);
        offset_ = header.size_bytes;
        // Before anything is multiplied: no file has that many bytes.
        constexpr auto k_most = std::numeric_limits<std::int64_t>::max();
        const auto& shape = header.shape;
        const bool absurd = shape[1] > k_most / shape[2] / item_bytes_ ||
                            (shape[0] > 0 && shape[1] * shape[2] * item_bytes_ > k_most / shape[0]);
        const auto there = file_.bytes().size() - offset_;
        if (absurd || static_cast<std::uint64_t>(shape[0] * shape[1] * shape[2] * item_bytes_) != there) {
            throw FormatError(
                path, static_cast<std::int64_t>(offset_),
                fmt::format("found {} bytes of pixels, expected {} for the shape ({}); the file is "
                            "truncated or its header is wrong",
                            there,
                            absurd ? std::string("more than any file holds")
                                   : fmt::format("{}", shape[0] * shape[1] * shape[2] * item_bytes_),
                            fmt::join(shape, ", ")));
        }
        description_.name = path;
        description_.format = "npy";
        description_.shape = {shape[1], shape[2]};
        description_.bits = 8 * item_bytes_;
        description_.count = static_cast<std::uint64_t>(shape[0]);
        description_.files = {path};
    }

    const Description& description() const noexcept override { return description_; }

    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        require_inside(description_, first, count);
        const auto [rows, columns] = description_.shape;
        const auto pixels = count * to_size(rows * columns);
        const auto at = offset_ + first * to_size(rows * columns * item_bytes_);
        const auto bytes = file_.bytes().subspan(at, pixels * to_size(item_bytes_));
        fetch(bytes);
        storage.infos.resize(count);
        for (std::uint64_t i = 0; i < count; ++i) storage.infos[i] = {.number = first + i};
        const View<const Pixel, 3>::Extents extents{static_cast<std::int64_t>(count), rows, columns};
        // Writers align the data to 16 bytes at least; a header that does not is allowed.
        if (item_bytes_ == 2 && at % alignof(Pixel) == 0)
            return {storage.infos, {reinterpret_cast<const Pixel*>(bytes.data()), extents}};
        storage.pixels.grow(pixels, 0);
        if (item_bytes_ == 2) {
            if (pixels > 0) std::memcpy(storage.pixels.data(), bytes.data(), bytes.size());
        } else {
            std::ranges::transform(bytes, storage.pixels.data(),
                                   [](auto b) { return static_cast<Pixel>(b); });
        }
        return {storage.infos, {storage.pixels.data(), extents}};
    }

    Anomalies anomalies() const override { return {}; }

  private:
    // Reads the bytes into memory here and now, so that whoever uses them does not wait for a disk, and
    // lets go of those read long ago: they come back by themselves where they are used, but a long file
    // must not count as this process's memory.
    void fetch(std::span<const std::byte> bytes) {
        if (bytes.empty()) return;
        static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        const auto begin = to_size(bytes.data() - file_.bytes().data());
        const auto first = begin / page * page;
        const auto range = Range{first, begin + bytes.size() - first};
        auto* address = const_cast<std::byte*>(file_.bytes().data()) + range.first;
        if (::madvise(address, range.size, MADV_POPULATE_READ) != 0 && errno == EFAULT) {
            throw FormatError(
                description_.name, static_cast<std::int64_t>(begin),
                "the file cannot be read here any more; it was truncated since it was opened, or "
                "its disk fails");
        }
        recent_.push_back(range);
        recent_bytes_ += range.size;
        while (recent_bytes_ > k_kept_bytes && recent_.size() > 1) {
            const auto& old = recent_.front();
            ::madvise(const_cast<std::byte*>(file_.bytes().data()) + old.first, old.size, MADV_DONTNEED);
            recent_bytes_ -= old.size;
            recent_.pop_front();
        }
    }
    static constexpr std::size_t k_kept_bytes = std::size_t{64} << 20;
    struct Range {
        std::size_t first = 0, size = 0;
    };

    MappedFile file_;
    Description description_;
    int item_bytes_ = 2;
    std::size_t offset_ = 0;
    std::deque<Range> recent_;
    std::size_t recent_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Source> open_npy(const std::string& path) {
    return std::make_unique<NpySource>(path);
}

Mask read_npy_mask(const std::string& path) {
    const MappedFile file(path);
    const auto header = detail::parse_npy_header(file.bytes(), path);
    const auto& shape = header.shape;
    const bool good_type = header.type == "|u1" || header.type == "|b1" || header.type == "|i1";
    if (header.is_structured || !good_type || shape.size() != 2 || header.fortran_order) {
        throw FormatError(path, 10,
                          fmt::format("found an array of type '{}' and shape ({}){}, expected a mask (rows, "
                                      "columns) of bool or u8 in C "
                                      "order; save numpy.ascontiguousarray(mask.astype(bool))",
                                      header.type, fmt::join(shape, ", "),
                                      header.fortran_order ? " in Fortran order" : ""));
    }
    const auto bytes = file.bytes().subspan(header.size_bytes);
    const auto there = static_cast<std::int64_t>(bytes.size());
    if (shape[0] > 0 && shape[1] > 0 && (shape[1] > there / shape[0] || shape[0] * shape[1] != there)) {
        throw FormatError(path, static_cast<std::int64_t>(header.size_bytes),
                          fmt::format("found {} bytes of mask, expected the shape ({}); the file is "
                                      "truncated or its header is wrong",
                                      there, fmt::join(shape, ", ")));
    }
    Mask mask{{}, {shape[0], shape[1]}};
    mask.pixels.resize(to_size(shape[0] * shape[1]));
    std::memcpy(mask.pixels.data(), bytes.data(), mask.pixels.size());
    return mask;
}

NpyWriter::NpyWriter(const std::string& path, const Shape& shape, bool overwrite)
    : path_(path), shape_(shape), file_(detail::create_npy(path, overwrite)) {}

NpyWriter::~NpyWriter() {
    detail::abandon_npy(file_, path_);
}

void NpyWriter::write(std::span<const Pixel> pixels) {
    if (finished_)
        throw Error(ErrorCode::state, path_ + ": found a frame after finish(), expected none", path_);
    if (pixels.size() % to_size(shape_.pixels()) != 0) {
        throw Error(ErrorCode::range,
                    fmt::format("{}: found {} pixels, expected whole frames of {} × {}", path_, pixels.size(),
                                shape_.rows, shape_.columns),
                    path_);
    }
    write_all(file_, partial_path(path_), std::as_bytes(pixels));
    frames_ += pixels.size() / to_size(shape_.pixels());
}

void NpyWriter::finish() {
    const std::int64_t shape[] = {static_cast<std::int64_t>(frames_), shape_.rows, shape_.columns};
    detail::finish_npy(file_, path_, detail::npy_header("'<u2'", shape));
    finished_ = true;
}

}  // namespace lightmill::frames

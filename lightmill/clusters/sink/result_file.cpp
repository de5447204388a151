#include "lightmill/clusters/sink/result_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/sink/layout_internal.hpp"

namespace lightmill::clusters {
namespace {

using hdf5::Extents;
using hdf5::Id;

// A dataset of /clusters, of which parts are read.
struct Column {
    std::string name;
    Id dataset;
    Extents extents;

    // tail: extents of one entry.
    Column(hid_t group, std::string name_, hid_t type, const Extents& tail, const std::string& path)
        : name("clusters/" + name_), dataset(hdf5::open_dataset(group, name_, path)) {
        extents = hdf5::extents(dataset.get(), name, path);
        const Id stored(hdf5::check(H5Dget_type(dataset.get()), path, fmt::format("read {}", name)));
        if (extents.empty() || Extents(extents.begin() + 1, extents.end()) != tail ||
            H5Tget_class(stored.get()) != H5Tget_class(type) ||
            H5Tget_size(stored.get()) != H5Tget_size(type)) {
            throw FormatError(path, -1, fmt::format("dataset {} has a wrong shape or type", name));
        }
    }

    template <class T>
    void read(std::uint64_t first, std::uint64_t count, T* out, const std::string& path) const {
        if (count == 0) return;
        const auto what = fmt::format("read {}", name);
        Extents start(extents.size(), 0);
        start[0] = first;
        Extents shape = extents;
        shape[0] = count;
        const Id in_file(hdf5::check(H5Dget_space(dataset.get()), path, what));
        hdf5::check(
            H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, shape.data(), nullptr),
            path, what);
        const Id in_memory(
            hdf5::check(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), path, what));
        hdf5::check(
            H5Dread(dataset.get(), hdf5::native_type<T>(), in_memory.get(), in_file.get(), H5P_DEFAULT, out),
            path, what);
    }
};

herr_t add_name(hid_t, const char* name, const H5A_info_t*, void* out) noexcept {
    try {
        static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    } catch (...) {
        return -1;
    }
    return 0;
}

}  // namespace

struct ResultReader::Impl {
    std::string path;
    Id file;
    ResultInfo info;
    std::optional<Column> number, hash, row, column, data, offset;
    std::string state_path;  // the file itself, or its checkpoint

    explicit Impl(const std::string& path_) : path(path_), state_path(path_) {
        const hdf5::Session session;
        // The checkpoint first: the file of a run that goes on holds at least what its checkpoint says.
        const auto checkpoint = path + ".checkpoint";
        std::error_code error;
        const bool has_checkpoint = std::filesystem::exists(checkpoint, error);
        if (has_checkpoint) {
            state_path = checkpoint;
            read_numbers(detail::open_file(checkpoint).get());
        }
        bool unfinished = false;
        file = detail::open_file(path, &unfinished);
        info.killed = unfinished || has_checkpoint;
        const auto root = file.get();
        detail::require_format(root, detail::k_result_format, path);
        read_settings(root);
        if (!has_checkpoint) read_numbers(root);
        open_columns(root);
    }
    ~Impl() {
        const hdf5::Session session;
        for (auto* one : {&number, &hash, &row, &column, &data, &offset}) one->reset();
        file.reset();
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void read_settings(hid_t root) {
        info.version = hdf5::read_text(root, "version", path);
        info.find = detail::read_find_options(hdf5::open_group(root, "clusters", path).get(), path);
        const auto spectrum = hdf5::open_group(root, "spectrum", path);
        visit_options(info.spectrum, [&](const OptionInfo& option, auto& field) {
            using T = std::remove_cvref_t<decltype(field)>;
            field = hdf5::read_attribute<T>(spectrum.get(), std::string(option.name), path);
        });
        check(info.spectrum);
        const auto source = hdf5::open_group(root, "source", path);
        info.source = hdf5::read_text(source.get(), "name", path);
        info.source_format = hdf5::read_text(source.get(), "format", path);
        info.source_frames = hdf5::read_attribute<std::uint64_t>(source.get(), "frames", path);
        info.module_rows = hdf5::read_attributes<std::int64_t>(source.get(), "module_rows", path);
        info.module_columns = hdf5::read_attributes<std::int64_t>(source.get(), "module_columns", path);
        info.source_files = detail::read_texts(source.get(), "files", path);
        const auto provenance = hdf5::open_group(root, "provenance", path);
        std::vector<std::string> names;
        hdf5::check(H5Aiterate2(provenance.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name, &names),
                    path, "read the attributes of provenance");
        for (const auto& one : names) {
            info.provenance.emplace_back(one, hdf5::read_text(provenance.get(), one, path));
        }
        const auto extents =
            hdf5::extents(hdf5::open_dataset(root, "pedestal/offset", path).get(), "pedestal/offset", path);
        if (extents.size() != 2) throw FormatError(path, -1, "dataset pedestal/offset is not rows x columns");
        info.shape = {static_cast<std::int64_t>(extents[0]), static_cast<std::int64_t>(extents[1])};
    }

    void read_numbers(hid_t root) {
        const auto get = [&](const char* name) {
            return hdf5::read_attribute<std::uint64_t>(root, name, state_path);
        };
        info.complete = hdf5::read_attribute<std::uint8_t>(root, "complete", state_path) != 0;
        info.frames = get("frames");
        info.clusters = get("clusters");
        info.digest = hdf5::read_text(root, "digest", state_path);
        info.model_digest = hdf5::read_text(root, "model_digest", state_path);
        info.backend = hdf5::read_text(root, "backend", state_path);
        info.absent = {.absent_value = get("absent_value_pixels"),
                       .gain_bits = get("gain_bits_pixels"),
                       .lost_packets = get("lost_packets_pixels")};
        info.anomalies = detail::read_anomalies(root, state_path);
    }

    void open_columns(hid_t root) {
        const auto group = hdf5::open_group(root, "clusters", path);
        const auto g = group.get();
        const auto u64 = hdf5::native_type<std::uint64_t>();
        const auto u32 = hdf5::native_type<std::uint32_t>();
        number.emplace(g, "frame_number", u64, Extents{}, path);
        offset.emplace(g, "offset", u64, Extents{}, path);
        hash.emplace(g, "hash", hdf5::native_type<std::uint8_t>(), Extents{sizeof(Hash128)}, path);
        row.emplace(g, "row", u32, Extents{}, path);
        column.emplace(g, "column", u32, Extents{}, path);
        data.emplace(g, "data",
                     info.find.payload == Payload::int32 ? hdf5::native_type<std::int32_t>()
                                                         : hdf5::native_type<std::int16_t>(),
                     Extents{static_cast<hsize_t>(info.find.window.height),
                             static_cast<hsize_t>(info.find.window.width)},
                     path);
        const auto require = [&](const Column& one, std::uint64_t entries) {
            const bool fine = info.killed ? one.extents[0] >= entries : one.extents[0] == entries;
            if (fine) return;
            throw FormatError(
                path, -1,
                fmt::format("dataset {}: found {} entries, expected {} for {} frames with {} clusters",
                            one.name, one.extents[0], entries, info.frames, info.clusters));
        };
        for (const auto* one : {&number, &hash}) require(**one, info.frames);
        for (const auto* one : {&row, &column, &data}) require(**one, info.clusters);
        require(*offset, info.frames + 1);
    }

    // offsets of frames first … first + count, checked.
    [[nodiscard]] std::vector<std::uint64_t> offsets(std::uint64_t first, std::uint64_t count) const {
        std::vector<std::uint64_t> values(count + 1);
        offset->read(first, count + 1, values.data(), path);
        if (!std::is_sorted(values.begin(), values.end()) || values.back() > info.clusters ||
            (first == 0 && values.front() != 0)) {
            throw FormatError(
                path, -1,
                fmt::format("dataset clusters/offset does not ascend from 0 to {} in frames {} to {}",
                            info.clusters, first, first + count));
        }
        return values;
    }
};

ResultReader::ResultReader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
ResultReader::ResultReader(ResultReader&&) noexcept = default;
ResultReader& ResultReader::operator=(ResultReader&&) noexcept = default;
ResultReader::~ResultReader() = default;

const ResultInfo& ResultReader::info() const noexcept {
    return impl_->info;
}

Clusters ResultReader::read(std::uint64_t first, std::uint64_t count) const {
    const auto& impl = *impl_;
    if (first > impl.info.frames || count > impl.info.frames - first) {
        throw Error(ErrorCode::range,
                    fmt::format("frames {} to {} are asked for, the file has {}", first, first + count,
                                impl.info.frames),
                    impl.path);
    }
    const hdf5::Session session;
    Clusters out;
    out.window = impl.info.find.window;
    out.first_index = first;
    out.offsets = impl.offsets(first, count);
    const auto base = out.offsets.front();
    const auto found = out.offsets.back() - base;
    for (auto& offset : out.offsets) offset -= base;
    const auto cells = static_cast<std::size_t>(out.window.cells());
    // What the file claims, it must hold: storage is compared before memory is asked for.
    const auto stored = H5Dget_storage_size(impl.data->dataset.get());
    const auto cell_bytes = impl.info.find.payload == Payload::int32 ? 4U : 2U;
    if (found > stored / cell_bytes / cells) {
        throw FormatError(
            impl.path, -1,
            fmt::format("dataset clusters/data: found {} bytes for {} clusters", stored, impl.info.clusters));
    }
    out.numbers.resize(count);
    out.hashes.resize(count);
    out.rows.resize(found);
    out.columns.resize(found);
    impl.number->read(first, count, out.numbers.data(), impl.path);
    impl.hash->read(first, count, reinterpret_cast<std::uint8_t*>(out.hashes.data()), impl.path);
    impl.row->read(base, found, out.rows.data(), impl.path);
    impl.column->read(base, found, out.columns.data(), impl.path);
    if (impl.info.find.payload == Payload::int32) {
        out.residuals.resize(found * cells);
        impl.data->read(base, found, out.residuals.data(), impl.path);
    } else {
        out.residuals16.resize(found * cells);
        impl.data->read(base, found, out.residuals16.data(), impl.path);
    }
    const auto outside = [&](const std::vector<std::uint32_t>& values, std::int64_t size) {
        return std::any_of(values.begin(), values.end(), [&](std::uint32_t v) { return v >= size; });
    };
    if (outside(out.rows, impl.info.shape.rows) || outside(out.columns, impl.info.shape.columns)) {
        throw FormatError(
            impl.path, -1,
            fmt::format("a cluster of frames {} to {} lies outside the image", first, first + count));
    }
    return out;
}

Clusters ResultReader::read_block(std::uint64_t first, std::uint64_t bytes) const {
    const auto& impl = *impl_;
    constexpr std::uint64_t k_most_frames = 1 << 16;
    if (first >= impl.info.frames) {
        Clusters none;
        none.window = impl.info.find.window;
        none.first_index = impl.info.frames;
        return none;
    }
    const auto most = std::min(k_most_frames, impl.info.frames - first);
    std::uint64_t count = 1;
    {
        const hdf5::Session session;
        const auto offsets = impl.offsets(first, most);
        const auto each = static_cast<std::uint64_t>(impl.info.find.window.cells()) * 4 + 8;
        const auto limit = offsets.front() + bytes / each;
        const auto end = std::upper_bound(offsets.begin() + 1, offsets.end(), limit);
        count = std::max<std::uint64_t>(static_cast<std::uint64_t>(end - offsets.begin()) - 1, 1);
    }
    return read(first, count);
}

Pedestal ResultReader::pedestal() const {
    const hdf5::Session session;
    return detail::read_pedestal(impl_->file.get(), impl_->path);
}

namespace {
ResultPosition load(const std::string& path, const ResultReader& reader) {
    const hdf5::Session session;
    const auto file = detail::open_file(path);
    return detail::load_state(file.get(), reader.pedestal(), reader.info().find, reader.info().spectrum,
                              path);
}
}  // namespace

FinderState ResultReader::state() const {
    return load(impl_->state_path, *this).finder;
}
Spectrum ResultReader::spectrum() const {
    return load(impl_->state_path, *this).spectrum;
}
HitMap ResultReader::hit_map() const {
    return load(impl_->state_path, *this).hit_map;
}

bool is_result_file(const std::string& path) {
    const hdf5::Session session;
    static_cast<void>(open_for_reading(path));
    try {
        const auto file = detail::open_file(path);
        return detail::format_of(file.get(), path) == detail::k_result_format;
    } catch (const FormatError&) {
        return false;
    }
}

}  // namespace lightmill::clusters

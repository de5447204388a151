#include "lightmill/clusters/sink/result_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "lightmill/base/build_info.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/sink/layout_internal.hpp"

namespace lightmill::clusters {
namespace {

using hdf5::Extents;
using hdf5::Id;

std::string checkpoint_path(const std::string& path) {
    return partial_path(path) + ".checkpoint";
}

bool exists(const std::string& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
}

void remove(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        throw IoError(path, "remove", errno, io_advice(errno));
    }
}

void sync(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) throw IoError(path, "open", errno, io_advice(errno));
    if (::fdatasync(file.get()) != 0) throw IoError(path, "sync", errno, io_advice(errno));
}

void rename(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) throw IoError(to, "rename", errno, io_advice(errno));
}

std::string hex(const Hash128& hash) {
    std::string text;
    for (const auto byte : hash) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return text;
}

// Files that only this process opens for writing need no lock of HDF5's; the latest format is what
// SWMR works with. clear: a killed writer left its mark in the file.
Id access_list(const std::string& path, bool clear) {
    Id access(hdf5::check(H5Pcreate(H5P_FILE_ACCESS), path, "open"));
    hdf5::check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), path, "open");
    hdf5::check(H5Pset_file_locking(access.get(), 0, 1), path, "open");
    if (clear) {
        // What the program h5clear does; these properties have no functions of their own.
        const hbool_t yes = 1;
        hdf5::check(H5Pset(access.get(), "clear_status_flags", &yes), path, "open");
        hdf5::check(H5Pset(access.get(), "skip_eof_check", &yes), path, "open");
    }
    return access;
}

// A growing dataset of /clusters: one value, or one row of values, an entry.
struct Column {
    bool per_frame = false;  // else one entry a cluster
    std::string name;
    hid_t type = 0;
    std::size_t value_bytes = 0;
    Extents row;  // extents of one entry; empty for a single value
    Id dataset;
    std::uint64_t extent = 0;

    [[nodiscard]] std::size_t entry_bytes() const noexcept {
        std::size_t bytes = value_bytes;
        for (const auto e : row) bytes *= e;
        return bytes;
    }
    // Entries; whole pages, small enough that a short run wastes little, large enough that a long one
    // has few.
    [[nodiscard]] hsize_t chunk() const noexcept {
        constexpr std::size_t k_bytes = 256 << 10;
        return std::max<std::size_t>(k_bytes / entry_bytes(), 1);
    }
    [[nodiscard]] Extents shape(hsize_t entries) const {
        Extents extents{entries};
        extents.insert(extents.end(), row.begin(), row.end());
        return extents;
    }
};

std::array<Column, 6> columns_for(const FindOptions& find) {
    const bool wide = find.payload == Payload::int32;
    const auto u64 = hdf5::native_type<std::uint64_t>();
    const auto u32 = hdf5::native_type<std::uint32_t>();
    return {{{true, "frame_number", u64, 8, {}, {}, 0},
             {true, "hash", hdf5::native_type<std::uint8_t>(), 1, {sizeof(Hash128)}, {}, 0},
             {false, "row", u32, 4, {}, {}, 0},
             {false, "column", u32, 4, {}, {}, 0},
             {false,
              "data",
              wide ? hdf5::native_type<std::int32_t>() : hdf5::native_type<std::int16_t>(),
              wide ? 4U : 2U,
              {static_cast<hsize_t>(find.window.height), static_cast<hsize_t>(find.window.width)},
              {},
              0},
             {true, "offset", u64, 8, {}, {}, 0}}};
}
enum : std::size_t { k_number, k_hash, k_row, k_column, k_data, k_offset };

// `offset` has an entry more than there are frames: the 0 that it begins with.
void create_column(hid_t group, const Column& column, bool begins_with_zero, const std::string& path) {
    const auto what = fmt::format("create dataset {}", column.name);
    const auto now = column.shape(begins_with_zero ? 1 : 0);
    auto most = now;
    most[0] = H5S_UNLIMITED;
    const Id space(
        hdf5::check(H5Screate_simple(static_cast<int>(now.size()), now.data(), most.data()), path, what));
    const Id properties(hdf5::check(H5Pcreate(H5P_DATASET_CREATE), path, what));
    const auto chunk = column.shape(column.chunk());
    hdf5::check(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()), path, what);
    hdf5::check(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), path, what);
    const Id dataset(hdf5::check(H5Dcreate2(group, column.name.c_str(), column.type, space.get(), H5P_DEFAULT,
                                            properties.get(), H5P_DEFAULT),
                                 path, what));
    const std::uint64_t zero = 0;
    if (begins_with_zero) hdf5::detail::write(dataset.get(), column.type, &zero, column.name, path);
}

void write_setting(hid_t file, const ResultSetting& setting, const std::string& path) {
    hdf5::write_text(file, "format", detail::k_result_format, path);
    hdf5::write_attribute(file, "format_version", detail::k_format_version, path);
    hdf5::write_text(file, "version", version(), path);
    detail::write_pedestal(file, setting.pedestal, path);
    const auto source = hdf5::create_group(file, "source", path);
    hdf5::write_text(source.get(), "name", setting.source.name, path);
    hdf5::write_text(source.get(), "format", setting.source.format, path);
    hdf5::write_attribute(source.get(), "frames", setting.source.count, path);
    hdf5::write_attribute(source.get(), "module_rows", setting.source.module_rows, path);
    hdf5::write_attribute(source.get(), "module_columns", setting.source.module_columns, path);
    hdf5::write_text(source.get(), "first_frame", hex(setting.first_frame), path);
    detail::write_texts(source.get(), "files", setting.source.files, path);
    const auto provenance = hdf5::create_group(file, "provenance", path);
    for (const auto& [name, value] : setting.provenance)
        hdf5::write_text(provenance.get(), name, value, path);
}

// Throws OptionError ("resume") for the first thing that is not as the file has it.
void require_same(hid_t file, const ResultSetting& setting, const std::string& path) {
    const auto same = [](std::string_view what, const auto& given, const auto& kept) {
        if (given == kept) return;
        throw OptionError("resume", fmt::format("{} = {}", what, given),
                          fmt::format("{}, as in the interrupted run; or --overwrite to begin again", kept));
    };
    const auto clusters = hdf5::open_group(file, "clusters", path);
    const auto find = detail::read_find_options(clusters.get(), path);
    same("window", to_string(setting.find.window), to_string(find.window));
    std::vector<std::pair<std::string, std::string>> kept_options;
    visit_options(find, [&](const OptionInfo& info, const auto& field) {
        kept_options.emplace_back(info.name, option_text(field));
    });
    const auto spectrum = hdf5::open_group(file, "spectrum", path);
    auto kept = kept_options.begin();
    visit_options(setting.find, [&](const OptionInfo& info, const auto& field) {
        same(info.name, option_text(field), (kept++)->second);
    });
    visit_options(setting.spectrum, [&](const OptionInfo& info, const auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        same(info.name, field, hdf5::read_attribute<T>(spectrum.get(), std::string(info.name), path));
    });
    const auto source = hdf5::open_group(file, "source", path);
    same("frames of the source", setting.source.count,
         hdf5::read_attribute<std::uint64_t>(source.get(), "frames", path));
    same("the source's first frame", hex(setting.first_frame),
         hdf5::read_text(source.get(), "first_frame", path));
    const auto list = [](const std::vector<std::int64_t>& values) {
        return fmt::format("[{}]", fmt::join(values, ", "));
    };
    same("module_rows", list(setting.source.module_rows),
         list(hdf5::read_attributes<std::int64_t>(source.get(), "module_rows", path)));
    same("module_columns", list(setting.source.module_columns),
         list(hdf5::read_attributes<std::int64_t>(source.get(), "module_columns", path)));
    const auto provenance = hdf5::open_group(file, "provenance", path);
    for (const auto& [name, value] : setting.provenance) {
        same(name, value,
             hdf5::has_attribute(provenance.get(), name) ? hdf5::read_text(provenance.get(), name, path)
                                                         : std::string("nothing"));
    }
    if (setting.pedestal != detail::read_pedestal(file, path)) {
        throw OptionError(
            "resume", "another pedestal",
            "the pedestal of the interrupted run, which is in its file; or --overwrite to begin "
            "again");
    }
}

void write_checkpoint(const std::string& path, const ResultSetting& setting, const ResultPosition& position) {
    const auto fresh = path + ".new";
    try {
        const auto access = access_list(fresh, false);
        Id file(
            hdf5::check(H5Fcreate(fresh.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), fresh, "create"));
        detail::create_state(file.get(), setting.pedestal, setting.find, setting.spectrum, fresh);
        detail::store_state(file.get(), position, false, fresh);
        file.close(fresh);
        sync(fresh);
    } catch (...) {
        ::unlink(fresh.c_str());
        throw;
    }
    rename(fresh, path);
}

}  // namespace

struct ResultWriter::Impl {
    std::string path;
    std::string partial;
    ResultSetting setting;
    FileDescriptor lock;  // of the partial file: for the lock, space and sync
    Id file;
    std::array<Column, 6> columns;
    std::uint64_t frames = 0;
    std::uint64_t clusters = 0;
    // Ends of frames that were added but not committed: `offset` is what a reader goes by, so that it
    // grows last.
    std::vector<std::uint64_t> ends;
    ResultPosition position;
    // HDF5 failed half-way. The file is then left as a kill leaves it.
    bool broken = false;
    bool reserves = true;  // the file system can reserve space
    std::int64_t reserved = 0;

    Impl(const std::string& path_, const ResultSetting& setting_, ResultPosition position_)
        : path(path_),
          partial(partial_path(path_)),
          setting(setting_),
          columns(columns_for(setting_.find)),
          position(std::move(position_)) {
        frames = position.finder.frames;
        clusters = position.clusters;
    }
    ~Impl() {
        const hdf5::Session session;
        if (broken && file) hdf5::divert(file.get());
        for (auto& column : columns) column.dataset.reset();
        file.reset();
    }

    // A second run into the same file would ruin it.
    void take_lock() {
        lock = FileDescriptor(::open(partial.c_str(), O_RDWR | O_CLOEXEC));
        if (!lock.is_open()) throw IoError(partial, "open", errno, io_advice(errno));
        struct flock whole{};
        whole.l_type = F_WRLCK;
        whole.l_whence = SEEK_SET;
        if (::fcntl(lock.get(), F_OFD_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES)) {
            throw IoError(partial, "lock", errno,
                          "another run is writing it; wait for it, or write elsewhere");
        }
    }

    void open(bool clear) {
        if (clear) {
            const auto access = access_list(partial, true);
            Id once(hdf5::check(H5Fopen(partial.c_str(), H5F_ACC_RDWR, access.get()), partial, "open"));
            // A writer in SWMR mode does not keep the file's end up to date.
            hdf5::check(H5Fincrement_filesize(once.get(), 0), partial, "open");
            once.close(partial);
        }
        const auto access = access_list(partial, false);
        file = Id(hdf5::check(H5Fopen(partial.c_str(), H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE, access.get()),
                              partial, "open"));
        const Id chunks(hdf5::check(H5Pcreate(H5P_DATASET_ACCESS), partial, "open"));
        // Room for the chunk that is being filled and the next; full ones go at once.
        hdf5::check(H5Pset_chunk_cache(chunks.get(), 101, 1 << 20, 1.0), partial, "open");
        const auto group = hdf5::open_group(file.get(), "clusters", partial);
        for (auto& column : columns) {
            column.dataset = Id(hdf5::check(H5Dopen2(group.get(), column.name.c_str(), chunks.get()), partial,
                                            fmt::format("open dataset clusters/{}", column.name)));
            const auto extents = hdf5::extents(column.dataset.get(), column.name, partial);
            if (extents != column.shape(extents.empty() ? 0 : extents[0])) {
                throw FormatError(partial, -1,
                                  fmt::format("dataset clusters/{} has a wrong shape", column.name));
            }
            column.extent = extents[0];
        }
    }

    void set_extent(Column& column, std::uint64_t entries) {
        const auto shape = column.shape(entries);
        hdf5::check(H5Dset_extent(column.dataset.get(), shape.data()), partial,
                    fmt::format("resize {}", column.name));
        column.extent = entries;
    }

    void put(Column& column, std::uint64_t first, std::uint64_t entries, const void* data) {
        if (entries == 0) return;
        if (first + entries > column.extent) set_extent(column, first + entries);
        const auto what = fmt::format("write {}", column.name);
        const auto count = column.shape(entries);
        Extents start(count.size(), 0);
        start[0] = first;
        const Id in_file(hdf5::check(H5Dget_space(column.dataset.get()), partial, what));
        hdf5::check(
            H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            partial, what);
        const Id in_memory(hdf5::check(
            H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), partial, what));
        hdf5::check(
            H5Dwrite(column.dataset.get(), column.type, in_memory.get(), in_file.get(), H5P_DEFAULT, data),
            partial, what);
    }

    void flush(Column& column) {
        hdf5::check(H5Dflush(column.dataset.get()), partial, fmt::format("write {}", column.name));
    }

    // Makes sure that the next `bytes` find room, so that HDF5 never meets a full disk half-way.
    void reserve(std::int64_t bytes) {
        constexpr std::int64_t k_slack = 8 << 20;  // chunks begun, index, and the end of the run
        constexpr std::int64_t k_step = 64 << 20;
        const auto size = size_bytes(lock, partial);
        const auto need = size + bytes + k_slack;
        rlimit limit{};
        if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
            static_cast<std::uint64_t>(need) > limit.rlim_cur) {
            full(EFBIG);
        }
        if (!reserves || need <= reserved) return;
        for (const auto end : {need + k_step, need}) {
            if (::fallocate(lock.get(), FALLOC_FL_KEEP_SIZE, size, end - size) == 0) {
                reserved = end;
                return;
            }
            if (errno == EINTR) continue;
            if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) {
                reserves = false;
                return;
            }
        }
        full(errno);
    }
    [[noreturn]] void full(int error_number) const {
        const auto advice = io_advice(error_number);
        throw IoError(partial, "write", error_number,
                      fmt::format("{}{}the frames up to here are kept: go on with --resume",
                                  advice.empty() ? "raise the limit" : advice, "; "));
    }

    void add(const ClustersView& view) {
        const auto n = view.frames();
        const auto found = view.clusters();
        std::int64_t bytes = 0;
        for (const auto& column : columns) {
            bytes += static_cast<std::int64_t>((column.per_frame ? n : found) * column.entry_bytes());
        }
        reserve(bytes);
        broken = true;
        put(columns[k_data], clusters, found,
            view.residuals16.empty() ? static_cast<const void*>(view.residuals.data())
                                     : view.residuals16.data());
        put(columns[k_row], clusters, found, view.rows.data());
        put(columns[k_column], clusters, found, view.columns.data());
        put(columns[k_hash], frames, n, view.hashes.data());
        put(columns[k_number], frames, n, view.numbers.data());
        for (std::size_t f = 0; f < n; ++f) ends.push_back(clusters + view.offsets[f + 1]);
        frames += n;
        clusters += found;
        broken = false;
        constexpr std::size_t k_most_ends = 1 << 20;
        if (ends.size() > k_most_ends) commit();
    }

    void commit() {
        broken = true;
        for (auto& column : columns) flush(column);
        put(columns[k_offset], frames - ends.size() + 1, ends.size(), ends.data());
        flush(columns[k_offset]);
        ends.clear();
        broken = false;
    }

    void replay(std::uint64_t count, const std::function<void(const ClustersView&)>& visit) const;

    // Closes the file as a plain one that ends at `end`.
    void finish(const ResultPosition& end, bool complete) {
        if (broken) throw Error(ErrorCode::state, "the result cannot be ended after a failed write", partial);
        // What is behind `end` goes; the offset first, as readers go by it.
        if (end.finder.frames > frames || end.finder.frames < frames - ends.size()) {
            if (end.finder.frames > frames)
                throw Error(ErrorCode::state, "a result cannot end behind its last frame", "finish");
            ends.clear();
        } else {
            ends.resize(ends.size() - (frames - end.finder.frames));
        }
        frames = end.finder.frames;
        clusters = end.clusters;
        broken = true;
        if (ends.empty()) {
            for (auto& column : columns) flush(column);
        } else {
            commit();
            broken = true;
        }
        for (const std::size_t i : {k_offset, k_number, k_hash, k_row, k_column, k_data}) {
            const auto entries = i == k_offset                  ? frames + 1
                                 : i == k_number || i == k_hash ? frames
                                                                : clusters;
            if (columns[i].extent > entries) set_extent(columns[i], entries);
        }
        detail::store_state(file.get(), end, complete, partial);
        for (auto& column : columns) column.dataset.close(partial);
        file.close(partial);
        broken = false;
        // Gives back what was reserved behind the end.
        if (::ftruncate(lock.get(), size_bytes(lock, partial)) != 0 || ::fdatasync(lock.get()) != 0) {
            throw IoError(partial, "sync", errno, io_advice(errno));
        }
        remove(checkpoint_path(path));
    }
};

void ResultWriter::Impl::replay(std::uint64_t count,
                                const std::function<void(const ClustersView&)>& visit) const {
    const auto get = [&](const Column& column, std::uint64_t first, std::uint64_t entries, void* data) {
        const auto what = fmt::format("read {}", column.name);
        if (first + entries > column.extent) {
            throw FormatError(
                partial, -1,
                fmt::format("dataset clusters/{}: found {} entries, expected {}; the file is damaged",
                            column.name, column.extent, first + entries));
        }
        const auto shape = column.shape(entries);
        Extents start(shape.size(), 0);
        start[0] = first;
        const Id in_file(hdf5::check(H5Dget_space(column.dataset.get()), partial, what));
        hdf5::check(
            H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, shape.data(), nullptr),
            partial, what);
        const Id in_memory(hdf5::check(
            H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), partial, what));
        hdf5::check(
            H5Dread(column.dataset.get(), column.type, in_memory.get(), in_file.get(), H5P_DEFAULT, data),
            partial, what);
    };
    constexpr std::uint64_t k_block = 1 << 16;
    Clusters block;
    block.window = setting.find.window;
    std::uint64_t base = 0;
    for (std::uint64_t first = 0; first < count; first += k_block) {
        const auto n = std::min(k_block, count - first);
        block.first_index = first;
        block.numbers.resize(n);
        block.hashes.resize(n);
        block.offsets.resize(n + 1);
        get(columns[k_number], first, n, block.numbers.data());
        get(columns[k_hash], first, n, block.hashes.data());
        get(columns[k_offset], first, n + 1, block.offsets.data());
        const auto last = block.offsets.back();
        if (block.offsets.front() != base || !std::is_sorted(block.offsets.begin(), block.offsets.end()) ||
            last > clusters) {
            throw FormatError(
                partial, -1,
                fmt::format("dataset clusters/offset does not ascend to {} near frame {}; the file is "
                            "damaged",
                            clusters, first));
        }
        for (auto& offset : block.offsets) offset -= base;
        base = last;
        visit(block.view());
    }
    if (base != clusters && count == position.finder.frames) {
        throw FormatError(partial, -1,
                          fmt::format("found {} clusters in {} frames, expected {}; the file is damaged",
                                      base, count, clusters));
    }
}

ResultWriter::ResultWriter(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ResultWriter::ResultWriter(ResultWriter&&) noexcept = default;
ResultWriter& ResultWriter::operator=(ResultWriter&&) noexcept = default;
ResultWriter::~ResultWriter() = default;

ResultWriter ResultWriter::create(const std::string& path, const ResultSetting& setting, bool overwrite) {
    require_writable(path, overwrite);
    const auto partial = partial_path(path);
    const auto checkpoint = checkpoint_path(path);
    if (exists(partial) && !overwrite) {
        throw IoError(partial, "create", EEXIST,
                      "an interrupted run left it: go on with --resume, or give --overwrite");
    }
    ResultPosition begin{.finder = {},
                         .spectrum = Spectrum(setting.spectrum),
                         .hit_map = HitMap(setting.pedestal.shape),
                         .digest = {},
                         .model_digest = {},
                         .backend = {},
                         .anomalies = {}};
    const hdf5::Session session;
    auto impl = std::make_unique<Impl>(path, setting, std::move(begin));
    if (exists(partial)) impl->take_lock();  // refuses while its run still lives
    // Made under another name: whatever has the partial name is whole enough to go on from.
    const auto fresh = partial + ".new";
    try {
        const auto access = access_list(fresh, false);
        Id file(
            hdf5::check(H5Fcreate(fresh.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), fresh, "create"));
        write_setting(file.get(), setting, fresh);
        {
            const auto group = hdf5::create_group(file.get(), "clusters", fresh);
            detail::write_find_options(group.get(), setting.find, fresh);
            for (const auto& column : impl->columns)
                create_column(group.get(), column, &column == &impl->columns[k_offset], fresh);
        }
        detail::create_state(file.get(), setting.pedestal, setting.find, setting.spectrum, fresh);
        file.close(fresh);
    } catch (...) {
        ::unlink(fresh.c_str());
        throw;
    }
    remove(checkpoint);
    rename(fresh, partial);
    impl->take_lock();
    impl->open(false);
    return ResultWriter(std::move(impl));
}

bool ResultWriter::can_resume(const std::string& path) {
    return exists(partial_path(path));
}

ResultWriter ResultWriter::resume(const std::string& path, const ResultSetting& setting) {
    const auto partial = partial_path(path);
    const auto checkpoint = checkpoint_path(path);
    const hdf5::Session session;
    std::optional<ResultPosition> position;
    bool killed = false;
    {
        const auto file = detail::open_file(partial, &killed);
        detail::require_format(file.get(), detail::k_result_format, partial);
        require_same(file.get(), setting, partial);
        if (exists(checkpoint)) {
            const auto last = detail::open_file(checkpoint);
            position =
                detail::load_state(last.get(), setting.pedestal, setting.find, setting.spectrum, checkpoint);
        } else {
            position =
                detail::load_state(file.get(), setting.pedestal, setting.find, setting.spectrum, partial);
        }
    }
    auto impl = std::make_unique<Impl>(path, setting, std::move(*position));
    impl->take_lock();
    impl->open(killed);
    return ResultWriter(std::move(impl));
}

void ResultWriter::add(const ClustersView& clusters) {
    const hdf5::Session session;
    impl_->add(clusters);
}

void ResultWriter::checkpoint(const ResultPosition& position) {
    auto& impl = *impl_;
    const hdf5::Session session;
    impl.commit();
    if (::fdatasync(impl.lock.get()) != 0) throw IoError(impl.partial, "sync", errno, io_advice(errno));
    try {
        write_checkpoint(checkpoint_path(impl.path), impl.setting, position);
    } catch (const IoError& error) {
        if (error.error_number() == ENOSPC || error.error_number() == EDQUOT) impl.full(error.error_number());
        throw;
    }
    impl.position = position;
}

const ResultPosition& ResultWriter::position() const noexcept {
    return impl_->position;
}

void ResultWriter::replay(std::uint64_t frames, const std::function<void(const ClustersView&)>& add) const {
    const hdf5::Session session;
    impl_->replay(frames, add);
}

void ResultWriter::interrupt(const ResultPosition& position) {
    const hdf5::Session session;
    impl_->finish(position, false);
}

void ResultWriter::publish(const ResultPosition& position) {
    const hdf5::Session session;
    impl_->finish(position, true);
    lightmill::publish(impl_->path);
}

std::uint64_t ResultWriter::frames() const noexcept {
    return impl_->frames;
}
std::uint64_t ResultWriter::clusters() const noexcept {
    return impl_->clusters;
}

}  // namespace lightmill::clusters

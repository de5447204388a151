#include "lightmill/frames/hdf5.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/hdf5_internal.hpp"
#include "lightmill/frames/frame_numbers.hpp"
#include "lightmill/frames/hdf5_filters_internal.hpp"

namespace lightmill::frames {
namespace {

using hdf5::Extents;
using hdf5::Id;

constexpr std::size_t k_max_listed = 10;  // datasets that a message names

std::size_t to_size(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

// The text of an attribute of one string, of fixed or variable length; empty where there is none.
std::string text_attribute(hid_t object, const char* name, const std::string& path) {
    if (!hdf5::has_attribute(object, name)) return {};
    const auto what = fmt::format("read attribute {}", name);
    const Id attribute(hdf5::check(H5Aopen(object, name, H5P_DEFAULT), path, what));
    const Id stored(hdf5::check(H5Aget_type(attribute.get()), path, what));
    const Id space(hdf5::check(H5Aget_space(attribute.get()), path, what));
    if (H5Tget_class(stored.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) return {};
    if (H5Tis_variable_str(stored.get()) > 0) {
        char* value = nullptr;
        hdf5::check(H5Aread(attribute.get(), stored.get(), &value), path, what);
        std::string text = value == nullptr ? "" : value;
        H5free_memory(value);
        return text;
    }
    std::string text(H5Tget_size(stored.get()), '\0');
    hdf5::check(H5Aread(attribute.get(), stored.get(), text.data()), path, what);
    text.resize(std::min(text.size(), text.find('\0')));
    text.resize(text.find_last_not_of(' ') + 1);
    return text;
}

bool is_dataset(hid_t file, const std::string& name) {
    const Id object(H5Oopen(file, name.c_str(), H5P_DEFAULT));
    const bool found = object && H5Iget_type(object.get()) == H5I_DATASET;
    H5Eclear2(H5E_DEFAULT);
    return found;
}

struct Kind {
    Extents extents;
    std::string type;  // in words
    bool is_pixel = false;
};
Kind kind_of(hid_t dataset, const std::string& name, const std::string& path) {
    Kind kind;
    kind.extents = hdf5::extents(dataset, name, path);
    const Id type(hdf5::check(H5Dget_type(dataset), path, fmt::format("read the type of {}", name)));
    const auto bytes = H5Tget_size(type.get());
    switch (H5Tget_class(type.get())) {
        case H5T_INTEGER: {
            const bool is_unsigned = H5Tget_sign(type.get()) == H5T_SGN_NONE;
            kind.type = fmt::format("{} integers of {} bits", is_unsigned ? "unsigned" : "signed", 8 * bytes);
            kind.is_pixel = is_unsigned && bytes <= 2;
            break;
        }
        case H5T_FLOAT:
            kind.type = fmt::format("floating-point numbers of {} bits", 8 * bytes);
            break;
        default:
            kind.type = "no numbers";
    }
    return kind;
}
std::string text(const Kind& kind) {
    return fmt::format("({}) of {}", fmt::join(kind.extents, ", "), kind.type);
}
bool holds_frames(const Kind& kind) {
    return kind.is_pixel && kind.extents.size() == 3;
}

// Names of all links in the file, at most k_max_links.
constexpr std::size_t k_max_links = 100'000;
herr_t gather(hid_t, const char* name, const H5L_info_t*, void* out) noexcept {
    auto& names = *static_cast<std::vector<std::string>*>(out);
    try {
        names.emplace_back(std::string("/") + name);
    } catch (...) {
        return -1;
    }
    return names.size() < k_max_links ? 0 : 1;
}

// The dataset that the attributes `default` and `signal` lead to, as NeXus has it; empty where they do not.
std::string nexus_default(hid_t file, const std::string& path) {
    std::string name = "/";
    for (int depth = 0; depth < 8; ++depth) {
        const Id group(H5Oopen(file, name.c_str(), H5P_DEFAULT));
        if (!group || H5Iget_type(group.get()) != H5I_GROUP) break;
        const auto signal = text_attribute(group.get(), "signal", path);
        const auto next = signal.empty() ? text_attribute(group.get(), "default", path) : signal;
        if (next.empty()) break;
        name += (name.size() > 1 ? "/" : "") + next;
        if (!signal.empty()) return name;
    }
    H5Eclear2(H5E_DEFAULT);
    return {};
}

// Finds the dataset of frames where none is named.
std::string find_frames(hid_t file, const std::string& path) {
    const auto holds = [&](const std::string& name) {
        if (name.empty() || !is_dataset(file, name)) return false;
        return holds_frames(kind_of(hdf5::open_dataset(file, name, path).get(), name, path));
    };
    for (const auto& name : {nexus_default(file, path), std::string("/entry/data/data")}) {
        if (holds(name)) return name;
    }
    std::vector<std::string> links;
    hdf5::check(H5Lvisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, gather, &links), path, "list the datasets");
    std::string found;
    std::vector<std::string> candidates, others;
    std::set<std::pair<unsigned long, haddr_t>> seen;  // one dataset may have several names
    for (const auto& name : links) {
        if (!is_dataset(file, name)) continue;
        const auto dataset = hdf5::open_dataset(file, name, path);
        const auto kind = kind_of(dataset.get(), name, path);
        if (kind.extents.size() < 2) continue;
        H5O_info_t info{};
        hdf5::check(H5Oget_info2(dataset.get(), &info, H5O_INFO_BASIC), path,
                    fmt::format("look at {}", name));
        if (!seen.emplace(info.fileno, info.addr).second) continue;
        if (holds_frames(kind)) found = name;
        (holds_frames(kind) ? candidates : others).push_back(fmt::format("{} {}", name, text(kind)));
    }
    const auto list = [](std::vector<std::string> names) {
        const auto all = names.size();
        names.resize(std::min(all, k_max_listed));
        return fmt::format("{}{}", fmt::join(names, ", "),
                           all > k_max_listed ? fmt::format(" and {} more", all - k_max_listed) : "");
    };
    if (candidates.size() > 1) {
        throw FormatError(path, -1,
                          fmt::format("found several datasets of frames, expected one or the name of it "
                                      "(--dataset): {}",
                                      list(candidates)));
    }
    if (candidates.empty()) {
        throw FormatError(
            path, -1,
            fmt::format("found no dataset (frames, rows, columns) of unsigned integers of 16 or 8 "
                        "bits; there {}",
                        others.empty() ? "is no dataset of two or more dimensions" : "is " + list(others)));
    }
    return found;
}

// The name of the dataset's own group's other dataset.
std::string sibling(const std::string& name, const std::string& other) {
    const auto slash = name.rfind('/');
    return slash == std::string::npos ? other : name.substr(0, slash + 1) + other;
}

// A virtual dataset shows fill values where a source is missing; here it is an error that names it.
// Returns the files.
std::vector<std::string> check_sources(hid_t properties, const std::string& name, const std::string& path) {
    const auto what = fmt::format("look at the sources of {}", name);
    std::size_t count = 0;
    hdf5::check(H5Pget_virtual_count(properties, &count), path, what);
    std::vector<std::string> files;
    Id file;  // of the last source: most have several mappings
    for (std::size_t i = 0; i < count; ++i) {
        const auto get = [&](auto function) {
            const auto size = hdf5::check(function(properties, i, nullptr, 0), path, what);
            std::string text(static_cast<std::size_t>(size), '\0');
            hdf5::check(function(properties, i, text.data(), text.size() + 1), path, what);
            return text;
        };
        auto source = get(H5Pget_virtual_filename);
        const auto dataset_name = get(H5Pget_virtual_dsetname);
        if (source == ".") source = path;
        if (source.find('%') != std::string::npos) continue;  // a pattern: as many files as there are
        if (std::filesystem::path(source).is_relative() && source != path) {
            const auto beside = std::filesystem::path(path).parent_path() / source;
            std::error_code error;
            if (std::filesystem::exists(beside, error)) source = beside.string();
        }
        const auto missing = [&](const std::string& why) {
            throw FormatError(source, -1, fmt::format("{}; {} in {} shows its frames", why, name, path));
        };
        if (files.empty() || files.back() != source) {
            std::error_code error;
            if (!std::filesystem::exists(source, error)) missing("found no such file");
            file = Id(hdf5::check(H5Fopen(source.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), source, "open"));
            files.push_back(source);
        }
        if (!is_dataset(file.get(), dataset_name)) missing(fmt::format("found no dataset {}", dataset_name));
        const auto extents =
            hdf5::extents(hdf5::open_dataset(file.get(), dataset_name, source).get(), dataset_name, source);
        // What the file says is a selection; where it selects all, the shape is not kept with it.
        const Id selection(hdf5::check(H5Pget_virtual_srcspace(properties, i), path, what));
        const Id shown(hdf5::check(H5Pget_virtual_vspace(properties, i), path, what));
        const auto short_of = [&](hsize_t expected, const std::string& of) {
            missing(fmt::format("found {} of shape ({}), expected {} {}", dataset_name,
                                fmt::join(extents, ", "), expected, of));
        };
        if (H5Sget_select_type(selection.get()) == H5S_SEL_ALL) {
            const auto points = H5Sget_select_npoints(shown.get());
            hsize_t there = 1;
            for (auto extent : extents) there *= extent;
            if (points >= 0 && there < static_cast<hsize_t>(points))
                short_of(static_cast<hsize_t>(points), "pixels");
        } else if (H5Sget_simple_extent_ndims(selection.get()) == static_cast<int>(extents.size())) {
            Extents first(extents.size()), last(extents.size());
            if (H5Sget_select_bounds(selection.get(), first.data(), last.data()) >= 0) {
                for (std::size_t d = 0; d < extents.size(); ++d) {
                    if (last[d] >= extents[d]) short_of(last[d] + 1, fmt::format("along dimension {}", d));
                }
            }
        }
        H5Eclear2(H5E_DEFAULT);
    }
    return files;
}

class Hdf5Source final : public Source {
  public:
    Hdf5Source(const std::string& path, const std::string& dataset) : path_(path) {
        const hdf5::Session session;
        file_ = Id(hdf5::check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), path, "open"));
        name_ = dataset.empty() ? find_frames(file_.get(), path) : dataset;
        if (!is_dataset(file_.get(), name_)) {
            throw FormatError(
                path, -1,
                fmt::format("found no dataset {} (--dataset), or it leads to a file that is not "
                            "there; h5ls -r lists what there is",
                            name_));
        }
        open_frames();
        open_numbers();
    }
    ~Hdf5Source() override {
        const hdf5::Session session;
        numbers_.reset();
        dataset_.reset();
        file_.reset();
    }

    const Description& description() const noexcept override { return description_; }

    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        require_inside(description_, first, count);
        const auto [rows, columns] = description_.shape;
        storage.infos.resize(count);
        for (std::uint64_t i = 0; i < count; ++i) storage.infos[i] = {.number = first + i};
        storage.pixels.grow(count * to_size(description_.shape.pixels()), 0);
        if (count > 0) {
            const hdf5::Session session;
            read_part(dataset_, {first, 0, 0},
                      {count, static_cast<hsize_t>(rows), static_cast<hsize_t>(columns)}, H5T_NATIVE_UINT16,
                      storage.pixels.data(), name_);
            if (numbers_) read_numbers(first, count, storage.infos);
        }
        if (numbers_) seen_.see(first, storage.infos);
        return {storage.infos, {storage.pixels.data(), {static_cast<std::int64_t>(count), rows, columns}}};
    }

    Anomalies anomalies() const override { return seen_.anomalies(); }

  private:
    void open_frames() {
        auto dataset = hdf5::open_dataset(file_.get(), name_, path_);
        const auto kind = kind_of(dataset.get(), name_, path_);
        if (!holds_frames(kind)) {
            throw FormatError(
                path_, -1,
                fmt::format(
                    "dataset {}: found {}, expected (frames, rows, columns) of unsigned integers of 16 "
                    "or 8 bits{}",
                    name_, text(kind),
                    kind.extents.size() == 2 && kind.is_pixel ? "; store one frame as (1, rows, columns)"
                                                              : ""));
        }
        constexpr hsize_t k_most_pixels = hsize_t{1} << 30;
        const auto& extents = kind.extents;
        if (extents[1] == 0 || extents[2] == 0 || extents[1] > k_most_pixels / extents[2] ||
            extents[0] > hsize_t{1} << 48) {
            throw FormatError(path_, -1,
                              fmt::format("dataset {}: found {}, expected frames of 1 to {} pixels", name_,
                                          text(kind), k_most_pixels));
        }
        description_.name = path_;
        description_.format = "hdf5";
        description_.shape = {static_cast<std::int64_t>(extents[1]), static_cast<std::int64_t>(extents[2])};
        description_.count = extents[0];
        description_.files = {path_};
        const auto what = fmt::format("look at {}", name_);
        const Id type(hdf5::check(H5Dget_type(dataset.get()), path_, what));
        description_.bits = static_cast<int>(8 * H5Tget_size(type.get()));

        const Id properties(hdf5::check(H5Dget_create_plist(dataset.get()), path_, what));
        const int filters = hdf5::check(H5Pget_nfilters(properties.get()), path_, what);
        for (int i = 0; i < filters; ++i) {
            unsigned flags = 0, config = 0;
            std::size_t values = 0;
            const auto filter = H5Pget_filter2(properties.get(), static_cast<unsigned>(i), &flags, &values,
                                               nullptr, 0, nullptr, &config);
            // An optional one may have been missing when the file was written, too.
            if ((flags & H5Z_FLAG_OPTIONAL) == 0) detail::require_filter(filter, path_);
        }
        // What fills pixels that were never written, where the writer chose it.
        H5D_fill_value_t fill{};
        if (H5Pfill_value_defined(properties.get(), &fill) >= 0 && fill == H5D_FILL_VALUE_USER_DEFINED) {
            Pixel value = 0;
            hdf5::check(H5Pget_fill_value(properties.get(), H5T_NATIVE_UINT16, &value), path_, what);
            if (value != 0) description_.absent_value = value;
        }
        const auto layout = H5Pget_layout(properties.get());
        if (layout == H5D_VIRTUAL) {
            for (auto& file : check_sources(properties.get(), name_, path_)) {
                if (file != path_) description_.files.push_back(std::move(file));
            }
        }
        dataset_ = std::move(dataset);
        if (layout == H5D_CHUNKED) keep_chunks(properties.get());
    }

    // Opens the dataset again with a cache that holds all chunks of a frame, where they hold others' too.
    void keep_chunks(hid_t properties) {
        std::array<hsize_t, 3> chunk{1, 1, 1};
        hdf5::check(H5Pget_chunk(properties, 3, chunk.data()), path_, fmt::format("look at {}", name_));
        if (chunk[0] <= 1) return;
        const auto chunks = [&](std::size_t d, std::int64_t extent) {
            return (static_cast<hsize_t>(extent) + chunk[d] - 1) / chunk[d];
        };
        const auto number = chunks(1, description_.shape.rows) * chunks(2, description_.shape.columns);
        const double bytes = static_cast<double>(number) * static_cast<double>(chunk[0]) *
                             static_cast<double>(chunk[1]) * static_cast<double>(chunk[2]) *
                             description_.bits / 8;
        constexpr double k_most_bytes = 64 << 20;
        if (bytes > k_most_bytes) return;
        const Id access(hdf5::check(H5Pcreate(H5P_DATASET_ACCESS), path_, "open"));
        hdf5::check(H5Pset_chunk_cache(access.get(), 10 * number + 1,
                                       static_cast<std::size_t>(std::max(bytes, 1048576.0)), 1.0),
                    path_, "open");
        dataset_.reset();
        dataset_ = Id(hdf5::check(H5Dopen2(file_.get(), name_.c_str(), access.get()), path_, "open"));
    }

    // The layout of slsDetectorPackage's receiver, where the file has it.
    void open_numbers() {
        const auto name = sibling(name_, "frame number");
        if (!is_dataset(file_.get(), name)) return;
        auto dataset = hdf5::open_dataset(file_.get(), name, path_);
        const auto extents = hdf5::extents(dataset.get(), name, path_);
        const Id type(hdf5::check(H5Dget_type(dataset.get()), path_, fmt::format("look at {}", name)));
        if (H5Tget_class(type.get()) != H5T_INTEGER || extents.empty() || extents.size() > 2 ||
            extents[0] < description_.count || (extents.size() == 2 && extents[1] == 0)) {
            throw FormatError(
                path_, -1,
                fmt::format("dataset {}: found ({}), expected a frame number for each of {} frames", name,
                            fmt::join(extents, ", "), description_.count));
        }
        number_rank_ = extents.size();
        numbers_name_ = name;
        numbers_ = std::move(dataset);
        description_.absent_value = Pixel{65535};  // what the receiver fills
        const std::string type_name = "/entry/instrument/detector/Detector Type";
        if (is_dataset(file_.get(), type_name)) {
            const auto detector = read_string(type_name);
            description_.gain_bits = detector.starts_with("Jungfrau") || detector.starts_with("JUNGFRAU");
        }
    }

    std::string read_string(const std::string& name) const {
        const auto what = "read " + name;
        const auto dataset = hdf5::open_dataset(file_.get(), name, path_);
        const Id type(hdf5::check(H5Dget_type(dataset.get()), path_, what));
        const Id space(hdf5::check(H5Dget_space(dataset.get()), path_, what));
        if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1)
            return {};
        if (H5Tis_variable_str(type.get()) > 0) {
            char* value = nullptr;
            hdf5::check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value), path_,
                        what);
            std::string text = value == nullptr ? "" : value;
            H5free_memory(value);
            return text;
        }
        std::string text(H5Tget_size(type.get()), '\0');
        hdf5::check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), path_,
                    what);
        return text;
    }

    void read_part(const Id& dataset, const Extents& start, const Extents& count, hid_t type, void* out,
                   const std::string& name) const {
        const auto what = fmt::format("read {}, frames {} to {}", name, start[0], start[0] + count[0] - 1);
        const Id in_file(hdf5::check(H5Dget_space(dataset.get()), path_, what));
        hdf5::check(
            H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            path_, what);
        const Id in_memory(hdf5::check(
            H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), path_, what));
        hdf5::check(H5Dread(dataset.get(), type, in_memory.get(), in_file.get(), H5P_DEFAULT, out), path_,
                    what);
    }

    void read_numbers(std::uint64_t first, std::uint64_t count, std::span<FrameInfo> infos) {
        std::vector<std::uint64_t> numbers(count);
        Extents start{first}, size{count};
        start.resize(number_rank_, 0);
        size.resize(number_rank_, 1);  // of the first port
        read_part(numbers_, start, size, H5T_NATIVE_UINT64, numbers.data(), numbers_name_);
        for (std::size_t i = 0; i < count; ++i) infos[i].number = numbers[i];
    }

    std::string path_;
    std::string name_;
    Id file_, dataset_, numbers_;
    std::string numbers_name_;
    std::size_t number_rank_ = 1;
    Description description_;
    FrameNumbers seen_;
};

}  // namespace

namespace detail {

void require_filter(H5Z_filter_t filter, const std::string& path) {
    const bool there = H5Zfilter_avail(filter) > 0;
    H5Eclear2(H5E_DEFAULT);
    if (there) return;
    struct Known {
        H5Z_filter_t id;
        std::string_view name, package;
    };
    static constexpr Known k_known[] = {{k_bitshuffle, "bitshuffle", "bitshuffle"},
                                        {32000, "LZF", "bitshuffle"},
                                        {32001, "Blosc", "hdf5-filter-plugin-blosc-serial"},
                                        {32004, "LZ4", "hdf5-filter-plugin"}};
    const auto known = std::ranges::find(k_known, filter, &Known::id);
    const auto text = known == std::end(k_known) ? fmt::format("HDF5 filter {}", filter)
                                                 : fmt::format("HDF5 filter {} ({})", filter, known->name);
    const auto advice = known == std::end(k_known)
                            ? std::string("install its plugin into the folder that HDF5_PLUGIN_PATH names")
                            : fmt::format("install Debian's package {}", known->package);
    throw Error(ErrorCode::unavailable,
                fmt::format("{}: needs the {}, which is not installed; {}", path, text, advice), path);
}

}  // namespace detail

std::unique_ptr<Source> open_hdf5(const std::string& path, const std::string& dataset) {
    (void)open_for_reading(path);  // for its errors: no file, a folder, no permission
    return std::make_unique<Hdf5Source>(path, dataset);
}

}  // namespace lightmill::frames

#include "lightmill/clusters/sink/layout_internal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"

namespace lightmill::clusters::detail {
namespace {

using hdf5::Extents;
using hdf5::Id;

Extents extents_of(const Shape& shape) {
    return {static_cast<hsize_t>(shape.rows), static_cast<hsize_t>(shape.columns)};
}

// Overwrites the bytes of an attribute that is there.
template <class T>
void set_attribute(hid_t object, const std::string& name, T value, const std::string& path) {
    const auto what = fmt::format("write attribute {}", name);
    const Id attribute(hdf5::check(H5Aopen(object, name.c_str(), H5P_DEFAULT), path, what));
    hdf5::check(H5Awrite(attribute.get(), hdf5::native_type<T>(), &value), path, what);
}
void set_text(hid_t object, const std::string& name, const std::string& value, const std::string& path) {
    const auto what = fmt::format("write attribute {}", name);
    const Id attribute(hdf5::check(H5Aopen(object, name.c_str(), H5P_DEFAULT), path, what));
    const Id type(hdf5::check(H5Aget_type(attribute.get()), path, what));
    std::string padded = value;
    padded.resize(H5Tget_size(type.get()), '\0');
    hdf5::check(H5Awrite(attribute.get(), type.get(), padded.data()), path, what);
}

template <class T>
void fill(hid_t parent, const std::string& name, std::span<const T> values, const std::string& path) {
    const auto dataset = hdf5::open_dataset(parent, name, path);
    hdf5::detail::write(dataset.get(), hdf5::native_type<T>(), values.data(), name, path);
}

constexpr std::size_t k_digest_size = 64;
constexpr std::size_t k_backend_size = 32;

struct Counter {
    const char* name;
    std::uint64_t value;
};
std::array<Counter, 8> counters(const ResultPosition& position) {
    return {{{"frames", position.finder.frames},
             {"clusters", position.clusters},
             {"absent_value_pixels", position.finder.absent.absent_value},
             {"gain_bits_pixels", position.finder.absent.gain_bits},
             {"lost_packets_pixels", position.finder.absent.lost_packets},
             {"missing_frames", position.anomalies.missing_frames},
             {"repeated_frames", position.anomalies.repeated_frames},
             {"out_of_order_frames", position.anomalies.out_of_order_frames}}};
}

struct NumberList {
    const char* name;
    std::vector<std::uint64_t> frames::Anomalies::* numbers;
};
constexpr std::array<NumberList, 3> k_number_lists{{{"missing", &frames::Anomalies::missing},
                                                    {"repeated", &frames::Anomalies::repeated},
                                                    {"out_of_order", &frames::Anomalies::out_of_order}}};

// How many models a finder of these options has, of how many values each.
std::size_t models(const FindOptions& find) {
    return find.rule == Rule::raster ? 0 : static_cast<std::size_t>(find.streams);
}

void require_models(const std::vector<float>& mean, const std::vector<float>& variance,
                    const std::string& path) {
    const bool fine =
        std::all_of(mean.begin(), mean.end(), [](float m) { return std::isfinite(m); }) &&
        std::all_of(variance.begin(), variance.end(), [](float s) { return std::isfinite(s) && s >= 0; });
    if (!fine) {
        throw FormatError(path, -1,
                          "the model holds a mean that is not finite or a variance that is not a finite "
                          "number from 0; the file is damaged");
    }
}

}  // namespace

Id open_file(const std::string& path, bool* unfinished) {
    static_cast<void>(lightmill::open_for_reading(path));  // says clearly what the system refuses
    const Id access(hdf5::check(H5Pcreate(H5P_FILE_ACCESS), path, "open"));
    // Locks fail on many network file systems; a writer's presence shows in the file itself.
    hdf5::check(H5Pset_file_locking(access.get(), 0, 1), path, "open");
    Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
    if (unfinished != nullptr) *unfinished = !file;
    if (!file) {
        Id other(H5Fopen(path.c_str(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, access.get()));
        if (other) {
            H5Eclear2(H5E_DEFAULT);
            return other;
        }
        throw FormatError(path, -1, "found no HDF5 file, or a damaged one");
    }
    return file;
}

std::string format_of(hid_t file, const std::string& path) {
    try {
        return hdf5::has_attribute(file, "format") ? hdf5::read_text(file, "format", path) : std::string();
    } catch (const FormatError&) {
        return {};
    }
}

void require_format(hid_t file, std::string_view format, const std::string& path) {
    const auto found = format_of(file, path);
    if (found != format) {
        throw FormatError(path, -1,
                          fmt::format("found an HDF5 file of {}, expected a {} file",
                                      found.empty() ? "another program" : "kind " + found, format));
    }
    const auto version = hdf5::read_attribute<std::int64_t>(file, "format_version", path);
    if (version != k_format_version) {
        throw FormatError(path, -1,
                          fmt::format("found version {} of the format, expected {}; use a newer lightmill",
                                      version, k_format_version));
    }
}

void write_pedestal(hid_t parent, const Pedestal& pedestal, const std::string& path) {
    const auto group = hdf5::create_group(parent, "pedestal", path);
    const auto g = group.get();
    hdf5::write_attribute(g, "frames", pedestal.frames, path);
    hdf5::write_attribute(g, "absent_value",
                          pedestal.absent.value ? std::int32_t{*pedestal.absent.value} : std::int32_t{-1},
                          path);
    hdf5::write_attribute(g, "gain_bits", static_cast<std::uint8_t>(pedestal.absent.gain_bits), path);
    hdf5::write_attribute(g, "pedestal_frames", pedestal.options.pedestal_frames, path);
    hdf5::write_attribute(g, "min_noise", pedestal.options.min_noise, path);
    const auto extents = extents_of(pedestal.shape);
    const auto put = [&]<class T>(const char* name, const std::vector<T>& values) {
        hdf5::write_dataset(g, name, extents, std::span<const T>(values), path);
    };
    put("offset", pedestal.model.offset);
    put("mean", pedestal.model.mean);
    put("variance", pedestal.model.variance);
    put("state", pedestal.state);
    put("seen", pedestal.seen);
    put("sum", pedestal.sum);
    put("square", pedestal.square);
}

Pedestal read_pedestal(hid_t parent, const std::string& path) {
    const auto group = hdf5::open_group(parent, "pedestal", path);
    const auto g = group.get();
    const auto extents = hdf5::extents(hdf5::open_dataset(g, "offset", path).get(), "pedestal/offset", path);
    constexpr hsize_t k_most = hsize_t{1} << 31;
    if (extents.size() != 2 || extents[0] == 0 || extents[1] == 0 || extents[0] > k_most ||
        extents[1] > k_most) {
        throw FormatError(path, -1,
                          fmt::format("dataset pedestal/offset: found extents {}, expected rows x columns",
                                      fmt::join(extents, " x ")));
    }
    Pedestal pedestal;
    pedestal.shape = {static_cast<std::int64_t>(extents[0]), static_cast<std::int64_t>(extents[1])};
    pedestal.frames = hdf5::read_attribute<std::uint64_t>(g, "frames", path);
    const auto absent = hdf5::read_attribute<std::int32_t>(g, "absent_value", path);
    if (absent < -1 || absent > 65535) {
        throw FormatError(path, -1,
                          fmt::format("attribute absent_value: found {}, expected -1 to 65535", absent));
    }
    if (absent >= 0) pedestal.absent.value = static_cast<Pixel>(absent);
    pedestal.absent.gain_bits = hdf5::read_attribute<std::uint8_t>(g, "gain_bits", path) != 0;
    pedestal.options.pedestal_frames = hdf5::read_attribute<std::int64_t>(g, "pedestal_frames", path);
    pedestal.options.min_noise = hdf5::read_attribute<double>(g, "min_noise", path);
    pedestal.model.offset = hdf5::read_dataset<Pixel>(g, "offset", extents, path);
    pedestal.model.mean = hdf5::read_dataset<float>(g, "mean", extents, path);
    pedestal.model.variance = hdf5::read_dataset<float>(g, "variance", extents, path);
    require_models(pedestal.model.mean, pedestal.model.variance, path);
    const auto states = hdf5::read_dataset<std::uint8_t>(g, "state", extents, path);
    for (const auto state : states) {
        if (state > static_cast<std::uint8_t>(PixelState::low_noise)) {
            throw FormatError(path, -1,
                              fmt::format("dataset pedestal/state: found {}, expected 0 to 3", state));
        }
        pedestal.state.push_back(static_cast<PixelState>(state));
    }
    pedestal.seen = hdf5::read_dataset<std::uint32_t>(g, "seen", extents, path);
    pedestal.sum = hdf5::read_dataset<std::uint64_t>(g, "sum", extents, path);
    pedestal.square = hdf5::read_dataset<std::uint64_t>(g, "square", extents, path);
    return pedestal;
}

void write_find_options(hid_t group, const FindOptions& options, const std::string& path) {
    hdf5::write_text(group, "window", to_string(options.window), path);
    visit_options(options, [&](const OptionInfo& info, const auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        const std::string name(info.name);
        if constexpr (std::is_enum_v<T>) {
            hdf5::write_text(group, name, option_text(field), path);
        } else {
            hdf5::write_attribute(group, name, field, path);
        }
    });
}

FindOptions read_find_options(hid_t group, const std::string& path) {
    FindOptions options;
    options.window = parse_window(hdf5::read_text(group, "window", path));
    visit_options(options, [&](const OptionInfo& info, auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        const std::string name(info.name);
        if constexpr (std::is_enum_v<T>) {
            const auto text = hdf5::read_text(group, name, path);
            const auto all = names(T{});
            const auto at = std::find(all.begin(), all.end(), text);
            if (at == all.end()) {
                throw FormatError(path, -1,
                                  fmt::format("attribute {}: found {}, expected one of {}", name, text,
                                              fmt::join(all, ", ")));
            }
            field = static_cast<T>(at - all.begin());
        } else {
            field = hdf5::read_attribute<T>(group, name, path);
        }
    });
    check(options);
    return options;
}

void write_texts(hid_t parent, const std::string& name, const std::vector<std::string>& texts,
                 const std::string& path) {
    const auto what = fmt::format("write {}", name);
    std::size_t width = 1;
    for (const auto& text : texts) width = std::max(width, text.size());
    std::string bytes;
    for (const auto& text : texts) bytes += text + std::string(width - text.size(), '\0');
    const Id type(hdf5::check(H5Tcopy(H5T_C_S1), path, what));
    hdf5::check(H5Tset_size(type.get(), width), path, what);
    hdf5::check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), path, what);
    hdf5::check(H5Tset_cset(type.get(), H5T_CSET_UTF8), path, what);
    const auto dataset = hdf5::detail::create_dataset(parent, name, {texts.size()}, type.get(), path);
    if (!texts.empty()) hdf5::detail::write(dataset.get(), type.get(), bytes.data(), name, path);
}

std::vector<std::string> read_texts(hid_t parent, const std::string& name, const std::string& path) {
    const auto dataset = hdf5::open_dataset(parent, name, path);
    const auto extents = hdf5::extents(dataset.get(), name, path);
    const Id type(hdf5::check(H5Dget_type(dataset.get()), path, fmt::format("read {}", name)));
    const auto width = H5Tget_size(type.get());
    if (extents.size() != 1 || H5Tget_class(type.get()) != H5T_STRING ||
        H5Tis_variable_str(type.get()) != 0) {
        throw FormatError(path, -1,
                          fmt::format("dataset {}: expected a list of texts of fixed length", name));
    }
    hdf5::detail::require(dataset.get(), type.get(), extents, name, path);
    std::string bytes(extents[0] * width, '\0');
    if (extents[0] > 0) hdf5::detail::read(dataset.get(), type.get(), bytes.data(), name, path);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < extents[0]; ++i) {
        auto text = bytes.substr(i * width, width);
        text.resize(text.find_last_not_of('\0') + 1);
        texts.push_back(std::move(text));
    }
    return texts;
}

void create_state(hid_t file, const Pedestal& pedestal, const FindOptions& find,
                  const SpectrumOptions& spectrum, const std::string& path) {
    hdf5::write_attribute(file, "complete", std::uint8_t{0}, path);
    const ResultPosition nothing{.finder = {},
                                 .spectrum = Spectrum(spectrum),
                                 .hit_map = HitMap(Shape{}),
                                 .digest = {},
                                 .model_digest = {},
                                 .backend = {},
                                 .anomalies = {}};
    for (const auto& counter : counters(nothing))
        hdf5::write_attribute(file, counter.name, counter.value, path);
    hdf5::write_text(file, "digest", std::string(k_digest_size, '\0'), path);
    hdf5::write_text(file, "model_digest", std::string(k_digest_size, '\0'), path);
    hdf5::write_text(file, "backend", std::string(k_backend_size, '\0'), path);

    const auto extents = extents_of(pedestal.shape);
    const auto pixels = static_cast<std::size_t>(pedestal.shape.pixels());
    const auto model = hdf5::create_group(file, "model", path);
    if (find.rule == Rule::raster) {
        const std::vector<double> zeros(pixels);
        hdf5::write_dataset(model.get(), "sum", extents, std::span<const double>(zeros), path);
        hdf5::write_dataset(model.get(), "square", extents, std::span<const double>(zeros), path);
    } else {
        const std::vector<float> zeros(pixels * models(find));
        const Extents all{models(find), extents[0], extents[1]};
        hdf5::write_dataset(model.get(), "mean", all, std::span<const float>(zeros), path);
        hdf5::write_dataset(model.get(), "variance", all, std::span<const float>(zeros), path);
    }
    const std::vector<std::uint32_t> zeros(pixels);
    hdf5::write_dataset(file, "hit_map", extents, std::span<const std::uint32_t>(zeros), path);
    hdf5::write_dataset(file, "negatives", extents, std::span<const std::uint32_t>(zeros), path);

    const auto group = hdf5::create_group(file, "spectrum", path);
    visit_options(spectrum, [&](const OptionInfo& info, const auto& field) {
        hdf5::write_attribute(group.get(), std::string(info.name), field, path);
    });
    hdf5::write_attribute(group.get(), "underflow", std::uint64_t{0}, path);
    hdf5::write_attribute(group.get(), "overflow", std::uint64_t{0}, path);
    const auto counts = nothing.spectrum.counts();
    hdf5::write_dataset(group.get(), "counts", {counts.size()}, counts, path);
    std::vector<double> edges;
    for (std::int64_t i = 0; i <= spectrum.spectrum_bins; ++i) edges.push_back(nothing.spectrum.edge(i));
    hdf5::write_dataset(group.get(), "edges_adu", {edges.size()}, std::span<const double>(edges), path);

    const auto anomalies = hdf5::create_group(file, "anomalies", path);
    for (const auto& list : k_number_lists) {
        // Room for a full list; the attribute says how many are there.
        const std::vector<std::uint64_t> room(frames::Anomalies::k_max_listed);
        hdf5::write_dataset(anomalies.get(), list.name, {room.size()}, std::span<const std::uint64_t>(room),
                            path);
        hdf5::write_attribute(anomalies.get(), fmt::format("{}_listed", list.name), std::uint64_t{0}, path);
    }
}

void store_state(hid_t file, const ResultPosition& position, bool complete, const std::string& path) {
    const auto model = hdf5::open_group(file, "model", path);
    const auto& finder = position.finder;
    if (finder.models.empty()) {
        fill<double>(model.get(), "sum", finder.raster_sum, path);
        fill<double>(model.get(), "square", finder.raster_square, path);
    } else {
        std::vector<float> mean, variance;
        for (const auto& one : finder.models) {
            mean.insert(mean.end(), one.mean.begin(), one.mean.end());
            variance.insert(variance.end(), one.variance.begin(), one.variance.end());
        }
        fill<float>(model.get(), "mean", mean, path);
        fill<float>(model.get(), "variance", variance, path);
    }
    fill<std::uint32_t>(file, "hit_map", position.hit_map.counts(), path);
    fill<std::uint32_t>(file, "negatives", finder.negatives, path);
    const auto spectrum = hdf5::open_group(file, "spectrum", path);
    fill<std::uint64_t>(spectrum.get(), "counts", position.spectrum.counts(), path);
    set_attribute(spectrum.get(), "underflow", position.spectrum.underflow(), path);
    set_attribute(spectrum.get(), "overflow", position.spectrum.overflow(), path);
    const auto anomalies = hdf5::open_group(file, "anomalies", path);
    for (const auto& list : k_number_lists) {
        auto numbers = position.anomalies.*list.numbers;
        const std::uint64_t listed = std::min(numbers.size(), frames::Anomalies::k_max_listed);
        numbers.resize(frames::Anomalies::k_max_listed, 0);
        fill<std::uint64_t>(anomalies.get(), list.name, numbers, path);
        set_attribute(anomalies.get(), fmt::format("{}_listed", list.name), listed, path);
    }
    for (const auto& counter : counters(position)) set_attribute(file, counter.name, counter.value, path);
    set_text(file, "digest", position.digest, path);
    set_text(file, "model_digest", position.model_digest, path);
    set_text(file, "backend", position.backend, path);
    set_attribute(file, "complete", static_cast<std::uint8_t>(complete), path);
}

frames::Anomalies read_anomalies(hid_t file, const std::string& path) {
    frames::Anomalies found;
    const auto number = [&](const char* name) {
        return hdf5::read_attribute<std::uint64_t>(file, name, path);
    };
    found.missing_frames = number("missing_frames");
    found.repeated_frames = number("repeated_frames");
    found.out_of_order_frames = number("out_of_order_frames");
    const auto anomalies = hdf5::open_group(file, "anomalies", path);
    for (const auto& list : k_number_lists) {
        const auto listed =
            hdf5::read_attribute<std::uint64_t>(anomalies.get(), fmt::format("{}_listed", list.name), path);
        auto numbers = hdf5::read_dataset<std::uint64_t>(anomalies.get(), list.name,
                                                         {frames::Anomalies::k_max_listed}, path);
        if (listed > numbers.size()) {
            throw FormatError(path, -1,
                              fmt::format("attribute {}_listed: found {}, expected at most {}", list.name,
                                          listed, numbers.size()));
        }
        numbers.resize(listed);
        found.*list.numbers = std::move(numbers);
    }
    return found;
}

ResultPosition load_state(hid_t file, const Pedestal& pedestal, const FindOptions& find,
                          const SpectrumOptions& spectrum, const std::string& path) {
    ResultPosition position{.finder = {},
                            .spectrum = Spectrum(spectrum),
                            .hit_map = HitMap(pedestal.shape),
                            .digest = hdf5::read_text(file, "digest", path),
                            .model_digest = hdf5::read_text(file, "model_digest", path),
                            .backend = hdf5::read_text(file, "backend", path),
                            .anomalies = {}};
    const auto number = [&](const char* name) {
        return hdf5::read_attribute<std::uint64_t>(file, name, path);
    };
    auto& finder = position.finder;
    finder.frames = number("frames");
    position.clusters = number("clusters");
    finder.absent = {.absent_value = number("absent_value_pixels"),
                     .gain_bits = number("gain_bits_pixels"),
                     .lost_packets = number("lost_packets_pixels")};
    position.anomalies = read_anomalies(file, path);

    const auto extents = extents_of(pedestal.shape);
    const auto pixels = static_cast<std::size_t>(pedestal.shape.pixels());
    const auto model = hdf5::open_group(file, "model", path);
    if (find.rule == Rule::raster) {
        finder.raster_sum = hdf5::read_dataset<double>(model.get(), "sum", extents, path);
        finder.raster_square = hdf5::read_dataset<double>(model.get(), "square", extents, path);
    } else {
        const Extents all{models(find), extents[0], extents[1]};
        const auto mean = hdf5::read_dataset<float>(model.get(), "mean", all, path);
        const auto variance = hdf5::read_dataset<float>(model.get(), "variance", all, path);
        require_models(mean, variance, path);
        for (std::size_t i = 0; i < models(find); ++i) {
            const auto part = [&](const std::vector<float>& values) {
                const auto first = values.begin() + static_cast<std::ptrdiff_t>(i * pixels);
                return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(pixels));
            };
            finder.models.push_back(
                {.offset = pedestal.model.offset, .mean = part(mean), .variance = part(variance)});
        }
    }
    finder.negatives = hdf5::read_dataset<std::uint32_t>(file, "negatives", extents, path);
    const auto hits = hdf5::read_dataset<std::uint32_t>(file, "hit_map", extents, path);
    std::copy(hits.begin(), hits.end(), position.hit_map.counts().begin());
    const auto group = hdf5::open_group(file, "spectrum", path);
    const auto counts = hdf5::read_dataset<std::uint64_t>(
        group.get(), "counts", {static_cast<hsize_t>(spectrum.spectrum_bins)}, path);
    std::vector<std::uint64_t> every{hdf5::read_attribute<std::uint64_t>(group.get(), "underflow", path)};
    every.insert(every.end(), counts.begin(), counts.end());
    every.push_back(hdf5::read_attribute<std::uint64_t>(group.get(), "overflow", path));
    position.spectrum.set_all(every);
    return position;
}

}  // namespace lightmill::clusters::detail

#include "lightmill/frames/master.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"

namespace lightmill::frames {
namespace {

using nlohmann::json;

constexpr std::int64_t k_unset = 4'294'967'295;  // a region's edge where there is no region
constexpr std::int64_t k_max_ports = 4096;
constexpr std::int64_t k_max_port_edge = 65'536;              // pixels
constexpr std::int64_t k_max_pixels = std::int64_t{1} << 28;  // of a frame
constexpr std::int64_t k_mask_packets = 512;                  // bits of a record's packet mask

constexpr std::array k_detectors{Detector::eiger, Detector::jungfrau, Detector::moench};

// The text of a value as messages show it.
std::string shown(const json& value) {
    auto text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
}

// Reads keys of the master file and blames the right byte where one is wrong.
class Keys {
  public:
    Keys(const std::string& text, const std::string& path) : text_(text), path_(path) {
        try {
            root_ = json::parse(text);
        } catch (const json::exception& error) {  // syntax, or a number that no double holds
            const auto* syntax = dynamic_cast<const json::parse_error*>(&error);
            const std::string_view what =
                error.what();  // "[json.exception.parse_error.101] parse error at …"
            throw FormatError(
                path_, syntax == nullptr ? -1 : static_cast<std::int64_t>(syntax->byte),
                fmt::format("found text that is not JSON ({}), expected a receiver's master file",
                            what.substr(what.find("] ") + 2)));
        }
        if (!root_.is_object()) {
            throw FormatError(path_, 0,
                              fmt::format("found a JSON {}, expected an object with the keys of a receiver's "
                                          "master file",
                                          root_.type_name()));
        }
    }

    const json* find(std::string_view key) const {
        const auto at = root_.find(key);
        return at == root_.end() ? nullptr : &*at;
    }
    const json& need(std::string_view key, std::string_view other = {}) const {
        if (const auto* value = find(key)) return *value;
        if (!other.empty()) {
            if (const auto* value = find(other)) return *value;
        }
        throw FormatError(path_, -1,
                          fmt::format("found no key \"{}\"{}, expected one as versions 7.2 and 8.0 have it",
                                      key, other.empty() ? "" : fmt::format(" nor \"{}\"", other)));
    }
    [[noreturn]] void refuse(std::string_view key, const json& found, std::string_view expected) const {
        const auto at = text_.find(fmt::format("\"{}\"", key));
        throw FormatError(path_, at == std::string::npos ? -1 : static_cast<std::int64_t>(at),
                          fmt::format("key \"{}\": found {}, expected {}", key, shown(found), expected));
    }
    std::int64_t integer(std::string_view key, const json& value, std::int64_t least,
                         std::int64_t most) const {
        const bool fits = value.is_number_unsigned()
                              ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                              : value.is_number_integer();
        if (fits) {
            if (const auto n = value.get<std::int64_t>(); n >= least && n <= most) return n;
        }
        refuse(key, value, fmt::format("a whole number from {} to {}", least, most));
    }
    std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most) const {
        return integer(key, need(key), least, most);
    }
    // A member of an object, as in "Geometry": {"x": 1, "y": 2}.
    std::int64_t member(std::string_view key, const json& object, std::string_view name, std::int64_t least,
                        std::int64_t most) const {
        if (!object.is_object() || !object.contains(name))
            refuse(key, object, fmt::format("an object with a member \"{}\"", name));
        return integer(key, object[std::string(name)], least, most);
    }

    std::optional<Region> region(std::string_view key, const json& value, std::int64_t rows,
                                 std::int64_t columns) const {
        const auto edge = [&](std::string_view name) { return member(key, value, name, -1, k_unset); };
        const std::array edges{edge("xmin"), edge("xmax"), edge("ymin"), edge("ymax")};
        if (std::all_of(edges.begin(), edges.end(), [](auto e) { return e == -1 || e == k_unset; }))
            return {};
        const auto [xmin, xmax, ymin, ymax] = edges;
        if (xmin < 0 || xmin > xmax || xmax >= columns || ymin < 0 || ymin > ymax || ymax >= rows) {
            refuse(key, value,
                   fmt::format("0 <= xmin <= xmax < {} and 0 <= ymin <= ymax < {}, both edges inside",
                               columns, rows));
        }
        return Region{ymin, ymax + 1, xmin, xmax + 1};
    }

  private:
    const std::string& text_;
    const std::string& path_;
    json root_;
};

Detector detector_of(const Keys& keys) {
    const auto& value = keys.need("Detector Type");
    if (value.is_string()) {
        const auto& found = value.get_ref<const std::string&>();
        const auto same = [&](Detector d) {
            return std::ranges::equal(found, name(d), [](unsigned char a, unsigned char b) {
                return std::tolower(a) == std::tolower(b);
            });
        };
        const auto* at = std::ranges::find_if(k_detectors, same);
        if (at != k_detectors.end()) return *at;
    }
    keys.refuse(
        "Detector Type", value,
        "\"Jungfrau\", \"Moench\" or \"Eiger\": the detectors whose images are plain 8- or 16-bit frames");
}

double version_of(const Keys& keys) {
    const auto& value = keys.need("Version");
    if (!value.is_number() || !(value.get<double>() >= 7.0)) {
        keys.refuse(
            "Version", value,
            "7.0 or later (tested with 7.2 and 8.0); convert older runs with the receiver's own tools");
    }
    return value.get<double>();
}

std::int64_t image_bytes(const RawMaster& master) {
    return master.port_shape.pixels() * master.bits / 8;
}

// Ports of one module along rows and columns, in the order in which their numbers run.
std::pair<std::int64_t, std::int64_t> ports_of_module(const RawMaster& master) {
    if (master.detector == Detector::eiger) return {1, 2};
    return {master.udp_interfaces, 1};
}

std::vector<std::int64_t> edges(std::int64_t step, std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> result;
    for (auto at = (first / step + 1) * step; at < last; at += step) result.push_back(at - first);
    return result;
}

bool is_number(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::string_view name(Detector detector) noexcept {
    switch (detector) {
        case Detector::eiger:
            return "Eiger";
        case Detector::jungfrau:
            return "Jungfrau";
        case Detector::moench:
            return "Moench";
    }
    return "unknown";
}

RawMaster parse_master(const std::string& text, const std::string& path) {
    const Keys keys(text, path);
    RawMaster master;
    master.version = version_of(keys);
    master.detector = detector_of(keys);

    const auto& geometry = keys.need("Geometry");
    master.ports_x = keys.member("Geometry", geometry, "x", 1, k_max_ports);
    master.ports_y = keys.member("Geometry", geometry, "y", 1, k_max_ports / master.ports_x);
    const auto& pixels = keys.need("Pixels");
    master.port_shape.columns = keys.member("Pixels", pixels, "x", 1, k_max_port_edge);
    master.port_shape.rows = keys.member("Pixels", pixels, "y", 1, k_max_port_edge);
    const auto rows = master.ports_y * master.port_shape.rows;
    const auto columns = master.ports_x * master.port_shape.columns;
    if (rows * columns > k_max_pixels)
        keys.refuse("Pixels", pixels, fmt::format("at most {} pixels in all ports together", k_max_pixels));

    if (const auto* value = keys.find("Dynamic Range")) {
        const auto bits = keys.integer("Dynamic Range", *value, 1, 64);
        if (bits != 8 && bits != 16)
            keys.refuse("Dynamic Range", *value, "8 or 16 bits: pixels are unsigned 16-bit on delivery");
        master.bits = static_cast<int>(bits);
    }
    if (const auto* value = keys.find("Number of UDP Interfaces"))
        master.udp_interfaces = static_cast<int>(keys.integer("Number of UDP Interfaces", *value, 1, 2));
    if (const auto* value = keys.find("Ten Giga"); value != nullptr && master.detector == Detector::eiger)
        master.ten_giga =
            value->is_boolean() ? value->get<bool>() : keys.integer("Ten Giga", *value, 0, 1) == 1;
    if (const auto* value = keys.find("Quad")) {
        if (*value != 0 && *value != false) keys.refuse("Quad", *value, "0: quad geometry is not supported");
    }
    if (const auto* value = keys.find("Analog Samples"); value && master.detector == Detector::moench)
        keys.refuse("Analog Samples", *value,
                    "no such key: Moench images in readout order are not supported");
    const auto [module_rows, module_columns] = ports_of_module(master);
    if (master.ports_y % module_rows != 0 || master.ports_x % module_columns != 0) {
        keys.refuse("Geometry", geometry,
                    fmt::format("whole modules of {} × {} ports", module_rows, module_columns));
    }

    if (const auto* value = keys.find("Receiver Rois")) {
        if (!value->is_array()) keys.refuse("Receiver Rois", *value, "an array of regions");
        if (value->size() > 1) {
            keys.refuse("Receiver Rois", *value,
                        "one region: several have no single image; read each region's run by itself");
        }
        if (!value->empty()) master.roi = keys.region("Receiver Rois", value->front(), rows, columns);
    } else if (const auto* single = keys.find("Receiver Roi")) {
        master.roi = keys.region("Receiver Roi", *single, rows, columns);
    }

    const auto& image = keys.need("Image Size in bytes", "Image Size");
    const auto* image_key =
        keys.find("Image Size in bytes") != nullptr ? "Image Size in bytes" : "Image Size";
    const auto bytes = keys.integer(image_key, image, 0, INT64_MAX);
    // Where there is a region, versions differ in whose size this is.
    if (!master.roi && bytes != image_bytes(master)) {
        keys.refuse(image_key, image,
                    fmt::format("{}: {} × {} pixels of {} bits", image_bytes(master), master.port_shape.rows,
                                master.port_shape.columns, master.bits));
    }
    if (packets_per_image(master) > k_mask_packets) {
        keys.refuse("Pixels", pixels,
                    fmt::format("at most {} packets of {} bytes in an image, the bits of a packet mask",
                                k_mask_packets, packet_bytes(master)));
    }
    if (const auto* value = keys.find("Max Frames Per File")) {
        master.max_frames_per_file =
            static_cast<std::uint64_t>(keys.integer("Max Frames Per File", *value, 0, INT64_MAX));
    }
    if (const auto* value = keys.find("Frames in File")) {
        master.frames_in_file =
            static_cast<std::uint64_t>(keys.integer("Frames in File", *value, 0, INT64_MAX));
    }
    return master;
}

RawMaster read_master(const std::string& path) {
    return parse_master(read_file(path, std::int64_t{16} << 20), path);
}

std::int64_t packet_bytes(const RawMaster& master) noexcept {
    switch (master.detector) {
        case Detector::jungfrau:
            return 8192;
        case Detector::moench:
            return 6400;
        case Detector::eiger:
            return master.ten_giga ? 4096 : 1024;
    }
    return 8192;
}

std::int64_t packets_per_image(const RawMaster& master) noexcept {
    return (image_bytes(master) + packet_bytes(master) - 1) / packet_bytes(master);
}

RawLayout layout(const RawMaster& master) {
    const auto [port_rows, port_columns] = master.port_shape;
    const Region region =
        master.roi.value_or(Region{0, master.ports_y * port_rows, 0, master.ports_x * port_columns});
    const auto [step_rows, step_columns] = ports_of_module(master);

    RawLayout result;
    result.shape = {region.last_row - region.first_row, region.last_column - region.first_column};
    std::int64_t index = 0;
    const auto place = [&](std::int64_t grid_row, std::int64_t grid_column) {
        const auto top = grid_row * port_rows;
        const auto left = grid_column * port_columns;
        const auto first_row = std::max(top, region.first_row);
        const auto last_row = std::min(top + port_rows, region.last_row);
        const auto first_column = std::max(left, region.first_column);
        const auto last_column = std::min(left + port_columns, region.last_column);
        RawPort port;
        port.index = index++;
        if (first_row >= last_row || first_column >= last_column) return;
        port.port_row = grid_row;
        port.port_column = grid_column;
        port.first_row = first_row - region.first_row;
        port.first_column = first_column - region.first_column;
        port.shape = {last_row - first_row, last_column - first_column};
        port.flipped = master.detector == Detector::eiger && grid_row % 2 == 0;
        port.skipped_rows = port.flipped ? top + port_rows - last_row : first_row - top;
        port.skipped_columns = first_column - left;
        result.ports.push_back(port);
    };
    // Port numbers run through a module first, then down a column of modules, then to the next column.
    for (std::int64_t column = 0; column < master.ports_x; column += step_columns) {
        for (std::int64_t row = 0; row < master.ports_y; row += step_rows) {
            for (std::int64_t r = 0; r < step_rows; ++r) {
                for (std::int64_t c = 0; c < step_columns; ++c) place(row + r, column + c);
            }
        }
    }
    // An Eiger module is two of its half modules, one above the other.
    const auto module_rows = port_rows * (master.detector == Detector::eiger ? 2 : step_rows);
    result.module_rows = edges(module_rows, region.first_row, region.last_row);
    result.module_columns = edges(port_columns * step_columns, region.first_column, region.last_column);
    return result;
}

std::string RawName::subfile(std::int64_t port, std::uint64_t subfile) const {
    return fmt::format("{}/{}_d{}_f{}_{}.raw", folder, base, port, subfile, acquisition);
}

std::map<std::int64_t, std::vector<std::uint64_t>> find_subfiles(const RawName& name) {
    std::map<std::int64_t, std::vector<std::uint64_t>> found;
    const auto start = name.base + "_d";
    std::error_code error;
    auto entry = std::filesystem::directory_iterator(name.folder, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const auto file = entry->path().filename().string();
        if (!file.starts_with(start)) continue;
        const char* end = file.data() + file.size();
        std::int64_t port = 0;
        std::uint64_t index = 0;
        const auto after_port = std::from_chars(file.data() + start.size(), end, port);
        if (after_port.ec != std::errc{} || end - after_port.ptr < 2) continue;
        const auto after_index = std::from_chars(after_port.ptr + 2, end, index);
        if (after_index.ec != std::errc{}) continue;
        // Anything that is not exactly such a name is another file.
        if (std::filesystem::path(name.subfile(port, index)).filename() == file) found[port].push_back(index);
    }
    if (error) throw IoError(name.folder, "list folder", error.value());
    for (auto& [port, indices] : found) std::ranges::sort(indices);
    return found;
}

RawName parse_raw_name(const std::string& master_path) {
    const std::filesystem::path path(master_path);
    RawName result;
    result.folder = path.parent_path().empty() ? "." : path.parent_path().string();
    const auto stem = path.stem().string();
    constexpr std::string_view k_mark = "_master_";
    const auto at = stem.rfind(k_mark);
    if (at != std::string::npos) {
        result.base = stem.substr(0, at);
        result.acquisition = stem.substr(at + k_mark.size());
    }
    if (path.extension() != ".json" || !is_number(result.acquisition)) {
        throw FormatError(
            master_path, -1,
            fmt::format("found the name \"{}\", expected <base>_master_<number>.json: the names of "
                        "the data files follow from it",
                        path.filename().string()));
    }
    return result;
}

}  // namespace lightmill::frames

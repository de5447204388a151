#include "lightmill/frames/raw_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "lightmill/base/error.hpp"

namespace lightmill::frames {
namespace {

std::size_t to_size(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

RawMaster describe(const Shape& detector, const RawWriteOptions& options) {
    if (options.bits != 8 && options.bits != 16)
        throw OptionError("bits", fmt::format("{}", options.bits), "8 or 16");
    if (options.ports_x < 1 || options.ports_y < 1 || detector.rows < 1 || detector.columns < 1 ||
        detector.rows % options.ports_y != 0 || detector.columns % options.ports_x != 0) {
        throw OptionError("ports",
                          fmt::format("{} × {} ports (rows × columns) of a detector of {} × {} pixels",
                                      options.ports_y, options.ports_x, detector.rows, detector.columns),
                          "at least one of each, and pixels that divide into equal ports");
    }
    RawMaster master;
    master.version = options.version_8 ? 8.0 : 7.2;
    master.detector = options.detector;
    master.ports_x = options.ports_x;
    master.ports_y = options.ports_y;
    master.port_shape = {detector.rows / options.ports_y, detector.columns / options.ports_x};
    master.bits = options.bits;
    master.udp_interfaces = options.udp_interfaces;
    master.max_frames_per_file = options.max_frames_per_file;
    master.roi = options.roi;
    return master;
}

}  // namespace

RawWriter::RawWriter(const std::string& master_path, const Shape& detector, const RawWriteOptions& options)
    : path_(master_path),
      name_(parse_raw_name(master_path)),
      options_(options),
      master_(describe(detector, options)) {
    // What the reader would refuse is refused before anything is written.
    master_ = parse_master(master_text(), path_);
    layout_ = frames::layout(master_);
    require_writable(path_, options.overwrite);
    for (const auto& [port, indices] : find_subfiles(name_)) {
        for (auto index : indices) {
            const auto file = name_.subfile(port, index);
            if (!options.overwrite) {
                throw IoError(file, "create run", EEXIST,
                              "a data file of such a run is there; give --overwrite, or another name");
            }
            if (::unlink(file.c_str()) != 0) throw IoError(file, "remove", errno);
        }
    }
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT) throw IoError(path_, "remove", errno);
    for (const auto& place : layout_.ports) {
        ports_.emplace_back();
        ports_.back().place = place;
    }
}

RawWriter::~RawWriter() {
    for (const auto& port : ports_) {
        if (!port.path.empty()) ::unlink(partial_path(port.path).c_str());
    }
}

void RawWriter::open_next(Port& port) {
    port.path = name_.subfile(port.place.index, port.next_subfile++);
    const auto partial = partial_path(port.path);
    port.file = FileDescriptor(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!port.file.is_open()) throw IoError(partial, "create", errno);
    port.frames_in_file = 0;
}

void RawWriter::close(Port& port) {
    port.file.close();
    if (::rename(partial_path(port.path).c_str(), port.path.c_str()) != 0)
        throw IoError(port.path, "rename", errno);
    port.path.clear();
}

void RawWriter::write(std::uint64_t number, std::span<const Pixel> pixels, const RawLosses& losses) {
    if (finished_)
        throw Error(ErrorCode::state, path_ + ": found a frame after finish(), expected none", path_);
    if (pixels.size() != to_size(layout_.shape.pixels())) {
        throw Error(ErrorCode::range,
                    fmt::format("{}: found a frame of {} pixels, expected {} × {}", path_, pixels.size(),
                                layout_.shape.rows, layout_.shape.columns),
                    path_);
    }
    for (auto& port : ports_) {
        if (std::ranges::find(losses.ports, port.place.index) != losses.ports.end()) continue;
        if (!port.path.empty() && port.frames_in_file == options_.max_frames_per_file &&
            options_.max_frames_per_file > 0)
            close(port);
        if (port.path.empty()) open_next(port);

        RawHeader header;
        header.frame_number = number;
        header.exposure_length = 100;
        header.timestamp = number * 10'000;
        header.module_id = static_cast<std::uint16_t>(port.place.index / options_.udp_interfaces);
        header.row = static_cast<std::uint16_t>(port.place.port_row);
        header.column = static_cast<std::uint16_t>(port.place.port_column);
        header.detector_type = static_cast<std::uint8_t>(master_.detector);
        for (std::int64_t i = 0; i < packets_per_image(master_); ++i)
            header.packets[to_size(i / 8)] |= static_cast<std::uint8_t>(1U << (i % 8));
        header.packet_number = static_cast<std::uint32_t>(packets_per_image(master_));

        record_.resize(sizeof header + to_size(port.place.shape.pixels() * master_.bits / 8));
        std::memcpy(record_.data(), &header, sizeof header);
        write_image(port, pixels, std::span(record_).subspan(sizeof header));
        drop_packets(port, losses, record_);
        write_all(port.file, partial_path(port.path), record_);
        ++port.frames_in_file;
        ++port.frames;
    }
    ++frames_;
}

void RawWriter::write_image(const Port& port, std::span<const Pixel> pixels, std::span<std::byte> out) const {
    const auto& place = port.place;
    auto* to = out.data();
    for (std::int64_t r = 0; r < place.shape.rows; ++r) {
        const auto row = place.first_row + (place.flipped ? place.shape.rows - 1 - r : r);
        const auto from = pixels.subspan(to_size(row * layout_.shape.columns + place.first_column),
                                         to_size(place.shape.columns));
        if (master_.bits == 16) {
            std::memcpy(to, from.data(), from.size_bytes());
            to += from.size_bytes();
            continue;
        }
        for (auto pixel : from) {
            if (pixel > 255) {
                throw Error(
                    ErrorCode::range,
                    fmt::format("{}: found a pixel of {}, expected at most 255 in 8 bits; write 16 bits",
                                path_, pixel),
                    path_);
            }
            *to++ = static_cast<std::byte>(pixel);
        }
    }
}

void RawWriter::drop_packets(const Port& port, const RawLosses& losses, std::span<std::byte> record) const {
    RawHeader header;
    std::memcpy(&header, record.data(), sizeof header);
    const auto pixel_bytes = master_.bits / 8;
    const auto& place = port.place;
    for (const auto& lost : losses.packets) {
        if (lost.port != place.index) continue;
        if (lost.packet < 0 || lost.packet >= packets_per_image(master_)) {
            throw OptionError("lost packet", fmt::format("{}", lost.packet),
                              fmt::format("0 to {}", packets_per_image(master_) - 1));
        }
        auto& byte = header.packets[to_size(lost.packet / 8)];
        const auto bit = static_cast<std::uint8_t>(1U << (lost.packet % 8));
        if ((byte & bit) == 0) continue;
        byte = static_cast<std::uint8_t>(byte & ~bit);
        --header.packet_number;
        if (!options_.padding) continue;
        for (std::int64_t r = 0; r < place.shape.rows; ++r) {
            for (std::int64_t c = 0; c < place.shape.columns; ++c) {
                const auto in_port =
                    (place.skipped_rows + r) * master_.port_shape.columns + place.skipped_columns + c;
                if (in_port * pixel_bytes / packet_bytes(master_) != lost.packet) continue;
                const auto stored = r * place.shape.columns + c;
                std::memset(record.data() + sizeof header + stored * pixel_bytes, 0xFF, to_size(pixel_bytes));
            }
        }
    }
    std::memcpy(record.data(), &header, sizeof header);
}

std::string RawWriter::master_text() const {
    using json = nlohmann::ordered_json;
    constexpr std::int64_t k_unset = 4'294'967'295;
    json region{{"xmin", k_unset}, {"xmax", k_unset}, {"ymin", k_unset}, {"ymax", k_unset}};
    if (const auto& roi = options_.roi) {
        region = json{{"xmin", roi->first_column},
                      {"xmax", roi->last_column - 1},
                      {"ymin", roi->first_row},
                      {"ymax", roi->last_row - 1}};
    }
    const bool v8 = options_.version_8;
    json text;
    text["Version"] = v8 ? 8.0 : 7.2;
    text["Timestamp"] = options_.timestamp;
    text["Detector Type"] = name(master_.detector);
    text["Timing Mode"] = "auto";
    text["Geometry"] = {{"x", master_.ports_x}, {"y", master_.ports_y}};
    text[v8 ? "Image Size" : "Image Size in bytes"] = master_.port_shape.pixels() * master_.bits / 8;
    text["Pixels"] = {{"x", master_.port_shape.columns}, {"y", master_.port_shape.rows}};
    text["Max Frames Per File"] = options_.max_frames_per_file;
    text["Frame Discard Policy"] = "nodiscard";
    text["Frame Padding"] = options_.padding ? 1 : 0;
    if (v8) {
        text["Scan Parameters"] = {{"enable", 0},      {"dacInd", 0},    {"start offset", 0},
                                   {"stop offset", 0}, {"step size", 0}, {"dac settle time ns", 0}};
    } else {
        text["Scan Parameters"] = "[disabled]";
    }
    text["Total Frames"] = frames_;
    if (v8) {
        text["Receiver Rois"] = json::array({region});
    } else {
        text["Receiver Roi"] = region;
    }
    text[v8 ? "Exposure Time" : "Exptime"] = "10us";
    text[v8 ? "Acquisition Period" : "Period"] = "1ms";
    if (master_.bits != 16) text["Dynamic Range"] = master_.bits;
    text["Number of UDP Interfaces"] = options_.udp_interfaces;
    text["Number of rows"] = master_.port_shape.rows * options_.udp_interfaces;
    text["Frames in File"] = ports_.empty() ? 0 : ports_.front().frames;
    text["Frame Header Format"] = {{"Frame Number", "8 bytes"},
                                   {"SubFrame Number/ExpLength", "4 bytes"},
                                   {"Packet Number", "4 bytes"},
                                   {v8 ? "Detector Specific 1" : "Bunch ID", "8 bytes"},
                                   {"Timestamp", "8 bytes"},
                                   {"Module Id", "2 bytes"},
                                   {"Row", "2 bytes"},
                                   {"Column", "2 bytes"},
                                   {v8 ? "Detector Specific 2" : "Reserved", "2 bytes"},
                                   {v8 ? "Detector Specific 3" : "Debug", "4 bytes"},
                                   {v8 ? "Detector Specific 4" : "Round Robin Number", "2 bytes"},
                                   {"Detector Type", "1 byte"},
                                   {"Header Version", "1 byte"},
                                   {"Packets Caught Mask", "64 bytes"}};
    return text.dump(4);
}

void RawWriter::finish() {
    if (finished_) return;
    for (auto& port : ports_) {
        // A port that saw no frame has one empty data file, as the receiver leaves it.
        if (port.path.empty() && port.next_subfile == 0) open_next(port);
        if (!port.path.empty()) close(port);
    }
    write_file(path_, master_text());
    finished_ = true;
}

}  // namespace lightmill::frames

#pragma once
// The master file of an slsDetector receiver run (JSON, versions 7 and 8), and what follows from it:
// where each UDP port's image lies in the frame. docs/formats/raw.md describes the format.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/frames/source.hpp"

namespace lightmill::frames {

// Values are those of the receiver's record headers.
enum class Detector : std::uint8_t { eiger = 1, jungfrau = 3, moench = 5 };
[[nodiscard]] std::string_view name(Detector detector) noexcept;  // as the master file writes it

struct RawMaster {
    double version = 7.2;
    Detector detector = Detector::jungfrau;
    std::int64_t ports_x = 1, ports_y = 1;        // UDP ports along columns, along rows
    Shape port_shape;                             // of one port's whole image
    int bits = 16;                                // of a pixel: 8 or 16
    int udp_interfaces = 1;                       // per module; 2 split a module in an upper and a lower port
    bool ten_giga = true;                         // Eiger: 4096 data bytes a packet, else 1024
    std::uint64_t max_frames_per_file = 0;        // 0: no limit
    std::optional<std::uint64_t> frames_in_file;  // frames that the first receiver wrote
    std::optional<Region> roi;                    // of the whole detector
};

// Throws FormatError (file, byte) naming the key, what was found and what was expected.
[[nodiscard]] RawMaster parse_master(const std::string& text, const std::string& path);
[[nodiscard]] RawMaster read_master(const std::string& path);

// Data bytes of one UDP packet.
[[nodiscard]] std::int64_t packet_bytes(const RawMaster& master) noexcept;
// Packets that carry one port's whole image.
[[nodiscard]] std::int64_t packets_per_image(const RawMaster& master) noexcept;

// One UDP port: its files hold the part of its image that lies in the region of interest.
struct RawPort {
    std::int64_t index = 0;                              // the number after _d in file names
    std::int64_t port_row = 0, port_column = 0;          // in the grid of ports
    std::int64_t first_row = 0, first_column = 0;        // of the stored part, in the delivered frame
    Shape shape;                                         // of the stored part
    std::int64_t skipped_rows = 0, skipped_columns = 0;  // of the whole image before the stored part
    bool flipped = false;                                // rows are stored from the last to the first
    friend bool operator==(const RawPort&, const RawPort&) = default;
};

struct RawLayout {
    Shape shape;                 // of the delivered frame: the region of interest, else the detector
    std::vector<RawPort> ports;  // those that have pixels in it, by index
    std::vector<std::int64_t> module_rows, module_columns;  // as Description has them
};
[[nodiscard]] RawLayout layout(const RawMaster& master);

// The parts of "<folder>/<base>_master_<acquisition>.json". Throws FormatError where the name differs.
struct RawName {
    std::string folder;  // "." where the path has none
    std::string base;
    std::string acquisition;
    [[nodiscard]] std::string subfile(std::int64_t port, std::uint64_t subfile) const;  // path
};
[[nodiscard]] RawName parse_raw_name(const std::string& master_path);

// The data files of a run that are on disk: port → numbers of its sub-files, ascending. Throws IoError.
[[nodiscard]] std::map<std::int64_t, std::vector<std::uint64_t>> find_subfiles(const RawName& name);

}  // namespace lightmill::frames

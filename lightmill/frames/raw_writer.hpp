#pragma once
// Writes runs as an slsDetector receiver does: a master file and data files per UDP port. For the
// simulator and for tests; docs/formats/raw.md.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lightmill/base/file.hpp"
#include "lightmill/frames/master.hpp"
#include "lightmill/frames/raw.hpp"

namespace lightmill::frames {

struct RawWriteOptions {
    Detector detector = Detector::jungfrau;
    std::int64_t ports_x = 1, ports_y = 1;  // the detector is cut into that many equal ports
    int udp_interfaces = 1;                 // 2: a module is an upper and a lower port
    int bits = 16;                          // of a stored pixel, 8 or 16
    bool version_8 = false;                 // master file with the keys of version 8.0, else 7.2
    bool padding = true;                    // fill pixels of lost packets with ones
    std::uint64_t max_frames_per_file = 10'000;
    std::optional<Region> roi;  // of the detector: only this part is given and stored
    std::string timestamp = "Thu Jan  1 00:00:00 1970";
    bool overwrite = false;
};

struct LostPacket {
    std::int64_t port = 0;
    std::int64_t packet = 0;
};

// What goes wrong on the way of one frame.
struct RawLosses {
    std::vector<LostPacket> packets;
    std::vector<std::int64_t> ports;  // that write no record of this frame
};

class RawWriter {
  public:
    // detector: its whole shape. Throws OptionError where it cannot be cut into ports, IoError where
    // files of this run exist (unless overwritten: then all of them go first) or cannot be made.
    RawWriter(const std::string& master_path, const Shape& detector, const RawWriteOptions& options);
    RawWriter(const RawWriter&) = delete;
    RawWriter& operator=(const RawWriter&) = delete;
    // Without finish() the run has no master file, and unfinished data files are removed.
    ~RawWriter();

    // pixels: (rows, columns) of the region of interest, else of the detector. Throws Error (range) for
    // a pixel that does not fit 8 bits.
    void write(std::uint64_t number, std::span<const Pixel> pixels, const RawLosses& losses = {});
    // Writes the master file: from here on the run is there.
    void finish();

    [[nodiscard]] const RawLayout& layout() const noexcept { return layout_; }

  private:
    struct Port {
        RawPort place;
        FileDescriptor file;
        std::string path;  // of the open data file; empty where none is open
        std::uint64_t next_subfile = 0;
        std::uint64_t frames_in_file = 0;
        std::uint64_t frames = 0;
    };

    void open_next(Port& port);
    void close(Port& port);
    void write_image(const Port& port, std::span<const Pixel> pixels, std::span<std::byte> out) const;
    void drop_packets(const Port& port, const RawLosses& losses, std::span<std::byte> record) const;
    [[nodiscard]] std::string master_text() const;

    std::string path_;
    RawName name_;
    RawWriteOptions options_;
    RawMaster master_;
    RawLayout layout_;
    std::vector<Port> ports_;
    std::vector<std::byte> record_;
    std::uint64_t frames_ = 0;
    bool finished_ = false;
};

}  // namespace lightmill::frames

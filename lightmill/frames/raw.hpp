#pragma once
// slsDetector receiver files: a master file and, for each UDP port, a series of data files.
// docs/formats/raw.md describes them.

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "lightmill/frames/source.hpp"

namespace lightmill::frames {

// Stands before each image in a data file; little-endian, without padding.
struct RawHeader {
    std::uint64_t frame_number = 0;
    std::uint32_t exposure_length = 0;  // 100 ns
    std::uint32_t packet_number = 0;    // packets caught of this image
    std::uint64_t detector_specific_1 = 0;
    std::uint64_t timestamp = 0;  // 100 ns
    std::uint16_t module_id = 0;
    std::uint16_t row = 0, column = 0;  // of the port in the grid of ports
    std::uint16_t detector_specific_2 = 0;
    std::uint32_t detector_specific_3 = 0;
    std::uint16_t detector_specific_4 = 0;
    std::uint8_t detector_type = 0;  // see Detector in master.hpp
    std::uint8_t version = 2;
    std::array<std::uint8_t, 64> packets{};  // bit i % 8 of byte i / 8: packet i was caught
    friend bool operator==(const RawHeader&, const RawHeader&) = default;
};
static_assert(sizeof(RawHeader) == 112);

// What fills pixels of packets that never came.
inline constexpr Pixel k_raw_absent = 65535;

// Opens "<base>_master_<acquisition>.json" and finds its data files beside it. Data files are opened
// when they are read, k_raw_open_files of them at most at a time. Ports are brought together by frame
// number; what a port lost is delivered as k_raw_absent and counted in FrameInfo::lost_pixels.
[[nodiscard]] std::unique_ptr<Source> open_raw(const std::string& master_path);
inline constexpr std::size_t k_raw_open_files = 16;

}  // namespace lightmill::frames

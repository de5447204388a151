#pragma once
// Follows the frame numbers of a file and tells which are missing, repeated or out of order.

#include <cstdint>
#include <map>
#include <span>

#include "lightmill/frames/source.hpp"

namespace lightmill::frames {

// Takes the frames as they are read. Frames that were read before are not counted again; frames that
// the reader jumps over are not called missing.
class FrameNumbers {
  public:
    // The frames first, first + 1, … of the file.
    void see(std::uint64_t first, std::span<const FrameInfo> infos);
    [[nodiscard]] Anomalies anomalies() const;

  private:
    void see_next(std::uint64_t number);

    // Gaps beyond this many are settled as missing, the oldest first: a frame that comes so late
    // counts as repeated. Bounds the memory where every other frame is lost.
    static constexpr std::size_t k_max_gaps = 100'000;

    bool any_ = false;
    std::uint64_t end_ = 0;                           // index after the last frame seen
    std::uint64_t lowest_ = 0, highest_ = 0;          // numbers seen
    std::map<std::uint64_t, std::uint64_t> gaps_;     // first → last number that has not come
    std::map<std::uint64_t, std::uint64_t> settled_;  // gaps given up, as far as they are listed
    std::uint64_t settled_frames_ = 0;
    Anomalies found_;  // its missing ones are filled in on request
};

// Throws Error (range) unless first + count <= description.count: the precondition of Source::read.
void require_inside(const Description& description, std::uint64_t first, std::uint64_t count);

// Adds b to a, as for files read one after another.
void add(Anomalies& a, const Anomalies& b);

}  // namespace lightmill::frames

#pragma once
// Into how many frames a run is cut for each call of the finder.

#include <algorithm>
#include <cstdint>

#include "lightmill/clusters/find/options.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters::detail {

// Frames after which all models have learned.
inline std::uint64_t epoch_frames(const FindOptions& find) noexcept {
    return static_cast<std::uint64_t>(find.epoch * find.streams);
}

// Large enough that starting the finder's threads does not count, small enough that three blocks and
// three results stay far below 400 MB. Whole epochs where they fit.
inline std::uint64_t block_frames(const frames::Shape& shape, const FindOptions& find) noexcept {
    const std::uint64_t bytes = find.window.cells() > 81 ? 4 << 20 : 8 << 20;
    const auto frames = std::max<std::uint64_t>(
        bytes / (static_cast<std::uint64_t>(shape.pixels()) * sizeof(frames::Pixel)), 1);
    const auto epoch = epoch_frames(find);
    return frames < epoch ? frames : frames - frames % epoch;
}

// From frame `first` on: a block, but not across the end of an epoch that is longer than a block.
inline std::uint64_t next_count(std::uint64_t first, std::uint64_t total, std::uint64_t block,
                                const FindOptions& find) noexcept {
    const auto epoch = epoch_frames(find);
    const auto left = std::min(block, total - first);
    return epoch > block ? std::min(left, epoch - first % epoch) : left;
}

}  // namespace lightmill::clusters::detail

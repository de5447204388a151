#pragma once
// The hit map: how many clusters have their centre in each pixel.

#include <cstdint>
#include <span>
#include <vector>

#include "lightmill/clusters/find/batch.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters {

// Counts (rows × columns). A pixel is the centre of one cluster a frame at most, so a count is also the
// number of frames in which the pixel fired.
class HitMap {
  public:
    explicit HitMap(const frames::Shape& shape);

    void add(const ClustersView& clusters) noexcept;
    // Throws Error(state) where the shapes differ.
    void merge(const HitMap& other);

    [[nodiscard]] const frames::Shape& shape() const noexcept { return shape_; }
    [[nodiscard]] std::span<const std::uint32_t> counts() const noexcept { return counts_; }
    [[nodiscard]] std::span<std::uint32_t> counts() noexcept { return counts_; }

  private:
    frames::Shape shape_;
    std::vector<std::uint32_t> counts_;
};

// A pixel that fired or was negative in more than a tenth of the frames: a baseline that jumped never
// recovers by itself. Fewer than ten times do not count: in a short run they are chance.
struct HotPixel {
    std::int64_t row = 0, column = 0;
    std::uint64_t fired = 0, negative = 0;  // frames
    friend bool operator==(const HotPixel&, const HotPixel&) = default;
};
// fired, negatives: (rows × columns). In raster order.
[[nodiscard]] std::vector<HotPixel> hot_pixels(const frames::Shape& shape, std::uint64_t frames,
                                               std::span<const std::uint32_t> fired,
                                               std::span<const std::uint32_t> negatives);

}  // namespace lightmill::clusters

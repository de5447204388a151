#include "lightmill/clusters/reduce/hit_map.hpp"

#include "lightmill/base/error.hpp"

namespace lightmill::clusters {

HitMap::HitMap(const frames::Shape& shape)
    : shape_(shape), counts_(static_cast<std::size_t>(shape.pixels()), 0) {}

void HitMap::add(const ClustersView& clusters) noexcept {
    const auto columns = static_cast<std::size_t>(shape_.columns);
    for (std::size_t i = 0; i < clusters.clusters(); ++i) {
        ++counts_[clusters.rows[i] * columns + clusters.columns[i]];
    }
}

void HitMap::merge(const HitMap& other) {
    if (other.shape_ != shape_) {
        throw Error(ErrorCode::state, "hit maps of different shapes cannot be merged", "hit_map");
    }
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::vector<HotPixel> hot_pixels(const frames::Shape& shape, std::uint64_t frames,
                                 std::span<const std::uint32_t> fired,
                                 std::span<const std::uint32_t> negatives) {
    constexpr std::uint64_t k_least = 10;
    std::vector<HotPixel> found;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t column = 0; column < shape.columns; ++column) {
            const auto p = static_cast<std::size_t>(row * shape.columns + column);
            // A pixel is one or the other in a frame.
            const auto times = std::uint64_t{fired[p]} + negatives[p];
            if (times >= k_least && times * 10 > frames) {
                found.push_back({.row = row, .column = column, .fired = fired[p], .negative = negatives[p]});
            }
        }
    }
    return found;
}

}  // namespace lightmill::clusters

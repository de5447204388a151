// Pillow's arithmetic in plain loops.

#include <algorithm>

#include "lightmill/vision/image/resize_internal.hpp"

namespace lightmill::vision::detail {
namespace {

// Sums are taken modulo 2^32, as 32-bit additions of any order give them.
std::uint8_t pixel(std::uint32_t sum) {
    const auto half = std::uint32_t{1} << (k_weight_bits - 1);
    return static_cast<std::uint8_t>(
        std::clamp(static_cast<std::int32_t>(sum + half) >> k_weight_bits, 0, 255));
}

void row_pass(Pixels in, const Axis& axis, View<std::uint8_t, 3> out) {
    for (std::int64_t x = 0; x < out.extent(1); ++x) {
        const auto weights = axis.weights(x, x + 1);
        const auto& w = weights.windows.front();
        for (std::int64_t r = 0; r < out.extent(0); ++r) {
            for (std::int64_t channel = 0; channel < k_channels; ++channel) {
                std::uint32_t sum = 0;
                for (std::int64_t i = 0; i < w.count; ++i)
                    sum += in(r, w.first + i, channel) *
                           static_cast<std::uint32_t>(weights.values[static_cast<std::size_t>(i)]);
                out(r, x, channel) = pixel(sum);
            }
        }
    }
}

void column_pass(Pixels in, const Axis& axis, View<std::uint8_t, 3> out) {
    for (std::int64_t y = 0; y < out.extent(0); ++y) {
        const auto weights = axis.weights(y, y + 1);
        const auto& w = weights.windows.front();
        for (std::int64_t x = 0; x < out.extent(1); ++x) {
            for (std::int64_t channel = 0; channel < k_channels; ++channel) {
                std::uint32_t sum = 0;
                for (std::int64_t i = 0; i < w.count; ++i)
                    sum += in(w.first + i, x, channel) *
                           static_cast<std::uint32_t>(weights.values[static_cast<std::size_t>(i)]);
                out(y, x, channel) = pixel(sum);
            }
        }
    }
}

}  // namespace

ResizeTarget resize_reference() noexcept {
    return {"reference", row_pass, column_pass};
}

}  // namespace lightmill::vision::detail

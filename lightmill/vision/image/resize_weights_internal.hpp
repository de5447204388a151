#pragma once
// The weights of one axis, as Pillow computes them: in binary64, normalised, then rounded to 22 fraction
// bits.

#include <cstdint>
#include <span>
#include <vector>

#include "lightmill/vision/image/resize.hpp"

namespace lightmill::vision::detail {

inline constexpr int k_weight_bits = 22;  // a byte times the weights, with two bits of room, fills 32 bits

// Weights of consecutive output positions.
struct Weights {
    struct Window {
        std::int64_t first = 0;  // input position of the first weight
        std::int64_t count = 0;
        std::int64_t offset = 0;  // of the first weight in `values`
    };
    std::vector<Window> windows;
    std::vector<std::int32_t> values;
};

class Axis {
  public:
    Axis(std::int64_t input, std::int64_t output, Filter filter);
    [[nodiscard]] std::int64_t input() const noexcept { return input_; }
    [[nodiscard]] std::int64_t output() const noexcept { return output_; }
    // Input positions of the widest window.
    [[nodiscard]] std::int64_t window() const noexcept;
    // Input positions that output position i takes in: first and one past the last.
    struct Range {
        std::int64_t first, last;
    };
    [[nodiscard]] Range range(std::int64_t i) const noexcept;
    // Of output positions first … last − 1.
    [[nodiscard]] Weights weights(std::int64_t first, std::int64_t last) const;

  private:
    [[nodiscard]] double centre(std::int64_t i) const noexcept;
    std::int64_t input_, output_;
    Filter filter_;
    double scale_, filter_scale_, support_;
};

}  // namespace lightmill::vision::detail

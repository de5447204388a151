#include "lightmill/vision/image/resize_weights_internal.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lightmill::vision::detail {
namespace {

double sinc(double x) {
    if (x == 0.0) return 1.0;
    x = x * std::numbers::pi;
    return std::sin(x) / x;
}
double lanczos(double x) {
    return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

// Keys' cubic with a = −1/2.
double bicubic(double x) {
    constexpr double a = -0.5;
    x = std::abs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

}  // namespace

// Pillow keeps the input's extent in binary32: above 2^24 pixels an edge it is rounded.
Axis::Axis(std::int64_t input, std::int64_t output, Filter filter)
    : input_(input),
      output_(output),
      filter_(filter),
      scale_(static_cast<double>(static_cast<float>(input)) / static_cast<double>(output)),
      filter_scale_(std::max(scale_, 1.0)),
      support_((filter == Filter::lanczos ? 3.0 : 2.0) * filter_scale_) {}

double Axis::centre(std::int64_t i) const noexcept {
    return (static_cast<double>(i) + 0.5) * scale_;
}

std::int64_t Axis::window() const noexcept {
    return std::min(static_cast<std::int64_t>(2.0 * support_) + 2, input_);
}

Axis::Range Axis::range(std::int64_t i) const noexcept {
    const double c = centre(i);
    return {std::max<std::int64_t>(static_cast<std::int64_t>(c - support_ + 0.5), 0),
            std::min(static_cast<std::int64_t>(c + support_ + 0.5), input_)};
}

Weights Axis::weights(std::int64_t first, std::int64_t last) const {
    Weights out;
    out.windows.reserve(static_cast<std::size_t>(last - first));
    std::vector<double> exact;
    const double step = 1.0 / filter_scale_;
    for (auto i = first; i < last; ++i) {
        const auto [from, to] = range(i);
        const double c = centre(i);
        exact.clear();
        double sum = 0.0;
        for (auto x = from; x < to; ++x) {
            const double at = (static_cast<double>(x) - c + 0.5) * step;
            exact.push_back(filter_ == Filter::lanczos ? lanczos(at) : bicubic(at));
            sum += exact.back();
        }
        out.windows.push_back({from, to - from, static_cast<std::int64_t>(out.values.size())});
        for (double w : exact) {
            if (sum != 0.0) w /= sum;
            constexpr double one = 1 << k_weight_bits;
            out.values.push_back(static_cast<std::int32_t>(w < 0 ? -0.5 + w * one : 0.5 + w * one));
        }
    }
    return out;
}

}  // namespace lightmill::vision::detail

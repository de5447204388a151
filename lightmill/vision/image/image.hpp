#pragma once
// An image in memory: 8-bit RGB, row-major, (rows, columns, 3).

#include <cstddef>
#include <cstdint>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/view.hpp"

namespace lightmill::vision {

inline constexpr std::int64_t k_channels = 3;

// Pixels that an image may have: what Pillow takes for a decompression bomb is one more.
inline constexpr std::int64_t k_max_pixels = 178'956'970;

struct Size {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    friend bool operator==(const Size&, const Size&) = default;
};

// (rows, columns, 3), red first. Pixels that lie elsewhere in memory are used through it without a copy.
using Pixels = View<const std::uint8_t, 3>;

// Owns its pixels. Move-only; not initialised.
class Image {
  public:
    Image() noexcept = default;
    explicit Image(const Size& size)
        : pixels_(static_cast<std::size_t>(size.rows * size.columns * k_channels)), size_(size) {}

    [[nodiscard]] const Size& size() const noexcept { return size_; }
    [[nodiscard]] Pixels view() const noexcept {
        return {pixels_.data(), {size_.rows, size_.columns, k_channels}};
    }
    [[nodiscard]] View<std::uint8_t, 3> view() noexcept {
        return {pixels_.data(), {size_.rows, size_.columns, k_channels}};
    }

  private:
    Buffer<std::uint8_t> pixels_;
    Size size_;
};

}  // namespace lightmill::vision

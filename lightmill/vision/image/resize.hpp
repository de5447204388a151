#pragma once
// Pillow's 8-bit resampling, to the last bit: README.md states its steps.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/vision/image/image.hpp"

namespace lightmill::vision {

enum class Filter { lanczos, bicubic };
[[nodiscard]] std::span<const std::string_view> names(Filter);

// Names that `resize` takes for its backend: this machine's instruction sets, best first, and "reference".
[[nodiscard]] std::vector<std::string_view> resize_backends();

// The image at another size; a copy where the size is the same. backend changes the speed only; "auto" is
// the best. Throws OptionError for a size below 1 or of more than k_max_pixels, an empty image, an unknown
// backend.
[[nodiscard]] Image resize(Pixels image, const Size& size, Filter filter, std::string_view backend = "auto");

}  // namespace lightmill::vision

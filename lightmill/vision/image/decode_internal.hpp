#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lightmill/vision/image/decode.hpp"

namespace lightmill::vision::detail {

// An image as its file stores it, and how to turn it: 1 … 8 as EXIF counts, 1 for not at all.
struct Decoded {
    Image image;
    int orientation = 1;
};

[[nodiscard]] Decoded decode_png(std::span<const std::byte> file, const std::string& name,
                                 const DecodeOptions& options);
[[nodiscard]] Decoded decode_jpeg(std::span<const std::byte> file, const std::string& name,
                                  const DecodeOptions& options);

// Throws FormatError for an image of no pixels or of more than the options allow.
void require_pixels(std::uint64_t rows, std::uint64_t columns, const std::string& name,
                    const DecodeOptions& options);

// The orientation that EXIF data note, with or without their "Exif" preamble; 1 where they note none or are
// not understood: a camera's slip is no reason to lose a picture.
[[nodiscard]] int exif_orientation(std::span<const std::byte> exif);

[[nodiscard]] Image turned(Image image, int orientation);

}  // namespace lightmill::vision::detail

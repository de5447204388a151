#pragma once
// PNG and JPEG files to 8-bit RGB. What becomes of gray, palettes, alpha, CMYK, 16 bits, orientation and
// colour profiles: README.md.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lightmill/base/options.hpp"
#include "lightmill/vision/image/image.hpp"

namespace lightmill::vision {

enum class Alpha { drop, white };
[[nodiscard]] std::span<const std::string_view> names(Alpha);
enum class Exif { apply, ignore };
[[nodiscard]] std::span<const std::string_view> names(Exif);

struct DecodeOptions {
    Alpha alpha = Alpha::drop;               // what becomes of transparency
    Exif exif = Exif::apply;                 // what becomes of the orientation that a camera noted
    std::int64_t max_pixels = k_max_pixels;  // images of more are refused before memory is taken
};

template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, DecodeOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "alpha", .help = "drop transparency, or composite on white"}, options.alpha);
    visit(OptionInfo{.name = "exif", .help = "turn images as their EXIF orientation says, or ignore it"},
          options.exif);
    visit(OptionInfo{.name = "max_pixels",
                     .help = "refuse images of more",
                     .unit = "pixels",
                     .minimum = 1,
                     .maximum = static_cast<double>(k_max_pixels)},
          options.max_pixels);
}

// Decodes a whole file. name: for messages. Throws FormatError for anything but a whole PNG or JPEG image
// within max_pixels; OptionError.
[[nodiscard]] Image decode(std::span<const std::byte> file, const std::string& name,
                           const DecodeOptions& options = {});
// Also throws IoError.
[[nodiscard]] Image decode_file(const std::string& path, const DecodeOptions& options = {});

}  // namespace lightmill::vision

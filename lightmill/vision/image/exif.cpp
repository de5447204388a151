// EXIF is a TIFF file in small: a byte order, the offset of a first directory, entries of 12 bytes (tag,
// type, count, value). TIFF 6.0, section 2; EXIF 2.32, section 4.6.4 A for the orientation.

#include <algorithm>
#include <array>
#include <cstring>

#include "lightmill/vision/image/decode_internal.hpp"

namespace lightmill::vision::detail {
namespace {

class Tiff {
  public:
    explicit Tiff(std::span<const std::byte> bytes)
        : bytes_(bytes), big_endian_(bytes.size() >= 2 && bytes[0] == std::byte{'M'}) {}

    [[nodiscard]] bool holds(std::size_t at, std::size_t size) const {
        return at <= bytes_.size() && size <= bytes_.size() - at;
    }
    // 0 where there are no such bytes.
    [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t size) const {
        if (!holds(at, size)) return 0;
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < size; ++i)
            value =
                value << 8 | std::to_integer<std::uint32_t>(bytes_[at + (big_endian_ ? i : size - 1 - i)]);
        return value;
    }

  private:
    std::span<const std::byte> bytes_;
    bool big_endian_;
};

}  // namespace

int exif_orientation(std::span<const std::byte> exif) {
    constexpr std::array<std::byte, 6> k_preamble{std::byte{'E'}, std::byte{'x'}, std::byte{'i'},
                                                  std::byte{'f'}, std::byte{0},   std::byte{0}};
    if (exif.size() >= k_preamble.size() && std::ranges::equal(exif.first(k_preamble.size()), k_preamble))
        exif = exif.subspan(k_preamble.size());
    if (exif.size() < 8) return 1;
    const bool little = exif[0] == std::byte{'I'} && exif[1] == std::byte{'I'};
    const bool big = exif[0] == std::byte{'M'} && exif[1] == std::byte{'M'};
    const Tiff tiff(exif);
    if ((!little && !big) || tiff.number(2, 2) != 42) return 1;
    const std::size_t directory = tiff.number(4, 4);
    const auto entries = tiff.number(directory, 2);
    for (std::size_t i = 0; i < entries; ++i) {
        constexpr std::uint32_t k_orientation = 0x0112, k_byte = 1, k_short = 3, k_long = 4;
        const auto entry = directory + 2 + 12 * i;
        if (!tiff.holds(entry, 12)) break;
        if (tiff.number(entry, 2) != k_orientation) continue;
        const auto type = tiff.number(entry + 2, 2);
        const std::size_t size = type == k_byte ? 1 : type == k_short ? 2 : type == k_long ? 4 : 0;
        const auto value = tiff.number(entry + 8, size);
        return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return 1;
}

Image turned(Image image, int orientation) {
    if (orientation <= 1 || orientation > 8) return image;
    // Orientations as a transposition, then mirrors of the result: what the first row and column are of the
    // picture as it should be seen.
    const bool transposed = orientation >= 5;
    const bool rows_back = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
    const bool columns_back = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
    const auto from = std::as_const(image).view();
    const auto size = image.size();
    Image out(transposed ? Size{size.columns, size.rows} : size);
    const auto to = out.view();
    const auto rows = out.size().rows, columns = out.size().columns;
    // In squares, since a transposition reads down the columns.
    constexpr std::int64_t k_square = 32;
    const auto turn_square = [&](std::int64_t first_row, std::int64_t first_column) {
        for (auto r = first_row; r < std::min(first_row + k_square, rows); ++r) {
            for (auto c = first_column; c < std::min(first_column + k_square, columns); ++c) {
                const auto y = rows_back ? rows - 1 - r : r;
                const auto x = columns_back ? columns - 1 - c : c;
                std::memcpy(&to(r, c, 0), transposed ? &from(x, y, 0) : &from(y, x, 0), k_channels);
            }
        }
    };
    for (std::int64_t r = 0; r < rows; r += k_square)
        for (std::int64_t c = 0; c < columns; c += k_square) turn_square(r, c);
    return out;
}

}  // namespace lightmill::vision::detail

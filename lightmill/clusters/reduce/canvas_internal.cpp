#include "lightmill/clusters/reduce/canvas_internal.hpp"

#include <png.h>

#include <array>
#include <cstddef>

#include "lightmill/base/error.hpp"

namespace lightmill::clusters::detail {
namespace {

constexpr int k_glyph_width = 5;
constexpr int k_glyph_height = 7;
constexpr int k_advance = k_glyph_width + 1;

// Rows from the top, the lowest five bits from left to right.
using Glyph = std::array<std::uint8_t, k_glyph_height>;
constexpr Glyph k_box{31, 17, 17, 17, 17, 17, 31};
constexpr std::array<Glyph, 95> k_font{{
    {0, 0, 0, 0, 0, 0, 0},        {4, 4, 4, 4, 4, 0, 4},        {10, 10, 10, 0, 0, 0, 0},
    {10, 10, 31, 10, 31, 10, 10}, {4, 15, 20, 14, 5, 30, 4},    {24, 25, 2, 4, 8, 19, 3},
    {12, 18, 20, 8, 21, 18, 13},  {4, 4, 8, 0, 0, 0, 0},        {2, 4, 8, 8, 8, 4, 2},
    {8, 4, 2, 2, 2, 4, 8},        {0, 4, 21, 14, 21, 4, 0},     {0, 4, 4, 31, 4, 4, 0},
    {0, 0, 0, 0, 12, 4, 8},       {0, 0, 0, 31, 0, 0, 0},       {0, 0, 0, 0, 0, 12, 12},
    {0, 1, 2, 4, 8, 16, 0},       {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},
    {14, 17, 1, 2, 4, 8, 31},     {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2},
    {31, 16, 30, 1, 1, 17, 14},   {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},
    {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12},   {0, 12, 12, 0, 12, 12, 0},
    {0, 12, 12, 0, 12, 4, 8},     {2, 4, 8, 16, 8, 4, 2},       {0, 0, 31, 0, 31, 0, 0},
    {8, 4, 2, 1, 2, 4, 8},        {14, 17, 1, 2, 4, 0, 4},      {14, 17, 1, 13, 21, 21, 14},
    {14, 17, 17, 31, 17, 17, 17}, {30, 17, 17, 30, 17, 17, 30}, {14, 17, 16, 16, 16, 17, 14},
    {28, 18, 17, 17, 17, 18, 28}, {31, 16, 16, 30, 16, 16, 31}, {31, 16, 16, 30, 16, 16, 16},
    {14, 17, 16, 23, 17, 17, 15}, {17, 17, 17, 31, 17, 17, 17}, {14, 4, 4, 4, 4, 4, 14},
    {7, 2, 2, 2, 2, 18, 12},      {17, 18, 20, 24, 20, 18, 17}, {16, 16, 16, 16, 16, 16, 31},
    {17, 27, 21, 21, 17, 17, 17}, {17, 17, 25, 21, 19, 17, 17}, {14, 17, 17, 17, 17, 17, 14},
    {30, 17, 17, 30, 16, 16, 16}, {14, 17, 17, 17, 21, 18, 13}, {30, 17, 17, 30, 20, 18, 17},
    {15, 16, 16, 14, 1, 1, 30},   {31, 4, 4, 4, 4, 4, 4},       {17, 17, 17, 17, 17, 17, 14},
    {17, 17, 17, 17, 17, 10, 4},  {17, 17, 17, 21, 21, 21, 10}, {17, 17, 10, 4, 10, 17, 17},
    {17, 17, 17, 10, 4, 4, 4},    {31, 1, 2, 4, 8, 16, 31},     {14, 8, 8, 8, 8, 8, 14},
    {0, 16, 8, 4, 2, 1, 0},       {14, 2, 2, 2, 2, 2, 14},      {4, 10, 17, 0, 0, 0, 0},
    {0, 0, 0, 0, 0, 0, 31},       {8, 4, 2, 0, 0, 0, 0},        {0, 0, 14, 1, 15, 17, 15},
    {16, 16, 22, 25, 17, 17, 30}, {0, 0, 14, 16, 16, 17, 14},   {1, 1, 13, 19, 17, 17, 15},
    {0, 0, 14, 17, 31, 16, 14},   {6, 9, 8, 28, 8, 8, 8},       {15, 17, 17, 17, 15, 1, 14},
    {16, 16, 22, 25, 17, 17, 17}, {4, 0, 12, 4, 4, 4, 14},      {2, 0, 6, 2, 2, 18, 12},
    {16, 16, 18, 20, 24, 20, 18}, {12, 4, 4, 4, 4, 4, 14},      {0, 0, 26, 21, 21, 17, 17},
    {0, 0, 22, 25, 17, 17, 17},   {0, 0, 14, 17, 17, 17, 14},   {30, 17, 17, 17, 30, 16, 16},
    {15, 17, 17, 17, 15, 1, 1},   {0, 0, 22, 25, 16, 16, 16},   {0, 0, 14, 16, 14, 1, 30},
    {8, 8, 28, 8, 8, 9, 6},       {0, 0, 17, 17, 17, 19, 13},   {0, 0, 17, 17, 17, 10, 4},
    {0, 0, 17, 17, 21, 21, 10},   {0, 0, 17, 10, 4, 10, 17},    {17, 17, 17, 17, 15, 1, 14},
    {0, 0, 31, 2, 4, 8, 31},      {2, 4, 4, 8, 4, 4, 2},        {4, 4, 4, 4, 4, 4, 4},
    {8, 4, 4, 2, 4, 4, 8},        {0, 0, 8, 21, 2, 0, 0},
}};

const Glyph& glyph(char character) noexcept {
    return character < ' ' || character > '~' ? k_box : k_font[static_cast<std::size_t>(character - ' ')];
}

// Rows that a character hangs below the line.
int drop(char character) noexcept {
    return std::string_view("gpqy").find(character) == std::string_view::npos ? 0 : 2;
}

// Calls draw(across, down) for each unit square of ink.
template <class Draw>
void ink(std::string_view words, const Draw& draw) noexcept {
    int left = 0;
    for (const char character : words) {
        const auto& shape = glyph(character);
        for (int row = 0; row < k_glyph_height; ++row) {
            for (int column = 0; column < k_glyph_width; ++column) {
                if ((shape[static_cast<std::size_t>(row)] >> (k_glyph_width - 1 - column)) & 1)
                    draw(left + column, row + drop(character));
            }
        }
        left += k_advance;
    }
}

void append(png_structp png, png_bytep bytes, png_size_t size) {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), size);
}
void no_flush(png_structp) {}
[[noreturn]] void fail(png_structp, png_const_charp message) {
    throw Error(ErrorCode::io, std::string("libpng: ") + message, "png");
}

}  // namespace

Canvas::Canvas(int width, int height, Colour background)
    : width_(width),
      height_(height),
      pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), background) {}

void Canvas::dot(int x, int y, Colour colour) noexcept {
    if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
    pixels_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)] =
        colour;
}

void Canvas::fill(int x, int y, int width, int height, Colour colour) noexcept {
    for (int j = y; j < y + height; ++j) {
        for (int i = x; i < x + width; ++i) dot(i, j, colour);
    }
}

void Canvas::frame(int x, int y, int width, int height, Colour colour) noexcept {
    fill(x - 1, y - 1, width + 2, 1, colour);
    fill(x - 1, y + height, width + 2, 1, colour);
    fill(x - 1, y - 1, 1, height + 2, colour);
    fill(x + width, y - 1, 1, height + 2, colour);
}

void Canvas::text(int x, int y, std::string_view words, int scale, Colour colour) noexcept {
    ink(words,
        [&](int across, int down) { fill(x + across * scale, y + down * scale, scale, scale, colour); });
}

void Canvas::text_upwards(int x, int y, std::string_view words, int scale, Colour colour) noexcept {
    ink(words, [&](int across, int down) {
        fill(x + down * scale, y - (across + 1) * scale, scale, scale, colour);
    });
}

int Canvas::text_width(std::string_view words, int scale) noexcept {
    return words.empty() ? 0 : (static_cast<int>(words.size()) * k_advance - 1) * scale;
}

std::string Canvas::png() const {
    std::string bytes;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, fail, nullptr);
    if (png == nullptr) throw Error(ErrorCode::io, "libpng could not be started", "png");
    png_infop info = png_create_info_struct(png);
    try {
        png_set_write_fn(png, &bytes, append, no_flush);
        png_set_IHDR(png, info, static_cast<png_uint_32>(width_), static_cast<png_uint_32>(height_), 8,
                     PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                     PNG_FILTER_TYPE_DEFAULT);
        png_write_info(png, info);
        static_assert(sizeof(Colour) == 3);
        for (int y = 0; y < height_; ++y) {
            png_write_row(
                png, reinterpret_cast<png_const_bytep>(
                         pixels_.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width_)));
        }
        png_write_end(png, nullptr);
    } catch (...) {
        png_destroy_write_struct(&png, &info);
        throw;
    }
    png_destroy_write_struct(&png, &info);
    return bytes;
}

}  // namespace lightmill::clusters::detail

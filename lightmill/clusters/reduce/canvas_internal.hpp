#pragma once
// A picture to draw axes, bars and words on, and to write as PNG. Positions are pixels from the top left.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lightmill::clusters::detail {

struct Colour {
    std::uint8_t red = 0, green = 0, blue = 0;
};

class Canvas {
  public:
    Canvas(int width, int height, Colour background);

    [[nodiscard]] int width() const noexcept { return width_; }
    [[nodiscard]] int height() const noexcept { return height_; }

    // What lies outside the picture is left out.
    void dot(int x, int y, Colour colour) noexcept;
    void fill(int x, int y, int width, int height, Colour colour) noexcept;
    void frame(int x, int y, int width, int height, Colour colour) noexcept;  // one pixel wide, outside

    // (x, y): top left of the text. Characters the font lacks are boxes.
    void text(int x, int y, std::string_view words, int scale, Colour colour) noexcept;
    // Reads from bottom to top; (x, y): its bottom left.
    void text_upwards(int x, int y, std::string_view words, int scale, Colour colour) noexcept;
    [[nodiscard]] static int text_width(std::string_view words, int scale) noexcept;
    [[nodiscard]] static int text_height(int scale) noexcept { return 7 * scale; }

    [[nodiscard]] std::string png() const;

  private:
    int width_, height_;
    std::vector<Colour> pixels_;
};

}  // namespace lightmill::clusters::detail

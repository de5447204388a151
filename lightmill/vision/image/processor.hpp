#pragma once
// From an image to what a vision tower takes: resize, cut into square tiles, normalise; equal to Hugging
// Face's processors on their Pillow backend (README.md).

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/options.hpp"
#include "lightmill/vision/image/image.hpp"
#include "lightmill/vision/image/resize.hpp"

namespace lightmill::vision {

enum class Layout {
    tiles,   // Idefics3, SmolVLM: a grid of tiles and the whole image as a thumbnail
    square,  // SigLIP: the whole image as one square
};
[[nodiscard]] std::span<const std::string_view> names(Layout);

// All of these change the answer.
struct ProcessorOptions {
    Layout layout = Layout::tiles;
    Filter filter = Filter::lanczos;
    std::int64_t tile = 512;           // pixels: the edge of a tile, or of the square
    std::int64_t longest_edge = 2048;  // pixels: layout tiles scales the longer edge to it first
    bool split = true;                 // layout tiles: cut into a grid; else the thumbnail alone
    double rescale = 1.0 / 255.0;      // value = (pixel · rescale − mean) / deviation
    double mean = 0.5;
    double deviation = 0.5;
};

template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, ProcessorOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "layout", .help = "a grid of tiles and a thumbnail, or one square"},
          options.layout);
    visit(OptionInfo{.name = "filter", .help = "resampling filter"}, options.filter);
    visit(
        OptionInfo{.name = "tile", .help = "edge of a tile", .unit = "pixels", .minimum = 1, .maximum = 4096},
        options.tile);
    visit(OptionInfo{.name = "longest_edge",
                     .help = "the longer edge is scaled to it before tiles are cut",
                     .unit = "pixels",
                     .minimum = 1,
                     .maximum = 65536},
          options.longest_edge);
    visit(OptionInfo{.name = "split", .help = "cut into tiles, or take the thumbnail alone"}, options.split);
    visit(OptionInfo{.name = "rescale", .help = "factor from 8-bit pixels", .minimum = 0, .maximum = 1},
          options.rescale);
    visit(OptionInfo{.name = "mean", .help = "subtracted after rescaling", .minimum = -255, .maximum = 255},
          options.mean);
    visit(OptionInfo{.name = "deviation",
                     .help = "divided by last",
                     .minimum = 0,
                     .maximum = 255,
                     .above_minimum = true},
          options.deviation);
}

// Where a tile comes from: a square of `resized`, or all of an image scaled to one tile.
struct Tile {
    bool thumbnail = false;
    std::int64_t row = 0;  // first pixel in the resized image; 0 for the thumbnail
    std::int64_t column = 0;
    friend bool operator==(const Tile&, const Tile&) = default;
};

// What becomes of an image of some size, known without its pixels.
struct Geometry {
    Size scaled;                 // after the first resize; layout square: the image's own
    Size resized;                // after the second resize: whole tiles. The thumbnail is made of this one.
    std::int64_t grid_rows = 0;  // 0 where nothing is cut
    std::int64_t grid_columns = 0;
    std::vector<Tile> tiles;  // row by row, the thumbnail last
    friend bool operator==(const Geometry&, const Geometry&) = default;
};

// Throws OptionError.
[[nodiscard]] Geometry geometry(const ProcessorOptions& options, const Size& image);

// An image's tiles, still 8-bit.
struct Tiles {
    Geometry geometry;
    std::int64_t tile = 0;  // pixels: edge
    Buffer<std::uint8_t> pixels;
    // (tiles, rows, columns, 3)
    [[nodiscard]] View<const std::uint8_t, 4> view() const noexcept {
        return {pixels.data(), {static_cast<std::int64_t>(geometry.tiles.size()), tile, tile, k_channels}};
    }
};

// backend: as for `resize`. Throws OptionError.
[[nodiscard]] Tiles preprocess(Pixels image, const ProcessorOptions& options,
                               std::string_view backend = "auto");

// The tower's input for each value of a pixel, in Hugging Face's own steps: the product in binary64, rounded
// to binary32; difference and quotient in binary32.
[[nodiscard]] std::array<float, 256> normalisation(const ProcessorOptions& options);

}  // namespace lightmill::vision

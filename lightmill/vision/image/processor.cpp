#include "lightmill/vision/image/processor.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace lightmill::vision {
namespace {

// A last bound of Hugging Face's first resize.
constexpr std::int64_t k_longest_edge_cap = 4096;

// Python's int(): towards zero.
std::int64_t whole(double value) {
    return static_cast<std::int64_t>(value);
}

std::int64_t whole_tiles(std::int64_t edge, std::int64_t tile) {
    return (edge + tile - 1) / tile * tile;
}

// The longer edge to `longest`, the other one in proportion and even.
Size scaled_to(const Size& image, std::int64_t longest) {
    const double aspect = static_cast<double>(image.columns) / static_cast<double>(image.rows);
    Size size;
    if (image.columns >= image.rows) {
        size.columns = longest;
        size.rows = whole(static_cast<double>(longest) / aspect);
        size.rows += size.rows % 2;
    } else {
        size.rows = longest;
        size.columns = whole(static_cast<double>(longest) * aspect);
        size.columns += size.columns % 2;
    }
    return {std::max<std::int64_t>(size.rows, 1), std::max<std::int64_t>(size.columns, 1)};
}

Size capped(const Size& image) {
    const double aspect = static_cast<double>(image.columns) / static_cast<double>(image.rows);
    Size size = image;
    if (image.columns >= image.rows && image.columns > k_longest_edge_cap) {
        size.columns = k_longest_edge_cap;
        size.rows = whole(static_cast<double>(size.columns) / aspect);
    } else if (image.rows > image.columns && image.rows > k_longest_edge_cap) {
        size.rows = k_longest_edge_cap;
        size.columns = whole(static_cast<double>(size.rows) * aspect);
    }
    return {std::max<std::int64_t>(size.rows, 1), std::max<std::int64_t>(size.columns, 1)};
}

// The longer edge up to whole tiles, the other one in proportion to that and then up to whole tiles.
Size up_to_tiles(const Size& image, std::int64_t tile) {
    const double aspect = static_cast<double>(image.columns) / static_cast<double>(image.rows);
    Size size;
    if (image.columns >= image.rows) {
        size.columns = whole_tiles(image.columns, tile);
        size.rows = whole_tiles(whole(static_cast<double>(size.columns) / aspect), tile);
    } else {
        size.rows = whole_tiles(image.rows, tile);
        size.columns = whole_tiles(whole(static_cast<double>(size.rows) * aspect), tile);
    }
    return size;
}

void require_image(const Size& image) {
    if (image.rows < 1 || image.columns < 1)
        throw OptionError("image", fmt::format("{} rows × {} columns", image.rows, image.columns),
                          "at least one pixel");
}

}  // namespace

std::span<const std::string_view> names(Layout) {
    static constexpr std::string_view k_names[] = {"tiles", "square"};
    return k_names;
}

Geometry geometry(const ProcessorOptions& options, const Size& image) {
    check_options(options);
    require_image(image);
    Geometry g;
    if (options.layout == Layout::square) {
        g.scaled = g.resized = image;
        g.tiles.push_back({.thumbnail = true});
        return g;
    }
    g.scaled = capped(scaled_to(image, options.longest_edge));
    if (!options.split) {
        g.resized = g.scaled;
        g.tiles.push_back({.thumbnail = true});
        return g;
    }
    g.resized = up_to_tiles(g.scaled, options.tile);
    if (g.resized == Size{options.tile, options.tile}) {
        g.tiles.push_back({});
        return g;
    }
    g.grid_rows = g.resized.rows / options.tile;
    g.grid_columns = g.resized.columns / options.tile;
    for (std::int64_t r = 0; r < g.grid_rows; ++r) {
        for (std::int64_t c = 0; c < g.grid_columns; ++c)
            g.tiles.push_back({.row = r * options.tile, .column = c * options.tile});
    }
    g.tiles.push_back({.thumbnail = true});
    return g;
}

Tiles preprocess(Pixels image, const ProcessorOptions& options, std::string_view backend) {
    const Size size{image.extent(0), image.extent(1)};
    Tiles out{.geometry = geometry(options, size), .tile = options.tile, .pixels = {}};
    const auto& g = out.geometry;
    Image scaled, resized;
    auto current = image;
    if (g.scaled != size) {
        scaled = resize(current, g.scaled, options.filter, backend);
        current = scaled.view();
    }
    if (g.resized != g.scaled) {
        resized = resize(current, g.resized, options.filter, backend);
        scaled = {};
        current = resized.view();
    }
    const auto row_bytes = static_cast<std::size_t>(options.tile * k_channels);
    const auto tile_bytes = row_bytes * static_cast<std::size_t>(options.tile);
    out.pixels = Buffer<std::uint8_t>(tile_bytes * g.tiles.size());
    auto* to = out.pixels.data();
    for (const auto& tile : g.tiles) {
        if (tile.thumbnail) {
            const auto thumbnail = resize(current, {options.tile, options.tile}, options.filter, backend);
            std::memcpy(to, thumbnail.view().data(), tile_bytes);
            to += tile_bytes;
            continue;
        }
        for (std::int64_t r = 0; r < options.tile; ++r, to += row_bytes)
            std::memcpy(to, &current(tile.row + r, tile.column, 0), row_bytes);
    }
    return out;
}

std::array<float, 256> normalisation(const ProcessorOptions& options) {
    check_options(options);
    const auto mean = static_cast<float>(options.mean);
    const auto deviation = static_cast<float>(options.deviation);
    std::array<float, 256> table{};
    for (std::size_t i = 0; i < table.size(); ++i)
        table[i] = (static_cast<float>(static_cast<double>(i) * options.rescale) - mean) / deviation;
    return table;
}

}  // namespace lightmill::vision

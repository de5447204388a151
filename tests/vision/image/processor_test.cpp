// Hugging Face's geometry (fixtures/geometry.txt) and whole images to tiles (fixtures/tiles.txt).

#include "lightmill/vision/image/processor.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "lightmill/base/error.hpp"
#include "tests/vision/image/fixtures.hpp"

namespace lightmill::vision {
namespace {

std::string text(const Size& image, const Geometry& g) {
    std::ostringstream out;
    out << image.rows << ' ' << image.columns << ' ' << g.scaled.rows << ' ' << g.scaled.columns << ' '
        << g.resized.rows << ' ' << g.resized.columns << ' ' << g.grid_rows << ' ' << g.grid_columns;
    return out.str();
}

TEST(Geometry, equals_hugging_face_at_the_named_and_at_200_000_random_sizes) {
    const ProcessorOptions options;
    Sha256 sha;
    std::int64_t count = 0;
    const auto add = [&](const Size& image) {
        const auto line = text(image, geometry(options, image)) + "\n";
        sha.update(line.data(), line.size());
        ++count;
        return line.substr(0, line.size() - 1);
    };
    std::int64_t random = 0;
    for (auto& line : fixture_lines("geometry.txt")) {
        const auto expected = line.str();
        std::string first;
        line >> first;
        if (first != "all") {
            Size image;
            image.rows = std::stoll(first);
            line >> image.columns;
            ASSERT_EQ(add(image), expected);
            if (count > 16) ++random;
            continue;
        }
        std::int64_t all = 0;
        std::string hash;
        line >> all >> hash;
        for (; count < all; ++random)
            add({static_cast<std::int64_t>(1 + splitmix(2, static_cast<std::uint64_t>(2 * random)) % 5000),
                 static_cast<std::int64_t>(1 +
                                           splitmix(2, static_cast<std::uint64_t>(2 * random + 1)) % 5000)});
        EXPECT_GE(all, 200'000);
        EXPECT_EQ(sha.hex().substr(0, 16), hash);
    }
}

TEST(Geometry, tiles_go_row_by_row_and_the_thumbnail_is_last) {
    const auto g = geometry({}, {601, 800});
    EXPECT_EQ(g.scaled, (Size{1538, 2048}));
    EXPECT_EQ(g.resized, (Size{2048, 2048}));
    ASSERT_EQ(g.tiles.size(), 17U);
    EXPECT_EQ(g.tiles[1], (Tile{false, 0, 512}));
    EXPECT_EQ(g.tiles[4], (Tile{false, 512, 0}));
    EXPECT_EQ(g.tiles[16], (Tile{true, 0, 0}));
}

TEST(Geometry, without_a_split_the_thumbnail_is_made_of_the_first_resize) {
    const auto g = geometry({.split = false}, {599, 801});
    EXPECT_EQ(g.resized, g.scaled);
    EXPECT_EQ(g.scaled, (Size{1532, 2048}));
    EXPECT_EQ(g.tiles, std::vector<Tile>{{.thumbnail = true}});
    EXPECT_EQ(g.grid_rows, 0);
}

TEST(Geometry, an_image_within_one_tile_is_not_cut) {
    const auto g = geometry({.longest_edge = 512}, {300, 400});
    EXPECT_EQ(g.resized, (Size{512, 512}));
    EXPECT_EQ(g.tiles, std::vector<Tile>{Tile{}});
}

TEST(Geometry, refuses_options_out_of_range_and_empty_images) {
    EXPECT_THROW((void)geometry({.tile = 0}, {5, 5}), OptionError);
    EXPECT_THROW((void)geometry({.longest_edge = 0}, {5, 5}), OptionError);
    EXPECT_THROW((void)geometry({}, {0, 5}), OptionError);
}

TEST(Preprocess, equals_pillow_in_every_pixel_of_every_tile) {
    for (auto& line : fixture_lines("tiles.txt")) {
        std::string layout, filter, kind, hash;
        ProcessorOptions options;
        Size size;
        std::size_t count = 0;
        line >> layout >> filter >> options.tile >> options.longest_edge >> options.split >> kind >>
            size.rows >> size.columns >> count >> hash;
        ASSERT_TRUE(line) << line.str();
        options.layout = layout == "square" ? Layout::square : Layout::tiles;
        options.filter = filter == "bicubic" ? Filter::bicubic : Filter::lanczos;
        const auto image = picture(kind, size);
        const auto tiles = preprocess(image.view(), options);
        ASSERT_EQ(tiles.geometry.tiles.size(), count) << line.str();
        ASSERT_EQ(tiles.view().size(), static_cast<std::int64_t>(tiles.pixels.size()));
        ASSERT_EQ(short_hash(tiles.view().flat()), hash) << line.str();
    }
}

TEST(Normalisation, follows_hugging_faces_steps) {
    const auto table = normalisation({});
    EXPECT_EQ(table[0], -1.0F);
    EXPECT_EQ(table[255], 1.0F);
    // numpy: (np.float32(np.float64(v) * (1 / 255)) - np.float32(0.5)) / np.float32(0.5)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(table[1]), 0xbf7dfdfeU);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(table[100]), 0xbe5cdcdcU);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(table[128]), 0x3b808100U);
    EXPECT_EQ(short_hash({reinterpret_cast<const std::uint8_t*>(table.data()), sizeof table}),
              "d15e8ce722844464");
}

}  // namespace
}  // namespace lightmill::vision

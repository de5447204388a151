#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/reduce/hit_map.hpp"
#include "lightmill/clusters/reduce/plot.hpp"
#include "lightmill/clusters/reduce/spectrum.hpp"
#include "lightmill/clusters/run/run.hpp"
#include "tests/clusters/run_scene.hpp"

namespace lightmill::clusters {
namespace {

// Clusters whose residuals add up to the given sums, in many ways.
Clusters clusters_with(const std::vector<std::int64_t>& sums, const Window& window = {}) {
    Clusters out;
    out.window = window;
    out.numbers = {1};
    for (const auto sum : sums) {
        const auto cells = static_cast<std::int64_t>(window.cells());
        for (std::int64_t i = 0; i < cells; ++i) {
            const auto each = sum / cells + (i == 0 ? sum % cells : 0) +
                              (i == 1   ? 70'000
                               : i == 2 ? -70'000
                                        : 0);
            out.residuals.push_back(static_cast<std::int32_t>(each));
        }
        out.rows.push_back(0);
        out.columns.push_back(0);
    }
    out.offsets.push_back(sums.size());
    return out;
}

TEST(Spectrum, BinsAreExactAndNothingIsLost) {
    Spectrum spectrum({.spectrum_bins = 4, .spectrum_min = -10, .spectrum_max = 10});
    spectrum.add(clusters_with({-11, -10, -6, -5, -1, 0, 4, 5, 9, 10, 123456}).view());
    EXPECT_EQ(spectrum.underflow(), 1U);
    EXPECT_EQ(spectrum.overflow(), 2U);
    EXPECT_TRUE(std::ranges::equal(spectrum.counts(), std::vector<std::uint64_t>{2, 2, 2, 2}));
    EXPECT_EQ(spectrum.total(), 11U);
    EXPECT_EQ(spectrum.edge(0), -10);
    EXPECT_EQ(spectrum.edge(1), -5);
    EXPECT_EQ(spectrum.edge(4), 10);
}

TEST(Spectrum, LargeRangesAndValuesDoNotOverflow) {
    const std::int64_t far = std::int64_t{1} << 40;
    Spectrum spectrum({.spectrum_bins = 1 << 20, .spectrum_min = -far, .spectrum_max = far});
    Clusters clusters;
    clusters.window = {21, 21};
    clusters.residuals.assign(441 * 2, INT32_MAX);
    std::fill_n(clusters.residuals.begin(), 441, INT32_MIN);
    clusters.rows = clusters.columns = {0, 0};
    clusters.numbers = {0};
    clusters.offsets = {0, 2};
    spectrum.add(clusters.view());
    const auto bin = [&](std::int64_t sum) {
        return static_cast<std::size_t>((sum + far) / (2 * far / (1 << 20)));
    };
    EXPECT_EQ(spectrum.counts()[bin(std::int64_t{441} * INT32_MAX)], 1U);
    EXPECT_EQ(spectrum.counts()[bin(std::int64_t{441} * INT32_MIN)], 1U);
    EXPECT_EQ(spectrum.underflow() + spectrum.overflow(), 0U);
}

TEST(Spectrum, BinsThatDoNotDivideTheRange) {
    for (const std::int64_t range : {10, 1000, 100'000}) {  // the last one without a table
        Spectrum spectrum({.spectrum_bins = 7, .spectrum_min = 0, .spectrum_max = range});
        std::vector<std::int64_t> sums(static_cast<std::size_t>(range));
        std::iota(sums.begin(), sums.end(), 0);
        spectrum.add(clusters_with(sums).view());
        std::vector<std::uint64_t> expected(7);
        for (const auto sum : sums) ++expected[static_cast<std::size_t>(sum * 7 / range)];
        EXPECT_TRUE(std::ranges::equal(spectrum.counts(), expected));
    }
}

TEST(Spectrum, MergesAndRefuses) {
    Spectrum a({.spectrum_bins = 10}), b({.spectrum_bins = 10}), other({.spectrum_bins = 11});
    a.add(clusters_with({-1, 500}).view());
    b.add(clusters_with({501, 99'999}).view());
    a.merge(b);
    EXPECT_EQ(a.total(), 4U);
    EXPECT_EQ(a.counts()[0], 2U);
    EXPECT_THROW(a.merge(other), Error);
    EXPECT_THROW(Spectrum({.spectrum_bins = 0}), OptionError);
    EXPECT_THROW(Spectrum({.spectrum_min = 5, .spectrum_max = 5}), OptionError);
}

TEST(HitMap, CountsCentresAndFindsHotPixels) {
    HitMap map({2, 3});
    Clusters clusters;
    clusters.window = {3, 3};
    clusters.rows = {0, 1, 1};
    clusters.columns = {2, 0, 0};
    clusters.residuals.assign(27, 0);
    clusters.numbers = {0};
    clusters.offsets = {0, 3};
    map.add(clusters.view());
    EXPECT_TRUE(std::ranges::equal(map.counts(), std::vector<std::uint32_t>{0, 0, 1, 2, 0, 0}));
    HitMap more({2, 3});
    more.merge(map);
    more.merge(map);
    EXPECT_EQ(more.counts()[3], 4U);
    EXPECT_THROW(more.merge(HitMap({3, 2})), Error);

    // 100 frames: more than ten times counts, both kinds together.
    const std::vector<std::uint32_t> fired{10, 11, 6, 0, 0, 0}, negatives{0, 0, 5, 100, 9, 0};
    const auto hot = hot_pixels({2, 3}, 100, fired, negatives);
    EXPECT_EQ(hot, (std::vector<HotPixel>{{0, 1, 11, 0}, {0, 2, 6, 5}, {1, 0, 0, 100}}));
    EXPECT_TRUE(
        hot_pixels({2, 3}, 20, std::vector<std::uint32_t>{9, 0, 0, 0, 0, 0}, std::vector<std::uint32_t>(6))
            .empty());
}

// Set LIGHTMILL_PLOTS to a folder to look at them.
TEST(Plot, WritesPictures) {
    const test::Folder folder;
    const char* keep = std::getenv("LIGHTMILL_PLOTS");
    const auto place = [&](const std::string& name) {
        return keep != nullptr ? (std::filesystem::path(keep) / name).string() : folder.file(name);
    };
    const auto source = test::data(3000);
    auto summary = run(*source, test::pedestal());
    summary.hit_map.counts()[50 * 70 - 20] += 100'000;  // a hot pixel must not leave the rest dark
    plot_spectrum(summary.spectrum, place("spectrum.png"));
    plot_spectrum(summary.spectrum, place("spectrum_log.png"), {.log_y = true});
    plot_hit_map(summary.hit_map, place("hit_map.png"));
    plot_hit_map(HitMap({1, 3000}), place("line.png"), {.title = "An empty line"});
    plot_hit_map(HitMap({3000, 1}), place("column.png"),
                 {.title = "An empty column", .width = 700, .height = 500});
    plot_hit_map(HitMap({1500, 2000}), place("large.png"));
    plot_spectrum(Spectrum(SpectrumOptions{}), place("empty.png"));
    for (const auto* name : {"spectrum.png", "spectrum_log.png", "hit_map.png", "line.png", "empty.png"}) {
        const auto bytes = read_file(place(name));
        EXPECT_EQ(bytes.substr(1, 3), "PNG") << name;
        EXPECT_GT(bytes.size(), 1000U) << name;
    }
    EXPECT_THROW(plot_spectrum(summary.spectrum, folder.file("no/such/folder.png")), IoError);
    EXPECT_THROW(plot_spectrum(summary.spectrum, folder.file("tiny.png"), {.width = 10}), OptionError);
}

}  // namespace
}  // namespace lightmill::clusters

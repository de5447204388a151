// Real dark frames of a JUNGFRAU detector, as its receiver wrote them. Their folder comes from
// LIGHTMILL_TEST_DATA; without it these tests are skipped by name.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "lightmill/frames/source.hpp"

namespace lightmill::frames {
namespace {

struct Statistics {
    double mean;        // of all pixels and frames
    double median_rms;  // of the pixels, over frames
};

Statistics statistics(const Block& block) {
    const auto frames = block.pixels.extent(0);
    const auto pixels = block.pixels.extent(1) * block.pixels.extent(2);
    std::vector<double> rms;
    double total = 0;
    for (std::int64_t p = 0; p < pixels; ++p) {
        double sum = 0;
        double squares = 0;
        for (std::int64_t f = 0; f < frames; ++f) {
            const double x = block.pixels.data()[f * pixels + p];
            sum += x;
            squares += x * x;
        }
        const auto n = static_cast<double>(frames);
        total += sum / n;
        rms.push_back(std::sqrt(squares / n - sum / n * (sum / n)));
    }
    const auto middle = rms.begin() + static_cast<std::ptrdiff_t>(rms.size() / 2);
    std::nth_element(rms.begin(), middle, rms.end());
    return {total / static_cast<double>(pixels), *middle};
}

class RealJungfrau : public ::testing::Test {
  protected:
    std::unique_ptr<Source> open_run(const std::string& name) {
        return open((std::filesystem::path(folder_) / "jungfrau" / name).string());
    }
    void SetUp() override {
        const char* folder = std::getenv("LIGHTMILL_TEST_DATA");
        if (folder == nullptr) GTEST_SKIP() << "LIGHTMILL_TEST_DATA is not set: no real JUNGFRAU files";
        folder_ = folder;
    }
    std::string folder_;
};

TEST_F(RealJungfrau, OnePort) {
    const auto source = open_run("jungfrau_single_master_0.json");
    const auto& d = source->description();
    EXPECT_EQ(d.shape, (Shape{512, 1024}));
    EXPECT_EQ(d.count, 10U);
    EXPECT_EQ(d.files.size(), 5U);
    EXPECT_TRUE(d.gain_bits);
    EXPECT_EQ(d.absent_value, 65535);
    EXPECT_TRUE(d.module_rows.empty());

    Storage storage;
    const auto block = source->read(0, 10, storage);
    for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(block.infos[i], (FrameInfo{i + 1, 0}));
    const auto [mean, median_rms] = statistics(block);
    // By numpy from the same bytes.
    EXPECT_NEAR(mean, 2912.31796, 1e-4);
    EXPECT_NEAR(median_rms, 26.75519, 1e-4);
    EXPECT_LT(*std::max_element(block.pixels.data(), block.pixels.data() + block.pixels.size()), 1U << 14);
}

TEST_F(RealJungfrau, TwoPortsOfOneModule) {
    const auto source = open_run("jungfrau_double_master_0.json");
    const auto& d = source->description();
    EXPECT_EQ(d.shape, (Shape{512, 1024}));
    EXPECT_EQ(d.count, 10U);
    EXPECT_EQ(d.files.size(), 9U);
    EXPECT_TRUE(d.module_rows.empty()) << "windows cross the ports of a module";

    Storage storage;
    const auto block = source->read(0, 10, storage);
    const auto [mean, median_rms] = statistics(block);
    EXPECT_NEAR(mean, 2915.27294, 1e-4);
    EXPECT_NEAR(median_rms, 27.50727, 1e-4);
    for (const auto& info : block.infos) EXPECT_EQ(info.lost_pixels, 0U);
    const auto a = source->anomalies();
    EXPECT_EQ(a.missing_frames + a.repeated_frames + a.out_of_order_frames, 0U);
}

// Both runs are of one detector: the ports stand where they belong where their pedestals agree.
TEST_F(RealJungfrau, TwoPortsShowThePedestalOfOne) {
    const auto means = [&](const std::string& name) {
        const auto source = open_run(name);
        Storage storage;
        const auto block = source->read(0, 10, storage);
        std::vector<double> mean(static_cast<std::size_t>(source->description().shape.pixels()), 0.0);
        for (std::int64_t f = 0; f < 10; ++f) {
            for (std::size_t p = 0; p < mean.size(); ++p) mean[p] += block.pixels[f].data()[p] / 10.0;
        }
        return mean;
    };
    const auto one = means("jungfrau_single_master_0.json");
    const auto two = means("jungfrau_double_master_0.json");
    const auto half = one.size() / 2;
    for (const std::size_t start : {std::size_t{0}, half}) {
        double sum_a = 0, sum_b = 0, aa = 0, bb = 0, ab = 0;
        for (auto p = start; p < start + half; ++p) {
            sum_a += one[p];
            sum_b += two[p];
            aa += one[p] * one[p];
            bb += two[p] * two[p];
            ab += one[p] * two[p];
        }
        const auto n = static_cast<double>(half);
        const auto correlation =
            (ab - sum_a * sum_b / n) / std::sqrt((aa - sum_a * sum_a / n) * (bb - sum_b * sum_b / n));
        EXPECT_GT(correlation, 0.99) << "half from pixel " << start;  // 0.38 at most if flipped or swapped
    }
}

}  // namespace
}  // namespace lightmill::frames

// Reductions on the device give the host's integers, over every band.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lightmill/base/error.hpp"
#include "lightmill/clusters/reduce/device_reductions.hpp"
#include "scene.hpp"

namespace lightmill::clusters::test {
namespace {

using testing::ElementsAreArray;

std::vector<SpeedOptions> speeds() {
    std::vector<SpeedOptions> all;
    auto backends = std::vector<std::string>{"cuda_emulated"};
    if (available_backends().front() == "cuda") backends.emplace_back("cuda");
    for (const auto& backend : backends) {
        for (const bool clusters : {true, false}) {
            for (const char* devices : {"0", "0,0,0"}) {
                all.push_back({.backend = backend,
                               .threads = 1,
                               .hashes = clusters,
                               .clusters = clusters,
                               .devices = devices,
                               .copy_frames = 4,
                               .ring = 2});
            }
        }
    }
    return all;
}

class OnTheDevice : public testing::TestWithParam<SpeedOptions> {};

TEST_P(OnTheDevice, GivesTheHostsIntegers) {
    const SpectrumOptions wide{.spectrum_bins = 37, .spectrum_min = -50, .spectrum_max = 900};
    const SpectrumOptions narrow{.spectrum_bins = 5, .spectrum_min = 300, .spectrum_max = 700};
    for (const Window window : {Window{3, 3}, Window{9, 9}, Window{5, 7}}) {
        const auto scene = make_scene({.frames = 30, .mask = true});
        const FindOptions options{.window = window, .epoch = 2};
        Finder plain(scene.pedestal, options, {.backend = "reference"});
        Spectrum spectrum(wide);
        HitMap hits(scene.pedestal.shape);
        PixelSpectrum pixels(scene.pedestal.shape, narrow);
        std::vector<std::uint64_t> offsets;
        {
            const auto batch = plain.find(scene.all());
            spectrum.add(batch.view());
            hits.add(batch.view());
            pixels.add(batch.view());
            offsets.assign(batch.view().offsets.begin(), batch.view().offsets.end());
        }
        ASSERT_GT(offsets.back(), 100U);

        Finder finder(scene.pedestal, options, GetParam());
        const DeviceReductions reductions(finder, scene.pedestal.shape,
                                          {.spectrum = wide, .hit_map = true, .pixel_spectrum = narrow});
        const auto batch = finder.find(scene.all());
        EXPECT_THAT(batch.view().offsets, ElementsAreArray(offsets));
        EXPECT_EQ(batch.view().clusters(), GetParam().clusters ? offsets.back() : 0U);
        EXPECT_THAT(reductions.spectrum().all(), ElementsAreArray(spectrum.all()));
        EXPECT_THAT(reductions.hit_map().counts(), ElementsAreArray(hits.counts()));
        EXPECT_THAT(reductions.pixel_spectrum().counts(), ElementsAreArray(pixels.counts()));
        EXPECT_EQ(reductions.pixel_spectrum().outside(), pixels.outside());
        EXPECT_EQ(pixels.outside() + std::accumulate(pixels.counts().begin(), pixels.counts().end(), 0U),
                  offsets.back());
    }
}

TEST_P(OnTheDevice, GivesOnlyWhatWasAskedFor) {
    const auto scene = make_scene({});
    Finder finder(scene.pedestal, {}, GetParam());
    const DeviceReductions reductions(finder, scene.pedestal.shape, {.hit_map = true});
    (void)finder.find(scene.all());
    EXPECT_NO_THROW((void)reductions.hit_map());
    EXPECT_THROW((void)reductions.spectrum(), Error);
    EXPECT_THROW((void)reductions.pixel_spectrum(), Error);
    EXPECT_THROW(DeviceReductions(finder, scene.pedestal.shape, {.hit_map = true}),
                 Error);  // after the first frame
}

TEST(DeviceReductionsTest, NeedADevice) {
    const auto scene = make_scene({});
    Finder finder(scene.pedestal, {}, {.backend = "simd"});
    EXPECT_THROW(DeviceReductions(finder, scene.pedestal.shape, {.hit_map = true}), Error);
    EXPECT_THROW(Finder(scene.pedestal, {}, {.backend = "simd", .hashes = false, .clusters = false}),
                 OptionError);
    EXPECT_THROW(Finder(scene.pedestal, {}, {.backend = "cuda_emulated", .clusters = false}), OptionError);
    EXPECT_THROW(PixelSpectrum({50000, 50000}, {}), Error);
}

INSTANTIATE_TEST_SUITE_P(Reduce, OnTheDevice, testing::ValuesIn(speeds()), [](const auto& c) {
    return fmt::format("{}_{}_{}_bands", c.param.backend, c.param.clusters ? "clusters_too" : "alone",
                       (c.param.devices.size() + 1) / 2);
});

}  // namespace
}  // namespace lightmill::clusters::test

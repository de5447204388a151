#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lightmill/clusters/pedestal/pedestal.hpp"

namespace lightmill::clusters::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Training trained(const std::vector<std::vector<Pixel>>& frames, const AbsentRule& absent = {}) {
    Training training({1, static_cast<std::int64_t>(frames.front().size())}, absent);
    for (const auto& frame : frames)
        training.add({frame.data(), {1, 1, static_cast<std::int64_t>(frame.size())}});
    return training;
}

TEST(Pedestals, MeanAndVarianceByHand) {
    // 10, 11, 13 and 10, 10, 11: sums 34 and 31, n = 3.
    const auto p = trained({{10, 10}, {11, 10}, {13, 11}}).finish({}, {});
    EXPECT_THAT(p.model.offset, ElementsAre(11, 10));  // ⌊(68 + 3) / 6⌋, ⌊(62 + 3) / 6⌋
    EXPECT_EQ(p.model.mean[0], 1.0F / 3.0F);
    EXPECT_EQ(p.model.mean[1], 1.0F / 3.0F);
    EXPECT_EQ(p.model.variance[0], static_cast<float>((3 * 390.0 - 34.0 * 34.0) / 9.0));
    EXPECT_EQ(p.model.variance[1], static_cast<float>((3 * 321.0 - 31.0 * 31.0) / 9.0));
}

TEST(Pedestals, OffsetsRoundHalfUp) {
    EXPECT_THAT(trained({{10}, {11}}).finish({}, {}).model.offset, ElementsAre(11));
    EXPECT_THAT(trained({{10}, {11}}).finish({}, {}).model.mean, ElementsAre(-0.5F));
}

TEST(Pedestals, KeepAQuietPixelsVarianceAtTheTopOfTheRange) {
    // σ = 0.5 at 65534: E[x²] − μ² would be lost in binary32.
    const auto p = trained({{65534}, {65535}, {65534}, {65535}}).finish({}, {});
    EXPECT_EQ(p.model.variance[0], 0.25F);
}

TEST(Pedestals, StatesInOrderOfCause) {
    const AbsentRule absent{.value = Pixel{65535}, .gain_bits = true};
    // masked and lost; seen once (the rest in another gain); constant; good
    const auto p = trained({{65535, 5, 7, 10}, {65535, 0x8005, 7, 12}, {65535, 65535, 7, 11}}, absent)
                       .finish(std::vector<std::uint8_t>{1, 0, 0, 0}, {});
    EXPECT_THAT(p.state,
                ElementsAre(PixelState::masked, PixelState::unseen, PixelState::low_noise, PixelState::used));
    EXPECT_THAT(p.seen, ElementsAre(0, 1, 3, 3));
    EXPECT_EQ(p.pixels_in(PixelState::low_noise), 1U);
    EXPECT_EQ(p.pixels_in(PixelState::used), 1U);
    const auto q = trained({{7, 1}, {7, 2}}).finish({}, {.min_noise = 0});
    EXPECT_EQ(q.pixels_in(PixelState::used), 2U);
}

TEST(Pedestals, RefuseTooFewFramesAndWrongMasks) {
    const auto two = trained({{1, 2}, {3, 4}});
    try {
        (void)two.finish({}, {.pedestal_frames = 5});
        FAIL();
    } catch (const OptionError& error) {
        EXPECT_THAT(error.what(), HasSubstr("found 2 dark frames"));
        EXPECT_THAT(error.what(), HasSubstr("5 asked for"));
    }
    EXPECT_THROW((void)two.finish(std::vector<std::uint8_t>{1}, {}), OptionError);
    EXPECT_THROW((void)two.finish({}, {.min_noise = std::nan("")}), OptionError);
    EXPECT_THROW((void)Training({1, 1}, {}).finish({}, {}), OptionError);
    Training other({2, 2}, {});
    const std::vector<Pixel> wide(6);
    EXPECT_THROW(other.add({wide.data(), {1, 2, 3}}), OptionError);
}

TEST(Pedestals, DigestCoversEveryPart) {
    const auto p = trained({{10, 20}, {11, 22}}).finish({}, {});
    const auto digest = model_digest(std::span(&p.model, 1));
    auto changed = p.model;
    changed.mean[1] = std::nextafter(changed.mean[1], 1.0F);
    EXPECT_NE(model_digest(std::span(&changed, 1)), digest);
    changed = p.model;
    changed.offset[0] += 1;
    EXPECT_NE(model_digest(std::span(&changed, 1)), digest);
    EXPECT_EQ(digest.size(), 64U);
}

}  // namespace
}  // namespace lightmill::clusters::test

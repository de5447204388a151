// Batches, digests, options and states.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "scene.hpp"

namespace lightmill::clusters::test {
namespace {

using testing::HasSubstr;

template <class E, class F>
std::string message_of(F&& call) {
    try {
        call();
    } catch (const E& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST(Batches, HoldingAllIsAnErrorAndLosesNothing) {
    const auto scene = make_scene({});
    Finder finder(scene.pedestal, {}, {.batches = 2});
    auto first = finder.find(scene.block(0, 2));
    auto second = finder.find(scene.block(2, 2));
    const auto before = first.to_owned();
    EXPECT_THAT(message_of<Error>([&] { (void)finder.find(scene.block(4, 2)); }),
                HasSubstr("all 2 batches are held"));
    EXPECT_EQ(first.to_owned().residuals, before.residuals);
    first.release();
    const auto third = finder.find(scene.block(4, 2));
    EXPECT_EQ(third.view().first_index, 4U);
    const auto whole = find_all(scene, {}, {}, 2);
    EXPECT_EQ(third.to_owned().hashes,
              std::vector(whole.clusters.hashes.begin() + 4, whole.clusters.hashes.begin() + 6));
}

TEST(Batches, OutliveTheirFinderAndMayBeReleasedElsewhere) {
    const auto scene = make_scene({});
    Batch kept;
    std::size_t clusters = 0;
    {
        Finder finder(scene.pedestal, {});
        kept = finder.find(scene.all());
        clusters = kept.view().clusters();
    }
    EXPECT_EQ(kept.view().rows.size(), clusters);
    EXPECT_EQ(kept.view().residuals.size(), clusters * 9);
    std::thread([batch = std::move(kept)]() mutable { batch.release(); }).join();
}

TEST(Digests, SayWhatWasFound) {
    const auto scene = make_scene({});
    const auto a = find_all(scene, {}, {.hashes = true}, 3);
    const auto b = find_all(scene, {}, {.hashes = false}, 5);
    EXPECT_EQ(a.digest, b.digest);
    EXPECT_EQ(a.digest.size(), 64U);
    EXPECT_EQ(find_all(scene, {.payload = Payload::int16}, {}).digest,
              a.digest);  // of the values, not of their type
    EXPECT_NE(find_all(scene, {.n_sigma = 6}, {}).digest, a.digest);
    auto changed = a.clusters;
    ++changed.residuals.back();
    changed.hashes.clear();
    ResultDigest digest;
    digest.add(changed.view());
    EXPECT_NE(digest.hex(), a.digest);
}

TEST(Digests, FramesWithoutClustersCount) {
    Clusters one, two;
    one.window = two.window = {3, 3};
    one.numbers = {5};
    one.offsets = {0, 0};
    two.numbers = {5, 6};
    two.offsets = {0, 0, 0};
    ResultDigest a, b;
    a.add(one.view());
    b.add(two.view());
    EXPECT_NE(a.hex(), b.hex());
}

TEST(Options, OutsideTheirRangeAreRefusedByName) {
    const auto refused = [](const FindOptions& options) {
        return message_of<OptionError>([&] { check(options); });
    };
    EXPECT_THAT(refused({.window = {4, 3}}), HasSubstr("window: found 4x3"));
    EXPECT_THAT(refused({.window = {3, 23}}), HasSubstr("21x21"));
    EXPECT_THAT(refused({.window = {1, 3}}), HasSubstr("window"));
    EXPECT_THAT(refused({.n_sigma = 0}), HasSubstr("n_sigma: found 0"));
    EXPECT_THAT(refused({.n_sigma = -1}), HasSubstr("n_sigma"));
    EXPECT_THAT(refused({.n_sigma = std::nan("")}), HasSubstr("n_sigma: found nan"));
    EXPECT_THAT(refused({.epoch = 0}), HasSubstr("epoch"));
    EXPECT_THAT(refused({.memory = 1}), HasSubstr("memory"));
    EXPECT_THAT(refused({.streams = 2}), HasSubstr("streams"));
    EXPECT_THAT(refused({.rule = Rule::raster}), HasSubstr("ties"));
    EXPECT_THAT(refused({.epoch = 2, .rule = Rule::raster, .ties = Ties::all}), HasSubstr("epoch"));
    EXPECT_EQ(refused({.window = {21, 3}}), "nothing was thrown");
    for (const auto* text : {"3", "3x", "x3", "3x3x3", "3 x 3", "-3x3", "3X3", "99999999999x3", ""}) {
        EXPECT_THROW((void)parse_window(text), OptionError) << text;
    }
    EXPECT_EQ(parse_window("5x9"), (Window{5, 9}));
}

TEST(Options, UnknownBackendsListTheKnownOnes) {
    const auto scene = make_scene({});
    const auto message = message_of<OptionError>([&] { Finder(scene.pedestal, {}, {.backend = "cray"}); });
    EXPECT_THAT(message, HasSubstr("cray"));
    EXPECT_THAT(message, HasSubstr("reference"));
    EXPECT_THROW(
        Finder(scene.pedestal, {.memory = 100, .rule = Rule::raster, .ties = Ties::all}, {.backend = "simd"}),
        OptionError);
}

TEST(Finders, RefuseFramesOfAnotherShape) {
    const auto scene = make_scene({});
    const auto other = make_scene({.shape = {24, 41}});
    Finder finder(scene.pedestal, {});
    EXPECT_THAT(message_of<OptionError>([&] { (void)finder.find(other.all()); }), HasSubstr("24x41"));
}

TEST(Finders, HaveAStateBetweenEpochsOnly) {
    const auto scene = make_scene({});
    Finder finder(scene.pedestal, {.epoch = 4});
    (void)finder.find(scene.block(0, 3));
    EXPECT_FALSE(finder.between_epochs());
    EXPECT_THROW((void)finder.state(), Error);
    (void)finder.find(scene.block(3, 1));
    EXPECT_TRUE(finder.between_epochs());
    EXPECT_EQ(finder.state().frames, 4U);
    finder.finish();
    EXPECT_THROW((void)finder.find(scene.block(4, 1)), Error);
}

TEST(Finders, RefuseAStateOfOtherOptions) {
    const auto scene = make_scene({});
    const auto state = Finder(scene.pedestal, {}).state();
    EXPECT_THROW(Finder(scene.pedestal, {.rule = Rule::per_stream, .streams = 2}, {}, state), Error);
}

TEST(Rules, PerStreamWithOneStreamIsTheSnapshotRule) {
    const auto scene = make_scene({.frames = 20});
    const auto a = find_all(scene, {}, {});
    const auto b = find_all(scene, {.rule = Rule::per_stream, .streams = 1}, {});
    const auto c = find_all(scene, {.rule = Rule::per_stream, .streams = 3}, {});
    EXPECT_EQ(a.digest, b.digest);
    EXPECT_EQ(a.model_digest, b.model_digest);
    EXPECT_NE(a.model_digest, c.model_digest);
}

TEST(Rules, RasterNeedsThePedestalItsSumsAreOf) {
    const auto scene = make_scene({.dark_frames = 50});
    EXPECT_THAT(message_of<OptionError>([&] {
                    Finder(scene.pedestal, {.memory = 1000, .rule = Rule::raster, .ties = Ties::all});
                }),
                HasSubstr("50"));
    const auto a = find_all(scene, {.memory = 50, .rule = Rule::raster, .ties = Ties::all}, {});
    EXPECT_GT(a.clusters.rows.size(), 50U);
}

TEST(Rules, RasterGoesOnFromAState) {
    const auto scene = make_scene({});
    const FindOptions options{.memory = 100, .rule = Rule::raster, .ties = Ties::all};
    const auto whole = find_all(scene, options, {});
    Finder first(scene.pedestal, options);
    Clusters clusters;
    clusters.append(first.find(scene.block(0, 5)).view());
    Finder second(scene.pedestal, options, {}, first.state());
    clusters.append(second.find(scene.block(5, 7)).view());
    EXPECT_EQ(clusters.residuals, whole.clusters.residuals);
    EXPECT_EQ(second.model_digest(), whole.model_digest);
}

// A baseline that drifts by 1000 ADU over a run stays tracked: no pixel fires for it.
TEST(Finders, FollowASlowDrift) {
    auto scene = make_scene({.shape = {8, 32}, .frames = 4000, .photons_per_pixel = 0});
    const auto size = static_cast<std::size_t>(scene.pedestal.shape.pixels());
    for (std::size_t i = 0; i < scene.pixels.size(); ++i) {
        scene.pixels[i] = static_cast<Pixel>(scene.pixels[i] + static_cast<Pixel>(i / size / 4));
    }
    const auto answer = find_all(scene, {.memory = 100}, {}, 500);
    EXPECT_EQ(answer.clusters.rows.size(),
              find_all(scene, {.memory = 100}, {.backend = "reference"}, 500).clusters.rows.size());
    EXPECT_LT(answer.clusters.rows.size(), 4000 * size / 10000);
}

TEST(Finders, FindNothingInNoFrames) {
    const auto scene = make_scene({.frames = 0});
    Finder finder(scene.pedestal, {});
    EXPECT_EQ(finder.find(scene.all()).view().frames(), 0U);
    finder.finish();
}

}  // namespace
}  // namespace lightmill::clusters::test

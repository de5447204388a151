// The campaign's finder: streams with regions of fixed size, against the reference's rule per_stream.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lightmill/base/error.hpp"
#include "lightmill/clusters/find/stream_finder.hpp"
#include "scene.hpp"

namespace lightmill::clusters::test {
namespace {

std::vector<std::string> places() {
    std::vector<std::string> all{"emulated"};
    if (available_backends().front() == "cuda") all.emplace_back("0");
    return all;
}

class Streams : public testing::TestWithParam<std::string> {
  protected:
    Scene scene_ = make_scene({.frames = 23, .mask = true, .absent_value = true});

    void expect_same(const FindOptions& options, const StreamOptions& stream, std::size_t step, bool pinned) {
        const auto want = find_all(scene_, options, {.backend = "reference"}, 1000);
        StreamFinder finder(scene_.pedestal, options, stream, GetParam());
        if (pinned) finder.pin(scene_.pixels);
        finder.reserve(static_cast<std::int64_t>(step), 2);
        std::size_t frame = 0;
        const auto take = [&] {
            const auto batch = finder.collect();
            for (std::size_t i = 0; i < batch.frames(); ++i, ++frame) {
                EXPECT_EQ(batch.count(i), want.clusters.offsets[frame + 1] - want.clusters.offsets[frame]);
                EXPECT_EQ(hash_frame(batch.view(i), 0), want.clusters.hashes[frame]) << "frame " << frame;
            }
        };
        for (std::size_t first = 0; first < scene_.infos.size(); first += step) {
            if (finder.pending() == 2) take();
            finder.submit(scene_.block(first, std::min(step, scene_.infos.size() - first)));
        }
        while (finder.pending() > 0) take();
        EXPECT_EQ(frame, scene_.infos.size());
        EXPECT_EQ(finder.model_digest(), want.model_digest);
        EXPECT_EQ(finder.frames_cut(), 0U);
    }
};

TEST_P(Streams, GiveTheReferencesBits) {
    for (const Window window : {Window{3, 3}, Window{9, 9}, Window{5, 11}}) {
        for (const std::int64_t streams : {1, 3, 4}) {
            for (const bool pinned : {false, true}) {
                const FindOptions options{
                    .window = window, .memory = 20, .rule = Rule::per_stream, .streams = streams};
                expect_same(options, {}, 1, pinned);
                expect_same(options, {.barrier = true}, 7, pinned);
                expect_same(options, {.graphs = true}, 7, pinned);
                expect_same(options, {.barrier = true, .graphs = true}, 23, pinned);
            }
        }
    }
    expect_same({.epoch = 3, .rule = Rule::per_stream, .streams = 2}, {}, 5, false);
}

TEST_P(Streams, RefuseOrCutWhatIsAboveTheCap) {
    const FindOptions options{.rule = Rule::per_stream, .streams = 2};
    const auto want = find_all(scene_, options, {.backend = "reference"}, 1000);
    std::uint64_t most = 0;
    for (std::size_t f = 0; f < 23; ++f) most = std::max(most, want.clusters.view().count(f));
    {
        StreamFinder exact(scene_.pedestal, options, {.cap = static_cast<std::int64_t>(most)}, GetParam());
        exact.submit(scene_.all());
        (void)exact.collect();
        EXPECT_GE(exact.frames_at_cap(), 1U);
        EXPECT_EQ(exact.frames_cut(), 0U);
    }
    const StreamOptions low{.cap = static_cast<std::int64_t>(most) - 1};
    StreamFinder strict(scene_.pedestal, options, low, GetParam());
    strict.submit(scene_.all());
    try {
        (void)strict.collect();
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::range);
        EXPECT_THAT(error.what(), testing::HasSubstr("more than the cap of"));
    }
    StreamFinder cutting(scene_.pedestal, options, {.cap = 5, .truncate = true}, GetParam());
    cutting.submit(scene_.all());
    const auto batch = cutting.collect();
    std::uint64_t frames_cut = 0, clusters_cut = 0;
    for (std::size_t f = 0; f < 23; ++f) {
        const auto count = want.clusters.view().count(f);
        EXPECT_EQ(batch.count(f), count);
        EXPECT_EQ(batch.view(f).clusters(), std::min<std::uint64_t>(count, 5));
        // The first ones in raster order are kept.
        for (std::size_t i = 0; i < batch.view(f).clusters(); ++i) {
            EXPECT_EQ(batch.view(f).rows[i], want.clusters.rows[want.clusters.offsets[f] + i]);
            EXPECT_EQ(batch.view(f).residuals[9 * i],
                      want.clusters.residuals[9 * (want.clusters.offsets[f] + i)]);
        }
        if (count > 5) ++frames_cut, clusters_cut += count - 5;
    }
    EXPECT_GT(frames_cut, 0U);
    EXPECT_EQ(cutting.frames_cut(), frames_cut);
    EXPECT_EQ(cutting.clusters_cut(), clusters_cut);
}

TEST(StreamOptionsTest, ChunksAreAnEighthOfTheBatch) {
    const Window three{3, 3}, nine{9, 9};
    EXPECT_EQ(auto_chunk(2000, 4, 3000, three), 252);
    EXPECT_EQ(auto_chunk(100, 4, 3000, three), 16);
    EXPECT_EQ(auto_chunk(1, 1, 3000, three), 4);
    // 128 MiB hold 237 frames of 1700 clusters at 9×9, in fours 236.
    EXPECT_EQ(auto_chunk(2000, 4, 1700, nine), 236);
    EXPECT_EQ(auto_chunk(2000, 4, 10'000'000, nine), 4);
}

TEST(StreamOptionsTest, RefusesWhatItCannotDo) {
    const auto scene = make_scene({});
    EXPECT_THROW(StreamFinder(scene.pedestal, {}, {}, "emulated"), OptionError);
    const FindOptions options{.rule = Rule::per_stream};
    EXPECT_THROW(StreamFinder(scene.pedestal, options, {.cap = 0}, "emulated"), OptionError);
    EXPECT_THROW(StreamFinder(scene.pedestal, options, {}, "gpu"), OptionError);
    auto epochs = options;
    epochs.epoch = 2;
    EXPECT_THROW(StreamFinder(scene.pedestal, epochs, {.graphs = true}, "emulated"), OptionError);
    StreamFinder finder(scene.pedestal, options, {}, "emulated");
    EXPECT_THROW((void)finder.collect(), Error);
}

INSTANTIATE_TEST_SUITE_P(Finder, Streams, testing::ValuesIn(places()), [](const auto& place) {
    return place.param == "0" ? std::string("cuda") : place.param;
});

}  // namespace
}  // namespace lightmill::clusters::test

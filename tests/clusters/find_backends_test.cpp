// One suite, every backend, several thread counts: all must give the reference's bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "scene.hpp"

namespace lightmill::clusters::test {
namespace {

struct Case {
    std::string backend;
    int threads;
    int bands = 1;           // over devices
    std::int64_t chunk = 0;  // frames of a copy to a device
    Launches launches = Launches::automatic;
    // As many bands as a frame has room for.
    [[nodiscard]] SpeedOptions speed(const Shape& shape, const Window& window) const {
        SpeedOptions speed{
            .backend = backend, .threads = threads, .copy_frames = chunk, .ring = 2, .launches = launches};
        const auto most = std::max<std::int64_t>(1, shape.rows / (window.height / 2));
        for (int i = 1; i < std::min<std::int64_t>(bands, most); ++i) {
            // Several bands on the one GPU there may be.
            speed.devices += backend == "cuda" ? std::string(",0") : fmt::format(",{}", i);
        }
        return speed;
    }
};

std::vector<Case> cases() {
    std::vector<Case> all;
    auto backends = available_backends();
    backends.push_back("cuda_emulated");
    for (const auto backend : backends) {
        if (backend.starts_with("cuda")) {
            all.push_back({std::string(backend), 1});
            all.push_back({std::string(backend), 2, 1, 2, Launches::single});
            all.push_back({std::string(backend), 1, 1, 3, Launches::graph});
            all.push_back({std::string(backend), 1, 1, 0, Launches::separate});
            all.push_back({std::string(backend), 1, 2, 3});
            all.push_back({std::string(backend), 1, 3, 1});
            continue;
        }
        for (const int threads : {1, 2, 3, 7}) {
            if (backend != "reference" || threads == 1) all.push_back({std::string(backend), threads});
        }
    }
    return all;
}

class EveryBackend : public testing::TestWithParam<Case> {
  protected:
    void expect_same(const SceneOptions& scene_options, FindOptions options, std::size_t step = 5,
                     std::span<const std::int64_t> module_rows = {},
                     std::span<const std::int64_t> module_columns = {}) {
        const auto scene = make_scene(scene_options);
        const auto want =
            find_all(scene, options, {.backend = "reference"}, 1000, module_rows, module_columns);
        const auto speed = GetParam().speed(scene_options.shape, options.window);
        const auto got = find_all(scene, options, speed, step, module_rows, module_columns);
        EXPECT_EQ(got.clusters.rows, want.clusters.rows);
        EXPECT_EQ(got.clusters.columns, want.clusters.columns);
        EXPECT_EQ(got.clusters.residuals, want.clusters.residuals);
        EXPECT_EQ(got.clusters.residuals16, want.clusters.residuals16);
        EXPECT_EQ(got.clusters.offsets, want.clusters.offsets);
        EXPECT_EQ(got.clusters.numbers, want.clusters.numbers);
        EXPECT_EQ(got.digest, want.digest);
        EXPECT_EQ(got.model_digest, want.model_digest);
        EXPECT_EQ(got.absent, want.absent);
        EXPECT_EQ(got.negatives, want.negatives);
        found_ += want.clusters.rows.size();
    }
    std::size_t found_ = 0;
};

TEST_P(EveryBackend, GivesTheReferencesBits) {
    for (const Window window : {Window{3, 3}, Window{5, 5}, Window{7, 7}, Window{9, 9}, Window{21, 21},
                                Window{3, 9}, Window{11, 5}}) {
        SCOPED_TRACE(to_string(window));
        expect_same({}, {.window = window});
    }
    EXPECT_GT(found_, 100U);
}

TEST_P(EveryBackend, WithAbsentPixels) {
    for (const Window window : {Window{3, 3}, Window{9, 9}, Window{3, 15}}) {
        SCOPED_TRACE(to_string(window));
        expect_same({.mask = true}, {.window = window});
        expect_same({.absent_value = true}, {.window = window});
        expect_same({.gain_bits = true}, {.window = window});
        expect_same({.mask = true, .absent_value = true, .gain_bits = true, .noise_spread = 0.1},
                    {.window = window, .epoch = 4});
    }
    EXPECT_GT(found_, 100U);
}

TEST_P(EveryBackend, AtEveryEpoch) {
    for (const std::int64_t epoch : {1, 2, 5, 7, 100}) {
        for (const std::size_t step : {1U, 3U, 12U}) {
            SCOPED_TRACE(fmt::format("epoch {}, step {}", epoch, step));
            expect_same({.noise_spread = 0.05}, {.epoch = epoch, .memory = 10}, step);
        }
    }
}

TEST_P(EveryBackend, WithEveryOption) {
    expect_same({.noise = 2}, {.ties = Ties::all});
    expect_same({.noise = 2}, {.window = {5, 3}, .ties = Ties::first});
    expect_same({}, {.n_sigma = 3.5, .payload = Payload::int16});
    expect_same({}, {.window = {9, 9}, .n_sigma = 0.5, .payload = Payload::int16});
    expect_same({}, {.epoch = 2, .rule = Rule::per_stream, .streams = 3});
    expect_same({.frames = 40}, {.memory = 2});
}

// Pixels that learned the same, and frames of few values: of equal maxima the first in raster order is the
// photon.
TEST_P(EveryBackend, BreaksTiesAlike) {
    const Shape shape{40, 70};
    const auto size = static_cast<std::size_t>(shape.pixels());
    Training training(shape, {});
    for (int f = 0; f < 100; ++f) {
        const std::vector<Pixel> dark(size, f % 2 == 0 ? Pixel{990} : Pixel{1010});
        training.add({dark.data(), {1, shape.rows, shape.columns}});
    }
    Scene scene{training.finish({}, {}), {}, {}};
    std::mt19937_64 random(3);
    for (std::size_t f = 0; f < 12; ++f) {
        for (std::size_t i = 0; i < size; ++i) {
            const auto chance = random() % 100;
            scene.pixels.push_back(static_cast<Pixel>(chance < 6 ? 1200 : chance < 9 ? 1400 : 1000));
        }
        scene.infos.push_back({f, 0});
    }
    for (const Window window : {Window{3, 3}, Window{9, 9}, Window{5, 3}}) {
        const auto answer = [&](Ties ties, const SpeedOptions& speed) {
            return find_all(scene, {.window = window, .ties = ties}, speed);
        };
        const auto first = answer(Ties::first, {.backend = "reference"});
        const auto all = answer(Ties::all, {.backend = "reference"});
        ASSERT_GT(all.clusters.rows.size(), first.clusters.rows.size() + 50);
        const auto speed = GetParam().speed(shape, window);
        EXPECT_EQ(answer(Ties::first, speed).digest, first.digest) << to_string(window);
        EXPECT_EQ(answer(Ties::all, speed).digest, all.digest) << to_string(window);
    }
}

TEST_P(EveryBackend, OnEveryShape) {
    for (const Shape shape : {Shape{1, 100}, Shape{100, 1}, Shape{1, 1}, Shape{2, 15}, Shape{7, 16},
                              Shape{3, 17}, Shape{5, 64}, Shape{4, 65}, Shape{9, 127}, Shape{31, 33}}) {
        SCOPED_TRACE(fmt::format("{}x{}", shape.rows, shape.columns));
        expect_same({.shape = shape, .photons_per_pixel = 0.1}, {});
        expect_same({.shape = shape, .photons_per_pixel = 0.1}, {.window = {21, 21}, .ties = Ties::all});
        expect_same({.shape = shape, .mask = true, .absent_value = true}, {.window = {5, 7}, .epoch = 3});
    }
}

TEST_P(EveryBackend, NeverCrossesAModuleGap) {
    const std::vector<std::int64_t> rows{7, 12}, columns{16, 33};
    for (const Window window : {Window{3, 3}, Window{9, 9}, Window{21, 3}}) {
        expect_same({.photons_per_pixel = 0.1}, {.window = window}, 5, rows, columns);
        expect_same({.photons_per_pixel = 0.1, .mask = true}, {.window = window, .epoch = 2}, 5, rows, {});
    }
}

// Random options on random worlds; the seed of a failure is printed.
TEST_P(EveryBackend, OnRandomWorlds) {
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        std::mt19937_64 random(seed);
        auto pick = [&](std::int64_t first, std::int64_t last) {
            return std::uniform_int_distribution<std::int64_t>(first, last)(random);
        };
        const SceneOptions scene{.shape = {pick(1, 40), pick(1, 90)},
                                 .frames = static_cast<std::size_t>(pick(1, 10)),
                                 .dark_frames = static_cast<std::size_t>(pick(2, 60)),
                                 .noise = static_cast<double>(pick(1, 40)),
                                 .photons_per_pixel = static_cast<double>(pick(0, 30)) / 100,
                                 .mask = pick(0, 1) == 1,
                                 .absent_value = pick(0, 1) == 1,
                                 .gain_bits = pick(0, 1) == 1,
                                 .noise_spread = static_cast<double>(pick(0, 2)) / 10,
                                 .seed = seed};
        const FindOptions options{
            .window = {static_cast<int>(2 * pick(1, 10) + 1), static_cast<int>(2 * pick(1, 10) + 1)},
            .n_sigma = static_cast<double>(pick(1, 60)) / 10,
            .epoch = pick(1, 5),
            .memory = pick(2, 50),
            .ties = pick(0, 1) == 1 ? Ties::all : Ties::first,
            .payload = pick(0, 1) == 1 ? Payload::int16 : Payload::int32};
        expect_same(scene, options, static_cast<std::size_t>(pick(1, 10)));
    }
}

TEST_P(EveryBackend, RefusesWhatInt16CannotHold) {
    auto scene = make_scene({});
    scene.pixels[40 * 10 + 20] = 60000;
    Finder finder(scene.pedestal, {.payload = Payload::int16}, GetParam().speed(scene.pedestal.shape, {}));
    try {
        (void)finder.find(scene.all());
        FAIL() << "a residual of about 57000 went into 16 bits";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::range);
        EXPECT_THAT(error.what(), testing::HasSubstr("row 10, column 20"));
    }
    EXPECT_THROW((void)finder.find(scene.all()), Error);
}

TEST_P(EveryBackend, GoesOnFromAState) {
    const auto scene = make_scene({.frames = 20, .mask = true, .absent_value = true});
    for (const FindOptions& options : {FindOptions{}, FindOptions{.epoch = 4},
                                       FindOptions{.epoch = 2, .rule = Rule::per_stream, .streams = 2}}) {
        const auto speed = GetParam().speed(scene.pedestal.shape, options.window);
        const auto whole = find_all(scene, options, speed);
        Finder first(scene.pedestal, options, speed);
        Clusters clusters;
        clusters.append(first.find(scene.block(0, 8)).view());
        Finder second(scene.pedestal, options, speed, first.state());
        clusters.append(second.find(scene.block(8, 12)).view());
        second.finish();
        EXPECT_EQ(clusters.residuals, whole.clusters.residuals);
        EXPECT_EQ(clusters.hashes, whole.clusters.hashes);
        EXPECT_EQ(second.model_digest(), whole.model_digest);
        EXPECT_EQ(second.absent(), whole.absent);
    }
}

INSTANTIATE_TEST_SUITE_P(Finder, EveryBackend, testing::ValuesIn(cases()), [](const auto& c) {
    const auto& p = c.param;
    return p.backend.starts_with("cuda")
               ? fmt::format("{}_{}_{}_threads_{}_bands_chunk_{}", p.backend,
                             names(p.launches)[static_cast<std::size_t>(p.launches)], p.threads, p.bands,
                             p.chunk)
               : fmt::format("{}_{}_threads", p.backend, p.threads);
});

}  // namespace
}  // namespace lightmill::clusters::test

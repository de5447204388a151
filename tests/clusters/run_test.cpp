#include "lightmill/clusters/run/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/sink/clust.hpp"
#include "lightmill/clusters/sink/pedestal_file.hpp"
#include "lightmill/clusters/sink/result_file.hpp"
#include "tests/clusters/run_scene.hpp"

namespace lightmill::clusters {
namespace {

using test::Folder;
using test::Wrapped;
using ::testing::HasSubstr;

bool exists(const std::string& path) {
    return std::filesystem::exists(path);
}

// One pass of the finder over all frames, without stages: what every run must agree with.
struct Truth {
    Clusters clusters;
    std::string digest, model_digest;
};
Truth truth(std::uint64_t frames, const FindOptions& options = {}) {
    const auto source = test::data(frames);
    frames::Storage storage;
    Finder finder(test::pedestal(), options, {.backend = "reference"});
    Truth out;
    out.clusters = finder.find(source->read(0, frames, storage)).to_owned();
    finder.finish();
    ResultDigest digest;
    digest.add(out.clusters.view());
    out.digest = digest.hex();
    out.model_digest = finder.model_digest();
    return out;
}

RunOptions options_for(const std::string& output) {
    RunOptions options;
    options.output.output = output;
    options.provenance = {{"frames", "all"}};
    return options;
}

void expect_same(const Clusters& a, const Clusters& b) {
    EXPECT_EQ(a.numbers, b.numbers);
    EXPECT_EQ(a.offsets, b.offsets);
    EXPECT_EQ(a.rows, b.rows);
    EXPECT_EQ(a.columns, b.columns);
    EXPECT_EQ(a.residuals, b.residuals);
    EXPECT_EQ(a.residuals16, b.residuals16);
    EXPECT_EQ(a.hashes, b.hashes);
}

TEST(Run, WithoutOutputGivesTheDigestsOfTheReference) {
    const auto expected = truth(3000);
    const auto source = test::data(3000);
    const auto summary = run(*source, test::pedestal());
    EXPECT_EQ(summary.frames, 3000U);
    EXPECT_EQ(summary.clusters, expected.clusters.rows.size());
    EXPECT_GT(summary.clusters, 3000U * 20);
    EXPECT_EQ(summary.digest, expected.digest);
    EXPECT_EQ(summary.model_digest, expected.model_digest);
    EXPECT_EQ(summary.spectrum.total(), summary.clusters);
    EXPECT_FALSE(summary.interrupted);
    EXPECT_TRUE(summary.output.empty());
}

TEST(Run, ResultFileHoldsEverything) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    const auto expected = truth(2500);
    const auto source = test::data(2500);
    const auto pedestal = test::pedestal();
    const auto summary = run(*source, pedestal, options_for(path));
    EXPECT_EQ(summary.digest, expected.digest);
    EXPECT_FALSE(exists(path + ".partial"));
    EXPECT_FALSE(exists(path + ".partial.checkpoint"));

    const ResultReader reader(path);
    EXPECT_TRUE(reader.info().complete);
    EXPECT_FALSE(reader.info().killed);
    EXPECT_EQ(reader.info().frames, 2500U);
    EXPECT_EQ(reader.info().digest, expected.digest);
    EXPECT_EQ(reader.info().model_digest, expected.model_digest);
    EXPECT_EQ(reader.info().find, FindOptions{});
    EXPECT_EQ(reader.info().provenance, options_for(path).provenance);
    expect_same(reader.read(0, 2500), expected.clusters);
    EXPECT_EQ(reader.pedestal(), pedestal);
    EXPECT_EQ(model_digest(reader.state()), expected.model_digest);
    EXPECT_TRUE(std::ranges::equal(reader.spectrum().all(), summary.spectrum.all()));
    EXPECT_TRUE(std::ranges::equal(reader.hit_map().counts(), summary.hit_map.counts()));

    Clusters joined;
    joined.window = expected.clusters.window;
    for (std::uint64_t at = 0; at < 2500;) {
        const auto part = reader.read_block(at, 10'000);
        ASSERT_GT(part.numbers.size(), 0U);
        ASSERT_LT(part.numbers.size(), 100U);
        EXPECT_EQ(part.first_index, at);
        at += part.numbers.size();
        joined.append(part.view());
    }
    expect_same(joined, expected.clusters);
    EXPECT_EQ(reader.read_block(2500).numbers.size(), 0U);
}

TEST(Run, EveryPayloadWindowAndRule) {
    const Folder folder;
    int n = 0;
    for (const auto& find :
         {FindOptions{.payload = Payload::int16}, FindOptions{.window = {9, 5}, .epoch = 7},
          FindOptions{.memory = 100, .rule = Rule::raster, .ties = Ties::all},
          FindOptions{.rule = Rule::per_stream, .streams = 3}}) {
        const auto path = folder.file("out" + std::to_string(n++) + ".h5");
        auto options = options_for(path);
        options.find = find;
        const auto expected = truth(600, find);
        const auto source = test::data(600);
        const auto summary = run(*source, test::pedestal(), options);
        EXPECT_EQ(summary.digest, expected.digest) << n;
        EXPECT_EQ(summary.model_digest, expected.model_digest) << n;
        const ResultReader reader(path);
        EXPECT_EQ(reader.info().find, find);
        expect_same(reader.read(0, 600), expected.clusters);
        EXPECT_EQ(model_digest(reader.state()), expected.model_digest);
    }
}

// The source asks for the stop itself, so that the place is the same every time.
Summary run_until(std::uint64_t frames, std::uint64_t stop_at, const RunOptions& options) {
    std::stop_source stop;
    Wrapped source(test::data(frames), [&](std::uint64_t first, std::uint64_t count) {
        if (first + count > stop_at && first > 0) stop.request_stop();
    });
    return run(source, test::pedestal(), options, {.stop = stop.get_token()});
}

TEST(Run, InterruptedAndResumedAnyNumberOfTimesEqualsOneGo) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    // Blocks are 1198 frames here.
    constexpr std::uint64_t k_frames = 8000;
    for (const auto& find :
         {FindOptions{}, FindOptions{.epoch = 1000}, FindOptions{.rule = Rule::per_stream, .streams = 2},
          FindOptions{.memory = 100, .rule = Rule::raster, .ties = Ties::all}}) {
        auto options = options_for(path);
        options.find = find;
        options.output.overwrite = true;
        const auto expected = truth(k_frames, find);
        const auto first = run_until(k_frames, 2000, options);
        ASSERT_TRUE(first.interrupted);
        ASSERT_LT(first.frames, k_frames);
        EXPECT_EQ(first.frames % static_cast<std::uint64_t>(find.epoch), 0U);
        EXPECT_EQ(first.output, path + ".partial");
        {
            const ResultReader reader(path + ".partial");
            EXPECT_FALSE(reader.info().complete);
            EXPECT_FALSE(reader.info().killed);
            EXPECT_EQ(reader.info().frames, first.frames);
            EXPECT_EQ(reader.info().digest, first.digest);
            EXPECT_EQ(reader.read(0, first.frames).rows.size(), first.clusters);
        }
        options.output.overwrite = false;
        options.output.resume = true;
        const auto second = run_until(k_frames, first.frames + 2000, options);
        EXPECT_TRUE(second.interrupted);
        EXPECT_EQ(second.resumed_frames, first.frames);
        const auto source = test::data(k_frames);
        const auto last = run(*source, test::pedestal(), options);
        EXPECT_FALSE(last.interrupted);
        EXPECT_EQ(last.frames, k_frames);
        EXPECT_EQ(last.resumed_frames, second.frames);
        EXPECT_EQ(last.digest, expected.digest);
        EXPECT_EQ(last.model_digest, expected.model_digest);
        EXPECT_EQ(last.clusters, expected.clusters.rows.size());
        EXPECT_EQ(last.spectrum.total(), last.clusters);
        expect_same(ResultReader(path).read(0, k_frames), expected.clusters);
        std::filesystem::remove(path);
    }
}

}  // namespace
}  // namespace lightmill::clusters

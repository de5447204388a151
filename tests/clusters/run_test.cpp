#include "lightmill/clusters/run/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "lightmill/base/error.hpp"
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
    constexpr std::uint64_t k_frames = 6000;
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
        const auto second = run_until(k_frames, first.frames + 1500, options);
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

TEST(Run, MissingFramesAreCountedOnceAcrossSessions) {
    constexpr std::uint64_t k_frames = 4000;
    std::vector<std::uint64_t> numbers;
    // A gap of 7 right where the first session ends, one of 3 before, and a frame that comes late, after it.
    for (std::uint64_t i = 0; i < k_frames; ++i)
        numbers.push_back(100 + i + (i >= 500 ? 3 : 0) + (i >= 1198 ? 7 : 0));
    numbers[3000] = 100 + 500 + 1;
    const auto count = [&](const RunOptions& options, std::uint64_t stop_at) {
        std::stop_source stop;
        Wrapped source(
            test::data(k_frames),
            [&](std::uint64_t first, std::uint64_t) {
                if (first >= stop_at) stop.request_stop();
            },
            numbers);
        return run(source, test::pedestal(), options, {.stop = stop.get_token()});
    };
    const Folder folder;
    const auto whole = count({}, k_frames);
    EXPECT_EQ(whole.anomalies.missing_frames, 3U + 7U);  // of the ten one came late, and left a gap itself
    EXPECT_EQ(whole.anomalies.out_of_order_frames, 1U);
    auto options = options_for(folder.file("out.h5"));
    const auto first = count(options, 1198);
    ASSERT_TRUE(first.interrupted);
    ASSERT_LT(first.frames, 3000U);
    options.output.resume = true;
    const auto last = count(options, k_frames);
    ASSERT_FALSE(last.interrupted);
    EXPECT_EQ(last.anomalies.missing, whole.anomalies.missing);
    EXPECT_EQ(last.anomalies.missing_frames, whole.anomalies.missing_frames);
    EXPECT_EQ(last.anomalies.out_of_order, whole.anomalies.out_of_order);
    EXPECT_EQ(last.digest, whole.digest);
    const ResultReader reader(options.output.output);
    EXPECT_EQ(reader.info().anomalies.missing, whole.anomalies.missing);
}

// --- errors ---------------------------------------------------------------------------------------

TEST(Run, AnErrorInTheSourceLeavesAReadableFileAndCanBeResumed) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    Wrapped source(test::data(6000), [](std::uint64_t first, std::uint64_t) {
        if (first > 3000) throw FormatError("frames.raw", 4711, "torn");
    });
    try {
        static_cast<void>(run(source, test::pedestal(), options_for(path)));
        FAIL();
    } catch (const FormatError& error) {
        EXPECT_EQ(error.byte_offset(), 4711);
    }
    EXPECT_FALSE(exists(path));
    {
        const ResultReader reader(path + ".partial");
        EXPECT_FALSE(reader.info().killed);
        EXPECT_GT(reader.info().frames, 3000U);
    }
    auto options = options_for(path);
    options.output.resume = true;
    const auto whole = test::data(6000);
    EXPECT_EQ(run(*whole, test::pedestal(), options).digest, truth(6000).digest);
}

TEST(Run, AnErrorInTheFinderOrAConsumerEndsItToo) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    auto options = options_for(path);
    options.find.payload = Payload::int16;
    options.output.checkpoint_seconds = 0;
    // One pixel of a late frame is brighter than int16 allows.
    class Bright final : public frames::Source {
      public:
        explicit Bright(std::unique_ptr<frames::Source> source) : source_(std::move(source)) {}
        const frames::Description& description() const noexcept override { return source_->description(); }
        frames::Block read(std::uint64_t first, std::uint64_t count, frames::Storage& storage) override {
            const auto block = source_->read(first, count, storage);
            if (first > 3000) storage.pixels[500] = 65000;
            return block;
        }
        frames::Anomalies anomalies() const override { return {}; }

      private:
        std::unique_ptr<frames::Source> source_;
    };
    Bright bright(test::data(6000));
    try {
        static_cast<void>(run(bright, test::pedestal(), options));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::range);
    }
    EXPECT_GT(ResultReader(path + ".partial").info().frames, 1000U);

    const auto source = test::data(6000);
    int blocks = 0;
    EXPECT_THROW(static_cast<void>(run(*source, test::pedestal(), {},
                                       {.clusters =
                                            [&](const ClustersView&) {
                                                if (++blocks == 3) throw Error(ErrorCode::state, "enough");
                                            }})),
                 Error);
    EXPECT_EQ(blocks, 3);
}

TEST(Run, WhatDoesNotFitIsRefusedBeforeAnythingIsWritten) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    const auto pedestal = test::pedestal();
    const auto refuse = [&](const RunOptions& options, const char* words, std::uint64_t frames = 100) {
        const auto source = test::data(frames);
        try {
            static_cast<void>(run(*source, pedestal, options));
            FAIL() << words;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr(words));
        }
    };
    auto options = options_for(path);
    options.find.window = {4, 3};
    refuse(options, "window");
    options = options_for(path);
    options.spectrum.spectrum_bins = -1;
    refuse(options, "spectrum_bins");
    refuse(options_for(folder.file("no/such/out.h5")), "no/such");
    refuse(options_for(path), "no frames", 0);
    auto scene = test::small_scene();
    scene.columns = 71;
    const auto other = frames::open_simulated(scene, frames::FrameKind::data, 10, 1);
    EXPECT_THROW(static_cast<void>(run(*other, pedestal, options_for(path))), OptionError);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));

    // An output that is there, and one that was begun.
    const auto source = test::data(100);
    static_cast<void>(run(*source, pedestal, options_for(path)));
    refuse(options_for(path), "--overwrite");
    static_cast<void>(run_until(3000, 1000, options_for(folder.file("begun.h5"))));
    refuse(options_for(folder.file("begun.h5")), "--resume", 3000);
    options = options_for(folder.file("begun.h5"));
    options.output.resume = true;
    options.find.n_sigma = 6;
    refuse(options, "n_sigma", 3000);
    options.find.n_sigma = 5;
    refuse(options, "frames of the source", 2999);
    options.provenance = {{"frames", "some"}};
    refuse(options, "frames = some", 3000);
    options.provenance = {{"frames", "all"}};
    const auto again = test::data(3000);
    EXPECT_THROW(static_cast<void>(run(*again, test::pedestal(101), options)), OptionError);
    options.output.output = folder.file("x.clust");
    refuse(options, "resume");
}

// --- queues ---------------------------------------------------------------------------------------

TEST(Run, ASlowConsumerHoldsTheSourceBack) {
    constexpr std::uint64_t k_frames = 30'000;
    std::atomic<std::uint64_t> read = 0, seen = 0, ahead = 0;
    Wrapped source(std::make_unique<test::Repeated>(k_frames), [&](std::uint64_t first, std::uint64_t count) {
        read = first + count;
        ahead = std::max(ahead.load(), read - seen);
    });
    RunOptions options;
    options.speed.batches = 2;
    const auto summary = run(source, test::pedestal(), options, {.clusters = [&](const ClustersView& view) {
                                 std::this_thread::sleep_for(std::chrono::milliseconds(30));
                                 seen += view.frames();
                             }});
    EXPECT_EQ(seen, k_frames);
    EXPECT_EQ(summary.frames, k_frames);
    // Three blocks read, and as many results as there are batches.
    EXPECT_LE(ahead, (3 + 2 + 1) * 1198U);
    EXPECT_GT(ahead, 1198U);
}

TEST(Run, ProgressEndsAtTheEnd) {
    std::vector<std::uint64_t> done;
    const auto source = test::data(4000);
    static_cast<void>(run(*source, test::pedestal(), {}, {.progress = [&](const Progress& p) {
        EXPECT_EQ(p.total, 4000U);
        done.push_back(p.done);
    }}));
    ASSERT_FALSE(done.empty());
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_EQ(done.back(), 4000U);
}

}  // namespace
}  // namespace lightmill::clusters

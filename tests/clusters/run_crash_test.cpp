// Runs that are killed, meet a full disk, or are looked at by another process.

#include "lightmill/clusters/run/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
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

RunOptions options_for(const std::string& output) {
    RunOptions options;
    options.output.output = output;
    options.provenance = {{"frames", "all"}};
    return options;
}

template <class Work>
pid_t in_child(const Work& work) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    try {
        work();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "in the child: %s\n", error.what());
        ::_exit(1);
    }
    ::_exit(0);
}

int wait_for(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
}

TEST(RunCrash, KilledAtAnyMomentItGoesOnToTheSameDigests) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    constexpr std::uint64_t k_frames = 24'000;
    const auto pedestal = test::pedestal();
    Summary expected;
    {
        test::Repeated source(k_frames);
        expected = run(source, pedestal);
    }
    // A run that writes takes longer, so no kill comes later than a third of it.
    const auto most = std::max(static_cast<int>(expected.wall_seconds * 1e6 / 3), 1000);
    auto options = options_for(path);
    options.output.resume = true;
    options.output.checkpoint_seconds = 0;  // after every block
    std::mt19937_64 random(std::random_device{}());
    int kills = 0;
    std::uint64_t reached = 0;
    for (int round = 0; round < 60 && !exists(path); ++round) {
        const pid_t child = in_child([&] {
            test::Repeated source(k_frames);
            static_cast<void>(run(source, pedestal, options));
        });
        // Early on by design: in the first milliseconds a file is opened and repaired.
        const auto patience = std::uniform_int_distribution<int>(0, round % 2 == 0 ? most / 8 : most)(random);
        std::this_thread::sleep_for(std::chrono::microseconds(patience));
        ::kill(child, SIGKILL);
        const int status = wait_for(child);
        if (WIFSIGNALED(status)) ++kills;
        if (WIFEXITED(status)) {
            ASSERT_EQ(WEXITSTATUS(status), 0) << "round " << round;
        }
        if (!exists(path + ".partial")) continue;
        const ResultReader reader(path + ".partial");
        ASSERT_GE(reader.info().frames, reached) << "what was safe is lost";
        reached = reader.info().frames;
        // Whole frames: each gives its hash.
        const auto clusters = reader.read(0, reached);
        for (std::size_t f = 0; f < reached; f += 37)
            ASSERT_EQ(hash_frame(clusters.view(), f), clusters.hashes[f]);
    }
    EXPECT_GE(kills, 2);
    test::Repeated source(k_frames);
    if (!exists(path)) static_cast<void>(run(source, pedestal, options));
    const ResultReader reader(path);
    EXPECT_TRUE(reader.info().complete);
    EXPECT_EQ(reader.info().digest, expected.digest);
    EXPECT_EQ(reader.info().model_digest, expected.model_digest);
    EXPECT_EQ(reader.info().clusters, expected.clusters);
    EXPECT_TRUE(std::ranges::equal(reader.spectrum().all(), expected.spectrum.all()));
    EXPECT_TRUE(std::ranges::equal(reader.hit_map().counts(), expected.hit_map.counts()));
    const auto clusters = reader.read(0, k_frames);
    for (std::size_t f = 0; f < k_frames; f += 11)
        ASSERT_EQ(hash_frame(clusters.view(), f), clusters.hashes[f]);
    std::printf("killed %d times\n", kills);
}

TEST(RunCrash, AnotherProcessReadsWhileItGrows) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    auto options = options_for(path);
    options.output.checkpoint_seconds = 0;
    const pid_t child = in_child([&] {
        test::Repeated source(30'000);
        static_cast<void>(run(source, test::pedestal(), options));
    });
    std::uint64_t most = 0;
    int looks = 0;
    while (!exists(path)) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "the run ended without a result";
        if (!exists(path + ".partial.checkpoint")) continue;
        try {
            const ResultReader reader(path + ".partial");
            if (!reader.info().killed) continue;
            ASSERT_GE(reader.info().frames, most);
            most = reader.info().frames;
            const auto n = std::min<std::uint64_t>(most, 2000);
            const auto clusters = reader.read(most - n, n);
            for (std::size_t f = 0; f < n; ++f) ASSERT_EQ(hash_frame(clusters.view(), f), clusters.hashes[f]);
            ++looks;
        } catch (const IoError&) {
            // It got its name in between.
        } catch (const FormatError& error) {
            // It came to its end in between.
            if (exists(path + ".partial.checkpoint")) ADD_FAILURE() << error.what();
        }
    }
    EXPECT_EQ(wait_for(child), 0);
    EXPECT_GT(looks, 3);
    EXPECT_GT(most, 1000U);
}

TEST(RunCrash, TwoRunsDoNotShareAFile) {
    const Folder folder;
    auto options = options_for(folder.file("out.h5"));
    const pid_t child = in_child([&] {
        Wrapped slow(test::data(100'000), [](std::uint64_t first, std::uint64_t) {
            if (first > 0) std::this_thread::sleep_for(std::chrono::minutes(1));
        });
        static_cast<void>(run(slow, test::pedestal(), options));
    });
    while (!exists(options.output.output + ".partial")) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "the run ended without a result";
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until it holds the lock
    for (const bool resume : {false, true}) {
        options.output.overwrite = !resume;
        options.output.resume = resume;
        const auto other = test::data(100'000);
        try {
            static_cast<void>(run(*other, test::pedestal(), options));
            ADD_FAILURE() << "it was let in";
        } catch (const IoError& error) {
            EXPECT_THAT(error.what(), HasSubstr("another run"));
        }
    }
    ::kill(child, SIGKILL);
    wait_for(child);
}

void expect_whole_frames(const std::string& path, std::uint64_t frames) {
    const ResultReader reader(path + ".partial");
    EXPECT_GT(reader.info().frames, 0U);
    EXPECT_LT(reader.info().frames, frames);
    const auto clusters = reader.read(0, reader.info().frames);
    for (std::size_t f = 0; f < clusters.numbers.size(); f += 7)
        ASSERT_EQ(hash_frame(clusters.view(), f), clusters.hashes[f]);
}

TEST(RunCrash, AFullDiskKeepsWholeFrames) {
    const Folder folder;
    if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=40m") != 0) {
        GTEST_SKIP() << "a small file system cannot be mounted here: " << std::strerror(errno);
    }
    const auto path = folder.file("out.h5");
    constexpr std::uint64_t k_frames = 60'000;
    auto options = options_for(path);
    options.output.checkpoint_seconds = 0;
    test::Repeated source(k_frames);
    const auto pedestal = test::pedestal();
    try {
        static_cast<void>(run(source, pedestal, options));
        ADD_FAILURE() << "it all fitted";
    } catch (const IoError& error) {
        EXPECT_EQ(error.error_number(), ENOSPC);
        EXPECT_THAT(error.what(), HasSubstr("--resume"));
    }
    EXPECT_FALSE(exists(path));
    EXPECT_FALSE(ResultReader(path + ".partial").info().killed);
    expect_whole_frames(path, k_frames);
    // With more room it goes on.
    ASSERT_EQ(::mount("none", folder.path().c_str(), "tmpfs", MS_REMOUNT, "size=400m"), 0);
    options.output.resume = true;
    const auto summary = run(source, pedestal, options);
    EXPECT_GT(summary.resumed_frames, 0U);
    EXPECT_EQ(summary.digest, run(source, pedestal).digest);
    EXPECT_EQ(::umount2(folder.path().c_str(), MNT_DETACH), 0);
}

TEST(RunCrash, ALimitOnFileSizesKeepsWholeFrames) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    auto options = options_for(path);
    options.output.checkpoint_seconds = 0;
    const pid_t child = in_child([&] {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{30 << 20, 30 << 20};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(3);
        test::Repeated source(60'000);
        try {
            static_cast<void>(run(source, test::pedestal(), options));
        } catch (const IoError& error) {
            ::_exit(error.error_number() == EFBIG ? 42 : 4);
        }
    });
    const int status = wait_for(child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 42);
    expect_whole_frames(path, 60'000);
}

}  // namespace
}  // namespace lightmill::clusters

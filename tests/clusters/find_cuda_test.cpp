// The CUDA backend where it is unlike the others: several blocks on their way, memory that runs out, bands.
// On the emulated device, and on a GPU where there is one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "lightmill/base/error.hpp"
#include "lightmill/clusters/find/find_cuda_internal.hpp"
#include "lightmill/cuda/device.hpp"
#include "scene.hpp"

namespace lightmill::clusters::test {
namespace {

std::vector<std::string> gpu_backends() {
    std::vector<std::string> backends{"cuda_emulated"};
    if (available_backends().front() == "cuda") backends.emplace_back("cuda");
    return backends;
}

TEST(CudaDevice, IsThereOrSaysWhyNot) {
    std::string why;
    if (cuda::devices(why).empty()) {
        EXPECT_FALSE(why.empty());
        const auto scene = make_scene({});
        try {
            const Finder finder(scene.pedestal, {}, {.backend = "cuda"});
            FAIL();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::unavailable);
            EXPECT_THAT(error.what(), testing::HasSubstr(why));
        }
        GTEST_SKIP() << "every test of backend cuda on a device (6 cases of each of the " << 10
                     << " tests of EveryBackend, and those of OnGpu): " << why;
    }
}

class OnGpu : public testing::TestWithParam<std::string> {
  protected:
    Scene scene_ = make_scene({.frames = 40, .photons_per_pixel = 0.05});
    FindOptions options_{.window = {5, 5}, .epoch = 3, .memory = 20};
    Answer want_ = find_all(scene_, options_, {.backend = "reference"}, 1000);
    [[nodiscard]] SpeedOptions speed(std::int64_t batches) const {
        return {.backend = GetParam(), .threads = 1, .batches = batches, .copy_frames = 3, .ring = 3};
    }
};

TEST_P(OnGpu, KeepsSeveralBlocksOnTheirWay) {
    for (const std::size_t depth : {1U, 2U, 5U, 8U}) {
        Finder finder(scene_.pedestal, options_, speed(8));
        finder.reserve(4);
        ResultDigest digest;
        for (std::size_t first = 0; first < 40; first += 4) {
            if (finder.pending() == depth) digest.add(finder.collect().view());
            finder.submit(scene_.block(first, 4));
        }
        while (finder.pending() > 0) digest.add(finder.collect().view());
        finder.finish();
        EXPECT_EQ(digest.hex(), want_.digest) << "depth " << depth;
        EXPECT_EQ(finder.model_digest(), want_.model_digest);
        EXPECT_EQ(finder.absent(), want_.absent);
    }
}

TEST_P(OnGpu, ReadsPinnedFramesInPlace) {
    Finder finder(scene_.pedestal, options_, speed(3));
    finder.pin(scene_.pixels);
    finder.reserve(40);
    ResultDigest digest;
    digest.add(finder.find(scene_.all()).view());
    EXPECT_EQ(digest.hex(), want_.digest);
}

TEST_P(OnGpu, LendsBatchesThatMayComeBackAnyTime) {
    std::vector<Batch> held;
    {
        Finder finder(scene_.pedestal, options_, speed(4));
        for (std::size_t first = 0; first < 16; first += 4)
            held.push_back(finder.find(scene_.block(first, 4)));
        EXPECT_THROW((void)finder.find(scene_.block(16, 4)), Error);
        std::swap(held[1], held.back());
        std::thread([batch = std::move(held.back())]() mutable { batch.release(); }).join();
        held.pop_back();
        held.push_back(finder.find(scene_.block(16, 4)));
        held.erase(held.begin() + 1);
        finder.submit(scene_.block(20, 4));
    }
    // The finder is gone, with a block on its way; what it lent is still there.
    EXPECT_EQ(held.back().view().first_index, 16U);
    const auto frame = [&](const ClustersView& view, std::size_t i) { return hash_frame(view, i); };
    EXPECT_EQ(frame(held.front().view(), 2), want_.clusters.hashes[2]);
    EXPECT_EQ(frame(held.back().view(), 3), want_.clusters.hashes[19]);
}

TEST_P(OnGpu, EndsWithBlocksOnTheirWay) {
    Finder finder(scene_.pedestal, options_, speed(8));
    for (std::size_t first = 0; first < 20; first += 4) finder.submit(scene_.block(first, 4));
    EXPECT_EQ(finder.pending(), 5U);
    EXPECT_THROW((void)finder.find(scene_.block(20, 4)), Error);
    // What a consumer that throws leaves behind: the destructor waits for the device.
}

TEST_P(OnGpu, SaysNoToACollectOfNothing) {
    Finder finder(scene_.pedestal, options_, speed(2));
    EXPECT_THROW((void)finder.collect(), Error);
}

TEST_P(OnGpu, NamesTheFirstResidualThatDoesNotFit) {
    auto scene = make_scene({.frames = 10});
    scene.pixels[40 * 24 * 7 + 40 * 10 + 20] = 60000;
    scene.pixels[40 * 24 * 7 + 40 * 20 + 30] = 50000;
    Finder finder(scene.pedestal, {.payload = Payload::int16}, speed(4));
    finder.submit(scene.block(0, 0));  // nothing to find is nothing found
    EXPECT_EQ(finder.collect().view().frames(), 0U);
    finder.submit(scene.block(0, 5));
    finder.submit(scene.block(5, 5));
    (void)finder.collect();
    try {
        (void)finder.collect();
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::range);
        EXPECT_THAT(error.what(), testing::HasSubstr("row 10, column 20"));
    }
}

TEST_P(OnGpu, RefusesDevicesThatAreNoNumbers) {
    for (const char* devices : {"", "a", "0,", ",0", "0;1", "-1"}) {
        auto asked = speed(2);
        asked.devices = devices;
        EXPECT_THROW(Finder(scene_.pedestal, options_, asked), OptionError) << devices;
    }
    auto asked = speed(2);
    asked.devices = "0,0,0,0,0,0,0,0,0,0,0,0,0";  // 24 rows, 2 beyond the window
    EXPECT_THROW(Finder(scene_.pedestal, options_, asked), OptionError);
}

INSTANTIATE_TEST_SUITE_P(Finder, OnGpu, testing::ValuesIn(gpu_backends()),
                         [](const auto& backend) { return backend.param; });

// The engine itself, on a device of little memory.
class LittleMemory : public testing::Test {
  protected:
    Scene scene_ = make_scene({.shape = {16, 32}, .frames = 24});
    FindOptions options_;
    SpeedOptions speed_{.copy_frames = 2, .ring = 8};
    detail::Modules modules_{{0, 16}, {0, 32}};
    FinderState state_{.models = {scene_.pedestal.model},
                       .raster_sum = {},
                       .raster_square = {},
                       .absent = {},
                       .negatives = std::vector<std::uint32_t>(16 * 32)};

    std::size_t find(std::size_t memory_bytes) {
        const auto engine = detail::make_gpus({scene_.pedestal, options_, modules_, state_, 1, speed_},
                                              cuda::emulated_devices(1, 7, memory_bytes));
        const auto slot = engine->make_slot();
        engine->submit(scene_.all(), *slot);
        engine->collect(*slot);
        slot->expose(9, Payload::int32);
        return slot->view.clusters();
    }
};

TEST_F(LittleMemory, MakesTheRingShorter) {
    const auto want = find(0);
    EXPECT_GT(want, 50U);
    // From room for a single chunk to room for all.
    std::size_t worked = 0;
    for (std::size_t bytes = 10'000; bytes < 120'000; bytes += 2'500) {
        try {
            EXPECT_EQ(find(bytes), want) << bytes;
            ++worked;
        } catch (const DeviceError& error) {
            EXPECT_TRUE(error.out_of_memory());
            EXPECT_EQ(worked, 0U) << "less memory was enough";
        }
    }
    EXPECT_GT(worked, 10U);
}

TEST(EmulatedDevice, RunsQueuesInAnyOrderThatMarksAllow) {
    // Without a wait the second queue reads before the first has written, for some seed; with one, never.
    for (const bool waits : {false, true}) {
        int early = 0;
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            const auto device = cuda::emulated_devices(1, seed).front();
            const auto first = device->make_queue(), second = device->make_queue();
            const auto written = device->make_mark(), read = device->make_mark();
            cuda::DeviceMemory<int> memory(device, 1);
            const int value = 7;
            int seen = 0;
            device->copy_in(first, memory.data(), &value, sizeof(value));
            device->record(first, written);
            if (waits) device->wait(second, written);
            device->copy_out(second, &seen, memory.data(), sizeof(seen));
            device->record(second, read);
            device->synchronize(read);
            early += seen != 7;
        }
        EXPECT_EQ(early > 0, !waits);
    }
}

}  // namespace
}  // namespace lightmill::clusters::test

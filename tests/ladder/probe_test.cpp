#include "lightmill/ladder/probe/probe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lightmill/base/error.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/cuda/device.hpp"
#include "lightmill/ladder/probe/probe_internal.hpp"

namespace lightmill::ladder {
namespace {

// Short passes over small buffers: plausible, not exact.
const Probe& short_probe() {
    static const Probe k_probe = probe({.threads = 2, .budget_s = 0.3, .buffer_bytes = 8 << 20});
    return k_probe;
}

TEST(Probe, MeasuresEveryResourcePlausibly) {
    const Probe& p = short_probe();
    for (auto resource : {"memory_read", "memory_write", "memory_copy", "fma_f32", "fma_f64"}) {
        for (int threads : {1, 2}) {
            const auto found = std::find_if(p.ceilings.begin(), p.ceilings.end(), [&](const Ceiling& c) {
                return c.resource == resource && c.threads == threads;
            });
            ASSERT_NE(found, p.ceilings.end()) << resource << " with " << threads;
            EXPECT_GT(found->best, 1e8) << resource;
            EXPECT_LT(found->best, 1e14) << resource;
            EXPECT_LE(found->median, found->best);
            EXPECT_GE(found->passes, 5);
            EXPECT_FALSE(found->how.empty());
        }
    }
    // Twice the lanes: one type cannot be far from twice the other.
    const double lanes = ceiling(p, "fma_f32", 1) / ceiling(p, "fma_f64", 1);
    EXPECT_GT(lanes, 1.4);
    EXPECT_LT(lanes, 2.8);
    // No core runs at 6.2 GHz with more than two multiply-add pipes: above that, the compiler merged the
    // chains.
    const auto& how = std::find_if(p.ceilings.begin(), p.ceilings.end(), [](const Ceiling& c) {
                          return c.resource == "fma_f32" && c.threads == 1;
                      })->how;
    const double widest = how == "simd_avx512" ? 16 : how == "simd_avx2" ? 8 : 4;
    EXPECT_LT(ceiling(p, "fma_f32", 1), 6.2e9 * 2 * 2 * widest) << how;
    EXPECT_GT(p.page_fault_s, 1e-8);
    EXPECT_LT(p.page_fault_s, 1e-3);
    EXPECT_GT(p.clock_resolution_s, 0);
    EXPECT_LT(p.clock_resolution_s, 1e-4);
    EXPECT_FALSE(p.gpu.empty());  // its name, or why there is none
}

TEST(Probe, MeasuresWhatADeviceGives) {
    Probe p;
    const auto device = cuda::emulated_devices(1, 1).front();
    detail::probe_device(device, 0.1, 4 << 20, p);
    for (const auto* resource : {"host_to_device", "device_to_host", "both_directions"}) {
        for (const std::int64_t bytes : {320'000, 10'000'000, 64'000'000}) {
            const auto found = std::find_if(p.ceilings.begin(), p.ceilings.end(), [&](const Ceiling& c) {
                return c.resource == resource && c.bytes == bytes;
            });
            ASSERT_NE(found, p.ceilings.end()) << resource << ' ' << bytes;
            EXPECT_GT(found->best, 1e7);
            EXPECT_LT(found->best, 1e13);
            EXPECT_GE(found->passes, 5);
        }
    }
    EXPECT_GT(ceiling(p, "device_copy"), 1e7);
    ASSERT_EQ(p.costs.size(), 4U);
    for (const auto& cost : p.costs) {
        EXPECT_GT(cost.seconds, 1e-9) << cost.what;
        EXPECT_LT(cost.seconds, 1e-1) << cost.what;
    }
    EXPECT_TRUE(p.notes.empty());
    const Probe again = probe_from_json(to_json(p), "probe.json");
    ASSERT_EQ(again.costs.size(), 4U);
    EXPECT_EQ(again.costs[3].what, p.costs[3].what);
    EXPECT_EQ(again.costs[3].seconds, p.costs[3].seconds);
    EXPECT_EQ(again.ceilings.front().bytes, p.ceilings.front().bytes);
    EXPECT_THAT(to_text(p), testing::HasSubstr("copies queued, 64 MB each"));
}

TEST(Probe, ADeviceWithoutMemoryLeavesANote) {
    Probe p;
    const auto device = cuda::emulated_devices(1, 1, 200 << 20).front();
    detail::probe_device(device, 0.01, std::size_t{1} << 30, p);
    EXPECT_EQ(ceiling(p, "device_copy"), 0);
    EXPECT_THAT(p.notes, testing::Contains(testing::HasSubstr("device_copy was not measured")));
    EXPECT_EQ(p.costs.size(), 4U);
}

TEST(Probe, CeilingIsTheHighestWithAtMostSoManyThreads) {
    Probe p;
    p.ceilings = {
        {"memory_read", 1, 10, 9, 5, ""}, {"memory_read", 2, 18, 9, 5, ""}, {"memory_read", 4, 16, 9, 5, ""}};
    EXPECT_EQ(ceiling(p, "memory_read"), 18);
    EXPECT_EQ(ceiling(p, "memory_read", 1), 10);
    EXPECT_EQ(ceiling(p, "memory_read", 3), 18);
    EXPECT_EQ(ceiling(p, "memory_read", 4), 18);
    EXPECT_EQ(ceiling(p, "fma_f32"), 0);
}

TEST(Probe, JsonReturnsWhatWasWritten) {
    const Probe& p = short_probe();
    const Probe q = probe_from_json(to_json(p), "probe.json");
    EXPECT_EQ(to_json(q), to_json(p));
    ASSERT_EQ(q.ceilings.size(), p.ceilings.size());
    EXPECT_EQ(q.ceilings.back().best, p.ceilings.back().best);
    EXPECT_EQ(q.environment, p.environment);
    EXPECT_FALSE(value(q.environment, "cpu").empty());
    EXPECT_EQ(value(q.environment, "usable_threads"), std::to_string(available_threads()));
    EXPECT_THAT(to_text(p), testing::HasSubstr("memory_read"));
}

TEST(Probe, ForeignFilesAreRefusedByName) {
    for (const char* text : {"", "{", "[]", "{}", R"({"format": "lightmill probe 2"})",
                             R"({"format": "lightmill probe 1", "ceilings": [{"resource": 3}]})"}) {
        try {
            static_cast<void>(probe_from_json(text, "some/probe.json"));
            ADD_FAILURE() << "accepted: " << text;
        } catch (const FormatError& error) {
            EXPECT_EQ(error.file(), "some/probe.json");
        }
    }
}

TEST(Environment, NamesTheMachineAndTheBuild) {
    const auto facts = environment();
    for (auto name : {"time", "host", "cpu", "processors", "memory", "kernel", "compiler", "build_type"})
        EXPECT_FALSE(value(facts, name).empty()) << name;
    EXPECT_TRUE(value(facts, "no such fact").empty());
    EXPECT_TRUE(identifies_machine("cpu"));
    EXPECT_FALSE(identifies_machine("time"));
    EXPECT_FALSE(identifies_machine("load_average"));
    EXPECT_GE(running_threads(), 1);
    EXPECT_GT(available_memory_bytes(), 0);
}

}  // namespace
}  // namespace lightmill::ladder

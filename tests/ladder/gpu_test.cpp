#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lightmill/ladder/clock/clock.hpp"

namespace lightmill::ladder {
namespace {

TEST(GpuMonitor, ReadsWhatTheDriversLibrarySays) {
    for (const char* library : {LIGHTMILL_FAKE_NVML, LIGHTMILL_FAKE_NVML_OLD}) {
        const GpuMonitor gpus(library);
        ASSERT_EQ(gpus.why_not(), "") << library;
        const auto states = gpus.read();
        ASSERT_EQ(states.size(), 2U);
        EXPECT_EQ(states[1].index, 1);
        EXPECT_EQ(states[1].sm_mhz, 2001U);
        EXPECT_EQ(states[1].memory_mhz, 2002U);
        EXPECT_EQ(states[1].power_mw, 70123U);
        EXPECT_EQ(states[0].utilisation, 0U);
        EXPECT_EQ(states[1].utilisation, 90U);
        EXPECT_EQ(states[0].throttle_reasons, 1U);
        EXPECT_EQ(states[1].throttle_reasons, 4U);
        // A new driver has no plain temperature.
        EXPECT_EQ(states[0].temperature_c, library == std::string(LIGHTMILL_FAKE_NVML) ? 0U : 41U);
    }
}

TEST(GpuMonitor, SaysWhyItReadsNothing) {
    const GpuMonitor none("libno-such-driver.so.1");
    EXPECT_THAT(none.why_not(), testing::HasSubstr("no NVIDIA driver"));
    EXPECT_TRUE(none.read().empty());
    const GpuMonitor other("libm.so.6");
    EXPECT_THAT(other.why_not(), testing::HasSubstr("libm.so.6 is there but has no nvmlInit_v2"));
}

}  // namespace
}  // namespace lightmill::ladder

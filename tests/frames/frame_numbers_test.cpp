// The ledger of frame numbers, against a list of all numbers and by hand.

#include "lightmill/frames/frame_numbers.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace lightmill::frames {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void see(FrameNumbers& numbers, std::uint64_t first, const std::vector<std::uint64_t>& values) {
    std::vector<FrameInfo> infos;
    for (auto v : values) infos.push_back({v, 0});
    numbers.see(first, infos);
}

TEST(FrameNumbers, ByHand) {
    FrameNumbers numbers;
    EXPECT_EQ(numbers.anomalies().missing_frames, 0U);
    see(numbers, 0, {5, 6, 9, 8, 8, 6, 3, 12});
    const auto a = numbers.anomalies();
    EXPECT_THAT(a.missing, ElementsAre(4, 7, 10, 11));
    EXPECT_EQ(a.missing_frames, 4U);
    EXPECT_THAT(a.repeated, ElementsAre(8, 6));
    EXPECT_THAT(a.out_of_order, ElementsAre(8, 3));
}

TEST(FrameNumbers, FramesAreCountedOnceHoweverTheyAreRead) {
    FrameNumbers numbers;
    see(numbers, 0, {1, 2, 3});
    see(numbers, 0, {1, 2, 3});
    see(numbers, 1, {2, 3, 3});
    see(numbers, 2, {3});
    const auto a = numbers.anomalies();
    EXPECT_THAT(a.missing, IsEmpty());
    EXPECT_THAT(a.repeated, ElementsAre(3));
}

TEST(FrameNumbers, FramesJumpedOverAreNotMissing) {
    FrameNumbers numbers;
    see(numbers, 100, {101, 102});
    see(numbers, 110, {111, 113});
    EXPECT_THAT(numbers.anomalies().missing, ElementsAre(112));
    FrameNumbers zero;
    see(zero, 0, {7});
    see(zero, 5, {0});
    EXPECT_EQ(zero.anomalies().out_of_order_frames, 1U);
    EXPECT_EQ(zero.anomalies().missing_frames, 6U);
}

TEST(FrameNumbers, ListsAreCutAndCountsAreNot) {
    FrameNumbers numbers;
    std::vector<std::uint64_t> values{0, std::numeric_limits<std::uint64_t>::max()};
    values.resize(3000, 0);
    see(numbers, 0, values);
    const auto a = numbers.anomalies();
    EXPECT_EQ(a.missing_frames, std::numeric_limits<std::uint64_t>::max() - 1);
    EXPECT_EQ(a.missing.size(), Anomalies::k_max_listed);
    EXPECT_EQ(a.missing.front(), 1U);
    EXPECT_EQ(a.repeated_frames, 2998U);
    EXPECT_EQ(a.repeated.size(), Anomalies::k_max_listed);
}

TEST(FrameNumbers, EveryOtherFrameLostForLong) {
    FrameNumbers numbers;
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 300'000; ++i) values.push_back(2 * i);
    see(numbers, 0, values);
    const auto a = numbers.anomalies();
    EXPECT_EQ(a.missing_frames, 299'999U);
    EXPECT_EQ(a.missing.size(), Anomalies::k_max_listed);
    EXPECT_EQ(a.missing[10], 21U);
}

TEST(FrameNumbers, RandomSequencesMatchAListOfAllNumbers) {
    std::uint64_t state = 1;
    const auto random = [&](std::uint64_t below) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        return (state >> 33) % below;
    };
    for (int round = 0; round < 200; ++round) {
        FrameNumbers numbers;
        std::vector<std::uint64_t> values, repeated, out_of_order, missing;
        std::set<std::uint64_t> seen;
        for (std::uint64_t i = 0, n = 1 + random(60); i < n; ++i) {
            const auto v = 10 + random(50);
            values.push_back(v);
            if (seen.contains(v)) {
                repeated.push_back(v);
            } else if (!seen.empty() && v < *seen.rbegin()) {
                out_of_order.push_back(v);
            }
            seen.insert(v);
        }
        for (auto v = *seen.begin(); v < *seen.rbegin(); ++v) {
            if (!seen.contains(v)) missing.push_back(v);
        }
        for (std::uint64_t first = 0; first < values.size();) {
            const auto n = std::min<std::uint64_t>(1 + random(7), values.size() - first);
            see(numbers, first,
                {values.begin() + static_cast<std::ptrdiff_t>(first),
                 values.begin() + static_cast<std::ptrdiff_t>(first + n)});
            first += n;
        }
        const auto a = numbers.anomalies();
        ASSERT_EQ(a.missing, missing);
        ASSERT_EQ(a.repeated, repeated);
        ASSERT_EQ(a.out_of_order, out_of_order);
        ASSERT_EQ(a.missing_frames, missing.size());
    }
}

}  // namespace
}  // namespace lightmill::frames

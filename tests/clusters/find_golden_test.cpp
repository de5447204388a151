// Cases small enough to work out by hand. Every pixel has X₀ = 1000, m = 0 and s = 100 ADU² (σ = 10
// ADU) and n_sigma is 5, so a maximum fires above 50 ADU and a 3×3 total above 3 · 50 = 150 ADU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lightmill/clusters/find/find.hpp"

namespace lightmill::clusters::test {
namespace {

using testing::ElementsAre;

constexpr std::int64_t k_rows = 7, k_columns = 8;

Pedestal flat_pedestal() {
    Pedestal pedestal;
    pedestal.shape = {k_rows, k_columns};
    pedestal.frames = 1000;
    const std::size_t size = k_rows * k_columns;
    pedestal.model = {std::vector<Pixel>(size, 1000), std::vector<float>(size, 0.0F),
                      std::vector<float>(size, 100.0F)};
    pedestal.state.assign(size, PixelState::used);
    pedestal.seen.assign(size, 1000);
    pedestal.sum.assign(size, 1000 * 1000);
    pedestal.square.assign(size, 1000 * (1000 * 1000 + 100));
    return pedestal;
}

struct Value {
    std::int64_t row, column;
    int adu;  // above 1000
};

std::vector<Pixel> frame_with(std::initializer_list<Value> values) {
    std::vector<Pixel> frame(k_rows * k_columns, 1000);
    for (const auto& v : values)
        frame[static_cast<std::size_t>(v.row * k_columns + v.column)] = static_cast<Pixel>(1000 + v.adu);
    return frame;
}

class Golden : public testing::TestWithParam<std::string> {
  protected:
    Clusters find(std::initializer_list<Value> values, FindOptions options = {}) {
        return find_frame(frame_with(values), options);
    }
    Clusters find_frame(const std::vector<Pixel>& frame, FindOptions options = {}) {
        Finder finder(pedestal_, options, {.backend = GetParam(), .threads = 2}, module_rows_,
                      module_columns_);
        const frames::FrameInfo info{7, 0};
        const auto batch = finder.find({std::span(&info, 1), {frame.data(), {1, k_rows, k_columns}}});
        state_ = finder.state();
        return batch.to_owned();
    }
    float mean(std::int64_t row, std::int64_t column) const {
        return state_.models.at(0).mean[static_cast<std::size_t>(row * k_columns + column)];
    }
    float variance(std::int64_t row, std::int64_t column) const {
        return state_.models.at(0).variance[static_cast<std::size_t>(row * k_columns + column)];
    }
    Pedestal pedestal_ = flat_pedestal();
    FinderState state_;
    std::vector<std::int64_t> module_rows_, module_columns_;
};

TEST_P(Golden, OnePhotonOneCluster) {
    const auto found = find({{3, 4, 100}, {3, 5, 30}, {2, 4, -20}});
    EXPECT_THAT(found.numbers, ElementsAre(7));
    EXPECT_THAT(found.offsets, ElementsAre(0, 1));
    EXPECT_THAT(found.rows, ElementsAre(3));
    EXPECT_THAT(found.columns, ElementsAre(4));
    EXPECT_THAT(found.residuals, ElementsAre(0, -20, 0, 0, 100, 30, 0, 0, 0));
}

TEST_P(Golden, ThresholdsAreExclusive) {
    EXPECT_EQ(find({{3, 4, 50}}).rows.size(), 0U);  // 50·50 > 2500 does not hold
    EXPECT_EQ(find({{3, 4, 51}}).rows.size(), 1U);
    // A total of exactly 150: 150·150 > 9·2500 does not hold.
    EXPECT_EQ(find({{3, 4, 48}, {3, 3, 34}, {3, 5, 34}, {2, 4, 34}}).rows.size(), 0U);
    EXPECT_EQ(find({{3, 4, 49}, {3, 3, 34}, {3, 5, 34}, {2, 4, 34}}).rows.size(), 1U);
}

TEST_P(Golden, BackgroundLearnsNeighboursAndNegativesDoNot) {
    find({{3, 4, 100}, {1, 1, 10}, {5, 1, -60}, {6, 6, -50}});
    EXPECT_EQ(mean(1, 1), 10.0F * 0.001F);
    EXPECT_EQ(variance(1, 1), 0.999F * (100.0F + 100.0F * 0.001F));
    EXPECT_EQ(variance(0, 0), 0.999F * 100.0F);
    for (std::int64_t row = 2; row <= 4; ++row) {
        for (std::int64_t column = 3; column <= 5; ++column) {
            EXPECT_EQ(mean(row, column), 0.0F);  // the photon and its neighbours
            EXPECT_EQ(variance(row, column), 100.0F);
        }
    }
    EXPECT_EQ(variance(5, 1), 100.0F);       // below −5σ
    EXPECT_EQ(mean(6, 6), -50.0F * 0.001F);  // exactly −5σ is background
    EXPECT_EQ(state_.negatives[5 * k_columns + 1], 1U);
    EXPECT_EQ(state_.negatives[6 * k_columns + 6], 0U);
}

TEST_P(Golden, CornersAndBordersAreFilledWithZeros) {
    auto found = find({{0, 0, 100}, {0, 1, 40}, {1, 0, 30}, {6, 7, 90}, {5, 7, 20}});
    EXPECT_THAT(found.rows, ElementsAre(0, 6));
    EXPECT_THAT(found.columns, ElementsAre(0, 7));
    EXPECT_THAT(found.residuals, ElementsAre(0, 0, 0, 0, 100, 40, 0, 30, 0,  //
                                             0, 20, 0, 0, 90, 0, 0, 0, 0));
    // √(w·h) stays whole at borders: a total of 140 in a corner's four pixels does not fire.
    EXPECT_EQ(find({{0, 0, 35}, {0, 1, 35}, {1, 0, 35}, {1, 1, 35}}).rows.size(), 0U);
    // A window that the image clips on all sides.
    found = find({{3, 4, 100}}, {.window = {21, 21}});
    EXPECT_EQ(found.residuals.size(), 441U);
    EXPECT_EQ(std::count(found.residuals.begin(), found.residuals.end(), 100), 1);
}

TEST_P(Golden, EqualNeighboursGiveOneCluster) {
    EXPECT_THAT(find({{3, 4, 100}, {3, 5, 100}}).columns, ElementsAre(4));
    EXPECT_THAT(find({{3, 4, 100}, {4, 3, 100}}).rows, ElementsAre(3));
    EXPECT_THAT(find({{3, 4, 100}, {3, 5, 100}}, {.ties = Ties::all}).columns, ElementsAre(4, 5));
    // In a row of three the second sees the first and the third sees the second.
    EXPECT_THAT(find({{3, 3, 100}, {3, 4, 100}, {3, 5, 100}}).columns, ElementsAre(3));
    // Out of each other's window they are two.
    EXPECT_THAT(find({{3, 3, 100}, {3, 5, 100}}).columns, ElementsAre(3, 5));
    EXPECT_THAT(find({{3, 3, 100}, {3, 5, 100}}, {.window = {5, 3}}).columns, ElementsAre(3));
}

TEST_P(Golden, TheTotalTestAndItsAcceptedLoss) {
    auto frame = frame_with({});
    for (std::int64_t row = 2; row <= 4; ++row) {
        for (std::int64_t column = 3; column <= 5; ++column)
            frame[static_cast<std::size_t>(row * k_columns + column)] = 1020;
    }
    // Only the centre's window sums to 180; it holds the maximum, but eight others have it too and an
    // earlier one of them emits nothing by its own test.
    EXPECT_EQ(find_frame(frame).rows.size(), 0U);
    EXPECT_EQ(mean(3, 4), 0.0F);            // yet it is no background
    EXPECT_EQ(mean(2, 4), 20.0F * 0.001F);  // an edge sums to 120: background
    EXPECT_EQ(find_frame(frame, {.ties = Ties::all}).rows.size(), 1U);
    frame[3 * k_columns + 4] = 1021;
    EXPECT_THAT(find_frame(frame).residuals, ElementsAre(20, 20, 20, 20, 21, 20, 20, 20, 20));
}

TEST_P(Golden, OverlappingPhotons) {
    // Side by side the larger wins; two apart both stand and share the column between them.
    EXPECT_THAT(find({{3, 3, 100}, {3, 4, 80}}).columns, ElementsAre(3));
    const auto found = find({{3, 3, 100}, {3, 4, 40}, {3, 5, 80}});
    EXPECT_THAT(found.columns, ElementsAre(3, 5));
    EXPECT_THAT(found.residuals, ElementsAre(0, 0, 0, 0, 100, 40, 0, 0, 0, 0, 0, 0, 40, 80, 0, 0, 0, 0));
}

TEST_P(Golden, AbsentPixelsAreOutsideTheImage) {
    pedestal_.absent = {.value = Pixel{65535}, .gain_bits = true};
    pedestal_.state[3 * k_columns + 3] = PixelState::masked;
    auto frame = frame_with({{3, 3, 500}, {3, 4, 100}, {2, 4, 30}, {5, 1, 80}});
    frame[2 * k_columns + 5] = 65535;         // lost
    frame[4 * k_columns + 4] = 0x4000 + 900;  // another gain
    const auto found = find_frame(frame);
    EXPECT_THAT(found.rows, ElementsAre(3, 5));
    EXPECT_THAT(found.residuals, ElementsAre(0, 30, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 80, 0, 0, 0, 0));
    EXPECT_EQ(state_.absent.absent_value, 1U);
    EXPECT_EQ(state_.absent.gain_bits, 1U);
    EXPECT_EQ(variance(3, 3), 100.0F);  // an absent pixel does not learn
    EXPECT_EQ(variance(2, 5), 100.0F);
    EXPECT_EQ(variance(4, 4), 100.0F);
}

TEST_P(Golden, ResidualsRoundHalfToEven) {
    pedestal_.model.mean.assign(k_rows * k_columns, -0.5F);
    const auto found = find({{3, 4, 100}, {3, 3, 1}, {3, 5, -2}});
    EXPECT_THAT(found.residuals,
                ElementsAre(0, 0, 0, 2, 100, -2, 0, 0, 0));  // 1.5, 100.5, −1.5; 0.5 elsewhere
}

TEST_P(Golden, AFrameIsJudgedWithTheModelBeforeIt) {
    // 50 ADU fires below s = 100 only: 50·50 > 25·s. A frame of zeros brings s to 99.9.
    Finder finder(pedestal_, {}, {.backend = GetParam()});
    const auto quiet = frame_with({});
    const auto edge = frame_with({{3, 4, 50}});
    const frames::FrameInfo info{1, 0};
    auto count = [&](const std::vector<Pixel>& frame) {
        return finder.find({std::span(&info, 1), {frame.data(), {1, k_rows, k_columns}}}).view().clusters();
    };
    EXPECT_EQ(count(edge), 0U);  // s = 100; learns the 50
    EXPECT_EQ(finder.state().models[0].mean[3 * k_columns + 4], 50.0F * 0.001F);
    Finder later(pedestal_, {}, {.backend = GetParam()});
    std::swap(finder, later);
    EXPECT_EQ(count(quiet), 0U);  // s = 99.9 from here on
    EXPECT_EQ(count(edge), 1U);
}

TEST_P(Golden, ModulesHaveAGapBetweenThem) {
    module_columns_ = {4};
    const auto found = find({{3, 3, 100}, {3, 4, 80}, {2, 3, 30}});
    EXPECT_THAT(found.columns, ElementsAre(3, 4));
    EXPECT_THAT(found.residuals, ElementsAre(0, 30, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 80, 0, 0, 0, 0));
    module_columns_.clear();
    module_rows_ = {3};
    EXPECT_THAT(find({{2, 4, 100}, {3, 4, 80}}).rows, ElementsAre(2, 3));
}

TEST_P(Golden, EachStreamHasItsOwnBackground) {
    Finder finder(pedestal_, {.rule = Rule::per_stream, .streams = 2}, {.backend = GetParam(), .threads = 2});
    std::vector<Pixel> frames = frame_with({{1, 1, 10}});
    const auto second = frame_with({{1, 1, 20}});
    frames.insert(frames.end(), second.begin(), second.end());
    const std::vector<frames::FrameInfo> infos(2);
    (void)finder.find({infos, {frames.data(), {2, k_rows, k_columns}}});
    const auto state = finder.state();
    EXPECT_EQ(state.models.at(0).mean[k_columns + 1], 10.0F * 0.001F);
    EXPECT_EQ(state.models.at(1).mean[k_columns + 1], 20.0F * 0.001F);
}

std::vector<std::string> backends() {
    std::vector<std::string> all;
    for (const auto name : available_backends()) all.emplace_back(name);
    all.emplace_back("cuda_emulated");
    return all;
}
INSTANTIATE_TEST_SUITE_P(Finder, Golden, testing::ValuesIn(backends()),
                         [](const auto& c) { return c.param; });

}  // namespace
}  // namespace lightmill::clusters::test

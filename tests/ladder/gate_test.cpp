#include "lightmill/ladder/gate/gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lightmill/base/error.hpp"

namespace lightmill::ladder {
namespace {

using testing::HasSubstr;

Answer of(const std::vector<double>& values) {
    return {array_of<double>("x", std::span<const double>(values))};
}

TEST(Gate, SaysWhereAndWhat) {
    const std::vector<double> want{1, 2, 3, 4}, got{1, 2, 3.5, 5};
    EXPECT_TRUE(compare_answers(of(want), of(want), {}).passed);
    const auto result = compare_answers(of(want), of(got), {});
    EXPECT_FALSE(result.passed);
    EXPECT_THAT(result.failure,
                HasSubstr("x: first difference at index 2: 3.5, expected 3; 2 of 4 differ, by up to 1"));
}

TEST(Gate, NothingThatIsNotFinitePassesWhateverTheTolerance) {
    const double infinity = std::numeric_limits<double>::infinity();
    const Tolerance wide{.absolute = 1e300, .relative = 1e300, .share = 1};
    for (const double bad : {std::nan(""), infinity, -infinity}) {
        const std::vector<double> want{1, 2}, got{1, bad}, all{bad, bad};
        EXPECT_FALSE(compare_answers(of(want), of(got), wide).passed);
        // Equal to an answer that is as bad is no better.
        EXPECT_FALSE(compare_answers(of(all), of(all), wide).passed);
        EXPECT_FALSE(compare_answers(of(all), of(all), {}).passed);
        EXPECT_EQ(nonfinite(of(all)), 2u);
    }
}

TEST(Gate, ToleranceHoldsForEachElementAndForTheShare) {
    const std::vector<std::int32_t> want{10, 20, 30, 40}, got{11, 20, 30, 40}, far{12, 20, 30, 40};
    auto answer = [](const std::vector<std::int32_t>& v) {
        return Answer{array_of<std::int32_t>("r", std::span<const std::int32_t>(v))};
    };
    EXPECT_TRUE(compare_answers(answer(want), answer(got), {.absolute = 1, .share = 0.25}).passed);
    EXPECT_THAT(compare_answers(answer(want), answer(got), {.absolute = 1, .share = 0.2}).failure,
                HasSubstr("share"));
    EXPECT_THAT(compare_answers(answer(want), answer(far), {.absolute = 1, .share = 1}).failure,
                HasSubstr("index 0: 12"));
    EXPECT_FALSE(compare_answers(answer(want), answer(got), {.share = 1}).passed);
}

TEST(Gate, FormAndLengthCount) {
    const std::vector<double> two{1, 2}, three{1, 2, 3};
    const std::vector<float> other{1, 2};
    EXPECT_THAT(compare_answers(of(three), of(two), {}).failure, HasSubstr("2 elements, expected 3"));
    EXPECT_THAT(compare_answers(of(two), {array_of<float>("x", std::span<const float>(other))}, {}).failure,
                HasSubstr("found x of f32, expected x of f64"));
    EXPECT_THAT(compare_answers(of(two), {}, {}).failure, HasSubstr("no array"));
    EXPECT_FALSE(compare_answers({}, {}, {}).passed);
    const std::vector<double> zero{0.0}, minus{-0.0};
    EXPECT_FALSE(compare_answers(of(zero), of(minus), {}).passed);
}

TEST(Answer, TravelsThroughAFile) {
    const std::string path = testing::TempDir() + "/answer";
    const std::vector<double> values{1.5, -2};
    const std::vector<std::uint16_t> more{1, 2, 3};
    const Answer answer{of(values)[0], array_of<std::uint16_t>("n", std::span<const std::uint16_t>(more))};
    write_answer(path, answer);
    const AnswerFile file(path);
    EXPECT_EQ(checksum(file.answer()), checksum(answer));
    EXPECT_TRUE(compare_answers(answer, file.answer(), {}).passed);
    EXPECT_NE(checksum(answer), checksum(of(values)));
}

TEST(Answer, BadFilesAreNamed) {
    const std::string path = testing::TempDir() + "/bad_answer";
    for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
             {"hello", "array NAME TYPE COUNT"},
             {"array x f64\n12345678", "array NAME TYPE COUNT"},
             {"array x f65 1\n12345678", "element type 'f65'"},
             {"array x f64 -1\n", "count '-1'"},
             {"array x f64 2\n12345678", "only 8 bytes follow"},
             {"array x f64 99999999999999999\n", "only 0 bytes follow"},
             {"array x u8 1\n1garbage", "array NAME TYPE COUNT"}}) {
        write_file(path, text);
        try {
            const AnswerFile file(path);
            ADD_FAILURE() << text;
        } catch (const FormatError& error) {
            EXPECT_THAT(error.what(), HasSubstr(says));
        }
    }
}

}  // namespace
}  // namespace lightmill::ladder

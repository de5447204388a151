// Pillow 9.4's resampling over hundreds of sizes (fixtures/resize.txt), by every backend of this machine.

#include "lightmill/vision/image/resize.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "lightmill/base/error.hpp"
#include "tests/vision/image/fixtures.hpp"

namespace lightmill::vision {
namespace {

Filter filter_of(const std::string& name) {
    return name == "bicubic" ? Filter::bicubic : Filter::lanczos;
}

struct Case {
    std::string filter, kind;
    Size from, to;
    std::string hash;
};

std::vector<Case> cases() {
    std::vector<Case> all;
    for (auto& line : fixture_lines("resize.txt")) {
        Case c;
        line >> c.filter >> c.kind >> c.from.rows >> c.from.columns >> c.to.rows >> c.to.columns >> c.hash;
        EXPECT_TRUE(line) << line.str();
        all.push_back(c);
    }
    return all;
}

class ResizeTest : public testing::TestWithParam<std::string> {};

TEST_P(ResizeTest, equals_pillow_in_every_pixel) {
    std::size_t compared = 0;
    for (const auto& c : cases()) {
        // The reference is slow: one of the large ones is enough for it.
        const auto pixels = std::max(c.from.rows * c.from.columns, c.to.rows * c.to.columns);
        if (GetParam() == "reference" && pixels > 1'000'000 && c.from.columns != 4000) continue;
        // The weights are the same for all: one backend is enough for the longest edge.
        if (GetParam() != resize_backends().front() && pixels > 15'000'000) continue;
        const auto image = picture(c.kind, c.from);
        const auto resized = resize(image.view(), c.to, filter_of(c.filter), GetParam());
        ASSERT_EQ(resized.size(), c.to);
        ASSERT_EQ(short_hash(resized.view().flat()), c.hash)
            << c.filter << ' ' << c.kind << ' ' << c.from.rows << " × " << c.from.columns << " → "
            << c.to.rows << " × " << c.to.columns;
        ++compared;
    }
    EXPECT_GE(compared, 400U);
}

std::vector<std::string> backends() {
    std::vector<std::string> all;
    for (const auto name : resize_backends()) all.emplace_back(name);
    return all;
}
INSTANTIATE_TEST_SUITE_P(backends, ResizeTest, testing::ValuesIn(backends()),
                         [](const auto& backend) { return backend.param; });

TEST(ResizeApi, auto_is_the_best_of_this_machine) {
    const auto all = resize_backends();
    ASSERT_GE(all.size(), 1U);
    EXPECT_EQ(all.back(), "reference");
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0) {
        EXPECT_THAT(all.front(), testing::AnyOf("simd_avx2", "simd_avx512"));
    }
#endif
}

TEST(ResizeApi, same_size_is_a_copy) {
    const auto image = picture("noise", {5, 7});
    const auto copy = resize(image.view(), {5, 7}, Filter::lanczos);
    EXPECT_NE(copy.view().data(), image.view().data());
    EXPECT_TRUE(std::ranges::equal(copy.view().flat(), image.view().flat()));
}

TEST(ResizeApi, what_is_not_allowed_is_refused_by_name) {
    const auto image = picture("noise", {5, 7});
    const auto refused = [&](const Size& size, std::string_view backend) {
        try {
            (void)resize(image.view(), size, Filter::lanczos, backend);
        } catch (const OptionError& error) {
            return error.option();
        }
        return std::string("not refused");
    };
    EXPECT_EQ(refused({0, 4}, "auto"), "size");
    EXPECT_EQ(refused({4, -1}, "auto"), "size");
    EXPECT_EQ(refused({50'000, 50'000}, "auto"), "size");
    EXPECT_EQ(refused({4, 4}, "simd_mmx"), "backend");
    EXPECT_THROW((void)resize(Pixels(), {4, 4}, Filter::lanczos), OptionError);
}

}  // namespace
}  // namespace lightmill::vision

// Every vector kernel against the scalar definition, bit by bit.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "lightmill/base/buffer.hpp"
#include "lightmill/vision/ops/arithmetic.hpp"
#include "lightmill/vision/ops/kernels.hpp"

namespace lightmill::vision {
namespace {

using Values = Buffer<float>;

Values random_values(std::int64_t n, double deviation, unsigned seed) {
    Values values(static_cast<std::size_t>(n));
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal(0, deviation);
    for (auto& v : values.span()) v = static_cast<float>(normal(engine));
    return values;
}

bool same_bits(float a, float b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST(VisionKernels, ThisMachineHasOne) {
    // Where it has not, the tests below would pass without a look at anything.
    ASSERT_FALSE(kernels().empty())
        << "no AVX2 with FMA on this machine: the vector kernels cannot be tested here";
    for (const auto& k : kernels()) EXPECT_EQ(k_row_values % k.panel, 0) << k.name;
}

TEST(VisionArithmetic, ExpIsWithinTwoUnitsOfTheLastPlace) {
    double worst = 0;
    for (double x = -86.9; x < 87.9; x += 0.00037) {
        const auto f = static_cast<float>(x);
        const double truth = std::exp(static_cast<double>(f));
        worst = std::max(worst, std::abs(static_cast<double>(exp32(f)) - truth) / truth);
    }
    EXPECT_LT(worst, 2 * 0x1p-24);
    EXPECT_GT(worst, 0);
    EXPECT_EQ(exp32(0.0F), 1.0F);
    EXPECT_EQ(exp32(-1e30F), exp32(k_exp_lowest));
    EXPECT_GT(exp32(k_exp_lowest), 0x1p-126F);
    EXPECT_TRUE(std::isfinite(exp32(1e30F)));
}

TEST(VisionArithmetic, GeluIsThatOfTanh) {
    for (double t = -12; t < 12; t += 0.0013) {
        const auto x = static_cast<double>(static_cast<float>(t));
        const double truth = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        EXPECT_NEAR(static_cast<double>(gelu32(static_cast<float>(t))), truth,
                    1e-6 * std::max(1.0, std::abs(x)));
    }
    EXPECT_NEAR(gelu32(-1e4F), 0, 1e-30);
    EXPECT_EQ(gelu32(1e4F), 1e4F);
}

struct Shape {
    std::int64_t rows, columns, k;
};

TEST(VisionKernels, ProductsAreTheScalarChainsInEveryBit) {
    for (const auto& kernel : kernels()) {
        for (const auto& [rows, columns, k] :
             {Shape{1, 1, 1}, Shape{6, 64, 128}, Shape{7, 65, 129}, Shape{13, 48, 64}, Shape{5, 16, 300},
              Shape{96, 64, 1024}, Shape{11, 200, 257}, Shape{4, 130, 31}, Shape{96, 3072, 768},
              Shape{96, 768, 3072}, Shape{64, 576, 12288}}) {
            SCOPED_TRACE(fmt::format("{} {}x{}x{}", kernel.name, rows, columns, k));
            const auto a_stride = padded(k) + 64, stride = padded(columns);
            const auto a = random_values(rows * a_stride, 1, 1);
            const auto w = random_values(columns * k, 1, 2);
            const auto bias = random_values(stride, 1, 3);
            const auto other = random_values(rows * stride, 1, 4);
            const auto factor = random_values(rows, 1, 5);
            Values packed(static_cast<std::size_t>(packed_values(columns, k, kernel.panel)));
            pack(w.data(), k, columns, k, kernel.panel, packed.data());
            for (const auto after : {After::keep, After::bias, After::gelu, After::add, After::scale_row}) {
                for (const std::int64_t split : {k, k / 2}) {  // chains of one call, or of two
                    if (split == 0) continue;
                    Values c(static_cast<std::size_t>(rows * stride)),
                        out(static_cast<std::size_t>(rows * stride), 7.5F);
                    Product p;
                    p.a_stride = a_stride;
                    p.rows = rows;
                    p.w = packed.data();
                    p.columns = columns;
                    p.k_values = k;
                    p.c = c.data();
                    p.c_stride = stride;
                    p.after = after;
                    p.bias = bias.data();
                    p.factor = factor.data();
                    p.other = other.data();
                    p.out = out.data();
                    p.other_stride = p.out_stride = stride;
                    for (std::int64_t first = 0; first < k; first += split) {
                        p.a = a.data() + first;
                        p.k_first = first;
                        p.k_count = std::min(split, k - first);
                        p.start = first == 0;
                        p.finish = first + p.k_count == k;
                        kernel.product(p);
                    }
                    for (std::int64_t i = 0; i < rows; ++i) {
                        // All values of small products, some of each row of those of the true size.
                        const std::int64_t step = rows * columns * k > 10'000'000 ? 191 : 1;
                        for (auto j = i % step; j < columns; j += step) {
                            float chain = 0;
                            for (std::int64_t n = 0; n < k; ++n)
                                chain = std::fma(a.data()[i * a_stride + n], w.data()[j * k + n], chain);
                            const float b = bias.data()[j];
                            const float expected = after == After::keep   ? chain
                                                   : after == After::bias ? chain + b
                                                   : after == After::gelu ? gelu32(chain + b)
                                                   : after == After::add
                                                       ? other.data()[i * stride + j] + (chain + b)
                                                       : chain * factor.data()[i];
                            ASSERT_TRUE(same_bits(out.data()[i * stride + j], expected))
                                << "after " << static_cast<int>(after) << " row " << i << " column " << j;
                        }
                        for (auto j = columns; j < stride; ++j) ASSERT_EQ(out.data()[i * stride + j], 7.5F);
                    }
                }
            }
        }
    }
}

TEST(VisionKernels, LayerNormIsTheDefinitionInEveryBit) {
    for (const auto& kernel : kernels()) {
        for (const std::int64_t n : {1, 5, 16, 17, 31, 64, 72, 768}) {
            SCOPED_TRACE(fmt::format("{} {}", kernel.name, n));
            const std::int64_t rows = 7, stride = padded(n);
            auto x = random_values(rows * stride, 3, 1);
            for (std::int64_t i = 0; i < rows; ++i)  // what stands beside the row may not matter
                for (auto j = n; j < stride; ++j)
                    x.data()[i * stride + j] = std::numeric_limits<float>::quiet_NaN();
            const auto gamma = random_values(stride, 1, 2), beta = random_values(stride, 1, 3);
            Values y(x.size(), 7.5F);
            kernel.layer_norm(
                {x.data(), stride, rows, n, gamma.data(), beta.data(), 1e-6F, y.data(), stride});
            for (std::int64_t i = 0; i < rows; ++i) {
                const float* const row = x.data() + i * stride;
                std::array<float, k_sum_lanes> sum{}, squares{};
                for (std::int64_t j = 0; j < n; ++j) sum[static_cast<std::size_t>(j % 16)] += row[j];
                const float mean = fold(sum) / static_cast<float>(n);
                for (std::int64_t j = 0; j < n; ++j) {
                    auto& lane = squares[static_cast<std::size_t>(j % 16)];
                    lane = std::fma(row[j] - mean, row[j] - mean, lane);
                }
                const float r = 1.0F / std::sqrt(fold(squares) / static_cast<float>(n) + 1e-6F);
                for (std::int64_t j = 0; j < n; ++j)
                    ASSERT_TRUE(same_bits(y.data()[i * stride + j],
                                          std::fma((row[j] - mean) * r, gamma.data()[j], beta.data()[j])))
                        << i << ' ' << j;
                for (auto j = n; j < stride; ++j) ASSERT_EQ(y.data()[i * stride + j], 7.5F);
            }
        }
    }
}

TEST(VisionKernels, SoftmaxIsTheDefinitionInEveryBit) {
    for (const auto& kernel : kernels()) {
        for (const std::int64_t n : {1, 3, 15, 16, 24, 33, 64, 196, 1024}) {
            for (const float scale : {0.125F, 0.17677669F}) {
                SCOPED_TRACE(fmt::format("{} {} {}", kernel.name, n, scale));
                const std::int64_t rows = 5, stride = padded(n);
                auto s = random_values(rows * stride, 100, 1);
                for (std::int64_t i = 0; i < rows; ++i)
                    for (auto j = n; j < stride; ++j)
                        s.data()[i * stride + j] = std::numeric_limits<float>::infinity();
                Values p(s.size()), factor(5);
                std::memcpy(p.data(), s.data(), s.size() * sizeof(float));
                kernel.softmax({p.data(), stride, rows, n, scale, factor.data()});
                for (std::int64_t i = 0; i < rows; ++i) {
                    const float* const row = s.data() + i * stride;
                    float most = row[0] * scale;
                    for (std::int64_t j = 0; j < n; ++j) most = std::max(most, row[j] * scale);
                    std::array<float, k_sum_lanes> sum{};
                    for (std::int64_t j = 0; j < n; ++j) {
                        const float e = exp32(row[j] * scale - most);
                        ASSERT_TRUE(same_bits(p.data()[i * stride + j], e)) << i << ' ' << j;
                        sum[static_cast<std::size_t>(j % 16)] += e;
                    }
                    ASSERT_TRUE(same_bits(factor[static_cast<std::size_t>(i)], 1.0F / fold(sum)));
                }
            }
        }
    }
}

}  // namespace
}  // namespace lightmill::vision

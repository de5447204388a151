#pragma once
// The tower's arithmetic in binary32, as plain scalar code: what every vector kernel must equal in every bit.
// One IEEE operation each, round to nearest, subnormal numbers kept; std::fma is one rounding everywhere.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace lightmill::vision {

// exp(x) = 2^n · exp(r): n = x·log2(e) rounded to nearest even, r = x − n·ln 2 in two steps, |r| ≤ 0.3466.
// The polynomial is 1 + r + c₂r² + … + c₆r⁶, fitted to the least relative error (2^-28.0 with these binary32
// coefficients). Between the limits no intermediate value and no result is subnormal or infinite.
inline constexpr float k_exp_lowest = -87.0F;  // smaller arguments count as this: 1.6e-38
inline constexpr float k_exp_highest = 88.0F;  // larger ones as this: 1.7e38
inline constexpr float k_log2_e = 0x1.715476p+0F;
inline constexpr float k_round = 0x1.8p+23F;     // adding it rounds to a whole number, in the low bits
inline constexpr float k_ln2_high = 0x1.62p-1F;  // 9 bits: n times it is exact
inline constexpr float k_ln2_low = 0x1.c85fe0p-10F;
inline constexpr std::array<float, 5> k_exp_coefficients{0x1.6a23cep-10F, 0x1.123a20p-7F, 0x1.5558f2p-5F,
                                                         0x1.555492p-3F, 0x1.fffffcp-2F};  // c₆ … c₂
// GELU in its sigmoid form: t / (1 + exp(−u)), u = t·(a + b·t²), a = 2·√(2/π), b = 0.044715·a.
inline constexpr float k_gelu_a = 0x1.988454p+0F;
inline constexpr float k_gelu_b = 0x1.2444f2p-4F;

inline constexpr int k_sum_lanes = 16;

inline float exp32(float x) noexcept {
    x = std::min(std::max(x, k_exp_lowest), k_exp_highest);
    const float shifted = std::fma(x, k_log2_e, k_round);
    const float n = shifted - k_round;
    float r = std::fma(n, -k_ln2_high, x);
    r = std::fma(n, -k_ln2_low, r);
    float p = k_exp_coefficients[0];
    for (std::size_t i = 1; i < k_exp_coefficients.size(); ++i) p = std::fma(p, r, k_exp_coefficients[i]);
    p = std::fma(p, r, 1.0F);
    p = std::fma(p, r, 1.0F);
    // The low bits of `shifted` are n: moved to the exponent's place they multiply 1.0 by 2^n.
    const auto power = (std::bit_cast<std::uint32_t>(shifted) << 23U) + std::bit_cast<std::uint32_t>(1.0F);
    return p * std::bit_cast<float>(power);
}

inline float gelu32(float t) noexcept {
    const float u = t * std::fma(t * t, k_gelu_b, k_gelu_a);
    return t / (1.0F + exp32(-u));
}

// The end of a sum in sixteen lanes: lane i takes lane i + 8, then + 4, + 2, + 1.
inline float fold(std::span<const float, k_sum_lanes> lanes) noexcept {
    std::array<float, 8> half;
    for (std::size_t i = 0; i < 8; ++i) half[i] = lanes[i] + lanes[i + 8];
    for (std::size_t width = 4; width > 0; width /= 2)
        for (std::size_t i = 0; i < width; ++i) half[i] = half[i] + half[i + width];
    return half[0];
}

}  // namespace lightmill::vision

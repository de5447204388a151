// Compiled once for every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lightmill/frames/simulated_math.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
//
#include "hwy/contrib/math/math-inl.h"

#include <algorithm>
#include <cmath>

#include "lightmill/frames/simulated_math_internal.hpp"

HWY_BEFORE_NAMESPACE();
namespace lightmill::frames::detail {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// sin and cos of 2π·u for u in [0, 1): u less the nearest quarter turn, which is exact, then Taylor
// series on [-π/4, π/4]; their first terms left out are below 1e-16.
HWY_INLINE void sin_cos_turns(D d, V u, V& sine, V& cosine) {
    const auto quarter = hn::Round(hn::Mul(u, hn::Set(d, 4.0)));  // 0 … 4
    const auto x = hn::Mul(hn::NegMulAdd(quarter, hn::Set(d, 0.25), u), hn::Set(d, k_two_pi));
    const auto z = hn::Mul(x, x);
    auto s = hn::Set(d, 1.0 / 355687428096000.0);
    s = hn::MulAdd(s, z, hn::Set(d, -1.0 / 1307674368000.0));
    s = hn::MulAdd(s, z, hn::Set(d, 1.0 / 6227020800.0));
    s = hn::MulAdd(s, z, hn::Set(d, -1.0 / 39916800.0));
    s = hn::MulAdd(s, z, hn::Set(d, 1.0 / 362880.0));
    s = hn::MulAdd(s, z, hn::Set(d, -1.0 / 5040.0));
    s = hn::MulAdd(s, z, hn::Set(d, 1.0 / 120.0));
    s = hn::MulAdd(s, z, hn::Set(d, -1.0 / 6.0));
    s = hn::MulAdd(hn::Mul(s, z), x, x);
    auto c = hn::Set(d, -1.0 / 6402373705728000.0);
    c = hn::MulAdd(c, z, hn::Set(d, 1.0 / 20922789888000.0));
    c = hn::MulAdd(c, z, hn::Set(d, -1.0 / 87178291200.0));
    c = hn::MulAdd(c, z, hn::Set(d, 1.0 / 479001600.0));
    c = hn::MulAdd(c, z, hn::Set(d, -1.0 / 3628800.0));
    c = hn::MulAdd(c, z, hn::Set(d, 1.0 / 40320.0));
    c = hn::MulAdd(c, z, hn::Set(d, -1.0 / 720.0));
    c = hn::MulAdd(c, z, hn::Set(d, 1.0 / 24.0));
    c = hn::MulAdd(c, z, hn::Set(d, -0.5));
    c = hn::MulAdd(c, z, hn::Set(d, 1.0));
    const auto odd = hn::Or(hn::Eq(quarter, hn::Set(d, 1.0)), hn::Eq(quarter, hn::Set(d, 3.0)));
    const auto lower = hn::Or(hn::Eq(quarter, hn::Set(d, 2.0)), hn::Eq(quarter, hn::Set(d, 3.0)));
    const auto left = hn::Or(hn::Eq(quarter, hn::Set(d, 1.0)), hn::Eq(quarter, hn::Set(d, 2.0)));
    const auto minus_s = hn::IfThenElse(lower, hn::SignBit(d), hn::Zero(d));
    const auto minus_c = hn::IfThenElse(left, hn::SignBit(d), hn::Zero(d));
    sine = hn::Xor(hn::IfThenElse(odd, c, s), minus_s);
    cosine = hn::Xor(hn::IfThenElse(odd, s, c), minus_c);
}

void normals(const double* HWY_RESTRICT u1, const double* HWY_RESTRICT u2, std::size_t pairs,
             double* HWY_RESTRICT out) {
    const D d;
    const auto lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + lanes <= pairs; i += lanes) {
        const auto log = hn::Log(d, hn::LoadU(d, u1 + i));
        const auto r = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), log));
        V sine, cosine;
        sin_cos_turns(d, hn::LoadU(d, u2 + i), sine, cosine);
        hn::StoreInterleaved2(hn::Mul(r, cosine), hn::Mul(r, sine), d, out + 2 * i);
    }
    if (i < pairs) normals_exact(u1 + i, u2 + i, pairs - i, out + 2 * i);
}

bool round(const double* HWY_RESTRICT values, std::size_t count, double margin,
           std::uint16_t* HWY_RESTRICT out) {
    const D d;
    const hn::Rebind<std::int32_t, D> d32;
    const hn::Rebind<std::uint16_t, D> d16;
    const auto lanes = hn::Lanes(d);
    auto farthest = hn::Zero(d);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const auto value = hn::LoadU(d, values + i);
        const auto rounded = hn::Round(value);
        farthest = hn::Max(farthest, hn::Abs(hn::Sub(value, rounded)));
        const auto clipped = hn::Min(hn::Max(rounded, hn::Zero(d)), hn::Set(d, 65535.0));
        hn::StoreU(hn::DemoteTo(d16, hn::DemoteTo(d32, clipped)), d16, out + i);
    }
    double most = hn::GetLane(hn::MaxOfLanes(d, farthest));
    for (; i < count; ++i) {
        const double rounded = std::nearbyint(values[i]);
        most = std::max(most, std::fabs(values[i] - rounded));
        out[i] = static_cast<std::uint16_t>(std::clamp(rounded, 0.0, 65535.0));
    }
    return most <= 0.5 - margin;
}

}  // namespace HWY_NAMESPACE
}  // namespace lightmill::frames::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lightmill::frames::detail {

HWY_EXPORT(normals);
HWY_EXPORT(round);

void normals_exact(const double* u1, const double* u2, std::size_t pairs, double* normals) noexcept {
    for (std::size_t i = 0; i < pairs; ++i) {
        const double r = std::sqrt(-2.0 * std::log(u1[i]));
        const double a = k_two_pi * u2[i];
        normals[2 * i] = r * std::cos(a);
        normals[2 * i + 1] = r * std::sin(a);
    }
}

void normals_fast(const double* u1, const double* u2, std::size_t pairs, double* normals) noexcept {
    HWY_DYNAMIC_DISPATCH(normals)(u1, u2, pairs, normals);
}

bool round_pixels(const double* values, std::size_t count, double margin, std::uint16_t* out) noexcept {
    return HWY_DYNAMIC_DISPATCH(round)(values, count, margin, out);
}

}  // namespace lightmill::frames::detail
#endif

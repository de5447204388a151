// Written once, compiled for every instruction set that a rung may use.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lightmill/ladder/probe/probe_simd.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <cstddef>
#include <vector>

#include "lightmill/ladder/probe/probe_simd_internal.hpp"

HWY_BEFORE_NAMESPACE();
namespace lightmill::ladder::detail {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using U = hn::ScalableTag<std::uint64_t>;

// The compiler may neither drop nor move what produces `value`.
template <class T>
HWY_INLINE void keep(const T& value) {
    asm volatile("" : : "r"(&value) : "memory");
}

std::uint64_t read(const std::byte* from, std::int64_t n) {
    const U d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto* p = reinterpret_cast<const std::uint64_t*>(from);
    const auto* end = reinterpret_cast<const std::uint64_t*>(from + n);
    auto a = hn::Zero(d), b = a, c = a, e = a;
    for (; p != end; p += 4 * lanes) {
        a = hn::Xor(a, hn::Load(d, p));
        b = hn::Xor(b, hn::Load(d, p + lanes));
        c = hn::Xor(c, hn::Load(d, p + 2 * lanes));
        e = hn::Xor(e, hn::Load(d, p + 3 * lanes));
    }
    return hn::GetLane(hn::SumOfLanes(d, hn::Xor(hn::Xor(a, b), hn::Xor(c, e))));
}

void write(std::byte* to, std::int64_t n, bool streaming) {
    const U d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    auto* p = reinterpret_cast<std::uint64_t*>(to);
    auto* end = reinterpret_cast<std::uint64_t*>(to + n);
    const auto value = hn::Set(d, 0x3ff0000000000000U);
    if (streaming) {
        for (; p != end; p += lanes) hn::Stream(value, d, p);
        hwy::FlushStream();
    } else {
        for (; p != end; p += lanes) hn::Store(value, d, p);
    }
    keep(to);
}

void copy(std::byte* to, const std::byte* from, std::int64_t n, bool streaming) {
    const U d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    auto* p = reinterpret_cast<std::uint64_t*>(to);
    const auto* q = reinterpret_cast<const std::uint64_t*>(from);
    const auto* end = reinterpret_cast<const std::uint64_t*>(from + n);
    if (streaming) {
        for (; q != end; p += lanes, q += lanes) hn::Stream(hn::Load(d, q), d, p);
        hwy::FlushStream();
    } else {
        for (; q != end; p += lanes, q += lanes) hn::Store(hn::Load(d, q), d, p);
    }
    keep(to);
}

// Twelve chains hide the latency of two multiply-add pipes and fit the sixteen registers of AVX2. The values
// converge to 1, so that nothing becomes subnormal. They start apart: the compiler would merge equal chains.
template <class T>
std::int64_t fma(std::int64_t iterations) {
    const hn::ScalableTag<T> d;
    const auto half = hn::Set(d, T{0.5});
    const auto start = [&](int chain) { return hn::Set(d, static_cast<T>(chain)); };
    auto a0 = start(2), a1 = start(3), a2 = start(4), a3 = start(5), a4 = start(6), a5 = start(7);
    auto a6 = start(8), a7 = start(9), a8 = start(10), a9 = start(11), a10 = start(12), a11 = start(13);
    for (std::int64_t i = 0; i < iterations; ++i) {
        a0 = hn::MulAdd(a0, half, half);
        a1 = hn::MulAdd(a1, half, half);
        a2 = hn::MulAdd(a2, half, half);
        a3 = hn::MulAdd(a3, half, half);
        a4 = hn::MulAdd(a4, half, half);
        a5 = hn::MulAdd(a5, half, half);
        a6 = hn::MulAdd(a6, half, half);
        a7 = hn::MulAdd(a7, half, half);
        a8 = hn::MulAdd(a8, half, half);
        a9 = hn::MulAdd(a9, half, half);
        a10 = hn::MulAdd(a10, half, half);
        a11 = hn::MulAdd(a11, half, half);
    }
    const auto low = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
    const auto high = hn::Add(hn::Add(hn::Add(a6, a7), hn::Add(a8, a9)), hn::Add(a10, a11));
    const T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
    keep(sum);
    return iterations * 12 * 2 * static_cast<std::int64_t>(hn::Lanes(d));
}

std::int64_t fma_f32(std::int64_t iterations) {
    return fma<float>(iterations);
}
std::int64_t fma_f64(std::int64_t iterations) {
    return fma<double>(iterations);
}

}  // namespace HWY_NAMESPACE
}  // namespace lightmill::ladder::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lightmill::ladder::detail {
namespace {

constexpr std::int64_t k_any_machine = 0;

struct Compiled {
    std::int64_t target;
    ProbeKernels kernels;
};

#define LIGHTMILL_PROBE_KERNELS(label, space) \
    {label, &space::read, &space::write, &space::copy, &space::fma_f32, &space::fma_f64}
constexpr Compiled k_compiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, LIGHTMILL_PROBE_KERNELS("simd_avx512", N_AVX3)},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, LIGHTMILL_PROBE_KERNELS("simd_avx2", N_AVX2)},
#endif
#if HWY_TARGETS & HWY_SSE4
    {HWY_SSE4, LIGHTMILL_PROBE_KERNELS("simd_sse4", N_SSE4)},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, LIGHTMILL_PROBE_KERNELS("simd_neon", N_NEON)},
#endif
#if HWY_TARGETS & HWY_EMU128
    {k_any_machine, LIGHTMILL_PROBE_KERNELS("simd_portable", N_EMU128)},
#endif
#if HWY_TARGETS & HWY_SCALAR
    {k_any_machine, LIGHTMILL_PROBE_KERNELS("simd_portable", N_SCALAR)},
#endif
};
#undef LIGHTMILL_PROBE_KERNELS

std::vector<ProbeKernels> supported() {
    std::vector<ProbeKernels> kernels;
    for (const auto& compiled : k_compiled) {
        if (compiled.target == k_any_machine || (hwy::SupportedTargets() & compiled.target) != 0)
            kernels.push_back(compiled.kernels);
    }
    return kernels;
}

}  // namespace

std::span<const ProbeKernels> probe_kernels() {
    static const std::vector<ProbeKernels> kernels = supported();
    return kernels;
}

}  // namespace lightmill::ladder::detail
#endif  // HWY_ONCE

// The vector kernels, written once and compiled for the targets whose multiply-add is fused.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lightmill/vision/ops/kernels_simd.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <array>
#include <cmath>
#include <vector>

#include "lightmill/vision/ops/arithmetic.hpp"
#include "lightmill/vision/ops/kernels.hpp"

// The baseline of x86-64 is compiled too, as Highway asks for; its MulAdd rounds twice, so it stays empty.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace lightmill::vision {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using U = hn::RebindToUnsigned<F>;
using V = hn::Vec<F>;
constexpr std::int64_t k_lanes = static_cast<std::int64_t>(hn::MaxLanes(F()));
constexpr std::int64_t k_parts = k_sum_lanes / k_lanes;  // vectors that hold the lanes of a sum

// A tile of the product is kept in registers: six rows by four vectors of the 32 that AVX-512 has, by two of
// the 16 of AVX2. A k takes 10 (8) loads for 24 (12) multiply-adds.
constexpr std::int64_t k_tile_rows = 6;
constexpr std::int64_t k_vectors = k_lanes == 16 ? 4 : 2;
constexpr std::int64_t k_panel = k_vectors * k_lanes;
// A panel's part of this many k stays in the first cache level while all rows pass: 32 KiB, 16 KiB.
constexpr std::int64_t k_block = k_lanes == 16 ? 128 : 256;

constexpr std::int64_t k_line = 16;  // values in a cache line

// A row of the tile. Members, not an array: g++ 12 keeps arrays of vectors in memory.
struct Row {
    V c0, c1, c2, c3;

    HWY_INLINE void load(const float* c, bool start) {
        const F f;
        c0 = start ? hn::Zero(f) : hn::LoadU(f, c);
        c1 = start ? hn::Zero(f) : hn::LoadU(f, c + k_lanes);
        if constexpr (k_vectors > 2) {
            c2 = start ? hn::Zero(f) : hn::LoadU(f, c + 2 * k_lanes);
            c3 = start ? hn::Zero(f) : hn::LoadU(f, c + 3 * k_lanes);
        }
    }
    HWY_INLINE void add(float a, V w0, V w1, V w2, V w3) {
        const V x = hn::Set(F(), a);
        c0 = hn::MulAdd(x, w0, c0);
        c1 = hn::MulAdd(x, w1, c1);
        if constexpr (k_vectors > 2) {
            c2 = hn::MulAdd(x, w2, c2);
            c3 = hn::MulAdd(x, w3, c3);
        }
    }
    HWY_INLINE void store(float* c) const {
        const F f;
        hn::StoreU(c0, f, c);
        hn::StoreU(c1, f, c + k_lanes);
        if constexpr (k_vectors > 2) {
            hn::StoreU(c2, f, c + 2 * k_lanes);
            hn::StoreU(c3, f, c + 3 * k_lanes);
        }
    }
};

// ROWS rows of a, one panel of w, k_count steps of every chain.
template <int ROWS>
HWY_NOINLINE void tile(const float* HWY_RESTRICT a, std::int64_t a_stride, const float* HWY_RESTRICT w,
                       std::int64_t k_count, float* HWY_RESTRICT c, std::int64_t c_stride, bool start) {
    const F f;
    Row r0, r1, r2, r3, r4, r5;
    r0.load(c, start);
    if constexpr (ROWS > 1) r1.load(c + c_stride, start);
    if constexpr (ROWS > 2) r2.load(c + 2 * c_stride, start);
    if constexpr (ROWS > 3) r3.load(c + 3 * c_stride, start);
    if constexpr (ROWS > 4) r4.load(c + 4 * c_stride, start);
    if constexpr (ROWS > 5) r5.load(c + 5 * c_stride, start);
    const float* const a1 = a + a_stride;
    const float* const a2 = a1 + a_stride;
    const float* const a3 = a2 + a_stride;
    const float* const a4 = a3 + a_stride;
    const float* const a5 = a4 + a_stride;
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < k_count; ++k) {
        const V w0 = hn::Load(f, w);
        const V w1 = hn::Load(f, w + k_lanes);
        const V w2 = k_vectors > 2 ? hn::Load(f, w + 2 * k_lanes) : w0;
        const V w3 = k_vectors > 2 ? hn::Load(f, w + 3 * k_lanes) : w0;
        r0.add(a[k], w0, w1, w2, w3);
        if constexpr (ROWS > 1) r1.add(a1[k], w0, w1, w2, w3);
        if constexpr (ROWS > 2) r2.add(a2[k], w0, w1, w2, w3);
        if constexpr (ROWS > 3) r3.add(a3[k], w0, w1, w2, w3);
        if constexpr (ROWS > 4) r4.add(a4[k], w0, w1, w2, w3);
        if constexpr (ROWS > 5) r5.add(a5[k], w0, w1, w2, w3);
        w += k_panel;
    }
    r0.store(c);
    if constexpr (ROWS > 1) r1.store(c + c_stride);
    if constexpr (ROWS > 2) r2.store(c + 2 * c_stride);
    if constexpr (ROWS > 3) r3.store(c + 3 * c_stride);
    if constexpr (ROWS > 4) r4.store(c + 4 * c_stride);
    if constexpr (ROWS > 5) r5.store(c + 5 * c_stride);
}

using Tile = void (*)(const float*, std::int64_t, const float*, std::int64_t, float*, std::int64_t, bool);
constexpr std::array<Tile, 7> k_tiles{nullptr, &tile<1>, &tile<2>, &tile<3>, &tile<4>, &tile<5>, &tile<6>};

// Arguments of a softmax are never above 0.
template <bool ONLY_NEGATIVE = false>
HWY_INLINE V exp_of(V x) {
    const F f;
    const U u;
    x = hn::Max(x, hn::Set(f, k_exp_lowest));
    if constexpr (!ONLY_NEGATIVE) x = hn::Min(x, hn::Set(f, k_exp_highest));
    const V shifted = hn::MulAdd(x, hn::Set(f, k_log2_e), hn::Set(f, k_round));
    const V n = hn::Sub(shifted, hn::Set(f, k_round));
    V r = hn::NegMulAdd(n, hn::Set(f, k_ln2_high), x);
    r = hn::NegMulAdd(n, hn::Set(f, k_ln2_low), r);
    V p = hn::Set(f, k_exp_coefficients[0]);
    p = hn::MulAdd(p, r, hn::Set(f, k_exp_coefficients[1]));
    p = hn::MulAdd(p, r, hn::Set(f, k_exp_coefficients[2]));
    p = hn::MulAdd(p, r, hn::Set(f, k_exp_coefficients[3]));
    p = hn::MulAdd(p, r, hn::Set(f, k_exp_coefficients[4]));
    p = hn::MulAdd(p, r, hn::Set(f, 1.0F));
    p = hn::MulAdd(p, r, hn::Set(f, 1.0F));
    const auto power = hn::Add(hn::ShiftLeft<23>(hn::BitCast(u, shifted)), hn::BitCast(u, hn::Set(f, 1.0F)));
    return hn::Mul(p, hn::BitCast(f, power));
}

HWY_INLINE V gelu_of(V t) {
    const F f;
    const V u = hn::Mul(t, hn::MulAdd(hn::Mul(t, t), hn::Set(f, k_gelu_b), hn::Set(f, k_gelu_a)));
    return hn::Div(t, hn::Add(hn::Set(f, 1.0F), exp_of(hn::Neg(u))));
}

// One panel's columns, `count` of them, once their chains are complete.
template <After AFTER>
void after(const Product& p, const float* chains, std::int64_t first, std::int64_t count) {
    const F f;
    for (std::int64_t i = 0; i < p.rows; ++i) {
        const float* const c = chains + i * p.c_stride;
        float* const out = p.out + i * p.out_stride + first;
        const float* const other = AFTER == After::add ? p.other + i * p.other_stride + first : nullptr;
        const V factor = hn::Set(f, AFTER == After::scale_row ? p.factor[i] : 0.0F);
        for (std::int64_t j = 0; j < count; j += k_lanes) {
            V v = hn::LoadU(f, c + j);
            if constexpr (AFTER == After::scale_row) {
                v = hn::Mul(v, factor);
            } else if constexpr (AFTER != After::keep) {
                v = hn::Add(v, hn::LoadU(f, p.bias + first + j));
            }
            if constexpr (AFTER == After::gelu) v = gelu_of(v);
            if constexpr (AFTER == After::add) v = hn::Add(hn::LoadU(f, other + j), v);
            if (HWY_LIKELY(j + k_lanes <= count)) {
                hn::StoreU(v, f, out + j);
            } else {
                hn::BlendedStore(v, hn::FirstN(f, static_cast<std::size_t>(count - j)), f, out + j);
            }
        }
    }
}

void product(const Product& p) noexcept {
    for (std::int64_t first = 0; first < p.columns; first += k_panel) {
        float* const c = p.start && p.finish && p.c != p.out ? p.c : p.c + first;
        const float* const panel = p.w + first * p.k_values + p.k_first * k_panel;
        for (std::int64_t k = 0; k < p.k_count; k += k_block) {
            const auto k_count = HWY_MIN(k_block, p.k_count - k);
            // What comes after this part of the panel is fetched while the rows pass: weights come from the
            // last cache level or from memory, and the hardware's prefetchers stop at pages.
            const bool same_panel = k + k_block < p.k_count;
            const float* ahead = same_panel ? panel + (k + k_block) * k_panel : panel + p.k_values * k_panel;
            const auto ahead_k = same_panel                    ? HWY_MIN(k_block, p.k_count - k - k_block)
                                 : first + k_panel < p.columns ? HWY_MIN(k_block, p.k_count)
                                                               : 0;
            const float* const ahead_end = ahead + ahead_k * k_panel;
            const auto groups = (p.rows + k_tile_rows - 1) / k_tile_rows;
            const auto step = (ahead_k * k_panel / k_line + groups - 1) / groups * k_line;
            for (std::int64_t i = 0; i < p.rows; i += k_tile_rows) {
                const float* const stop = HWY_MIN(ahead + step, ahead_end);
                for (; ahead < stop; ahead += k_line) __builtin_prefetch(ahead, 0, 2);  // to the second level
                const auto rows = static_cast<std::size_t>(HWY_MIN(k_tile_rows, p.rows - i));
                k_tiles[rows](p.a + i * p.a_stride + k, p.a_stride, panel + k * k_panel, k_count,
                              c + i * p.c_stride, p.c_stride, p.start && k == 0);
            }
        }
        if (!p.finish) continue;
        const auto count = HWY_MIN(k_panel, p.columns - first);
        switch (p.after) {
            case After::keep:
                if (p.out != p.c) after<After::keep>(p, c, first, count);
                break;
            case After::bias:
                after<After::bias>(p, c, first, count);
                break;
            case After::gelu:
                after<After::gelu>(p, c, first, count);
                break;
            case After::add:
                after<After::add>(p, c, first, count);
                break;
            case After::scale_row:
                after<After::scale_row>(p, c, first, count);
                break;
        }
    }
}

// The sixteen lanes of a sum.
struct Lanes {
    V low, high;  // one is enough where a vector has sixteen

    HWY_INLINE Lanes() : low(hn::Zero(F())), high(hn::Zero(F())) {}
    HWY_INLINE float fold() const {
        alignas(64) std::array<float, k_sum_lanes> lanes;
        hn::Store(low, F(), lanes.data());
        if constexpr (k_parts == 2) hn::Store(high, F(), lanes.data() + k_lanes);
        return vision::fold(lanes);
    }
};

// The vector at values[i]; lanes at `end` and beyond are 0.
HWY_INLINE V load(const float* values, std::int64_t i, std::int64_t end) {
    const F f;
    const V v = hn::LoadU(f, values + i);
    if (HWY_LIKELY(i + k_lanes <= end)) return v;
    return hn::IfThenElseZero(hn::FirstN(f, static_cast<std::size_t>(HWY_MAX(end - i, 0))), v);
}
HWY_INLINE void store(V v, float* values, std::int64_t i, std::int64_t end) {
    const F f;
    if (HWY_LIKELY(i + k_lanes <= end)) {
        hn::StoreU(v, f, values + i);
    } else if (i < end) {
        hn::BlendedStore(v, hn::FirstN(f, static_cast<std::size_t>(end - i)), f, values + i);
    }
}

void layer_norm(const LayerNorm& o) noexcept {
    const F f;
    const auto n = static_cast<float>(o.columns);
    for (std::int64_t i = 0; i < o.rows; ++i) {
        const float* const x = o.x + i * o.x_stride;
        float* const y = o.y + i * o.y_stride;
        Lanes sum;
        for (std::int64_t j = 0; j < o.columns; j += k_sum_lanes) {
            sum.low = hn::Add(sum.low, load(x, j, o.columns));
            if constexpr (k_parts == 2) sum.high = hn::Add(sum.high, load(x, j + k_lanes, o.columns));
        }
        const V mean = hn::Set(f, sum.fold() / n);
        const auto difference = [&](std::int64_t j) {
            const V d = hn::Sub(load(x, j, o.columns), mean);
            if (HWY_LIKELY(j + k_lanes <= o.columns)) return d;
            return hn::IfThenElseZero(hn::FirstN(f, static_cast<std::size_t>(HWY_MAX(o.columns - j, 0))), d);
        };
        Lanes squares;
        for (std::int64_t j = 0; j < o.columns; j += k_sum_lanes) {
            const V d = difference(j);
            squares.low = hn::MulAdd(d, d, squares.low);
            if constexpr (k_parts == 2) {
                const V e = difference(j + k_lanes);
                squares.high = hn::MulAdd(e, e, squares.high);
            }
        }
        const float variance = squares.fold() / n;
        const V r = hn::Set(f, 1.0F / std::sqrt(variance + o.eps));
        for (std::int64_t j = 0; j < o.columns; j += k_lanes) {
            const V d = hn::Sub(hn::LoadU(f, x + j), mean);
            store(hn::MulAdd(hn::Mul(d, r), hn::LoadU(f, o.gamma + j), hn::LoadU(f, o.beta + j)), y, j,
                  o.columns);
        }
    }
}

void softmax(const Softmax& o) noexcept {
    const F f;
    const V scale = hn::Set(f, o.scale);
    const auto whole = o.columns / k_sum_lanes * k_sum_lanes;
    for (std::int64_t i = 0; i < o.rows; ++i) {
        float* const s = o.scores + i * o.stride;
        // The scale is positive: rounding keeps the order, so the largest score may be found before it.
        V most = hn::Set(f, s[0]);
        for (std::int64_t j = 0; j < o.columns; j += k_lanes) {
            const V v = hn::LoadU(f, s + j);
            const auto inside = hn::FirstN(f, static_cast<std::size_t>(o.columns - j));
            most = HWY_LIKELY(j + k_lanes <= o.columns) ? hn::Max(most, v)
                                                        : hn::Max(most, hn::IfThenElse(inside, v, most));
        }
        const V greatest = hn::Set(f, hn::GetLane(hn::MaxOfLanes(f, most)) * o.scale);
        const auto p_of = [&](std::int64_t j) {
            return exp_of<true>(hn::Sub(hn::Mul(hn::LoadU(f, s + j), scale), greatest));
        };
        Lanes sum;
        std::int64_t j = 0;
        for (; j < whole; j += k_sum_lanes) {
            const V p = p_of(j);
            hn::StoreU(p, f, s + j);
            sum.low = hn::Add(sum.low, p);
            if constexpr (k_parts == 2) {
                const V q = p_of(j + k_lanes);
                hn::StoreU(q, f, s + j + k_lanes);
                sum.high = hn::Add(sum.high, q);
            }
        }
        if (j < o.columns) {
            const auto part = [&](std::int64_t at) {
                const auto inside = hn::FirstN(f, static_cast<std::size_t>(HWY_MAX(o.columns - at, 0)));
                return hn::IfThenElseZero(inside, p_of(at));
            };
            const V p = part(j);
            sum.low = hn::Add(sum.low, p);
            if constexpr (k_parts == 2) {
                const V q = part(j + k_lanes);
                sum.high = hn::Add(sum.high, q);
                store(q, s, j + k_lanes, o.columns);
            }
            store(p, s, j, o.columns);
        }
        o.factor[i] = 1.0F / sum.fold();
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace lightmill::vision
HWY_AFTER_NAMESPACE();

#endif  // a target with a fused multiply-add

#if HWY_ONCE
namespace lightmill::vision {
namespace {

struct Compiled {
    std::int64_t target;
    Kernels kernels;
};

#define LIGHTMILL_TOWER_KERNELS(label, space) \
    {label, space::k_panel, &space::product, &space::layer_norm, &space::softmax}
// Every target this was compiled for, best first.
constexpr Compiled k_compiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, LIGHTMILL_TOWER_KERNELS("avx512", N_AVX3)},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, LIGHTMILL_TOWER_KERNELS("avx2", N_AVX2)},
#endif
    {0, {}}};
#undef LIGHTMILL_TOWER_KERNELS

std::vector<Kernels> supported() {
    std::vector<Kernels> all;
    for (const auto& compiled : k_compiled) {
        if ((hwy::SupportedTargets() & compiled.target) != 0) all.push_back(compiled.kernels);
    }
    return all;
}

}  // namespace

std::span<const Kernels> kernels() {
    static const std::vector<Kernels> all = supported();
    return all;
}

void pack(const float* w, std::int64_t stride, std::int64_t columns, std::int64_t k, std::int64_t panel,
          float* packed) noexcept {
    constexpr std::int64_t k_step = 16;  // a cache line of every row
    for (std::int64_t first = 0; first < columns; first += panel) {
        float* const out = packed + first * k;
        const auto count = std::min(panel, columns - first);
        for (std::int64_t k0 = 0; k0 < k; k0 += k_step) {
            const auto k1 = std::min(k, k0 + k_step);
            for (std::int64_t c = 0; c < count; ++c) {
                const float* const row = w + (first + c) * stride;
                for (auto i = k0; i < k1; ++i) out[i * panel + c] = row[i];
            }
            for (auto i = k0; i < k1; ++i)
                for (auto c = count; c < panel; ++c) out[i * panel + c] = 0.0F;
        }
    }
}

}  // namespace lightmill::vision
#endif  // HWY_ONCE

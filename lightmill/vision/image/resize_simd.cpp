// The two passes, written once and compiled for every instruction set.
//
// Both are one kernel: a vector of bytes from each of the input lines that a window takes in, each times its
// weight. Down a column the lines are image rows. Along a row, blocks of as many rows as a vector has bytes
// are transposed first, so that the lines are image columns, and transposed back.
//
// A weight of 22 bits is high · 2^12 + low, both 16-bit, and two lines at a time go through the 16-bit
// multiply-add. Sums are modulo 2^32, as Pillow's are: exact.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lightmill/vision/image/resize_simd.cpp"
// SSSE3 adds nothing over SSE4 here, nor AVX3_DL over AVX3.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lightmill/base/buffer.hpp"
#include "lightmill/vision/image/resize_internal.hpp"

#ifndef LIGHTMILL_VISION_IMAGE_RESIZE_SIMD_ONCE
#define LIGHTMILL_VISION_IMAGE_RESIZE_SIMD_ONCE
namespace lightmill::vision::detail {

inline constexpr int k_low_bits = 12;
// What a block of transposed input may take, so that it stays in the second cache level; a window that is
// wider takes more.
inline constexpr std::int64_t k_block_bytes = std::int64_t{192} << 10;
inline constexpr std::int64_t k_most_block_bytes = std::int64_t{32} << 20;
inline constexpr std::int64_t k_square = 16;  // bytes of the squares that are transposed at once

// Weights in pairs of neighbours: two 16-bit halves of one word, as the multiply-add takes them. Where a
// window's count is odd, the last pair's second weight is 0.
struct PairedWeights {
    struct Pair {
        std::int32_t high, low;
    };
    std::vector<Weights::Window> windows;  // offset: of the first pair
    std::vector<Pair> pairs;
    explicit PairedWeights(const Weights& weights) {
        for (auto window : weights.windows) {
            const auto* values = weights.values.data() + window.offset;
            const auto count = window.count;
            window.offset = static_cast<std::int64_t>(pairs.size());
            windows.push_back(window);
            for (std::int64_t i = 0; i < count; i += 2) {
                const auto a = values[i];
                const auto b = i + 1 < count ? values[i + 1] : 0;
                constexpr std::int32_t k_low_mask = (1 << k_low_bits) - 1;
                pairs.push_back(
                    {halves(a >> k_low_bits, b >> k_low_bits), halves(a & k_low_mask, b & k_low_mask)});
            }
        }
    }
    static std::int32_t halves(std::int32_t first, std::int32_t second) {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xFFFFU) |
                                         static_cast<std::uint32_t>(second) << 16);
    }
};

}  // namespace lightmill::vision::detail
#endif

#if HWY_TARGET != HWY_SCALAR  // there the reference serves
HWY_BEFORE_NAMESPACE();
namespace lightmill::vision::detail {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using U8 = hn::ScalableTag<std::uint8_t>;
using I16 = hn::Repartition<std::int16_t, U8>;
using I32 = hn::Repartition<std::int32_t, U8>;
using Bytes = hn::Vec<U8>;
using Halves = hn::Vec<I16>;
using Words = hn::Vec<I32>;
constexpr std::int64_t k_lanes = static_cast<std::int64_t>(hn::MaxLanes(U8()));
static_assert(k_lanes % k_square == 0);

// Sums of neighbouring products.
HWY_INLINE Words pair_sums(Halves a, Halves b) {
    const I32 i32;
    auto second = hn::Zero(i32);
    const auto first = hn::ReorderWidenMulAccumulate(i32, a, b, hn::Zero(i32), second);
    return hn::RearrangeToOddPlusEven(first, second);
}

// Words to bytes, 0 below and 255 above; in each 16-byte block a's words come first, then b's, c's, d's.
HWY_INLINE Bytes pack(Words a, Words b, Words c, Words d) {
    const I16 i16;
    const auto ab = hn::ReorderDemote2To(i16, a, b);
    const auto cd = hn::ReorderDemote2To(i16, c, d);
#if HWY_TARGET == HWY_AVX3
    return Bytes{_mm512_packus_epi16(ab.raw, cd.raw)};
#elif HWY_TARGET == HWY_AVX2
    return Bytes{_mm256_packus_epi16(ab.raw, cd.raw)};
#else
    const hn::Half<U8> half;
    static_assert(k_lanes == k_square);
    return hn::Combine(U8(), hn::DemoteTo(half, cd), hn::DemoteTo(half, ab));
#endif
}

HWY_INLINE Words rounded(Words high, Words low) {
    const auto half = hn::Set(I32(), 1 << (k_weight_bits - 1));
    return hn::ShiftRight<k_weight_bits>(hn::Add(hn::ShiftLeft<k_low_bits>(high), hn::Add(low, half)));
}

// One vector of output bytes: byte i is the weighted sum of byte i of each of `count` lines, which lie
// `stride` bytes apart.
HWY_INLINE Bytes weighted(const std::uint8_t* line, std::int64_t stride, const PairedWeights::Pair* pair,
                          std::int64_t count) {
    const U8 u8;
    const I16 i16;
    const I32 i32;
    const auto zero = hn::Zero(u8);
    // Named, since g++ 12 keeps arrays of vectors in memory.
    auto high_0 = hn::Zero(i32), high_1 = high_0, high_2 = high_0, high_3 = high_0;
    auto low_0 = high_0, low_1 = high_0, low_2 = high_0, low_3 = high_0;
    for (std::int64_t i = 0; i < count; i += 2, line += 2 * stride, ++pair) {
        const auto a = hn::LoadU(u8, line);
        const auto b = hn::LoadU(u8, i + 1 < count ? line + stride : line);
        const auto high = hn::BitCast(i16, hn::Set(i32, pair->high));
        const auto low = hn::BitCast(i16, hn::Set(i32, pair->low));
        const auto ab_lower = hn::InterleaveLower(u8, a, b);
        const auto ab_upper = hn::InterleaveUpper(u8, a, b);
        const auto ab_0 = hn::BitCast(i16, hn::InterleaveLower(u8, ab_lower, zero));
        const auto ab_1 = hn::BitCast(i16, hn::InterleaveUpper(u8, ab_lower, zero));
        const auto ab_2 = hn::BitCast(i16, hn::InterleaveLower(u8, ab_upper, zero));
        const auto ab_3 = hn::BitCast(i16, hn::InterleaveUpper(u8, ab_upper, zero));
        high_0 = hn::Add(high_0, pair_sums(ab_0, high));
        high_1 = hn::Add(high_1, pair_sums(ab_1, high));
        high_2 = hn::Add(high_2, pair_sums(ab_2, high));
        high_3 = hn::Add(high_3, pair_sums(ab_3, high));
        low_0 = hn::Add(low_0, pair_sums(ab_0, low));
        low_1 = hn::Add(low_1, pair_sums(ab_1, low));
        low_2 = hn::Add(low_2, pair_sums(ab_2, low));
        low_3 = hn::Add(low_3, pair_sums(ab_3, low));
    }
    return pack(rounded(high_0, low_0), rounded(high_1, low_1), rounded(high_2, low_2),
                rounded(high_3, low_3));
}

void column_pass(Pixels in, const Axis& axis, View<std::uint8_t, 3> out) {
    const U8 u8;
    const auto row_bytes = in.extent(1) * k_channels;
    if (row_bytes < k_lanes) return resize_reference().columns(in, axis, out);
    // A few rows' weights at a time: of one row they may be as many as the image has rows.
    constexpr std::int64_t k_rows = 64;
    for (std::int64_t first = 0; first < axis.output(); first += k_rows) {
        const auto last = std::min(first + k_rows, axis.output());
        const PairedWeights weights(axis.weights(first, last));
        for (auto y = first; y < last; ++y) {
            const auto& window = weights.windows[static_cast<std::size_t>(y - first)];
            const auto* pairs = weights.pairs.data() + window.offset;
            const auto* lines = in.data() + window.first * row_bytes;
            auto* to = out.data() + y * row_bytes;
            for (std::int64_t x = 0; x < row_bytes; x += k_lanes) {
                const auto at = std::min(x, row_bytes - k_lanes);  // the last vector overlaps the one before
                hn::StoreU(weighted(lines + at, row_bytes, pairs, window.count), u8, to + at);
            }
        }
    }
}

// Transposes a square of 16 × 16 bytes between lines of any stride.
HWY_INLINE void transpose(const std::uint8_t* from, std::int64_t from_stride, std::uint8_t* to,
                          std::int64_t to_stride) {
    using Line = hn::CappedTag<std::uint8_t, 16>;
    const Line u8;
    // Line r meets line r + 8, then what came of it the one 4 further, and so on: after four rounds a line
    // has one byte of each.
    std::array<hn::Vec<Line>, k_square> a, b;
    for (std::size_t i = 0; i < 16; ++i)
        a[i] = hn::LoadU(u8, from + static_cast<std::int64_t>(i) * from_stride);
    for (std::size_t i = 0; i < 8; ++i) {
        b[2 * i] = hn::InterleaveLower(u8, a[i], a[i + 8]);
        b[2 * i + 1] = hn::InterleaveUpper(u8, a[i], a[i + 8]);
    }
    for (std::size_t i = 0; i < 8; ++i) {
        a[2 * i] = hn::InterleaveLower(u8, b[i], b[i + 8]);
        a[2 * i + 1] = hn::InterleaveUpper(u8, b[i], b[i + 8]);
    }
    for (std::size_t i = 0; i < 8; ++i) {
        b[2 * i] = hn::InterleaveLower(u8, a[i], a[i + 8]);
        b[2 * i + 1] = hn::InterleaveUpper(u8, a[i], a[i + 8]);
    }
    for (std::size_t i = 0; i < 8; ++i) {
        a[2 * i] = hn::InterleaveLower(u8, b[i], b[i + 8]);
        a[2 * i + 1] = hn::InterleaveUpper(u8, b[i], b[i + 8]);
    }
    for (std::size_t i = 0; i < 16; ++i) hn::StoreU(a[i], u8, to + static_cast<std::int64_t>(i) * to_stride);
}

// k_lanes rows of the image as lines: line i holds byte `at` + i of each. Where the image has no such row a
// line holds anything.
void transpose_in(Pixels in, std::int64_t first_row, std::int64_t at, std::int64_t bytes,
                  std::uint8_t* lines) {
    const auto row_bytes = in.extent(1) * k_channels;
    for (std::int64_t r = 0; r < k_lanes; r += k_square) {
        const auto rows = std::min(k_square, in.extent(0) - first_row - r);
        if (rows <= 0) return;
        const auto* from = in.data() + (first_row + r) * row_bytes + at;
        for (std::int64_t i = 0; i < bytes; i += k_square) {
            auto* to = lines + i * k_lanes + r;
            if (rows == k_square && i + k_square <= bytes) {
                transpose(from + i, row_bytes, to, k_lanes);
                continue;
            }
            std::array<std::uint8_t, k_square * k_square> square{};
            for (std::int64_t k = 0; k < rows; ++k)
                std::memcpy(square.data() + k * k_square, from + k * row_bytes + i,
                            static_cast<std::size_t>(std::min(k_square, bytes - i)));
            transpose(square.data(), k_square, to, k_lanes);
        }
    }
}

void transpose_out(const std::uint8_t* lines, std::int64_t bytes, std::int64_t first_row, std::int64_t at,
                   View<std::uint8_t, 3> out) {
    const auto row_bytes = out.extent(1) * k_channels;
    for (std::int64_t r = 0; r < k_lanes; r += k_square) {
        const auto rows = std::min(k_square, out.extent(0) - first_row - r);
        if (rows <= 0) return;
        auto* to = out.data() + (first_row + r) * row_bytes + at;
        if (rows == k_square && bytes == k_square) {
            transpose(lines + r, k_lanes, to, row_bytes);
            continue;
        }
        std::array<std::uint8_t, k_square * k_square> square;
        transpose(lines + r, k_lanes, square.data(), k_square);
        for (std::int64_t k = 0; k < rows; ++k)
            std::memcpy(to + k * row_bytes, square.data() + k * k_square, static_cast<std::size_t>(bytes));
    }
}

// Output columns first … last − 1.
void row_segment(Pixels in, const Axis& axis, std::int64_t first, std::int64_t last,
                 Buffer<std::uint8_t>& lines, View<std::uint8_t, 3> out) {
    const U8 u8;
    const PairedWeights weights(axis.weights(first, last));
    const auto from = axis.range(first).first;
    const auto bytes = (axis.range(last - 1).last - from) * k_channels;
    lines.grow(static_cast<std::size_t>((bytes + k_square - 1) / k_square * k_square * k_lanes), 0);
    std::array<std::uint8_t, k_square * k_lanes> results{};
    for (std::int64_t row = 0; row < in.extent(0); row += k_lanes) {
        transpose_in(in, row, from * k_channels, bytes, lines.data());
        const auto out_bytes = (last - first) * k_channels;
        std::int64_t filled = 0;
        for (auto x = first; x < last; ++x) {
            const auto& window = weights.windows[static_cast<std::size_t>(x - first)];
            const auto* pairs = weights.pairs.data() + window.offset;
            const auto* line = lines.data() + (window.first - from) * k_channels * k_lanes;
            for (std::int64_t channel = 0; channel < k_channels; ++channel) {
                hn::StoreU(weighted(line + channel * k_lanes, k_channels * k_lanes, pairs, window.count), u8,
                           results.data() + filled % k_square * k_lanes);
                ++filled;
                if (filled % k_square == 0)
                    transpose_out(results.data(), k_square, row, first * k_channels + filled - k_square, out);
            }
        }
        if (const auto rest = out_bytes % k_square; rest > 0)
            transpose_out(results.data(), rest, row, first * k_channels + out_bytes - rest, out);
    }
}

void row_pass(Pixels in, const Axis& axis, View<std::uint8_t, 3> out) {
    // An edge of millions of pixels: its lines would take more memory than the image.
    if (axis.window() * k_channels * k_lanes > k_most_block_bytes)
        return resize_reference().rows(in, axis, out);
    Buffer<std::uint8_t> lines;
    for (std::int64_t first = 0; first < axis.output();) {
        const auto from = axis.range(first).first;
        auto last = first + 1;
        while (last < axis.output() && (axis.range(last).last - from) * k_channels * k_lanes <= k_block_bytes)
            ++last;
        row_segment(in, axis, first, last, lines, out);
        first = last;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace lightmill::vision::detail
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace lightmill::vision::detail {
namespace {

constexpr std::int64_t k_any_machine = 0;

struct Compiled {
    std::int64_t target;
    ResizeTarget entry;
};

// Every instruction set this was compiled for, best first.
constexpr Compiled k_compiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, {"simd_avx512", &N_AVX3::row_pass, &N_AVX3::column_pass}},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, {"simd_avx2", &N_AVX2::row_pass, &N_AVX2::column_pass}},
#endif
#if HWY_TARGETS & HWY_SSE4
    {HWY_SSE4, {"simd_sse4", &N_SSE4::row_pass, &N_SSE4::column_pass}},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, {"simd_neon", &N_NEON::row_pass, &N_NEON::column_pass}},
#endif
#if HWY_TARGETS & HWY_EMU128
    {k_any_machine, {"simd_portable", &N_EMU128::row_pass, &N_EMU128::column_pass}},
#endif
};

std::vector<ResizeTarget> supported() {
    std::vector<ResizeTarget> targets;
    for (const auto& compiled : k_compiled) {
        if (compiled.target == k_any_machine || (hwy::SupportedTargets() & compiled.target) != 0)
            targets.push_back(compiled.entry);
    }
    return targets;
}

}  // namespace

std::span<const ResizeTarget> resize_simd_targets() {
    static const std::vector<ResizeTarget> targets = supported();
    return targets;
}

}  // namespace lightmill::vision::detail
#endif  // HWY_ONCE

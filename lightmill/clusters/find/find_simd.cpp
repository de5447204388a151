// The vector kernel, written once and compiled for every instruction set.
//
// One pass a frame. Row r of residuals is computed once, from the model before this frame, into a
// ring of `height` rows; then row r − height/2 is judged from the ring and its background learns in
// place, since nothing that follows needs its old model. Column sums run top to bottom and totals left
// to right, as the definition asks; maxima may be taken in any order.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lightmill/clusters/find/find_simd.cpp"
// SSSE3 adds nothing over SSE4 here, nor AVX3_DL over AVX3.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lightmill/clusters/find/find_simd_internal.hpp"

HWY_BEFORE_NAMESPACE();
namespace lightmill::clusters::detail {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using I = hn::RebindToSigned<F>;
using U16 = hn::Rebind<std::uint16_t, F>;
constexpr std::int64_t k_lanes = static_cast<std::int64_t>(hn::MaxLanes(F()));
static_assert(k_lanes <= RowLayout::k_vector && RowLayout::k_vector % k_lanes == 0);
static_assert(std::endian::native == std::endian::little);  // peaks are written as bytes and read as words

// Bit i is lane i. The store and the load behind it are of one size, or the load would wait.
template <class D>
HWY_INLINE std::uint64_t mask_bits(D d, hn::Mask<D> mask) {
    using Bits = std::conditional_t<(hn::MaxLanes(D()) > 8), std::uint16_t, std::uint8_t>;
    std::array<std::uint8_t, 8> bytes;
    hn::StoreMaskBits(d, mask, bytes.data());
    Bits bits;
    std::memcpy(&bits, bytes.data(), sizeof bits);
    return bits;
}

// The model of a frame lives in the last cache level, and the hardware's prefetchers stop at pages:
// rows are asked for this far ahead. Measured with 1, 2, 3, 4, 8: 2 to 4 are equal, the others slower.
constexpr std::int64_t k_rows_ahead = 3;

// WIDTH and HEIGHT fixed where they are common, 0 where they come from the options.
template <int WIDTH, int HEIGHT, bool ABSENT>
class Band {
  public:
    explicit Band(const BandFrame& band) : b_(band) {}

    void run() {
        for (std::size_t i = 0; i + 1 < b_.module_rows.size(); ++i) {
            const auto first = std::max(b_.module_rows[i], b_.first_row);
            const auto last = std::min(b_.module_rows[i + 1], b_.last_row);
            if (first < last) run_module(b_.module_rows[i], b_.module_rows[i + 1], first, last);
        }
    }

  private:
    HWY_INLINE int width() const { return WIDTH > 0 ? WIDTH : b_.window.width; }
    HWY_INLINE int height() const { return HEIGHT > 0 ? HEIGHT : b_.window.height; }

    // Rows first … last - 1 of the module of rows top … bottom - 1.
    void run_module(std::int64_t top, std::int64_t bottom, std::int64_t first, std::int64_t last) {
        const std::int64_t dy = height() / 2;
        const bool in_place = b_.learn_mean == b_.mean;
        for (auto r = std::max(top, first - dy); r < std::min(bottom, first + dy); ++r) {
            if (r == b_.last_row && b_.below_ready != nullptr) b_.below_ready->wait_for(b_.generation);
            residuals(r);
        }
        for (auto y = first; y < last; ++y) {
            if (y + dy < bottom) {
                if (y + dy == b_.last_row && b_.below_ready != nullptr)
                    b_.below_ready->wait_for(b_.generation);
                residuals(y + dy);
            }
            for (int i = 0; i < height(); ++i) {
                const auto r = y - dy + i;
                window_rows_[static_cast<std::size_t>(i)] =
                    r >= top && r < bottom ? ring_row(r) : b_.work->zero.data();
            }
            b_.found->reserve(static_cast<std::size_t>(b_.shape.columns),
                              static_cast<std::size_t>(b_.window.cells()), b_.payload);
            for (const auto& segment : b_.layout->segments) {
                columns(segment);
                if (in_place) {
                    judge<true>(segment, y);
                } else {
                    judge<false>(segment, y);
                }
                emit(segment, y);
            }
            if (y == b_.first_row + dy - 1 && b_.top != nullptr) {
                std::memcpy(b_.top, b_.learn_mean + b_.first_row * b_.layout->stride,
                            static_cast<std::size_t>(dy * b_.layout->stride) * sizeof(float));
                b_.top_ready->advance_to(b_.generation + 1);
            }
        }
    }

    float* ring_row(std::int64_t row) const {
        return b_.work->ring.data() + (row % height()) * b_.layout->stride;
    }

    const float* mean_row(std::int64_t row) const {
        const auto stride = b_.layout->stride;
        if (row < b_.first_row) return b_.above + (row - (b_.first_row - height() / 2)) * stride;
        if (row >= b_.last_row) return b_.below + (row - b_.last_row) * stride;
        return b_.mean + row * stride;
    }

    // v = float(F − X₀) − m of one row, 0 in the room beside the columns.
    void residuals(std::int64_t row) {
        const F f;
        const U16 u16;
        const float* mean = mean_row(row);
        const Pixel* offset = b_.offset + row * b_.layout->stride;
        const float* variance = b_.variance + row * b_.layout->stride;
        // Never into the next band: its thread is writing there, and every line asked for would have to
        // travel back.
        const auto rows_ahead = row + k_rows_ahead < b_.last_row ? k_rows_ahead : 0;
        const auto ahead = rows_ahead * b_.layout->stride;
        float* out = ring_row(row);
        const bool count = ABSENT && row >= b_.first_row && row < b_.last_row;
        for (const auto& segment : b_.layout->segments) {
            const Pixel* frame = b_.frame + row * b_.shape.columns + segment.first_column;
            const auto whole = segment.columns / k_lanes * k_lanes;
            std::int64_t x = 0;
            for (; x < whole; x += k_lanes) {
                const auto at = segment.position + x;
                hwy::Prefetch(mean + at + ahead);
                hwy::Prefetch(variance + at + ahead);
                hwy::Prefetch(offset + at + ahead);
                hwy::Prefetch(frame + x + rows_ahead * b_.shape.columns);
                hn::StoreU(residual(hn::LoadU(u16, frame + x), hn::LoadU(u16, offset + at),
                                    hn::LoadU(f, mean + at), k_lanes, count),
                           f, out + at);
            }
            if (const auto rest = segment.columns - whole; rest > 0) {
                // The image ends here, and perhaps its memory.
                std::array<Pixel, RowLayout::k_vector> tail{};
                std::memcpy(tail.data(), frame + x, static_cast<std::size_t>(rest) * sizeof(Pixel));
                const auto at = segment.position + x;
                const auto v = residual(hn::LoadU(u16, tail.data()), hn::LoadU(u16, offset + at),
                                        hn::LoadU(f, mean + at), rest, count);
                hn::StoreU(hn::IfThenElseZero(hn::FirstN(f, static_cast<std::size_t>(rest)), v), f, out + at);
            }
        }
    }

    HWY_INLINE hn::Vec<F> residual(hn::Vec<U16> pixel, hn::Vec<U16> offset, hn::Vec<F> mean,
                                   std::int64_t lanes, bool count) {
        const F f;
        const I i;
        const auto raw = hn::PromoteTo(i, pixel);
        const auto v = hn::Sub(hn::ConvertTo(f, hn::Sub(raw, hn::PromoteTo(i, offset))), mean);
        if constexpr (!ABSENT) {
            return v;
        } else {
            const auto used = hn::Eq(v, v);
            const auto lost = hn::And(hn::RebindMask(f, hn::Eq(raw, hn::Set(i, b_.absent_value))), used);
            const auto other_gain = hn::AndNot(
                lost, hn::And(hn::RebindMask(f, hn::Ne(hn::And(raw, hn::Set(i, b_.gain_mask)), hn::Zero(i))),
                              used));
            const auto present = hn::AndNot(lost, hn::AndNot(other_gain, used));
            if (count && !hn::AllFalse(f, hn::Or(lost, other_gain))) {
                const auto inside = hn::FirstN(f, static_cast<std::size_t>(lanes));
                b_.absent->absent_value += hn::CountTrue(f, hn::And(lost, inside));
                b_.absent->gain_bits += hn::CountTrue(f, hn::And(other_gain, inside));
            }
            return hn::IfThenElse(present, v, hn::Set(f, -0.0F));
        }
    }

    // t_c and the maximum of each column of the window rows.
    void columns(const RowLayout::Segment& segment) {
        const F f;
        // Locals, since the compiler must assume that vector stores reach members.
        const auto rows = window_rows_;
        float* const total = b_.work->total.data();
        float* const maximum = b_.work->maximum.data();
        const int height = this->height();
        const auto end = segment.position + segment.columns;
        for (auto x = segment.position; x < end; x += k_lanes) {
            auto t = hn::LoadU(f, rows[0] + x);
            auto m = hn::Max(t, hn::Zero(f));
            for (int i = 1; i < height; ++i) {
                const auto v = hn::LoadU(f, rows[static_cast<std::size_t>(i)] + x);
                t = hn::Add(t, v);
                m = hn::Max(m, v);
            }
            hn::StoreU(t, f, total + x);
            hn::StoreU(m, f, maximum + x);
        }
    }

    // Tests every pixel of row y; background learns at once, peaks go to a bitmap. IN_PLACE: the model
    // that judges learns, as with epoch 1. Lanes beyond the last column need no care: v, m and s are 0
    // there, which is no photon (v = M asks for M = 0), not negative, and stays 0.
    template <bool IN_PLACE>
    void judge(const RowLayout::Segment& segment, std::int64_t y) {
        const F f;
        const auto zero = hn::Zero(f);
        const auto threshold = hn::Set(f, b_.constants.threshold);
        const auto cells = hn::Set(f, b_.constants.cells);
        const auto gain = hn::Set(f, b_.constants.gain);
        const auto keep = hn::Set(f, b_.constants.keep);
        // Locals, since the compiler must assume that vector stores reach members.
        const int width = this->width();
        const auto row = y * b_.layout->stride + segment.position;
        const float* const centre = window_rows_[static_cast<std::size_t>(height() / 2)] + segment.position;
        const float* const total = b_.work->total.data() + segment.position - width / 2;
        const float* const maximum = b_.work->maximum.data() + segment.position - width / 2;
        const float* const variance = b_.variance + row;
        float* const learn_mean = b_.learn_mean + row;
        float* const learn_variance = b_.learn_variance + row;
        std::uint32_t* const negatives = b_.negatives + y * b_.shape.columns + segment.first_column;
        auto* const peaks = reinterpret_cast<std::uint8_t*>(b_.work->peaks.data());
        const auto columns = segment.columns;
        b_.work->peaks[static_cast<std::size_t>((columns - 1) / 64)] =
            0;  // vectors may end before the word does
        for (std::int64_t x = 0; x < columns; x += k_lanes) {
            auto sum = hn::LoadU(f, total + x);
            auto most = hn::LoadU(f, maximum + x);
            for (int i = 1; i < width; ++i) {
                sum = hn::Add(sum, hn::LoadU(f, total + x + i));
                most = hn::Max(most, hn::LoadU(f, maximum + x + i));
            }
            const auto v = hn::LoadU(f, centre + x);
            const auto s = hn::LoadU(f, variance + x);
            const auto q = hn::Mul(threshold, s);
            const auto square = hn::Mul(v, v);
            // `most` is at least 0, and 0·0 > q never holds: M > 0 needs no test of its own. The
            // same for S once negative sums are set to 0.
            const auto positive_sum = hn::Max(sum, zero);
            const auto fires = hn::Or(hn::Gt(hn::Mul(most, most), q),
                                      hn::Gt(hn::Mul(positive_sum, positive_sum), hn::Mul(cells, q)));
            const auto negative = hn::And(hn::Lt(v, zero), hn::Gt(square, q));
            auto photon = hn::And(fires, hn::Eq(v, most));
            auto frozen = hn::Or(fires, negative);
            if constexpr (ABSENT) {
                const I i;
                const auto absent = hn::RebindMask(
                    f, hn::Eq(hn::BitCast(i, v), hn::Set(i, std::numeric_limits<std::int32_t>::min())));
                photon = hn::AndNot(absent, photon);
                frozen = hn::Or(absent, frozen);
            }
            if (HWY_UNLIKELY(!hn::AllFalse(f, negative))) {
                for (auto bits = mask_bits(f, negative); bits != 0; bits &= bits - 1)
                    ++negatives[x + std::countr_zero(bits)];
            }
            const auto m = hn::LoadU(f, learn_mean + x);
            auto late_v = v;
            auto late_s = s;
            if constexpr (!IN_PLACE) {
                // v as the learning model sees it: of the mean that it has now.
                late_v = late_residual(y, segment, x, m);
                late_s = hn::LoadU(f, learn_variance + x);
            }
            const auto new_m = hn::Add(m, hn::Mul(late_v, gain));
            const auto new_s = hn::Mul(keep, hn::Add(late_s, hn::Mul(hn::Mul(late_v, late_v), gain)));
            hn::StoreU(hn::IfThenElse(frozen, m, new_m), f, learn_mean + x);
            hn::StoreU(hn::IfThenElse(frozen, late_s, new_s), f, learn_variance + x);
            if constexpr (k_lanes >= 8) {
                hn::StoreMaskBits(f, photon, peaks + x / 8);
            } else {
                if (x % 8 == 0) peaks[x / 8] = 0;
                peaks[x / 8] = static_cast<std::uint8_t>(peaks[x / 8] | mask_bits(f, photon) << (x % 8));
            }
        }
    }

    HWY_INLINE hn::Vec<F> late_residual(std::int64_t y, const RowLayout::Segment& segment, std::int64_t x,
                                        hn::Vec<F> mean) const {
        const F f;
        const I i;
        const U16 u16;
        const Pixel* frame = b_.frame + y * b_.shape.columns + segment.first_column + x;
        std::array<Pixel, RowLayout::k_vector> tail{};
        if (const auto rest = segment.columns - x; rest < k_lanes) {
            std::memcpy(tail.data(), frame, static_cast<std::size_t>(rest) * sizeof(Pixel));
            frame = tail.data();
        }
        const auto raw = hn::PromoteTo(i, hn::LoadU(u16, frame));
        const auto offset =
            hn::PromoteTo(i, hn::LoadU(u16, b_.offset + y * b_.layout->stride + segment.position + x));
        return hn::Sub(hn::ConvertTo(f, hn::Sub(raw, offset)), mean);
    }

    // The narrowest vector that holds a window's row in few stores.
    static constexpr std::size_t k_cell_lanes = WIDTH > 0 && WIDTH <= 4   ? 4
                                                : WIDTH > 0 && WIDTH <= 8 ? 8
                                                                          : 16;
    using CF = hn::CappedTag<float, k_cell_lanes>;

    void emit(const RowLayout::Segment& segment, std::int64_t y) {
        if (b_.payload == Payload::int32) {
            emit_as(segment, y, b_.found->residuals.data());
        } else {
            emit_as(segment, y, b_.found->residuals16.data());
        }
    }

    // Lists the bitmap's peaks. Two a word are taken without asking whether they are there: at the
    // usual occupancy that question cannot be predicted, and would cost more than the answer.
    std::size_t list_peaks(std::int64_t columns) {
        const std::uint64_t* const peaks = b_.work->peaks.data();
        std::uint32_t* const positions = b_.work->positions.data();
        std::size_t count = 0;
        for (std::int64_t x = 0; x < columns; x += 64) {
            auto bits = peaks[x / 64];
            auto take = [&] {
                positions[count] = static_cast<std::uint32_t>(x + std::countr_zero(bits));
                count += bits != 0 ? 1 : 0;
                bits &= bits - 1;
            };
            take();
            take();
            while (HWY_UNLIKELY(bits != 0)) take();
        }
        return count;
    }

    // Writes the clusters of the bitmap's peaks, ties apart. Whole vectors are stored: what runs over a
    // row of the window is overwritten by the next one.
    template <class Cell>
    void emit_as(const RowLayout::Segment& segment, std::int64_t y, Cell* const residuals) {
        const CF f;
        const hn::RebindToSigned<CF> i32;
        constexpr auto lanes = static_cast<int>(hn::MaxLanes(CF()));
        // Locals, since the compiler must assume that vector stores reach members.
        const auto rows = window_rows_;
        const std::uint32_t* const positions = b_.work->positions.data();
        std::uint32_t* const found_rows = b_.found->rows.data();
        std::uint32_t* const found_columns = b_.found->columns.data();
        const bool ties_all = b_.ties_all;
        const int width = this->width();
        const int height = this->height();
        const int dx = width / 2;
        const int dy = height / 2;
        auto count = b_.found->count;
        const auto photons = list_peaks(segment.columns);
        for (std::size_t k = 0; k < photons; ++k) {
            const std::int64_t x = positions[k];
            const auto at = segment.position + x - dx;
            const auto v = hn::Set(f, rows[static_cast<std::size_t>(dy)][at + dx]);
            Cell* const out = residuals + count * static_cast<std::size_t>(width * height);
            auto earlier_equal = hn::FirstN(f, 0);
            for (int r = 0; r < height; ++r) {
                const float* const in = rows[static_cast<std::size_t>(r)] + at;
                const int earlier = r < dy    ? width
                                    : r == dy ? dx
                                              : 0;  // cells before the centre in raster order
                for (int c = 0; c < width; c += lanes) {
                    const auto cells = hn::LoadU(f, in + c);
                    if (c < earlier) {
                        const auto before = hn::FirstN(f, static_cast<std::size_t>(earlier - c));
                        earlier_equal = hn::Or(earlier_equal, hn::And(before, hn::Eq(cells, v)));
                    }
                    const auto rounded = hn::NearestInt(cells);
                    if constexpr (sizeof(Cell) == sizeof(std::int32_t)) {
                        hn::StoreU(rounded, i32, out + r * width + c);
                    } else {
                        const hn::Rebind<std::int16_t, CF> i16;
                        const auto narrow = hn::DemoteTo(i16, rounded);
                        const auto same = hn::Eq(hn::PromoteTo(i32, narrow), rounded);
                        const auto inside = hn::FirstN(i32, static_cast<std::size_t>(width - c));
                        if (HWY_UNLIKELY(!hn::AllFalse(i32, hn::AndNot(same, inside))))
                            misfit(in, y - dy + r, segment, x - dx);
                        hn::StoreU(narrow, i16, out + r * width + c);
                    }
                }
            }
            const bool kept = ties_all || hn::AllFalse(f, earlier_equal);
            if constexpr (sizeof(Cell) == sizeof(std::int16_t)) {
                if (kept && pending_.found && !b_.misfit->found) *b_.misfit = pending_;
                pending_ = {};
            }
            // A branch, since ties are rare: the next cluster's place must not wait for this one's test.
            if (HWY_UNLIKELY(!kept)) continue;
            found_rows[count] = static_cast<std::uint32_t>(y);
            found_columns[count] = static_cast<std::uint32_t>(segment.first_column + x);
            ++count;
        }
        b_.found->count = count;
    }

    // Notes the first cell of a window's row that int16 cannot hold.
    void misfit(const float* in, std::int64_t row, const RowLayout::Segment& segment, std::int64_t x) {
        for (int c = 0; c < width() && !pending_.found; ++c) {
            const float rounded = __builtin_rintf(in[c]);
            if (rounded < -32768.0F || rounded > 32767.0F) {
                pending_ = {true, static_cast<std::int64_t>(rounded), row, segment.first_column + x + c};
            }
        }
    }

    const BandFrame& b_;
    std::array<const float*, k_max_window> window_rows_{};
    Misfit pending_;  // of the cluster being written, which a tie may still drop
};

template <int WIDTH, int HEIGHT>
void run_window(const BandFrame& band) {
    if (band.any_absent) {
        Band<WIDTH, HEIGHT, true>(band).run();
    } else {
        Band<WIDTH, HEIGHT, false>(band).run();
    }
}

void run_band(const BandFrame& band) {
    if (band.window == Window{3, 3}) return run_window<3, 3>(band);
    if (band.window == Window{5, 5}) return run_window<5, 5>(band);
    if (band.window == Window{7, 7}) return run_window<7, 7>(band);
    if (band.window == Window{9, 9}) return run_window<9, 9>(band);
    run_window<0, 0>(band);
}

}  // namespace HWY_NAMESPACE
}  // namespace lightmill::clusters::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lightmill::clusters::detail {
namespace {

constexpr std::int64_t k_any_machine = 0;

struct Compiled {
    std::int64_t target;
    SimdTarget entry;
};

// Every instruction set this was compiled for, best first.
constexpr Compiled k_compiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, {"simd_avx512", &N_AVX3::run_band}},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, {"simd_avx2", &N_AVX2::run_band}},
#endif
#if HWY_TARGETS & HWY_SSE4
    {HWY_SSE4, {"simd_sse4", &N_SSE4::run_band}},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, {"simd_neon", &N_NEON::run_band}},
#endif
#if HWY_TARGETS & HWY_EMU128
    {k_any_machine, {"simd_portable", &N_EMU128::run_band}},
#endif
#if HWY_TARGETS & HWY_SCALAR
    {k_any_machine, {"simd_portable", &N_SCALAR::run_band}},
#endif
};

std::vector<SimdTarget> supported() {
    std::vector<SimdTarget> targets;
    for (const auto& compiled : k_compiled) {
        if (compiled.target == k_any_machine || (hwy::SupportedTargets() & compiled.target) != 0)
            targets.push_back(compiled.entry);
    }
    return targets;
}

}  // namespace

std::span<const SimdTarget> simd_targets() {
    static const std::vector<SimdTarget> targets = supported();
    return targets;
}

RowLayout::RowLayout(std::span<const std::int64_t> module_columns) {
    for (std::size_t i = 0; i + 1 < module_columns.size(); ++i) {
        const auto columns = module_columns[i + 1] - module_columns[i];
        segments.push_back({module_columns[i], columns, stride + k_room_left});
        stride += k_room_left + (columns + k_vector - 1) / k_vector * k_vector + k_room_right;
    }
}

Workspace::Workspace(const RowLayout& layout, const Window& window)
    : ring(static_cast<std::size_t>(layout.stride * window.height), 0.0F),
      zero(static_cast<std::size_t>(layout.stride), 0.0F),
      total(static_cast<std::size_t>(layout.stride), 0.0F),
      maximum(static_cast<std::size_t>(layout.stride), 0.0F),
      peaks(static_cast<std::size_t>(layout.stride / 64 + 1), 0),
      positions(static_cast<std::size_t>(layout.stride)) {}

}  // namespace lightmill::clusters::detail
#endif  // HWY_ONCE

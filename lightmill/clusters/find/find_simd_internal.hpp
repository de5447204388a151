#pragma once
// The vector kernel: one frame over one band of rows. One table row per instruction set.

#include <cstdint>
#include <span>
#include <string_view>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/clusters/find/engine_internal.hpp"

namespace lightmill::clusters::detail {

// How a row of the image lies in the kernel's memory: each module's columns with room on both sides,
// so that whole vectors may be loaded around every pixel. Room holds zeros and stays so.
struct RowLayout {
    static constexpr std::int64_t k_vector = 16;      // pixels of the widest vector
    static constexpr std::int64_t k_room_left = 16;   // ≥ half a window, and keeps rows aligned
    static constexpr std::int64_t k_room_right = 32;  // ≥ half a window and a vector
    struct Segment {
        std::int64_t first_column;  // in the image
        std::int64_t columns;
        std::int64_t position;  // of first_column in a padded row
    };
    std::vector<Segment> segments;  // one per module across
    std::int64_t stride = 0;        // values a padded row
    explicit RowLayout(std::span<const std::int64_t> module_columns);
};

// A residual that int16 cannot hold.
struct Misfit {
    bool found = false;
    std::int64_t value = 0, row = 0, column = 0;
};

// Scratch of one band.
struct Workspace {
    Buffer<float> ring;               // residuals of the last `height` rows, padded
    Buffer<float> zero;               // a row outside the module
    Buffer<float> total;              // column sums t_c of one row, padded
    Buffer<float> maximum;            // column maxima of one row, padded, at least 0
    Buffer<std::uint64_t> peaks;      // bit i: the pixel at i of the padded row is a photon but for ties
    Buffer<std::uint32_t> positions;  // of the peaks of one row
    Workspace(const RowLayout& layout, const Window& window);
};

// One frame of one band. Model rows are padded rows of the whole image. mean is NaN where a pixel is
// absent from every frame. The kernel stores an absent pixel's residual as −0: a present one's is
// never −0, since x − x is +0 and m starts and stays at +0 when it is zero; adding −0 changes nothing.
struct BandFrame {
    const Pixel* frame = nullptr;  // the whole image
    Shape shape;
    const RowLayout* layout = nullptr;
    std::span<const std::int64_t> module_rows;  // first row of each module, then the number of rows
    std::int64_t first_row = 0, last_row = 0;   // the band, half-open
    const Pixel* offset = nullptr;
    float* mean = nullptr;  // judges; learns too where learn_mean is the same
    float* variance = nullptr;
    float* learn_mean = nullptr;  // learns
    float* learn_variance = nullptr;
    // Means of the height/2 rows above and below the band, as its neighbours published them. Those above
    // are ready; those below are once `below_ready` has come to `generation`, and are needed last.
    const float* above = nullptr;
    const float* below = nullptr;
    const Turnstile* below_ready = nullptr;
    std::uint32_t generation = 0;
    // With epoch 1 the means of the band's first height/2 rows go here as soon as they have learned, and
    // `top_ready` to generation + 1. Else null.
    float* top = nullptr;
    Turnstile* top_ready = nullptr;
    bool any_absent = false;         // some pixel may be absent
    std::int32_t absent_value = -1;  // −1: no value is
    std::int32_t gain_mask = 0;
    Window window;
    Constants constants;
    bool ties_all = false;
    Payload payload = Payload::int32;
    Workspace* work = nullptr;
    Found* found = nullptr;
    std::uint32_t* negatives = nullptr;  // (rows × columns)
    AbsentCounts* absent = nullptr;
    Misfit* misfit = nullptr;
};

using BandKernel = void (*)(const BandFrame& band);

struct SimdTarget {
    std::string_view name;  // "simd_avx512"
    BandKernel kernel;
};
// Those that this machine has, best first.
[[nodiscard]] std::span<const SimdTarget> simd_targets();

[[nodiscard]] std::unique_ptr<Engine> make_bands(const Setting& setting, BandKernel kernel);

}  // namespace lightmill::clusters::detail

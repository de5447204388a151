#pragma once
// The tower's vector kernels: one table a target, all of them equal to arithmetic.hpp in every bit.
// Matrices are row-major binary32; a `stride` is the distance of rows in values. The end of a row is padded:
// kernels may read up to the next multiple of k_row_values there, and write it only in Product::c.

#include <cstdint>
#include <span>
#include <string_view>

namespace lightmill::vision {

inline constexpr std::int64_t k_row_values = 64;  // strides are multiples of this
[[nodiscard]] constexpr std::int64_t padded(std::int64_t n) noexcept {
    return (n + k_row_values - 1) / k_row_values * k_row_values;
}

// What a product becomes once its chains over k are complete.
enum class After {
    keep,       // c
    bias,       // c + bias[j]
    gelu,       // gelu(c + bias[j])
    add,        // other[i][j] + (c + bias[j])
    scale_row,  // c · factor[i]
};

// c = a · wᵀ for a block of rows: c starts at +0 and takes fma(a, w, c) for k ascending. w is packed (see
// pack).
struct Product {
    const float* a = nullptr;  // (rows, k_count)
    std::int64_t a_stride = 0;
    std::int64_t rows = 0;
    const float* w = nullptr;  // packed
    std::int64_t columns = 0;
    std::int64_t k_values = 0;  // of the packed panels
    std::int64_t k_first = 0;   // the k of a's first column: a chain may be added to by several calls
    std::int64_t k_count = 0;
    // The chains: (rows, columns), and `out` itself where `after` is keep. One panel at a time, (rows,
    // panel), where this call starts and finishes them and `out` is another place.
    float* c = nullptr;
    std::int64_t c_stride = 0;
    bool start = true;   // the chains start at +0, else where c stands
    bool finish = true;  // the chains are complete: `after` goes to out
    After after = After::keep;
    const float* bias = nullptr;    // (columns)
    const float* factor = nullptr;  // (rows)
    const float* other = nullptr;   // (rows, columns); may be `out`
    std::int64_t other_stride = 0;
    float* out = nullptr;
    std::int64_t out_stride = 0;
};

// Each row of x, normalised: gamma and beta hold `columns` values.
struct LayerNorm {
    const float* x = nullptr;
    std::int64_t x_stride = 0;
    std::int64_t rows = 0, columns = 0;
    const float* gamma = nullptr;
    const float* beta = nullptr;
    float eps = 0;
    float* y = nullptr;
    std::int64_t y_stride = 0;
};

// Each row of scores s becomes p = exp(s·scale − max(s·scale)), and factor = 1 / sum(p).
struct Softmax {
    float* scores = nullptr;
    std::int64_t stride = 0;
    std::int64_t rows = 0, columns = 0;
    float scale = 1;
    float* factor = nullptr;  // (rows)
};

struct Kernels {
    std::string_view name;  // "avx512"
    std::int64_t panel;     // columns of a packed panel; k_row_values is a multiple of it
    void (*product)(const Product&) noexcept;
    void (*layer_norm)(const LayerNorm&) noexcept;
    void (*softmax)(const Softmax&) noexcept;
};

// Those that this machine has, best first; none where it has no fused multiply-add in vectors.
[[nodiscard]] std::span<const Kernels> kernels();

// Values of w (columns, k) once packed: panels of `panel` columns, the last one filled up with zeros; panel p
// holds w[p·panel + column][k] at p·k_values·panel + k·panel + column.
[[nodiscard]] constexpr std::int64_t packed_values(std::int64_t columns, std::int64_t k,
                                                   std::int64_t panel) noexcept {
    return (columns + panel - 1) / panel * panel * k;
}
void pack(const float* w, std::int64_t stride, std::int64_t columns, std::int64_t k, std::int64_t panel,
          float* packed) noexcept;

}  // namespace lightmill::vision

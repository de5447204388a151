#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace lightmill::ladder::detail {

// The loops that saturate one resource, for one instruction set. Sizes in bytes, multiples of k_block_bytes;
// pointers aligned to 64 bytes.
inline constexpr std::int64_t k_block_bytes = 1024;

struct ProbeKernels {
    std::string_view name;  // "simd_avx512"
    std::uint64_t (*read)(const std::byte* from,
                          std::int64_t n);  // returns something that depends on every byte
    void (*write)(std::byte* to, std::int64_t n, bool streaming);
    void (*copy)(std::byte* to, const std::byte* from, std::int64_t n, bool streaming);
    // Chains of independent multiply-adds; returns the operations done, two a lane.
    std::int64_t (*fma_f32)(std::int64_t iterations);
    std::int64_t (*fma_f64)(std::int64_t iterations);
};
// Those that this machine has, best first; never empty.
[[nodiscard]] std::span<const ProbeKernels> probe_kernels();

}  // namespace lightmill::ladder::detail

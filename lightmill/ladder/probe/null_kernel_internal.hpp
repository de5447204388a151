#pragma once

namespace lightmill::ladder::detail {

struct NoParameters {
    int unused = 0;
};

// The __global__ function that takes them and does nothing. In a build with CUDA only.
[[nodiscard]] const void* null_kernel() noexcept;

}  // namespace lightmill::ladder::detail

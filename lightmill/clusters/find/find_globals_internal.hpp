#pragma once
// The kernels' __global__ functions, as the host names them. Apart from find_kernels.hpp, whose includes are
// not for nvcc.

namespace lightmill::clusters::detail {

// Null in a build without CUDA.
struct Globals {
    const void* judge = nullptr;
    const void* judge_many = nullptr;
    const void* scan = nullptr;
    const void* list = nullptr;
    const void* cells = nullptr;
    const void* compact = nullptr;
};
// For a window of so many columns and rows.
[[nodiscard]] Globals globals_for(int width, int height);

}  // namespace lightmill::clusters::detail

// The reductions' kernel on the device.

#include "lightmill/clusters/reduce/reduce_body.hpp"

namespace lightmill::clusters::detail {
namespace {

__global__ void __launch_bounds__(k_reduce_threads) reduce_words(const __grid_constant__ ReduceParameters p) {
    reduce_word(p, static_cast<int>(blockIdx.y),
                static_cast<int>(blockIdx.x * k_reduce_threads + threadIdx.x));
}

}  // namespace

const void* reduce_global() {
    return reinterpret_cast<const void*>(&reduce_words);
}

}  // namespace lightmill::clusters::detail

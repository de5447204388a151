// The kernels on the device: thin __global__ functions around the phases of find_body.hpp.

#include "lightmill/clusters/find/find_body.hpp"
#include "lightmill/clusters/find/find_globals_internal.hpp"

namespace lightmill::clusters::detail {
namespace {

// One frame of a tile, by all of its threads.
template <class Body>
__device__ __forceinline__ void judge_frame(const Body& body, int thread, typename Body::Thread& t, int f) {
    body.load(t, f);
    __syncthreads();
    body.columns(thread, f);
    __syncthreads();
    const std::uint32_t word = __ballot_sync(0xFFFFFFFFU, body.judge(thread, t, f));
    if (thread % k_tile_columns == 0 && body.has_map_word(thread)) {
        body.p.photons[body.map_word(thread, f)] = word;
    }
}

template <int Width, int Height, unsigned Items>
__global__ void __launch_bounds__(k_tile_threads) judge_tiles(const __grid_constant__ JudgeParameters p) {
    extern __shared__ float shared[];
    using Body = Judge<Width, Height, Items>;
    const Body body{p, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), shared};
    const int thread = static_cast<int>(threadIdx.x);
    typename Body::Thread t;
    body.begin(thread, t);
#if __CUDA_ARCH__ >= 900
    // Launched early: the launch before has written the model once this returns, and the one after may begin.
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
#endif
    body.begin_model(t);
    for (int f = 0; f < p.frame_count; ++f) {
        judge_frame(body, thread, t, f);
    }
    body.end(t);
}

// Every frame an epoch: blocks stay for all of them, and each waits for the eight around it alone. They must
// all be there at the same time (cooperative launch).
template <int Width, int Height, unsigned Items>
__global__ void __launch_bounds__(k_tile_threads)
    judge_many_tiles(const __grid_constant__ JudgeParameters p) {
    extern __shared__ float shared[];
    using Body = Judge<Width, Height, Items>;
    const int x = static_cast<int>(blockIdx.x), y = static_cast<int>(blockIdx.y);
    const int tiles_x = static_cast<int>(gridDim.x), tiles_y = static_cast<int>(gridDim.y);
    const Body body{p, x, y, shared};
    const int thread = static_cast<int>(threadIdx.x);
    // Threads 0 … 8 watch a neighbour each.
    const int near_x = x + thread % 3 - 1, near_y = y + thread / 3 - 1;
    const bool watches = thread < 9 && near_x >= 0 && near_x < tiles_x && near_y >= 0 && near_y < tiles_y;
    volatile std::uint32_t* watched = p.generations + (watches ? near_y * tiles_x + near_x : 0);
    typename Body::Thread t;
    body.begin(thread, t);
    body.begin_model(t);
    for (int f = 0; f < p.frame_count; ++f) {
        if (f > 0) {
            const std::uint32_t wanted = p.generation + static_cast<std::uint32_t>(f);
            while (watches && static_cast<std::int32_t>(*watched - wanted) < 0) {
            }
            __threadfence();
            __syncthreads();
            body.take_rim(t, f);
        }
        judge_frame(body, thread, t, f);
        body.publish(t, f);
        __threadfence();
        __syncthreads();
        if (thread == 0) {
            *const_cast<volatile std::uint32_t*>(p.generations + y * tiles_x + x) =
                p.generation + static_cast<std::uint32_t>(f) + 1;
        }
    }
    body.end_many(t);
}

__global__ void __launch_bounds__(k_scan_threads) scan_frames(const __grid_constant__ ScanParameters p) {
    __shared__ std::uint32_t shared[ScanCount::k_shared];
    const Scan body(p, static_cast<int>(blockIdx.x), shared);
    const int thread = static_cast<int>(threadIdx.x);
    body.map.count(thread);
    __syncthreads();
    body.map.sum_group(thread);
    __syncthreads();
    body.sum_groups(thread);
    __syncthreads();
    body.write(thread);
}

__global__ void __launch_bounds__(k_list_threads) list_words(const __grid_constant__ ListParameters p) {
    list_word(p, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x * k_list_threads + threadIdx.x));
}

__global__ void __launch_bounds__(k_cells_threads) copy_all_cells(const __grid_constant__ CellsParameters p) {
    const std::uint64_t total = clusters_to_copy(p);
    for (std::uint64_t group = blockIdx.x; group * k_cells_clusters < total; group += gridDim.x) {
        copy_cells(p, group, static_cast<int>(threadIdx.x));
    }
}

__global__ void __launch_bounds__(k_compact_threads)
    compact_frame(const __grid_constant__ CompactParameters p) {
    __shared__ std::uint32_t shared[CompactCount::k_shared];
    const Compact body(p, shared);
    const int thread = static_cast<int>(threadIdx.x);
    body.map.count(thread);
    __syncthreads();
    body.map.sum_group(thread);
    __syncthreads();
    body.sum_groups(thread);
    __syncthreads();
    body.list(thread);
    __syncthreads();
    body.cells(thread);
}

template <class Parameters>
const void* global(void (*kernel)(Parameters)) {
    return reinterpret_cast<const void*>(kernel);
}

}  // namespace

Globals globals_for(int width, int height) {
    const bool three = width == 3 && height == 3, nine = width == 9 && height == 9;
    return {three  ? global(judge_tiles<3, 3, 2>)
            : nine ? global(judge_tiles<9, 9, 2>)
                   : global(judge_tiles<0, 0, 4>),
            three  ? global(judge_many_tiles<3, 3, 2>)
            : nine ? global(judge_many_tiles<9, 9, 2>)
                   : global(judge_many_tiles<0, 0, 4>),
            global(scan_frames),
            global(list_words),
            global(copy_all_cells),
            global(compact_frame)};
}

}  // namespace lightmill::clusters::detail

#pragma once
// The kernels of find_body.hpp, ready to be launched, and the shapes of their launches.

#include "lightmill/clusters/find/find_body.hpp"
#include "lightmill/clusters/find/options.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::clusters::detail {

struct Kernels {
    cuda::Kernel<JudgeParameters> judge;       // frames of one epoch
    cuda::Kernel<JudgeParameters> judge_many;  // frames that are epochs of their own
    cuda::Kernel<ScanParameters> scan;
    cuda::Kernel<ListParameters> list;
    cuda::Kernel<CellsParameters> cells;
    cuda::Kernel<CompactParameters> compact;
};
[[nodiscard]] Kernels kernels_for(const Window& window);

[[nodiscard]] cuda::Shape judge_shape(const BandPlan& plan);
[[nodiscard]] cuda::Shape scan_shape(std::int32_t frames);
[[nodiscard]] cuda::Shape list_shape(const BandPlan& plan, std::int32_t frames);
[[nodiscard]] cuda::Shape cells_shape();
[[nodiscard]] cuda::Shape compact_shape();

}  // namespace lightmill::clusters::detail

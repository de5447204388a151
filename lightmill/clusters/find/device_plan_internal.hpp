#pragma once
// Where a band's pixels are in device memory, and how the kernels see them (find_body.hpp).

#include <memory>
#include <span>

#include "lightmill/clusters/find/engine_internal.hpp"
#include "lightmill/clusters/find/find_body.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::clusters::detail {

struct DevicePlan {
    cuda::DeviceMemory<std::int32_t> row_of, column_of;
    BandPlan plan{};
};

// For the band of rows first … last − 1 and the half window beyond it, as far as there are rows.
[[nodiscard]] DevicePlan make_plan(const std::shared_ptr<cuda::Device>& device, cuda::Device::Queue queue,
                                   const Modules& modules, const Window& window, std::int64_t first,
                                   std::int64_t last);

// The background of one stream of frames, in a band's memory. Two models that judge, in turn: an epoch's last
// launch writes the next one while others still read. Means are NaN where a pixel is absent from every frame.
struct DeviceModel {
    cuda::DeviceMemory<float> mean[2], variance[2];
    cuda::DeviceMemory<float> learn_mean, learn_variance;  // only with epochs of several frames
    int current = 0;
    std::int64_t in_epoch = 0;

    // As it is now: of all samples, also those of an epoch that has not ended.
    [[nodiscard]] const cuda::DeviceMemory<float>& latest_mean() const noexcept {
        return in_epoch > 0 ? learn_mean : mean[current];
    }
    [[nodiscard]] const cuda::DeviceMemory<float>& latest_variance() const noexcept {
        return in_epoch > 0 ? learn_variance : variance[current];
    }
};
// Of the plan's rows in memory. model, state: of the whole image.
[[nodiscard]] DeviceModel make_model(const std::shared_ptr<cuda::Device>& device, cuda::Device::Queue queue,
                                     const BandPlan& plan, const Model& model,
                                     std::span<const PixelState> state, bool several_frames_an_epoch);

// Takes means and variances of consecutive pixels from `first` on into a model of the whole image; absent
// pixels keep what they were trained to.
void take_pixels(std::span<const float> mean, std::span<const float> variance, std::size_t first,
                 std::span<const PixelState> state, Model& model);

// What every launch of a finder has in common; the rest are zeros.
[[nodiscard]] JudgeParameters judge_parameters(const BandPlan& plan, const FindOptions& options,
                                               const AbsentRule& absent);
// `count` frames more for a model: which of its memory judges, learns and is the next epoch's. The model is
// then as it is behind that launch. Returns whether the launch ends the epoch, which it may not reach beyond.
bool advance(DeviceModel& model, std::int64_t count, std::int64_t epoch, JudgeParameters& parameters);

}  // namespace lightmill::clusters::detail

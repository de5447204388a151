#pragma once
// What sees clusters while they are on a device: reductions that need none of them on the host.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lightmill/clusters/find/find_body.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::clusters::detail {

class DeviceConsumer {
  public:
    virtual ~DeviceConsumer() = default;
    // Once for each band of rows, before its first frame. What consume() queues goes to this queue.
    virtual void prepare(std::size_t band, const std::shared_ptr<cuda::Device>& device,
                         cuda::Device::Queue queue, const BandPlan& plan) = 0;
    // Queues work on the frames of a chunk, which are judged when it runs. photons: (frames × map_words),
    // residuals: (frames × plan.pixels), on the device; both stay until the work is done.
    virtual void consume(std::size_t band, std::int32_t frames, const std::uint32_t* photons,
                         const std::int32_t* residuals) = 0;
};

}  // namespace lightmill::clusters::detail

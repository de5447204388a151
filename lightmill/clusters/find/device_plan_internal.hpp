#pragma once
// Where a band's pixels are in device memory, and how the kernels see them (find_body.hpp).

#include <memory>
#include <vector>

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

// Copies values to a device and waits until they are there.
template <class T>
[[nodiscard]] cuda::DeviceMemory<T> upload(const std::shared_ptr<cuda::Device>& device,
                                           cuda::Device::Queue queue, const std::vector<T>& values) {
    cuda::DeviceMemory<T> memory(device, values.size());
    device->copy_in(queue, memory.data(), values.data(), values.size() * sizeof(T));
    const auto mark = device->make_mark();
    device->record(queue, mark);
    device->synchronize(mark);
    return memory;
}

}  // namespace lightmill::clusters::detail

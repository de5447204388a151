#pragma once
// The finder on GPUs, or on emulated ones.

#include <memory>
#include <string>
#include <vector>

#include "lightmill/clusters/find/engine_internal.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::clusters::detail {

// "0,1": the numbers of GPUs. Throws OptionError.
[[nodiscard]] std::vector<int> parse_devices(const std::string& text);

// One band of rows a device; the same device may be there twice.
[[nodiscard]] std::unique_ptr<Engine> make_gpus(const Setting& setting,
                                                std::vector<std::shared_ptr<cuda::Device>> devices);
// On the GPUs of setting.speed.devices. Throws Error(unavailable) where there is none.
[[nodiscard]] std::unique_ptr<Engine> make_cuda(const Setting& setting);
// On as many emulated devices.
[[nodiscard]] std::unique_ptr<Engine> make_emulated(const Setting& setting);

}  // namespace lightmill::clusters::detail

// Stands in for cuda.cpp in a build without CUDA.

#include "lightmill/base/error.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::cuda {

std::vector<DeviceInfo> devices(std::string& why_none) {
    why_none = "this build has no CUDA; configure it with -DLIGHTMILL_CUDA=ON";
    return {};
}

std::shared_ptr<Device> open_device(int) {
    std::string why;
    (void)devices(why);
    throw Error(ErrorCode::unavailable, "no GPU: " + why, "cuda");
}

}  // namespace lightmill::cuda

#include <dlfcn.h>

#include "lightmill/ladder/clock/clock.hpp"

namespace lightmill::ladder {

// The few functions of NVML that are needed, declared here: its header comes with no Debian package.
struct GpuMonitor::Nvml {
    using Device = void*;
    struct Utilisation {
        unsigned gpu, memory;
    };
    void* library = nullptr;
    int (*shutdown)() = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*handle)(unsigned, Device*) = nullptr;
    int (*clock)(Device, int, unsigned*) = nullptr;
    int (*temperature)(Device, int, unsigned*) = nullptr;
    int (*power)(Device, unsigned*) = nullptr;
    int (*utilisation)(Device, Utilisation*) = nullptr;
    int (*throttle)(Device, unsigned long long*) = nullptr;

    template <class Function>
    bool load(Function& function, const char* name) {
        function = reinterpret_cast<Function>(::dlsym(library, name));
        return function != nullptr;
    }
};

GpuMonitor::GpuMonitor() {
    auto nvml = std::make_unique<Nvml>();
    nvml->library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == nullptr) {
        why_not_ = "no NVIDIA driver on this machine (libnvidia-ml.so.1)";
        return;
    }
    int (*init)() = nullptr;
    const bool loaded = nvml->load(init, "nvmlInit_v2") && nvml->load(nvml->shutdown, "nvmlShutdown") &&
                        nvml->load(nvml->count, "nvmlDeviceGetCount_v2") &&
                        nvml->load(nvml->handle, "nvmlDeviceGetHandleByIndex_v2") &&
                        nvml->load(nvml->clock, "nvmlDeviceGetClockInfo") &&
                        nvml->load(nvml->temperature, "nvmlDeviceGetTemperature") &&
                        nvml->load(nvml->power, "nvmlDeviceGetPowerUsage") &&
                        nvml->load(nvml->utilisation, "nvmlDeviceGetUtilizationRates") &&
                        nvml->load(nvml->throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!loaded || init() != 0) {
        why_not_ = "libnvidia-ml.so.1 is there but does not start";
        ::dlclose(nvml->library);
        return;
    }
    nvml_ = std::move(nvml);
}
GpuMonitor::~GpuMonitor() {
    if (!nvml_) return;
    nvml_->shutdown();
    ::dlclose(nvml_->library);
}

std::vector<GpuState> GpuMonitor::read() const {
    std::vector<GpuState> states;
    unsigned count = 0;
    if (!nvml_ || nvml_->count(&count) != 0) return states;
    for (unsigned i = 0; i < count; ++i) {
        Nvml::Device device = nullptr;
        if (nvml_->handle(i, &device) != 0) continue;
        GpuState state{.index = static_cast<int>(i)};
        Nvml::Utilisation utilisation{};
        // What a device does not tell stays 0.
        (void)nvml_->clock(device, 1, &state.sm_mhz);
        (void)nvml_->clock(device, 2, &state.memory_mhz);
        (void)nvml_->temperature(device, 0, &state.temperature_c);
        (void)nvml_->power(device, &state.power_mw);
        if (nvml_->utilisation(device, &utilisation) == 0) state.utilisation = utilisation.gpu;
        (void)nvml_->throttle(device, &state.throttle_reasons);
        states.push_back(state);
    }
    return states;
}

}  // namespace lightmill::ladder

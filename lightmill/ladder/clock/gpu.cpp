#include <dlfcn.h>
#include <fmt/format.h>

#include "lightmill/ladder/clock/clock.hpp"

namespace lightmill::ladder {

// The few functions and numbers of NVML that are needed, declared here: its header comes with no Debian
// package. Names, types and values are those of NVIDIA's NVML API reference.
struct GpuMonitor::Nvml {
    using Device = void*;
    static constexpr int k_success = 0;
    static constexpr int k_clock_sm = 1;
    static constexpr int k_clock_memory = 2;
    static constexpr int k_temperature_gpu = 0;
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

GpuMonitor::GpuMonitor(const std::string& library) {
    auto nvml = std::make_unique<Nvml>();
    nvml->library = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == nullptr) {
        why_not_ = fmt::format("no NVIDIA driver on this machine ({})", library);
        return;
    }
    int (*init)() = nullptr;
    std::string missing;
    auto need = [&](auto& function, const char* name) {
        if (!nvml->load(function, name) && missing.empty()) missing = name;
    };
    need(init, "nvmlInit_v2");
    need(nvml->shutdown, "nvmlShutdown");
    need(nvml->count, "nvmlDeviceGetCount_v2");
    need(nvml->handle, "nvmlDeviceGetHandleByIndex_v2");
    need(nvml->clock, "nvmlDeviceGetClockInfo");
    need(nvml->power, "nvmlDeviceGetPowerUsage");
    need(nvml->utilisation, "nvmlDeviceGetUtilizationRates");
    // Deprecated since CUDA 13, so a driver without it is in order.
    nvml->load(nvml->temperature, "nvmlDeviceGetTemperature");
    // The second name is that of drivers before R535.
    if (!nvml->load(nvml->throttle, "nvmlDeviceGetCurrentClocksEventReasons"))
        need(nvml->throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    const int started = missing.empty() ? init() : Nvml::k_success;
    if (!missing.empty() || started != Nvml::k_success) {
        why_not_ = missing.empty()
                       ? fmt::format("{} is there but does not start: nvmlInit gives {}", library, started)
                       : fmt::format("{} is there but has no {}", library, missing);
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
    if (!nvml_ || nvml_->count(&count) != Nvml::k_success) return states;
    for (unsigned i = 0; i < count; ++i) {
        Nvml::Device device = nullptr;
        if (nvml_->handle(i, &device) != Nvml::k_success) continue;
        GpuState state{.index = static_cast<int>(i)};
        Nvml::Utilisation utilisation{};
        // What a device does not tell stays 0.
        (void)nvml_->clock(device, Nvml::k_clock_sm, &state.sm_mhz);
        (void)nvml_->clock(device, Nvml::k_clock_memory, &state.memory_mhz);
        if (nvml_->temperature != nullptr)
            (void)nvml_->temperature(device, Nvml::k_temperature_gpu, &state.temperature_c);
        (void)nvml_->power(device, &state.power_mw);
        if (nvml_->utilisation(device, &utilisation) == Nvml::k_success) state.utilisation = utilisation.gpu;
        (void)nvml_->throttle(device, &state.throttle_reasons);
        states.push_back(state);
    }
    return states;
}

}  // namespace lightmill::ladder

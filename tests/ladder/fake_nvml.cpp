// Stands in for NVIDIA's management library: two devices, the second of them slowed down by its power limit.

namespace {
long number(void* device) {
    return reinterpret_cast<long>(device);
}
}  // namespace

extern "C" {
struct Utilisation {
    unsigned gpu, memory;
};
int nvmlInit_v2() {
    return 0;
}
int nvmlShutdown() {
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = 2;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = reinterpret_cast<void*>(static_cast<long>(index) + 1);
    return 0;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
    *mhz = static_cast<unsigned>(number(device)) * 1000 + static_cast<unsigned>(type);
    return type == 1 || type == 2 ? 0 : 2;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
    *milliwatts = 70123;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilisation* rates) {
    *rates = {number(device) == 2 ? 90U : 0U, 1};
    return 0;
}
#ifdef FAKE_NVML_OLD
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* celsius) {
    *celsius = 41;
    return sensor == 0 ? 0 : 2;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
#endif
    *reasons = number(device) == 2 ? 4 : 1;
    return 0;
}
}

#pragma once
// What one repetition costs: the clock, and beside it what the kernel counts for this process.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lightmill::ladder {

struct Measurement {
    double wall_s = 0;
    double user_s = 0;
    double system_s = 0;
    std::int64_t minor_faults = 0;
    std::int64_t major_faults = 0;
    std::int64_t voluntary_switches = 0;
    std::int64_t involuntary_switches = 0;
    std::int64_t peak_rss_bytes = 0;  // of the process so far
    // Hardware counters; -1 where this machine gives none.
    std::int64_t cycles = -1;
    std::int64_t instructions = -1;
    std::int64_t cache_misses = -1;
};

// Counters of this process and the threads it starts after this. Empty `why_not`: they count.
class HardwareCounters {
  public:
    HardwareCounters();
    HardwareCounters(const HardwareCounters&) = delete;
    HardwareCounters& operator=(const HardwareCounters&) = delete;
    ~HardwareCounters();
    [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }
    void read(Measurement& into) const noexcept;  // totals since construction

  private:
    int cycles_ = -1, instructions_ = -1, cache_misses_ = -1;
    std::string why_not_;
};

// Runs `work` once. Resource counts are taken just outside the two readings of the clock.
[[nodiscard]] Measurement measure(const HardwareCounters& counters, const std::function<void()>& work);

// State of the GPUs through the driver's own library, opened when first asked.
struct GpuState {
    int index = 0;
    unsigned sm_mhz = 0;
    unsigned memory_mhz = 0;
    unsigned temperature_c = 0;
    unsigned power_mw = 0;
    unsigned utilisation = 0;                 // % over the driver's last interval
    unsigned long long throttle_reasons = 0;  // bit mask as NVML defines it
};
class GpuMonitor {
  public:
    explicit GpuMonitor(const std::string& library = "libnvidia-ml.so.1");
    GpuMonitor(const GpuMonitor&) = delete;
    GpuMonitor& operator=(const GpuMonitor&) = delete;
    ~GpuMonitor();
    [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }
    [[nodiscard]] std::vector<GpuState> read() const;

  private:
    struct Nvml;
    std::unique_ptr<Nvml> nvml_;
    std::string why_not_;
};

}  // namespace lightmill::ladder

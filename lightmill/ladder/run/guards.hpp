#pragma once
// Whether the machine is in a state to measure on.

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "lightmill/ladder/clock/clock.hpp"
#include "lightmill/ladder/plan/plan.hpp"

namespace lightmill::ladder {

// What keeps this machine from being quiet at this moment, while nothing of ours runs; takes a tenth
// of a second.
[[nodiscard]] std::vector<std::string> disturbances(const Policy& policy, const GpuMonitor& gpus);

// Waits, at most policy.busy_wait_s, for a quiet machine. Returns what still disturbs.
[[nodiscard]] std::vector<std::string> wait_until_quiet(const Policy& policy, const GpuMonitor& gpus,
                                                        const std::stop_token& stop);

// Time that the hypervisor took from this machine, in parts of all time, since a reading.
class StealMeter {
  public:
    StealMeter();
    [[nodiscard]] double percent() const;

  private:
    std::uint64_t steal_ = 0, total_ = 0;
};

// SHA-256 over the names and contents of all files that the program is built from, below `root`: folders
// lightmill, app and cmake. Empty where there are none.
[[nodiscard]] std::string source_digest(const std::string& root);

}  // namespace lightmill::ladder

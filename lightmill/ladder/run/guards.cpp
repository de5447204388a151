#include "lightmill/ladder/run/guards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "lightmill/base/error.hpp"

namespace lightmill::ladder {
namespace {

using Clock = std::chrono::steady_clock;

// Microseconds in which some task waited for a CPU; -1 where the kernel does not count.
std::int64_t waited_us() {
    std::ifstream file("/proc/pressure/cpu");
    std::string line;
    if (!std::getline(file, line)) return -1;
    const auto total = line.find("total=");
    return total == std::string::npos ? -1 : std::atoll(line.c_str() + total + 6);
}

void read_steal(std::uint64_t& steal, std::uint64_t& total) {
    std::ifstream file("/proc/stat");
    std::string word;
    file >> word;
    total = steal = 0;
    std::uint64_t value = 0;
    for (int i = 0; i < 8 && file >> value; ++i) {  // user nice system idle iowait irq softirq steal
        total += value;
        if (i == 7) steal = value;
    }
}

}  // namespace

std::vector<std::string> disturbances(const Policy& policy, const GpuMonitor& gpus) {
    std::vector<std::string> found;
    std::vector<int> running;
    const auto start = Clock::now();
    const auto waited = waited_us();
    for (int i = 0; i < 5; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        running.push_back(running_threads() - 1);
    }
    std::sort(running.begin(), running.end());
    if (running[2] > policy.busy_threads)
        found.push_back(fmt::format("busy machine: more than {} other threads run", policy.busy_threads));
    if (waited >= 0) {
        const double elapsed_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
        // The kernel's clock and ours were not read at one moment: more than all of the time is all of it.
        const double percent = std::min(100.0, 100 * static_cast<double>(waited_us() - waited) / elapsed_us);
        if (percent > policy.busy_pressure)
            found.push_back(fmt::format("busy machine: CPU pressure above {} %", policy.busy_pressure));
    }
    // One text a guard, whatever was read: reports count texts.
    for (const auto& gpu : gpus.read())
        if (gpu.utilisation > 5) found.push_back(fmt::format("busy GPU {}", gpu.index));
    return found;
}

std::vector<std::string> wait_until_quiet(const Policy& policy, const GpuMonitor& gpus,
                                          const std::stop_token& stop) {
    const auto until = Clock::now() + std::chrono::duration<double>(policy.busy_wait_s);
    while (true) {
        auto found = disturbances(policy, gpus);
        if (found.empty() || Clock::now() >= until) return found;
        if (stop.stop_requested()) throw Error(ErrorCode::interrupted, "interrupted");
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
}

StealMeter::StealMeter() {
    read_steal(steal_, total_);
}
double StealMeter::percent() const {
    std::uint64_t steal = 0, total = 0;
    read_steal(steal, total);
    return total > total_ ? 100.0 * static_cast<double>(steal - steal_) / static_cast<double>(total - total_)
                          : 0;
}

}  // namespace lightmill::ladder

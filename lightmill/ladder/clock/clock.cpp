#include "lightmill/ladder/clock/clock.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace lightmill::ladder {
namespace {

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

int open_counter(std::uint64_t config) noexcept {
    perf_event_attr attribute{};
    attribute.size = sizeof attribute;
    attribute.type = PERF_TYPE_HARDWARE;
    attribute.config = config;
    attribute.inherit = 1;  // threads started later count too
    attribute.exclude_kernel = 1;
    attribute.exclude_hv = 1;
    return static_cast<int>(::syscall(SYS_perf_event_open, &attribute, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

std::int64_t count(int fd) noexcept {
    std::int64_t value = 0;
    return fd >= 0 && ::read(fd, &value, sizeof value) == static_cast<ssize_t>(sizeof value) ? value : -1;
}

std::int64_t difference(std::int64_t before, std::int64_t after) noexcept {
    return before < 0 || after < 0 ? -1 : after - before;
}

}  // namespace

HardwareCounters::HardwareCounters() {
    cycles_ = open_counter(PERF_COUNT_HW_CPU_CYCLES);
    if (cycles_ < 0) {
        why_not_ = fmt::format("the kernel gives no hardware counters here ({})", std::strerror(errno));
        return;
    }
    instructions_ = open_counter(PERF_COUNT_HW_INSTRUCTIONS);
    cache_misses_ = open_counter(PERF_COUNT_HW_CACHE_MISSES);
}
HardwareCounters::~HardwareCounters() {
    for (const int fd : {cycles_, instructions_, cache_misses_})
        if (fd >= 0) ::close(fd);
}
void HardwareCounters::read(Measurement& into) const noexcept {
    into.cycles = count(cycles_);
    into.instructions = count(instructions_);
    into.cache_misses = count(cache_misses_);
}

Measurement measure(const HardwareCounters& counters, const std::function<void()>& work) {
    using Clock = std::chrono::steady_clock;
    Measurement before, after;
    rusage usage_before{}, usage_after{};
    counters.read(before);
    ::getrusage(RUSAGE_SELF, &usage_before);
    const auto start = Clock::now();
    work();
    const auto end = Clock::now();
    ::getrusage(RUSAGE_SELF, &usage_after);
    counters.read(after);
    Measurement result;
    result.wall_s = std::chrono::duration<double>(end - start).count();
    result.user_s = seconds(usage_after.ru_utime) - seconds(usage_before.ru_utime);
    result.system_s = seconds(usage_after.ru_stime) - seconds(usage_before.ru_stime);
    result.minor_faults = usage_after.ru_minflt - usage_before.ru_minflt;
    result.major_faults = usage_after.ru_majflt - usage_before.ru_majflt;
    result.voluntary_switches = usage_after.ru_nvcsw - usage_before.ru_nvcsw;
    result.involuntary_switches = usage_after.ru_nivcsw - usage_before.ru_nivcsw;
    result.peak_rss_bytes = std::int64_t{1024} * usage_after.ru_maxrss;
    result.cycles = difference(before.cycles, after.cycles);
    result.instructions = difference(before.instructions, after.instructions);
    result.cache_misses = difference(before.cache_misses, after.cache_misses);
    return result;
}

}  // namespace lightmill::ladder

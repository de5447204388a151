#include "lightmill/ladder/probe/environment.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "lightmill/base/build_info.hpp"
#include "lightmill/base/team.hpp"

namespace lightmill::ladder {
namespace {

constexpr std::string_view k_unknown = "not known";

// The first line of a file of /proc or /sys; empty where it is not there.
std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string or_unknown(std::string text) {
    return text.empty() ? std::string(k_unknown) : text;
}

// The value of the first "name : value" line of a /proc file.
std::string proc_value(const std::string& path, std::string_view name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const auto colon = line.find(':');
        if (colon == std::string::npos) continue;
        auto key = line.substr(0, colon);
        key.erase(key.find_last_not_of(" \t") + 1);
        if (key != name) continue;
        const auto start = line.find_first_not_of(" \t", colon + 1);
        return start == std::string::npos ? std::string() : line.substr(start);
    }
    return {};
}

std::string cpu_model() {
    const std::string cpuinfo = "/proc/cpuinfo";
    std::string model = proc_value(cpuinfo, "model name");
    if (model.empty()) return proc_value(cpuinfo, "CPU part");
    // Virtual machines shorten the name: the numbers still tell generations apart.
    return fmt::format("{} (family {}, model {}, stepping {})", model, proc_value(cpuinfo, "cpu family"),
                       proc_value(cpuinfo, "model"), proc_value(cpuinfo, "stepping"));
}

// The alternative in brackets: "always [madvise] never".
std::string chosen(const std::string& line) {
    const auto open = line.find('[');
    const auto close = line.find(']');
    return open == std::string::npos || close == std::string::npos ? line
                                                                   : line.substr(open + 1, close - open - 1);
}

std::int64_t parse_size(const std::string& text) {
    if (text.empty()) return 0;
    const std::int64_t number = std::strtoll(text.c_str(), nullptr, 10);
    switch (text.back()) {
        case 'K':
            return number << 10;
        case 'M':
            return number << 20;
        case 'G':
            return number << 30;
        default:
            return number;
    }
}

std::string utc_now() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

}  // namespace

CacheSizes cache_sizes() {
    CacheSizes sizes;
    std::set<std::pair<std::string, std::string>> seen;  // (level, processors that share it)
    const long processors = std::max(1L, sysconf(_SC_NPROCESSORS_CONF));
    for (long processor = 0; processor < processors; ++processor) {
        for (int index = 0; index < 8; ++index) {
            const std::string folder =
                fmt::format("/sys/devices/system/cpu/cpu{}/cache/index{}/", processor, index);
            const std::string level = first_line(folder + "level");
            if (level.empty()) break;
            if (first_line(folder + "type") == "Instruction") continue;
            const std::int64_t size = parse_size(first_line(folder + "size"));
            if (level == "1") sizes.level1 = size;
            if (level == "2") sizes.level2 = size;
            if (level == "3" && seen.emplace(level, first_line(folder + "shared_cpu_list")).second)
                sizes.level3 += size;
        }
    }
    return sizes;
}

std::int64_t available_memory_bytes() {
    const std::string text = proc_value("/proc/meminfo", "MemAvailable");  // "123 kB"
    return text.empty() ? std::int64_t{1} << 30 : std::strtoll(text.c_str(), nullptr, 10) << 10;
}

int running_threads() {
    std::ifstream file("/proc/stat");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("procs_running ", 0) == 0) return std::atoi(line.c_str() + 14);
    return 1;
}

std::vector<Fact> environment() {
    utsname system{};
    uname(&system);
    const std::string cpu_folder = "/sys/devices/system/cpu/";
    const CacheSizes caches = cache_sizes();
    auto kib = [](std::int64_t bytes) {
        return bytes == 0 ? std::string(k_unknown) : fmt::format("{} KiB", bytes >> 10);
    };
    const std::string memory = proc_value("/proc/meminfo", "MemTotal");
    std::string boost = first_line(cpu_folder + "cpufreq/boost");
    if (boost.empty()) {
        const std::string no_turbo = first_line(cpu_folder + "intel_pstate/no_turbo");
        if (!no_turbo.empty()) boost = no_turbo == "0" ? "1" : "0";
    }
    const bool hypervisor =
        (" " + proc_value("/proc/cpuinfo", "flags") + " ").find(" hypervisor ") != std::string::npos;
    return {
        {"time", utc_now()},
        {"host", or_unknown(system.nodename)},
        {"cpu", or_unknown(cpu_model())},
        {"processors", fmt::format("{}", sysconf(_SC_NPROCESSORS_ONLN))},
        {"usable_threads", fmt::format("{}", available_threads())},
        {"memory", or_unknown(memory)},
        {"cache_level_1", kib(caches.level1)},
        {"cache_level_2", kib(caches.level2)},
        {"cache_level_3", kib(caches.level3)},
        {"virtual_machine", hypervisor ? "yes" : "no"},
        {"governor", or_unknown(first_line(cpu_folder + "cpu0/cpufreq/scaling_governor"))},
        {"boost", boost.empty()  ? std::string(k_unknown)
                  : boost == "0" ? "off"
                                 : "on"},
        {"huge_pages", or_unknown(chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled")))},
        {"address_randomisation", or_unknown(first_line("/proc/sys/kernel/randomize_va_space"))},
        {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
        {"load_average", or_unknown(first_line("/proc/loadavg"))},
        {"lightmill", std::string(version())},
        {"compiler", std::string(compiler())},
        {"compiler_flags", std::string(compiler_flags())},
        {"build_type", std::string(build_type())},
    };
}

std::string_view value(const std::vector<Fact>& facts, std::string_view name) noexcept {
    const auto found =
        std::find_if(facts.begin(), facts.end(), [&](const Fact& fact) { return fact.name == name; });
    return found == facts.end() ? std::string_view() : std::string_view(found->value);
}

bool identifies_machine(std::string_view fact_name) noexcept {
    constexpr std::string_view k_names[] = {"host",     "cpu",           "processors",    "usable_threads",
                                            "memory",   "cache_level_2", "cache_level_3", "virtual_machine",
                                            "governor", "boost",         "huge_pages",    "kernel"};
    return std::find(std::begin(k_names), std::end(k_names), fact_name) != std::end(k_names);
}

}  // namespace lightmill::ladder

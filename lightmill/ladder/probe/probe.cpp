#include "lightmill/ladder/probe/probe.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "lightmill/base/error.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/cuda/device.hpp"
#include "lightmill/ladder/probe/probe_internal.hpp"
#include "lightmill/ladder/probe/probe_simd_internal.hpp"
#include "lightmill/ladder/report/statistics.hpp"

namespace lightmill::ladder {
namespace {

using detail::k_block_bytes;
using detail::ProbeKernels;
using detail::Rates;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t k_mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t k_page_bytes = 4096;
constexpr std::int64_t k_huge_page_bytes = 2 * k_mebibyte;
constexpr double k_pass_s = 0.004;  // long against waking a team (tens of microseconds)
constexpr int k_least_passes = 5;
constexpr std::size_t k_device_buffer_bytes = std::size_t{512} << 20;
constexpr int k_device_slices = 13;  // parts of the time, one for each number of a GPU

constexpr std::string_view k_resources[] = {
    "memory_read", "memory_write",   "memory_copy",    "l2_read",         "l3_read",    "fma_f32",
    "fma_f64",     "host_to_device", "device_to_host", "both_directions", "device_copy"};

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Anonymous memory that no page has been touched of.
class Mapping {
  public:
    Mapping(std::int64_t bytes, bool huge_pages) : bytes_(static_cast<std::size_t>(bytes)) {
        void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            throw Error(
                ErrorCode::io,
                fmt::format("the probe could not map {} MiB of memory: free some, or ask for smaller buffers",
                            bytes / k_mebibyte));
        data_ = static_cast<std::byte*>(p);
        // Advice only: what the kernel makes of it shows in the numbers.
        madvise(data_, bytes_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() { munmap(data_, bytes_); }
    [[nodiscard]] std::byte* data() const noexcept { return data_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

// The highest rate that two other passes came within 5 % of: a single pass can look faster than the machine
// is (a clock of a virtual machine that stood still was seen). The highest of all where no three agree.
double confirmed_best(std::vector<double> rates) {
    std::sort(rates.begin(), rates.end(), std::greater<>());
    for (std::size_t i = 0; i + 2 < rates.size(); ++i)
        if (rates[i + 2] >= 0.95 * rates[i]) return rates[i];
    return rates.front();
}

// work(member, repeats) does `repeats` times what is worth `units` over the whole team.
Rates measure(Team& team, double budget_s, double units, const std::function<void(int, int)>& work) {
    return detail::measure(budget_s, units,
                           [&](int repeats) { team.run([&](int member) { work(member, repeats); }); });
}

// 1, 2, 4, ... and the most itself.
std::vector<int> thread_counts(int most) {
    std::vector<int> counts;
    for (int n = 1; n < most; n *= 2) counts.push_back(n);
    counts.push_back(most);
    return counts;
}

struct Variant {
    const ProbeKernels* kernels;
    bool streaming;
    std::string how;
};

class Prober {
  public:
    Prober(const ProbeOptions& options, const ProgressFunction& progress) : progress_(progress) {
        most_threads_ = options.threads > 0 ? options.threads : available_threads();
        caches_ = cache_sizes();
        const std::int64_t memory = available_memory_bytes();
        buffer_bytes_ = options.buffer_bytes;
        if (buffer_bytes_ == 0)
            buffer_bytes_ =
                std::clamp(4 * caches_.level3, 64 * k_mebibyte, std::max(16 * k_mebibyte, memory / 8));
        buffer_bytes_ = std::max(buffer_bytes_ / k_mebibyte, std::int64_t{1}) * k_mebibyte;
        if (detail::probe_kernels().empty())
            throw Error(ErrorCode::unavailable,
                        "the probe has no kernel for this processor: build it for this architecture");
        best_ = &detail::probe_kernels().front();
        const std::size_t counts = thread_counts(most_threads_).size();
        total_ = counts * (1 + 2 + 2 + 1 + 1) +
                 2 * detail::probe_kernels().size() * std::min<std::size_t>(counts, 2);
        slice_s_ = options.budget_s / static_cast<double>(total_);
    }

    Probe run() {
        const auto start = Clock::now();
        result_.environment = environment();
        // Measured beside others, a ceiling is too low, and what is judged by it looks better than it is.
        if (const int running = running_threads(); running > 1)
            result_.notes.push_back(
                fmt::format("{} other threads were running when the probe started", running - 1));
        if (available_memory_bytes() / 8 < 4 * caches_.level3)
            result_.notes.push_back("little memory: the buffers may partly fit the last-level cache");
        measure_clock();
        measure_faults();
        for (int threads : thread_counts(most_threads_)) {
            Team team(threads);
            memory(team);
            cache(team, "l2_read", caches_.level2 / 2);
            // Beyond every level 2 together, within level 3.
            const std::int64_t part = caches_.level3 / 2 / threads;
            cache(team, "l3_read", part > 2 * caches_.level2 ? part : 0);
            if (threads == 1 || threads == most_threads_) arithmetic(team);
        }
        // One pass in a hundred lies far off anywhere; a median far below the best means company.
        for (const auto& c : result_.ceilings)
            if (c.median < 0.7 * c.best)
                result_.notes.push_back(
                    fmt::format("{} with {} threads: half of the passes were below {:.0f} % of the best",
                                c.resource, c.threads, 100 * c.median / c.best));
        gpu();
        result_.took_s = seconds_since(start);
        return std::move(result_);
    }

  private:
    void add(const std::string& resource, int threads, const Rates& rates, const std::string& how) {
        if (progress_) progress_({++done_, total_});
        auto known = std::find_if(result_.ceilings.begin(), result_.ceilings.end(), [&](const Ceiling& c) {
            return c.resource == resource && c.threads == threads;
        });
        Ceiling entry{resource, threads, rates.best, rates.median, rates.passes, how};
        if (known == result_.ceilings.end()) {
            result_.ceilings.push_back(std::move(entry));
        } else if (rates.best > known->best) {
            *known = std::move(entry);
        }
    }

    void memory(Team& team) {
        const std::int64_t part = buffer_bytes_ / team.size() / k_block_bytes * k_block_bytes;
        const Mapping from(part * team.size(), true);
        const Mapping to(part * team.size(), true);
        // Touched by the thread that will use it, so that it lies in that thread's part of the memory.
        team.run([&](int member) {
            best_->write(from.data() + member * part, part, false);
            best_->write(to.data() + member * part, part, false);
        });
        const auto bytes = static_cast<double>(part) * team.size();
        add("memory_read", team.size(),
            measure(team, slice_s_, bytes,
                    [&](int member, int repeats) {
                        for (int i = 0; i < repeats; ++i)
                            sink(best_->read(from.data() + member * part, part));
                    }),
            std::string(best_->name));
        for (bool streaming : {false, true}) {
            const std::string how =
                fmt::format("{}, {} stores", best_->name, streaming ? "streaming" : "plain");
            add("memory_write", team.size(),
                measure(team, slice_s_, bytes,
                        [&](int member, int repeats) {
                            for (int i = 0; i < repeats; ++i)
                                best_->write(to.data() + member * part, part, streaming);
                        }),
                how);
            add("memory_copy", team.size(),
                measure(team, slice_s_, 2 * bytes,
                        [&](int member, int repeats) {
                            for (int i = 0; i < repeats; ++i)
                                best_->copy(to.data() + member * part, from.data() + member * part, part,
                                            streaming);
                        }),
                how);
        }
    }

    void cache(Team& team, const std::string& resource, std::int64_t bytes) {
        bytes = bytes / k_block_bytes * k_block_bytes;
        if (bytes == 0) {
            ++done_;
            return;
        }
        const Mapping buffer(bytes * team.size(), true);
        team.run([&](int member) { best_->write(buffer.data() + member * bytes, bytes, false); });
        add(resource, team.size(),
            measure(team, slice_s_, static_cast<double>(bytes) * team.size(),
                    [&](int member, int repeats) {
                        for (int i = 0; i < repeats; ++i)
                            sink(best_->read(buffer.data() + member * bytes, bytes));
                    }),
            fmt::format("{}, {} KiB a thread", best_->name, bytes >> 10));
    }

    void arithmetic(Team& team) {
        constexpr std::int64_t k_iterations = 1000;
        for (const auto& kernels : detail::probe_kernels()) {
            for (const auto& [resource, fma] :
                 {std::pair{"fma_f32", kernels.fma_f32}, {"fma_f64", kernels.fma_f64}}) {
                const auto operations = static_cast<double>(fma(1)) * k_iterations * team.size();
                add(resource, team.size(),
                    measure(team, slice_s_, operations,
                            [&, fma = fma](int, int repeats) {
                                for (int i = 0; i < repeats; ++i)
                                    sink(static_cast<std::uint64_t>(fma(k_iterations)));
                            }),
                    std::string(kernels.name));
            }
        }
    }

    void gpu() {
        std::string why_none;
        const auto devices = cuda::devices(why_none);
        if (devices.empty()) {
            result_.gpu = "none: " + why_none;
            return;
        }
        result_.gpu = devices[0].name;
        if (devices.size() > 1) result_.gpu += fmt::format(", the first of {}", devices.size());
        try {
            detail::probe_device(cuda::open_device(devices[0].index), slice_s_ * k_device_slices,
                                 k_device_buffer_bytes, result_);
        } catch (const DeviceError& error) {
            result_.gpu += fmt::format(", not measured: {}", error.what());
        }
    }

    void measure_faults() {
        result_.page_fault_s = fault_cost(32 * k_mebibyte, k_page_bytes, false);
        result_.huge_page_fault_s = fault_cost(64 * k_mebibyte, k_huge_page_bytes, true);
    }

    // Best of three: time of the first touch less that of a second, over the faults that the kernel counted.
    // 0 where it counted another number than the page size asks for (no huge pages here).
    static double fault_cost(std::int64_t bytes, std::int64_t page_bytes, bool huge) {
        double best = 0;
        for (int attempt = 0; attempt < 3; ++attempt) {
            const Mapping buffer(bytes, huge);
            auto touch = [&] {
                const auto start = Clock::now();
                for (std::int64_t i = 0; i < bytes; i += k_page_bytes)
                    *static_cast<volatile std::byte*>(buffer.data() + i) = std::byte{1};
                return seconds_since(start);
            };
            rusage before{};
            rusage after{};
            getrusage(RUSAGE_SELF, &before);
            const double first = touch();
            getrusage(RUSAGE_SELF, &after);
            const double second = touch();
            const auto faults = static_cast<double>(after.ru_minflt - before.ru_minflt);
            const auto pages = static_cast<double>(bytes) / static_cast<double>(page_bytes);
            if (faults < 0.9 * pages || faults > 1.2 * pages + 8) continue;
            const double cost = std::max(0.0, first - second) / faults;
            if (best == 0 || cost < best) best = cost;
        }
        return best;
    }

    void measure_clock() {
        double smallest = 1;
        for (int i = 0; i < 1000; ++i) {
            const auto start = Clock::now();
            auto next = Clock::now();
            while (next == start) next = Clock::now();
            smallest = std::min(smallest, std::chrono::duration<double>(next - start).count());
        }
        result_.clock_resolution_s = smallest;
    }

    // Keeps a result alive.
    static void sink(std::uint64_t value) {
        volatile std::uint64_t kept = value;
        static_cast<void>(kept);
    }

    const ProgressFunction& progress_;
    int most_threads_ = 1;
    CacheSizes caches_;
    std::int64_t buffer_bytes_ = 0;
    const ProbeKernels* best_ = nullptr;
    double slice_s_ = 0;
    std::uint64_t done_ = 0;
    std::uint64_t total_ = 0;
    Probe result_;
};

std::string_view unit(std::string_view resource) {
    return resource.substr(0, 3) == "fma" ? "op/s" : "B/s";
}

}  // namespace

Rates detail::measure(double budget_s, double units, const std::function<void(int)>& work) {
    int repeats = 1;
    auto pass = [&] {
        const auto start = Clock::now();
        work(repeats);
        return seconds_since(start);
    };
    pass();  // first touch, caches filled, clocks up
    for (double took = pass(); took < k_pass_s / 2 && repeats < (1 << 24); took = pass())
        repeats *= std::max(2, static_cast<int>(std::min(64.0, k_pass_s / std::max(took, 1e-9))));
    std::vector<double> rates;
    const auto start = Clock::now();
    while (static_cast<int>(rates.size()) < k_least_passes || seconds_since(start) < budget_s)
        rates.push_back(units * repeats / pass());
    return {confirmed_best(rates), median(rates), static_cast<int>(rates.size())};
}

std::span<const std::string_view> resources() noexcept {
    return k_resources;
}

Probe probe(const ProbeOptions& options, const ProgressFunction& progress) {
    return Prober(options, progress).run();
}

double ceiling(const Probe& probe, std::string_view resource, int threads) noexcept {
    double best = 0;
    for (const auto& c : probe.ceilings)
        if (c.resource == resource && (threads == 0 || c.threads <= threads)) best = std::max(best, c.best);
    return best;
}

std::string to_json(const Probe& probe) {
    using Json = nlohmann::ordered_json;
    Json json;
    json["format"] = "lightmill probe 1";
    json["ceilings"] = Json::array();
    for (const auto& c : probe.ceilings)
        json["ceilings"].push_back({{"resource", c.resource},
                                    {"unit", unit(c.resource)},
                                    {"threads", c.threads},
                                    {"best", c.best},
                                    {"median", c.median},
                                    {"passes", c.passes},
                                    {"how", c.how},
                                    {"bytes", c.bytes}});
    json["costs"] = Json::object();
    for (const auto& cost : probe.costs) json["costs"][cost.what] = cost.seconds;
    json["page_fault_s"] = probe.page_fault_s;
    json["huge_page_fault_s"] = probe.huge_page_fault_s;
    json["clock_resolution_s"] = probe.clock_resolution_s;
    json["gpu"] = probe.gpu;
    json["notes"] = probe.notes;
    json["environment"] = Json::object();
    for (const auto& fact : probe.environment) json["environment"][fact.name] = fact.value;
    json["took_s"] = probe.took_s;
    return json.dump(2) + "\n";
}

Probe probe_from_json(const std::string& text, const std::string& path) {
    try {
        const auto json = nlohmann::ordered_json::parse(text);
        if (json.at("format") != "lightmill probe 1")
            throw FormatError(path, -1,
                              fmt::format("format is {}, expected \"lightmill probe 1\": write it again with "
                                          "'lightmill ladder probe'",
                                          json.at("format").dump()));
        Probe probe;
        for (const auto& c : json.at("ceilings"))
            probe.ceilings.push_back({c.at("resource"), c.at("threads"), c.at("best"), c.at("median"),
                                      c.at("passes"), c.at("how"), c.value("bytes", std::int64_t{0})});
        if (json.contains("costs"))
            for (const auto& [what, seconds] : json.at("costs").items())
                probe.costs.push_back({what, seconds});
        probe.page_fault_s = json.at("page_fault_s");
        probe.huge_page_fault_s = json.at("huge_page_fault_s");
        probe.clock_resolution_s = json.at("clock_resolution_s");
        probe.gpu = json.at("gpu");
        probe.notes = json.at("notes").get<std::vector<std::string>>();
        for (const auto& [name, value] : json.at("environment").items())
            probe.environment.push_back({name, value});
        probe.took_s = json.at("took_s");
        return probe;
    } catch (const nlohmann::json::parse_error& error) {
        throw FormatError(path, static_cast<std::int64_t>(error.byte),
                          fmt::format("not JSON: {}", error.what()));
    } catch (const nlohmann::json::exception& error) {
        throw FormatError(
            path, -1,
            fmt::format("not a probe file ({}): write it again with 'lightmill ladder probe'", error.what()));
    }
}

std::string to_text(const Probe& probe) {
    std::string text =
        fmt::format("{:<15} {:>7} {:>14} {:>14}  {}\n", "resource", "threads", "best", "median", "how");
    for (const auto& c : probe.ceilings)
        text += fmt::format(
            "{:<15} {:>7} {:>9.1f} G{} {:>9.1f} G{}  {}{}\n", c.resource, c.threads, c.best / 1e9,
            unit(c.resource), c.median / 1e9, unit(c.resource), c.how,
            c.bytes > 0 ? fmt::format(", {:g} MB each", static_cast<double>(c.bytes) / 1e6) : std::string());
    text += fmt::format("page fault      {:.2f} us a 4 KiB page", probe.page_fault_s * 1e6);
    text += probe.huge_page_fault_s > 0
                ? fmt::format(", {:.0f} us a 2 MiB page\n", probe.huge_page_fault_s * 1e6)
                : std::string(", no 2 MiB pages here\n");
    text += fmt::format("clock           {:.0f} ns a step\n", probe.clock_resolution_s * 1e9);
    text += fmt::format("GPU             {}\n", probe.gpu);
    for (const auto& cost : probe.costs)
        text += fmt::format("{:<15} {:.2f} us: {}\n", "", cost.seconds * 1e6, cost.what);
    for (const auto& note : probe.notes) text += fmt::format("note            {}\n", note);
    return text;
}

}  // namespace lightmill::ladder

#include "lightmill/ladder/run/workshop.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/ladder/gate/gate.hpp"
#include "lightmill/ladder/run/child.hpp"
#include "lightmill/ladder/run/worker.hpp"

namespace lightmill::ladder {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
// What answers and logs may add to the shared folder beyond twice the input.
constexpr std::int64_t k_answers_bytes = std::int64_t{64} << 20;

double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// CPU time and page faults of another process, as /proc has them.
struct Outside {
    double user_s = 0, system_s = 0;
    std::int64_t minor_faults = 0, major_faults = 0, peak_rss_bytes = 0;
};
Outside outside(pid_t pid) {
    Outside result;
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    std::string text{std::istreambuf_iterator<char>(stat), {}};
    std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
    std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
    if (words.size() > 12) {
        const double tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
        result.minor_faults = std::atoll(words[7].c_str());
        result.major_faults = std::atoll(words[9].c_str());
        result.user_s = std::atof(words[11].c_str()) / tick;
        result.system_s = std::atof(words[12].c_str()) / tick;
    }
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmHWM:", 0) == 0) result.peak_rss_bytes = std::atoll(line.c_str() + 6) * 1024;
    return result;
}

std::string gpu_text(const std::vector<GpuState>& gpus) {
    std::string text;
    for (const auto& g : gpus)
        text +=
            fmt::format("{}gpu{}: sm={}MHz memory={}MHz {}C {}mW throttle={:#x}", text.empty() ? "" : "; ",
                        g.index, g.sm_mhz, g.memory_mhz, g.temperature_c, g.power_mw, g.throttle_reasons);
    return text;
}
// Bits of NVML that are no slowing down: idle, and clocks set by an application.
constexpr unsigned long long k_harmless_throttle = 0x1 | 0x2;

}  // namespace

Workshop::Workshop(const Ladder& ladder, const RunOptions& options)
    : ladder_(ladder), options_(options), gpus_(options.gpu_library) {
    for (const auto& build : options_.builds) {
        hashes_.push_back(sha256_file(build.path));
        for (std::size_t i = 0; i + 1 < hashes_.size(); ++i)
            if (hashes_[i] == hashes_.back())
                throw OptionError("executable", build.label,
                                  fmt::format("another build than '{}': both are the same file content, {}",
                                              options_.builds[i].label, hashes_.back().substr(0, 16)));
    }
}

std::string Workshop::open(const std::string& name, const std::string& otherwise) {
    std::int64_t bytes = k_answers_bytes + 2 * ladder_.subject->input_bytes(ladder_.work);
    for (const auto& build : options_.builds) bytes += static_cast<std::int64_t>(fs::file_size(build.path));
    shared_ = std::make_unique<SharedFolder>(options_.memory, name, otherwise, bytes);
    if (logs_.empty()) logs_ = shared_->path();
    for (std::size_t b = 0; b < options_.builds.size(); ++b) {
        copies_.push_back(shared(hashes_[b]));
        fs::copy_file(options_.builds[b].path, copies_.back());
        if (sha256_file(copies_.back()) != hashes_[b])
            throw Error(ErrorCode::state,
                        fmt::format("{} changed while it was copied; build first, then measure",
                                    options_.builds[b].path));
    }
    return shared_->why_not_memory();
}

std::string Workshop::shared(const std::string& name) const {
    return (fs::path(shared_->path()) / name).string();
}
std::string Workshop::log_file(const std::string& name) const {
    return (fs::path(logs_) / (name + ".log")).string();
}

std::vector<std::string> Workshop::environment(const std::string& padding) const {
    auto all = options_.environment;
    all.push_back("LIGHTMILL_PADDING=" + padding);
    return all;
}

std::string Workshop::greeting() const {
    std::string text = "hello 1";
    if (!input_.empty()) text += " input=" + escaped(input_);
    for (const auto& fact : ladder_.work_facts)
        text += fmt::format(" {}={}", escaped(fact.name), escaped(fact.value));
    return text;
}

Launch Workshop::launch(const SubjectType& subject, const Settings& config, std::size_t build) const {
    if (auto foreign = subject.launch(config, ladder_.place)) return *foreign;
    Launch own{copies_[build], options_.worker_verb};
    for (auto& argument : worker_arguments(std::string(subject.name()), input_, ladder_.work, config))
        own.arguments.push_back(std::move(argument));
    return own;
}

std::string Workshop::make_input() {
    const std::string file = shared("input");
    Launch maker{copies_[0], options_.worker_verb};
    for (auto& argument : worker_arguments(std::string(ladder_.subject->name()), file, ladder_.work, {}))
        maker.arguments.push_back(std::move(argument));
    try {
        Child child(maker, environment(""), log_file("input"), options_.stop);
        child.ask("input", ladder_.policy.timeout_s);
        child.end(10);
    } catch (const ChildFailure& failure) {
        throw Error(ErrorCode::state, fmt::format("the input cannot be made: {}", failure.what()));
    }
    if (!fs::exists(file)) return {};
    ::chmod(file.c_str(), 0400);
    input_ = file;
    return sha256_file(file);
}

double Workshop::process_s(const Job& job, const std::string& log) {
    const auto start = Clock::now();
    try {
        Child child(launch(*job.subject, job.config, job.build), environment(""), log_file(log),
                    options_.stop);
        child.ask(greeting(), ladder_.policy.timeout_s);
        child.ask("reserve", ladder_.policy.timeout_s);
        const auto begin = Clock::now();
        child.ask("run 0", ladder_.policy.timeout_s);
        const double repetition = since(begin);
        child.end(std::min(ladder_.policy.timeout_s, 30.0));
        return since(start) + repetition * static_cast<double>(ladder_.policy.repetitions - 1);
    } catch (const ChildFailure&) {
        return since(start);  // the gate will say what is wrong with it
    }
}

std::string Workshop::play(const Job& job, const std::string& log, const Row& pattern,
                           const std::function<void(const Row&)>& keep, const std::string& output,
                           const std::string& padding) {
    const auto& policy = ladder_.policy;
    const auto repetitions = static_cast<int>(policy.repetitions);
    const std::string answer_file = output.empty() ? shared("answer") : output;
    int kept = 0;
    try {
        Child child(launch(*job.subject, job.config, job.build), environment(padding), log_file(log),
                    options_.stop);
        const Reply hello = child.ask(greeting(), policy.timeout_s);
        if (const std::string counters = hello.text("counters"); !counters.empty()) counters_ = counters;
        const Reply reserved = child.ask("reserve", policy.timeout_s);
        std::string advanced, trouble, difference;
        if (reserved.text("before") != reserved.text("after"))
            advanced = "STATE_ADVANCED: preparing changed the subject's state";
        for (int repetition = 0; repetition < repetitions; ++repetition) {
            Row row = pattern;
            row.repetition = repetition;
            const bool watched = job.subject->launch(job.config, ladder_.place).has_value();
            const Outside before = watched ? outside(child.pid()) : Outside{};
            const auto start = Clock::now();
            const Reply reply = child.ask(fmt::format("run {}", repetition), policy.timeout_s);
            const double round_trip = since(start);
            const Outside after = watched ? outside(child.pid()) : Outside{};
            // A foreign program may say anything; what is no number of that kind is not written down.
            std::string absurd;
            auto number = [&](const std::string& name, double otherwise) {
                const double value = reply.number(name, otherwise);
                if (std::isfinite(value) && value > -2 && value < 9e18) return value;
                if (absurd.empty()) absurd = fmt::format("NONFINITE: {} is '{}'", name, reply.text(name));
                return 0.0;
            };
            auto whole = [&](const char* name, std::int64_t otherwise) {
                return static_cast<std::int64_t>(number(name, static_cast<double>(otherwise)));
            };
            auto& m = row.measured;
            m.wall_s = reply.number("wall", std::nan(""));
            m.user_s = number("user", after.user_s - before.user_s);
            m.system_s = number("system", after.system_s - before.system_s);
            m.minor_faults = whole("minor_faults", after.minor_faults - before.minor_faults);
            m.major_faults = whole("major_faults", after.major_faults - before.major_faults);
            m.voluntary_switches = whole("voluntary_switches", 0);
            m.involuntary_switches = whole("involuntary_switches", 0);
            m.peak_rss_bytes = whole("peak_rss", after.peak_rss_bytes);
            m.cycles = whole("cycles", -1);
            m.instructions = whole("instructions", -1);
            m.cache_misses = whole("cache_misses", -1);
            row.items = number("items", 0);
            row.count = static_cast<std::uint64_t>(std::max(0.0, number("count", 0)));
            row.checksum = reply.text("checksum");
            row.invalid = advanced;
            auto invalid = [&](const std::string& why) {
                if (row.invalid.empty()) row.invalid = why;
            };
            if (!(m.wall_s > 0) || !std::isfinite(m.wall_s)) {
                invalid(fmt::format("NONFINITE: a wall time of '{}'", reply.text("wall")));
                m.wall_s = 0;
            } else if (m.wall_s > round_trip * 1.001 + 1e-3) {
                invalid(fmt::format("CLOCK: it says {} s, but answered after {} s", m.wall_s, round_trip));
            }
            if (reply.number("nonfinite", 0) > 0)
                invalid(fmt::format("NONFINITE: {} values of the answer are NaN or infinite",
                                    reply.text("nonfinite")));
            for (const auto& [key, text] : reply.values()) {
                if (key.rfind("detector.", 0) != 0) continue;
                const double count = number(key, 0);
                row.detectors.push_back({key.substr(9), static_cast<std::uint64_t>(std::max(0.0, count))});
                if (count != 0) invalid(fmt::format("DETECTOR: {}={}", key.substr(9), text));
            }
            if (!absurd.empty()) invalid(absurd);
            const bool last = repetition + 1 == repetitions;
            const bool wrong = !job.foreign && job.expected != nullptr &&
                               row.checksum != job.expected->checksums[static_cast<std::size_t>(repetition)];
            // The answer travels where it must be looked at: foreign ones at the end, ours where the checksum
            // differs.
            if (job.expected != nullptr && ((last && (job.foreign || !output.empty())) || (wrong && last))) {
                fs::remove(answer_file);
                child.ask("output " + escaped(answer_file), policy.timeout_s);
                if (!fs::exists(answer_file)) {
                    invalid("UNWRITTEN: it wrote no answer");
                } else {
                    try {
                        const GateResult gate = compare_answers(
                            AnswerFile(job.expected->file).answer(), AnswerFile(answer_file).answer(),
                            job.foreign ? ladder_.tolerance : Tolerance{});
                        difference = gate.failure;
                        if (!gate.passed) invalid("GATE_FAILED: " + difference);
                    } catch (const Error& error) {
                        invalid(fmt::format("GARBAGE: {}", error.what()));
                    }
                }
            }
            if (wrong)
                invalid(fmt::format("GATE_FAILED: the checksum of repetition {} is {}, expected {}",
                                    repetition, row.checksum,
                                    job.expected->checksums[static_cast<std::size_t>(repetition)]));
            const auto gpus = gpus_.read();
            row.gpu = gpu_text(gpus);
            for (const auto& gpu : gpus)
                if ((gpu.throttle_reasons & ~k_harmless_throttle) != 0)
                    row.not_quotable.push_back(fmt::format("GPU {} throttled", gpu.index));
            keep(row);
            ++kept;
            if (trouble.empty()) trouble = row.invalid;
        }
        // The scalar reference's own answer: nothing to compare it with.
        if (job.expected == nullptr && !output.empty())
            child.ask("output " + escaped(output), policy.timeout_s);
        child.end(std::min(policy.timeout_s, 30.0));
        return difference.empty() ? trouble : difference;
    } catch (const ChildFailure& failure) {
        Row row = pattern;
        row.repetition = kept;
        row.invalid = failure.what();
        keep(row);
        return failure.what();
    }
}

}  // namespace lightmill::ladder

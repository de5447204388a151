#include "lightmill/ladder/run/run.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/ladder/report/directory.hpp"
#include "lightmill/ladder/run/child.hpp"
#include "lightmill/ladder/run/guards.hpp"
#include "lightmill/ladder/run/rows.hpp"
#include "lightmill/ladder/run/shared_folder.hpp"
#include "lightmill/ladder/run/worker.hpp"

namespace lightmill::ladder {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr int k_sweep_rounds = 3;
constexpr double k_guards_s = 0.15;  // what looking at the machine takes before a round
// What answers and logs may add to the shared folder beyond twice the input.
constexpr std::int64_t k_answers_bytes = std::int64_t{64} << 20;
constexpr const char* k_not_asked = "not asked for (--rungs)";
constexpr const char* k_interrupted = "INTERRUPTED: the session ended in the middle of this process";

double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// The right answer of one configuration, after each repetition.
struct Expected {
    std::vector<std::string> checksums;
    std::string file;  // the answer after the last repetition
};

// Everything that one fresh process needs.
struct Job {
    const SubjectType* subject = nullptr;
    Settings config;
    std::size_t build = 0;
    bool foreign = false;  // its answers need not be bit-identical
    const Expected* expected = nullptr;
};

// Which processes a file of rows holds.
struct Made {
    using Process = std::pair<std::string, int>;  // arm and round
    std::map<Process, int> repetitions;           // of those that began
    std::set<Process> closed;                     // of those to which no row will be added
};
Made made_so_far(const std::vector<Row>& rows, int repetitions) {
    Made made;
    for (const auto& row : rows) {
        const Made::Process process{row.arm, row.round};
        int& n = made.repetitions[process];
        n = std::max(n, row.repetition + 1);
        const auto says = [&](const char* word) { return row.invalid.rfind(word, 0) == 0; };
        if (n >= repetitions || says("CRASH") || says("TIMEOUT") || says("GARBAGE") || says("CLOSED") ||
            says("ERROR") || says("INTERRUPTED"))
            made.closed.insert(process);
    }
    return made;
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

// How far an answer is from the reference's, over the arrays that both have: a rung that keeps only hashes
// has no clusters to compare.
std::string distance(const AnswerFile& reference, const AnswerFile& other) {
    Answer left, right;
    for (const auto& array : reference.answer())
        for (const auto& candidate : other.answer())
            if (candidate.name == array.name && candidate.type == array.type) {
                left.push_back(array);
                right.push_back(candidate);
            }
    if (left.empty()) return "nothing that can be compared with the reference's answer";
    const GateResult gate = compare_answers(left, right, {.absolute = 1e300, .relative = 0, .share = 1});
    return gate.passed ? gate.distance : "another answer than the reference's: " + gate.failure;
}

class Runner {
  public:
    Runner(const Ladder& ladder, const RunOptions& options) : ladder_(ladder), options_(options) {}
    RunResult run();
    std::string estimate();

  private:
    void choose_rungs();
    void open_directory();
    void read_builds();
    void copy_builds(const std::string& otherwise);
    void make_input();
    void calibrate();
    std::string plan_text() const;
    void sweep();
    void gates();
    void plan_rounds();
    void rounds();
    void finish();

    Job job(const Arm& arm);
    std::size_t build_of(const Arm& arm) const;
    Settings config_of(const Rung& rung) const;
    // Settings of the ladder's subject that give the answer which this rung must give.
    std::optional<Settings> plain(const Rung& rung, const Settings& config) const;
    double process_s(const Job& job, const std::string& name);
    double round_s() const;
    void note(const std::string& text);
    void update_changes();
    const Expected& expected_for(const Rung& rung, const Settings& config);
    Launch launch(const SubjectType& subject, const Settings& config, std::size_t build) const;
    std::string play(const Job& job, const std::string& log, const Row& pattern,
                     const std::function<void(const Row&)>& keep, const std::string& output,
                     const std::string& padding);
    std::vector<std::string> environment(const std::string& padding) const;
    std::string greeting() const;
    std::string path(const std::string& name) const { return (fs::path(options_.output) / name).string(); }
    std::string log(const std::string& name) const { return (fs::path(logs_) / (name + ".log")).string(); }
    std::string shared(const std::string& name) const { return (fs::path(shared_->path()) / name).string(); }
    SessionRung& session_rung(const std::string& id) {
        return *std::find_if(session_.rungs.begin(), session_.rungs.end(),
                             [&](const auto& r) { return r.id == id; });
    }
    void check_stop() const {
        if (options_.stop.stop_requested()) throw Error(ErrorCode::interrupted, "interrupted");
    }

    const Ladder& ladder_;
    const RunOptions& options_;
    Session session_;
    std::vector<std::string> asked_;  // rungs; empty: all
    std::optional<Session> before_;   // as an interrupted session left it
    std::unique_ptr<SharedFolder> shared_;
    std::string logs_;                 // folder
    std::string input_;                // empty: none
    std::vector<std::string> copies_;  // of the builds, named by their content
    std::vector<std::string> hashes_;  // SHA-256 of the builds
    std::vector<Arm> arms_;            // those that run
    std::map<std::string, Expected> expected_;
    std::map<std::string, double> took_s_;  // a whole process of each arm, as far as is known
    double sweep_s_ = 0, gates_s_ = 0;      // what they will take, from one repetition of each rung
    std::optional<double> budget_s_;
    Settings swept_;  // what the sweep chose for the reference
    bool is_swept_ = false;
    std::string counters_ = "not asked for: no rung is ours";  // whether workers have hardware counters
    GpuMonitor gpus_;
    std::unique_ptr<RowWriter> rows_;
    RunResult result_;
};

Settings Runner::config_of(const Rung& rung) const {
    return rung.status == Status::reference ? merged(rung.config, swept_) : rung.config;
}

void Runner::choose_rungs() {
    asked_ = options_.rungs;
    if (before_ && asked_.empty()) {  // a session goes on as it began
        bool cut = false;
        for (const auto& entry : before_->rungs) {
            const bool asked = entry.not_run != k_not_asked;
            cut = cut || !asked;
            if (asked && entry.status != "null")
                asked_.push_back(entry.executable.empty() ? entry.id
                                                          : entry.id.substr(0, entry.id.rfind('@')));
        }
        if (!cut) asked_.clear();
    }
    for (const auto& id : asked_)
        if (ladder_.find(id) == nullptr) {
            std::vector<std::string_view> all;
            for (const auto& rung : ladder_.rungs) all.push_back(rung.id);
            throw OptionError("rungs", id, fmt::format("one of {}", fmt::join(all, ", ")));
        }
    if (options_.builds.empty()) throw OptionError("executable", "none", "at least one build of the program");
    if (!ladder_.reference().unavailable.empty())
        throw Error(ErrorCode::unavailable,
                    fmt::format("the reference '{}' cannot run here: {}", ladder_.reference().id,
                                ladder_.reference().unavailable));
    session_.name = ladder_.name;
    session_.subject = ladder_.subject->name();
    session_.work = ladder_.work_text();
    session_.alpha = ladder_.policy.alpha;
    session_.delta = ladder_.policy.delta;
    session_.policy = facts_of(ladder_.policy);
    const bool compete = options_.builds.size() > 1;
    for (std::size_t r = 0; r < ladder_.rungs.size(); ++r) {
        const Rung& rung = ladder_.rungs[r];
        const bool foreign = rung.subject->launch(rung.config, ladder_.place).has_value();
        for (std::size_t b = 0; b < (compete && !foreign ? options_.builds.size() : 1); ++b) {
            const auto id = [&](const std::string& of, std::size_t build) {
                return compete && !foreign ? fmt::format("{}@{}", of, options_.builds[build].label) : of;
            };
            SessionRung entry;
            entry.id = id(rung.id, b);
            entry.label = rung.label;
            entry.status = std::string(names(rung.status)[static_cast<std::size_t>(rung.status)]);
            if (b > 0 && rung.status == Status::reference) entry.status = "candidate";
            entry.reason = rung.reason;
            entry.before = rung.before.empty() ? "" : id(rung.before, 0);
            entry.configuration = rung.configuration;
            entry.changes = rung.changes;
            entry.not_run = rung.unavailable;
            if (b > 0) {  // a build is compared with the first one, rung by rung
                entry.before = id(rung.id, 0);
                entry.changes = {
                    fmt::format("executable: {} → {}", options_.builds[0].label, options_.builds[b].label)};
            }
            entry.executable = compete && !foreign ? options_.builds[b].label : "";
            if (!foreign && ladder_.subject == rung.subject)
                entry.work = rung.subject->loads(ladder_.work, rung.config);
            if (entry.not_run.empty() && !asked_.empty() && rung.status != Status::reference &&
                std::find(asked_.begin(), asked_.end(), rung.id) == asked_.end())
                entry.not_run = k_not_asked;
            session_.rungs.push_back(entry);
            if (!entry.not_run.empty()) continue;
            arms_.push_back({entry.id, r, entry.executable, false});
            if (entry.status == "reference") {
                arms_.push_back({"null", r, entry.executable, true});
                entry.id = "null";
                entry.label = "the reference a second time";
                entry.status = "null";
                session_.rungs.push_back(entry);
            }
        }
    }
    // The reference first, wherever it stands in the file: all other gates look at its answer.
    std::stable_partition(arms_.begin(), arms_.end(), [&](const Arm& arm) {
        return !arm.null && session_rung(arm.id).status == "reference";
    });
    // A rung before that foreign rungs and builds name must be a rung of the session.
    for (auto& entry : session_.rungs)
        if (!entry.before.empty() &&
            std::none_of(session_.rungs.begin(), session_.rungs.end(),
                         [&](const auto& other) { return other.id == entry.before; }))
            entry.before = fmt::format("{}@{}", entry.before, options_.builds[0].label);
}

void Runner::open_directory() {
    if (!options_.resume && fs::exists(options_.output) && !fs::is_empty(options_.output))
        throw OptionError("output", options_.output,
                          fs::exists(path("session.json"))
                              ? "a directory that holds no session, or --resume to go on with this one"
                              : "a directory that is empty or not there yet");
    if (options_.rounds && *options_.rounds < 1)
        throw OptionError("rounds", fmt::format("{}", *options_.rounds), "a whole number from 1 up");
    if (options_.budget_s && !(*options_.budget_s > 0 && std::isfinite(*options_.budget_s)))
        throw OptionError("budget", fmt::format("{}", *options_.budget_s), "a number of seconds above 0");
    logs_ = path("logs");
    fs::create_directories(logs_);
    read_builds();
    session_.policy.push_back({"executable", fmt::format("{}", fmt::join(hashes_, " "))});
    session_.policy.push_back({"ladder", sha256_hex(ladder_.text)});
    session_.planned_rounds = options_.rounds.value_or(static_cast<int>(ladder_.policy.rounds));
    budget_s_ = options_.budget_s;
    // What was asked for stays with the session: it is resumed under the same terms.
    std::string asked_rounds = options_.rounds ? fmt::format("{}", *options_.rounds) : "";
    std::string asked_budget = budget_s_ ? fmt::format("{}", *budget_s_) : "";
    if (options_.resume) {
        const Session& before = *before_;
        for (const auto& [option, fact, asked] : {std::tuple{"rounds", "asked_rounds", &asked_rounds},
                                                  {"budget", "asked_budget_s", &asked_budget}}) {
            const std::string began(value(before.policy, fact));
            if (!asked->empty() && *asked != began)
                throw OptionError(option, *asked + " with --resume",
                                  fmt::format("{}: a session goes on as it began",
                                              began.empty() ? "nothing" : "nothing, or " + began));
            *asked = began;
        }
        if (!asked_budget.empty()) budget_s_ = std::strtod(asked_budget.c_str(), nullptr);
        for (const auto* fact : {"executable", "ladder"})
            if (value(before.policy, fact) != value(session_.policy, fact))
                throw OptionError("resume", fmt::format("another {} than the session began with", fact),
                                  fmt::format("the same {}: start a new session in another directory", fact));
        std::set<std::string> ran, now;
        for (const auto& rung : before.rungs)
            if (rung.not_run.empty()) ran.insert(rung.id);
        for (const auto& rung : session_.rungs)
            if (rung.not_run.empty()) now.insert(rung.id);
        if (ran != now)
            throw OptionError("resume", "another choice of rungs", "the rungs that the session began with");
        // It names a folder that is removed.
        if (!good_id(before.id))
            throw FormatError(
                path("session.json"), -1,
                fmt::format("id: found '{}', expected letters, digits, '-', '_' or '.'", before.id));
        session_.id = before.id;
        session_.planned_rounds = before.planned_rounds;
        session_.notes = before.notes;
        session_.environment_before = before.environment_before;
    } else {
        const std::time_t now = std::time(nullptr);
        std::tm utc{};
        ::gmtime_r(&now, &utc);
        std::array<char, 32> stamp{};
        std::strftime(stamp.data(), stamp.size(), "%Y%m%dT%H%M%SZ", &utc);
        session_.id = fmt::format("{}-{}-{:08x}", ladder_.name, stamp.data(), std::random_device{}());
        session_.environment_before = lightmill::ladder::environment();
        write_file(path("ladder.toml"), ladder_.text);
    }
    session_.policy.push_back({"asked_rounds", asked_rounds});
    session_.policy.push_back({"asked_budget_s", asked_budget});
    session_.looks = {session_.planned_rounds};
    session_.probe = options_.probe;
    write_session(options_.output, session_);
    rows_ = std::make_unique<RowWriter>(path("rows.csv"));
}

void Runner::read_builds() {
    for (const auto& build : options_.builds) {
        hashes_.push_back(sha256_file(build.path));
        for (std::size_t i = 0; i + 1 < hashes_.size(); ++i)
            if (hashes_[i] == hashes_.back())
                throw OptionError("executable", build.label,
                                  fmt::format("another build than '{}': both are the same file content, {}",
                                              options_.builds[i].label, hashes_.back().substr(0, 16)));
    }
}

void Runner::copy_builds(const std::string& otherwise) {
    std::int64_t bytes = k_answers_bytes + 2 * ladder_.subject->input_bytes(ladder_.work);
    for (const auto& build : options_.builds) bytes += static_cast<std::int64_t>(fs::file_size(build.path));
    shared_ = std::make_unique<SharedFolder>(options_.memory, session_.id, otherwise, bytes);
    if (!shared_->why_not_memory().empty())
        note(fmt::format("input and programs lie on a disk, in {}: {}", shared_->path(),
                         shared_->why_not_memory()));
    for (std::size_t b = 0; b < options_.builds.size(); ++b) {
        copies_.push_back(shared(hashes_[b]));
        fs::copy_file(options_.builds[b].path, copies_.back());
        if (sha256_file(copies_.back()) != hashes_[b])
            throw Error(ErrorCode::state,
                        fmt::format("{} changed while it was copied; build first, then measure",
                                    options_.builds[b].path));
    }
}

void Runner::note(const std::string& text) {
    if (std::find(session_.notes.begin(), session_.notes.end(), text) != session_.notes.end()) return;
    session_.notes.push_back(text);
    options_.say(text);
}

std::vector<std::string> Runner::environment(const std::string& padding) const {
    auto all = options_.environment;
    all.push_back("LIGHTMILL_PADDING=" + padding);
    return all;
}

std::string Runner::greeting() const {
    std::string text = "hello 1";
    if (!input_.empty()) text += " input=" + escaped(input_);
    for (const auto& fact : ladder_.work_facts)
        text += fmt::format(" {}={}", escaped(fact.name), escaped(fact.value));
    return text;
}

Launch Runner::launch(const SubjectType& subject, const Settings& config, std::size_t build) const {
    if (auto foreign = subject.launch(config, ladder_.place)) return *foreign;
    Launch own{copies_[build], options_.worker_verb};
    for (auto& argument : worker_arguments(std::string(subject.name()), input_, ladder_.work, config))
        own.arguments.push_back(std::move(argument));
    return own;
}

void Runner::make_input() {
    options_.progress("making the input");
    const std::string file = shared("input");
    Launch maker{copies_[0], options_.worker_verb};
    for (auto& argument : worker_arguments(std::string(ladder_.subject->name()), file, ladder_.work, {}))
        maker.arguments.push_back(std::move(argument));
    try {
        Child child(maker, environment(""), log("input"), options_.stop);
        child.ask("input", ladder_.policy.timeout_s);
        child.end(10);
    } catch (const ChildFailure& failure) {
        throw Error(ErrorCode::state, fmt::format("the input cannot be made: {}", failure.what()));
    }
    if (!fs::exists(file)) return;
    ::chmod(file.c_str(), 0400);
    input_ = file;
    session_.policy.push_back({"input", sha256_file(file)});
    if (before_ && value(before_->policy, "input") != value(session_.policy, "input") &&
        !value(before_->policy, "input").empty())
        throw Error(ErrorCode::state,
                    "the input is another one than the session began with: start a new session");
}

double Runner::process_s(const Job& job, const std::string& name) {
    const auto start = Clock::now();
    try {
        Child child(launch(*job.subject, job.config, job.build), environment(""), log(name), options_.stop);
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

double Runner::round_s() const {
    double sum = k_guards_s;
    for (const auto& arm : arms_) sum += took_s_.at(arm.id);
    return sum;
}

// One repetition of everything, thrown away: only how long the session will take is learned from it.
void Runner::calibrate() {
    std::map<std::string, double> plain_s;
    double reference_plain_s = 0;
    std::size_t number = 0;
    for (const auto& arm : arms_) {
        check_stop();
        const Rung& rung = ladder_.rungs[arm.rung];
        if (arm.null) {
            took_s_[arm.id] = took_s_.at(arms_.front().id);
            continue;
        }
        options_.progress(
            fmt::format("how long it will take: {} of {}, {}", ++number, arms_.size() - 1, arm.id));
        took_s_[arm.id] =
            process_s({rung.subject, config_of(rung), build_of(arm), false, nullptr}, "calibrate-" + arm.id);
        gates_s_ += took_s_[arm.id];
        const auto settings = plain(rung, config_of(rung));
        if (!settings) continue;
        double& took = plain_s[encoded(*settings)];
        if (took == 0) {
            took = process_s({ladder_.subject, *settings, 0, false, nullptr}, "calibrate-plain-" + arm.id);
            gates_s_ += took;
        }
        if (rung.status == Status::reference) reference_plain_s = took;
    }
    // Every setting of the sweep may have an answer of its own.
    if (!ladder_.sweep.empty())
        sweep_s_ = static_cast<double>(ladder_.sweep.size()) *
                   (k_sweep_rounds * took_s_.at(arms_.front().id) + reference_plain_s);
}

std::string Runner::plan_text() const {
    const auto rows = options_.resume ? read_rows(path("rows.csv")) : std::vector<Row>{};
    const std::size_t made = made_so_far(rows, static_cast<int>(ladder_.policy.repetitions)).closed.size();
    double rounds = session_.planned_rounds;
    std::string cut;
    if (budget_s_ && rows.empty() && *budget_s_ < rounds * round_s()) {
        rounds = std::max(1.0, std::floor(*budget_s_ / round_s()));
        cut = fmt::format(", which the budget of {} s will cut to about {:.0f}", *budget_s_, rounds);
    }
    const double left = std::max(0.0, rounds - static_cast<double>(made) / static_cast<double>(arms_.size()));
    const double rounds_s = left * round_s();
    const auto seconds = [](double s) { return fmt::format("{:.{}f} s", s, s < 10 ? 1 : 0); };
    return fmt::format(
        "{} arms, {} rounds{}, {} repetitions a process. From one repetition of each: about {} ({}gates {}, "
        "{}rounds {}), and up to {} of waiting for a quiet machine",
        arms_.size(), session_.planned_rounds, cut, ladder_.policy.repetitions,
        seconds(sweep_s_ + gates_s_ + rounds_s), sweep_s_ > 0 ? "sweep " + seconds(sweep_s_) + ", " : "",
        seconds(gates_s_), made > 0 ? "remaining " : "", seconds(rounds_s),
        seconds(ladder_.policy.busy_wait_s * left));
}

// Plays one process from start to end; rows go to `keep`. Returns why its answer is wrong or it failed, empty
// where all is well. `output`, where given, names the file that the last answer stays in.
std::string Runner::play(const Job& job, const std::string& log_file, const Row& pattern,
                         const std::function<void(const Row&)>& keep, const std::string& output,
                         const std::string& padding) {
    const auto& policy = ladder_.policy;
    const auto repetitions = static_cast<int>(policy.repetitions);
    const std::string answer_file = output.empty() ? shared("answer") : output;
    int kept = 0;
    try {
        Child child(launch(*job.subject, job.config, job.build), environment(padding), log_file,
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

std::optional<Settings> Runner::plain(const Rung& rung, const Settings& config) const {
    return ladder_.subject->scalar(rung.answer                       ? *rung.answer
                                   : rung.subject == ladder_.subject ? config
                                                                     : ladder_.reference().config);
}

// The answers of the plain implementation, made once for each set of options that change them.
const Expected& Runner::expected_for(const Rung& rung, const Settings& config) {
    const auto scalar = plain(rung, config);
    // Without a plain implementation the reference rung's answer is the right one.
    const Settings settings = scalar ? *scalar : config_of(ladder_.reference());
    const std::string key = encoded(settings);
    if (const auto known = expected_.find(key); known != expected_.end()) return known->second;
    options_.progress(fmt::format("the answer to expect of {}", rung.id));
    const std::string name = fmt::format("expected-{}", expected_.size());
    Expected expected;
    expected.file = shared(name);
    const Job plain{ladder_.subject, settings, 0, false, nullptr};
    std::string failure = play(
        plain, log(name), {}, [&](const Row& row) { expected.checksums.push_back(row.checksum); },
        expected.file, "");
    if (failure.empty()) {
        const AnswerFile answer(expected.file);
        if (nonfinite(answer.answer()) > 0) failure = "its answer holds values that are NaN or infinite";
        if (answer.answer().empty()) failure = "its answer holds no array";
    }
    if (!failure.empty())
        throw Error(ErrorCode::state,
                    fmt::format("there is no right answer to compare '{}' with: the {} failed: {}", rung.id,
                                scalar ? "plain implementation" : "reference rung", failure));
    return expected_.emplace(key, std::move(expected)).first->second;
}

std::size_t Runner::build_of(const Arm& arm) const {
    for (std::size_t b = 0; b < options_.builds.size(); ++b)
        if (options_.builds[b].label == arm.executable) return b;
    return 0;
}

Job Runner::job(const Arm& arm) {
    const Rung& rung = ladder_.rungs[arm.rung];
    Job job{rung.subject, config_of(rung), build_of(arm), false, nullptr};
    job.foreign = rung.subject->launch(rung.config, ladder_.place).has_value();
    job.expected = &expected_for(rung, job.config);
    return job;
}

void Runner::sweep() {
    const Rung& reference = ladder_.reference();
    const std::string option = reference.subject->swept_option();
    if (ladder_.sweep.empty()) {
        if (option.empty()) return;
        for (auto& entry : session_.rungs)
            if (entry.status == "reference" || entry.status == "null")
                entry.not_quotable.push_back(fmt::format("the reference's {} was not swept", option));
        return;
    }
    const std::string file = path("sweep.csv");
    std::map<std::string, std::vector<double>> times;
    auto label = [&](std::size_t i) {
        std::vector<std::string> parts;
        for (const auto& setting : ladder_.sweep[i])
            parts.push_back(setting.name + "=" + value_text(setting.value));
        return fmt::format("{} {}", reference.id, fmt::join(parts, " "));
    };
    auto count = [&](const Row& row) {
        const bool warm = row.repetition > 0 || ladder_.policy.repetitions == 1;
        if (warm && row.invalid != k_interrupted)
            times[row.arm].push_back(row.invalid.empty() ? row.measured.wall_s : HUGE_VAL);
    };
    const auto rows = read_rows(file);
    for (const auto& row : rows) count(row);
    const Made made = made_so_far(rows, static_cast<int>(ladder_.policy.repetitions));
    RowWriter writer(file);
    for (int round = 0; round < k_sweep_rounds; ++round) {
        int slot = 0;
        for (const auto i :
             round_order(ladder_.sweep.size(), round, static_cast<std::uint64_t>(ladder_.policy.seed))) {
            const int place = slot++;
            if (made.closed.contains({label(i), round})) continue;
            check_stop();
            Row pattern{.session = session_.id,
                        .round = round,
                        .slot = place,
                        .arm = label(i),
                        .executable = hashes_[0]};
            if (const auto begun = made.repetitions.find({label(i), round});
                begun != made.repetitions.end()) {
                pattern.repetition = begun->second;
                pattern.invalid = k_interrupted;
                writer.write(pattern);
                continue;
            }
            options_.progress(fmt::format("sweep, round {} of {}: {}", round + 1, k_sweep_rounds, label(i)));
            Job job{reference.subject, merged(reference.config, ladder_.sweep[i]), 0, false, nullptr};
            job.expected = &expected_for(reference, job.config);
            play(
                job, log(fmt::format("sweep-{}-{}", i, round)), pattern,
                [&](const Row& row) {
                    writer.write(row);
                    count(row);
                },
                "", "");
        }
    }
    std::size_t best = 0;
    std::vector<double> medians;
    std::string text = "sweep of the reference:";
    for (std::size_t i = 0; i < ladder_.sweep.size(); ++i) {
        auto all = times[label(i)];
        std::sort(all.begin(), all.end());
        medians.push_back(all.empty() ? HUGE_VAL : all[all.size() / 2]);
        if (medians[i] < medians[best]) best = i;
        text += fmt::format(" {} {};", label(i).substr(reference.id.size() + 1), time_text(medians[i]));
    }
    if (!std::isfinite(medians[best]))
        throw Error(ErrorCode::state,
                    fmt::format("no setting of the sweep gave a valid row; {} says why", file));
    swept_ = ladder_.sweep[best];
    is_swept_ = true;
    text += fmt::format(" taken: {}", label(best).substr(reference.id.size() + 1));
    note(text);
    update_changes();
}

// Steps up from the reference start from what the sweep made of it.
void Runner::update_changes() {
    const Rung& reference = ladder_.reference();
    const auto configuration =
        reference.subject->configuration(ladder_.work, merged(reference.config, swept_));
    const auto is_reference = [&](const SessionRung& entry) {
        return entry.status == "reference" || entry.status == "null";
    };
    for (auto& entry : session_.rungs) {
        // Of another build too.
        const bool same_rung =
            entry.id == reference.id ||
            (!entry.executable.empty() && entry.id == reference.id + "@" + entry.executable);
        if (is_reference(entry) || same_rung) entry.configuration = configuration;
    }
    for (auto& entry : session_.rungs) {
        const std::string id =
            entry.id.substr(0, entry.executable.empty() ? entry.id.size() : entry.id.rfind('@'));
        const Rung* rung = is_reference(entry) ? nullptr : ladder_.find(id);
        const bool other_build = !entry.executable.empty() && entry.executable != options_.builds[0].label;
        if (rung != nullptr && !other_build && rung->before == reference.id &&
            rung->subject == reference.subject)
            entry.changes = changes(configuration, rung->configuration);
    }
}

void Runner::gates() {
    // A resumed session gates again, as its next round: the rows of the gates before stay.
    int round = 0;
    for (const auto& row : read_rows(path("gate.csv"))) round = std::max(round, row.round + 1);
    RowWriter writer(path("gate.csv"));
    std::string reference_answer;
    std::vector<Arm> passed;
    std::size_t number = 0;
    for (const auto& arm : arms_) {
        check_stop();
        auto& entry = session_rung(arm.id);
        entry.gate_failure.clear();
        options_.progress(fmt::format("gate {} of {}: {}", ++number, arms_.size(), arm.id));
        if (arm.null) {
            passed.push_back(arm);
            took_s_[arm.id] = took_s_[passed.front().id];
            continue;
        }
        const Job gated = job(arm);
        const std::string output = shared(entry.status == "reference" ? "reference" : "gated");
        const auto start = Clock::now();
        Row pattern{.session = session_.id, .round = round, .arm = arm.id};
        if (!gated.foreign) pattern.executable = hashes_[gated.build];
        const std::string failure = play(
            gated, log("gate-" + arm.id), pattern, [&](const Row& row) { writer.write(row); }, output, "");
        took_s_[arm.id] = since(start);
        if (!failure.empty()) {
            if (entry.status == "reference")
                throw Error(ErrorCode::state,
                            fmt::format("the reference '{}' does not pass its gate: {}", arm.id, failure));
            entry.gate_failure = failure;
            ++result_.gate_failures;
            options_.say(fmt::format("{}: {}", arm.id, failure));
            continue;
        }
        passed.push_back(arm);
        if (entry.status == "reference") {
            reference_answer = output;
            entry.gate_distance = "bit-identical to the plain implementation";
        } else {
            entry.gate_distance = distance(AnswerFile(reference_answer), AnswerFile(output));
        }
    }
    arms_ = std::move(passed);
    // What was not measured is said, with the reason.
    session_.policy.push_back({"hardware_counters", counters_});
    session_.policy.push_back({"gpu", gpus_.why_not().empty() ? "watched" : gpus_.why_not()});
    write_session(options_.output, session_);
}

void Runner::plan_rounds() {
    // A session that was interrupted in its rounds has its plan.
    const bool planned = !read_rows(path("rows.csv")).empty();
    if (budget_s_ && !planned) {
        const int fit = std::max(1, static_cast<int>(*budget_s_ / round_s()));
        if (fit < session_.planned_rounds) {
            note(fmt::format("the budget of {} s cut the rounds from {} to {}{}", *budget_s_,
                             session_.planned_rounds, fit,
                             fit < 12 ? ": too few to claim anything but large differences" : ""));
            session_.planned_rounds = fit;
        }
    }
    if (options_.rounds && *options_.rounds < ladder_.policy.rounds && !planned)
        note(fmt::format("--rounds cut the rounds from {} to {}", ladder_.policy.rounds, *options_.rounds));
    session_.looks = {session_.planned_rounds};
    result_.rounds = session_.planned_rounds;
    options_.say(fmt::format("{} arms passed; {} rounds of about {:.2g} s", arms_.size(),
                             session_.planned_rounds, round_s()));
    write_session(options_.output, session_);
}

void Runner::rounds() {
    const auto rows = read_rows(path("rows.csv"));
    const Made made = made_so_far(rows, static_cast<int>(ladder_.policy.repetitions));
    auto keep = [&](const Row& row) {
        rows_->write(row);
        ++result_.rows;
    };
    double busy_s = 0;  // without the waiting
    int finished = 0;
    for (int round = 0; round < session_.planned_rounds; ++round) {
        const auto order = round_order(arms_.size(), round, static_cast<std::uint64_t>(ladder_.policy.seed));
        const bool open = std::any_of(arms_.begin(), arms_.end(),
                                      [&](const Arm& arm) { return !made.closed.contains({arm.id, round}); });
        if (!open) continue;
        check_stop();
        options_.progress(
            fmt::format("waiting for a quiet machine, round {} of {}", round + 1, session_.planned_rounds));
        auto guards = wait_until_quiet(ladder_.policy, gpus_, options_.stop);
        const double a_round_s = finished > 0 ? busy_s / finished : round_s();
        options_.progress(fmt::format("round {} of {}, about {:.0f} s left", round + 1,
                                      session_.planned_rounds,
                                      a_round_s * (session_.planned_rounds - round)));
        const auto start = Clock::now();
        if (options_.stale_build) {
            if (auto stale = options_.stale_build(); !stale.empty()) guards.push_back(stale);
        }
        for (std::size_t slot = 0; slot < order.size(); ++slot) {
            const Arm& arm = arms_[order[slot]];
            if (made.closed.contains({arm.id, round})) continue;
            check_stop();
            const Job timed = job(arm);
            Row pattern{.session = session_.id,
                        .round = round,
                        .slot = static_cast<int>(slot),
                        .arm = arm.id,
                        .executable = timed.foreign ? "" : hashes_[timed.build]};
            pattern.not_quotable = guards;
            if (const auto begun = made.repetitions.find({arm.id, round}); begun != made.repetitions.end()) {
                // Half a process cannot be gone on with; its rows stay, and this says why it does not count.
                pattern.repetition = begun->second;
                pattern.invalid = k_interrupted;
                keep(pattern);
                continue;
            }
            std::mt19937_64 random(static_cast<std::uint64_t>(ladder_.policy.seed) * 1000003 +
                                   static_cast<std::uint64_t>(round) * 257 + slot);
            const StealMeter steal;
            play(
                timed, log(fmt::format("{}-round{}", arm.id, round)), pattern,
                [&](const Row& row) {
                    Row marked = row;
                    if (steal.percent() > ladder_.policy.busy_steal)
                        marked.not_quotable.push_back(fmt::format("steal: the hypervisor took more than {} %",
                                                                  ladder_.policy.busy_steal));
                    keep(marked);
                },
                "", std::string(random() % 4096, 'x'));
        }
        busy_s += since(start);
        ++finished;
    }
}

void Runner::finish() {
    session_.environment_after = lightmill::ladder::environment();
    for (std::size_t b = 0; b < options_.builds.size(); ++b)
        if (sha256_file(copies_[b]) != hashes_[b])
            note("BINARY_CHANGED: the copy of the program changed during the session");
    write_session(options_.output, session_);
}

RunResult Runner::run() {
    result_.directory = options_.output;
    if (options_.resume) {
        if (!fs::exists(path("session.json")))
            throw OptionError("output", options_.output,
                              "the directory of a session to resume; it holds no session.json");
        before_ = read_session(options_.output);
    }
    choose_rungs();
    open_directory();
    try {
        copy_builds(path("work"));
        make_input();
        calibrate();
        options_.say(plan_text());
        sweep();
        gates();
        plan_rounds();
        rounds();
        finish();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::interrupted) throw;
        result_.interrupted = true;
        write_session(options_.output, session_);
    }
    return result_;
}

std::string Runner::estimate() {
    choose_rungs();
    read_builds();
    session_.id = fmt::format("show-{:08x}", std::random_device{}());
    session_.planned_rounds = static_cast<int>(ladder_.policy.rounds);
    copy_builds((fs::path(options_.output) / session_.id).string());
    logs_ = shared("logs");
    fs::create_directory(logs_);
    make_input();
    calibrate();
    return plan_text();
}

}  // namespace

std::string estimate_ladder(const Ladder& ladder, const RunOptions& options) {
    return Runner(ladder, options).estimate();
}

RunResult run_ladder(const Ladder& ladder, const RunOptions& options) {
    return Runner(ladder, options).run();
}

}  // namespace lightmill::ladder

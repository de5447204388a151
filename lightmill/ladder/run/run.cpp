#include "lightmill/ladder/run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/ladder/report/directory.hpp"
#include "lightmill/ladder/run/guards.hpp"
#include "lightmill/ladder/run/rows.hpp"
#include "lightmill/ladder/run/worker.hpp"
#include "lightmill/ladder/run/workshop.hpp"

namespace lightmill::ladder {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr int k_sweep_rounds = 3;
constexpr double k_guards_s = 0.15;  // what looking at the machine takes before a round
constexpr const char* k_not_asked = "not asked for (--rungs)";
constexpr const char* k_interrupted = "INTERRUPTED: the session ended in the middle of this process";

double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

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
    Runner(const Ladder& ladder, const RunOptions& options)
        : ladder_(ladder), options_(options), workshop_(ladder, options) {}
    RunResult run();
    std::string estimate();

  private:
    void choose_rungs();
    void open_directory();
    void open_workshop(const std::string& otherwise);
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
    double round_s() const;
    void note(const std::string& text);
    void update_changes();
    const Expected& expected_for(const Rung& rung, const Settings& config);
    std::string path(const std::string& name) const { return (fs::path(options_.output) / name).string(); }
    SessionRung& session_rung(const std::string& id) {
        return *std::find_if(session_.rungs.begin(), session_.rungs.end(),
                             [&](const auto& r) { return r.id == id; });
    }
    void check_stop() const {
        if (options_.stop.stop_requested()) throw Error(ErrorCode::interrupted, "interrupted");
    }

    const Ladder& ladder_;
    const RunOptions& options_;
    Workshop workshop_;
    Session session_;
    std::vector<std::string> asked_;  // rungs; empty: all
    std::optional<Session> before_;   // as an interrupted session left it
    std::vector<Arm> arms_;           // those that run
    std::map<std::string, Expected> expected_;
    std::map<std::string, double> took_s_;  // a whole process of each arm, as far as is known
    double sweep_s_ = 0, gates_s_ = 0;      // what they will take, from one repetition of each rung
    std::optional<double> budget_s_;
    Settings swept_;  // what the sweep chose for the reference
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
    fs::create_directories(path("logs"));
    workshop_.set_logs(path("logs"));
    session_.policy.push_back({"executable", fmt::format("{}", fmt::join(workshop_.hashes(), " "))});
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
        if (before.work != session_.work)
            throw OptionError("resume", "other work than the session began with",
                              fmt::format("the same work, {}", before.work));
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

void Runner::open_workshop(const std::string& otherwise) {
    if (const std::string why = workshop_.open(session_.id, otherwise); !why.empty())
        note(fmt::format("input and programs lie on a disk, in {}: {}", otherwise, why));
    options_.progress("making the input");
    const std::string input = workshop_.make_input();
    if (!input.empty()) session_.policy.push_back({"input", input});
    if (before_ && !value(before_->policy, "input").empty() && value(before_->policy, "input") != input)
        throw Error(ErrorCode::state,
                    "the input is another one than the session began with: start a new session");
}

void Runner::note(const std::string& text) {
    if (std::find(session_.notes.begin(), session_.notes.end(), text) != session_.notes.end()) return;
    session_.notes.push_back(text);
    options_.say(text);
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
        took_s_[arm.id] = workshop_.process_s({rung.subject, config_of(rung), build_of(arm), false, nullptr},
                                              "calibrate-" + arm.id);
        gates_s_ += took_s_[arm.id];
        const auto settings = plain(rung, config_of(rung));
        if (!settings) continue;
        double& took = plain_s[encoded(*settings)];
        if (took == 0) {
            took = workshop_.process_s({ladder_.subject, *settings, 0, false, nullptr},
                                       "calibrate-plain-" + arm.id);
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

std::optional<Settings> Runner::plain(const Rung& rung, const Settings& config) const {
    return ladder_.subject->scalar(ladder_.work, rung.answer ? *rung.answer
                                                 : rung.subject == ladder_.subject
                                                     ? config
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
    expected.file = workshop_.shared(name);
    const Job plain{ladder_.subject, settings, 0, false, nullptr};
    std::string failure = workshop_.play(
        plain, name, {}, [&](const Row& row) { expected.checksums.push_back(row.checksum); }, expected.file,
        "");
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
                        .executable = workshop_.hashes()[0]};
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
            workshop_.play(
                job, fmt::format("sweep-{}-{}", i, round), pattern,
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
        const std::string output = workshop_.shared(entry.status == "reference" ? "reference" : "gated");
        const auto start = Clock::now();
        Row pattern{.session = session_.id, .round = round, .arm = arm.id};
        if (!gated.foreign) pattern.executable = workshop_.hashes()[gated.build];
        const std::string failure = workshop_.play(
            gated, "gate-" + arm.id, pattern, [&](const Row& row) { writer.write(row); }, output, "");
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
    session_.policy.push_back({"hardware_counters", workshop_.counters()});
    session_.policy.push_back(
        {"gpu", workshop_.gpus().why_not().empty() ? "watched" : workshop_.gpus().why_not()});
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
    const Family family = analyse(session_).family;
    if (const int least = minimum_rounds(family.alpha_per_claim()); session_.planned_rounds < least)
        note(fmt::format("{} rounds are too few for any interval among {} claims: at least {} are needed",
                         session_.planned_rounds, family.claims, least));
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
        auto guards = wait_until_quiet(ladder_.policy, workshop_.gpus(), options_.stop);
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
                        .executable = timed.foreign ? "" : workshop_.hashes()[timed.build]};
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
            workshop_.play(
                timed, fmt::format("{}-round{}", arm.id, round), pattern,
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
        if (sha256_file(workshop_.copies()[b]) != workshop_.hashes()[b])
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
        open_workshop(path("work"));
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
    session_.id = fmt::format("show-{:08x}", std::random_device{}());
    session_.planned_rounds = static_cast<int>(ladder_.policy.rounds);
    open_workshop((fs::path(options_.output) / session_.id).string());
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

#include "lightmill/ladder/report/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lightmill::ladder {
namespace {

constexpr double k_invalid_limit = 0.2;       // of a rung's processes
constexpr double k_coarse_steps = 1000;       // a timed region shorter than so many clock steps is not timed
constexpr double k_settling_limit = 0.1;      // so much longer may the second repetition take
constexpr double k_slot_effect_limit = 0.02;  // ln; above it the place in the round is worth a note

// One number a process, and what it rests on.
struct Process {
    int slot = 0;
    bool valid = true;
    double cold_s = 0;
    std::vector<double> warm;
    [[nodiscard]] double warm_s() const { return median(warm); }
};
using Processes = std::map<int, Process>;  // by round

Processes by_round(const std::vector<SessionRow>& rows) {
    Processes processes;
    for (const auto& row : rows) {
        Process& process = processes[row.round];
        process.slot = row.slot;
        if (!row.invalid.empty() || !(row.wall_s > 0)) process.valid = false;
        if (row.repetition == 0) {
            process.cold_s = row.wall_s;
        } else {
            process.warm.push_back(row.wall_s);
        }
    }
    for (auto& [round, process] : processes)
        if (!(process.cold_s > 0)) process.valid = false;  // died before its first repetition was whole
    return processes;
}

// Rungs are compared at equal repetitions: warm with warm, or, where one has nothing warm, cold with cold.
Claim compare(const std::string& base_id, const Processes& base, const Processes& rung, bool cold,
              double alpha) {
    Claim claim;
    claim.base = base_id;
    for (const auto& [round, b] : base) {
        const auto found = rung.find(round);
        if (found == rung.end() || !b.valid || !found->second.valid) continue;
        const Process& r = found->second;
        if (!cold && (b.warm.empty() || r.warm.empty())) continue;
        claim.d.push_back(std::log(cold ? b.cold_s / r.cold_s : b.warm_s() / r.warm_s()));
        claim.rounds.push_back(round);
    }
    claim.estimate = estimate(claim.d, alpha);
    return claim;
}

template <class Get>
double median_of(const std::vector<SessionRow>& rows, bool cold, Get get) {
    std::vector<double> values;
    for (const auto& row : rows)
        if (row.invalid.empty() && (row.repetition == 0) == cold) values.push_back(get(row));
    return values.empty() ? 0 : median(std::move(values));
}

std::string percent(double ratio_minus_one) {
    return std::isfinite(ratio_minus_one) ? fmt::format("{:.2g} %", 100 * ratio_minus_one)
                                          : std::string("unbounded");
}

std::string rounds_text(std::size_t n) {
    return fmt::format("{} round{}", n, n == 1 ? "" : "s");
}

// Guards and failures say "what: detail"; the detail differs from row to row.
std::string kind_of(const std::string& reason) {
    const auto colon = reason.find(": ");
    return colon == std::string::npos || colon > 40 ? reason : reason.substr(0, colon);
}

// Reasons of one kind together: in which rounds, and one of them in full.
struct Reasons {
    struct Seen {
        std::string example;
        std::set<int> rounds;
        std::set<std::string> rungs;
        bool differ = false;
    };
    std::map<std::string, Seen> kinds;

    void add(const std::string& reason, int round, const std::string& rung) {
        Seen& seen = kinds[kind_of(reason)];
        seen.differ = seen.differ || (!seen.example.empty() && seen.example != reason);
        if (seen.example.empty()) seen.example = reason;
        seen.rounds.insert(round);
        seen.rungs.insert(rung);
    }
    // "busy machine, such as: 3 other threads run"
    [[nodiscard]] static std::string text(const std::string& kind, const Seen& seen) {
        return seen.differ ? fmt::format("{}, such as{}", kind, seen.example.substr(kind.size()))
                           : seen.example;
    }
};

void add_once(std::vector<std::string>& list, const std::string& text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

class Analysis {
  public:
    explicit Analysis(Session session) { summary_.session = std::move(session); }

    Summary run() {
        sort_rows();
        count_claims();
        for (const auto& rung : summary_.session.rungs) {
            if (rung.status == "null") {
                null_id_ = rung.id;
                summary_.null_rung = describe(rung);
            } else {
                summary_.rungs.push_back(describe(rung));
            }
        }
        judge_null_arm();
        for (auto& rung : summary_.rungs) claims(rung);
        for (auto& rung : summary_.rungs) quotability(rung);
        slots();
        guards();
        changes();
        session_quotability();
        summary_.session.rows.clear();
        return std::move(summary_);
    }

  private:
    void sort_rows() {
        auto& rows = summary_.session.rows;
        std::stable_sort(rows.begin(), rows.end(), [](const SessionRow& a, const SessionRow& b) {
            return std::tie(a.round, a.slot, a.repetition) < std::tie(b.round, b.slot, b.repetition);
        });
        for (const auto& row : rows) rows_[row.rung].push_back(row);
        for (const auto& [id, rung_rows] : rows_) processes_[id] = by_round(rung_rows);
        // A round counts as done when every arm that passed its gate and made rows at all has one in it.
        std::map<int, std::size_t> done;
        std::size_t arms = 0;
        for (const auto& rung : summary_.session.rungs) {
            if (rung.status == "reference") reference_id_ = rung.id;
            const auto processes = processes_.find(rung.id);
            if (processes == processes_.end() || !rung.gate_failure.empty()) continue;
            ++arms;
            for (const auto& [round, process] : processes->second) ++done[round];
        }
        for (const auto& [round, count] : done)
            if (count == arms) ++summary_.rounds;
    }

    // The family is what the ladder declares, whatever became of it: a rung that fails later was still one of
    // the chances to find something.
    void count_claims() {
        Family& family = summary_.family;
        family.alpha = summary_.session.alpha;
        family.looks = std::max<int>(1, static_cast<int>(summary_.session.looks.size()));
        std::set<std::pair<std::string, std::string>> pairs;
        std::set<std::string> runnable;
        for (const auto& rung : summary_.session.rungs)
            if (rung.not_run.empty()) runnable.insert(rung.id);
        for (const auto& rung : summary_.session.rungs) {
            if (rung.status == "null" || rung.status == "reference" || runnable.count(rung.id) == 0) continue;
            pairs.emplace(rung.id, reference_id_);
            if (runnable.count(rung.before) != 0) pairs.emplace(rung.id, rung.before);
        }
        family.claims = std::max<int>(1, static_cast<int>(pairs.size()));
    }

    RungSummary describe(const SessionRung& rung) {
        RungSummary s;
        s.rung = rung;
        s.rows = rows_[rung.id];
        const Processes& processes = processes_[rung.id];
        s.processes = static_cast<int>(processes.size());
        for (const auto& [round, process] : processes)
            if (!process.valid) ++s.invalid_processes;
        if (!rung.not_run.empty()) {
            s.state = "not run";
            s.state_reason = rung.not_run;
        } else if (!rung.gate_failure.empty()) {
            s.state = "gate failed";
            s.state_reason = rung.gate_failure;
        } else if (s.processes == 0) {
            s.state = "not run";
            s.state_reason = "no rows: the session ended before its first turn";
        } else if (s.invalid_processes > k_invalid_limit * s.processes) {
            s.state = "invalid";
            s.state_reason = fmt::format("{} of {} processes are invalid", s.invalid_processes, s.processes);
            Reasons reasons;
            for (const auto& row : s.rows)
                if (!row.invalid.empty()) reasons.add(row.invalid, row.round, rung.id);
            for (const auto& [kind, seen] : reasons.kinds)
                s.state_reason +=
                    fmt::format("; {} in {}", Reasons::text(kind, seen), rounds_text(seen.rounds.size()));
        } else {
            s.state = "timed";
        }
        if (s.state == "timed" || s.state == "invalid") times(s, processes);
        return s;
    }

    void times(RungSummary& s, const Processes& processes) {
        std::vector<double> cold, warm;
        for (const auto& [round, process] : processes) {
            if (!process.valid) continue;
            cold.push_back(process.cold_s);
            if (!process.warm.empty()) warm.push_back(process.warm_s());
        }
        if (cold.empty()) return;
        s.cold_only = warm.empty();
        s.cold_s = median(cold);
        s.warm_s = s.cold_only ? s.cold_s : median(warm);
        s.best_s = s.warm_s;
        for (const auto& row : s.rows)
            if (row.invalid.empty() && (s.cold_only || row.repetition > 0))
                s.best_s = std::min(s.best_s, row.wall_s);
        s.spread = s.warm_s / s.best_s - 1;
        s.cpu_s =
            median_of(s.rows, s.cold_only, [](const SessionRow& row) { return row.user_s + row.system_s; });
        const double items = median_of(s.rows, s.cold_only, [](const SessionRow& row) { return row.items; });
        s.items_per_s = items / s.warm_s;
        auto faults = [](const SessionRow& row) { return static_cast<double>(row.minor_faults); };
        s.cold_faults = median_of(s.rows, true, faults);
        s.warm_faults = s.cold_only ? s.cold_faults : median_of(s.rows, false, faults);
        for (const auto& row : s.rows) {
            s.major_faults += static_cast<double>(row.major_faults);
            s.peak_rss_bytes = std::max(s.peak_rss_bytes, row.peak_rss_bytes);
        }
        if (summary_.session.probe) {
            const Probe& probe = *summary_.session.probe;
            s.fault_share = s.warm_faults * probe.page_fault_s / s.warm_s;
            if (s.warm_s < k_coarse_steps * probe.clock_resolution_s)
                s.not_quotable.push_back(fmt::format(
                    "timed region of {} is shorter than 1000 steps of the clock", time_text(s.warm_s)));
            floor(s, probe);
        }
        settling(s);
        if (s.cold_only) s.flags.push_back("one repetition a process: its time is a cold one");
        if (s.fault_share > 0.1)
            s.flags.push_back(fmt::format("page faults are about {:.0f} % of its time", 100 * s.fault_share));
        if (s.major_faults > 0)
            s.flags.push_back(fmt::format("{:.0f} faults read from disk", s.major_faults));
        if (s.invalid_processes > 0)
            s.flags.push_back(
                fmt::format("{} of {} processes dropped as invalid", s.invalid_processes, s.processes));
    }

    // Warm is meant to be settled: caches filled, heap grown.
    static void settling(RungSummary& s) {
        std::vector<double> second, later;
        for (const auto& row : s.rows)
            if (row.invalid.empty() && row.repetition > 0)
                (row.repetition == 1 ? second : later).push_back(row.wall_s);
        if (second.empty() || later.empty()) return;
        const double ratio = median(std::move(second)) / median(std::move(later));
        if (ratio > 1 + k_settling_limit)
            s.flags.push_back(
                fmt::format("not settled: repetition 1 takes {:.0f} % longer than the ones after "
                            "it; more repetitions a process narrow its intervals",
                            100 * (ratio - 1)));
    }

    static void floor(RungSummary& s, const Probe& probe) {
        if (s.rung.work.empty()) return;
        Floor floor;
        double tallest = 0;
        for (const auto& load : s.rung.work) {
            const double rate = ceiling(probe, load.resource);
            if (rate <= 0) {
                s.flags.push_back(
                    fmt::format("its floor leaves out {}: the probe has no ceiling for it", load.resource));
                continue;
            }
            const double seconds = load.amount / rate;
            floor.bars.push_back({load.resource, seconds});
            floor.seconds =
                s.rung.work_is_serial ? floor.seconds + seconds : std::max(floor.seconds, seconds);
            if (seconds > tallest) {
                tallest = seconds;
                floor.resource = load.resource;
            }
        }
        if (floor.bars.empty()) return;
        floor.fraction = floor.seconds / s.warm_s;
        if (floor.fraction > 1)
            s.not_quotable.push_back(
                fmt::format("{:.0f} % of its floor: an error in the declared work or in the probe, not a win",
                            100 * floor.fraction));
        s.floor = std::move(floor);
    }

    [[nodiscard]] bool cold_only(const std::string& id) const {
        const auto found = processes_.find(id);
        if (found == processes_.end()) return false;
        return std::all_of(found->second.begin(), found->second.end(),
                           [](const auto& entry) { return entry.second.warm.empty(); });
    }

    Claim compare_ids(const std::string& base, const std::string& rung) {
        const bool cold = cold_only(base) || cold_only(rung);
        return compare(base, processes_[base], processes_[rung], cold, summary_.family.alpha_per_claim());
    }

    void judge_null_arm() {
        const double delta = summary_.session.delta;
        summary_.has_null_arm = !null_id_.empty() && !processes_[null_id_].empty();
        if (summary_.has_null_arm) summary_.null_arm = compare_ids(reference_id_, null_id_);
        const Estimate& e = summary_.null_arm.estimate;
        summary_.trust = judge_session(e, delta);
        const SessionTrust& trust = summary_.trust;
        if (!summary_.has_null_arm) {
            summary_.trust_text =
                "INVALID: no null arm was run, so nothing shows what this session calls different by chance.";
        } else if (e.rounds == 0) {
            summary_.trust_text =
                "INVALID: the null arm has no round in which it and the reference are valid.";
        } else if (!trust.valid) {
            summary_.trust_text = fmt::format(
                "INVALID: the reference run twice differs from itself, {}. Whatever did that is in every "
                "other row too.",
                ratio_text(e));
        } else if (!e.bounded()) {
            summary_.trust_text = fmt::format(
                "UNRESOLVED: {} rounds are too few for any interval among {} claims (at least {} are "
                "needed).",
                e.rounds, summary_.family.claims, minimum_rounds(summary_.family.alpha_per_claim()));
        } else if (!trust.same_allowed) {
            summary_.trust_text = fmt::format(
                "Valid, but noisy: the reference run twice gives {}, wider than the margin of {}. "
                "Differences below {} "
                "cannot be claimed, and nothing can be called the same.",
                ratio_text(e), percent(delta), percent(trust.margin));
        } else {
            summary_.trust_text =
                fmt::format("Valid: the reference run twice gives {}; the smallest difference claimed is {}.",
                            ratio_text(e), percent(trust.margin));
        }
        if (summary_.has_null_arm)
            summary_.null_arm.verdict = !trust.valid         ? Verdict::invalid
                                        : trust.same_allowed ? Verdict::same
                                                             : Verdict::unresolved;
    }

    Claim judged(const RungSummary& s, const std::string& base) {
        Claim claim = compare_ids(base, s.rung.id);
        claim.verdict = judge(claim.estimate, summary_.trust);
        const RungSummary* base_rung = find(summary_, base);
        if (s.state == "invalid") {
            claim.verdict = Verdict::invalid;
            claim.why = s.state_reason;
        } else if (base_rung != nullptr && base_rung->state == "invalid") {
            claim.verdict = Verdict::invalid;
            claim.why = fmt::format("{}: {}", base, base_rung->state_reason);
        } else if (claim.verdict == Verdict::invalid) {
            claim.why =
                summary_.has_null_arm ? "the null arm says the session is not to be trusted" : "no null arm";
        } else if (claim.verdict == Verdict::unresolved) {
            claim.why = unresolved(claim.estimate);
        }
        return claim;
    }

    [[nodiscard]] std::string unresolved(const Estimate& e) const {
        const SessionTrust& trust = summary_.trust;
        if (!e.bounded())
            return fmt::format("{} valid rounds, at least {} are needed for {} claims", e.rounds,
                               minimum_rounds(summary_.family.alpha_per_claim()), summary_.family.claims);
        if (e.excludes_one())
            return fmt::format("a difference below the {} that this session can claim",
                               percent(trust.margin));
        if (!trust.same_allowed) return "the interval holds 1, and the null arm is too wide to say SAME";
        return "the interval holds 1 and is wider than the margin: more rounds, or a quieter machine";
    }

    void claims(RungSummary& s) {
        if (s.state != "timed" && s.state != "invalid") return;
        if (s.rung.status == "reference") return;
        if (const auto* base = find(summary_, reference_id_); base != nullptr && base->processes > 0)
            s.against_reference = judged(s, reference_id_);
        const RungSummary* before = find(summary_, s.rung.before);
        if (before != nullptr && before->processes > 0 &&
            (before->state == "timed" || before->state == "invalid"))
            s.against_before = judged(s, s.rung.before);
        for (const auto* claim : {&s.against_reference, &s.against_before}) {
            if (!*claim) continue;
            const Estimate& e = (*claim)->estimate;
            if (e.widened)
                add_once(
                    s.flags,
                    fmt::format("rounds hang together (lag-1 {:.2f}): the interval against {} is widened",
                                e.lag1, (*claim)->base));
            if (cold_only((*claim)->base) && !s.cold_only)
                add_once(s.flags, fmt::format("compared with {} at the cold repetition: it has no other",
                                              (*claim)->base));
        }
    }

    void quotability(RungSummary& s) {
        if (s.state != "timed") {
            s.not_quotable.insert(s.not_quotable.begin(), s.state + ": " + s.state_reason);
            return;
        }
        for (const auto& reason : s.rung.not_quotable) add_once(s.not_quotable, reason);
        Reasons reasons;
        for (const auto& row : s.rows)
            for (const auto& reason : row.not_quotable) reasons.add(reason, row.round, s.rung.id);
        for (const auto& [kind, seen] : reasons.kinds)
            s.not_quotable.push_back(fmt::format("{} (in {} of {} rounds)", Reasons::text(kind, seen),
                                                 seen.rounds.size(), s.processes));
    }

    // Median over all arms of ln(time / the arm's own median), by place in the round: random order and its
    // mirror should leave nothing here.
    void slots() {
        std::vector<double> values;
        std::vector<int> places;
        for (const auto& [id, processes] : processes_) {
            std::vector<double> logs;
            const bool cold = cold_only(id);
            for (const auto& [round, process] : processes)
                if (process.valid && (cold || !process.warm.empty()))
                    logs.push_back(std::log(cold ? process.cold_s : process.warm_s()));
            const double centre = logs.empty() ? 0 : median(logs);
            std::size_t i = 0;
            for (const auto& [round, process] : processes)
                if (process.valid && (cold || !process.warm.empty())) {
                    values.push_back(logs[i++] - centre);
                    places.push_back(process.slot);
                }
        }
        summary_.slots = medians_by_group(values, places);
        if (summary_.slots.size() < 2) return;
        const auto [low, high] = std::minmax_element(
            summary_.slots.begin(), summary_.slots.end(),
            [](const GroupMedian& a, const GroupMedian& b) { return a.median < b.median; });
        if (high->median - low->median > k_slot_effect_limit && low->count >= 5 && high->count >= 5)
            summary_.notes.push_back(fmt::format(
                "the place in the round matters: turns in place {} took {:.1f} % longer than in place {} "
                "(median); the "
                "mirrored orders spread this over all rungs",
                high->group + 1, 100 * (std::exp(high->median - low->median) - 1), low->group + 1));
    }

    void guards() {
        Reasons reasons;
        for (const auto& [id, rows] : rows_)
            for (const auto& row : rows) {
                for (const auto& reason : row.not_quotable) reasons.add(reason, row.round, id);
                if (!row.invalid.empty()) reasons.add(row.invalid, row.round, id);
            }
        for (const auto& [kind, seen] : reasons.kinds)
            summary_.guards.push_back({Reasons::text(kind, seen),
                                       static_cast<int>(seen.rounds.size()),
                                       {seen.rungs.begin(), seen.rungs.end()}});
    }

    void changes() {
        const auto& before = summary_.session.environment_before;
        const auto& after = summary_.session.environment_after;
        for (const auto& fact : before) {
            const auto now = value(after, fact.name);
            if (!after.empty() && now != fact.value && fact.name != "time" && fact.name != "load_average")
                summary_.changed_environment.push_back(
                    fmt::format("{}: {} → {}", fact.name, fact.value, now));
        }
    }

    void session_quotability() {
        const Session& session = summary_.session;
        if (!summary_.trust.valid) summary_.not_quotable.push_back("the session is INVALID");
        if (summary_.rounds < session.planned_rounds &&
            std::find(session.looks.begin(), session.looks.end(), summary_.rounds) == session.looks.end())
            summary_.not_quotable.push_back(fmt::format("stopped after {} of {} rounds, at no declared look",
                                                        summary_.rounds, session.planned_rounds));
        for (const auto& change : summary_.changed_environment)
            if (identifies_machine(change.substr(0, change.find(':'))))
                summary_.not_quotable.push_back("the machine changed during the session: " + change);
        for (auto& rung : summary_.rungs)
            if (rung.state == "timed")
                for (const auto& reason : summary_.not_quotable) add_once(rung.not_quotable, reason);
    }

    Summary summary_;
    std::string reference_id_;
    std::string null_id_;
    std::map<std::string, std::vector<SessionRow>> rows_;
    std::map<std::string, Processes> processes_;
};

}  // namespace

Summary analyse(Session session) {
    return Analysis(std::move(session)).run();
}

const RungSummary* find(const Summary& summary, std::string_view id) noexcept {
    for (const auto& rung : summary.rungs)
        if (rung.rung.id == id) return &rung;
    return nullptr;
}

const RungSummary* reference(const Summary& summary) noexcept {
    for (const auto& rung : summary.rungs)
        if (rung.rung.status == "reference") return &rung;
    return nullptr;
}

}  // namespace lightmill::ladder

#pragma once
// From a session's rows to what may be said about its rungs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lightmill/ladder/report/session.hpp"
#include "lightmill/ladder/report/statistics.hpp"

namespace lightmill::ladder {

// A rung against another one of the same session, from rounds in which both are valid.
struct Claim {
    std::string base;  // id of the rung it is compared with
    Estimate estimate;
    Verdict verdict = Verdict::unresolved;
    std::string why;        // of UNRESOLVED and INVALID
    std::vector<double> d;  // ln(base/rung), one a round, in the order of `rounds`
    std::vector<int> rounds;
};

// The shortest time that this machine allows for the declared work.
struct Floor {
    double seconds = 0;
    std::string resource;    // the tallest bar: the one that binds
    double fraction = 0;     // floor / warm median; above 1 the floor is wrong, not the rung fast
    std::vector<Load> bars;  // seconds of each resource, in the order declared
};

struct RungSummary {
    SessionRung rung;
    std::string state;  // "timed", "gate failed", "not run", "invalid"
    std::string state_reason;
    int processes = 0;          // fresh processes that made rows
    int invalid_processes = 0;  // of these, dropped from every pair
    bool cold_only = false;     // one repetition a process: nothing warm to speak of
    // Seconds; medians over processes. Warm is the median of the repetitions after the first.
    double cold_s = 0;
    double warm_s = 0;  // the time that counts: of cold_only rungs the cold one
    double best_s = 0;
    double spread = 0;  // warm / best - 1
    double cpu_s = 0;   // user + system of a warm repetition
    double items_per_s = 0;
    // Medians of repetition 0 and of the warm ones.
    double cold_faults = 0;
    double warm_faults = 0;
    double major_faults = 0;  // sum over all rows
    double fault_share = 0;   // of the warm time, at the probe's cost of a fault
    std::int64_t peak_rss_bytes = 0;
    std::optional<Claim> against_reference;
    std::optional<Claim> against_before;
    std::optional<Floor> floor;
    std::vector<std::string> flags;         // worth knowing
    std::vector<std::string> not_quotable;  // empty: quotable
    std::vector<SessionRow> rows;           // every repetition, in order
};

struct GuardCount {
    std::string what;
    int rounds = 0;  // in so many rounds
    std::vector<std::string> rungs;
};

struct Summary {
    Session session;  // rows have moved to the rungs
    int rounds = 0;   // rounds in which every arm had its turn
    Family family;
    SessionTrust trust;
    std::string trust_text;  // what the null arm says, in a sentence
    Claim null_arm;
    bool has_null_arm = false;
    RungSummary null_rung;           // its times and rows
    std::vector<RungSummary> rungs;  // without the null arm, in the ladder's order
    std::vector<GuardCount> guards;
    std::vector<GroupMedian> slots;  // median of ln(time / the arm's median) by place in the round
    std::vector<std::string> changed_environment;  // "load_average: 0.1 → 1.9"
    std::vector<std::string> notes;
    std::vector<std::string> not_quotable;  // of the whole session
};

[[nodiscard]] Summary analyse(Session session);

// The rung with that id, or null.
[[nodiscard]] const RungSummary* find(const Summary& summary, std::string_view id) noexcept;
[[nodiscard]] const RungSummary* reference(const Summary& summary) noexcept;

[[nodiscard]] std::string to_json(const Summary& summary);
// Tables of text: for a terminal of any width, or Markdown.
enum class TableStyle { terminal, markdown };
[[nodiscard]] std::string to_text(const Summary& summary, TableStyle style);

// Time in a unit that fits: "12.3 ms".
[[nodiscard]] std::string time_text(double seconds);
// "34 %", "0.3 %"
[[nodiscard]] std::string percent_text(double fraction);
// "2.31 [2.20, 2.42]"
[[nodiscard]] std::string ratio_text(const Estimate& estimate);

}  // namespace lightmill::ladder

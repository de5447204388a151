#pragma once
// One session of a ladder as its directory holds it, in the terms that the analysis needs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lightmill/ladder/probe/environment.hpp"
#include "lightmill/ladder/probe/probe.hpp"

namespace lightmill::ladder {

// So much of one resource (one of resources()), for one repetition.
struct Load {
    std::string resource;
    double amount = 0;  // bytes or operations
};

struct SessionRung {
    std::string id;
    std::string label;
    std::string
        status;  // "reference", "adopted", "rejected", "candidate"; "null" for the reference's second copy
    std::string reason;  // why it was rejected, or what it is
    std::string before;  // id of the rung before it; empty for the first
    std::vector<Fact> configuration;
    std::vector<std::string> changes;  // against the rung before, "threads: 1 → 4"
    std::string not_run;               // why it could not run here, or was not asked to; empty where it ran
    std::string gate_failure;          // where and how its answer differs; empty where it passed
    std::string gate_distance;         // to the reference rung's answer, in words
    std::vector<Load> work;
    bool work_is_serial = false;  // loads follow one another instead of overlapping
    std::vector<std::string>
        not_quotable;        // of the rung as a whole: thread count not swept, stale build, ...
    std::string executable;  // of the arm, where the session compares builds
};

// One repetition.
struct SessionRow {
    std::string rung;
    int round = 0;
    int slot = 0;        // place in the round's order
    int repetition = 0;  // 0 is the cold one
    double wall_s = 0;
    double user_s = 0;
    double system_s = 0;
    std::int64_t minor_faults = 0;
    std::int64_t major_faults = 0;
    std::int64_t voluntary_switches = 0;
    std::int64_t involuntary_switches = 0;
    std::int64_t peak_rss_bytes = 0;
    double items = 0;                       // per repetition, 0 where the subject does not say
    std::string invalid;                    // why this row does not count; empty where it does
    std::vector<std::string> not_quotable;  // guards that fired in its round
};

struct Session {
    std::string directory;
    std::string name;
    std::string subject;
    std::string work;  // the work in words or options, the same for every rung
    std::string id;
    int planned_rounds = 0;
    std::vector<int>
        looks;  // rounds at which the session might stop, declared before the first; at least one
    double alpha = 0.05;
    double delta = 0.01;
    std::vector<Fact> policy;
    std::vector<Fact> environment_before;
    std::vector<Fact> environment_after;  // empty where the session was interrupted
    std::vector<SessionRung> rungs;       // in the ladder's order
    std::vector<SessionRow> rows;
    std::optional<Probe> probe;
    std::vector<std::string> notes;  // what the runner or the reader of the directory found strange
};

}  // namespace lightmill::ladder

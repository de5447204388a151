#pragma once
// Runs a ladder: gates, then rounds of fresh processes, every row on disk as it is made.

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lightmill/ladder/plan/plan.hpp"
#include "lightmill/ladder/probe/probe.hpp"

namespace lightmill::ladder {

// A build of the program that runs our own subjects. More than one: builds compete as arms.
struct Build {
    std::string label;
    std::string path;
};

struct RunOptions {
    std::string output;                    // directory of the session
    std::vector<Build> builds;             // at least one
    std::vector<std::string> worker_verb;  // arguments that make the program a worker
    std::vector<std::string> environment;  // of all workers, NAME=VALUE
    std::optional<int> rounds;             // in place of the policy's
    std::vector<std::string> rungs;        // these alone and the reference; empty: all
    std::optional<double> budget_s;        // fewer rounds, so that they take no longer
    bool resume = false;
    std::string memory =
        "/dev/shm";  // a file system in memory for what processes share, where it has the room
    std::string gpu_library = "libnvidia-ml.so.1";  // what tells clocks and use of GPUs
    std::optional<Probe> probe;                     // kept beside the rows
    std::function<std::string()>
        stale_build;  // says why the build is not the source tree's; empty where it is
    std::stop_token stop;
    // Lines for a person, between processes only.
    std::function<void(const std::string&)> say = [](const std::string&) {};
    // Where the session stands; nothing is called while a rung is timed.
    std::function<void(const std::string&)> progress = [](const std::string&) {};
};

struct RunResult {
    std::string directory;
    int rounds = 0;  // planned after all cuts
    bool interrupted = false;
    std::size_t rows = 0;  // that this call made
    std::size_t gate_failures = 0;
};

// How long a session would take, in words, from one repetition of each rung: nothing is gated, compared or
// kept. `output` is the folder to work in where `memory` has no room; rounds and budget have no meaning here.
[[nodiscard]] std::string estimate_ladder(const Ladder& ladder, const RunOptions& options);

// Throws OptionError, IoError. What a rung does wrong is in its rows.
RunResult run_ladder(const Ladder& ladder, const RunOptions& options);

}  // namespace lightmill::ladder

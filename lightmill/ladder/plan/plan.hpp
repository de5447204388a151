#pragma once
// A ladder file, read and checked: docs/ladder.md describes it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/ladder/gate/gate.hpp"
#include "lightmill/ladder/plan/settings.hpp"
#include "lightmill/ladder/plan/subject.hpp"

namespace lightmill::ladder {

// How everything is measured: one for the whole ladder, no rung can change it.
struct Policy {
    std::int64_t rounds = 24;
    std::int64_t repetitions = 6;  // in a process: the cold one and the warm ones
    double alpha = 0.05;
    double delta = 0.01;
    std::int64_t seed = 1;
    double timeout_s = 300;
    double busy_wait_s = 20;
    std::int64_t busy_threads = 1;
    double busy_pressure = 20;
    double busy_steal = 5;
    friend bool operator==(const Policy&, const Policy&) = default;
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, Policy>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "rounds",
                     .help = "fresh processes a rung: 12 screen, 24 decide, 48 for less than a percent",
                     .minimum = 1,
                     .maximum = 10000},
          options.rounds);
    visit(OptionInfo{.name = "repetitions",
                     .help = "repetitions in a process, the first of them cold",
                     .minimum = 1,
                     .maximum = 10000},
          options.repetitions);
    visit(OptionInfo{.name = "alpha",
                     .help = "chance that any interval of the session misses",
                     .minimum = 0,
                     .maximum = 0.5,
                     .above_minimum = true},
          options.alpha);
    visit(OptionInfo{.name = "delta", .help = "margin of SAME", .minimum = 0, .maximum = 1}, options.delta);
    visit(OptionInfo{.name = "seed", .help = "of the order of the rungs in each round", .minimum = 0},
          options.seed);
    visit(OptionInfo{.name = "timeout_s",
                     .help = "the longest that a rung may take to answer one request",
                     .unit = "s",
                     .minimum = 0,
                     .maximum = 86400,
                     .above_minimum = true},
          options.timeout_s);
    visit(OptionInfo{.name = "busy_wait_s",
                     .help = "the longest wait for a quiet machine before a round",
                     .unit = "s",
                     .minimum = 0,
                     .maximum = 3600},
          options.busy_wait_s);
    visit(OptionInfo{.name = "busy_threads",
                     .help = "other threads that may run on a quiet machine",
                     .minimum = 0,
                     .maximum = 100000},
          options.busy_threads);
    visit(OptionInfo{.name = "busy_pressure",
                     .help = "CPU pressure (PSI some, 10 s) of a quiet machine",
                     .unit = "%",
                     .minimum = 0,
                     .maximum = 100},
          options.busy_pressure);
    visit(OptionInfo{.name = "busy_steal",
                     .help = "time that the hypervisor may take during a process",
                     .unit = "%",
                     .minimum = 0,
                     .maximum = 100},
          options.busy_steal);
}

enum class Status { reference, adopted, rejected, candidate };
[[nodiscard]] std::span<const std::string_view> names(Status);

// Whether files and folders may be named by it: letters, digits, '-', '_', '.'.
[[nodiscard]] bool good_id(std::string_view id) noexcept;

struct Rung {
    std::string id;
    std::string label;
    Status status = Status::candidate;
    std::string before;  // id, empty for none
    std::string reason;  // of a rejected one: why
    std::string act;     // the chapter that it belongs to
    const SubjectType* subject = nullptr;
    Settings config;                   // common settings included
    std::optional<Settings> answer;    // of a foreign rung: options of the ladder's subject that give
                                       // the answer it must match
    std::vector<Fact> configuration;   // all options, defaults included
    std::vector<std::string> changes;  // against the rung before
    std::string unavailable;           // why it cannot run here
    int line = 0;
    [[nodiscard]] bool compound() const noexcept { return changes.size() > 1; }
};

struct Ladder {
    std::string file;
    std::string text;  // as read
    Place place;
    std::string name;
    std::string title;
    const SubjectType* subject = nullptr;
    Settings work;
    std::vector<Fact> work_facts;
    Policy policy;
    Tolerance tolerance;          // of foreign rungs; our own are compared bit by bit
    std::vector<Settings> sweep;  // settings of the reference to try before the first round
    std::vector<Rung> rungs;
    [[nodiscard]] const Rung& reference() const;
    [[nodiscard]] const Rung* find(std::string_view id) const noexcept;
    [[nodiscard]] std::string work_text() const;
};

// "threads: 1 → 2" for every option of the same name that has another value.
[[nodiscard]] std::vector<std::string> changes(const std::vector<Fact>& before,
                                               const std::vector<Fact>& after);

// Throws FormatError for a file, key or value that is not allowed, naming file, line, what was found and what
// was expected. `text` is the file's content, `file` its path; programs of foreign rungs are taken relative
// to it.
// work: settings in place of those of the file's [work].
[[nodiscard]] Ladder parse_ladder(const std::string& text, const std::string& file, const Subjects& subjects,
                                  const Variables& variables, const Settings& work = {});
[[nodiscard]] Ladder read_ladder(const std::string& file, const Subjects& subjects,
                                 const Variables& variables, const Settings& work = {});

// One thing that takes its turn in every round.
struct Arm {
    std::string id;  // of the rung; "null" for the reference's second copy; "rung@build" where builds compete
    std::size_t rung = 0;    // in Ladder::rungs
    std::string executable;  // label of the build; empty where there is one only
    bool null = false;
};

// The order of a round: random, and the mirror of it in the round after. The same seed gives the same
// orders everywhere.
[[nodiscard]] std::vector<std::size_t> round_order(std::size_t arms, int round, std::uint64_t seed);

// The plan in words: rungs, what changes from one to the next, what cannot run here, how it is measured.
[[nodiscard]] std::string to_text(const Ladder& ladder);

}  // namespace lightmill::ladder

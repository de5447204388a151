#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "app/verb_ladder.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/ladder/report/directory.hpp"
#include "lightmill/ladder/run/guards.hpp"
#include "lightmill/ladder/run/run.hpp"
#include "lightmill/ladder/run/worker.hpp"
#include "lightmill/subjects/subjects.hpp"
#include "source_digest.hpp"

extern char** environ;

namespace lightmill::app {
namespace {

struct Arguments {
    std::string file;
    std::string output;
    std::string probe;
    std::vector<std::string> rungs;
    std::vector<std::string> executables;
    int rounds = 0;
    double budget_s = 0;
    bool resume = false;
    bool quiet = false;
};

std::vector<std::string> environment() {
    std::vector<std::string> all;
    for (char** at = environ; *at != nullptr; ++at) all.emplace_back(*at);
    return all;
}
ladder::Variables variables() {
    ladder::Variables all;
    for (const auto& text : environment()) {
        const auto equals = text.find('=');
        all[text.substr(0, equals)] = text.substr(std::min(text.size(), equals + 1));
    }
    return all;
}

// Why this program is not what the source tree beside it would give; empty where it is, or where there is
// none.
std::string stale_build() {
    const std::string now = ladder::source_digest(k_source_root);
    return now.empty() || now == k_source_digest ? std::string()
                                                 : "stale build: the sources changed since it was built";
}

int run(const Arguments& arguments) {
    const auto stop = stop_token();
    const auto plan = ladder::read_ladder(arguments.file, subjects::all(), variables());
    ladder::RunOptions options;
    options.output = arguments.output;
    options.worker_verb = {"ladder-worker"};
    options.environment = environment();
    for (const auto& text : arguments.executables) {
        const auto equals = text.find('=');
        if (equals == std::string::npos || equals == 0)
            throw OptionError("executable", text, "LABEL=PATH, such as base=build/release/app/lightmill");
        options.builds.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
    if (options.builds.empty())
        options.builds.push_back({"", std::filesystem::read_symlink("/proc/self/exe").string()});
    if (arguments.rounds != 0) options.rounds = arguments.rounds;
    if (arguments.budget_s != 0) {
        if (!(arguments.budget_s > 0))
            throw OptionError("budget", fmt::format("{}", arguments.budget_s), "a number of seconds above 0");
        options.budget_s = arguments.budget_s;
    }
    options.rungs = arguments.rungs;
    options.resume = arguments.resume;
    options.stale_build = stale_build;
    options.stop = stop;
    if (!arguments.probe.empty())
        options.probe = ladder::probe_from_json(read_file(arguments.probe), arguments.probe);
    ladder::RunResult result;
    {
        ProgressLine line(arguments.quiet);
        options.say = [&](const std::string& text) {
            if (line.visible()) line.show("");
            fmt::print(stderr, "{}\n", text);
        };
        options.progress = [&](const std::string& text) {
            if (line.visible()) line.show(text);
        };
        result = ladder::run_ladder(plan, options);
    }
    if (result.interrupted) {
        fmt::print(stderr, "interrupted after {} rows; go on with: lightmill ladder run {} -o {} --resume\n",
                   result.rows, arguments.file, arguments.output);
        return stop_signal_code() != 0 ? stop_signal_code() : k_interrupted;
    }
    const auto summary = ladder::write_report(arguments.output);
    fmt::print("{}", ladder::to_text(summary, ladder::TableStyle::terminal));
    return summary.trust.valid ? k_ok : k_difference;
}

}  // namespace

void add_ladder_run(CLI::App& ladder, Program& program) {
    auto* verb = ladder.add_subcommand("run", "gate every rung, then time all of them in interleaved rounds");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("file", arguments->file, "ladder file (TOML)")->required();
    verb->add_option("-o,--output", arguments->output, "directory for the session")->required();
    verb->add_option("--rounds", arguments->rounds, "rounds in place of the ladder's");
    verb->add_option("--rungs", arguments->rungs, "only these rungs and the reference")->delimiter(',');
    verb->add_option("--budget", arguments->budget_s, "fewer rounds, so that they take no longer [s]");
    verb->add_option("--executable", arguments->executables,
                     "LABEL=PATH of a build of this program; several compete, the first is the base");
    verb->add_option("--probe", arguments->probe, "ceilings of this machine (ladder probe), for floors");
    verb->add_flag("--resume", arguments->resume,
                   "go on with an interrupted session; rows that are there stay");
    verb->add_flag("-q,--quiet", arguments->quiet, "no progress line");
    verb->footer(
        "Prints the time it will take once every rung has passed its gate. Run it on a quiet machine.\n"
        "Exit code 1: the null arm says that the session is INVALID.\n"
        "Example: lightmill ladder run ladders/examples/matrix.toml -o matrix-session");
    verb->callback([arguments, &program] { program.exit_code = run(*arguments); });
}

void add_ladder_show(CLI::App& ladder, Program&) {
    auto* verb = ladder.add_subcommand("show", "check a ladder file and print the plan as it would run here");
    auto file = std::make_shared<std::string>();
    verb->add_option("file", *file, "ladder file (TOML)")->required();
    verb->footer("Example: lightmill ladder show ladders/clusters-3x3.toml");
    verb->callback([file] {
        fmt::print("{}", ladder::to_text(ladder::read_ladder(*file, subjects::all(), variables())));
    });
}

void add_ladder_worker(Program& program) {
    // What `ladder run` starts; not for people.
    auto* verb = program.app.add_subcommand("ladder-worker", "")->group("");
    verb->prefix_command();
    verb->callback(
        [verb, &program] { program.exit_code = ladder::serve(verb->remaining(), subjects::all(), 0, 3); });
}

}  // namespace lightmill::app

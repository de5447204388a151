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
    std::vector<std::string> work;
    std::optional<int> rounds;
    std::optional<double> budget_s;
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

// Our own rungs run in copies of this program.
ladder::RunOptions of_this_program() {
    ladder::RunOptions options;
    options.builds = {{"", std::filesystem::read_symlink("/proc/self/exe").string()}};
    options.worker_verb = {"ladder-worker"};
    options.environment = environment();
    return options;
}

ladder::Ladder read(const Arguments& arguments) {
    ladder::Settings work;
    for (const auto& text : arguments.work) work.push_back(ladder::parse_setting(text));
    return ladder::read_ladder(arguments.file, subjects::all(), variables(), work);
}
void add_work(CLI::App& verb, Arguments& arguments) {
    verb.add_option("--work", arguments.work,
                    "NAME=VALUE in place of the ladder's [work]; may be given again");
}

int run(const Arguments& arguments) {
    const auto plan = read(arguments);
    ladder::RunOptions options = of_this_program();
    options.output = arguments.output;
    std::vector<ladder::Build> builds;
    for (const auto& text : arguments.executables) {
        const auto equals = text.find('=');
        if (equals == std::string::npos || equals == 0)
            throw OptionError("executable", text, "LABEL=PATH, such as base=build/release/app/lightmill");
        builds.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
    if (!builds.empty()) options.builds = std::move(builds);
    options.rounds = arguments.rounds;
    options.budget_s = arguments.budget_s;
    options.rungs = arguments.rungs;
    options.resume = arguments.resume;
    options.stale_build = stale_build;
    options.stop = stop_token();
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
        std::string again;
        for (const auto& text : arguments.executables) again += " --executable " + text;
        for (const auto& text : arguments.work) again += " --work " + text;
        fmt::print(stderr,
                   "interrupted after {} rows; go on with: lightmill ladder run {} -o {}{} --resume\n",
                   result.rows, arguments.file, arguments.output, again);
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
    add_work(*verb, *arguments);
    verb->add_option("--budget", arguments->budget_s, "fewer rounds, so that they take no longer [s]");
    verb->add_option("--executable", arguments->executables,
                     "LABEL=PATH of a build of this program; several compete, the first is the base");
    verb->add_option("--probe", arguments->probe, "ceilings of this machine (ladder probe), for floors");
    verb->add_flag("--resume", arguments->resume,
                   "go on with an interrupted session as it began; rows that are there stay");
    verb->add_flag("-q,--quiet", arguments->quiet, "no progress line");
    verb->footer(
        "Runs every rung once to say how long it will take, then sweeps, gates and times. Run it on a quiet\n"
        "machine. Exit code 1: the null arm says that the session is INVALID.\n"
        "Examples:\n"
        "  lightmill ladder run ladders/examples/matrix.toml -o matrix-session\n"
        "  lightmill ladder run ladders/clusters-3x3.toml -o session --rungs simd,bands --budget 60\n"
        "  lightmill ladder run ladders/clusters-3x3.toml -o session --resume");
    verb->callback([arguments, &program] { program.exit_code = run(*arguments); });
}

void add_ladder_show(CLI::App& ladder, Program&) {
    auto* verb = ladder.add_subcommand("show", "check a ladder file and print the plan as it would run here");
    auto arguments = std::make_shared<Arguments>();
    auto estimate = std::make_shared<bool>(false);
    verb->add_option("file", arguments->file, "ladder file (TOML)")->required();
    add_work(*verb, *arguments);
    verb->add_flag("--estimate", *estimate,
                   "how long a session would take, from one repetition of each rung");
    verb->add_option("--rungs", arguments->rungs, "estimate these rungs and the reference only")
        ->delimiter(',');
    verb->add_flag("-q,--quiet", arguments->quiet, "no progress line");
    verb->footer(
        "Starts nothing, but for --estimate, which runs every rung once and keeps nothing.\n"
        "Examples:\n"
        "  lightmill ladder show ladders/clusters-3x3.toml\n"
        "  lightmill ladder show ladders/examples/matrix.toml --estimate");
    verb->callback([arguments, estimate] {
        const auto plan = read(*arguments);
        fmt::print("{}", ladder::to_text(plan));
        if (!*estimate) return;
        auto options = of_this_program();
        options.output = std::filesystem::temp_directory_path().string();
        options.rungs = arguments->rungs;
        options.stop = stop_token();
        std::string text;
        {
            ProgressLine line(arguments->quiet);
            options.progress = [&](const std::string& step) {
                if (line.visible()) line.show(step);
            };
            text = ladder::estimate_ladder(plan, options);
        }
        fmt::print("{}\n", text);
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

#include <fmt/format.h>

#include <memory>

#include "app/verb_ladder.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/ladder/probe/probe.hpp"

namespace lightmill::app {
namespace {

struct Arguments {
    std::string output;
    bool json = false;
    bool overwrite = false;
    bool quiet = false;
    int threads = 0;
    double seconds = 10;
};

void run(const Arguments& arguments) {
    if (arguments.threads < 0 || arguments.threads > 4096)
        throw OptionError("threads", fmt::format("{}", arguments.threads),
                          "a whole number from 0 up to 4096");
    if (!(arguments.seconds >= 0.1 && arguments.seconds <= 600))
        throw OptionError("seconds", fmt::format("{}", arguments.seconds), "a number from 0.1 up to 600");
    if (!arguments.output.empty()) require_writable(arguments.output, arguments.overwrite);
    ladder::Probe probe;
    {
        ProgressLine line(arguments.quiet);
        const auto stop = stop_token();
        probe = ladder::probe(
            {.threads = arguments.threads, .budget_s = arguments.seconds}, [&](const Progress& progress) {
                if (stop.stop_requested())
                    throw Error(ErrorCode::interrupted, "interrupted: nothing was written");
                if (line.visible()) line.show(fmt::format("probing {} / {}", progress.done, progress.total));
            });
    }
    if (!arguments.output.empty()) write_file(arguments.output, ladder::to_json(probe));
    fmt::print("{}", arguments.json ? ladder::to_json(probe) : ladder::to_text(probe));
}

}  // namespace

void add_ladder_probe(CLI::App& ladder, Program&) {
    auto* verb = ladder.add_subcommand(
        "probe", "measure this machine's ceilings: memory, caches, arithmetic, page faults");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("-o,--output", arguments->output,
                     "file for the ceilings (JSON); a ladder's floors are made of it");
    verb->add_flag("--json", arguments->json, "print JSON instead of a table");
    verb->add_flag("--overwrite", arguments->overwrite, "replace the output file");
    verb->add_flag("-q,--quiet", arguments->quiet, "no progress line");
    verb->add_option("--threads", arguments->threads, "the most threads to try; 0: as many as may be used")
        ->capture_default_str();
    verb->add_option("--seconds", arguments->seconds, "time for all passes together [s]")
        ->capture_default_str();
    verb->footer(
        "Keeps every thread busy for about ten seconds; run it on a quiet machine.\n"
        "Example: lightmill ladder probe -o probe.json");
    verb->callback([arguments] { run(*arguments); });
}

}  // namespace lightmill::app

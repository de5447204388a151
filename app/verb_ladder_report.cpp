#include <fmt/format.h>

#include <memory>

#include "app/verb_ladder.hpp"
#include "lightmill/ladder/report/directory.hpp"

namespace lightmill::app {
namespace {

struct Arguments {
    std::string directory;
    bool json = false;
    bool markdown = false;
};

int run(const Arguments& arguments) {
    const ladder::Summary summary = ladder::write_report(arguments.directory);
    if (arguments.json) {
        fmt::print("{}", ladder::to_json(summary));
    } else {
        fmt::print("{}", ladder::to_text(summary, arguments.markdown ? ladder::TableStyle::markdown
                                                                     : ladder::TableStyle::terminal));
        fmt::print(stderr, "{}/report.html written\n", arguments.directory);
    }
    return summary.trust.valid ? k_ok : k_difference;
}

}  // namespace

void add_ladder_report(CLI::App& ladder, Program& program) {
    auto* verb =
        ladder.add_subcommand("report", "analyse a session again and write its tables and report.html");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("directory", arguments->directory, "directory of a session")->required();
    auto* json = verb->add_flag("--json", arguments->json, "print the summary as JSON");
    verb->add_flag("--markdown", arguments->markdown, "print the table as Markdown")->excludes(json);
    verb->footer(
        "Writes summary.json, summary.md, report.html (one file, opens offline) and manifest.json into the\n"
        "directory. Exit code 1: the null arm says that the session is INVALID.\n"
        "Example: lightmill ladder report results/clusters-3x3");
    verb->callback([arguments, &program] { program.exit_code = run(*arguments); });
}

}  // namespace lightmill::app

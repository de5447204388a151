#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "app/verb_ladder.hpp"
#include "lightmill/ladder/report/compare.hpp"
#include "lightmill/ladder/report/directory.hpp"

namespace lightmill::app {
namespace {

struct Arguments {
    std::string first;
    std::string second;
    bool json = false;
    bool markdown = false;
};

int run(const Arguments& arguments) {
    const auto comparison = ladder::compare(ladder::analyse(ladder::read_session(arguments.first)),
                                            ladder::analyse(ladder::read_session(arguments.second)),
                                            arguments.first, arguments.second);
    fmt::print("{}", arguments.json
                         ? ladder::to_json(comparison)
                         : ladder::to_text(comparison, arguments.markdown ? ladder::TableStyle::markdown
                                                                          : ladder::TableStyle::terminal));
    const bool slower = std::any_of(comparison.rungs.begin(), comparison.rungs.end(),
                                    [](const auto& rung) { return rung.verdict == "SLOWER"; });
    return comparison.why_not.empty() && !slower ? k_ok : k_difference;
}

}  // namespace

void add_ladder_compare(CLI::App& ladder, Program& program) {
    auto* verb =
        ladder.add_subcommand("compare", "two sessions: what changed, as far as they can be compared");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("first", arguments->first, "directory of the earlier session")->required();
    verb->add_option("second", arguments->second, "directory of the later session")->required();
    auto* json = verb->add_flag("--json", arguments->json, "print JSON");
    verb->add_flag("--markdown", arguments->markdown, "print Markdown")->excludes(json);
    verb->footer(
        "Only the same work, configuration and machine are compared, bridged through the reference that "
        "both\n"
        "sessions share; what is left out is listed with its reason. Writes nothing. Exit code 1: a rung is\n"
        "SLOWER, or nothing could be compared.\n"
        "Example: lightmill ladder compare results/before results/after");
    verb->callback([arguments, &program] { program.exit_code = run(*arguments); });
}

}  // namespace lightmill::app

#include "app/verb_ladder.hpp"

namespace lightmill::app {

void add_ladder(Program& program) {
    auto* ladder =
        program.app.add_subcommand("ladder", "measure steps against each other, gated and interleaved");
    ladder->require_subcommand(1);
    ladder->footer(
        "Example, a ladder whose speeds are known beforehand:\n"
        "  lightmill ladder show ladders/examples/demo.toml\n"
        "  lightmill ladder run ladders/examples/demo.toml -o demo-session\n"
        "docs/ladder.md explains the file, the session and the line protocol.");
    add_ladder_run(*ladder, program);
    add_ladder_show(*ladder, program);
    add_ladder_report(*ladder, program);
    add_ladder_compare(*ladder, program);
    add_ladder_probe(*ladder, program);
    add_ladder_worker(program);
}

}  // namespace lightmill::app

#pragma once
// The verbs under `lightmill ladder`, one file each.

#include "app/program.hpp"

namespace lightmill::app {

void add_ladder_run(CLI::App& ladder, Program& program);
void add_ladder_show(CLI::App& ladder, Program& program);
void add_ladder_worker(Program& program);  // the hidden verb of the processes that `run` starts
void add_ladder_probe(CLI::App& ladder, Program& program);
void add_ladder_report(CLI::App& ladder, Program& program);
void add_ladder_compare(CLI::App& ladder, Program& program);

}  // namespace lightmill::app

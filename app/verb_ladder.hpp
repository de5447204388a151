#pragma once
// The verbs under `lightmill ladder`, one file each.

#include "app/program.hpp"

namespace lightmill::app {

void add_ladder_probe(CLI::App& ladder, Program& program);
void add_ladder_report(CLI::App& ladder, Program& program);
void add_ladder_compare(CLI::App& ladder, Program& program);

}  // namespace lightmill::app

#include "app/program.hpp"

namespace lightmill::app {

void add_simulate(Program&) {}

}  // namespace lightmill::app

#include "app/program.hpp"

namespace lightmill::app {

void add_ladder(Program&) {}

}  // namespace lightmill::app

#include "app/program.hpp"

namespace lightmill::app {

void add_pedestal(Program&) {}

}  // namespace lightmill::app

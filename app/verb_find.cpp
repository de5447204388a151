#include "app/program.hpp"

namespace lightmill::app {

void add_find(Program&) {}

}  // namespace lightmill::app

#include "app/program.hpp"

namespace lightmill::app {

void add_info(Program&) {}

}  // namespace lightmill::app

#pragma once
// Where a verb's --model leads.

#include <string>

#include "lightmill/vision/embed/model.hpp"

namespace lightmill::app {

// A folder with config.json and model.safetensors. Throws OptionError where it is none.
[[nodiscard]] vision::ModelFiles find_model(const std::string& model);

}  // namespace lightmill::app

#pragma once
// Where a verb's --model leads.

#include <string>

#include "lightmill/vision/embed/model.hpp"

namespace lightmill::app {

// A folder with config.json and model.safetensors, or a manifest's name: then its files in the cache,
// verified. Throws OptionError where it is neither, Error(unavailable) where files are missing, FormatError
// where their content is not the expected one.
[[nodiscard]] vision::ModelFiles find_model(const std::string& model);

}  // namespace lightmill::app

#include "app/models.hpp"

#include <filesystem>

#include "lightmill/base/error.hpp"

namespace lightmill::app {

vision::ModelFiles find_model(const std::string& model) {
    namespace fs = std::filesystem;
    if (!fs::is_regular_file(fs::path(model) / "config.json"))
        throw OptionError("model", model, "a folder with config.json and model.safetensors");
    return vision::files_of_folder(model);
}

}  // namespace lightmill::app

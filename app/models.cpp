#include "app/models.hpp"

#include <filesystem>

#include "app/model_settings.hpp"
#include "lightmill/base/error.hpp"

namespace lightmill::app {

vision::ModelFiles find_model(const std::string& model) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (fs::is_regular_file(fs::path(model) / "config.json", error)) return vision::files_of_folder(model);
    if (fs::exists(model, error) || model.find('/') != std::string::npos)
        throw OptionError(
            "model", model,
            "a folder with config.json and model.safetensors, or a name of `lightmill models list`");
    const auto settings = model_settings();
    const auto manifests = vision::read_manifests(settings.manifests);
    const auto& manifest = vision::find_manifest(manifests, model);
    const auto paths = vision::require_model(manifest, settings.store);
    vision::ModelFiles files;
    files.name = manifest.name;
    files.config = paths.at("config.json");
    files.weights = paths.at("model.safetensors");
    files.defaults = manifest.defaults;
    files.processor = manifest.processor;
    return files;
}

}  // namespace lightmill::app

#pragma once
// A model ready to embed images: its tower and what it wants images to be made into.

#include <map>
#include <string>

#include "lightmill/vision/image/processor.hpp"
#include "lightmill/vision/tower/tower.hpp"

namespace lightmill::vision {

// Where a model's parts are.
struct ModelFiles {
    std::string name;
    std::string config;   // config.json
    std::string weights;  // model.safetensors
    ConfigDefaults defaults;
    std::map<std::string, std::string>
        processor;  // options of the processor that differ from the model type's own
};

// config.json and model.safetensors of a folder, which gives the name.
[[nodiscard]] ModelFiles files_of_folder(const std::string& folder);

struct Model {
    std::string name;
    ProcessorOptions processor;
    Tower tower;
};

// Idefics3 and SmolVLM: tiles, Lanczos; SigLIP: a square, bicubic; the tile is the tower's image. Throws
// OptionError for an unknown option.
[[nodiscard]] ProcessorOptions processor_of(const TowerConfig& config,
                                            const std::map<std::string, std::string>& options);
// Reads and packs with so many threads. Throws IoError, FormatError, OptionError.
[[nodiscard]] Model load_model(const ModelFiles& files, const std::string& target = "auto", int threads = 1);

// Every option with its value, in one line: what two results must share to be compared.
[[nodiscard]] std::string processor_text(const ProcessorOptions& options);

}  // namespace lightmill::vision

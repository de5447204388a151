#include "lightmill/vision/embed/model.hpp"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/vision/weights/safetensors.hpp"

namespace lightmill::vision {
namespace {

// A field from its text.
template <class T>
void assign(const OptionInfo& info, T& field, const std::string& text) {
    const auto refuse = [&] { throw OptionError(std::string(info.name), text, allowed_values(info, field)); };
    if constexpr (std::is_enum_v<T>) {
        const auto all = names(T{});
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i] == text) {
                field = static_cast<T>(i);
                return;
            }
        }
        refuse();
    } else if constexpr (std::is_same_v<T, bool>) {
        if (text != "true" && text != "false") refuse();
        field = text == "true";
    } else {
        T value{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size()) refuse();
        field = value;
    }
}

}  // namespace

ModelFiles files_of_folder(const std::string& folder) {
    const std::filesystem::path path(folder);
    auto name = path.filename().string();
    if (name.empty()) name = path.parent_path().filename().string();  // "folder/"
    return {name, (path / "config.json").string(), (path / "model.safetensors").string(), {}, {}};
}

ProcessorOptions processor_of(const TowerConfig& config, const std::map<std::string, std::string>& options) {
    ProcessorOptions processor;
    processor.tile = config.image;
    // The longer edge is a whole number of tiles: 2048 for tiles of 512.
    processor.longest_edge = 4 * config.image;
    if (config.head == Head::pooling) {
        processor.layout = Layout::square;
        processor.filter = Filter::bicubic;
    }
    for (const auto& [name, text] : options) {
        bool known = false;
        visit_options(processor, [&, &name = name, &text = text](const OptionInfo& info, auto& field) {
            if (info.name != name) return;
            assign(info, field, text);
            known = true;
        });
        if (!known) throw OptionError("processor." + name, text, "an option of the processor");
    }
    check_options(processor);
    if (processor.tile != config.image)
        throw OptionError("processor.tile", fmt::format("{}", processor.tile),
                          fmt::format("{}: the tower's images are of that size", config.image));
    return processor;
}

Model load_model(const ModelFiles& files, const std::string& target, int threads) {
    const auto config = parse_config(read_file(files.config), files.config, files.defaults).config;
    auto processor = processor_of(config, files.processor);
    const SafetensorsFile weights(files.weights);
    return {files.name, processor, Tower(config, weights, target, threads)};
}

std::string processor_text(const ProcessorOptions& options) {
    std::string text;
    visit_options(options, [&](const OptionInfo& info, const auto& field) {
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", info.name, option_text(field));
    });
    return text;
}

}  // namespace lightmill::vision

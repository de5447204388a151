#include "lightmill/vision/weights/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "lightmill/base/error.hpp"

namespace lightmill::vision {
namespace {

using Json = nlohmann::json;

constexpr std::string_view k_types = "idefics3, smolvlm, siglip or siglip_vision_model";

// Looks a key up: in the file, then in the defaults.
class Reader {
  public:
    Reader(const Json& root, const std::string& path, const ConfigDefaults& defaults)
        : root_(root), path_(path), defaults_(defaults) {}

    std::int64_t whole(const std::string& key) {
        if (const Json* value = find(key)) {
            if (!value->is_number_integer() || value->get<std::int64_t>() <= 0 ||
                value->get<std::int64_t>() > (std::int64_t{1} << 24))
                throw FormatError(
                    path_, -1, fmt::format("{} is {}, expected a whole number above 0", key, value->dump()));
            note(key, value->dump(), "config.json");
            return value->get<std::int64_t>();
        }
        const auto text = default_of(key, "a whole number");
        std::int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc{} || end != text.data() + text.size() || number <= 0)
            throw FormatError(
                path_, -1,
                fmt::format("the default of {} is {}, expected a whole number above 0", key, text));
        return number;
    }
    double number(const std::string& key) {
        if (const Json* value = find(key)) {
            if (!value->is_number() || !(value->get<double>() > 0))
                throw FormatError(path_, -1,
                                  fmt::format("{} is {}, expected a number above 0", key, value->dump()));
            note(key, value->dump(), "config.json");
            return value->get<double>();
        }
        const auto text = default_of(key, "a number");
        double number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc{} || end != text.data() + text.size() || !(number > 0))
            throw FormatError(path_, -1,
                              fmt::format("the default of {} is {}, expected a number above 0", key, text));
        return number;
    }
    std::string text(const std::string& key) {
        if (const Json* value = find(key)) {
            if (!value->is_string())
                throw FormatError(path_, -1, fmt::format("{} is {}, expected text", key, value->dump()));
            note(key, value->get<std::string>(), "config.json");
            return value->get<std::string>();
        }
        return default_of(key, "text");
    }
    // A value of the defaults that no config.json holds.
    std::string name(const std::string& key, std::string_view otherwise, const std::string& type) {
        if (const auto found = defaults_.find(key); found != defaults_.end()) {
            note(key, found->second, "manifest");
            return found->second;
        }
        note(key, std::string(otherwise), "model type " + type);
        return std::string(otherwise);
    }
    std::vector<ConfigOrigin> origins() && { return std::move(origins_); }

  private:
    const Json* find(const std::string& key) const {
        const Json* at = &root_;
        std::string_view rest = key;
        while (!rest.empty()) {
            const auto dot = rest.find('.');
            const std::string part(rest.substr(0, dot));
            rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
            if (!at->is_object()) return nullptr;
            const auto found = at->find(part);
            if (found == at->end() || found->is_null()) return nullptr;
            at = &*found;
        }
        return at;
    }
    std::string default_of(const std::string& key, std::string_view kind) {
        const auto found = defaults_.find(key);
        if (found == defaults_.end())
            throw FormatError(
                path_, -1,
                fmt::format("{} is not there; expected {}, here or among the manifest's defaults", key,
                            kind));
        note(key, found->second, "manifest");
        return found->second;
    }
    void note(const std::string& key, std::string value, std::string source) {
        origins_.push_back({key, std::move(value), std::move(source)});
    }

    const Json& root_;
    const std::string& path_;
    const ConfigDefaults& defaults_;
    std::vector<ConfigOrigin> origins_;
};

}  // namespace

void check(const TowerConfig& c, const std::string& where) {
    const auto require = [&](bool holds, const std::string& message) {
        if (!holds) throw FormatError(where, -1, message);
    };
    for (const auto& [name, value] :
         {std::pair{"hidden_size", c.hidden}, std::pair{"intermediate_size", c.intermediate},
          std::pair{"num_hidden_layers", c.layers}, std::pair{"num_attention_heads", c.heads},
          std::pair{"num_channels", c.channels}, std::pair{"image_size", c.image},
          std::pair{"patch_size", c.patch}, std::pair{"the head's output size", c.output},
          std::pair{"scale_factor", c.shuffle}})
        require(value > 0 && value <= (std::int64_t{1} << 24),
                fmt::format("{} is {}, expected a whole number above 0", name, value));
    require(c.eps > 0 && std::isfinite(c.eps),
            fmt::format("layer_norm_eps is {}, expected a number above 0", c.eps));
    require(c.channels == 3, fmt::format("num_channels is {}, expected 3: pictures are RGB", c.channels));
    require(c.hidden % c.heads == 0,
            fmt::format("hidden_size {} is not a multiple of num_attention_heads {}", c.hidden, c.heads));
    require(c.image % c.patch == 0,
            fmt::format("image_size {} is not a multiple of patch_size {}", c.image, c.patch));
    require(
        c.side() % c.shuffle == 0,
        fmt::format("{} patches a side (image_size {} / patch_size {}) are not a multiple of scale_factor {}",
                    c.side(), c.image, c.patch, c.shuffle));
}

ParsedConfig parse_config(const std::string& text, const std::string& path, const ConfigDefaults& defaults) {
    Json root;
    try {
        root = Json::parse(text);
    } catch (const Json::parse_error& error) {
        throw FormatError(path, static_cast<std::int64_t>(error.byte),
                          fmt::format("not JSON: {}", error.what()));
    }
    if (!root.is_object())
        throw FormatError(path, 0, "expected a JSON object, as config.json of a Hugging Face model is");
    Reader reader(root, path, defaults);
    const auto type = reader.text("model_type");
    ParsedConfig parsed;
    auto& c = parsed.config;
    std::string section = "vision_config.";
    if (type == "idefics3" || type == "smolvlm") {
        c.head = Head::connector;
        if (!root.contains("vision_config"))
            throw FormatError(path, -1, "vision_config is not there: a model without a vision tower?");
        c.prefix = reader.name("tensors.prefix", "model.vision_model.", type);
        c.connector =
            reader.name("tensors.connector", "model.connector.modality_projection.proj.weight", type);
        c.shuffle = reader.whole("scale_factor");
        c.output = reader.whole("text_config.hidden_size");
    } else if (type == "siglip" || type == "siglip_vision_model") {
        c.head = Head::pooling;
        c.prefix = reader.name("tensors.prefix", "vision_model.", type);
        if (type == "siglip_vision_model") section.clear();
    } else {
        throw FormatError(path, -1, fmt::format("model_type is {}, expected {}", type, k_types));
    }
    c.hidden = reader.whole(section + "hidden_size");
    c.intermediate = reader.whole(section + "intermediate_size");
    c.layers = reader.whole(section + "num_hidden_layers");
    c.heads = reader.whole(section + "num_attention_heads");
    c.channels = reader.whole(section + "num_channels");
    c.image = reader.whole(section + "image_size");
    c.patch = reader.whole(section + "patch_size");
    c.eps = reader.number(section + "layer_norm_eps");
    const auto act = reader.text(section + "hidden_act");
    if (act != "gelu_pytorch_tanh")
        throw FormatError(path, -1,
                          fmt::format("{}hidden_act is {}, expected gelu_pytorch_tanh", section, act));
    if (c.head == Head::pooling) c.output = c.hidden;
    parsed.origins = std::move(reader).origins();
    check(c, path);
    return parsed;
}

std::vector<TensorSpec> tower_tensors(const TowerConfig& c) {
    std::vector<TensorSpec> all;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
        all.push_back({c.prefix + name, std::move(shape)});
    };
    const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
        add(name + ".weight", {out, in});
        add(name + ".bias", {out});
    };
    const auto norm = [&](const std::string& name) {
        add(name + ".weight", {c.hidden});
        add(name + ".bias", {c.hidden});
    };
    add("embeddings.patch_embedding.weight", {c.hidden, c.channels, c.patch, c.patch});
    add("embeddings.patch_embedding.bias", {c.hidden});
    add("embeddings.position_embedding.weight", {c.patches(), c.hidden});
    for (std::int64_t i = 0; i < c.layers; ++i) {
        const auto layer = fmt::format("encoder.layers.{}.", i);
        norm(layer + "layer_norm1");
        for (const auto* name : {"q_proj", "k_proj", "v_proj", "out_proj"})
            linear(fmt::format("{}self_attn.{}", layer, name), c.hidden, c.hidden);
        norm(layer + "layer_norm2");
        linear(layer + "mlp.fc1", c.intermediate, c.hidden);
        linear(layer + "mlp.fc2", c.hidden, c.intermediate);
    }
    norm("post_layernorm");
    if (c.head == Head::pooling) {
        add("head.probe", {1, 1, c.hidden});
        add("head.attention.in_proj_weight", {3 * c.hidden, c.hidden});
        add("head.attention.in_proj_bias", {3 * c.hidden});
        linear("head.attention.out_proj", c.hidden, c.hidden);
        norm("head.layernorm");
        linear("head.mlp.fc1", c.intermediate, c.hidden);
        linear("head.mlp.fc2", c.hidden, c.intermediate);
    } else {
        all.push_back({c.connector, {c.output, c.shuffle * c.shuffle * c.hidden}});
    }
    return all;
}

std::int64_t element_count(const std::vector<std::int64_t>& shape) noexcept {
    std::int64_t n = 1;
    for (const auto extent : shape) n *= extent;
    return n;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

void check_tensors(const TensorSource& source, const TowerConfig& config) {
    std::map<std::string, std::vector<std::int64_t>> there;
    for (auto& tensor : source.tensors()) there.emplace(std::move(tensor.name), std::move(tensor.shape));
    std::set<std::string> known;
    for (const auto& expected : tower_tensors(config)) {
        const auto found = there.find(expected.name);
        if (found == there.end())
            throw FormatError(source.place(), -1,
                              fmt::format("tensor {} is not there, expected it with shape {}", expected.name,
                                          shape_text(expected.shape)));
        if (found->second != expected.shape)
            throw FormatError(source.place(), -1,
                              fmt::format("tensor {} has shape {}, expected {}", expected.name,
                                          shape_text(found->second), shape_text(expected.shape)));
        known.insert(expected.name);
    }
    for (const auto& [name, shape] : there) {
        // Buffers that older checkpoints kept.
        if (!name.starts_with(config.prefix) || name.ends_with(".position_ids")) continue;
        if (!known.contains(name))
            throw FormatError(
                source.place(), -1,
                fmt::format("tensor {} of shape {} belongs to no part of this tower of {} layers: "
                            "does config.json belong to this file?",
                            name, shape_text(shape), config.layers));
    }
}

}  // namespace lightmill::vision

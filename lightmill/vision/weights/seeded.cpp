#include "lightmill/vision/weights/seeded.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/vision/weights/safetensors.hpp"

namespace lightmill::vision {
namespace {

// FNV-1a of a tensor's name.
std::uint64_t name_hash(std::string_view name) {
    std::uint64_t h = 0xcbf29ce484222325U;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return h;
}

// splitmix64 at counter i.
std::uint64_t random_bits(std::uint64_t key, std::uint64_t i) {
    std::uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
}

// The sum of four 16-bit numbers less its mean: nearly normal, deviation k_deviation, exact in binary32.
float nearly_normal(std::uint64_t bits) {
    const auto sum = (bits & 0xffffU) + ((bits >> 16U) & 0xffffU) + ((bits >> 32U) & 0xffffU) + (bits >> 48U);
    return static_cast<float>(static_cast<std::int32_t>(sum) - 131070);
}
constexpr double k_deviation = 37837.2266;

// To the nearest bfloat16, half to even.
float to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16U) & 1U)) & 0xffff0000U);
}

bool has(std::string_view name, std::string_view part) {
    return name.find(part) != std::string_view::npos;
}

}  // namespace

SeededTensors::SeededTensors(TowerConfig config, SeededKind kind, std::uint64_t seed)
    : config_(std::move(config)), kind_(kind), seed_(seed), tensors_(tower_tensors(config_)) {}

std::string SeededTensors::place() const {
    return fmt::format("seeded weights ({}, seed {})", k_seeded_kinds[static_cast<std::size_t>(kind_)],
                       seed_);
}
std::vector<TensorSpec> SeededTensors::tensors() const {
    return tensors_;
}

void SeededTensors::read(const std::string& name, float* out) const {
    const auto spec =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.name == name; });
    if (spec == tensors_.end())
        throw Error(ErrorCode::state, fmt::format("there is no tensor {} in this tower", name), place());
    const auto n = element_count(spec->shape);
    const bool norm = has(name, "norm") && name.ends_with(".weight");
    double deviation = 0.02;
    if (kind_ == SeededKind::peaky && (has(name, "q_proj.weight") || has(name, "k_proj.weight")))
        deviation = std::sqrt(5.0 / static_cast<double>(config_.hidden));
    const auto scale = static_cast<float>(deviation / k_deviation);
    // Rows that write four channels of the residual stream.
    const bool outlier = kind_ == SeededKind::outlier && !has(name, "head.") &&
                         (has(name, "out_proj.weight") || has(name, "fc2.weight"));
    const auto row = spec->shape.empty() ? 1 : n / spec->shape.front();
    const auto spacing = std::max<std::int64_t>(config_.hidden / 4, 1);
    const std::uint64_t key = name_hash(name) ^ seed_;
    for (std::int64_t i = 0; i < n; ++i) {
        float v = nearly_normal(random_bits(key, static_cast<std::uint64_t>(i))) * scale;
        if (norm) v = 1.0F + v;
        v = to_bf16(v);
        if (outlier && (i / row) % spacing == spacing / 2) v *= 32.0F;
        out[i] = v;
    }
}

void write_seeded(const TowerConfig& config, SeededKind kind, std::uint64_t seed, const FileDescriptor& file,
                  const std::string& path) {
    const SeededTensors source(config, kind, seed);
    std::vector<TensorInfo> infos;
    std::int64_t at = 0;
    for (const auto& spec : source.tensors()) {
        const auto bytes = 2 * element_count(spec.shape);
        infos.push_back({spec.name, Dtype::bf16, spec.shape, at, at + bytes});
        at += bytes;
    }
    const auto header = safetensors_header(
        infos, {{"format", "pt"},
                {"generator", fmt::format("lightmill seeded 1, {}, seed {}",
                                          k_seeded_kinds[static_cast<std::size_t>(kind)], seed)}});
    write_all(file, path, std::as_bytes(std::span(header)));
    std::vector<float> values;
    std::vector<std::uint16_t> words;
    for (const auto& info : infos) {
        const auto n = static_cast<std::size_t>(element_count(info.shape));
        values.resize(n);
        words.resize(n);
        source.read(info.name, values.data());
        for (std::size_t i = 0; i < n; ++i)
            words[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16U);
        write_all(file, path, std::as_bytes(std::span(words)));
    }
}

void write_seeded(const TowerConfig& config, SeededKind kind, std::uint64_t seed, const std::string& path,
                  bool overwrite) {
    require_writable(path, overwrite);
    const auto partial = partial_path(path);
    {
        const FileDescriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        if (!file.is_open()) throw IoError(partial, "open", errno, io_advice(errno));
        write_seeded(config, kind, seed, file, partial);
    }
    publish(path);
}

std::string config_json(const TowerConfig& c) {
    nlohmann::ordered_json vision{{"hidden_size", c.hidden},
                                  {"intermediate_size", c.intermediate},
                                  {"num_hidden_layers", c.layers},
                                  {"num_attention_heads", c.heads},
                                  {"num_channels", c.channels},
                                  {"image_size", c.image},
                                  {"patch_size", c.patch},
                                  {"layer_norm_eps", c.eps},
                                  {"hidden_act", "gelu_pytorch_tanh"}};
    nlohmann::ordered_json root;
    if (c.head == Head::connector) {
        vision["model_type"] = "idefics3_vision";
        root = {{"model_type", "idefics3"},
                {"scale_factor", c.shuffle},
                {"text_config", {{"model_type", "llama"}, {"hidden_size", c.output}}},
                {"vision_config", vision}};
    } else {
        vision["model_type"] = "siglip_vision_model";
        root = {{"model_type", "siglip"}, {"vision_config", vision}};
    }
    return root.dump(2) + "\n";
}

TowerConfig known_config(std::string_view name) {
    TowerConfig c{.hidden = 768,
                  .intermediate = 3072,
                  .layers = 12,
                  .heads = 12,
                  .channels = 3,
                  .image = 512,
                  .patch = 16,
                  .eps = 1e-6,
                  .head = Head::connector,
                  .shuffle = 4,
                  .output = 576,
                  .prefix = "model.vision_model.",
                  .connector = "model.connector.modality_projection.proj.weight"};
    const auto pooling = [&] {
        c.head = Head::pooling;
        c.shuffle = 1;
        c.prefix = "vision_model.";
        c.connector.clear();
        c.output = c.hidden;
    };
    const auto tiny = [&] {
        c.hidden = 64;
        c.intermediate = 96;
        c.layers = 2;
        c.heads = 2;
        c.image = 32;
        c.patch = 4;
        c.output = 48;
    };
    if (name == "smolvlm-256m-instruct" || name == "smolvlm2-256m-video-instruct") return c;
    if (name == "siglip-base-patch16-512") return pooling(), c;
    if (name == "siglip-base-patch16-224") return c.image = 224, pooling(), c;
    if (name == "tiny") return tiny(), c;
    if (name == "tiny-pooling") return tiny(), pooling(), c;
    throw OptionError("model", std::string(name),
                      "smolvlm-256m-instruct, smolvlm2-256m-video-instruct, siglip-base-patch16-512, "
                      "siglip-base-patch16-224, tiny or "
                      "tiny-pooling");
}

}  // namespace lightmill::vision

#pragma once
// Weights from a generator of whole numbers: a tower of the true shape to test and time without a checkpoint.
// numpy makes the same values (tools/vision_oracle.py); all of them are exact in bfloat16.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lightmill/base/file.hpp"
#include "lightmill/vision/weights/config.hpp"

namespace lightmill::vision {

enum class SeededKind {
    plain,    // matrices of standard deviation 0.02: attention is almost uniform
    peaky,    // query and key weights such that scores spread by 5: attention picks
    outlier,  // four channels of the residual stream 32 times as large: what trained towers show
};
inline constexpr std::array<std::string_view, 3> k_seeded_kinds{"plain", "peaky", "outlier"};
[[nodiscard]] inline std::span<const std::string_view> names(SeededKind) {
    return k_seeded_kinds;
}

class SeededTensors final : public TensorSource {
  public:
    SeededTensors(TowerConfig config, SeededKind kind, std::uint64_t seed);
    [[nodiscard]] std::string place() const override;
    [[nodiscard]] std::vector<TensorSpec> tensors() const override;
    void read(const std::string& name, float* out) const override;

  private:
    TowerConfig config_;
    SeededKind kind_;
    std::uint64_t seed_;
    std::vector<TensorSpec> tensors_;
};

// Writes them as a safetensors file of bfloat16, which appears whole or not at all.
void write_seeded(const TowerConfig& config, SeededKind kind, std::uint64_t seed, const std::string& path,
                  bool overwrite);
// The same behind what `file` (of name `path`) holds already.
void write_seeded(const TowerConfig& config, SeededKind kind, std::uint64_t seed, const FileDescriptor& file,
                  const std::string& path);
// A config.json that parse_config reads back as this configuration.
[[nodiscard]] std::string config_json(const TowerConfig& config);

// The configurations of the models this project names: "smolvlm-256m-instruct", "siglip-base-patch16-512",
// "siglip-base-patch16-224", and "tiny", "tiny-pooling" for tests. Throws OptionError for another name.
[[nodiscard]] TowerConfig known_config(std::string_view name);

}  // namespace lightmill::vision

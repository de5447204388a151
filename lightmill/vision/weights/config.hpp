#pragma once
// The shape of a vision tower, from a checkpoint's config.json.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lightmill::vision {

// What follows the encoder.
enum class Head {
    connector,  // pixel shuffle and a linear map: a row per scale × scale patches (Idefics3, SmolVLM)
    pooling,    // attention pooling by a learned probe: one row (SigLIP)
};

struct TowerConfig {
    std::int64_t hidden = 0, intermediate = 0, layers = 0, heads = 0;
    std::int64_t channels = 0;
    std::int64_t image = 0, patch = 0;  // sides in pixels
    double eps = 0;                     // of the layer norms
    Head head = Head::connector;
    std::int64_t shuffle = 1;  // side of the square of patches that the connector joins
    std::int64_t output = 0;   // values a row that the head gives
    std::string prefix;        // of the tower's tensors
    std::string connector;     // name of the connector's weight; empty without one

    [[nodiscard]] std::int64_t head_size() const noexcept { return hidden / heads; }
    [[nodiscard]] std::int64_t side() const noexcept { return image / patch; }       // patches
    [[nodiscard]] std::int64_t patches() const noexcept { return side() * side(); }  // a tile
    [[nodiscard]] std::int64_t patch_values() const noexcept { return channels * patch * patch; }
    [[nodiscard]] std::int64_t output_rows() const noexcept {  // a tile
        return head == Head::pooling ? 1 : patches() / (shuffle * shuffle);
    }
    friend bool operator==(const TowerConfig&, const TowerConfig&) = default;
};

// Throws FormatError (file: `where`) for sides that do not divide or values that are not positive.
void check(const TowerConfig& config, const std::string& where);

// Where a value came from: "config.json", "manifest", or "model type idefics3".
struct ConfigOrigin {
    std::string key;  // "vision_config.hidden_size"
    std::string value;
    std::string source;
};
struct ParsedConfig {
    TowerConfig config;
    std::vector<ConfigOrigin> origins;
};

// Values that a checkpoint leaves out, by the same keys: "vision_config.num_hidden_layers" → "12". Also
// "tensors.prefix" and "tensors.connector", which stand in no config.json.
using ConfigDefaults = std::map<std::string, std::string>;

// `text` is the file's content, `path` its name for messages. Model types: idefics3, smolvlm, siglip. Throws
// FormatError naming the key, what was found and what is expected.
[[nodiscard]] ParsedConfig parse_config(const std::string& text, const std::string& path,
                                        const ConfigDefaults& defaults = {});

// A tensor that the tower needs.
struct TensorSpec {
    std::string name;
    std::vector<std::int64_t> shape;
    friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};
// All of them, in the order in which a tile meets them.
[[nodiscard]] std::vector<TensorSpec> tower_tensors(const TowerConfig& config);
[[nodiscard]] std::int64_t element_count(const std::vector<std::int64_t>& shape) noexcept;
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);  // "[768, 3, 16, 16]"

// Where weights come from: a file, or a generator.
class TensorSource {
  public:
    TensorSource() = default;
    TensorSource(const TensorSource&) = delete;
    TensorSource& operator=(const TensorSource&) = delete;
    virtual ~TensorSource() = default;

    // For messages.
    [[nodiscard]] virtual std::string place() const = 0;
    // Every tensor that is there, with its shape.
    [[nodiscard]] virtual std::vector<TensorSpec> tensors() const = 0;
    // Its values in binary32, row-major; `out` has element_count(shape) values. May be called from several
    // threads.
    virtual void read(const std::string& name, float* out) const = 0;
};

// Throws FormatError where a tensor of the tower is missing, has another shape, or where the source holds one
// inside the tower's prefix that this tower does not know.
void check_tensors(const TensorSource& source, const TowerConfig& config);

}  // namespace lightmill::vision

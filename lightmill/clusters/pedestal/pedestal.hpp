#pragma once
// The background model of every pixel and how it is trained from dark frames. The definition is in
// docs/algorithms/clusters.md; the arithmetic below is part of it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/base/options.hpp"
#include "lightmill/base/view.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters {

using frames::Pixel;
using frames::Shape;

// The background of all pixels, arrays of (rows × columns) in raster order. A pixel's mean is
// offset + mean, in ADU; its variance is in ADU².
struct Model {
    std::vector<Pixel> offset;    // X₀, an integer; never changes after training
    std::vector<float> mean;      // m, centred on the offset
    std::vector<float> variance;  // s
    friend bool operator==(const Model&, const Model&) = default;
};

// Why a pixel is absent from every frame. Judged once, after training.
enum class PixelState : std::uint8_t {
    used,
    masked,     // by the user's mask
    unseen,     // present in fewer than two dark frames
    low_noise,  // σ below min_noise: less than an ADC's own rounding means stuck
};

// When a single value means that the pixel is absent from the frame.
struct AbsentRule {
    std::optional<Pixel> value;  // this value is absent
    bool gain_bits = false;      // bits 14 and 15 not zero: another gain, absent
    [[nodiscard]] bool operator()(Pixel pixel) const noexcept {
        return (value && pixel == *value) || (gain_bits && (pixel >> 14) != 0);
    }
    friend bool operator==(const AbsentRule&, const AbsentRule&) = default;
};

struct PedestalOptions {
    std::int64_t pedestal_frames = 0;  // dark frames to train on; 0: all that are given
    double min_noise = 0.25;           // ADU; pixels with a smaller σ are absent
    friend bool operator==(const PedestalOptions&, const PedestalOptions&) = default;
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, PedestalOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "pedestal_frames",
                     .help = "dark frames to train on; 0 takes all that are given",
                     .unit = "frames",
                     .minimum = 0},
          options.pedestal_frames);
    visit(OptionInfo{.name = "min_noise",
                     .help = "a pixel whose noise is below this is stuck and absent",
                     .unit = "ADU",
                     .minimum = 0},
          options.min_noise);
}

// A trained background: the model, which pixels are used, and the exact sums it came from.
struct Pedestal {
    Shape shape;
    std::uint64_t frames = 0;  // dark frames it was trained on
    AbsentRule absent;
    PedestalOptions options;
    Model model;
    std::vector<PixelState> state;      // (rows × columns)
    std::vector<std::uint32_t> seen;    // n: dark frames in which the pixel was present
    std::vector<std::uint64_t> sum;     // S, ADU
    std::vector<std::uint64_t> square;  // Q, ADU²
    [[nodiscard]] std::uint64_t pixels_in(PixelState which) const noexcept;
    friend bool operator==(const Pedestal&, const Pedestal&) = default;
};

// Gathers the exact integer sums of dark frames. Absent values are left out, pixel by pixel.
class Training {
  public:
    Training(const Shape& shape, const AbsentRule& absent);
    // Throws Error(range) above 2^24 frames, the most that the arithmetic is exact for.
    void add(const View<const Pixel, 3>& dark);
    [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }
    // mask: (rows × columns), non-zero = absent; empty = no mask. Throws OptionError where its size
    // is wrong, and where there are fewer dark frames than options.pedestal_frames or none at all.
    [[nodiscard]] Pedestal finish(std::span<const std::uint8_t> mask, const PedestalOptions& options) const;

  private:
    Shape shape_;
    AbsentRule absent_;
    std::uint64_t frames_ = 0;
    std::vector<std::uint32_t> seen_;
    std::vector<std::uint64_t> sum_;
    std::vector<std::uint64_t> square_;
};

// Trains on a source's frames (the first options.pedestal_frames, or all).
[[nodiscard]] Pedestal train(frames::Source& dark, const AbsentRule& absent,
                             std::span<const std::uint8_t> mask, const PedestalOptions& options);

// SHA-256 over X₀ (u16), m (f32), s (f32), little endian, of each model in turn.
[[nodiscard]] std::string model_digest(std::span<const Model> models);

}  // namespace lightmill::clusters

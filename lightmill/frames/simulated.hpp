#pragma once
// Simulated detector frames with known truth: Gaussian noise on an uneven baseline, photons at random
// places whose charge spreads over neighbouring pixels. docs/algorithms/simulation.md defines every step.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/options.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::frames {

// The defaults are the reference workload.
struct SimulationOptions {
    std::int64_t rows = 400;
    std::int64_t columns = 400;
    double mean = 4658;
    double mean_spread = 300;
    double noise = 45;
    double photons = 2350;
    double charge = 1100;
    double cloud_width = 0.35;
    std::uint64_t seed = 1;
    std::int64_t hot_pixels = 0;
    std::int64_t dead_pixels = 0;
    double gain_drift = 0;
    double lost_packets = 0;
    friend bool operator==(const SimulationOptions&, const SimulationOptions&) = default;
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, SimulationOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(
        OptionInfo{
            .name = "rows", .help = "height of a frame", .unit = "pixels", .minimum = 1, .maximum = 1 << 20},
        options.rows);
    visit(OptionInfo{.name = "columns",
                     .help = "width of a frame",
                     .unit = "pixels",
                     .minimum = 1,
                     .maximum = 1 << 20},
          options.columns);
    visit(OptionInfo{.name = "mean",
                     .help = "mean of the pixels' baselines",
                     .unit = "ADU",
                     .minimum = -1e6,
                     .maximum = 1e6},
          options.mean);
    visit(OptionInfo{.name = "mean_spread",
                     .help = "standard deviation of the baselines from pixel to pixel",
                     .unit = "ADU",
                     .minimum = 0,
                     .maximum = 1e6},
          options.mean_spread);
    visit(OptionInfo{.name = "noise",
                     .help = "standard deviation of a pixel from frame to frame",
                     .unit = "ADU",
                     .minimum = 0,
                     .maximum = 1e6},
          options.noise);
    visit(OptionInfo{.name = "photons",
                     .help = "mean number of photons in a data frame",
                     .minimum = 0,
                     .maximum = 1e7},
          options.photons);
    visit(
        OptionInfo{
            .name = "charge", .help = "charge of one photon", .unit = "ADU", .minimum = 0, .maximum = 1e6},
        options.charge);
    visit(OptionInfo{.name = "cloud_width",
                     .help = "standard deviation of the charge cloud in each direction",
                     .unit = "pixels",
                     .minimum = 0,
                     .maximum = 4,
                     .above_minimum = true},
          options.cloud_width);
    visit(OptionInfo{.name = "seed",
                     .help = "another seed, other frames",
                     .minimum = 0,
                     .maximum = 9007199254740992.0},
          options.seed);
    visit(
        OptionInfo{
            .name = "hot_pixels", .help = "pixels with ten times the noise", .minimum = 0, .maximum = 1e9},
        options.hot_pixels);
    visit(OptionInfo{.name = "dead_pixels",
                     .help = "pixels that always read their baseline and see no photon",
                     .minimum = 0,
                     .maximum = 1e9},
          options.dead_pixels);
    visit(OptionInfo{.name = "gain_drift",
                     .help = "change of the photons' charge in 1000 frames, as a part of it",
                     .minimum = -1,
                     .maximum = 1},
          options.gain_drift);
    visit(
        OptionInfo{.name = "lost_packets",
                   .help = "part of the packets (3200 pixels each) that never come; their pixels read 65535",
                   .minimum = 0,
                   .maximum = 1},
        options.lost_packets);
}

enum class FrameKind {
    dark,  // no photons
    data,
};
[[nodiscard]] std::span<const std::string_view> names(FrameKind);

// What was put into a frame. Pixel (row r, column c) covers c <= x < c + 1, r <= y < r + 1.
struct Photon {
    double x = 0;       // pixels, along columns
    double y = 0;       // pixels, along rows
    double energy = 0;  // ADU, all of its charge, also what fell beside the frame
    friend bool operator==(const Photon&, const Photon&) = default;
};

// Pixels of one lost packet: those of a MOENCH packet (6400 bytes), so that a .raw file can hold the same.
inline constexpr std::int64_t k_simulated_packet_pixels = 3200;
inline constexpr Pixel k_simulated_lost = 65535;

// The generator. Each frame has random numbers of its own, so frames can be had in any order and by
// many threads at a time.
class Simulation {
  public:
    // Throws OptionError.
    explicit Simulation(const SimulationOptions& options);

    [[nodiscard]] const SimulationOptions& options() const noexcept { return options_; }
    [[nodiscard]] Shape shape() const noexcept { return {options_.rows, options_.columns}; }
    // Flat indices (row * columns + column), none of them twice.
    [[nodiscard]] std::span<const std::int64_t> hot_pixels() const noexcept { return hot_; }
    [[nodiscard]] std::span<const std::int64_t> dead_pixels() const noexcept { return dead_; }

    // Fills `out` (rows × columns) with frame `index`; `truth`, where given, with its photons.
    FrameInfo frame(FrameKind kind, std::uint64_t index, std::span<Pixel> out,
                    std::vector<Photon>* truth = nullptr) const;
    // Numbers of the packets that frame lost, ascending.
    [[nodiscard]] std::vector<std::int64_t> lost_packets(FrameKind kind, std::uint64_t index) const;

    // Frames first … first + count - 1 into `storage`; `truth`, where given, gets one list a frame.
    Block block(FrameKind kind, std::uint64_t first, std::uint64_t count, Team& team, Storage& storage,
                std::vector<std::vector<Photon>>* truth = nullptr) const;

  private:
    SimulationOptions options_;
    Buffer<double> means_;  // ADU, of each pixel
    std::vector<std::int64_t> hot_, dead_;
};

// Frames 0 … frames - 1. threads: 0 takes as many as the process may use.
[[nodiscard]] std::unique_ptr<Source> open_simulated(const SimulationOptions& options, FrameKind kind,
                                                     std::uint64_t frames, int threads = 0);

}  // namespace lightmill::frames

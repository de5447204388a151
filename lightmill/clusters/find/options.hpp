#pragma once
// What can be asked of the finder. FindOptions change the answer and are written into every result;
// SpeedOptions do not.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lightmill/base/options.hpp"

namespace lightmill::clusters {

// Pixels around a centre: width columns × height rows, both odd.
struct Window {
    int width = 3;
    int height = 3;
    [[nodiscard]] constexpr int cells() const noexcept { return width * height; }
    friend bool operator==(const Window&, const Window&) = default;
};
inline constexpr int k_min_window = 3;
inline constexpr int k_max_window = 21;
[[nodiscard]] std::string to_string(const Window& window);  // "3x3", width first
// Throws OptionError("window").
[[nodiscard]] Window parse_window(std::string_view text);

enum class Rule {
    snapshot,    // the definition: a frame is judged with the model as the frame before left it
    raster,      // aare 2026.3.17 literally: the model changes while the frame is scanned
    per_stream,  // frame k goes to stream k mod streams, each with a model of its own
};
[[nodiscard]] std::span<const std::string_view> names(Rule);

enum class Ties {
    first,  // of equal maxima in a window the first in raster order may be a photon
    all,    // every one of them
};
[[nodiscard]] std::span<const std::string_view> names(Ties);

enum class Payload { int32, int16 };
[[nodiscard]] std::span<const std::string_view> names(Payload);

struct FindOptions {
    Window window = {};
    double n_sigma = 5;
    std::int64_t epoch = 1;      // frames judged with one model
    std::int64_t memory = 1000;  // frames that the running background remembers
    Rule rule = Rule::snapshot;
    std::int64_t streams = 1;  // of rule per_stream
    Ties ties = Ties::first;
    Payload payload = Payload::int32;
    friend bool operator==(const FindOptions&, const FindOptions&) = default;
};
// The window is not visited: it is two numbers, and has its own parse_window and to_string.
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, FindOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "n_sigma",
                     .help = "threshold in units of the pixel's noise",
                     .unit = "sigma",
                     .minimum = 0,
                     .maximum = 1e6,
                     .above_minimum = true},
          options.n_sigma);
    visit(OptionInfo{.name = "epoch",
                     .help = "frames judged with one model before their samples are applied",
                     .unit = "frames",
                     .minimum = 1,
                     .maximum = 1e9},
          options.epoch);
    visit(OptionInfo{.name = "memory",
                     .help = "frames that the running background remembers",
                     .unit = "frames",
                     .minimum = 2,
                     .maximum = 1e9},
          options.memory);
    visit(OptionInfo{.name = "rule",
                     .help = "when the background learns: snapshot is the definition, raster is aare "
                             "2026.3.17, per_stream gives each of --streams its own background"},
          options.rule);
    visit(OptionInfo{.name = "streams",
                     .help = "backgrounds of rule per_stream; the answer depends on it",
                     .minimum = 1,
                     .maximum = 4096},
          options.streams);
    visit(OptionInfo{.name = "ties", .help = "which of equal maxima in a window may be photons"},
          options.ties);
    visit(OptionInfo{.name = "payload",
                     .help =
                         "type of the residuals; int16 halves the bytes and refuses values that do not fit"},
          options.payload);
}
// Throws OptionError for the first option that is not allowed, alone or beside the others.
void check(const FindOptions& options);

// How frames that are epochs of their own are launched on a GPU.
enum class Launches {
    automatic,   // together, where there is room for all tiles at once
    single,      // one by one, each beginning while the one before ends
    separate,    // one by one, each after the other
    graph,       // one by one, as one graph a chunk
    persistent,  // a chunk's together: tiles stay and wait for the tiles around them
};
[[nodiscard]] std::span<const std::string_view> names(Launches);

struct SpeedOptions {
    std::string backend = "auto";
    std::int64_t threads = 0;
    std::int64_t batches = 3;  // results that may be held at the same time
    bool hashes = true;
    // Of backend cuda alone.
    bool clusters = true;
    std::string devices = "0";
    std::int64_t copy_frames = 0;
    std::int64_t ring = 4;
    Launches launches = Launches::automatic;
    friend bool operator==(const SpeedOptions&, const SpeedOptions&) = default;
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, SpeedOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "backend",
                     .help = "auto, cuda, simd, one instruction set of simd (simd_avx512, simd_avx2, "
                             "simd_sse4), or reference"},
          options.backend);
    visit(OptionInfo{.name = "threads",
                     .help = "threads that find; 0 takes every core this process may use",
                     .minimum = 0,
                     .maximum = 1024},
          options.threads);
    visit(OptionInfo{.name = "batches",
                     .help = "results that may be held at the same time",
                     .minimum = 1,
                     .maximum = 1024},
          options.batches);
    visit(OptionInfo{.name = "hashes", .help = "compute each frame's hash, which the result digest needs"},
          options.hashes);
    visit(
        OptionInfo{
            .name = "clusters",
            .help =
                "bring clusters to the host; without, batches hold their counts only and what is attached "
                "on the GPU sees them (cuda)"},
        options.clusters);
    visit(OptionInfo{.name = "devices",
                     .help = "GPUs that share the rows of each frame, as in 0 or 0,1 (cuda)"},
          options.devices);
    visit(OptionInfo{.name = "copy_frames",
                     .help = "frames of one copy to the GPU; 0: all of a call's, up to 128 (cuda)",
                     .unit = "frames",
                     .minimum = 0,
                     .maximum = 1 << 20},
          options.copy_frames);
    visit(OptionInfo{.name = "ring",
                     .help = "chunks that are on the GPU at the same time (cuda)",
                     .minimum = 1,
                     .maximum = 64},
          options.ring);
    visit(
        OptionInfo{
            .name = "launches",
            .help = "how single-frame epochs are launched: auto, single, separate, graph, persistent (cuda)"},
        options.launches);
}

}  // namespace lightmill::clusters

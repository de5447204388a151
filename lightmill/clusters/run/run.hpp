#pragma once
// Frames to clusters, from end to end: a source is read, clusters are found, reduced and written, the
// three overlapping. Memory does not grow with the length of the run.

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lightmill/base/options.hpp"
#include "lightmill/base/progress.hpp"
#include "lightmill/clusters/find/find.hpp"
#include "lightmill/clusters/pedestal/pedestal.hpp"
#include "lightmill/clusters/reduce/hit_map.hpp"
#include "lightmill/clusters/reduce/spectrum.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters {

// Where the clusters go, and how safely.
struct OutputOptions {
    // Empty: nothing is written. A name that ends in .clust: aare's cluster file. Else a result file
    // (docs/formats/result.md). It grows as OUT.partial and gets its name when it is whole.
    std::string output;
    bool overwrite = false;          // an existing output, or what is left of an interrupted run, is replaced
    bool resume = false;             // go on from OUT.partial; from the beginning where there is none
    double checkpoint_seconds = 10;  // between two points that a killed run can go on from
    friend bool operator==(const OutputOptions&, const OutputOptions&) = default;
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, OutputOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "output", .help = "result file (.h5), or aare's cluster file (.clust)"},
          options.output);
    visit(OptionInfo{.name = "overwrite", .help = "replace an existing output"}, options.overwrite);
    visit(OptionInfo{.name = "resume", .help = "go on with an interrupted run; the digests are the same"},
          options.resume);
    visit(OptionInfo{.name = "checkpoint_seconds",
                     .help = "time between two points that a killed run can go on from",
                     .unit = "s",
                     .minimum = 0,
                     .maximum = 1e6},
          options.checkpoint_seconds);
}

struct RunOptions {
    FindOptions find;
    SpeedOptions speed;
    SpectrumOptions spectrum;
    OutputOptions output;
    // What led to these frames and this pedestal, as (name, value): "frames" "0:1000", "roi" "…",
    // "mask" "…", "pedestal" "…". Written into the result file; a run that is resumed must have the same.
    std::vector<std::pair<std::string, std::string>> provenance;
};

struct RunHooks {
    ProgressFunction progress = {};  // frames found; called on run()'s own thread
    // Asked to stop, the run ends at the end of an epoch; where that is seconds away, a result file goes
    // back to its last checkpoint. Without effect once the last frame is found.
    std::stop_token stop = {};
    // Sees every cluster in order, on a thread of its own; an exception ends the run with it. A resumed
    // run shows only what is new.
    std::function<void(const ClustersView&)> clusters = {};
};

// Everything that is said about a run afterwards.
struct Summary {
    std::uint64_t frames = 0;          // in the result: those of earlier sessions of a resumed run too
    std::uint64_t clusters = 0;        // in the result
    std::uint64_t resumed_frames = 0;  // of them, found by earlier sessions
    bool interrupted = false;          // stopped on request before the last frame
    std::string digest;                // of the result, over all its frames
    std::string model_digest;
    // The file that was written, with ".partial" where interrupted; empty where none was.
    std::string output;

    // This session.
    double frames_per_second = 0;  // its frames over wall_seconds
    double wall_seconds = 0;       // of run()
    double read_seconds = 0;       // the three stages, while they were busy
    double find_seconds = 0;
    double write_seconds = 0;  // reductions included

    AbsentCounts absent;                                                       // pixels × frames, by cause
    std::uint64_t masked_pixels = 0, unseen_pixels = 0, low_noise_pixels = 0;  // in every frame
    frames::Anomalies anomalies;  // missing, repeated, unordered frames
    std::vector<HotPixel> hot_pixels;

    std::string backend;  // what ran, by its full name
    int threads = 0;      // that found
    std::string version;  // of lightmill
    RunOptions options;

    Spectrum spectrum{SpectrumOptions{}};
    HitMap hit_map{frames::Shape{}};
};

// Finds the clusters of all frames of a source. Throws OptionError before anything is written where
// options, shapes or outputs do not fit; what a stage throws ends the run with that error, and leaves the
// frames up to then, or up to the last checkpoint, in a readable OUT.partial.
[[nodiscard]] Summary run(frames::Source& source, const Pedestal& pedestal, const RunOptions& options = {},
                          const RunHooks& hooks = {});

}  // namespace lightmill::clusters

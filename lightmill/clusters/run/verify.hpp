#pragma once
// Checks a result file: against itself, and against the frames it came from.

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lightmill/base/progress.hpp"
#include "lightmill/clusters/find/options.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters {

// Which test of the definition settles a pixel's fate (docs/algorithms/clusters.md).
enum class DecidedBy {
    absent,     // the pixel is absent from the frame
    negative,   // 1: v·v > q with v < 0
    maximum,    // 2: M·M > q
    sum,        // 3: S·S > (w·h)·q
    background  // 4: none of them
};
[[nodiscard]] std::string_view name(DecidedBy test) noexcept;

// How the definition judges one pixel of one frame.
struct Judgement {
    DecidedBy test = DecidedBy::background;
    bool holds_maximum = false;
    bool photon = false;
    std::uint16_t value = 0;                 // F, ADU
    float mean = 0, variance = 0;            // X₀ + m (for reading), s
    float residual = 0;                      // v
    float maximum = 0, sum = 0;              // M, S
    float threshold = 0, sum_threshold = 0;  // q and (w·h)·q: what v², M² and what S² are held against
    [[nodiscard]] std::string text() const;
};

// The first place where a result file and the frames disagree.
struct Difference {
    enum class Kind {
        frame_number,  // the frame at this index has another number
        missing,       // the definition finds a cluster here that the file does not have
        extra,         // the file has a cluster here that the definition does not find
        residual,      // both have it, a residual differs
        frames,        // the file has another number of frames than were given
        model,         // all clusters agree, the model at the end does not
    };
    Kind kind = Kind::missing;
    std::uint64_t frame_index = 0, frame_number = 0;
    std::int64_t row = 0, column = 0;            // of the cluster's centre
    std::int64_t cell_row = 0, cell_column = 0;  // of the residual, in the window, from its top left
    std::int64_t stored = 0, expected = 0;       // numbers or residuals, by kind
    std::optional<Judgement> judgement;          // of the centre, where there is one; not for rule raster
    [[nodiscard]] std::string text() const;      // one or two sentences
};

struct VerifyReport {
    std::uint64_t frames = 0, clusters = 0;  // in the file
    bool complete = false;                   // the file is whole, not what an interrupted run left
    std::string stored_digest, digest;       // as written, and as recomputed from the clusters
    // As written, and recomputed from the stored model. What a killed run left says none of the model.
    std::string stored_model_digest, model_digest;
    // First frame whose clusters do not give its stored hash.
    std::optional<std::uint64_t> damaged_frame;
    // Where frames were given: the first disagreement.
    bool compared = false;
    std::optional<Difference> difference;
    [[nodiscard]] bool ok() const noexcept {
        return digest == stored_digest &&
               (stored_model_digest.empty() || model_digest == stored_model_digest) && !damaged_frame &&
               !difference;
    }
};

// Recomputes hashes and digests of a result file. With `frames`, the source that it came from, finds all
// clusters again with the options, pedestal and modules kept in the file. Throws FormatError where the
// file is not a result file, OptionError ("frames") where the source has another shape.
[[nodiscard]] VerifyReport verify(const std::string& path, frames::Source* frames = nullptr,
                                  const SpeedOptions& speed = {}, const ProgressFunction& progress = {},
                                  const std::stop_token& stop = {});

}  // namespace lightmill::clusters

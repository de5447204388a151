#pragma once
// What several verbs take: frames from files, and how a pedestal is trained on them.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/program.hpp"
#include "lightmill/clusters/pedestal/pedestal.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::app {

// Which part of which files.
struct Selection {
    std::string dataset;  // in HDF5 files; empty: the default
    std::string frames;   // "A:B", half-open, either may be left out
    std::string roi;      // "r0:r1,c0:c1", half-open
};
void add_selection(CLI::App& verb, Selection& selection);
// --frames is for the data only; a pedestal takes its own number of frames.
[[nodiscard]] std::unique_ptr<frames::Source> open_frames(const std::vector<std::string>& files,
                                                          const Selection& selection, bool with_frame_range);
// The part of `selection` that was asked for, by name.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> provenance(const Selection& selection);
[[nodiscard]] Selection selection_from(const std::vector<std::pair<std::string, std::string>>& provenance);

// How absent pixels are told and noise is judged.
struct TrainingChoice {
    clusters::PedestalOptions options;
    std::string mask;               // .npy of (rows, columns), non-zero = absent
    std::string absent;             // a value, "none", or empty: as the frames' format has it
    std::optional<bool> gain_bits;  // unset: as the detector has it
};
void add_training(CLI::App& verb, TrainingChoice& choice);
// The rule for these frames; `fallback` where neither the user nor the format says anything.
[[nodiscard]] clusters::AbsentRule absent_rule(const TrainingChoice& choice,
                                               const frames::Description& description,
                                               const clusters::AbsentRule& fallback = {});
// The mask for frames of this shape after the selection's region was cut out; empty without one.
[[nodiscard]] std::vector<std::uint8_t> read_mask(const TrainingChoice& choice, const Selection& selection,
                                                  const frames::Shape& shape);
// Trains on all frames of `dark`, shown on `line`. Throws Error(interrupted) where the program is asked to
// stop meanwhile.
[[nodiscard]] clusters::Pedestal train_on(frames::Source& dark, const Selection& selection,
                                          const TrainingChoice& choice, const clusters::AbsentRule& rule,
                                          ProgressLine& line);

}  // namespace lightmill::app

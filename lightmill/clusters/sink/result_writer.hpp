#pragma once
// Writes result files so that neither a stop, nor a kill, nor a full disk loses what was written.
// docs/formats/result.md.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lightmill/clusters/find/find.hpp"
#include "lightmill/clusters/pedestal/pedestal.hpp"
#include "lightmill/clusters/reduce/hit_map.hpp"
#include "lightmill/clusters/reduce/spectrum.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters {

// What is fixed before the first frame.
struct ResultSetting {
    FindOptions find;
    SpectrumOptions spectrum;
    Pedestal pedestal;
    frames::Description source;
    Hash128 first_frame{};  // XXH3-128 of the first frame's pixels, by which a resumed run knows its source
    std::vector<std::pair<std::string, std::string>> provenance;
};

// Everything in a result that changes while it grows, the clusters apart. Said at a checkpoint and at the
// end.
struct ResultPosition {
    FinderState finder;          // its frames are those of the result
    std::uint64_t clusters = 0;  // of those frames
    Spectrum spectrum;
    HitMap hit_map;
    std::string digest, model_digest;  // 64 hexadecimal digits; the model's is empty at a checkpoint
    std::string backend;
    frames::Anomalies anomalies;
};

// Grows partial_path(path). At any moment a reader in SWMR mode sees whole clusters in it, and beside it
// lies the last checkpoint, from which ResultWriter can go on after its process was killed.
class ResultWriter {
  public:
    // Throws OptionError where the output, or what is left of an interrupted run, exists and `overwrite` is
    // not set; IoError.
    [[nodiscard]] static ResultWriter create(const std::string& path, const ResultSetting& setting,
                                             bool overwrite);
    // Whether there is something to go on from.
    [[nodiscard]] static bool can_resume(const std::string& path);
    // Opens what is left of an interrupted or killed run; position() is where it goes on. Throws OptionError
    // ("resume") naming the first thing in which the setting differs from that run's; FormatError where the
    // file is damaged.
    [[nodiscard]] static ResultWriter resume(const std::string& path, const ResultSetting& setting);

    ResultWriter(ResultWriter&&) noexcept;
    ResultWriter& operator=(ResultWriter&&) noexcept;
    // What is left is what a killed process leaves.
    ~ResultWriter();

    // Adds frames, with their hashes, behind those before. Throws IoError where the disk is full: before
    // anything of the frames is written, so that the rest stays as it was.
    void add(const ClustersView& clusters);
    // Makes what was added safe: on disk, and resumable from here after a kill.
    void checkpoint(const ResultPosition& position);
    // The last checkpoint: at the beginning, or where resume() found it.
    [[nodiscard]] const ResultPosition& position() const noexcept;
    // Calls add(view) with numbers, offsets and hashes (no clusters) of the first `frames` frames, in blocks.
    // They must be at or before the last checkpoint. Throws FormatError where they cannot be.
    void replay(std::uint64_t frames, const std::function<void(const ClustersView&)>& add) const;

    // Ends an unfinished result at `position`, at or behind the last checkpoint and not behind what was
    // added: OUT.partial is a plain HDF5 file then.
    void interrupt(const ResultPosition& position);
    // Ends a whole result: gives it its name.
    void publish(const ResultPosition& position);

    [[nodiscard]] std::uint64_t frames() const noexcept;    // added
    [[nodiscard]] std::uint64_t clusters() const noexcept;  // added

  private:
    struct Impl;
    explicit ResultWriter(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lightmill::clusters

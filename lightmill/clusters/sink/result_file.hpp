#pragma once
// Reads result files, whole ones and those that an interrupted or killed run left.
// docs/formats/result.md.

#include <cstdint>
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

// What a result file says besides its clusters.
struct ResultInfo {
    bool complete = false;       // all frames of the source are in it
    bool killed = false;         // its writer did not come to an end: what follows is the last checkpoint's
    std::uint64_t frames = 0;    // whole frames in the file
    std::uint64_t clusters = 0;  // of them
    FindOptions find;
    SpectrumOptions spectrum;
    std::string version;  // of lightmill
    std::string backend;  // of the last session
    std::string source;   // description().name
    std::string source_format;
    std::uint64_t source_frames = 0;
    std::vector<std::string> source_files;
    std::vector<std::int64_t> module_rows, module_columns;
    frames::Shape shape;
    std::vector<std::pair<std::string, std::string>> provenance;
    std::string digest, model_digest;  // empty where killed
    AbsentCounts absent;
    frames::Anomalies anomalies;
};

class ResultReader {
  public:
    // Throws IoError; FormatError where it is not a result file or is damaged.
    explicit ResultReader(const std::string& path);
    ResultReader(ResultReader&&) noexcept;
    ResultReader& operator=(ResultReader&&) noexcept;
    ~ResultReader();

    [[nodiscard]] const ResultInfo& info() const noexcept;
    // Frames first … first + count - 1 with their clusters and stored hashes. Needs first + count <=
    // info().frames. Throws FormatError where offsets cannot be.
    [[nodiscard]] Clusters read(std::uint64_t first, std::uint64_t count) const;
    // As many frames from `first` on as hold about `bytes` of clusters: at least one, none at the end.
    [[nodiscard]] Clusters read_block(std::uint64_t first, std::uint64_t bytes = 16 << 20) const;

    [[nodiscard]] Pedestal pedestal() const;
    // Model (or raster sums), counters and position at the end.
    [[nodiscard]] FinderState state() const;
    [[nodiscard]] Spectrum spectrum() const;
    [[nodiscard]] HitMap hit_map() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Whether the file is HDF5 with a result of ours. Throws IoError where it cannot be read at all.
[[nodiscard]] bool is_result_file(const std::string& path);

}  // namespace lightmill::clusters

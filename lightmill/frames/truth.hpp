#pragma once
// The photons of simulated frames, as a table in a .npy file. docs/formats/truth.md.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lightmill/base/file.hpp"
#include "lightmill/frames/simulated.hpp"

namespace lightmill::frames {

// A line of the table.
struct TruthRecord {
    std::uint64_t frame = 0;  // frame number
    Photon photon;
    friend bool operator==(const TruthRecord&, const TruthRecord&) = default;
};
static_assert(sizeof(TruthRecord) == 32);

// Where the truth about frames in `path` is kept: "data.h5" → "data.h5.truth.npy".
[[nodiscard]] std::string truth_path(const std::string& path);

// Writes partial_path(path); finish() gives it its name.
class TruthWriter {
  public:
    // Throws IoError where the file exists and `overwrite` is not set, or cannot be made.
    explicit TruthWriter(const std::string& path, bool overwrite = false);
    TruthWriter(const TruthWriter&) = delete;
    TruthWriter& operator=(const TruthWriter&) = delete;
    // Without finish() nothing is left.
    ~TruthWriter();

    void add(std::uint64_t frame, std::span<const Photon> photons);
    void finish();

  private:
    std::string path_;
    FileDescriptor file_;
    std::vector<TruthRecord> records_;  // of one call
    std::uint64_t photons_ = 0;
};

// In the file's order. Throws IoError; FormatError where it is another table.
[[nodiscard]] std::vector<TruthRecord> read_truth(const std::string& path);

}  // namespace lightmill::frames

#pragma once
// Frames in HDF5 files. docs/formats/hdf5.md.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lightmill/frames/source.hpp"

namespace lightmill::frames {

// Opens a dataset (frames, rows, columns) of unsigned integers of 16 or 8 bits. dataset: its path; empty:
// what NeXus calls the default, else /entry/data/data, else the only one of that kind. Throws FormatError
// naming those there are; Error (unavailable) naming the filter that is not installed; IoError.
[[nodiscard]] std::unique_ptr<Source> open_hdf5(const std::string& path, const std::string& dataset = {});

enum class Compression { none, gzip, bitshuffle };
[[nodiscard]] std::span<const std::string_view> names(Compression);

struct Hdf5WriteOptions {
    Compression compression = Compression::none;
    bool lost_pixels = false;  // 65535 is what fills pixels that never came
    bool overwrite = false;
};

// Writes partial_path(path), one frame a chunk, as a NeXus file whose default is the frames; finish() gives
// it its name.
class Hdf5Writer {
  public:
    // Throws IoError where the file exists (unless overwritten) or cannot be made; Error (unavailable)
    // where the filter is not installed.
    Hdf5Writer(const std::string& path, const Shape& shape, const Hdf5WriteOptions& options = {});
    Hdf5Writer(const Hdf5Writer&) = delete;
    Hdf5Writer& operator=(const Hdf5Writer&) = delete;
    // Without finish() nothing is left.
    ~Hdf5Writer();

    // pixels: (frames, rows, columns), any number of frames.
    void write(std::span<const Pixel> pixels);
    void finish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lightmill::frames

#pragma once
// NumPy arrays of frames (.npy). docs/formats/npy.md.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lightmill/base/file.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::frames {

// An array (frames, rows, columns) of little-endian u16, delivered from the mapped file without a copy,
// or of u8, widened. Throws FormatError for any other.
[[nodiscard]] std::unique_ptr<Source> open_npy(const std::string& path);

// A mask of pixels: an array (rows, columns) of u8, i8 or bool in C order, non-zero = masked. Throws
// FormatError for any other.
struct Mask {
    std::vector<std::uint8_t> pixels;
    Shape shape;
};
[[nodiscard]] Mask read_npy_mask(const std::string& path);

// Writes partial_path(path); finish() gives it its name.
class NpyWriter {
  public:
    // Throws IoError where the file exists and `overwrite` is not set, or cannot be made.
    NpyWriter(const std::string& path, const Shape& shape, bool overwrite = false);
    NpyWriter(const NpyWriter&) = delete;
    NpyWriter& operator=(const NpyWriter&) = delete;
    // Without finish() nothing is left.
    ~NpyWriter();

    // pixels: (frames, rows, columns), any number of frames.
    void write(std::span<const Pixel> pixels);
    void finish();

  private:
    std::string path_;
    Shape shape_;
    FileDescriptor file_;
    std::uint64_t frames_ = 0;
    bool finished_ = false;
};

}  // namespace lightmill::frames

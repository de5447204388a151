#pragma once
// What a frame is, and where frames come from. One small interface for files, live streams and the
// simulator.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/view.hpp"

namespace lightmill::frames {

// Pixels are unsigned 16-bit on delivery; 8-bit files are widened while reading.
using Pixel = std::uint16_t;

struct Shape {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    [[nodiscard]] std::int64_t pixels() const noexcept { return rows * columns; }
    friend bool operator==(const Shape&, const Shape&) = default;
};

// What is known of one frame besides its pixels.
struct FrameInfo {
    std::uint64_t number = 0;  // the detector's frame number; the index where a format has none
    std::uint32_t lost_pixels =
        0;  // pixels of packets or ports that never came, delivered as the absent value
    friend bool operator==(const FrameInfo&, const FrameInfo&) = default;
};

// Consecutive frames. The views stay valid while the source lives and until the Storage they were
// read into is used again.
struct Block {
    std::span<const FrameInfo> infos;  // (frames)
    View<const Pixel, 3> pixels;       // (frames, rows, columns)
};

// Memory that Source::read may use; give each block in flight its own.
struct Storage {
    std::vector<FrameInfo> infos;
    Buffer<Pixel> pixels;
    Buffer<std::byte> scratch;  // raw bytes of formats that are not plain arrays
};

// Frame numbers that are not what a gapless file would hold, as far as they are known. Lists are cut
// at k_max_listed entries each, the counts are not.
struct Anomalies {
    static constexpr std::size_t k_max_listed = 1000;
    std::uint64_t missing_frames = 0;   // numbers between the first and the last that never came
    std::uint64_t repeated_frames = 0;  // frames whose number came before
    std::uint64_t out_of_order_frames =
        0;  // frames whose number is below an earlier one's, repeated ones apart
    std::vector<std::uint64_t> missing;
    std::vector<std::uint64_t> repeated;
    std::vector<std::uint64_t> out_of_order;
};

struct Description {
    std::string name;    // path, or what is simulated
    std::string format;  // "raw", "dat", "npy", "hdf5", "simulated"
    Shape shape;
    int bits = 16;            // of a stored pixel
    std::uint64_t count = 0;  // frames that can be read
    // What fills a pixel that never came, where the format has such a value (65535 in .raw).
    std::optional<Pixel> absent_value;
    // Bits 14 and 15 are a gain code; pixels with a code other than zero are absent.
    bool gain_bits = false;
    // Rows of pixels that belong to no module lie between modules: "the gap" that no window crosses.
    // Modules are bands of whole rows or columns; each entry is the first row (column) of a module
    // other than the first. Ports of one module are not listed: windows cross them.
    std::vector<std::int64_t> module_rows;
    std::vector<std::int64_t> module_columns;
    std::vector<std::string> files;  // every file that is read, in order
};

class Source {
  public:
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    virtual ~Source() = default;

    [[nodiscard]] virtual const Description& description() const noexcept = 0;
    // Frames first … first + count - 1 in file order; needs first + count <= description().count.
    // May be called from one thread at a time. Throws FormatError (file, byte), IoError.
    [[nodiscard]] virtual Block read(std::uint64_t first, std::uint64_t count, Storage& storage) = 0;
    // Frames first, first + 1, … were read by an earlier session, which a run that is resumed goes on
    // from: anomalies() counts as if they had been read here. Only their numbers are known.
    virtual void recall(std::uint64_t first, std::span<const FrameInfo> infos);
    // What has been seen of missing, repeated and unordered frames so far; complete once every
    // frame was read.
    [[nodiscard]] virtual Anomalies anomalies() const = 0;
};

// Several sources of the same shape one after another. Throws OptionError naming the first whose
// shape differs.
[[nodiscard]] std::unique_ptr<Source> concatenate(std::vector<std::unique_ptr<Source>> sources);

struct Region {
    std::int64_t first_row = 0, last_row = 0;        // half-open
    std::int64_t first_column = 0, last_column = 0;  // half-open
};
// A part of every frame. Throws OptionError ("roi") where the region is empty or leaves the frame.
[[nodiscard]] std::unique_ptr<Source> crop(std::unique_ptr<Source> source, const Region& region);
// Frames first … last - 1 of a source. Throws OptionError ("frames").
[[nodiscard]] std::unique_ptr<Source> slice(std::unique_ptr<Source> source, std::uint64_t first,
                                            std::uint64_t last);

struct OpenOptions {
    std::string dataset;  // HDF5 dataset path; empty: the NeXus default, else the only 3-D dataset
};
// Opens by content and name: master .json/.raw → raw, .dat, .npy, .h5/.hdf5/.nxs → HDF5. Throws
// FormatError naming what was found and which formats there are.
[[nodiscard]] std::unique_ptr<Source> open(const std::string& path, const OpenOptions& options = {});

}  // namespace lightmill::frames

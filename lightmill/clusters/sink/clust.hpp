#pragma once
// aare's cluster files (.clust): frame number, count, clusters; no header. docs/formats/clust.md.

#include <cstdint>
#include <string>
#include <vector>

#include "lightmill/base/file.hpp"
#include "lightmill/clusters/find/batch.hpp"

namespace lightmill::clusters {

// Writes partial_path(path); publish() gives it its name.
class ClustWriter {
  public:
    // Throws OptionError where `path`, or what is left of an interrupted run, exists and `overwrite` is not
    // set; IoError.
    ClustWriter(const std::string& path, bool overwrite);
    // Frames without clusters are written too. Throws Error(range) naming the value that does not fit: frame
    // numbers are signed 32-bit, coordinates 16-bit; nothing of this call is written then.
    void add(const ClustersView& clusters);
    // Whole, and on disk.
    void publish();

  private:
    std::string path_;
    FileDescriptor file_;
    std::int64_t size_ = 0;  // of the whole frames written
    std::vector<std::byte> bytes_;
};

// Reads frames in order.
class ClustReader {
  public:
    // The format says neither window nor type. Throws IoError.
    ClustReader(const std::string& path, const Window& window, Payload payload = Payload::int32);
    // The next frames, `frames` at most, fewer at the end; none after it. Throws FormatError (byte) where
    // the file ends inside a frame or the count cannot be.
    [[nodiscard]] Clusters read(std::uint64_t frames);

  private:
    std::string path_;
    Window window_;
    Payload payload_;
    FileDescriptor file_;
    std::int64_t size_ = 0;
    std::int64_t at_ = 0;
    std::uint64_t frames_ = 0;
    std::vector<std::byte> bytes_;
};

}  // namespace lightmill::clusters

#pragma once
// Found clusters: views over memory that the finder owns, and their owned copy.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lightmill/base/hash.hpp"
#include "lightmill/clusters/find/options.hpp"

namespace lightmill::clusters {

// Clusters of consecutive frames. Those of frame i are offsets[i] … offsets[i + 1] - 1, in raster
// order of their centre. residuals holds window.cells() values a cluster, in rows from the top left,
// in ADU; cells outside the image or absent are 0. One of the two residual spans is empty,
// by payload. Where clusters stay on a GPU (SpeedOptions), all but numbers and offsets are empty.
struct ClustersView {
    Window window = {};
    std::uint64_t first_index = 0;              // frames delivered before these
    std::span<const std::uint64_t> numbers;     // (frames) the detector's frame numbers
    std::span<const std::uint64_t> offsets;     // (frames + 1), the first is 0
    std::span<const std::uint32_t> rows;        // (clusters) of the centre
    std::span<const std::uint32_t> columns;     // (clusters)
    std::span<const std::int32_t> residuals;    // (clusters × cells), payload int32
    std::span<const std::int16_t> residuals16;  // (clusters × cells), payload int16
    std::span<const Hash128> hashes;            // (frames), or empty where they were not asked for

    [[nodiscard]] std::size_t frames() const noexcept { return numbers.size(); }
    [[nodiscard]] std::size_t clusters() const noexcept { return rows.size(); }
    [[nodiscard]] std::uint64_t count(std::size_t frame) const noexcept {
        return offsets[frame + 1] - offsets[frame];
    }
    [[nodiscard]] Payload payload() const noexcept {
        return residuals16.empty() ? Payload::int32 : Payload::int16;
    }
    [[nodiscard]] std::int32_t residual(std::size_t i) const noexcept {
        return residuals16.empty() ? residuals[i] : residuals16[i];
    }
};

// The same, owning its memory.
struct Clusters {
    Window window = {};
    std::uint64_t first_index = 0;
    std::vector<std::uint64_t> numbers;
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> columns;
    std::vector<std::int32_t> residuals;
    std::vector<std::int16_t> residuals16;
    std::vector<Hash128> hashes;
    [[nodiscard]] ClustersView view() const noexcept;
    // Adds the frames of another set of the same window and payload behind these.
    void append(const ClustersView& more);
};

namespace detail {
struct Slot;  // find/slot_internal.hpp
}

// A result on loan: its memory goes back to the finder when the batch is destroyed. It may outlive
// the finder and be released in any order, on any thread.
class Batch {
  public:
    Batch() noexcept = default;
    explicit Batch(std::shared_ptr<detail::Slot> slot) noexcept;
    Batch(Batch&&) noexcept = default;
    Batch& operator=(Batch&& other) noexcept;
    ~Batch();
    [[nodiscard]] const ClustersView& view() const noexcept { return view_; }
    [[nodiscard]] Clusters to_owned() const;
    void release() noexcept;

  private:
    std::shared_ptr<detail::Slot> slot_;
    ClustersView view_;
};

// The hash of one frame: XXH3-128 over number (u64), count (u64), rows (u32 each), columns (u32
// each), residuals (int32 each, whatever the payload), all little endian.
[[nodiscard]] Hash128 hash_frame(const ClustersView& clusters, std::size_t frame);

// The result digest: SHA-256 over (number u64, count u64, hash 16 bytes) of every frame in delivered
// order, frames without clusters included.
class ResultDigest {
  public:
    // Computes the hashes that the view does not bring.
    void add(const ClustersView& clusters);
    [[nodiscard]] std::string hex() const { return sha_.hex(); }

  private:
    Sha256 sha_;
};

}  // namespace lightmill::clusters

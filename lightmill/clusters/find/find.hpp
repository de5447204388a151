#pragma once
// Frames and a pedestal in, photon clusters out. The definition is in docs/algorithms/clusters.md.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/clusters/find/batch.hpp"
#include "lightmill/clusters/find/options.hpp"
#include "lightmill/clusters/pedestal/pedestal.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters {

namespace detail {
class DeviceConsumer;
}

// Backends that run on this machine, best first: cuda, instruction sets of simd, then reference.
[[nodiscard]] std::vector<std::string_view> available_backends();

// Pixel·frames that were absent because of their value, pixels used in every frame apart.
struct AbsentCounts {
    std::uint64_t absent_value = 0;  // held the absent value (lost packets among them)
    std::uint64_t gain_bits = 0;     // were in another gain
    std::uint64_t lost_packets = 0;  // of packets or ports that never came, as the source counted them
    friend bool operator==(const AbsentCounts&, const AbsentCounts&) = default;
};

// Everything that the answer for later frames depends on. Exists between epochs only.
struct FinderState {
    std::uint64_t frames = 0;   // delivered so far
    std::vector<Model> models;  // one; with rule per_stream one a stream
    // Rule raster keeps sums in double instead of a model; (rows × columns) each, else empty.
    std::vector<double> raster_sum, raster_square;
    AbsentCounts absent;
    std::vector<std::uint32_t> negatives;  // (rows × columns) frames in which the pixel was negative
};

// The model digest of a state: of its models, or of raster's sums.
[[nodiscard]] std::string model_digest(const FinderState& state);

class Finder {
  public:
    // module_rows, module_columns: first row (column) of each module but the first; windows do not
    // cross them. Throws OptionError; Error(unavailable) for a backend that this machine lacks.
    Finder(const Pedestal& pedestal, const FindOptions& options, const SpeedOptions& speed = {},
           std::span<const std::int64_t> module_rows = {}, std::span<const std::int64_t> module_columns = {});
    // Goes on from a state of the same pedestal and options.
    Finder(const Pedestal& pedestal, const FindOptions& options, const SpeedOptions& speed,
           const FinderState& state, std::span<const std::int64_t> module_rows = {},
           std::span<const std::int64_t> module_columns = {});
    Finder(Finder&&) noexcept;
    Finder& operator=(Finder&&) noexcept;
    ~Finder();

    // Clusters of the block's frames, which follow those of the call before. The pixels are read
    // during the call only. Throws Error(state), losing nothing, while all batches are held;
    // Error(range) where payload int16 cannot hold a residual, naming it; after that the
    // finder cannot go on.
    [[nodiscard]] Batch find(const frames::Block& block);
    // The same in two steps, so that a GPU has several blocks at a time: batches are collected in the order
    // in which their blocks were submitted. Pixels are read until then. Throws as find() does, which may
    // not be called between the two.
    void submit(const frames::Block& block);
    [[nodiscard]] Batch collect();
    [[nodiscard]] std::size_t pending() const noexcept;  // submitted, not collected
    // Allocates what blocks of so many frames need, results of so many clusters a frame included (0: one in
    // 48 pixels), so that finding them does not; the background stays as it is. On a GPU only.
    void reserve(std::int64_t frames, std::int64_t clusters_a_frame = 0);
    // Locks the pages of memory that frames will be submitted from, which a GPU then reads at full speed,
    // until the finder ends. The memory must live as long. Without effect on other backends.
    void pin(std::span<const Pixel> pixels);
    // Ends a short last epoch: applies its samples. No frames may be submitted after it.
    void finish();

    [[nodiscard]] std::uint64_t frames() const noexcept;  // delivered so far
    [[nodiscard]] bool between_epochs() const noexcept;
    // Throws Error(state) inside an epoch.
    [[nodiscard]] FinderState state() const;
    // Of the models as they are now; inside an epoch, as they will be at its end if it ended now.
    [[nodiscard]] std::string model_digest() const;
    [[nodiscard]] const AbsentCounts& absent() const noexcept;
    [[nodiscard]] std::span<const std::uint32_t> negatives() const;  // (rows × columns)
    [[nodiscard]] std::string_view backend() const noexcept;         // what runs, by its full name
    [[nodiscard]] int threads() const noexcept;

    // Shows every cluster to a consumer while it is on the GPU (reduce/device_reductions.hpp). Before the
    // first frame. Throws Error(unavailable) on a backend that has none there.
    void attach(const std::shared_ptr<detail::DeviceConsumer>& consumer);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lightmill::clusters

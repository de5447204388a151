#pragma once
// The steps of a GPU campaign that others went before us, as options of one finder: every frame goes to one
// of several streams, each with a background of its own (rule per_stream), and comes back in a region of
// fixed size, which has a cap. The ladders climb it; for work of your own take Finder, which has no cap and
// whose answer does not depend on the number of streams.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lightmill/base/options.hpp"
#include "lightmill/clusters/find/batch.hpp"
#include "lightmill/clusters/find/options.hpp"
#include "lightmill/clusters/pedestal/pedestal.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters {

struct StreamOptions {
    std::int64_t cap = 3000;  // clusters that a frame's region holds
    bool truncate = false;    // else a frame with more is an error
    bool barrier = false;     // all streams end a round of one frame each before the next begins
    bool graphs = false;      // a frame's copies and kernels are one graph, through page-locked memory
    friend bool operator==(const StreamOptions&, const StreamOptions&) = default;
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, StreamOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "cap",
                     .help = "clusters that the region of a frame holds; more are an error",
                     .unit = "clusters a frame",
                     .minimum = 1,
                     .maximum = 1e7},
          options.cap);
    visit(OptionInfo{.name = "truncate", .help = "cut frames at the cap, and count what was cut"},
          options.truncate);
    visit(OptionInfo{.name = "barrier", .help = "streams wait for each other after a frame each"},
          options.barrier);
    visit(OptionInfo{.name = "graphs", .help = "a frame's copies and kernels are launched as one graph"},
          options.graphs);
}

// Frames of a block where a batch is to be cut so that copies and kernels overlap: an eighth of it, at least
// four a stream, a multiple of the streams, and results of 128 MiB at most (of one frame a stream, if that is
// more).
[[nodiscard]] std::int64_t auto_chunk(std::int64_t batch, std::int64_t streams, std::int64_t cap,
                                      const Window& window);

// Frames of one submit(), on loan: the memory goes back when it is destroyed.
class StreamBatch {
  public:
    struct Slot;
    explicit StreamBatch(std::shared_ptr<Slot> slot) noexcept;
    StreamBatch(StreamBatch&&) noexcept = default;
    StreamBatch& operator=(StreamBatch&&) noexcept;
    ~StreamBatch();
    [[nodiscard]] std::size_t frames() const noexcept;
    [[nodiscard]] std::uint32_t count(std::size_t frame) const noexcept;  // true, also where it was cut
    // One frame's clusters, in raster order; no copy.
    [[nodiscard]] ClustersView view(std::size_t frame) const noexcept;

  private:
    std::shared_ptr<Slot> slot_;
};

class StreamFinder {
  public:
    // options: rule per_stream, payload int32. device: of a GPU, or "emulated". Throws OptionError;
    // Error(unavailable) where there is no such GPU.
    StreamFinder(const Pedestal& pedestal, const FindOptions& options, const StreamOptions& stream_options,
                 const std::string& device = "0");
    StreamFinder(StreamFinder&&) noexcept;
    StreamFinder& operator=(StreamFinder&&) noexcept;
    ~StreamFinder();

    // Memory for `blocks` blocks of so many frames.
    void reserve(std::int64_t frames, std::size_t blocks);
    void pin(std::span<const Pixel> pixels);
    // Queues a block, whose pixels stay until it is collected.
    void submit(const frames::Block& block);
    // The oldest. Throws Error(range) where a frame has more clusters than the cap and may not be cut.
    [[nodiscard]] StreamBatch collect();
    [[nodiscard]] std::size_t pending() const noexcept;

    [[nodiscard]] std::string model_digest() const;
    [[nodiscard]] std::uint64_t frames_cut() const noexcept;
    [[nodiscard]] std::uint64_t clusters_cut() const noexcept;
    [[nodiscard]] std::uint64_t frames_at_cap()
        const noexcept;  // with exactly as many, which a peer may have cut

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lightmill::clusters

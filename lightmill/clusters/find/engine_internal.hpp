#pragma once
// What every implementation of the finder offers to find.cpp.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lightmill/clusters/find/find.hpp"
#include "lightmill/clusters/find/slot_internal.hpp"

namespace lightmill::clusters::detail {

class DeviceConsumer;

// The definition's constants, each rounded to binary32 once.
struct Constants {
    float threshold;  // n_sigma²: q = threshold · s
    float cells;      // w·h: S·S is compared with cells · q
    float gain;       // a = 1/memory
    float keep;       // 1 − a
    explicit Constants(const FindOptions& options) noexcept
        : threshold(static_cast<float>(options.n_sigma * options.n_sigma)),
          cells(static_cast<float>(options.window.cells())),
          gain(static_cast<float>(1.0 / static_cast<double>(options.memory))),
          keep(static_cast<float>(1.0 - 1.0 / static_cast<double>(options.memory))) {}
};

// First rows (columns) of the modules and, last, the number of rows (columns).
struct Modules {
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> columns;
};

// What an engine is made from. References stay valid while it lives.
struct Setting {
    const Pedestal& pedestal;
    const FindOptions& options;
    const Modules& modules;
    const FinderState& state;  // where to begin
    int threads;
    const SpeedOptions& speed;
};

class Engine {
  public:
    virtual ~Engine() = default;
    // What this engine fills, for as many results as may be held.
    virtual std::shared_ptr<Slot> make_slot() { return std::make_shared<Slot>(); }
    // Begins to fill a slot of make_slot() with the clusters of the block's frames, whose pixels stay until
    // collect() has returned for that slot. Slots are collected in the order they were submitted.
    virtual void submit(const frames::Block& block, Slot& slot) = 0;
    virtual void collect(Slot&) {}
    // Makes memory ready for blocks of so many frames and for so many clusters a frame in these slots.
    virtual void reserve(std::int64_t, std::int64_t, std::span<const std::shared_ptr<Slot>>) {}
    // Pixels that will be submitted, for as long as the engine lives.
    virtual void pin(std::span<const Pixel>) {}
    // False where clusters are never on a device.
    virtual bool attach(const std::shared_ptr<DeviceConsumer>&) { return false; }
    // Ends a short last epoch.
    virtual void finish() = 0;
    // Models, or raster sums, and counters; `frames` is the caller's.
    virtual void save(FinderState& state) const = 0;
    [[nodiscard]] virtual const AbsentCounts& absent() const noexcept = 0;
    [[nodiscard]] virtual std::span<const std::uint32_t> negatives() const = 0;
    [[nodiscard]] virtual int threads() const noexcept = 0;
    // work(0 … frames − 1), on the engine's threads.
    virtual void for_each_frame(std::size_t frames, const std::function<void(std::size_t)>& work) {
        for (std::size_t f = 0; f < frames; ++f) work(f);
    }
};

[[nodiscard]] std::unique_ptr<Engine> make_reference(const Setting& setting);
[[nodiscard]] std::unique_ptr<Engine> make_raster(const Setting& setting);

// Residual outside int16: names it, so that the user can find it.
[[noreturn]] void refuse_int16(std::int64_t value, std::int64_t row, std::int64_t column);

}  // namespace lightmill::clusters::detail

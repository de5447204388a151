#pragma once
// Reductions where the clusters are: on the GPU. A consumer that wants nothing else receives no clusters
// (SpeedOptions: clusters = false, hashes = false).

#include <memory>
#include <optional>

#include "lightmill/clusters/find/find.hpp"
#include "lightmill/clusters/reduce/hit_map.hpp"
#include "lightmill/clusters/reduce/pixel_spectrum.hpp"
#include "lightmill/clusters/reduce/spectrum.hpp"

namespace lightmill::clusters {

// What is wanted.
struct ReductionOptions {
    std::optional<SpectrumOptions> spectrum = std::nullopt;
    bool hit_map = false;
    std::optional<SpectrumOptions> pixel_spectrum = std::nullopt;
};

// The same integers as the host's Spectrum, HitMap and PixelSpectrum of every batch.
class DeviceReductions {
  public:
    // Before the finder's first frame. Throws Error(unavailable) where its backend is not on a GPU.
    DeviceReductions(Finder& finder, const frames::Shape& shape, const ReductionOptions& options);
    DeviceReductions(DeviceReductions&&) noexcept;
    DeviceReductions& operator=(DeviceReductions&&) noexcept;
    ~DeviceReductions();

    // Of every frame of the batches that were collected; more may be in them. Throw Error(state) for what was
    // not asked for. They wait for the device.
    [[nodiscard]] Spectrum spectrum() const;
    [[nodiscard]] HitMap hit_map() const;
    [[nodiscard]] PixelSpectrum pixel_spectrum() const;

  private:
    class Consumer;
    std::shared_ptr<Consumer> consumer_;
};

}  // namespace lightmill::clusters

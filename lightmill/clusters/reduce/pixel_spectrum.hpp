#pragma once
// A spectrum for each pixel: how many clusters with their centre there have which sum.

#include <cstdint>
#include <span>
#include <vector>

#include "lightmill/clusters/find/batch.hpp"
#include "lightmill/clusters/reduce/spectrum.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters {

// Exact counts (rows × columns × bins), in the bins of Spectrum; sums outside them are counted together.
class PixelSpectrum {
  public:
    // Throws OptionError; Error(range) where the counts would be more than 2^31.
    PixelSpectrum(const frames::Shape& shape, const SpectrumOptions& options);

    void add(const ClustersView& clusters);

    [[nodiscard]] const frames::Shape& shape() const noexcept { return shape_; }
    [[nodiscard]] const SpectrumOptions& options() const noexcept { return options_; }
    [[nodiscard]] std::span<const std::uint32_t> counts() const noexcept { return counts_; }
    [[nodiscard]] std::span<std::uint32_t> counts() noexcept { return counts_; }
    [[nodiscard]] std::span<const std::uint32_t> of(std::int64_t row, std::int64_t column) const noexcept;
    [[nodiscard]] std::uint64_t outside() const noexcept { return outside_; }
    void set_outside(std::uint64_t count) noexcept { outside_ = count; }

  private:
    frames::Shape shape_;
    SpectrumOptions options_;
    std::vector<std::uint32_t> counts_;
    std::uint64_t outside_ = 0;
};

}  // namespace lightmill::clusters

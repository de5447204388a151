#pragma once
// The energy spectrum: how many clusters have which sum.

#include <cstdint>
#include <span>
#include <vector>

#include "lightmill/base/options.hpp"
#include "lightmill/clusters/find/batch.hpp"

namespace lightmill::clusters {

// Regular bins over [minimum, maximum) of a cluster's sum, in ADU.
struct SpectrumOptions {
    std::int64_t spectrum_bins = 1000;
    std::int64_t spectrum_min = 0;
    std::int64_t spectrum_max = 10'000;
    friend bool operator==(const SpectrumOptions&, const SpectrumOptions&) = default;
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, SpectrumOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "spectrum_bins",
                     .help = "bins of the spectrum of cluster sums",
                     .minimum = 1,
                     .maximum = 1 << 20},
          options.spectrum_bins);
    visit(OptionInfo{.name = "spectrum_min",
                     .help = "lower edge of the spectrum's first bin",
                     .unit = "ADU",
                     .minimum = -(1LL << 40),
                     .maximum = 1LL << 40},
          options.spectrum_min);
    visit(OptionInfo{.name = "spectrum_max",
                     .help = "upper edge of the spectrum's last bin, outside it",
                     .unit = "ADU",
                     .minimum = -(1LL << 40),
                     .maximum = 1LL << 40},
          options.spectrum_max);
}
// Throws OptionError for the first option that is not allowed, alone or beside the others.
void check(const SpectrumOptions& options);

// Exact counts. A cluster falls into bin ⌊(sum − minimum)·bins / (maximum − minimum)⌋, computed in
// integers: no edge depends on rounding.
class Spectrum {
  public:
    explicit Spectrum(const SpectrumOptions& options);

    void add(const ClustersView& clusters);
    // Adds the counts of another spectrum with the same options; throws Error(state) otherwise.
    void merge(const Spectrum& other);

    [[nodiscard]] const SpectrumOptions& options() const noexcept { return options_; }
    [[nodiscard]] std::span<const std::uint64_t> counts() const noexcept {
        return std::span(counts_).subspan(1, counts_.size() - 2);
    }
    [[nodiscard]] std::uint64_t underflow() const noexcept { return counts_.front(); }
    [[nodiscard]] std::uint64_t overflow() const noexcept { return counts_.back(); }
    [[nodiscard]] std::uint64_t total() const noexcept;
    // Lower edge of bin i in ADU; edge(bins) is the upper edge of the last one.
    [[nodiscard]] double edge(std::int64_t i) const noexcept;

    // Underflow, bins, overflow: as files keep them. Throws Error(state) where the size differs.
    [[nodiscard]] std::span<const std::uint64_t> all() const noexcept { return counts_; }
    void set_all(std::span<const std::uint64_t> counts);

  private:
    [[nodiscard]] std::size_t place(std::int64_t sum) const noexcept;  // in counts_

    SpectrumOptions options_;
    std::vector<std::uint64_t> counts_;  // underflow, bins, overflow
    std::vector<std::uint32_t> places_;  // of each sum from the minimum on, where that is a small table
};

}  // namespace lightmill::clusters

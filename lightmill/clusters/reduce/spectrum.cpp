#include "lightmill/clusters/reduce/spectrum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace lightmill::clusters {
namespace {

constexpr std::int64_t k_table_limit = 1 << 16;  // sums; 256 KiB, so that it stays in the cache

// Exact for any int32 values: the halves of up to 2^16 of them cannot overflow. Two 32-bit sums because
// those become vector code, a 64-bit one does not.
template <class T>
std::int64_t sum_of(const T* values, int cells) noexcept {
    std::int32_t high = 0, low = 0;
    for (int i = 0; i < cells; ++i) {
        const std::int32_t value = values[i];
        high += value >> 16;
        low += value & 0xffff;
    }
    return std::int64_t{high} * 65536 + low;
}

}  // namespace

void check(const SpectrumOptions& options) {
    check_options(options);
    if (options.spectrum_max <= options.spectrum_min) {
        throw OptionError("spectrum_max", fmt::format("{}", options.spectrum_max),
                          fmt::format("above spectrum_min, which is {}", options.spectrum_min));
    }
}

Spectrum::Spectrum(const SpectrumOptions& options) : options_(options) {
    check(options);
    counts_.assign(static_cast<std::size_t>(options.spectrum_bins) + 2, 0);
    const auto range = options.spectrum_max - options.spectrum_min;
    if (range > k_table_limit) return;
    std::vector<std::uint32_t> places(static_cast<std::size_t>(range));
    for (std::int64_t i = 0; i < range; ++i) {
        places[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(place(options.spectrum_min + i));
    }
    places_ = std::move(places);
}

std::size_t Spectrum::place(std::int64_t sum) const noexcept {
    if (sum < options_.spectrum_min) return 0;
    if (sum >= options_.spectrum_max) return counts_.size() - 1;
    const auto above = sum - options_.spectrum_min;
    if (!places_.empty()) return places_[static_cast<std::size_t>(above)];
    const auto range = options_.spectrum_max - options_.spectrum_min;  // above·bins < 2^62
    return static_cast<std::size_t>(above * options_.spectrum_bins / range) + 1;
}

void Spectrum::add(const ClustersView& clusters) {
    const int cells = clusters.window.cells();
    const auto step = static_cast<std::size_t>(cells);
    const auto add_all = [&](const auto* values) {
        for (std::size_t i = 0; i < clusters.clusters(); ++i) {
            ++counts_[place(sum_of(values + i * step, cells))];
        }
    };
    if (clusters.payload() == Payload::int32) {
        add_all(clusters.residuals.data());
    } else {
        add_all(clusters.residuals16.data());
    }
}

void Spectrum::merge(const Spectrum& other) {
    if (other.options_ != options_) {
        throw Error(ErrorCode::state, "spectra with different bins cannot be merged", "spectrum");
    }
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::uint64_t Spectrum::total() const noexcept {
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

double Spectrum::edge(std::int64_t i) const noexcept {
    const auto range = static_cast<double>(options_.spectrum_max - options_.spectrum_min);
    return static_cast<double>(options_.spectrum_min) +
           range * static_cast<double>(i) / static_cast<double>(options_.spectrum_bins);
}

void Spectrum::set_all(std::span<const std::uint64_t> counts) {
    if (counts.size() != counts_.size()) {
        throw Error(ErrorCode::state,
                    fmt::format("found {} counts for a spectrum, expected {}", counts.size(), counts_.size()),
                    "spectrum");
    }
    std::copy(counts.begin(), counts.end(), counts_.begin());
}

}  // namespace lightmill::clusters

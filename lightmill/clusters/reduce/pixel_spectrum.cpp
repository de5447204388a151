#include "lightmill/clusters/reduce/pixel_spectrum.hpp"

#include <fmt/format.h>

#include <limits>

#include "lightmill/base/error.hpp"

namespace lightmill::clusters {

PixelSpectrum::PixelSpectrum(const frames::Shape& shape, const SpectrumOptions& options)
    : shape_(shape), options_(options) {
    check(options);
    if (options.spectrum_bins > std::numeric_limits<std::int32_t>::max() / shape.pixels()) {
        throw Error(ErrorCode::range,
                    fmt::format("{} bins for each of {} pixels are too many, expected 2^31 counts at most",
                                options.spectrum_bins, shape.pixels()),
                    "spectrum_bins");
    }
    counts_.assign(static_cast<std::size_t>(shape.pixels() * options.spectrum_bins), 0);
}

void PixelSpectrum::add(const ClustersView& clusters) {
    const auto cells = static_cast<std::size_t>(clusters.window.cells());
    const auto range = options_.spectrum_max - options_.spectrum_min;
    for (std::size_t i = 0; i < clusters.clusters(); ++i) {
        std::int64_t sum = 0;
        for (std::size_t k = 0; k < cells; ++k) sum += clusters.residual(i * cells + k);
        if (sum < options_.spectrum_min || sum >= options_.spectrum_max) {
            ++outside_;
            continue;
        }
        const auto bin = (sum - options_.spectrum_min) * options_.spectrum_bins / range;
        const auto pixel = static_cast<std::int64_t>(clusters.rows[i]) * shape_.columns + clusters.columns[i];
        ++counts_[static_cast<std::size_t>(pixel * options_.spectrum_bins + bin)];
    }
}

std::span<const std::uint32_t> PixelSpectrum::of(std::int64_t row, std::int64_t column) const noexcept {
    const auto bins = static_cast<std::size_t>(options_.spectrum_bins);
    return std::span(counts_).subspan(static_cast<std::size_t>(row * shape_.columns + column) * bins, bins);
}

}  // namespace lightmill::clusters

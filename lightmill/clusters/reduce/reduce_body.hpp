#pragma once
// Reductions of clusters on a device, as functions that host and device share (see find_body.hpp).

#include "lightmill/clusters/find/find_body.hpp"

namespace lightmill::clusters::detail {

inline constexpr int k_reduce_threads = 256;

// Bins of a spectrum: ⌊(sum − first)·bins / (last − first)⌋.
struct Bins {
    long long first, last, bins;
};
// 0 below, bins + 1 above.
LIGHTMILL_BODY long long bin_of(const Bins& bins, long long sum) {
    if (sum < bins.first) return 0;
    if (sum >= bins.last) return bins.bins + 1;
    return (sum - bins.first) * bins.bins / (bins.last - bins.first) + 1;
}

struct ReduceParameters {
    BandPlan plan;
    const std::uint32_t* photons;   // (frames × map_words)
    const std::int32_t* residuals;  // (frames × plan.pixels)
    Bins bins;                      // of the spectrum
    unsigned long long* spectrum;   // (bins + 2) below, bins, above; or null
    std::uint32_t* hits;            // (plan.pixels), or null
    Bins pixel_bins;                // of each pixel's spectrum
    std::uint32_t* pixel_spectra;   // (plan.pixels × bins), or null
    unsigned long long* outside;    // of the pixels' spectra
};

LIGHTMILL_BODY void count_one(std::uint32_t& count) {
#ifdef __CUDA_ARCH__
    atomicAdd(&count, 1U);
#else
    ++count;
#endif
}

LIGHTMILL_BODY void reduce_word(const ReduceParameters& p, int frame, int word) {
    if (word >= p.plan.map_words()) return;
    auto bits = p.photons[static_cast<std::int64_t>(frame) * p.plan.map_words() + word];
    const int y = word / p.plan.words;
    const int first_x = word % p.plan.words * 32;
    const int height = 2 * p.plan.half_height + 1, width = 2 * p.plan.half_width + 1;
    for (; bits != 0; bits &= bits - 1) {
        const Place place{frame, y, first_x + first_bit(bits)};
        const int row = p.plan.row_of[y + p.plan.half_height];
        const int column = p.plan.column_of[place.x + p.plan.half_width];
        const std::int64_t pixel = static_cast<std::int64_t>(row) * p.plan.columns + column;
        if (p.hits != nullptr) count_one(p.hits[pixel]);
        if (p.spectrum == nullptr && p.pixel_spectra == nullptr) continue;
        long long sum = 0;
        for (int r = 0; r < height; ++r) {
            for (int c = 0; c < width; ++c) sum += residual_at(p.plan, p.residuals, place, r, c);
        }
        if (p.spectrum != nullptr) add(p.spectrum[bin_of(p.bins, sum)], 1ULL);
        if (p.pixel_spectra != nullptr) {
            const auto bin = bin_of(p.pixel_bins, sum);
            if (bin == 0 || bin > p.pixel_bins.bins) {
                add(*p.outside, 1ULL);
            } else {
                count_one(p.pixel_spectra[pixel * p.pixel_bins.bins + bin - 1]);
            }
        }
    }
}

}  // namespace lightmill::clusters::detail

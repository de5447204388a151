#include "lightmill/clusters/pedestal/pedestal.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hash.hpp"

namespace lightmill::clusters {
namespace {

// Up to here n fits a binary32 and n·Q an exact 128-bit product, with room to spare.
constexpr std::uint64_t k_max_frames = std::uint64_t{1} << 24;
constexpr std::uint64_t k_frames_a_read = 64;

__extension__ using Wide = unsigned __int128;

}  // namespace

std::uint64_t Pedestal::pixels_in(PixelState which) const noexcept {
    return static_cast<std::uint64_t>(std::count(state.begin(), state.end(), which));
}

Training::Training(const Shape& shape, const AbsentRule& absent) : shape_(shape), absent_(absent) {
    const auto pixels = static_cast<std::size_t>(shape.pixels());
    seen_.assign(pixels, 0);
    sum_.assign(pixels, 0);
    square_.assign(pixels, 0);
}

void Training::add(const View<const Pixel, 3>& dark) {
    if (dark.extent(1) != shape_.rows || dark.extent(2) != shape_.columns) {
        throw OptionError("pedestal", fmt::format("dark frames of {}x{}", dark.extent(1), dark.extent(2)),
                          fmt::format("{}x{} (rows x columns)", shape_.rows, shape_.columns));
    }
    frames_ += static_cast<std::uint64_t>(dark.extent(0));
    if (frames_ > k_max_frames) {
        throw Error(
            ErrorCode::range,
            fmt::format("training takes at most {} dark frames; use --pedestal-frames", k_max_frames));
    }
    const auto pixels = static_cast<std::size_t>(shape_.pixels());
    const bool all_present = !absent_.value && !absent_.gain_bits;
    // A few pixels through all frames, then the next ones: their sums stay in the cache.
    constexpr std::size_t k_block = 2048;
    for (std::size_t first = 0; first < pixels; first += k_block) {
        const auto last = std::min(first + k_block, pixels);
        for (std::int64_t f = 0; f < dark.extent(0); ++f) {
            const Pixel* frame = dark[f].data();
            if (all_present) {
                for (std::size_t i = first; i < last; ++i) {
                    const std::uint32_t x = frame[i];
                    seen_[i] += 1;
                    sum_[i] += x;
                    square_[i] += x * x;
                }
            } else {
                for (std::size_t i = first; i < last; ++i) {
                    const bool present = !absent_(frame[i]);
                    const std::uint32_t x = present ? frame[i] : 0U;
                    seen_[i] += present ? 1U : 0U;
                    sum_[i] += x;
                    square_[i] += x * x;
                }
            }
        }
    }
}

Pedestal Training::finish(std::span<const std::uint8_t> mask, const PedestalOptions& options) const {
    check_options(options);
    const auto pixels = static_cast<std::size_t>(shape_.pixels());
    if (!mask.empty() && mask.size() != pixels) {
        throw OptionError("mask", fmt::format("{} pixels", mask.size()),
                          fmt::format("{} ({}x{} rows x columns)", pixels, shape_.rows, shape_.columns));
    }
    if (frames_ == 0) throw OptionError("pedestal", "no dark frames", "at least two");
    if (options.pedestal_frames > 0 && frames_ < static_cast<std::uint64_t>(options.pedestal_frames)) {
        throw OptionError(
            "pedestal_frames", fmt::format("{} dark frames", frames_),
            fmt::format("the {} asked for; give more dark frames or ask for fewer", options.pedestal_frames));
    }
    Pedestal pedestal;
    pedestal.shape = shape_;
    pedestal.frames = frames_;
    pedestal.absent = absent_;
    pedestal.options = options;
    pedestal.seen = seen_;
    pedestal.sum = sum_;
    pedestal.square = square_;
    pedestal.state.assign(pixels, PixelState::used);
    auto& model = pedestal.model;
    model.offset.assign(pixels, 0);
    model.mean.assign(pixels, 0);
    model.variance.assign(pixels, 0);
    const auto least_variance = static_cast<float>(options.min_noise * options.min_noise);
    for (std::size_t i = 0; i < pixels; ++i) {
        const std::uint64_t n = seen_[i];
        if (n > 0) {
            const std::uint64_t offset = (2 * sum_[i] + n) / (2 * n);
            const auto rest = static_cast<std::int64_t>(sum_[i]) - static_cast<std::int64_t>(n * offset);
            const Wide numerator = Wide{n} * square_[i] - Wide{sum_[i]} * sum_[i];
            model.offset[i] = static_cast<Pixel>(offset);
            model.mean[i] = static_cast<float>(rest) / static_cast<float>(n);
            model.variance[i] = static_cast<float>(static_cast<double>(numerator) /
                                                   (static_cast<double>(n) * static_cast<double>(n)));
        }
        if (!mask.empty() && mask[i] != 0) {
            pedestal.state[i] = PixelState::masked;
        } else if (n < 2) {
            pedestal.state[i] = PixelState::unseen;
        } else if (model.variance[i] < least_variance) {
            pedestal.state[i] = PixelState::low_noise;
        }
    }
    return pedestal;
}

Pedestal train(frames::Source& dark, const AbsentRule& absent, std::span<const std::uint8_t> mask,
               const PedestalOptions& options) {
    check_options(options);
    std::uint64_t count = dark.description().count;
    if (options.pedestal_frames > 0)
        count = std::min(count, static_cast<std::uint64_t>(options.pedestal_frames));
    Training training(dark.description().shape, absent);
    frames::Storage storage;
    for (std::uint64_t first = 0; first < count; first += k_frames_a_read) {
        training.add(dark.read(first, std::min(k_frames_a_read, count - first), storage).pixels);
    }
    return training.finish(mask, options);
}

std::string model_digest(std::span<const Model> models) {
    Sha256 sha;
    for (const auto& model : models) {
        sha.update(std::span(model.offset));
        sha.update(std::span(model.mean));
        sha.update(std::span(model.variance));
    }
    return sha.hex();
}

}  // namespace lightmill::clusters

#include "lightmill/frames/simulated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "lightmill/frames/frame_numbers.hpp"
#include "lightmill/frames/simulated_math_internal.hpp"

namespace lightmill::frames {
namespace {

std::size_t to_size(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

// What a generator of random numbers is for.
enum class Stream : std::uint64_t {
    means = 0,
    dark = 1,
    data = 2,
    bad_pixels = 3,
    dark_packets = 4,
    data_packets = 5,
};

// xoshiro256++ (Blackman and Vigna), its state filled by splitmix64.
class Random {
  public:
    Random(std::uint64_t seed, Stream stream, std::uint64_t index) noexcept {
        auto x =
            seed ^ static_cast<std::uint64_t>(stream) * 0xD1342543DE82EF95U ^ index * 0xA0761D6478BD642FU;
        for (auto& word : state_) {
            x += 0x9E3779B97F4A7C15U;
            auto z = x;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
            word = z ^ (z >> 31);
        }
    }
    // In [0, 1), a multiple of 2^-53.
    double uniform() noexcept {
        return static_cast<double>(static_cast<std::int64_t>(next() >> 11)) * 0x1p-53;
    }

  private:
    std::uint64_t next() noexcept {
        auto& s = state_;
        const auto result = std::rotl(s[0] + s[3], 23) + s[0];
        const auto t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = std::rotl(s[3], 45);
        return result;
    }
    std::array<std::uint64_t, 4> state_;
};

using Normals = void(const double*, const double*, std::size_t, double*) noexcept;

// values[i] = base(i) + scale · the i-th normal number.
template <class Base>
void add_normals(Random& random, Normals& normals, double scale, const Base& base, std::span<double> values) {
    constexpr std::size_t k_pairs = 1024;  // at a time, so that they stay in the first cache
    std::array<double, k_pairs> u1, u2;
    std::array<double, 2 * k_pairs> n;
    for (std::size_t done = 0; done < values.size();) {
        const auto count = std::min(2 * k_pairs, values.size() - done);
        const auto pairs = (count + 1) / 2;
        for (std::size_t i = 0; i < pairs; ++i) {
            u1[i] = 1.0 - random.uniform();
            u2[i] = random.uniform();
        }
        normals(u1.data(), u2.data(), pairs, n.data());
        for (std::size_t i = 0; i < count; ++i) values[done + i] = base(done + i) + scale * n[i];
        done += count;
    }
}

// Knuth's, in draws whose exp(-mean) is far from underflow.
std::int64_t poisson(Random& random, double mean) {
    if (mean <= 0) return 0;
    const auto draws = std::max(10.0, std::ceil(mean / 235));
    const auto limit = std::exp(-mean / draws);
    std::int64_t count = 0;
    for (double draw = 0; draw < draws; ++draw) {
        double p = 1;
        for (;; ++count) {
            p *= random.uniform();
            if (p <= limit) break;
        }
    }
    return count;
}

double normal_below(double z) {
    return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

// Pixels on each side of the photon's own that its charge is spread over: 2 at a width of 0.35.
int reach_of(double cloud_width) {
    return std::max(2, static_cast<int>(std::ceil(5.5 * cloud_width)));
}
constexpr int k_max_reach = 22;

// Parts of a cloud at `at` that fall into the pixels centre - reach … centre + reach.
using Parts = std::array<double, 2 * k_max_reach + 1>;
void spread(double at, double centre, double width, int reach, Parts& parts) {
    auto below = normal_below((centre - reach - at) / width);
    for (int i = -reach; i <= reach; ++i) {
        const auto above = normal_below((centre + i + 1 - at) / width);
        parts[to_size(i + reach)] = above - below;
        below = above;
    }
}

std::vector<std::int64_t> draw_pixels(Random& random, std::int64_t pixels, std::int64_t count,
                                      std::unordered_set<std::int64_t>& taken) {
    std::vector<std::int64_t> drawn;
    while (static_cast<std::int64_t>(drawn.size()) < count) {
        const auto pixel = static_cast<std::int64_t>(static_cast<double>(pixels) * random.uniform());
        if (taken.insert(pixel).second) drawn.push_back(pixel);
    }
    std::ranges::sort(drawn);
    return drawn;
}

constexpr double k_hot = 10;  // noise of a hot pixel, in that of others

class Simulated final : public Source {
  public:
    Simulated(const SimulationOptions& options, FrameKind kind, std::uint64_t frames, int threads)
        : simulation_(options), kind_(kind), team_(threads > 0 ? threads : available_threads()) {
        const auto kind_name = names(kind)[static_cast<std::size_t>(kind)];
        description_.name = fmt::format("simulated {} frames, seed {}", kind_name, options.seed);
        description_.format = "simulated";
        description_.shape = simulation_.shape();
        description_.count = frames;
        if (options.lost_packets > 0) description_.absent_value = k_simulated_lost;
    }
    const Description& description() const noexcept override { return description_; }
    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        require_inside(description_, first, count);
        return simulation_.block(kind_, first, count, team_, storage);
    }
    Anomalies anomalies() const override { return {}; }

  private:
    Simulation simulation_;
    FrameKind kind_;
    Team team_;
    Description description_;
};

}  // namespace

std::span<const std::string_view> names(FrameKind) {
    static constexpr std::array<std::string_view, 2> k_names{"dark", "data"};
    return k_names;
}

Simulation::Simulation(const SimulationOptions& options) : options_(options) {
    check_options(options);
    const auto pixels = shape().pixels();
    if (pixels > std::int64_t{1} << 28) {
        throw OptionError("rows × columns", fmt::format("{} × {} pixels", options.rows, options.columns),
                          fmt::format("at most {} pixels in all", std::int64_t{1} << 28));
    }
    if (options.hot_pixels + options.dead_pixels > pixels / 2) {
        throw OptionError("hot_pixels + dead_pixels",
                          fmt::format("{}", options.hot_pixels + options.dead_pixels),
                          fmt::format("at most half of the {} pixels", pixels));
    }
    means_ = Buffer<double>(to_size(pixels));
    Random random(options.seed, Stream::means, 0);
    add_normals(
        random, detail::normals_exact, options.mean_spread, [&](std::size_t) { return options_.mean; },
        means_.span());
    Random bad(options.seed, Stream::bad_pixels, 0);
    std::unordered_set<std::int64_t> taken;
    hot_ = draw_pixels(bad, pixels, options.hot_pixels, taken);
    dead_ = draw_pixels(bad, pixels, options.dead_pixels, taken);
}

FrameInfo Simulation::frame(FrameKind kind, std::uint64_t index, std::span<Pixel> out,
                            std::vector<Photon>* truth) const {
    const auto [rows, columns] = shape();
    const auto pixels = to_size(shape().pixels());
    if (out.size() != pixels) {
        throw Error(ErrorCode::range,
                    fmt::format("found room for {} pixels, expected {} × {}", out.size(), rows, columns));
    }
    const auto gain = 1 + options_.gain_drift * (static_cast<double>(index) / 1000);
    const auto energy = std::max(0.0, options_.charge * gain);
    Buffer<double> values(pixels);

    // One way to a frame, whatever computes the normal numbers. False where it may differ by one from
    // what the other would give.
    const auto make = [&](Normals& normals, double margin) {
        Random random(options_.seed, kind == FrameKind::dark ? Stream::dark : Stream::data, index);
        add_normals(random, normals, options_.noise, [&](std::size_t i) { return means_[i]; }, values.span());
        for (auto i : hot_) {
            auto& value = values[to_size(i)];
            value = means_[to_size(i)] + k_hot * (value - means_[to_size(i)]);
        }
        if (truth) truth->clear();
        const auto count = kind == FrameKind::data ? poisson(random, options_.photons) : 0;
        const auto reach = reach_of(options_.cloud_width);
        Parts in_x, in_y;
        for (std::int64_t p = 0; p < count; ++p) {
            const auto x = static_cast<double>(columns) * random.uniform();
            const auto y = static_cast<double>(rows) * random.uniform();
            if (truth) truth->push_back({x, y, energy});
            const auto column = static_cast<std::int64_t>(x), row = static_cast<std::int64_t>(y);
            spread(x, static_cast<double>(column), options_.cloud_width, reach, in_x);
            spread(y, static_cast<double>(row), options_.cloud_width, reach, in_y);
            for (auto r = std::max<std::int64_t>(row - reach, 0); r <= std::min(row + reach, rows - 1); ++r) {
                for (auto c = std::max<std::int64_t>(column - reach, 0);
                     c <= std::min(column + reach, columns - 1); ++c)
                    values[to_size(r * columns + c)] +=
                        energy * in_x[to_size(c - column + reach)] * in_y[to_size(r - row + reach)];
            }
        }
        for (auto i : dead_) values[to_size(i)] = means_[to_size(i)];
        return detail::round_pixels(values.data(), pixels, margin, out.data());
    };

    // The vectors' normal numbers are off by less than k_normal_error, and sums by a few units in the last
    // place. Where that could decide how a value rounds, which is in one frame of hundreds, the frame is
    // made again by the definition.
    const auto largest =
        std::fabs(options_.mean) + 10 * options_.mean_spread + 10 * k_hot * options_.noise + 65536;
    if (!make(detail::normals_fast, 1e-13 * largest + 2 * k_hot * options_.noise * detail::k_normal_error))
        make(detail::normals_exact, 0);

    FrameInfo info{.number = index};
    for (auto packet : lost_packets(kind, index)) {
        const auto first = to_size(packet * k_simulated_packet_pixels);
        const auto part = out.subspan(first, std::min(to_size(k_simulated_packet_pixels), pixels - first));
        std::ranges::fill(part, k_simulated_lost);
        info.lost_pixels += static_cast<std::uint32_t>(part.size());
    }
    return info;
}

std::vector<std::int64_t> Simulation::lost_packets(FrameKind kind, std::uint64_t index) const {
    std::vector<std::int64_t> lost;
    if (options_.lost_packets <= 0) return lost;
    Random random(options_.seed, kind == FrameKind::dark ? Stream::dark_packets : Stream::data_packets,
                  index);
    const auto packets = (shape().pixels() + k_simulated_packet_pixels - 1) / k_simulated_packet_pixels;
    for (std::int64_t i = 0; i < packets; ++i) {
        if (random.uniform() < options_.lost_packets) lost.push_back(i);
    }
    return lost;
}

Block Simulation::block(FrameKind kind, std::uint64_t first, std::uint64_t count, Team& team,
                        Storage& storage, std::vector<std::vector<Photon>>* truth) const {
    const auto [rows, columns] = shape();
    const auto pixels = to_size(shape().pixels());
    storage.infos.resize(count);
    storage.pixels.grow(count * pixels, 0);
    if (truth) truth->resize(count);
    std::atomic<std::uint64_t> next{0};
    team.run([&](int) {
        for (auto i = next++; i < count; i = next++) {
            storage.infos[i] = frame(kind, first + i, storage.pixels.span().subspan(i * pixels, pixels),
                                     truth ? &(*truth)[i] : nullptr);
        }
    });
    return {storage.infos, {storage.pixels.data(), {static_cast<std::int64_t>(count), rows, columns}}};
}

std::unique_ptr<Source> open_simulated(const SimulationOptions& options, FrameKind kind, std::uint64_t frames,
                                       int threads) {
    return std::make_unique<Simulated>(options, kind, frames, threads);
}

}  // namespace lightmill::frames

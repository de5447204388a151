#pragma once
// Small random worlds for the finder's tests: a dark pedestal and frames with photons, reproducible.

#include <cstdint>
#include <random>
#include <vector>

#include "lightmill/clusters/find/find.hpp"

namespace lightmill::clusters::test {

struct Scene {
    Pedestal pedestal;
    std::vector<Pixel> pixels;
    std::vector<frames::FrameInfo> infos;
    [[nodiscard]] frames::Block block(std::size_t first, std::size_t count) const {
        const auto size = static_cast<std::size_t>(pedestal.shape.pixels());
        return {std::span(infos).subspan(first, count),
                {pixels.data() + first * size,
                 {static_cast<std::int64_t>(count), pedestal.shape.rows, pedestal.shape.columns}}};
    }
    [[nodiscard]] frames::Block all() const { return block(0, infos.size()); }
};

struct SceneOptions {
    Shape shape{24, 40};
    std::size_t frames = 12;
    std::size_t dark_frames = 100;
    double noise = 20;
    double photons_per_pixel = 0.02;
    bool mask = false;          // mask some pixels
    bool absent_value = false;  // lose some pixels
    bool gain_bits = false;     // switch the gain of some
    double noise_spread = 0;    // share of pixels with hardly any noise
    std::uint64_t seed = 1;
};

inline Scene make_scene(const SceneOptions& o) {
    std::mt19937_64 random(o.seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const auto size = static_cast<std::size_t>(o.shape.pixels());
    std::vector<double> mean(size), noise(size);
    for (auto& m : mean) m = 3000 + 100 * normal(random);
    for (auto& n : noise) n = uniform(random) < o.noise_spread ? 0.3 : o.noise;
    const AbsentRule rule{o.absent_value ? std::optional<Pixel>(65535) : std::nullopt, o.gain_bits};
    auto sample = [&](std::size_t i, double extra) {
        if (o.absent_value && uniform(random) < 0.01) return Pixel{65535};
        auto value =
            static_cast<Pixel>(std::clamp(mean[i] + noise[i] * normal(random) + extra, 0.0, 16383.0));
        if (o.gain_bits && uniform(random) < 0.01) value = static_cast<Pixel>(value | 0x4000U);
        return value;
    };
    Training training(o.shape, rule);
    std::vector<Pixel> dark(size);
    for (std::size_t f = 0; f < o.dark_frames; ++f) {
        for (std::size_t i = 0; i < size; ++i) dark[i] = sample(i, 0);
        training.add({dark.data(), {1, o.shape.rows, o.shape.columns}});
    }
    std::vector<std::uint8_t> mask;
    if (o.mask) {
        mask.resize(size);
        for (auto& m : mask) m = uniform(random) < 0.05;
    }
    Scene scene{training.finish(mask, {}), {}, {}};
    std::vector<double> charge(size);
    for (std::size_t f = 0; f < o.frames; ++f) {
        std::fill(charge.begin(), charge.end(), 0.0);
        const auto photons =
            std::poisson_distribution<int>(o.photons_per_pixel * static_cast<double>(size))(random);
        for (int k = 0; k < photons; ++k) {
            const auto row = static_cast<std::int64_t>(uniform(random) * static_cast<double>(o.shape.rows));
            const auto column =
                static_cast<std::int64_t>(uniform(random) * static_cast<double>(o.shape.columns));
            const double share = uniform(random);
            for (const auto& [r, c, part] : {std::tuple{row, column, share}, {row, column + 1, 1 - share}}) {
                if (c < o.shape.columns)
                    charge[static_cast<std::size_t>(r * o.shape.columns + c)] += std::round(part * 12) * 50;
            }
        }
        for (std::size_t i = 0; i < size; ++i) {
            const double dip = uniform(random) < 0.001 ? -8 * o.noise : 0;  // now and then a negative pixel
            scene.pixels.push_back(sample(i, charge[i] + dip));
        }
        scene.infos.push_back({100 + 2 * f, 0});
    }
    return scene;
}

// Everything that must be equal between implementations.
struct Answer {
    Clusters clusters;
    std::string digest, model_digest;
    AbsentCounts absent;
    std::vector<std::uint32_t> negatives;
};

// Finds in calls of `step` frames.
inline Answer find_all(const Scene& scene, const FindOptions& options, const SpeedOptions& speed,
                       std::size_t step = 5, std::span<const std::int64_t> module_rows = {},
                       std::span<const std::int64_t> module_columns = {}) {
    Finder finder(scene.pedestal, options, speed, module_rows, module_columns);
    Answer answer;
    ResultDigest digest;
    for (std::size_t first = 0; first < scene.infos.size(); first += step) {
        const auto batch = finder.find(scene.block(first, std::min(step, scene.infos.size() - first)));
        digest.add(batch.view());
        answer.clusters.append(batch.view());
    }
    finder.finish();
    answer.digest = digest.hex();
    answer.model_digest = finder.model_digest();
    answer.absent = finder.absent();
    answer.negatives.assign(finder.negatives().begin(), finder.negatives().end());
    return answer;
}

}  // namespace lightmill::clusters::test

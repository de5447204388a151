#include "lightmill/frames/simulated.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/simulated_math_internal.hpp"

namespace lightmill::frames {
namespace {

// FNV-1a, 64 bits, over the bytes of frames.
class Fnv1a {
  public:
    void add(std::span<const Pixel> pixels) {
        for (const auto byte : std::as_bytes(pixels)) {
            hash_ ^= static_cast<std::uint64_t>(byte);
            hash_ *= 0x100000001b3U;
        }
    }
    [[nodiscard]] std::uint64_t value() const { return hash_; }

  private:
    std::uint64_t hash_ = 0xcbf29ce484222325U;
};

std::uint64_t hash_of(Source& source) {
    Fnv1a hash;
    Storage storage;
    constexpr std::uint64_t k_block = 50;
    for (std::uint64_t first = 0; first < source.description().count; first += k_block) {
        const auto block = source.read(first, std::min(k_block, source.description().count - first), storage);
        hash.add(block.pixels.flat());
    }
    return hash.value();
}

std::vector<Pixel> frame_of(const Simulation& simulation, FrameKind kind, std::uint64_t index,
                            std::vector<Photon>* truth = nullptr) {
    std::vector<Pixel> pixels(static_cast<std::size_t>(simulation.shape().pixels()));
    const auto info = simulation.frame(kind, index, pixels, truth);
    EXPECT_EQ(info.number, index);
    return pixels;
}

// The two hashes that tie this generator to published measurements (docs/algorithms/simulation.md).
TEST(Simulated, ReferenceDarkFrames) {
    EXPECT_EQ(hash_of(*open_simulated({}, FrameKind::dark, 1000)), 0x3c1c5b77e50c9474U);
}

TEST(Simulated, ReferenceDataFrames) {
    EXPECT_EQ(hash_of(*open_simulated({}, FrameKind::data, 2000)), 0x8c5da3fb55b93999U);
}

TEST(Simulated, FirstPixels) {
    const Simulation simulation({});
    const auto start = [&](FrameKind kind) {
        const auto frame = frame_of(simulation, kind, 0);
        return std::vector<Pixel>(frame.begin(), frame.begin() + 4);
    };
    EXPECT_EQ(start(FrameKind::dark), (std::vector<Pixel>{4670, 4054, 4603, 4532}));
    EXPECT_EQ(start(FrameKind::data), (std::vector<Pixel>{4672, 4143, 4686, 4550}));
}

TEST(Simulated, AnyOrderAndAnyNumberOfThreads) {
    const SimulationOptions options{.rows = 31, .columns = 57, .photons = 40, .lost_packets = 0.2};
    const Simulation simulation(options);
    for (int threads : {1, 2, 3, 7}) {
        const auto source = open_simulated(options, FrameKind::data, 40, threads);
        Storage storage;
        for (std::uint64_t first : {30U, 3U}) {
            const auto block = source->read(first, 10, storage);
            ASSERT_EQ(block.infos.size(), 10U);
            for (std::uint64_t i = 0; i < 10; ++i) {
                const auto pixels = block.pixels[static_cast<std::int64_t>(i)].flat();
                EXPECT_EQ(block.infos[i].number, first + i);
                EXPECT_TRUE(std::ranges::equal(pixels, frame_of(simulation, FrameKind::data, first + i)));
            }
        }
        EXPECT_THROW((void)source->read(35, 6, storage), Error);
    }
}

// The vectors are as near to the C library as the simulator's margin takes them to be, at the ends of
// the range too.
TEST(Simulated, FastNormalsAreNear) {
    std::vector<double> u1, u2;
    for (int i = 0; i <= 53; ++i) {
        for (double a :
             {0.0, 0x1p-53, 0.125, 0.125 + 0x1p-53, 0.25, 0.375, 0.5, 0.6, 0.75, 0.875, 1 - 0x1p-53}) {
            u1.push_back(std::ldexp(1.0, -i));
            u2.push_back(a);
            u1.push_back(1 - std::ldexp(1.0, -i - 1) + (i == 53 ? 0x1p-53 : 0));
            u2.push_back(a);
        }
    }
    for (int i = 1; i < 20'000; ++i) {
        u1.push_back(i / 20'000.0);
        u2.push_back(std::fmod(i * 0.6180339887498949, 1.0));
    }
    u1.resize(u1.size() - 1);  // leaves a rest of every vector's length at some target
    std::vector<double> exact(2 * u1.size()), fast(2 * u1.size());
    detail::normals_exact(u1.data(), u2.data(), u1.size(), exact.data());
    detail::normals_fast(u1.data(), u2.data(), u1.size(), fast.data());
    double worst = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        ASSERT_TRUE(std::isfinite(fast[i])) << u1[i / 2] << " " << u2[i / 2];
        worst = std::max(worst, std::fabs(exact[i] - fast[i]));
    }
    EXPECT_LT(worst, detail::k_normal_error / 4);
}

TEST(Simulated, RoundsHalfToEvenAndClips) {
    const std::vector<double> values{0.5, 1.5, 2.4, -7, 65534.5, 65535.2, 1e9, 3, 4.25};
    std::vector<Pixel> out(values.size());
    EXPECT_FALSE(detail::round_pixels(values.data(), values.size(), 1e-9, out.data()));
    EXPECT_EQ(out, (std::vector<Pixel>{0, 2, 2, 0, 65534, 65535, 65535, 3, 4}));
    EXPECT_TRUE(detail::round_pixels(values.data() + 7, 2, 1e-9, out.data()));
    std::vector<double> near(64, 10.0);
    for (std::size_t i = 0; i < near.size(); ++i) {
        near[i] = 10.5 - 1e-10;
        EXPECT_FALSE(detail::round_pixels(near.data(), near.size(), 1e-9, std::vector<Pixel>(64).data()));
        near[i] = 10;
        EXPECT_TRUE(detail::round_pixels(near.data(), near.size(), 1e-9, std::vector<Pixel>(64).data()));
    }
}

// Without noise a frame is its baseline and the truth: all charge that is not beside the frame.
TEST(Simulated, TruthIsWhatIsInTheFrame) {
    const SimulationOptions options{
        .rows = 64, .columns = 96, .mean = 1000, .mean_spread = 0, .noise = 0, .photons = 30, .charge = 5000};
    const Simulation simulation(options);
    for (std::uint64_t index = 0; index < 20; ++index) {
        std::vector<Photon> truth;
        const auto frame = frame_of(simulation, FrameKind::data, index, &truth);
        std::vector<double> expected(frame.size(), 1000);
        for (const auto& photon : truth) {
            EXPECT_EQ(photon.energy, 5000);
            const auto part = [&](double at, std::int64_t pixel) {
                const auto phi = [&](double edge) {
                    return 0.5 * (1 + std::erf((edge - at) / 0.35 / std::sqrt(2.0)));
                };
                return phi(static_cast<double>(pixel) + 1) - phi(static_cast<double>(pixel));
            };
            for (std::int64_t r = 0; r < 64; ++r) {
                for (std::int64_t c = 0; c < 96; ++c)
                    expected[static_cast<std::size_t>(r * 96 + c)] +=
                        5000 * part(photon.y, r) * part(photon.x, c);
            }
        }
        for (std::size_t i = 0; i < frame.size(); ++i) ASSERT_NEAR(frame[i], expected[i], 0.51) << i;
    }
}

TEST(Simulated, PhotonsFollowTheirMean) {
    for (double mean : {0.0, 3.0, 2350.0, 10'000.0}) {
        const Simulation simulation(SimulationOptions{.rows = 20, .columns = 20, .photons = mean});
        double sum = 0;
        std::vector<Photon> truth;
        for (std::uint64_t index = 0; index < 200; ++index) {
            (void)frame_of(simulation, FrameKind::data, index, &truth);
            sum += static_cast<double>(truth.size());
        }
        EXPECT_NEAR(sum / 200, mean, 5 * std::sqrt(mean / 200));
        (void)frame_of(simulation, FrameKind::dark, 0, &truth);
        EXPECT_TRUE(truth.empty());
    }
}

TEST(Simulated, BadPixels) {
    const SimulationOptions options{
        .rows = 50, .columns = 50, .photons = 0, .hot_pixels = 20, .dead_pixels = 30};
    const Simulation simulation(options);
    ASSERT_EQ(simulation.hot_pixels().size(), 20U);
    ASSERT_EQ(simulation.dead_pixels().size(), 30U);
    const auto normal = Simulation({.rows = 50, .columns = 50, .photons = 0});
    constexpr std::uint64_t k_frames = 400;
    std::vector<double> sum(2500), squares(2500);
    for (std::uint64_t index = 0; index < k_frames; ++index) {
        const auto frame = frame_of(simulation, FrameKind::dark, index);
        const auto without = frame_of(normal, FrameKind::dark, index);
        for (std::size_t i = 0; i < frame.size(); ++i) {
            sum[i] += frame[i];
            squares[i] += static_cast<double>(frame[i]) * frame[i];
            const auto at = static_cast<std::int64_t>(i);
            const auto in = [&](auto list) { return std::ranges::binary_search(list, at); };
            if (!in(simulation.hot_pixels()) && !in(simulation.dead_pixels())) {
                ASSERT_EQ(frame[i], without[i]);
            }
        }
    }
    const auto noise = [&](std::int64_t pixel) {
        const auto i = static_cast<std::size_t>(pixel);
        const auto mean = sum[i] / k_frames;
        return std::sqrt(squares[i] / k_frames - mean * mean);
    };
    for (auto pixel : simulation.hot_pixels()) EXPECT_NEAR(noise(pixel), 450, 100);
    for (auto pixel : simulation.dead_pixels()) EXPECT_EQ(noise(pixel), 0);
}

TEST(Simulated, GainDriftsAndPacketsAreLost) {
    const SimulationOptions options{.rows = 100,
                                    .columns = 90,
                                    .gain_drift = 0.1,
                                    .lost_packets = 0.25};  // three packets, the last one short
    const Simulation simulation(options);
    std::vector<Photon> truth;
    std::uint64_t lost = 0;
    for (std::uint64_t index = 0; index < 400; ++index) {
        std::vector<Pixel> frame(9000);
        const auto info = simulation.frame(FrameKind::data, index, frame, &truth);
        std::uint64_t pixels = 0;
        for (auto packet : simulation.lost_packets(FrameKind::data, index)) {
            ++lost;
            ASSERT_LT(packet, 3);
            for (auto i = packet * 3200; i < std::min<std::int64_t>(packet * 3200 + 3200, 9000);
                 ++i, ++pixels)
                ASSERT_EQ(frame[static_cast<std::size_t>(i)], 65535);
        }
        EXPECT_EQ(info.lost_pixels, pixels);
        ASSERT_EQ(static_cast<std::uint64_t>(std::ranges::count(frame, 65535)), pixels);
        EXPECT_NEAR(truth.front().energy, 1100 * (1 + 0.1 * static_cast<double>(index) / 1000), 1e-9);
    }
    EXPECT_NEAR(static_cast<double>(lost) / 1200, 0.25, 0.06);
    EXPECT_EQ(open_simulated(options, FrameKind::data, 1)->description().absent_value, Pixel{65535});
    EXPECT_EQ(open_simulated({}, FrameKind::data, 1)->description().absent_value, std::nullopt);
}

TEST(Simulated, RefusesWhatCannotBe) {
    const auto refused = [](const SimulationOptions& options, const std::string& option) {
        try {
            const Simulation simulation(options);
            ADD_FAILURE() << option << " was taken";
        } catch (const OptionError& error) {
            EXPECT_EQ(error.option(), option);
        }
    };
    refused({.rows = 0}, "rows");
    refused({.noise = -1}, "noise");
    refused({.noise = NAN}, "noise");
    refused({.cloud_width = 0}, "cloud_width");
    refused({.lost_packets = 1.5}, "lost_packets");
    refused({.rows = 1 << 20, .columns = 1 << 20}, "rows × columns");
    refused({.rows = 10, .columns = 10, .hot_pixels = 40, .dead_pixels = 11}, "hot_pixels + dead_pixels");
}

}  // namespace
}  // namespace lightmill::frames

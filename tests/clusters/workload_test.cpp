// The reference workload (docs/algorithms/simulation.md) at full size: counts known from elsewhere,
// digests kept as golden values, and the simulator's truth.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lightmill/clusters/find/find.hpp"
#include "lightmill/frames/simulated.hpp"

namespace lightmill::clusters::test {
namespace {

using frames::FrameKind;

struct Result {
    std::uint64_t clusters = 0;
    std::string digest, model_digest;
};

const Pedestal& reference_pedestal() {
    static const Pedestal pedestal = [] {
        const auto dark = frames::open_simulated({}, FrameKind::dark, 1000);
        return train(*dark, {}, {}, {});
    }();
    return pedestal;
}

Result find_workload(std::uint64_t frames, const FindOptions& options, const SpeedOptions& speed = {}) {
    const auto data = frames::open_simulated({}, FrameKind::data, frames);
    Finder finder(reference_pedestal(), options, speed);
    ResultDigest digest;
    frames::Storage storage;
    Result result;
    for (std::uint64_t first = 0; first < frames; first += 50) {
        const auto batch =
            finder.find(data->read(first, std::min<std::uint64_t>(50, frames - first), storage));
        result.clusters += batch.view().clusters();
        digest.add(batch.view());
    }
    finder.finish();
    result.digest = digest.hex();
    result.model_digest = finder.model_digest();
    return result;
}

// The same counts as the rule in double precision gave on the same frames, by another program.
TEST(Workload, FindsTheKnownNumberOfClusters) {
    EXPECT_EQ(find_workload(1000, {}).clusters, 2189212U);
    EXPECT_EQ(find_workload(250, {.window = {9, 9}}).clusters, 344414U);
}

// Golden digests, made with the scalar reference: `lightmill find --backend reference` on these frames.
TEST(Workload, GivesTheGoldenDigests) {
    for (const auto* backend : {"auto", "reference"}) {
        const auto small = find_workload(20, {}, {.backend = backend});
        EXPECT_EQ(small.digest, "991eb3ef7a0d9d92b21c6e91b1caf66aaf641b39a93d2b3b565678022689fdab")
            << backend;
        EXPECT_EQ(small.model_digest, "1cfadb06ed35806241179ee2ea4e5a861f93b9a27f57eb9acd103b2112989c28")
            << backend;
        const auto large = find_workload(10, {.window = {9, 9}, .epoch = 4}, {.backend = backend});
        EXPECT_EQ(large.digest, "3c8e341ec1c9ffc14abda076be952d56c8cb029071f0c8368bc903fedf5d0599")
            << backend;
        EXPECT_EQ(large.model_digest, "9d87674c68694af76ec1e99121d156c06c769edac65691e82ed6e64433420cf7")
            << backend;
    }
}

// Against what was put in, at a tenth of the reference flux so that few photons overlap.
TEST(Workload, FindsThePhotonsThatAreThere) {
    const frames::SimulationOptions options{.photons = 235};
    const frames::Simulation simulation(options);
    const auto dark = frames::open_simulated(options, FrameKind::dark, 500);
    const auto pedestal = train(*dark, {}, {}, {});
    Finder finder(pedestal, {});
    Team team(available_threads());
    frames::Storage storage;
    std::vector<std::vector<frames::Photon>> truth;
    const auto batch = finder.find(simulation.block(FrameKind::data, 0, 100, team, storage, &truth));
    const auto& found = batch.view();
    std::size_t photons = 0, seen = 0, clusters = 0, true_clusters = 0, isolated = 0;
    double energy = 0, energy_square = 0, position_square = 0;
    for (std::size_t f = 0; f < found.frames(); ++f) {
        auto near = [&](double x, double y, std::size_t c) {
            return std::abs(x - (found.columns[c] + 0.5)) <= 1.5 &&
                   std::abs(y - (found.rows[c] + 0.5)) <= 1.5;
        };
        for (const auto& photon : truth[f]) {
            if (photon.x < 2 || photon.y < 2 || photon.x > 398 || photon.y > 398) continue;
            ++photons;
            bool hit = false;
            for (auto c = found.offsets[f]; c < found.offsets[f + 1]; ++c) hit |= near(photon.x, photon.y, c);
            seen += hit ? 1 : 0;
        }
        for (auto c = found.offsets[f]; c < found.offsets[f + 1]; ++c) {
            ++clusters;
            std::size_t within = 0, around = 0;
            const frames::Photon* match = nullptr;
            for (const auto& photon : truth[f]) {
                if (near(photon.x, photon.y, c)) {
                    ++within;
                    match = &photon;
                }
                if (std::abs(photon.x - (found.columns[c] + 0.5)) < 5 &&
                    std::abs(photon.y - (found.rows[c] + 0.5)) < 5)
                    ++around;
            }
            true_clusters += within > 0 ? 1 : 0;
            const bool border = found.rows[c] == 0 || found.columns[c] == 0 || found.rows[c] == 399 ||
                                found.columns[c] == 399;
            if (within != 1 || around != 1 || border) continue;
            ++isolated;
            double sum = 0, x = 0, y = 0;
            for (int i = 0; i < 9; ++i) {
                const double v = found.residuals[c * 9 + static_cast<std::size_t>(i)];
                sum += v;
                x += v * (i % 3 - 1);
                y += v * (i / 3 - 1);
            }
            energy += sum;
            energy_square += sum * sum;
            position_square += std::pow(found.columns[c] + 0.5 + x / sum - match->x, 2) +
                               std::pow(found.rows[c] + 0.5 + y / sum - match->y, 2);
        }
    }
    const auto n = static_cast<double>(isolated);
    const double efficiency = static_cast<double>(seen) / static_cast<double>(photons);
    const double purity = static_cast<double>(true_clusters) / static_cast<double>(clusters);
    const double mean = energy / n;
    const double spread = std::sqrt(energy_square / n - mean * mean);
    const double position = std::sqrt(position_square / n / 2);
    RecordProperty("efficiency", fmt::format("{:.5f}", efficiency));
    RecordProperty("purity", fmt::format("{:.5f}", purity));
    fmt::print(
        "efficiency {:.5f}, purity {:.5f}, energy {:.1f} ± {:.1f} ADU of {} put in, position {:.3f} pixels "
        "rms an axis, {} isolated\n",
        efficiency, purity, mean, spread, options.charge, position, isolated);
    EXPECT_GT(efficiency, 0.999);
    EXPECT_GT(purity, 0.995);        // 160,000 pixels a frame at 5σ: a false one in some frames
    EXPECT_NEAR(mean, 1097, 3);      // 3×3 misses a little of the cloud
    EXPECT_NEAR(spread, 3 * 45, 5);  // the noise of nine pixels
    EXPECT_LT(position, 0.12);  // the centre of gravity's own error for a cloud of 0.35 pixels and this noise
}

}  // namespace
}  // namespace lightmill::clusters::test

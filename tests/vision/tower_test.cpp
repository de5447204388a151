// The blocked tower on every target, for every sharing of the work, against the textbook in every bit; the
// textbook in binary32 against itself in binary64.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "lightmill/base/error.hpp"
#include "lightmill/vision/weights/seeded.hpp"
#include "tests/vision/tower_scene.hpp"

namespace lightmill::vision {
namespace {

constexpr SeededKind k_kinds[] = {SeededKind::plain, SeededKind::peaky, SeededKind::outlier};

// Patches that fill no panel, head sizes that fill no vector, a hidden layer of more than one part.
TowerConfig odd_config(Head head) {
    auto c = known_config(head == Head::connector ? "tiny" : "tiny-pooling");
    c.hidden = 72;
    c.heads = 3;
    c.intermediate = 801;
    c.image = 30;
    c.patch = 5;
    c.layers = 3;
    c.shuffle = head == Head::connector ? 2 : 1;
    c.output = head == Head::connector ? 50 : c.hidden;
    return c;
}

std::vector<TowerConfig> configs() {
    return {known_config("tiny"), known_config("tiny-pooling"), odd_config(Head::connector),
            odd_config(Head::pooling)};
}

std::string text(const TowerConfig& c) {
    return fmt::format("hidden {} patches {} {}", c.hidden, c.patches(),
                       c.head == Head::connector ? "connector" : "pooling");
}

double snr_db(View<const float, 2> x, const std::vector<double>& truth) {
    double signal = 0, noise = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
        const double d = static_cast<double>(x.data()[i]) - truth[i];
        signal += truth[i] * truth[i];
        noise += d * d;
    }
    return 10 * std::log10(signal / noise);
}

TEST(VisionTower, EqualsTheTextbookOnEveryTargetHoweverTheWorkIsShared) {
    for (const auto& config : configs()) {
        const scene::Tiles tiles(5, config.image);
        const auto values = static_cast<std::size_t>(config.output_rows() * config.output);
        for (const auto kind : k_kinds) {
            const SeededTensors source(config, kind, 1);
            const ReferenceTower<float> reference(config, source);
            std::vector<float> expected;
            for (std::int64_t i = 0; i < tiles.n; ++i) {
                const auto one = reference.run(tiles.view()[i], scene::normalisation());
                expected.insert(expected.end(), one.begin(), one.end());
            }
            std::set<std::string> digests;
            for (const auto& target : tower_targets()) {
                const Tower tower(config, source, target, 2);
                EXPECT_EQ(tower.target(), target);
                digests.insert(tower.digest());
                for (const auto& [workers, block, attention, flight] : {std::array<int, 4>{1, 96, 48, 0},
                                                                        {2, 7, 3, 1},
                                                                        {3, 13, 13, 0},
                                                                        {7, 1, 1, 9},
                                                                        {4, 64, 6, 2}}) {
                    SCOPED_TRACE(fmt::format("{} kind {} {} workers {} block {}", text(config),
                                             static_cast<int>(kind), target, workers, block));
                    if (target == "reference" && workers != 3) continue;  // whole tiles in any case, and slow
                    Pool pool(workers);
                    Engine engine(
                        tower, scene::normalisation(), pool,
                        {.block_rows = block, .attention_rows = attention, .tiles_in_flight = flight});
                    std::vector<float> out(expected.size(), std::numeric_limits<float>::quiet_NaN());
                    engine.run(tiles.view(), out.data());
                    for (std::size_t i = 0; i < out.size(); ++i)
                        ASSERT_EQ(std::memcmp(&out[i], &expected[i], sizeof(float)), 0)
                            << "tile " << i / values << " value " << i % values << ": " << out[i]
                            << " expected " << expected[i];
                }
            }
            EXPECT_EQ(digests.size(), 1U);
            EXPECT_NE(*digests.begin(), Tower(config, SeededTensors(config, kind, 2)).digest());
        }
    }
}

TEST(VisionTower, EveryStageEqualsTheTextbook) {
    for (const auto& config : configs()) {
        const SeededTensors source(config, SeededKind::outlier, 3);
        const scene::Tiles tiles(1, config.image);
        std::map<std::string, std::vector<float>> expected;
        (void)ReferenceTower<float>(config, source)
            .run(tiles.view()[0], scene::normalisation(),
                 [&](const std::string& stage, View<const float, 2> v) {
                     expected[stage].assign(v.flat().begin(), v.flat().end());
                 });
        ASSERT_EQ(expected.size(), static_cast<std::size_t>(config.layers) + 3);
        const Tower tower(config, source);
        Pool pool(2);
        Engine engine(tower, scene::normalisation(), pool, {.block_rows = 10});
        std::size_t seen = 0;
        engine.observe([&](const std::string& stage, View<const float, 2> v) {
            ++seen;
            ASSERT_TRUE(expected.contains(stage)) << stage;
            ASSERT_EQ(v.flat().size(), expected[stage].size()) << stage;
            EXPECT_EQ(std::memcmp(v.data(), expected[stage].data(), v.flat().size_bytes()), 0) << stage;
        });
        std::vector<float> out(static_cast<std::size_t>(config.output_rows() * config.output));
        engine.run(tiles.view(), out.data());
        EXPECT_EQ(seen, expected.size());
    }
}

TEST(VisionTower, EveryStageIsWithin100DecibelsOfBinary64) {
    for (const auto& config : configs()) {
        const scene::Tiles tiles(1, config.image);
        for (const auto kind : k_kinds) {
            const SeededTensors source(config, kind, 2);
            std::map<std::string, std::vector<double>> truth;
            (void)ReferenceTower<double>(config, source)
                .run(tiles.view()[0], scene::normalisation(),
                     [&](const std::string& stage, View<const double, 2> v) {
                         truth[stage].assign(v.flat().begin(), v.flat().end());
                     });
            (void)ReferenceTower<float>(config, source)
                .run(tiles.view()[0], scene::normalisation(),
                     [&](const std::string& stage, View<const float, 2> v) {
                         EXPECT_GE(snr_db(v, truth.at(stage)), 100)
                             << text(config) << " kind " << static_cast<int>(kind) << ' ' << stage;
                     });
        }
    }
}

TEST(VisionTower, AValueBeyondBinary32IsAnError) {
    // Weights that are finite and overflow on the way.
    class Huge final : public TensorSource {
      public:
        explicit Huge(const TowerConfig& config) : inner(config, SeededKind::plain, 1) {}
        std::string place() const override { return "huge"; }
        std::vector<TensorSpec> tensors() const override { return inner.tensors(); }
        void read(const std::string& name, float* out) const override {
            inner.read(name, out);
            if (name.find("fc2.bias") != std::string::npos) out[5] = 3e38F;
        }
        SeededTensors inner;
    };
    const auto config = known_config("tiny");
    const scene::Tiles tiles(3, config.image);
    for (const auto& target : tower_targets()) {
        const Tower tower(config, Huge(config), target);
        Pool pool(2);
        Engine engine(tower, scene::normalisation(), pool);
        std::vector<float> out(static_cast<std::size_t>(3 * config.output_rows() * config.output));
        EXPECT_THROW(engine.run(tiles.view(), out.data()), Error) << target;
    }
}

TEST(VisionTower, RoundingOfTheCallerDoesNotMatterAndComesBack) {
    const auto config = known_config("tiny");
    const SeededTensors source(config, SeededKind::plain, 1);
    const scene::Tiles tiles(1, config.image);
    const ReferenceTower<float> reference(config, source);
    const auto table = scene::normalisation();
    const auto plain = reference.run(tiles.view()[0], table);
    ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
    const auto upward = reference.run(tiles.view()[0], table);
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(plain, upward);
}

TEST(VisionTower, ATileOfAnotherSizeIsRefused) {
    const auto config = known_config("tiny");
    const Tower tower(config, SeededTensors(config, SeededKind::plain, 1));
    Pool pool(1);
    Engine engine(tower, scene::normalisation(), pool);
    const scene::Tiles tiles(1, config.image + 1);
    std::vector<float> out(10000);
    EXPECT_THROW(engine.run(tiles.view(), out.data()), Error);
    EXPECT_THROW(Tower(config, SeededTensors(config, SeededKind::plain, 1), "sse2"), OptionError);
}

}  // namespace
}  // namespace lightmill::vision

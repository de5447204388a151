// How near the tower's kernels and the tower come to the machine's multiply-add peak: GF/s, two operations
// each.

#include <benchmark/benchmark.h>

#include <memory>

#include "lightmill/base/buffer.hpp"
#include "lightmill/vision/ops/kernels.hpp"
#include "lightmill/vision/tower/tower.hpp"
#include "lightmill/vision/weights/seeded.hpp"

namespace {

namespace vision = lightmill::vision;
using Values = lightmill::Buffer<float>;

const vision::Kernels& kernel(std::int64_t i) {
    return vision::kernels()[static_cast<std::size_t>(i)];
}
void rate(benchmark::State& state, double flops) {
    state.counters["GF/s"] = benchmark::Counter(flops * 1e-9 * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}

// rows × k by k × columns.
void product(benchmark::State& state) {
    const auto& k = kernel(state.range(0));
    const auto rows = state.range(1), columns = state.range(2), depth = state.range(3);
    Values a(static_cast<std::size_t>(rows * vision::padded(depth)), 0.5F);
    Values w(static_cast<std::size_t>(vision::packed_values(columns, depth, k.panel)), 0.25F);
    Values c(static_cast<std::size_t>(rows * vision::padded(columns)));
    vision::Product p;
    p.a = a.data();
    p.a_stride = vision::padded(depth);
    p.rows = rows;
    p.w = w.data();
    p.columns = columns;
    p.k_values = p.k_count = depth;
    p.c = p.out = c.data();
    p.c_stride = p.out_stride = vision::padded(columns);
    for (auto _ : state) k.product(p);
    state.SetLabel(std::string(k.name));
    rate(state, 2.0 * static_cast<double>(rows * columns * depth));
}

void softmax(benchmark::State& state) {
    const auto& k = kernel(state.range(0));
    constexpr std::int64_t rows = 48, n = 1024;
    Values s(static_cast<std::size_t>(rows * n), 0.5F), factor(static_cast<std::size_t>(rows));
    for (auto _ : state) k.softmax({s.data(), n, rows, n, 0.125F, factor.data()});
    state.SetLabel(std::string(k.name));
    state.counters["exp/s"] = benchmark::Counter(
        static_cast<double>(rows * n) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// Tiles of SmolVLM-256M: target, workers, tiles, block_rows, attention_rows.
void tower(benchmark::State& state) {
    const auto config = vision::known_config("smolvlm-256m-instruct");
    const auto targets = vision::tower_targets();
    static std::unique_ptr<vision::Tower> shared;
    const auto& target = targets[static_cast<std::size_t>(state.range(0))];
    if (!shared || shared->target() != target) {
        shared.reset();
        shared = std::make_unique<vision::Tower>(
            config, vision::SeededTensors(config, vision::SeededKind::plain, 1), target, 2);
    }
    const auto tiles = state.range(2);
    lightmill::Buffer<std::uint8_t> pixels(static_cast<std::size_t>(tiles * config.image * config.image * 3));
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 31 / 7);
    vision::Normalisation table{};
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) / 127.5F - 1.0F;
    lightmill::Pool pool(static_cast<int>(state.range(1)));
    vision::Engine engine(*shared, table, pool,
                          {.block_rows = state.range(3), .attention_rows = state.range(4)});
    Values out(static_cast<std::size_t>(tiles * config.output_rows() * config.output));
    for (auto _ : state) engine.run({pixels.data(), {tiles, config.image, config.image, 3}}, out.data());
    state.SetLabel(target);
    rate(state, static_cast<double>(tiles) * vision::flops_a_tile(config));
}

}  // namespace

BENCHMARK(product)
    ->ArgNames({"target", "rows", "columns", "k"})
    ->ArgsProduct({{0, 1}, {96}, {768}, {768, 3072}})
    ->ArgsProduct({{0, 1}, {48}, {1024}, {64}})
    ->ArgsProduct({{0, 1}, {48}, {64}, {1024}})
    ->ArgsProduct({{0, 1}, {96}, {3072}, {768}});
BENCHMARK(softmax)->Arg(0)->Arg(1);
BENCHMARK(tower)
    ->ArgNames({"target", "workers", "tiles", "block", "attention"})
    ->Args({0, 1, 1, 96, 48})
    ->Args({0, 1, 1, 192, 48})
    ->Args({0, 1, 1, 384, 48})
    ->Args({0, 1, 1, 1024, 48})
    ->Args({0, 1, 1, 96, 24})
    ->Args({0, 1, 1, 96, 96})
    ->Args({0, 2, 4, 96, 48})
    ->Args({1, 1, 1, 96, 48})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_MAIN();

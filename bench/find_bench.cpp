// How long the finder takes on the reference workload, results kept as views. For numbers to quote use
// the ladder; this is for looking while working.

#include <benchmark/benchmark.h>

#include "lightmill/base/team.hpp"
#include "lightmill/clusters/find/find.hpp"
#include "lightmill/frames/simulated.hpp"

namespace lightmill::clusters {
namespace {

constexpr std::uint64_t k_frames = 256, k_block = 16;

struct World {
    Pedestal pedestal;
    frames::Storage storage;
    frames::Block block;
};

World& world() {
    static World the_world = [] {
        World w;
        const auto dark = frames::open_simulated({}, frames::FrameKind::dark, 300);
        w.pedestal = train(*dark, {}, {}, {});
        return w;
    }();
    if (the_world.block.infos.empty()) {
        const auto data = frames::open_simulated({}, frames::FrameKind::data, k_frames);
        the_world.block = data->read(0, k_frames, the_world.storage);
    }
    return the_world;
}

void find_frames(benchmark::State& state, const std::string& backend, int side, std::int64_t threads,
                 std::int64_t epoch) {
    auto& w = world();
    Finder finder(w.pedestal, {.window = {side, side}, .epoch = epoch},
                  {.backend = backend, .threads = threads, .hashes = false});
    const auto& shape = w.pedestal.shape;
    std::uint64_t first = 0;
    std::uint64_t clusters = 0;
    for (auto _ : state) {
        const auto batch =
            finder.find({w.block.infos.subspan(first, k_block),
                         {w.block.pixels.data() + static_cast<std::int64_t>(first) * shape.pixels(),
                          {static_cast<std::int64_t>(k_block), shape.rows, shape.columns}}});
        clusters += batch.view().clusters();
        first = (first + k_block) % k_frames;
    }
    const auto frames = static_cast<double>(state.iterations()) * k_block;
    state.counters["frames/s"] = benchmark::Counter(frames, benchmark::Counter::kIsRate);
    state.counters["us/frame"] =
        benchmark::Counter(frames * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    state.counters["clusters/frame"] = static_cast<double>(clusters) / frames;
}

}  // namespace
}  // namespace lightmill::clusters

int main(int argc, char** argv) {
    using namespace lightmill::clusters;
    for (const auto backend : available_backends()) {
        for (const int side : {3, 9}) {
            const std::string name(backend);
            auto add = [&](std::int64_t threads, std::int64_t epoch) {
                benchmark::RegisterBenchmark(
                    fmt::format("{}/{}x{}/threads:{}/epoch:{}", name, side, side, threads, epoch).c_str(),
                    [=](benchmark::State& state) { find_frames(state, name, side, threads, epoch); })
                    ->UseRealTime()
                    ->Unit(benchmark::kMillisecond);
            };
            add(1, 1);
            if (backend != available_backends().front()) continue;
            add(1, 32);
            for (std::int64_t threads = 2; threads <= lightmill::available_threads(); threads *= 2)
                add(threads, 1);
        }
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
}

// Resampling by every backend of this machine, one thread; bench/peer_resize.py times Pillow on the same.

#include <benchmark/benchmark.h>

#include <string>

#include "lightmill/vision/image/processor.hpp"
#include "lightmill/vision/image/resize.hpp"

namespace {

using namespace lightmill::vision;

Image noise(const Size& size) {
    Image image(size);
    std::uint32_t state = 1;
    for (auto& pixel : image.view().flat()) {
        state = state * 1664525U + 1013904223U;
        pixel = static_cast<std::uint8_t>(state >> 24);
    }
    return image;
}

void resize_square(benchmark::State& state, std::string_view backend, Filter filter) {
    const auto image = noise({state.range(0), state.range(0)});
    for (auto _ : state)
        benchmark::DoNotOptimize(
            resize(std::as_const(image).view(), {state.range(1), state.range(1)}, filter, backend));
}

void all_tiles(benchmark::State& state, std::string_view backend) {
    const auto image = noise({state.range(0), state.range(1)});
    for (auto _ : state) benchmark::DoNotOptimize(preprocess(std::as_const(image).view(), {}, backend));
}

}  // namespace

int main(int argc, char** argv) {
    for (const auto backend : resize_backends()) {
        const std::string name(backend);
        benchmark::RegisterBenchmark(("lanczos/" + name).c_str(), resize_square, backend, Filter::lanczos)
            ->Args({512, 2048})
            ->Args({2048, 512})
            ->Unit(benchmark::kMillisecond);
        benchmark::RegisterBenchmark(("bicubic/" + name).c_str(), resize_square, backend, Filter::bicubic)
            ->Args({2048, 512})
            ->Unit(benchmark::kMillisecond);
        benchmark::RegisterBenchmark(("tiles/" + name).c_str(), all_tiles, backend)
            ->Args({512, 512})
            ->Args({3000, 4000})
            ->Unit(benchmark::kMillisecond);
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}

// What the CUDA backend takes for a frame, end to end, in many configurations, each checked against the
// vectors of the CPU by both digests. A first look; claims come from the ladders.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <vector>

#include "lightmill/base/error.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/clusters/find/find.hpp"
#include "lightmill/frames/simulated.hpp"

namespace {

using namespace lightmill;
using namespace lightmill::clusters;

struct Run {
    FindOptions find;
    SpeedOptions speed;
    std::int64_t block = 32;
    std::size_t depth = 4;
    bool pinned = true;
};

struct Times {
    std::vector<double> us;  // a frame, a repetition each
    std::uint64_t clusters = 0;
    std::string digest;
    std::string model;
};

Times measure(const Pedestal& pedestal, const std::vector<Pixel>& pixels, std::int64_t frames, const Run& run,
              int repetitions) {
    Finder finder(pedestal, run.find, run.speed);
    std::vector<frames::FrameInfo> infos(static_cast<std::size_t>(frames));
    for (std::size_t i = 0; i < infos.size(); ++i) infos[i].number = i;
    if (run.pinned) finder.pin(pixels);
    finder.reserve(run.block);
    Times times;
    ResultDigest digest;
    for (int r = 0; r < repetitions; ++r) {
        times.clusters = 0;
        const auto start = std::chrono::steady_clock::now();
        const auto take = [&] {
            const auto batch = finder.collect();
            times.clusters += batch.view().clusters();
            if (run.speed.hashes) digest.add(batch.view());
        };
        for (std::int64_t first = 0; first < frames; first += run.block) {
            const auto count = std::min(run.block, frames - first);
            if (finder.pending() == run.depth) take();
            finder.submit(
                {std::span(infos).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                 {pixels.data() + first * pedestal.shape.pixels(),
                  {count, pedestal.shape.rows, pedestal.shape.columns}}});
        }
        while (finder.pending() > 0) take();
        times.us.push_back(
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
            static_cast<double>(frames));
    }
    times.digest = digest.hex();
    times.model = finder.model_digest();
    return times;
}

}  // namespace

int main(int argc, char** argv) try {
    const std::int64_t frames = argc > 1 ? std::atoll(argv[1]) : 4096;
    const std::int64_t dark = 1000;
    Team team(available_threads());
    const frames::Simulation simulation({});
    const auto shape = frames::Shape{400, 400};
    Training training(shape, {});
    std::vector<Pixel> pixels(static_cast<std::size_t>(frames * shape.pixels()));
    {
        frames::Storage storage;
        for (std::int64_t f = 0; f < dark; f += 50)
            training.add(
                simulation.block(frames::FrameKind::dark, static_cast<std::uint64_t>(f), 50, team, storage)
                    .pixels);
        for (std::int64_t f = 0; f < frames; f += 64) {
            const auto block = simulation.block(
                frames::FrameKind::data, static_cast<std::uint64_t>(f),
                static_cast<std::uint64_t>(std::min<std::int64_t>(64, frames - f)), team, storage);
            std::copy(block.pixels.flat().begin(), block.pixels.flat().end(),
                      pixels.begin() + f * shape.pixels());
        }
    }
    const auto pedestal = training.finish({}, {});
    constexpr int k_repetitions = 4;
    std::map<std::string, Times> truth;
    fmt::print("{:4} {:6} {:5} {:>10} {:>5} {:>5} {:6} {:6} {:>9} {:>9} {:>9}  {}\n", "size", "type", "epoch",
               "block", "block", "depth", "hashes", "pinned", "cold us", "best us", "worst us", "digests");
    const auto go = [&](const Run& run) {
        const auto key = fmt::format("{} {} {}", to_string(run.find.window), run.find.epoch,
                                     static_cast<int>(run.find.payload));
        if (run.speed.hashes && !truth.contains(key)) {
            Run plain = run;
            plain.speed = {.backend = "simd", .batches = 8};
            plain.pinned = false;
            truth[key] = measure(pedestal, pixels, frames, plain, k_repetitions);
        }
        try {
            const auto times = measure(pedestal, pixels, frames, run, k_repetitions);
            const bool same =
                run.speed.hashes && truth[key].digest == times.digest && truth[key].model == times.model;
            fmt::print("{:4} {:6} {:5} {:>10} {:>5} {:>5} {:6} {:6} {:9.3f} {:9.3f} {:9.3f}  {}\n",
                       to_string(run.find.window), run.find.payload == Payload::int32 ? "int32" : "int16",
                       run.find.epoch,
                       names(run.speed.launches)[static_cast<std::size_t>(run.speed.launches)], run.block,
                       run.depth, run.speed.hashes, run.pinned, times.us[0],
                       *std::min_element(times.us.begin() + 1, times.us.end()),
                       *std::max_element(times.us.begin() + 1, times.us.end()),
                       !run.speed.hashes ? fmt::format("{} clusters", times.clusters)
                       : same            ? "equal"
                                         : "DIFFERENT");
        } catch (const Error& error) {
            fmt::print("{} epoch {}: {}\n", to_string(run.find.window), run.find.epoch, error.what());
        }
        std::fflush(stdout);
    };
    const std::string backend = argc > 2 ? argv[2] : "cuda";
    const auto run = [&](const FindOptions& find, Launches launches, bool hashes) {
        go({.find = find,
            .speed = {.backend = backend, .batches = 8, .hashes = hashes, .launches = launches}});
    };
    for (const Window window : {Window{3, 3}, Window{9, 9}}) {
        for (const auto payload : {Payload::int32, Payload::int16}) {
            for (const auto launches :
                 {Launches::separate, Launches::single, Launches::graph, Launches::persistent}) {
                run({.window = window, .payload = payload}, launches, false);
            }
            run({.window = window, .payload = payload}, Launches::persistent, true);
            run({.window = window, .epoch = 32, .payload = payload}, Launches::automatic, false);
            run({.window = window, .epoch = 32, .payload = payload}, Launches::automatic, true);
        }
    }
    run({.window = {5, 5}}, Launches::persistent, true);
    run({.window = {21, 21}}, Launches::persistent, true);
    for (const std::int64_t block : {8, 16, 64, 128}) {
        go({.find = {.epoch = 32},
            .speed = {.backend = backend, .batches = 8, .hashes = false},
            .block = block});
    }
    go({.find = {.epoch = 32},
        .speed = {.backend = backend, .batches = 8, .hashes = false},
        .pinned = false});
    for (const std::int64_t epoch : {8, 128}) {
        go({.find = {.epoch = epoch},
            .speed = {.backend = backend, .batches = 8, .hashes = false},
            .block = 128});
    }
    go({.find = {.window = {21, 21}, .epoch = 32}, .speed = {.backend = backend, .batches = 8}});
    go({.find = {.window = {21, 21}, .epoch = 1}, .speed = {.backend = backend, .batches = 8}});
    return 0;
} catch (const std::exception& error) {
    fmt::print(stderr, "find_cuda_bench: {}\n", error.what());
    return 1;
}

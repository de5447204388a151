// The kernels on the host: every block after the other, phase by phase.

#include "lightmill/clusters/find/find_kernels.hpp"

#include <array>
#include <vector>

#include "lightmill/clusters/find/find_globals_internal.hpp"

namespace lightmill::clusters::detail {
namespace {

// The threads of a tile, phase by phase.
template <class Body>
struct Tile {
    Body body;
    std::vector<typename Body::Thread> threads = std::vector<typename Body::Thread>(k_tile_threads);

    template <class Phase>
    void each(Phase&& phase) {
        for (int i = 0; i < k_tile_threads; ++i) phase(i, threads[static_cast<std::size_t>(i)]);
    }
    void begin() {
        each([&](int i, auto& thread) { body.begin(i, thread); });
        each([&](int, auto& thread) { body.begin_model(thread); });
    }
    void judge(int f) {
        each([&](int, auto& thread) { body.load(thread, f); });
        each([&](int i, auto&) { body.columns(i, f); });
        std::uint32_t word = 0;
        each([&](int i, auto& thread) {
            const int lane = i % k_tile_columns;
            if (lane == 0) word = 0;
            if (body.judge(i, thread, f)) word |= std::uint32_t{1} << lane;
            if (lane == k_tile_columns - 1 && body.has_map_word(i))
                body.p.photons[body.map_word(i, f)] = word;
        });
    }
};

template <int Width, int Height, unsigned Items>
void judge_on_host(const cuda::Shape& shape, const JudgeParameters& p) {
    std::vector<float> shared(shape.shared_bytes / sizeof(float));
    const int across = static_cast<int>(shape.blocks_x);
    for (int i = 0; i < across * static_cast<int>(shape.blocks_y); ++i) {
        Tile<Judge<Width, Height, Items>> tile{{p, i % across, i / across, shared.data()}};
        tile.begin();
        for (int f = 0; f < p.frame_count; ++f) tile.judge(f);
        tile.each([&](int, auto& thread) { tile.body.end(thread); });
    }
}

template <int Width, int Height, unsigned Items>
void judge_many_on_host(const cuda::Shape& shape, const JudgeParameters& p) {
    std::vector<float> shared(shape.shared_bytes / sizeof(float));
    const int across = static_cast<int>(shape.blocks_x);
    std::vector<Tile<Judge<Width, Height, Items>>> tiles;
    for (int i = 0; i < across * static_cast<int>(shape.blocks_y); ++i) {
        tiles.push_back({{p, i % across, i / across, shared.data()}});
        tiles.back().begin();
    }
    for (int f = 0; f < p.frame_count; ++f) {
        for (auto& tile : tiles) {
            if (f > 0) tile.each([&](int, auto& thread) { tile.body.take_rim(thread, f); });
            tile.judge(f);
            tile.each([&](int, auto& thread) { tile.body.publish(thread, f); });
        }
    }
    for (auto& tile : tiles) tile.each([&](int, auto& thread) { tile.body.end_many(thread); });
}

void scan_on_host(const cuda::Shape& shape, const ScanParameters& p) {
    std::array<std::uint32_t, ScanCount::k_shared> shared{};
    for (int frame = 0; frame < static_cast<int>(shape.blocks_x); ++frame) {
        const Scan body(p, frame, shared.data());
        for (int i = 0; i < k_scan_threads; ++i) body.map.count(i);
        for (int i = 0; i < k_scan_threads; ++i) body.map.sum_group(i);
        for (int i = 0; i < k_scan_threads; ++i) body.sum_groups(i);
        for (int i = 0; i < k_scan_threads; ++i) body.write(i);
    }
}

void list_on_host(const cuda::Shape& shape, const ListParameters& p) {
    for (int frame = 0; frame < static_cast<int>(shape.blocks_y); ++frame) {
        for (int word = 0; word < static_cast<int>(shape.blocks_x) * k_list_threads; ++word) {
            list_word(p, frame, word);
        }
    }
}

void cells_on_host(const cuda::Shape&, const CellsParameters& p) {
    for (std::uint64_t group = 0; group * k_cells_clusters < clusters_to_copy(p); ++group) {
        for (int i = 0; i < k_cells_threads; ++i) copy_cells(p, group, i);
    }
}

void compact_on_host(const cuda::Shape&, const CompactParameters& p) {
    std::array<std::uint32_t, CompactCount::k_shared> shared{};
    const Compact body(p, shared.data());
    for (int i = 0; i < k_compact_threads; ++i) body.map.count(i);
    for (int i = 0; i < k_compact_threads; ++i) body.map.sum_group(i);
    for (int i = 0; i < k_compact_threads; ++i) body.sum_groups(i);
    for (int i = 0; i < k_compact_threads; ++i) body.list(i);
    for (int i = 0; i < k_compact_threads; ++i) body.cells(i);
}

}  // namespace

#ifndef LIGHTMILL_CUDA
Globals globals_for(int, int) {
    return {};
}
#endif

Kernels kernels_for(const Window& window) {
    const auto globals = globals_for(window.width, window.height);
    const bool three = window == Window{3, 3}, nine = window == Window{9, 9};
    return {{globals.judge, three  ? judge_on_host<3, 3, 2>
                            : nine ? judge_on_host<9, 9, 2>
                                   : judge_on_host<0, 0, 4>},
            {globals.judge_many, three  ? judge_many_on_host<3, 3, 2>
                                 : nine ? judge_many_on_host<9, 9, 2>
                                        : judge_many_on_host<0, 0, 4>},
            {globals.scan, scan_on_host},
            {globals.list, list_on_host},
            {globals.cells, cells_on_host},
            {globals.compact, compact_on_host}};
}

cuda::Shape judge_shape(const BandPlan& plan) {
    return {.blocks_x = static_cast<unsigned>(plan.words),
            .blocks_y = static_cast<unsigned>((plan.rows + k_tile_rows - 1) / k_tile_rows),
            .threads_x = k_tile_threads,
            .threads_y = 1,
            .shared_bytes = Judge<0, 0, 4>::shared_bytes(plan),
            .early = true};
}
cuda::Shape scan_shape(std::int32_t frames) {
    return {.blocks_x = static_cast<unsigned>(frames), .threads_x = k_scan_threads};
}
cuda::Shape list_shape(const BandPlan& plan, std::int32_t frames) {
    return {.blocks_x = static_cast<unsigned>((plan.map_words() + k_list_threads - 1) / k_list_threads),
            .blocks_y = static_cast<unsigned>(frames),
            .threads_x = k_list_threads};
}
cuda::Shape cells_shape() {
    constexpr unsigned k_blocks =
        1024;  // take groups of clusters in turn: how many there are, only the device knows
    return {.blocks_x = k_blocks, .threads_x = k_cells_threads};
}

cuda::Shape compact_shape() {
    return {.threads_x = k_compact_threads};
}

}  // namespace lightmill::clusters::detail

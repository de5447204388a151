// vision_stages NAME KIND SEED OUT.safetensors [TARGET]: every stage of one tile of a fixed picture through a
// tower of seeded weights, for tools/vision_oracle.py to compare with transformers.

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/vision/weights/safetensors.hpp"
#include "lightmill/vision/weights/seeded.hpp"
#include "tests/vision/tower_scene.hpp"

using namespace lightmill;
using namespace lightmill::vision;

int main(int argc, char** argv) {
    if (argc < 5) {
        fmt::print(stderr, "usage: vision_stages NAME plain|peaky|outlier SEED OUT.safetensors [TARGET]\n");
        return 2;
    }
    try {
        const auto config = known_config(argv[1]);
        std::size_t kind = 0;
        while (kind < k_seeded_kinds.size() && k_seeded_kinds[kind] != argv[2]) ++kind;
        if (kind == k_seeded_kinds.size()) throw OptionError("kind", argv[2], "plain, peaky or outlier");
        const SeededTensors source(config, static_cast<SeededKind>(kind),
                                   std::strtoull(argv[3], nullptr, 10));
        const scene::Tiles tiles(1, config.image);
        std::vector<TensorInfo> infos;
        std::string data;
        const auto keep = [&](const std::string& name, Dtype dtype, std::vector<std::int64_t> shape,
                              const void* values) {
            const auto begin = static_cast<std::int64_t>(data.size());
            const auto bytes = element_count(shape) * size_bytes(dtype);
            data.append(static_cast<const char*>(values), static_cast<std::size_t>(bytes));
            infos.push_back({name, dtype, std::move(shape), begin, begin + bytes});
        };
        const auto stage = [&](const std::string& name, View<const float, 2> v) {
            keep(name, Dtype::f32, {v.extent(0), v.extent(1)}, v.data());
        };
        std::vector<float> out(static_cast<std::size_t>(config.output_rows() * config.output));
        const Tower tower(config, source, argc > 5 ? argv[5] : "auto", available_threads());
        Pool pool(available_threads());
        Engine engine(tower, scene::normalisation(), pool);
        engine.observe(stage);
        engine.run(tiles.view(), out.data());
        keep("pixels", Dtype::u8, {config.image, config.image, 3}, tiles.pixels.data());
        write_file(argv[4], safetensors_header(infos, {{"target", std::string(tower.target())},
                                                       {"digest", tower.digest()}}) +
                                data);
    } catch (const Error& error) {
        fmt::print(stderr, "vision_stages: {}\n", error.what());
        return 1;
    }
    return 0;
}

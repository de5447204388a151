#pragma once
// The packed weights of a tower.

#include <optional>

#include "lightmill/vision/ops/kernels.hpp"
#include "lightmill/vision/tower/arena_internal.hpp"
#include "lightmill/vision/tower/tower.hpp"

namespace lightmill::vision {

struct Tower::Weights {
    struct Linear {
        const float* w = nullptr;  // packed
        const float* bias = nullptr;
    };
    struct Norm {
        const float* gamma = nullptr;
        const float* beta = nullptr;
    };
    struct Layer {
        Norm norm1, norm2;
        Linear q, k, v, out, fc1, fc2;
    };

    TowerConfig config;
    const Kernels* kernels = nullptr;  // null: the reference computes
    std::optional<ReferenceTower<float>> reference;
    detail::Arena arena;
    std::string digest;

    Linear patch;
    const float* position = nullptr;  // (patches, padded(hidden))
    std::vector<Layer> layers;
    Norm post;
    const float* connector = nullptr;  // packed
    // Attention pooling. The probe's query does not depend on the tile, yet is computed with it: it is one
    // row.
    const float* probe = nullptr;
    Linear pool_q, pool_k, pool_v, pool_out, pool_fc1, pool_fc2;
    Norm pool_norm;
};

}  // namespace lightmill::vision

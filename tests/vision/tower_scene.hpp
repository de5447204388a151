#pragma once
// Tiles for tests of the tower.

#include <cstdint>

#include "lightmill/base/buffer.hpp"
#include "lightmill/vision/tower/tower.hpp"

namespace lightmill::vision::scene {

// Hugging Face's own for mean = deviation = 0.5: rescaled in binary64 and rounded, then (x − 0.5) / 0.5.
inline Normalisation normalisation() {
    Normalisation table{};
    for (std::size_t i = 0; i < table.size(); ++i)
        table[i] = (static_cast<float>(static_cast<double>(i) * (1.0 / 255.0)) - 0.5F) / 0.5F;
    return table;
}

// (n, side, side, 3) pixels of a fixed noise on a slope.
struct Tiles {
    std::int64_t n, side;
    Buffer<std::uint8_t> pixels;

    Tiles(std::int64_t count, std::int64_t edge)
        : n(count), side(edge), pixels(static_cast<std::size_t>(count * edge * edge * 3)) {
        std::uint64_t state = 7;
        for (std::size_t i = 0; i < pixels.size(); ++i) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            pixels[i] = static_cast<std::uint8_t>((state >> 58U) * 3 + (i / 7) % 64);
        }
    }
    [[nodiscard]] View<const std::uint8_t, 4> view() const { return {pixels.data(), {n, side, side, 3}}; }
};

}  // namespace lightmill::vision::scene

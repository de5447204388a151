#pragma once
// The pictures that tools/make_image_fixtures makes, and what Pillow made of them.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "lightmill/base/hash.hpp"
#include "lightmill/vision/image/image.hpp"

namespace lightmill::vision {

// The lines of a fixture but for its notes, as streams of words.
inline std::vector<std::istringstream> fixture_lines(const std::string& name) {
    std::ifstream file(LIGHTMILL_IMAGE_FIXTURES "/" + name);
    EXPECT_TRUE(file.is_open()) << name;
    std::vector<std::istringstream> lines;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line.front() != '#') lines.emplace_back(line);
    EXPECT_FALSE(lines.empty()) << name;
    return lines;
}

inline std::uint64_t splitmix(std::uint64_t seed, std::uint64_t index) {
    auto z = seed + 0x9E3779B97F4A7C15U * (index + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

inline Image picture(const std::string& kind, const Size& size) {
    Image image(size);
    const auto pixels = image.view();
    if (kind == "waves") {
        for (std::int64_t r = 0; r < size.rows; ++r) {
            for (std::int64_t c = 0; c < size.columns; ++c) {
                for (std::int64_t k = 0; k < k_channels; ++k)
                    pixels(r, c, k) =
                        static_cast<std::uint8_t>((r * 5 + k * 40) % 256 * ((c * 3 + k * 90) % 256) / 255);
            }
        }
        return image;
    }
    const auto bytes = pixels.flat();
    const auto seed = static_cast<std::uint64_t>(size.rows * 100003 + size.columns);
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
        const auto word = splitmix(seed, i / 8);
        std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
    }
    if (kind == "edges")
        for (auto& byte : bytes) byte = (byte & 1) != 0 ? 255 : 0;
    return image;
}

inline std::string short_hash(std::span<const std::uint8_t> bytes) {
    Sha256 sha;
    sha.update(bytes);
    return sha.hex().substr(0, 16);
}

}  // namespace lightmill::vision

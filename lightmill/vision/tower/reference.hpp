#pragma once
// The tower as a textbook has it: whole matrices, one operation after the other, plain scalar code. In
// binary32 it is the definition that the vector kernels equal in every bit; in binary64 it is what accuracy
// is measured by.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lightmill/base/view.hpp"
#include "lightmill/vision/weights/config.hpp"

namespace lightmill::vision {

// The tower's input for each value of an 8-bit pixel.
using Normalisation = std::array<float, 256>;
// A tile: (rows, columns, 3).
using TilePixels = View<const std::uint8_t, 3>;

template <class T>  // float or double
class ReferenceTower {
  public:
    // Called with each stage's result (rows, columns): "embeddings", "layer_0" …, "post_layernorm", "head".
    using Observer = std::function<void(const std::string& stage, View<const T, 2> values)>;

    ReferenceTower(const TowerConfig& config, const TensorSource& source);
    [[nodiscard]] const TowerConfig& config() const noexcept { return config_; }
    // (output_rows, output) of one tile.
    [[nodiscard]] std::vector<T> run(TilePixels tile, const Normalisation& normalisation,
                                     const Observer& observe = {}) const;

  private:
    struct Matrix;
    [[nodiscard]] const std::vector<T>& tensor(const std::string& name) const;
    [[nodiscard]] Matrix linear(const Matrix& x, const T* weight, const T* bias, std::int64_t columns) const;
    [[nodiscard]] Matrix linear(const Matrix& x, const std::string& name) const;
    [[nodiscard]] Matrix norm(const Matrix& x, const std::string& name) const;
    [[nodiscard]] Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v) const;
    [[nodiscard]] Matrix mlp(const Matrix& x, const std::string& name) const;
    [[nodiscard]] Matrix head(const Matrix& hidden) const;

    TowerConfig config_;
    std::map<std::string, std::vector<T>> tensors_;  // without the prefix
};

extern template class ReferenceTower<float>;
extern template class ReferenceTower<double>;

}  // namespace lightmill::vision

#include "lightmill/vision/tower/reference.hpp"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "lightmill/base/error.hpp"
#include "lightmill/vision/ops/arithmetic.hpp"
#include "lightmill/vision/ops/environment.hpp"

namespace lightmill::vision {
namespace {

float multiply_add(float a, float b, float c) {
    return std::fma(a, b, c);
}
double multiply_add(double a, double b, double c) {
    return a * b + c;
}
float exponential(float x) {
    return exp32(x);
}
double exponential(double x) {
    return std::exp(x);
}
float gelu(float t) {
    return gelu32(t);
}
double gelu(double t) {
    return 0.5 * t * (1 + std::tanh(std::sqrt(2 / M_PI) * (t + 0.044715 * t * t * t)));
}
float fold_lanes(const std::array<float, k_sum_lanes>& lanes) {
    return fold(lanes);
}
double fold_lanes(const std::array<double, k_sum_lanes>& lanes) {
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    return sum;
}

template <class T>
void add(std::vector<T>& x, const std::vector<T>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] + y[i];
}

}  // namespace

template <class T>
struct ReferenceTower<T>::Matrix {
    std::int64_t rows = 0, columns = 0;
    std::vector<T> values;

    Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
    T* row(std::int64_t i) { return values.data() + i * columns; }
    const T* row(std::int64_t i) const { return values.data() + i * columns; }
    View<const T, 2> view() const { return {values.data(), {rows, columns}}; }
};

template <class T>
ReferenceTower<T>::ReferenceTower(const TowerConfig& config, const TensorSource& source) : config_(config) {
    check(config_, source.place());
    check_tensors(source, config_);
    std::vector<float> values;
    for (const auto& spec : tower_tensors(config_)) {
        values.resize(static_cast<std::size_t>(element_count(spec.shape)));
        source.read(spec.name, values.data());
        const auto name =
            spec.name == config_.connector ? "connector" : spec.name.substr(config_.prefix.size());
        tensors_.emplace(name, std::vector<T>(values.begin(), values.end()));
    }
}

template <class T>
const std::vector<T>& ReferenceTower<T>::tensor(const std::string& name) const {
    return tensors_.at(name);
}

template <class T>
auto ReferenceTower<T>::linear(const Matrix& x, const T* weight, const T* bias, std::int64_t columns) const
    -> Matrix {
    Matrix y(x.rows, columns);
    for (std::int64_t i = 0; i < x.rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
            T c = 0;
            for (std::int64_t k = 0; k < x.columns; ++k)
                c = multiply_add(x.row(i)[k], weight[j * x.columns + k], c);
            y.row(i)[j] = bias != nullptr ? c + bias[j] : c;
        }
    }
    return y;
}

template <class T>
auto ReferenceTower<T>::linear(const Matrix& x, const std::string& name) const -> Matrix {
    const auto& bias = tensor(name + ".bias");
    return linear(x, tensor(name + ".weight").data(), bias.data(), static_cast<std::int64_t>(bias.size()));
}

template <class T>
auto ReferenceTower<T>::norm(const Matrix& x, const std::string& name) const -> Matrix {
    const auto& gamma = tensor(name + ".weight");
    const auto& beta = tensor(name + ".bias");
    const auto n = static_cast<T>(x.columns);
    Matrix y(x.rows, x.columns);
    for (std::int64_t i = 0; i < x.rows; ++i) {
        std::array<T, k_sum_lanes> sum{}, squares{};
        const auto lane = [](std::int64_t j) { return static_cast<std::size_t>(j % k_sum_lanes); };
        for (std::int64_t j = 0; j < x.columns; ++j) sum[lane(j)] = sum[lane(j)] + x.row(i)[j];
        const T mean = fold_lanes(sum) / n;
        for (std::int64_t j = 0; j < x.columns; ++j) {
            const T d = x.row(i)[j] - mean;
            squares[lane(j)] = multiply_add(d, d, squares[lane(j)]);
        }
        const T variance = fold_lanes(squares) / n;
        const T r = T{1} / std::sqrt(variance + static_cast<T>(config_.eps));
        for (std::int64_t j = 0; j < x.columns; ++j) {
            const auto at = static_cast<std::size_t>(j);
            y.row(i)[j] = multiply_add((x.row(i)[j] - mean) * r, gamma[at], beta[at]);
        }
    }
    return y;
}

template <class T>
auto ReferenceTower<T>::attention(const Matrix& q, const Matrix& k, const Matrix& v) const -> Matrix {
    const auto d = config_.head_size();
    const auto scale = static_cast<T>(1 / std::sqrt(static_cast<double>(d)));
    Matrix out(q.rows, config_.hidden);
    std::vector<T> p(static_cast<std::size_t>(k.rows));
    for (std::int64_t first = 0; first < config_.hidden; first += d) {
        for (std::int64_t i = 0; i < q.rows; ++i) {
            for (std::int64_t key = 0; key < k.rows; ++key) {
                T c = 0;
                for (auto j = first; j < first + d; ++j) c = multiply_add(q.row(i)[j], k.row(key)[j], c);
                p[static_cast<std::size_t>(key)] = c * scale;
            }
            const T most = *std::max_element(p.begin(), p.end());
            std::array<T, k_sum_lanes> sum{};
            for (std::size_t key = 0; key < p.size(); ++key) {
                p[key] = exponential(p[key] - most);
                sum[key % k_sum_lanes] = sum[key % k_sum_lanes] + p[key];
            }
            const T factor = T{1} / fold_lanes(sum);
            for (auto j = first; j < first + d; ++j) {
                T c = 0;
                for (std::int64_t key = 0; key < k.rows; ++key)
                    c = multiply_add(p[static_cast<std::size_t>(key)], v.row(key)[j], c);
                out.row(i)[j] = c * factor;
            }
        }
    }
    return out;
}

template <class T>
auto ReferenceTower<T>::mlp(const Matrix& x, const std::string& name) const -> Matrix {
    auto inner = linear(x, name + ".fc1");
    for (auto& value : inner.values) value = gelu(value);
    return linear(inner, name + ".fc2");
}

template <class T>
auto ReferenceTower<T>::head(const Matrix& hidden) const -> Matrix {
    const auto side = config_.side(), shuffle = config_.shuffle, width = config_.hidden;
    if (config_.head == Head::connector) {
        Matrix joined(config_.output_rows(), shuffle * shuffle * width);
        for (std::int64_t row = 0; row < hidden.rows; ++row) {
            const auto y = row / side, x = row % side;
            const auto to = joined.row(y / shuffle * (side / shuffle) + x / shuffle);
            std::copy_n(hidden.row(row), width, to + (y % shuffle * shuffle + x % shuffle) * width);
        }
        return linear(joined, tensor("connector").data(), nullptr, config_.output);
    }
    const auto& weight = tensor("head.attention.in_proj_weight");
    const auto& bias = tensor("head.attention.in_proj_bias");
    const auto part = [&](const Matrix& x, std::int64_t i) {
        return linear(x, weight.data() + i * width * width, bias.data() + i * width, width);
    };
    Matrix probe(1, width);
    probe.values = tensor("head.probe");
    auto pooled =
        linear(attention(part(probe, 0), part(hidden, 1), part(hidden, 2)), "head.attention.out_proj");
    add(pooled.values, mlp(norm(pooled, "head.layernorm"), "head.mlp").values);
    return pooled;
}

template <class T>
std::vector<T> ReferenceTower<T>::run(TilePixels tile, const Normalisation& normalisation,
                                      const Observer& observe) const {
    const FloatEnvironment environment;
    const auto side = config_.side(), patch = config_.patch;
    if (tile.extents() != TilePixels::Extents{config_.image, config_.image, config_.channels})
        throw Error(
            ErrorCode::state,
            fmt::format("a tile of {} x {} pixels with {} channels, expected {} x {} with {}", tile.extent(0),
                        tile.extent(1), tile.extent(2), config_.image, config_.image, config_.channels));
    const auto seen = [&](const std::string& stage, const Matrix& m) {
        if (observe) observe(stage, m.view());
    };
    Matrix patches(config_.patches(), config_.patch_values());
    for (std::int64_t i = 0; i < patches.rows; ++i)
        for (std::int64_t k = 0; k < patches.columns; ++k) {
            const auto y = i / side * patch + k / patch % patch, x = i % side * patch + k % patch;
            patches.row(i)[k] = static_cast<T>(normalisation[tile(y, x, k / (patch * patch))]);
        }
    auto x = linear(patches, "embeddings.patch_embedding");
    add(x.values, tensor("embeddings.position_embedding.weight"));
    seen("embeddings", x);
    for (std::int64_t i = 0; i < config_.layers; ++i) {
        const auto layer = fmt::format("encoder.layers.{}.", i);
        const auto y = norm(x, layer + "layer_norm1");
        const auto attended =
            attention(linear(y, layer + "self_attn.q_proj"), linear(y, layer + "self_attn.k_proj"),
                      linear(y, layer + "self_attn.v_proj"));
        add(x.values, linear(attended, layer + "self_attn.out_proj").values);
        add(x.values, mlp(norm(x, layer + "layer_norm2"), layer + "mlp").values);
        seen(fmt::format("layer_{}", i), x);
    }
    const auto hidden = norm(x, "post_layernorm");
    seen("post_layernorm", hidden);
    auto out = head(hidden);
    seen("head", out);
    return std::move(out.values);
}

template class ReferenceTower<float>;
template class ReferenceTower<double>;

}  // namespace lightmill::vision

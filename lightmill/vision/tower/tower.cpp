#include "lightmill/vision/tower/tower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/vision/tower/tower_internal.hpp"

namespace lightmill::vision {
namespace {

// A tensor's way into the arena.
struct Move {
    std::string name;
    std::int64_t rows = 0, columns = 0;  // of the part taken: rows first_row … of the tensor
    std::int64_t first_row = 0, all_rows = 0;
    bool packed = false;  // else row by row, each padded
    std::int64_t at = 0;  // values
};

class Planner {
  public:
    explicit Planner(std::int64_t panel) : panel_(panel) {}

    // Each returns where the values will lie.
    std::int64_t packed(const std::string& name, std::int64_t rows, std::int64_t columns,
                        std::int64_t part = 0, std::int64_t parts = 1) {
        return add({name, rows, columns, part * rows, parts * rows, true, 0},
                   packed_values(rows, columns, panel_));
    }
    std::int64_t plain(const std::string& name, std::int64_t rows, std::int64_t columns,
                       std::int64_t part = 0, std::int64_t parts = 1) {
        return add({name, rows, columns, part * rows, parts * rows, false, 0}, rows * padded(columns));
    }
    [[nodiscard]] std::int64_t values() const noexcept { return values_; }
    [[nodiscard]] const std::vector<Move>& moves() const noexcept { return moves_; }

  private:
    std::int64_t add(Move move, std::int64_t values) {
        move.at = values_;
        moves_.push_back(std::move(move));
        values_ += padded(values);
        return moves_.back().at;
    }
    std::int64_t panel_;
    std::int64_t values_ = 0;
    std::vector<Move> moves_;
};

Hash128 hash_of(const std::vector<float>& values) {
    Xxh3 hash;
    hash.update(std::span(values));
    return hash.digest();
}

// Returns the hash of the whole tensor's values.
Hash128 fill(const Move& move, const TensorSource& source, std::int64_t panel, std::vector<float>& scratch,
             float* arena) {
    scratch.resize(static_cast<std::size_t>(move.all_rows * move.columns));
    source.read(move.name, scratch.data());
    const float* const from = scratch.data() + move.first_row * move.columns;
    float* const to = arena + move.at;
    if (move.packed) {
        pack(from, move.columns, move.rows, move.columns, panel, to);
    } else {
        for (std::int64_t i = 0; i < move.rows; ++i) {
            float* const row = to + i * padded(move.columns);
            std::copy_n(from + i * move.columns, move.columns, row);
            std::fill(row + move.columns, row + padded(move.columns), 0.0F);
        }
    }
    return hash_of(scratch);
}

// The configuration, then every tensor's name and hash.
std::string digest_of(const TowerConfig& c, const std::map<std::string, Hash128>& hashes) {
    Sha256 sha;
    const auto text = fmt::format("tower 1 {} {} {} {} {} {} {} {} {} {}\n", c.hidden, c.intermediate,
                                  c.layers, c.heads, c.image, c.patch, c.eps, c.shuffle, c.output,
                                  c.head == Head::connector ? "connector" : "pooling");
    sha.update(text.data(), text.size());
    for (const auto& spec : tower_tensors(c)) {
        sha.update(spec.name.data(), spec.name.size() + 1);
        sha.update(hashes.at(spec.name).data(), sizeof(Hash128));
    }
    return sha.hex();
}

}  // namespace

std::vector<std::string> tower_targets() {
    std::vector<std::string> targets;
    for (const auto& k : kernels()) targets.emplace_back(k.name);
    targets.emplace_back("reference");
    return targets;
}

Tower::Tower(const TowerConfig& config, const TensorSource& source, const std::string& target, int threads) {
    const auto targets = tower_targets();
    const auto wanted = target == "auto" ? targets.front() : target;
    if (std::find(targets.begin(), targets.end(), wanted) == targets.end())
        throw OptionError("target", target, fmt::format("auto or one of {}", fmt::join(targets, ", ")));
    auto weights = std::make_unique<Weights>();
    auto& w = *weights;
    const auto& c = w.config = config;
    for (const auto& k : kernels())
        if (k.name == wanted) w.kernels = &k;
    if (w.kernels == nullptr) {
        w.reference.emplace(config, source);
        std::map<std::string, Hash128> hashes;
        std::vector<float> values;
        for (const auto& spec : tower_tensors(config)) {
            values.resize(static_cast<std::size_t>(element_count(spec.shape)));
            source.read(spec.name, values.data());
            hashes.emplace(spec.name, hash_of(values));
        }
        w.digest = digest_of(config, hashes);
        weights_ = std::move(weights);
        return;
    }
    check(c, source.place());
    check_tensors(source, c);

    Planner plan(w.kernels->panel);
    // Places first, as offsets; pointers once the arena stands.
    std::vector<std::pair<const float**, std::int64_t>> places;
    const auto linear = [&](Weights::Linear& to, const std::string& name, std::int64_t rows,
                            std::int64_t columns, std::string_view dot = ".", std::int64_t part = 0,
                            std::int64_t parts = 1) {
        places.emplace_back(
            &to.w, plan.packed(fmt::format("{}{}{}weight", c.prefix, name, dot), rows, columns, part, parts));
        // A vector is a matrix of one column for its parts, of one row for its place.
        places.emplace_back(&to.bias,
                            plan.plain(fmt::format("{}{}{}bias", c.prefix, name, dot), 1, rows, part, parts));
    };
    const auto norm = [&](Weights::Norm& to, const std::string& name) {
        places.emplace_back(&to.gamma, plan.plain(c.prefix + name + ".weight", 1, c.hidden));
        places.emplace_back(&to.beta, plan.plain(c.prefix + name + ".bias", 1, c.hidden));
    };
    linear(w.patch, "embeddings.patch_embedding", c.hidden, c.patch_values());
    places.emplace_back(&w.position,
                        plan.plain(c.prefix + "embeddings.position_embedding.weight", c.patches(), c.hidden));
    w.layers.resize(static_cast<std::size_t>(c.layers));
    for (std::int64_t i = 0; i < c.layers; ++i) {
        auto& layer = w.layers[static_cast<std::size_t>(i)];
        const auto name = fmt::format("encoder.layers.{}.", i);
        norm(layer.norm1, name + "layer_norm1");
        linear(layer.q, name + "self_attn.q_proj", c.hidden, c.hidden);
        linear(layer.k, name + "self_attn.k_proj", c.hidden, c.hidden);
        linear(layer.v, name + "self_attn.v_proj", c.hidden, c.hidden);
        linear(layer.out, name + "self_attn.out_proj", c.hidden, c.hidden);
        norm(layer.norm2, name + "layer_norm2");
        linear(layer.fc1, name + "mlp.fc1", c.intermediate, c.hidden);
        linear(layer.fc2, name + "mlp.fc2", c.hidden, c.intermediate);
    }
    norm(w.post, "post_layernorm");
    if (c.head == Head::connector) {
        places.emplace_back(&w.connector,
                            plan.packed(c.connector, c.output, c.shuffle * c.shuffle * c.hidden));
    } else {
        places.emplace_back(&w.probe, plan.plain(c.prefix + "head.probe", 1, c.hidden));
        linear(w.pool_q, "head.attention.in_proj", c.hidden, c.hidden, "_", 0, 3);
        linear(w.pool_k, "head.attention.in_proj", c.hidden, c.hidden, "_", 1, 3);
        linear(w.pool_v, "head.attention.in_proj", c.hidden, c.hidden, "_", 2, 3);
        linear(w.pool_out, "head.attention.out_proj", c.hidden, c.hidden);
        norm(w.pool_norm, "head.layernorm");
        linear(w.pool_fc1, "head.mlp.fc1", c.intermediate, c.hidden);
        linear(w.pool_fc2, "head.mlp.fc2", c.hidden, c.intermediate);
    }
    w.arena = detail::Arena(plan.values());
    for (const auto& [pointer, at] : places) *pointer = w.arena.data() + at;

    std::vector<Hash128> hashes(plan.moves().size());
    std::atomic<std::size_t> next{0};
    Team(std::max(threads, 1)).run([&](int) {
        std::vector<float> scratch;
        for (;;) {
            const auto i = next.fetch_add(1, std::memory_order_relaxed);
            if (i >= plan.moves().size()) return;
            // From the end: the largest one, the connector's, is there and must not be begun last.
            const auto at = plan.moves().size() - 1 - i;
            hashes[at] = fill(plan.moves()[at], source, w.kernels->panel, scratch, w.arena.data());
        }
    });
    std::map<std::string, Hash128> by_name;
    for (std::size_t i = 0; i < hashes.size(); ++i) by_name.emplace(plan.moves()[i].name, hashes[i]);
    w.digest = digest_of(c, by_name);
    weights_ = std::move(weights);
}

Tower::Tower(Tower&&) noexcept = default;
Tower& Tower::operator=(Tower&&) noexcept = default;
Tower::~Tower() = default;

const TowerConfig& Tower::config() const noexcept {
    return weights_->config;
}
std::string_view Tower::target() const noexcept {
    return weights_->kernels != nullptr ? weights_->kernels->name : "reference";
}
std::int64_t Tower::packed_bytes() const noexcept {
    return weights_->arena.size() * static_cast<std::int64_t>(sizeof(float));
}

const std::string& Tower::digest() const noexcept {
    return weights_->digest;
}

double flops_a_tile(const TowerConfig& c) noexcept {
    const auto p = static_cast<double>(c.patches()), d = static_cast<double>(c.hidden),
               m = static_cast<double>(c.intermediate);
    double n = p * static_cast<double>(c.patch_values()) * d;
    n += static_cast<double>(c.layers) * (4 * p * d * d + 2 * p * d * m + 2 * p * p * d);
    if (c.head == Head::connector) {
        n += p * d * static_cast<double>(c.output);  // rows × k is patches × hidden
    } else {
        n += 2 * p * d * d + 2 * p * d + 2 * d * d + 2 * d * m;
    }
    return 2 * n;
}

}  // namespace lightmill::vision

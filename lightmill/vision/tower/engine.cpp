// How a tile goes through the tower. Stage 0 cuts a tile's patches, embeds them and makes the first queries,
// keys and values; stage i + 1 is layer i and makes those of the next one; the last stage is the head. A
// stage's tasks, one a block of rows, need all blocks of the stage before and nothing else: whoever finishes
// a stage posts the next.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

#include "lightmill/base/error.hpp"
#include "lightmill/vision/ops/environment.hpp"
#include "lightmill/vision/tower/tower_internal.hpp"

namespace lightmill::vision {
namespace {

constexpr std::int64_t k_mlp_columns =
    768;  // of the hidden layer at a time: 96 rows stay in the second cache level
constexpr std::int64_t k_head_columns = 192;  // of the connector's product a task

struct Block {
    std::int64_t first = 0, rows = 0;
};

// A stage of a tile is some eleven tasks: a few tiles give every worker one, also where a stage ends.
std::int64_t default_tiles(int workers) {
    return workers == 1 ? 1 : workers / 4 + 2;
}

}  // namespace

struct Engine::State {
    using Weights = Tower::Weights;
    using Observer = ReferenceTower<float>::Observer;

    struct Job {
        TilePixels pixels;
        float* out = nullptr;
        Done done;
        std::uint64_t number = 0;
    };
    // What a tile in flight needs. Keys and values have two places: a layer's tasks read one while they write
    // the other for the next layer.
    struct Slot {
        Job job;
        std::atomic<std::int64_t> remaining{0};
        std::atomic<bool> failed{false};
        detail::Arena x, q, keys[2], values[2], joined;
    };
    struct Scratch {
        detail::Arena a, b, inner, scores, chains, factor, chain;
    };

    State(const Tower& tower, const Normalisation& table, Pool& the_pool, const EngineOptions& options)
        : w(*tower.weights_), c(w.config), normalisation(table), pool(the_pool) {
        block_rows = std::clamp<std::int64_t>(options.block_rows, 1, c.patches());
        attention_rows = std::clamp<std::int64_t>(options.attention_rows, 1, block_rows);
        layer_by_layer = options.layer_by_layer;
        if (options.tiles_in_flight < 0)
            throw OptionError("tiles_in_flight", fmt::format("{}", options.tiles_in_flight),
                              "a whole number from 0");
        slots = static_cast<std::size_t>(options.tiles_in_flight > 0 ? options.tiles_in_flight
                                                                     : default_tiles(pool.workers()));
        stride = padded(c.hidden);
        for (std::size_t i = 0; i < slots; ++i) idle.push_back(std::make_unique<Slot>());
        if (w.kernels == nullptr) return;
        panel = w.kernels->panel;
        const auto d = c.head_size();
        key_values = padded(packed_values(c.patches(), d, panel));
        value_values = padded(packed_values(d, c.patches(), panel));
        joined_stride = padded(c.shuffle * c.shuffle * c.hidden);
        mlp_columns = std::min(k_mlp_columns, c.intermediate);
        scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
        for (int i = 0; i < pool.workers(); ++i) {
            auto s = std::make_unique<Scratch>();
            s->a = detail::Arena(block_rows * padded(std::max(c.hidden, c.patch_values())));
            s->b = detail::Arena(block_rows * stride);
            s->inner = detail::Arena(block_rows * padded(mlp_columns));
            s->scores = detail::Arena(attention_rows * padded(c.patches()));
            s->chains = detail::Arena(block_rows * stride);
            s->chain = detail::Arena(std::max(block_rows, c.output_rows()) * k_row_values);
            s->factor = detail::Arena(attention_rows);
            scratch.push_back(std::move(s));
        }
        // Memory that no tile has touched is only an address.
        for (auto& slot : idle) prepare(*slot);
    }

    // ---- tiles ----

    void submit(Job job) {
        const std::lock_guard lock(mutex);
        job.number = submitted++;
        waiting.push_back(std::move(job));
        begin_waiting();
    }

    // With the mutex held.
    void begin_waiting() {
        while (!waiting.empty() && !idle.empty()) {
            Slot* const slot = idle.back().release();
            idle.pop_back();
            slot->job = std::move(waiting.front());
            slot->failed = false;
            waiting.pop_front();
            begin(slot);
        }
    }

    void begin(Slot* slot) {
        if (w.kernels != nullptr) return post(slot, 0);
        pool.post(slot->job.number, [this, slot](int) {
            std::exception_ptr error;
            try {
                const auto out = w.reference->run(slot->job.pixels, normalisation, observer);
                std::copy(out.begin(), out.end(), slot->job.out);
                require_finite(*slot, 0, c.output);
            } catch (...) {
                error = std::current_exception();
            }
            finish(slot, error);
        });
    }

    void post(Slot* slot, std::int64_t stage) {
        const bool is_head = stage == c.layers + 1;
        const auto size = !is_head                    ? block_rows
                          : c.head == Head::connector ? k_head_columns
                                                      : std::int64_t{1};
        const auto all = !is_head ? c.patches() : c.head == Head::connector ? c.output : std::int64_t{1};
        const auto tasks = (all + size - 1) / size;
        slot->remaining.store(tasks, std::memory_order_relaxed);
        const auto order = layer_by_layer ? static_cast<std::uint64_t>(stage) : slot->job.number;
        for (std::int64_t i = 0; i < tasks; ++i) {
            const Block block{i * size, std::min(size, all - i * size)};
            pool.post(order, [this, slot, stage, block](int worker) { work(slot, stage, block, worker); });
        }
    }

    void work(Slot* slot, std::int64_t stage, const Block& block, int worker) {
        std::exception_ptr error;
        if (!slot->failed.load(std::memory_order_relaxed)) {
            try {
                const FloatEnvironment environment;
                auto& s = *scratch[static_cast<std::size_t>(worker)];
                if (stage == 0) {
                    embed(*slot, s, block);
                } else if (stage <= c.layers) {
                    layer(*slot, s, block, stage - 1);
                } else if (c.head == Head::connector) {
                    connect(*slot, s, block);
                } else {
                    attend_pool(*slot, s);
                }
            } catch (...) {
                if (!slot->failed.exchange(true)) {
                    const std::lock_guard lock(mutex);
                    errors.emplace_back(slot, std::current_exception());
                }
            }
        }
        if (slot->remaining.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        if (slot->failed.load(std::memory_order_relaxed)) {
            const std::lock_guard lock(mutex);
            const auto found = std::find_if(errors.begin(), errors.end(),
                                            [&](const auto& entry) { return entry.first == slot; });
            error = found->second;
            errors.erase(found);
        } else {
            if (observer) show(*slot, stage);
            if (stage <= c.layers) return post(slot, stage + 1);
        }
        finish(slot, error);
    }

    void finish(Slot* slot, const std::exception_ptr& error) {
        auto done = std::move(slot->job.done);
        done(error);
        done = nullptr;
        const std::lock_guard lock(mutex);
        idle.emplace_back(slot);
        begin_waiting();
        all_done.notify_all();
    }

    void wait_for_all() {
        std::unique_lock lock(mutex);
        all_done.wait(lock, [this] { return idle.size() == slots; });
    }

    // ---- the arithmetic ----

    void product(const Product& p) const { w.kernels->product(p); }
    void norm(const Weights::Norm& n, const float* x, float* y, std::int64_t rows) const {
        w.kernels->layer_norm(
            {x, stride, rows, c.hidden, n.gamma, n.beta, static_cast<float>(c.eps), y, stride});
    }
    // (rows, hidden) → (rows, columns), both with this engine's stride.
    [[nodiscard]] Product linear(const Weights::Linear& l, const float* a, std::int64_t rows, Scratch& s,
                                 float* out) const {
        Product p;
        p.a = a;
        p.a_stride = stride;
        p.rows = rows;
        p.w = l.w;
        p.columns = c.hidden;
        p.k_values = p.k_count = c.hidden;
        p.c = s.chain.data();
        p.c_stride = k_row_values;
        p.after = After::bias;
        p.bias = l.bias;
        p.out = out;
        p.out_stride = stride;
        return p;
    }

    void prepare(Slot& slot) const {
        slot.x = detail::Arena(c.patches() * stride);
        slot.q = detail::Arena(c.patches() * stride);
        for (int i = 0; i < 2; ++i) {
            slot.keys[i] = detail::Arena(c.heads * key_values);
            slot.values[i] = detail::Arena(c.heads * value_values);
        }
        // Columns beyond the last key or dimension are computed with, though never used.
        if (c.patches() % panel != 0)
            for (auto& k : slot.keys) std::fill_n(k.data(), k.size(), 0.0F);
        if (c.head_size() % panel != 0)
            for (auto& v : slot.values) std::fill_n(v.data(), v.size(), 0.0F);
        if (c.head == Head::connector) slot.joined = detail::Arena(c.output_rows() * joined_stride);
    }

    void embed(Slot& slot, Scratch& s, const Block& block) const {
        const auto patch = c.patch, k_stride = padded(c.patch_values());
        const auto row_bytes = c.image * c.channels;
        for (std::int64_t i = 0; i < block.rows; ++i) {
            const auto y = (block.first + i) / c.side() * patch, x = (block.first + i) % c.side() * patch;
            float* out = s.a.data() + i * k_stride;
            for (std::int64_t channel = 0; channel < c.channels; ++channel)
                for (std::int64_t py = 0; py < patch; ++py) {
                    const auto* in = slot.job.pixels.data() + (y + py) * row_bytes + x * c.channels + channel;
                    for (std::int64_t px = 0; px < patch; ++px) *out++ = normalisation[in[px * c.channels]];
                }
        }
        auto p = linear(w.patch, s.a.data(), block.rows, s, slot.x.data() + block.first * stride);
        p.a_stride = k_stride;
        p.k_values = p.k_count = c.patch_values();
        p.after = After::add;
        p.other = w.position + block.first * stride;
        p.other_stride = stride;
        product(p);
        queries(slot, s, block, 0);
    }

    // Queries, keys and values of layer i from the rows of x.
    void queries(Slot& slot, Scratch& s, const Block& block, std::int64_t i) const {
        const auto& l = w.layers[static_cast<std::size_t>(i)];
        norm(l.norm1, slot.x.data() + block.first * stride, s.a.data(), block.rows);
        product(linear(l.q, s.a.data(), block.rows, s, slot.q.data() + block.first * stride));
        keys_and_values(slot, s, block, l.k, l.v, i % 2);
    }
    // From the rows in s.a.
    void keys_and_values(Slot& slot, Scratch& s, const Block& block, const Weights::Linear& k,
                         const Weights::Linear& v, std::int64_t place) const {
        const auto d = c.head_size();
        product(linear(k, s.a.data(), block.rows, s, s.b.data()));
        float* const keys = slot.keys[place].data();
        for (std::int64_t head = 0; head < c.heads; ++head) {
            for (std::int64_t i = 0; i < block.rows; ++i) {
                const auto key = block.first + i;
                const float* const in = s.b.data() + i * stride + head * d;
                float* const out = keys + head * key_values + key / panel * panel * d + key % panel;
                for (std::int64_t j = 0; j < d; ++j) out[j * panel] = in[j];
            }
        }
        product(linear(v, s.a.data(), block.rows, s, s.b.data()));
        float* const values = slot.values[place].data();
        for (std::int64_t i = 0; i < block.rows; ++i) {
            const auto key = block.first + i;
            for (std::int64_t head = 0; head < c.heads; ++head)
                for (std::int64_t j = 0; j < d; j += panel) {
                    const auto count = std::min(panel, d - j);
                    std::memcpy(values + head * value_values + j * c.patches() + key * panel,
                                s.b.data() + i * stride + head * d + j,
                                static_cast<std::size_t>(count) * sizeof(float));
                }
        }
    }

    // Attention of `rows` rows of queries over all keys: the whole row of scores is there before its
    // exponentials.
    void attend(const Slot& slot, Scratch& s, const float* q, std::int64_t rows, std::int64_t place,
                float* out) const {
        const auto d = c.head_size(), n = c.patches(), scores_stride = padded(n);
        for (std::int64_t first = 0; first < rows; first += attention_rows) {
            const auto count = std::min(attention_rows, rows - first);
            for (std::int64_t head = 0; head < c.heads; ++head) {
                Product p;
                p.a = q + first * stride + head * d;
                p.a_stride = stride;
                p.rows = count;
                p.w = slot.keys[place].data() + head * key_values;
                p.columns = n;
                p.k_values = p.k_count = d;
                p.c = p.out = s.scores.data();
                p.c_stride = p.out_stride = scores_stride;
                product(p);
                w.kernels->softmax({s.scores.data(), scores_stride, count, n, scale, s.factor.data()});
                p.a = s.scores.data();
                p.a_stride = scores_stride;
                p.w = slot.values[place].data() + head * value_values;
                p.columns = d;
                p.k_values = p.k_count = n;
                p.c = s.chain.data();
                p.c_stride = k_row_values;
                p.after = After::scale_row;
                p.factor = s.factor.data();
                p.out = out + first * stride + head * d;
                p.out_stride = stride;
                product(p);
            }
        }
    }

    // x + fc2(gelu(fc1(norm(x)))), in place; the inner layer a part at a time, whose chains wait in s.chains.
    void mlp(Scratch& s, const Weights::Norm& n, const Weights::Linear& fc1, const Weights::Linear& fc2,
             float* x, std::int64_t rows) const {
        norm(n, x, s.a.data(), rows);
        for (std::int64_t first = 0; first < c.intermediate; first += mlp_columns) {
            const auto count = std::min(mlp_columns, c.intermediate - first);
            auto p = linear(fc1, s.a.data(), rows, s, s.inner.data());
            p.w += first * c.hidden;
            p.columns = count;
            p.after = After::gelu;
            p.bias += first;
            p.out_stride = padded(mlp_columns);
            product(p);
            p = linear(fc2, s.inner.data(), rows, s, x);
            p.a_stride = padded(mlp_columns);
            p.k_values = c.intermediate;
            p.k_first = first;
            p.k_count = count;
            p.c = s.chains.data();
            p.c_stride = stride;
            p.start = first == 0;
            p.finish = first + count == c.intermediate;
            p.after = After::add;
            p.other = x;
            p.other_stride = stride;
            product(p);
        }
    }

    void layer(Slot& slot, Scratch& s, const Block& block, std::int64_t i) const {
        const auto& l = w.layers[static_cast<std::size_t>(i)];
        float* const x = slot.x.data() + block.first * stride;
        attend(slot, s, slot.q.data() + block.first * stride, block.rows, i % 2, s.a.data());
        auto p = linear(l.out, s.a.data(), block.rows, s, x);
        p.after = After::add;
        p.other = x;
        p.other_stride = stride;
        product(p);
        mlp(s, l.norm2, l.fc1, l.fc2, x, block.rows);
        if (i + 1 < c.layers) return queries(slot, s, block, i + 1);
        if (observer) return;  // the end of this stage shows x, then its norm: see show()
        close(slot, s, block);
    }

    // The last layer norm, in place, and what the head takes from it.
    void close(Slot& slot, Scratch& s, const Block& block) const {
        float* const x = slot.x.data() + block.first * stride;
        norm(w.post, x, x, block.rows);
        if (c.head == Head::pooling) {
            for (std::int64_t i = 0; i < block.rows; ++i)
                std::copy_n(x + i * stride, c.hidden, s.a.data() + i * stride);
            return keys_and_values(slot, s, block, w.pool_k, w.pool_v, c.layers % 2);
        }
        const auto side = c.side(), shuffle = c.shuffle;
        for (std::int64_t i = 0; i < block.rows; ++i) {
            const auto row = (block.first + i) / side, column = (block.first + i) % side;
            std::copy_n(x + i * stride, c.hidden,
                        slot.joined.data() +
                            (row / shuffle * (side / shuffle) + column / shuffle) * joined_stride +
                            (row % shuffle * shuffle + column % shuffle) * c.hidden);
        }
    }

    // Some columns of the connector's product.
    void connect(Slot& slot, Scratch& s, const Block& columns) const {
        Product p;
        p.a = slot.joined.data();
        p.a_stride = joined_stride;
        p.rows = c.output_rows();
        p.k_values = p.k_count = c.shuffle * c.shuffle * c.hidden;
        p.w = w.connector + columns.first * p.k_values;
        p.columns = columns.rows;
        p.c = s.chain.data();
        p.c_stride = k_row_values;
        p.after = After::keep;
        p.out = slot.job.out + columns.first;
        p.out_stride = c.output;
        product(p);
        require_finite(slot, columns.first, columns.first + columns.rows);
    }

    void attend_pool(Slot& slot, Scratch& s) const {
        product(linear(w.pool_q, w.probe, 1, s, s.b.data()));
        attend(slot, s, s.b.data(), 1, c.layers % 2, s.a.data());
        product(linear(w.pool_out, s.a.data(), 1, s, s.b.data()));
        mlp(s, w.pool_norm, w.pool_fc1, w.pool_fc2, s.b.data(), 1);
        std::copy_n(s.b.data(), c.hidden, slot.job.out);
        require_finite(slot, 0, c.output);
    }

    void require_finite(const Slot& slot, std::int64_t first, std::int64_t last) const {
        for (std::int64_t i = 0; i < c.output_rows(); ++i)
            for (auto j = first; j < last; ++j)
                if (!std::isfinite(slot.job.out[i * c.output + j]))
                    throw Error(
                        ErrorCode::range,
                        fmt::format("row {} of a tile's embedding holds {} at column {}: these weights take "
                                    "binary32 beyond its range",
                                    i, slot.job.out[i * c.output + j], j));
    }

    // ---- for comparisons ----

    void show(Slot& slot, std::int64_t stage) {
        std::vector<float> rows(static_cast<std::size_t>(c.patches() * c.hidden));
        const auto show_x = [&](const std::string& name) {
            for (std::int64_t i = 0; i < c.patches(); ++i)
                std::copy_n(slot.x.data() + i * stride, c.hidden, rows.data() + i * c.hidden);
            observer(name, {rows.data(), {c.patches(), c.hidden}});
        };
        if (stage == 0) show_x("embeddings");
        if (stage > 0 && stage <= c.layers) show_x(fmt::format("layer_{}", stage - 1));
        if (stage == c.layers) {
            for (std::int64_t first = 0; first < c.patches(); first += block_rows)
                close(slot, *scratch.front(), {first, std::min(block_rows, c.patches() - first)});
            show_x("post_layernorm");
        }
        if (stage == c.layers + 1) observer("head", {slot.job.out, {c.output_rows(), c.output}});
    }

    const Weights& w;
    const TowerConfig& c;
    Normalisation normalisation;
    Pool& pool;
    std::int64_t block_rows = 0, attention_rows = 0;
    std::int64_t stride = 0, panel = 0, key_values = 0, value_values = 0, joined_stride = 0, mlp_columns = 0;
    float scale = 1;
    bool layer_by_layer = false;
    Observer observer;
    std::vector<std::unique_ptr<Scratch>> scratch;  // a worker

    std::mutex mutex;
    std::condition_variable all_done;
    std::uint64_t submitted = 0;
    std::deque<Job> waiting;
    std::size_t slots = 0;  // tiles in flight at most
    std::vector<std::unique_ptr<Slot>> idle;
    std::vector<std::pair<Slot*, std::exception_ptr>> errors;
};

Engine::Engine(const Tower& tower, const Normalisation& normalisation, Pool& pool,
               const EngineOptions& options)
    : state_(std::make_unique<State>(tower, normalisation, pool, options)) {}

Engine::~Engine() {
    state_->wait_for_all();
}

void Engine::submit(TilePixels tile, float* out, Done done) {
    const auto& c = state_->c;
    if (tile.extents() != TilePixels::Extents{c.image, c.image, c.channels})
        throw Error(
            ErrorCode::state,
            fmt::format("a tile of {} x {} pixels with {} channels, expected {} x {} with {}", tile.extent(0),
                        tile.extent(1), tile.extent(2), c.image, c.image, c.channels));
    state_->submit({tile, out, std::move(done), 0});
}

void Engine::run(View<const std::uint8_t, 4> tiles, float* out) {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t left = tiles.extent(0);
    std::exception_ptr first;
    for (std::int64_t i = 0; i < tiles.extent(0); ++i) {
        submit(tiles[i], out + i * state_->c.output_rows() * state_->c.output, [&](std::exception_ptr error) {
            const std::lock_guard lock(mutex);
            if (error && !first) first = error;
            if (--left == 0) changed.notify_all();
        });
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return left == 0; });
    if (first) std::rethrow_exception(first);
}

void Engine::observe(ReferenceTower<float>::Observer observer) {
    state_->observer = std::move(observer);
    state_->idle.resize(1);
    state_->slots = 1;
}

std::int64_t Engine::tile_bytes() const noexcept {
    std::int64_t values = 0;
    if (!state_->idle.empty()) {
        const auto& slot = *state_->idle.front();
        values = slot.x.size() + slot.q.size() + slot.joined.size();
        for (int i = 0; i < 2; ++i) values += slot.keys[i].size() + slot.values[i].size();
    }
    return values * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t Engine::worker_bytes() const noexcept {
    std::int64_t values = 0;
    if (!state_->scratch.empty()) {
        const auto& s = *state_->scratch.front();
        for (const auto* arena : {&s.a, &s.b, &s.inner, &s.scores, &s.chains, &s.factor, &s.chain})
            values += arena->size();
    }
    return values * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace lightmill::vision

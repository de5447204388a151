#pragma once
// A vision tower: its packed weights, and the engine that puts tiles through it on a pool of threads.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/base/pool.hpp"
#include "lightmill/vision/tower/reference.hpp"
#include "lightmill/vision/weights/config.hpp"

namespace lightmill::vision {

// Targets that this machine can run, best first; "reference" is last and always there. All give the same
// bits.
[[nodiscard]] std::vector<std::string> tower_targets();

// Floating-point operations a tile cannot do without: two for each multiply-add of its products.
[[nodiscard]] double flops_a_tile(const TowerConfig& config) noexcept;

// The weights of a tower, packed once for one target, and shared by everything that uses them. Immutable.
class Tower {
  public:
    // target: "auto" or one of tower_targets(). `threads` read and pack. Throws FormatError, OptionError.
    Tower(const TowerConfig& config, const TensorSource& source, const std::string& target = "auto",
          int threads = 1);
    Tower(Tower&&) noexcept;
    Tower& operator=(Tower&&) noexcept;
    ~Tower();

    [[nodiscard]] const TowerConfig& config() const noexcept;
    [[nodiscard]] std::string_view target() const noexcept;
    [[nodiscard]] std::int64_t packed_bytes() const noexcept;
    // Names the weights and the configuration: SHA-256 over them, independent of the file's type and of the
    // target.
    [[nodiscard]] const std::string& digest() const noexcept;

  private:
    friend class Engine;
    struct Weights;
    std::unique_ptr<const Weights> weights_;
};

// How the work is shared. The answer does not depend on it.
struct EngineOptions {
    std::int64_t block_rows = 96;      // patches of a tile that one task takes through one layer
    std::int64_t attention_rows = 48;  // of these, whose scores are held at a time
    std::int64_t tiles_in_flight = 0;  // 0: enough for the workers, at most one more than them
    bool layer_by_layer = false;       // all tiles in flight through one layer before the next: one batch
};

// Tiles go through all layers; a task is a block of rows in one layer. The pool and the tower must outlive
// it.
class Engine {
  public:
    Engine(const Tower& tower, const Normalisation& normalisation, Pool& pool,
           const EngineOptions& options = {});
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine();  // waits until every tile is done

    // Called by a worker when `out` is complete, or with why it is not.
    using Done = std::function<void(std::exception_ptr)>;
    // Pixels and out (output_rows × output values) must stay until `done` was called. Tiles are begun in the
    // order in which they came. May be called by any thread.
    void submit(TilePixels tile, float* out, Done done);

    // Puts tiles (n, rows, columns, 3) through and returns when all are done: out is (n, output_rows,
    // output).
    void run(View<const std::uint8_t, 4> tiles, float* out);

    // Called at the end of each stage with the names of ReferenceTower, for comparisons. Set before any tile.
    void observe(ReferenceTower<float>::Observer observer);

    // Memory held beside the tower's: by a tile in flight, by a worker.
    [[nodiscard]] std::int64_t tile_bytes() const noexcept;
    [[nodiscard]] std::int64_t worker_bytes() const noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lightmill::vision

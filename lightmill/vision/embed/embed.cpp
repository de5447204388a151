#include "lightmill/vision/embed/embed.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/error.hpp"

namespace lightmill::vision {
namespace {

// An image on its way.
struct Work {
    std::size_t number = 0;
    Tiles tiles;
    Buffer<float> values;
    ImageResult result;
    std::atomic<std::int64_t> left{0};
    std::exception_ptr error;  // not of the image: of the tower
};

// What the calling thread waits for.
struct Board {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t decoding = 0, tiles = 0;  // images being decoded, tiles that wait or are under way
    std::map<std::size_t, std::unique_ptr<Work>> done;
};

}  // namespace

std::size_t embed(const Model& model, const DecodeOptions& decoding, const std::vector<std::string>& paths,
                  std::size_t first, int workers, const EmbedHooks& hooks) {
    const auto& config = model.tower.config();
    const auto tile_values = config.output_rows() * config.output;
    Board board;
    std::size_t next = first, reported = first;
    bool stopped = false;
    std::exception_ptr failure;
    Pool pool(workers);
    Engine engine(model.tower, normalisation(model.processor), pool);

    const auto finish = [&](std::unique_ptr<Work> work) {
        const std::lock_guard lock(board.mutex);
        work->tiles = {};
        board.done.emplace(work->number, std::move(work));
        board.changed.notify_all();
    };
    // On a worker: decodes, cuts and hands the tiles to the tower.
    const auto prepare = [&](std::size_t number) {
        auto work = std::make_unique<Work>();
        work->number = number;
        try {
            work->tiles = preprocess(decode_file(paths[number], decoding).view(), model.processor);
            work->result.tiles = work->tiles.view().extent(0);
            work->values = Buffer<float>(static_cast<std::size_t>(work->result.tiles * tile_values));
        } catch (const Error& error) {
            work->result = {0, error.what()};
        } catch (...) {
            work->error = std::current_exception();
        }
        const auto tiles = work->error ? 0 : work->result.tiles;
        {
            const std::lock_guard lock(board.mutex);
            --board.decoding;
            board.tiles += tiles;
            board.changed.notify_all();
        }
        if (tiles == 0) return finish(std::move(work));
        work->left = tiles;
        Work* const shared = work.release();  // owned by its last tile
        for (std::int64_t i = 0; i < tiles; ++i) {
            engine.submit(shared->tiles.view()[i], shared->values.data() + i * tile_values,
                          [&, shared](std::exception_ptr error) {
                              {
                                  const std::lock_guard lock(board.mutex);
                                  --board.tiles;
                                  if (error && !shared->error) shared->error = error;
                                  board.changed.notify_all();
                              }
                              if (shared->left.fetch_sub(1) == 1) finish(std::unique_ptr<Work>(shared));
                          });
        }
    };

    std::unique_lock lock(board.mutex);
    for (;;) {
        if (hooks.stop.stop_requested() || failure) stopped = true;
        // Ahead by what keeps every worker busy, and one image at a time: each is some tens of megabytes.
        while (!stopped && next < paths.size() && board.decoding == 0 && board.tiles < 2 * (workers + 1)) {
            ++board.decoding;
            // Before any tile: the tower must not run dry.
            pool.post(0, [&prepare, number = next](int) { prepare(number); });
            ++next;
        }
        while (!board.done.empty() && board.done.begin()->first == reported) {
            const auto work = std::move(board.done.begin()->second);
            board.done.erase(board.done.begin());
            lock.unlock();
            if (!failure) {
                try {
                    if (work->error) std::rethrow_exception(work->error);
                    if (hooks.result) hooks.result(work->number, work->result, work->values.span());
                    if (hooks.progress) hooks.progress({work->number + 1, paths.size()});
                } catch (...) {
                    failure = std::current_exception();
                }
            }
            lock.lock();
            ++reported;
        }
        if (reported == next && (stopped || next == paths.size())) break;
        if (!board.done.empty() && board.done.begin()->first == reported) continue;
        // A stop request does not notify: look at it a few times a second.
        board.changed.wait_for(lock, std::chrono::milliseconds(200));
    }
    lock.unlock();
    if (failure) std::rethrow_exception(failure);
    return reported;
}

EmbeddingIdentity identity_of(const Model& model, const DecodeOptions& decoding) {
    const auto& config = model.tower.config();
    return {model.name, model.tower.digest(),
            fmt::format("{} alpha={} exif={}", processor_text(model.processor), option_text(decoding.alpha),
                        option_text(decoding.exif)),
            config.output_rows(), config.output};
}

}  // namespace lightmill::vision

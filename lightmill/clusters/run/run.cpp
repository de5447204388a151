#include "lightmill/clusters/run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "lightmill/base/build_info.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/run/blocks_internal.hpp"
#include "lightmill/clusters/run/channel_internal.hpp"
#include "lightmill/clusters/sink/clust.hpp"
#include "lightmill/clusters/sink/result_writer.hpp"
#include "lightmill/frames/frame_numbers.hpp"

namespace lightmill::clusters {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

bool ends_with(std::string_view text, std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

class Runner {
  public:
    Runner(frames::Source& source, const Pedestal& pedestal, const RunOptions& options, const RunHooks& hooks)
        : source_(source),
          pedestal_(pedestal),
          options_(options),
          hooks_(hooks),
          spectrum_(options.spectrum),
          hit_map_(pedestal.shape) {}

    Summary operator()() {
        require_fit();
        open_output();
        make_finder();
        total_ = source_.description().count;
        block_ = detail::block_frames(pedestal_.shape, options_.find);
        {
            const std::jthread reader([this] { guard(&Runner::read_all); });
            const std::jthread sink([this] { guard(&Runner::reduce_all); });
            guard(&Runner::find_all);
            results_.close();
            free_.cut();  // the reader stops where the finder did
            blocks_.cut();
        }
        end();
        return summary();
    }

  private:
    struct FullBlock {
        frames::Block block;
        frames::Storage* storage = nullptr;
    };
    struct Result {
        Batch batch;
        std::optional<FinderState> checkpoint;  // after this batch
    };

    void require_fit() const {
        check(options_.find);
        check_options(options_.speed);
        check(options_.spectrum);
        check_options(options_.output);
        const auto& description = source_.description();
        if (description.shape != pedestal_.shape) {
            throw OptionError(
                "pedestal", fmt::format("{}x{} pixels", pedestal_.shape.rows, pedestal_.shape.columns),
                fmt::format("{}x{} (rows x columns), the shape of the frames of {}", description.shape.rows,
                            description.shape.columns, description.name));
        }
        if (description.count == 0) {
            throw FormatError(description.name, -1, "found no frames, expected at least one");
        }
        if (options_.output.resume && (options_.output.output.empty() || is_clust())) {
            throw OptionError("resume",
                              options_.output.output.empty() ? "without an output" : "with a .clust file",
                              "a result file (.h5), which keeps what a run needs to go on");
        }
    }

    [[nodiscard]] bool is_clust() const { return ends_with(options_.output.output, ".clust"); }

    void open_output() {
        const auto& out = options_.output;
        if (out.output.empty()) return;
        if (is_clust()) {
            clust_ = std::make_unique<ClustWriter>(out.output, out.overwrite);
            return;
        }
        ResultSetting setting{.find = options_.find,
                              .spectrum = options_.spectrum,
                              .pedestal = pedestal_,
                              .source = source_.description(),
                              .first_frame = {},
                              .provenance = options_.provenance};
        frames::Storage storage;
        Xxh3 hash;
        hash.update(source_.read(0, 1, storage).pixels.flat());
        setting.first_frame = hash.digest();
        if (!out.resume || !ResultWriter::can_resume(out.output)) {
            writer_ =
                std::make_unique<ResultWriter>(ResultWriter::create(out.output, setting, out.overwrite));
            return;
        }
        require_writable(out.output, out.overwrite);
        writer_ = std::make_unique<ResultWriter>(ResultWriter::resume(out.output, setting));
        const auto& position = writer_->position();
        spectrum_ = position.spectrum;
        hit_map_ = position.hit_map;
        std::vector<frames::FrameInfo> infos;
        writer_->replay(position.finder.frames, [&](const ClustersView& view) {
            digest_.add(view);
            infos.clear();
            for (const auto number : view.numbers) infos.push_back({.number = number});
            source_.recall(view.first_index, infos);
        });
        if (position.finder.frames > 0 && digest_.hex() != position.digest) {
            throw FormatError(
                partial_path(out.output), -1,
                fmt::format("the digest of its first {} frames is not the one of its checkpoint; it is "
                            "damaged: begin again with --overwrite",
                            position.finder.frames));
        }
        frames_ = resumed_ = position.finder.frames;
        clusters_ = position.clusters;
    }

    void make_finder() {
        const auto& description = source_.description();
        auto speed = options_.speed;
        speed.hashes = true;
        if (resumed_ > 0) {
            finder_ = std::make_unique<Finder>(pedestal_, options_.find, speed, writer_->position().finder,
                                               description.module_rows, description.module_columns);
        } else {
            finder_ = std::make_unique<Finder>(pedestal_, options_.find, speed, description.module_rows,
                                               description.module_columns);
        }
        for (std::int64_t i = 0; i < speed.batches; ++i) tokens_.push(0);
        for (auto& storage : storages_) free_.push(&storage);
    }

    // Runs a stage. Its error, if it is the first, becomes the run's, and stops the stages after it
    // (what comes before them in the queues is still dealt with) and before it.
    void guard(void (Runner::*stage)()) {
        try {
            (this->*stage)();
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!error_) error_ = std::current_exception();
            if (stage == &Runner::reduce_all) {
                results_.cut();
                tokens_.cut();
            }
            if (stage == &Runner::read_all) blocks_.close();
        }
    }

    void read_all() {
        for (auto first = resumed_; first < total_;) {
            const auto storage = free_.pop();
            if (!storage) return;
            const auto count = detail::next_count(first, total_, block_, options_.find);
            const auto start = Clock::now();
            const auto block = source_.read(first, count, **storage);
            read_seconds_ += seconds_since(start);
            if (!blocks_.push({block, *storage})) return;
            first += count;
        }
        blocks_.close();
    }

    void find_all() {
        auto last_checkpoint = Clock::now();
        auto last_progress = Clock::now() - std::chrono::seconds(1);
        while (finder_->frames() < total_) {
            if (hooks_.stop.stop_requested() && may_stop()) {
                interrupted_ = true;
                break;
            }
            auto full = blocks_.pop();
            if (!full) return;  // the reader failed, and everything before that was found
            if (!tokens_.pop()) return;
            const auto start = Clock::now();
            Result result;
            try {
                result.batch = finder_->find(full->block);
            } catch (...) {
                finder_failed_ = true;
                throw;
            }
            find_seconds_ += seconds_since(start);
            free_.push(full->storage);
            if (writer_ && finder_->between_epochs() && finder_->frames() < total_ &&
                seconds_since(last_checkpoint) >= options_.output.checkpoint_seconds) {
                result.checkpoint = finder_->state();
                last_checkpoint = Clock::now();
            }
            if (!results_.push(std::move(result))) return;
            const bool last = finder_->frames() == total_;
            if (hooks_.progress && (last || seconds_since(last_progress) > 0.2)) {
                hooks_.progress({.done = finder_->frames(), .total = total_});
                last_progress = Clock::now();
            }
        }
        if (finder_->frames() == total_) finder_->finish();
    }

    // Between epochs, or where the epoch's end is far: then the result goes back to its last checkpoint.
    [[nodiscard]] bool may_stop() const {
        if (!writer_ || finder_->between_epochs()) return true;
        constexpr double k_patience_seconds = 2;
        const auto epoch = detail::epoch_frames(options_.find);
        const auto done = finder_->frames() - resumed_;
        const auto left = epoch - finder_->frames() % epoch;
        return static_cast<double>(left) * find_seconds_ > k_patience_seconds * static_cast<double>(done);
    }

    void reduce_all() {
        while (auto result = results_.pop()) {
            const auto start = Clock::now();
            const auto& view = result->batch.view();
            if (clust_) clust_->add(view);
            if (writer_) writer_->add(view);
            digest_.add(view);
            spectrum_.add(view);
            hit_map_.add(view);
            if (hooks_.clusters) hooks_.clusters(view);
            frames_ += view.frames();
            clusters_ += view.clusters();
            result->batch.release();
            tokens_.push(0);
            if (result->checkpoint) writer_->checkpoint(position(std::move(*result->checkpoint)));
            write_seconds_ += seconds_since(start);
        }
    }

    [[nodiscard]] ResultPosition position(FinderState state) const {
        return {.finder = std::move(state),
                .clusters = clusters_,
                .spectrum = spectrum_,
                .hit_map = hit_map_,
                .digest = digest_.hex(),
                .model_digest = {},
                .backend = std::string(finder_->backend()),
                .anomalies = {}};
    }

    // All stages have ended. Ends the output, and throws what one of them threw.
    void end() {
        const bool whole = !error_ && frames_ == total_;
        const auto start = Clock::now();
        if (writer_) {
            // The state is that of the result's last frame only where the sink took all that was found.
            const bool at_end = !finder_failed_ && finder_->frames() == frames_ && finder_->between_epochs();
            auto last = at_end ? position(finder_->state()) : writer_->position();
            last.model_digest = last.finder.frames > 0 ? model_digest(last.finder) : std::string();
            last.backend = finder_->backend();
            last.anomalies = source_.anomalies();
            if (whole) {
                writer_->publish(last);
            } else {
                try {
                    writer_->interrupt(last);
                } catch (...) {
                    // What ended the run says more than what followed from it.
                    if (!error_) throw;
                }
                // What was found behind it is not in the result.
                frames_ = last.finder.frames;
                clusters_ = last.clusters;
                spectrum_ = last.spectrum;
                hit_map_ = last.hit_map;
            }
            end_ = std::move(last);
        }
        if (clust_ && whole) clust_->publish();
        write_seconds_ += seconds_since(start);
        if (error_) std::rethrow_exception(error_);
    }

    [[nodiscard]] Summary summary() {
        Summary s;
        s.frames = frames_;
        s.clusters = clusters_;
        s.resumed_frames = resumed_;
        s.interrupted = interrupted_;
        s.digest = end_ ? end_->digest : digest_.hex();
        s.model_digest = end_ ? end_->model_digest : finder_->model_digest();
        if (!options_.output.output.empty()) {
            s.output = interrupted_ ? partial_path(options_.output.output) : options_.output.output;
        }
        s.wall_seconds = seconds_since(start_);
        s.frames_per_second = static_cast<double>(frames_ - std::min(frames_, resumed_)) / s.wall_seconds;
        s.read_seconds = read_seconds_;
        s.find_seconds = find_seconds_;
        s.write_seconds = write_seconds_;
        s.absent = end_ ? end_->finder.absent : finder_->absent();
        s.masked_pixels = pedestal_.pixels_in(PixelState::masked);
        s.unseen_pixels = pedestal_.pixels_in(PixelState::unseen);
        s.low_noise_pixels = pedestal_.pixels_in(PixelState::low_noise);
        s.anomalies = end_ ? end_->anomalies : source_.anomalies();
        s.hot_pixels =
            hot_pixels(pedestal_.shape, frames_, hit_map_.counts(),
                       end_ ? std::span<const std::uint32_t>(end_->finder.negatives) : finder_->negatives());
        s.backend = finder_->backend();
        s.threads = finder_->threads();
        s.version = version();
        s.options = options_;
        s.spectrum = std::move(spectrum_);
        s.hit_map = std::move(hit_map_);
        return s;
    }

    frames::Source& source_;
    const Pedestal& pedestal_;
    const RunOptions& options_;
    const RunHooks& hooks_;
    const Clock::time_point start_ = Clock::now();

    std::unique_ptr<ResultWriter> writer_;
    std::unique_ptr<ClustWriter> clust_;
    std::unique_ptr<Finder> finder_;
    std::uint64_t total_ = 0;
    std::uint64_t block_ = 1;
    std::uint64_t resumed_ = 0;

    std::array<frames::Storage, 3> storages_;
    detail::Channel<frames::Storage*> free_{3};
    detail::Channel<FullBlock> blocks_{3};
    detail::Channel<int> tokens_{1024};  // one for each batch that may be held
    detail::Channel<Result> results_{1024};

    // Of the sink's thread, then of run()'s own.
    Spectrum spectrum_;
    HitMap hit_map_;
    ResultDigest digest_;
    std::uint64_t frames_ = 0, clusters_ = 0;
    double write_seconds_ = 0;

    double read_seconds_ = 0;
    double find_seconds_ = 0;
    bool interrupted_ = false;
    bool finder_failed_ = false;
    std::optional<ResultPosition> end_;

    std::mutex mutex_;
    std::exception_ptr error_;
};

}  // namespace

Summary run(frames::Source& source, const Pedestal& pedestal, const RunOptions& options,
            const RunHooks& hooks) {
    return Runner(source, pedestal, options, hooks)();
}

}  // namespace lightmill::clusters

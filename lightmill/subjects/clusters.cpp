// The cluster finder on a ladder. Input: dark frames, then data frames, uint16 little endian, as a file that
// all rungs map. Repetitions share the finder, as a detector's frames do: its background goes on learning,
// and repetition k is compared with the k-th pass of the scalar reference.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "lightmill/base/error.hpp"
#include "lightmill/clusters/find/find.hpp"
#include "lightmill/clusters/find/stream_finder.hpp"
#include "lightmill/clusters/reduce/device_reductions.hpp"
#include "lightmill/cuda/device.hpp"
#include "lightmill/frames/simulated.hpp"
#include "lightmill/subjects/subjects.hpp"

namespace lightmill::subjects {
namespace {

using ladder::Fact;

struct Work {
    std::string window = "3x3";
    std::int64_t frames = 500;
    std::int64_t dark = 1000;
    std::string judge = "reference";
    frames::SimulationOptions simulation;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Work>
void visit_options(O& options, Visitor&& visit) {
    visit(OptionInfo{.name = "window", .help = "WIDTHxHEIGHT of a cluster", .unit = "pixels"},
          options.window);
    visit(OptionInfo{.name = "frames",
                     .help = "data frames a repetition",
                     .unit = "frames",
                     .minimum = 1,
                     .maximum = 1e6},
          options.frames);
    visit(OptionInfo{.name = "dark",
                     .help = "dark frames to train on",
                     .unit = "frames",
                     .minimum = 2,
                     .maximum = 1e6},
          options.dark);
    visit(OptionInfo{.name = "judge",
                     .help =
                         "backend whose answers are the right ones: reference, or simd, which the tests have "
                         "proven equal, where the scalar code would take too long"},
          options.judge);
    visit_options(options.simulation, visit);
}

// What becomes of a batch that was found.
enum class Collection { copy, view, per_frame };
constexpr std::array<std::string_view, 3> k_collections{"copy", "view", "per_frame"};
std::span<const std::string_view> names(Collection) {
    return k_collections;
}

// The finder, or the steps of a campaign before it (stream_finder.hpp).
enum class Engine { finder, streams };
constexpr std::array<std::string_view, 2> k_engines{"finder", "streams"};
std::span<const std::string_view> names(Engine) {
    return k_engines;
}

struct Options {
    Engine engine = Engine::finder;
    clusters::StreamOptions stream;
    std::string chunk = "off";
    clusters::FindOptions find;
    clusters::SpeedOptions speed;
    bool retain = false;
    std::int64_t batch = 50;
    std::int64_t depth = 1;
    Collection collection = Collection::view;
    std::int64_t readers = 0;
    bool reductions = false;
    bool pinned = false;
    std::int64_t room = 0;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Options>
void visit_options(O& options, Visitor&& visit) {
    visit(OptionInfo{.name = "engine",
                     .help = "finder, or streams: frames dealt out to CUDA streams, results of fixed size"},
          options.engine);
    visit_options(options.stream, visit);
    visit(
        OptionInfo{
            .name = "chunk",
            .help = "frames that are submitted while the ones before are collected: off, auto, or a number "
                    "(engine streams)",
            .unit = "frames"},
        options.chunk);
    visit_options(options.find, visit);
    visit_options(options.speed, visit);
    visit(OptionInfo{.name = "retain", .help = "keep every cluster instead of counting and dropping"},
          options.retain);
    visit(
        OptionInfo{.name = "batch", .help = "frames a call", .unit = "frames", .minimum = 1, .maximum = 1e6},
        options.batch);
    visit(OptionInfo{.name = "depth",
                     .help = "batches that are submitted before the oldest is collected",
                     .minimum = 1,
                     .maximum = 64},
          options.depth);
    visit(OptionInfo{.name = "collection",
                     .help = "how results leave the finder: copied, as views, or one call a frame"},
          options.collection);
    visit(OptionInfo{.name = "readers",
                     .help = "threads beside the finder that add up every residual of every cluster",
                     .minimum = 0,
                     .maximum = 256},
          options.readers);
    visit(
        OptionInfo{
            .name = "reductions",
            .help = "make a spectrum and a hit map; with clusters = false on the GPU, where nothing else is "
                    "made (cuda)"},
        options.reductions);
    visit(OptionInfo{.name = "pinned", .help = "input in page-locked memory (cuda)"}, options.pinned);
    visit(
        OptionInfo{
            .name = "room",
            .help = "clusters a frame that results have room for before they must grow; 0: one in 48 pixels "
                    "(cuda)",
            .minimum = 0,
            .maximum = 1e7},
        options.room);
}

Work parse_work(const ladder::Settings& settings) {
    Work work;
    ladder::apply(work, settings);
    (void)clusters::parse_window(work.window);
    if (work.judge != "reference" && work.judge != "simd")
        throw OptionError("judge", work.judge, "reference or simd");
    return work;
}

// Frames a call of engine streams.
std::int64_t chunk_of(const Options& options) {
    if (options.collection == Collection::per_frame) return 1;
    if (options.chunk == "off") return options.batch;
    if (options.chunk == "auto")
        return std::min(options.batch, clusters::auto_chunk(options.batch, options.find.streams,
                                                            options.stream.cap, options.find.window));
    std::int64_t frames = 0;
    const char* end = options.chunk.data() + options.chunk.size();
    const auto [next, error] = std::from_chars(options.chunk.data(), end, frames);
    if (error != std::errc() || next != end || frames < 1)
        throw OptionError("chunk", options.chunk, "off, auto, or a number of frames");
    return frames;
}

Options parse(const ladder::Settings& work_settings, const ladder::Settings& settings) {
    const Work work = parse_work(work_settings);
    Options options;
    ladder::apply(options, settings);
    options.find.window = clusters::parse_window(work.window);
    clusters::check(options.find);
    if (work.frames % options.find.epoch != 0)
        throw OptionError("epoch", fmt::format("{}", options.find.epoch),
                          fmt::format("a divisor of the {} frames of a repetition", work.frames));
    if (options.find.rule == clusters::Rule::raster && options.find.memory != work.dark)
        throw OptionError(
            "memory", fmt::format("{} with rule raster and {} dark frames", options.find.memory, work.dark),
            "as many as there are dark frames");
    if (options.engine == Engine::streams) {
        if (!options.speed.backend.starts_with("cuda"))
            throw OptionError("engine", "streams with backend " + options.speed.backend, "backend cuda");
        (void)chunk_of(options);
        return options;
    }
    const Options plain;
    if (options.stream != plain.stream || options.chunk != plain.chunk)
        throw OptionError("engine", "finder", "streams, for cap, truncate, barrier, graphs and chunk");
    if (options.reductions != !options.speed.clusters && options.speed.backend.starts_with("cuda"))
        throw OptionError("reductions", options.reductions ? "true with clusters" : "false without clusters",
                          "true with clusters = false, or neither");
    // Views without hashes are held until they are checked, outside the clock.
    const auto batches = (work.frames + options.batch - 1) / options.batch;
    if (!options.retain && !options.speed.hashes && !options.reductions && options.speed.batches < batches)
        throw OptionError(
            "batches", fmt::format("{} without hashes", options.speed.batches),
            fmt::format("at least {}, one a call: only what is held can be checked afterwards", batches));
    if (!options.retain && !options.speed.hashes && options.collection != Collection::view)
        throw OptionError("collection", "copy or per_frame without hashes", "view");
    if (options.readers > 0 && (options.speed.hashes || options.collection != Collection::view))
        throw OptionError("readers", fmt::format("{}", options.readers),
                          "0, or views without hashes: what is read must stay until the end");
    if (!options.speed.backend.starts_with("cuda") && options.pinned)
        throw OptionError("pinned", "true with backend " + options.speed.backend,
                          "false: only backend cuda has a use for it");
    return options;
}

// work(0 … count − 1) on all cores.
void share_out(std::size_t count, const std::function<void(std::size_t)>& work) {
    if (count == 0) return;
    Team team(std::min(available_threads(), static_cast<int>(count)));
    team.for_each(count, work);
}

std::int64_t sum_of(const clusters::ClustersView& view) {
    std::int64_t sum = 0;
    for (const auto value : view.residuals) sum += value;
    for (const auto value : view.residuals16) sum += value;
    return sum;
}

// Threads that add up the residuals of batches while the finder goes on, a batch each at a time. The memory
// of a view stays until wait() has returned.
class Readers {
  public:
    explicit Readers(std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i)
            threads_.emplace_back([this](const std::stop_token& stop) { serve(stop); });
    }
    void add(const clusters::ClustersView& view) {
        const std::lock_guard lock(mutex_);
        views_.push_back(view);
        ++unread_;
        changed_.notify_one();
    }
    // The sum since the last call.
    std::int64_t wait() {
        std::unique_lock lock(mutex_);
        read_.wait(lock, [this] { return unread_ == 0; });
        return std::exchange(sum_, 0);
    }

  private:
    void serve(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [this] { return !views_.empty(); })) {
            const auto view = views_.front();
            views_.pop_front();
            lock.unlock();
            const auto sum = sum_of(view);
            lock.lock();
            sum_ += sum;
            if (--unread_ == 0) read_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::condition_variable read_;
    std::deque<clusters::ClustersView> views_;
    std::size_t unread_ = 0;
    std::int64_t sum_ = 0;
    std::vector<std::jthread> threads_;
};

std::int64_t pixels_of(const Work& work) {
    return work.simulation.rows * work.simulation.columns;
}
frames::Shape shape_of(const Work& work) {
    return {work.simulation.rows, work.simulation.columns};
}
clusters::Pedestal trained(const Work& work, std::span<const std::byte> input) {
    const auto expected =
        static_cast<std::size_t>((work.dark + work.frames) * pixels_of(work)) * sizeof(frames::Pixel);
    if (input.size() != expected)
        throw Error(ErrorCode::state,
                    fmt::format("the input has {} bytes, expected {}", input.size(), expected));
    const auto shape = shape_of(work);
    clusters::Training training(shape, {});
    training.add(
        {reinterpret_cast<const frames::Pixel*>(input.data()), {work.dark, shape.rows, shape.columns}});
    return training.finish({}, {});
}
const frames::Pixel* data_of(const Work& work, std::span<const std::byte> input) {
    return reinterpret_cast<const frames::Pixel*>(input.data()) + work.dark * pixels_of(work);
}
// A frame's number is its place in the repetition.
std::vector<frames::FrameInfo> numbered(const Work& work) {
    std::vector<frames::FrameInfo> infos(static_cast<std::size_t>(work.frames));
    for (std::size_t i = 0; i < infos.size(); ++i) infos[i].number = i;
    return infos;
}

// Submits the frames of a repetition, `step` a call, and takes the oldest batch once `depth` are on their
// way, until all are taken.
template <class AnyFinder, class Take>
void play(AnyFinder& finder, const Work& work, const frames::Pixel* data,
          const std::vector<frames::FrameInfo>& infos, std::int64_t step, std::int64_t depth, Take&& take) {
    for (std::int64_t first = 0; first < work.frames; first += step) {
        const std::int64_t count = std::min(step, work.frames - first);
        if (static_cast<std::int64_t>(finder.pending()) == depth) take();
        finder.submit(
            {{infos.data() + first, static_cast<std::size_t>(count)},
             {data + first * pixels_of(work), {count, work.simulation.rows, work.simulation.columns}}});
    }
    while (finder.pending() > 0) take();
}

class Finding final : public ladder::Subject {
  public:
    Finding(const Work& work, const Options& options, std::span<const std::byte> input)
        : work_(work),
          options_(options),
          finder_(trained(work, input), options.find, options.speed),
          data_(data_of(work, input)),
          infos_(numbered(work)) {
        if (!options_.speed.clusters)
            on_device_ = std::make_unique<clusters::DeviceReductions>(
                finder_, shape_of(work),
                clusters::ReductionOptions{.spectrum = clusters::SpectrumOptions{}, .hit_map = true});
        if (options_.readers > 0) readers_ = std::make_unique<Readers>(options_.readers);
    }
    std::string state_digest() const override { return finder_.model_digest(); }
    void poison() override {
        kept_ = {};
        held_.clear();
        counts_.assign(infos_.size(), ~std::uint64_t{0});
        hashes_.assign(infos_.size(), {});
    }
    void reserve() override {
        if (options_.pinned) finder_.pin({data_, static_cast<std::size_t>(work_.frames * pixels_of(work_))});
        finder_.reserve(step(), options_.room);
    }
    ladder::Outcome run() override {
        total_ = 0;
        play(finder_, work_, data_, infos_, step(), options_.depth, [this] { take(); });
        if (readers_) read_sum_ = readers_->wait();
        return {static_cast<double>(work_.frames), total_};
    }
    ladder::Answer output() override {
        std::int64_t sum = 0;
        if (readers_)
            for (const auto& batch : held_) sum += sum_of(batch.view());
        // Outside the clock, on all cores: what was found may be gigabytes.
        share_out(held_.size(), [&](std::size_t b) {
            const auto& view = held_[b].view();
            for (std::size_t i = 0; i < view.frames(); ++i) {
                hashes_[static_cast<std::size_t>(view.numbers[i])] = hash_frame(view, i);
            }
        });
        if (readers_ && sum != read_sum_)
            throw Error(ErrorCode::state, fmt::format("the readers' sum is {}, expected {}", read_sum_, sum));
        ladder::Answer answer{
            ladder::array_of<std::uint64_t>("counts", std::span<const std::uint64_t>(counts_))};
        if (options_.reductions) {
            if (on_device_) {
                spectrum_ = on_device_->spectrum();
                hit_map_ = on_device_->hit_map();
            }
            answer.push_back(ladder::array_of<std::uint64_t>("spectrum", spectrum_.all()));
            answer.push_back(ladder::array_of<std::uint32_t>("hits", std::as_const(hit_map_).counts()));
            return answer;
        }
        if (!options_.retain) {
            answer.push_back(
                ladder::array_of<std::byte>("hashes", {hashes_.data()->data(), 16 * hashes_.size()}));
            return answer;
        }
        rows_.clear();
        columns_.clear();
        residuals_.clear();
        for (const auto& batch : kept_) {
            rows_.insert(rows_.end(), batch.rows.begin(), batch.rows.end());
            columns_.insert(columns_.end(), batch.columns.begin(), batch.columns.end());
            residuals_.insert(residuals_.end(), batch.residuals.begin(), batch.residuals.end());
            residuals_.insert(residuals_.end(), batch.residuals16.begin(), batch.residuals16.end());
        }
        answer.push_back(ladder::array_of<std::uint32_t>("rows", std::span<const std::uint32_t>(rows_)));
        answer.push_back(
            ladder::array_of<std::uint32_t>("columns", std::span<const std::uint32_t>(columns_)));
        answer.push_back(
            ladder::array_of<std::int32_t>("residuals", std::span<const std::int32_t>(residuals_)));
        return answer;
    }

  private:
    [[nodiscard]] std::int64_t step() const {
        return options_.collection == Collection::per_frame ? 1 : options_.batch;
    }
    // Collects the oldest batch and does with it what the options say.
    void take() {
        auto batch = finder_.collect();
        total_ += batch.view().offsets.back();
        if (options_.reductions && !on_device_) {
            spectrum_.add(batch.view());
            hit_map_.add(batch.view());
        }
        if (options_.retain || options_.collection == Collection::copy) {
            auto owned = batch.to_owned();
            note(owned.view());
            if (options_.retain) kept_.push_back(std::move(owned));
            return;
        }
        note(batch.view());
        if (readers_) readers_->add(batch.view());
        if (!options_.speed.hashes && !options_.reductions) held_.push_back(std::move(batch));
    }
    void note(const clusters::ClustersView& view) {
        for (std::size_t i = 0; i < view.frames(); ++i) {
            const auto frame = static_cast<std::size_t>(view.numbers[i]);
            counts_[frame] = view.count(i);
            if (!view.hashes.empty()) hashes_[frame] = view.hashes[i];
        }
    }

    Work work_;
    Options options_;
    clusters::Finder finder_;
    const frames::Pixel* data_;
    std::vector<frames::FrameInfo> infos_;
    std::unique_ptr<Readers> readers_;                       // none: null
    std::unique_ptr<clusters::DeviceReductions> on_device_;  // none: null
    // Of all runs up to now, as the background's.
    clusters::Spectrum spectrum_{clusters::SpectrumOptions{}};
    clusters::HitMap hit_map_{shape_of(work_)};
    std::int64_t read_sum_ = 0;
    std::uint64_t total_ = 0;  // clusters of this run
    std::vector<clusters::Clusters> kept_;
    std::vector<clusters::Batch> held_;
    std::vector<std::uint64_t> counts_;
    std::vector<Hash128> hashes_;
    std::vector<std::uint32_t> rows_, columns_;
    std::vector<std::int32_t> residuals_;
};

// Engine streams. Results are counted, or copied a frame at a time as the campaign's first steps did.
class Streaming final : public ladder::Subject {
  public:
    Streaming(const Work& work, const Options& options, std::span<const std::byte> input)
        : work_(work),
          options_(options),
          finder_(trained(work, input), options.find, options.stream,
                  options.speed.backend == "cuda" ? options.speed.devices : "emulated"),
          data_(data_of(work, input)),
          infos_(numbered(work)) {}
    std::string state_digest() const override { return finder_.model_digest(); }
    void reserve() override {
        if (options_.pinned) finder_.pin({data_, static_cast<std::size_t>(work_.frames * pixels_of(work_))});
        // Views are held until they are checked, outside the clock; copies go back at once.
        const auto blocks = (work_.frames + chunk() - 1) / chunk();
        finder_.reserve(chunk(), static_cast<std::size_t>(views() ? blocks : std::min(blocks, depth())));
    }
    void poison() override {
        held_.clear();
        copies_.clear();
        counts_.assign(infos_.size(), ~std::uint64_t{0});
        hashes_.assign(infos_.size(), {});
    }
    ladder::Outcome run() override {
        total_ = 0;
        play(finder_, work_, data_, infos_, chunk(), depth(), [this] { take(); });
        return {static_cast<double>(work_.frames), total_};
    }
    ladder::Answer output() override {
        share_out(held_.size(), [&](std::size_t b) {
            for (std::size_t i = 0; i < held_[b].frames(); ++i) note(held_[b].view(i));
        });
        share_out(copies_.size(), [&](std::size_t i) { note(copies_[i].view()); });
        return {ladder::array_of<std::uint64_t>("counts", std::span<const std::uint64_t>(counts_)),
                ladder::array_of<std::byte>("hashes", {hashes_.data()->data(), 16 * hashes_.size()})};
    }
    std::vector<ladder::Detector> detectors() const override {
        return {{"at_cap", finder_.frames_at_cap() + finder_.frames_cut()}};
    }

  private:
    [[nodiscard]] std::int64_t chunk() const { return chunk_of(options_); }
    // With chunks the next one is submitted before the one before is collected.
    [[nodiscard]] std::int64_t depth() const { return options_.chunk == "off" ? 1 : 2; }
    [[nodiscard]] bool views() const { return options_.collection == Collection::view; }
    void take() {
        auto batch = finder_.collect();
        for (std::size_t i = 0; i < batch.frames(); ++i) {
            total_ += batch.count(i);
            if (views()) continue;
            copies_.emplace_back().append(batch.view(i));
        }
        if (views()) held_.push_back(std::move(batch));
    }
    void note(const clusters::ClustersView& frame) {
        const auto i = static_cast<std::size_t>(frame.numbers[0]);
        counts_[i] = frame.clusters();
        hashes_[i] = hash_frame(frame, 0);
    }

    Work work_;
    Options options_;
    clusters::StreamFinder finder_;
    const frames::Pixel* data_;
    std::vector<frames::FrameInfo> infos_;
    std::vector<clusters::StreamBatch> held_;
    std::vector<clusters::Clusters> copies_;
    std::uint64_t total_ = 0;
    std::vector<std::uint64_t> counts_;
    std::vector<Hash128> hashes_;
};

class Type final : public ladder::SubjectType {
  public:
    std::string_view name() const noexcept override { return "clusters"; }
    std::string_view help() const noexcept override { return "the cluster finder on simulated frames"; }
    std::vector<Fact> work(const ladder::Settings& settings) const override {
        return ladder::facts_of(parse_work(settings));
    }
    std::vector<Fact> configuration(const ladder::Settings& work,
                                    const ladder::Settings& settings) const override {
        return ladder::facts_of(parse(work, settings));
    }
    std::string unavailable(const ladder::Settings& work, const ladder::Settings& settings,
                            const ladder::Place&) const override {
        const std::string wanted = parse(work, settings).speed.backend;
        if (wanted == "cuda_emulated") return {};
        const auto backends = clusters::available_backends();
        if (wanted == "auto" || wanted == "simd" ||
            std::find(backends.begin(), backends.end(), wanted) != backends.end())
            return {};
        if (wanted == "cuda") {
            std::string why;
            (void)cuda::devices(why);
            return "no GPU: " + why;
        }
        return fmt::format("backend {} is not on this machine, which has {}", wanted,
                           fmt::join(backends, ", "));
    }
    std::optional<ladder::Settings> scalar(const ladder::Settings& work,
                                           const ladder::Settings& settings) const override {
        ladder::Settings plain;
        for (const auto* option :
             {"n_sigma", "epoch", "memory", "rule", "streams", "ties", "payload", "retain", "reductions"})
            if (const auto* setting = ladder::find(settings, option))
                plain.push_back({option, setting->value, 0});
        const auto* rule = ladder::find(settings, "rule");
        const bool raster = rule != nullptr && ladder::value_text(rule->value) == "raster";
        const auto judge = raster ? std::string("reference") : parse_work(work).judge;
        plain.push_back({"backend", judge, 0});
        plain.push_back({"threads", std::int64_t{judge == "reference" ? 1 : 0}, 0});
        return plain;
    }
    std::string swept_option() const override { return "threads"; }
    std::vector<ladder::Load> loads(const ladder::Settings& work,
                                    const ladder::Settings& settings) const override {
        const Work w = parse_work(work);
        // Every pixel is read once, or crosses the link to the GPU once; the model stays in the caches.
        const bool cuda = parse(work, settings).speed.backend == "cuda";
        return {{cuda ? "host_to_device" : "memory_read",
                 static_cast<double>(sizeof(frames::Pixel)) *
                     static_cast<double>(w.frames * w.simulation.rows * w.simulation.columns)}};
    }
    std::int64_t input_bytes(const ladder::Settings& settings) const override {
        const Work w = parse_work(settings);
        return static_cast<std::int64_t>(sizeof(frames::Pixel)) * (w.dark + w.frames) * w.simulation.rows *
               w.simulation.columns;
    }
    void write_input(const ladder::Settings& settings, const std::string& path) const override {
        const Work work = parse_work(settings);
        const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        if (!file.is_open()) throw IoError(path, "open", errno, io_advice(errno));
        const frames::Simulation simulation(work.simulation);
        Team team(available_threads());
        frames::Storage storage;
        constexpr std::int64_t k_block = 50;
        for (const auto& [kind, total] :
             {std::pair{frames::FrameKind::dark, work.dark}, std::pair{frames::FrameKind::data, work.frames}})
            for (std::int64_t first = 0; first < total; first += k_block) {
                const auto block = simulation.block(
                    kind, static_cast<std::uint64_t>(first),
                    static_cast<std::uint64_t>(std::min(k_block, total - first)), team, storage);
                write_all(file, path, std::as_bytes(block.pixels.flat()));
            }
    }
    std::unique_ptr<ladder::Subject> build(const ladder::BuildInput& input) const override {
        const auto work = parse_work(input.work);
        const auto options = parse(input.work, input.configuration);
        if (options.engine == Engine::streams) return std::make_unique<Streaming>(work, options, input.input);
        return std::make_unique<Finding>(work, options, input.input);
    }
};

}  // namespace

const ladder::SubjectType& clusters() {
    static const Type type;
    return type;
}

}  // namespace lightmill::subjects

// The cluster finder on a ladder. Input: dark frames, then data frames, uint16 little endian, as a file that
// all rungs map. Repetitions share the finder, as a detector's frames do: its background goes on learning,
// and repetition k is compared with the k-th pass of the scalar reference.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lightmill/base/error.hpp"
#include "lightmill/clusters/find/find.hpp"
#include "lightmill/frames/simulated.hpp"
#include "lightmill/subjects/subjects.hpp"

namespace lightmill::subjects {
namespace {

using ladder::Fact;

struct Work {
    std::string window = "3x3";
    std::int64_t frames = 500;
    std::int64_t dark = 1000;
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
    visit_options(options.simulation, visit);
}

// What becomes of a batch that was found.
enum class Collection { copy, view, per_frame };
constexpr std::array<std::string_view, 3> k_collections{"copy", "view", "per_frame"};
std::span<const std::string_view> names(Collection) {
    return k_collections;
}
enum class DeviceState { float32, float64 };
constexpr std::array<std::string_view, 2> k_device_states{"float32", "float64"};
std::span<const std::string_view> names(DeviceState) {
    return k_device_states;
}

struct Options {
    clusters::FindOptions find;
    clusters::SpeedOptions speed;
    bool retain = false;
    std::int64_t batch = 50;
    Collection collection = Collection::view;
    // Of backend cuda alone.
    std::int64_t device_streams = 1;
    bool pinned = false;
    bool graphs = false;
    bool chunked = false;
    bool barrier = false;
    DeviceState device_state = DeviceState::float32;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Options>
void visit_options(O& options, Visitor&& visit) {
    visit_options(options.find, visit);
    visit_options(options.speed, visit);
    visit(OptionInfo{.name = "retain", .help = "keep every cluster instead of counting and dropping"},
          options.retain);
    visit(
        OptionInfo{.name = "batch", .help = "frames a call", .unit = "frames", .minimum = 1, .maximum = 1e6},
        options.batch);
    visit(OptionInfo{.name = "collection",
                     .help = "how results leave the finder: copied, as views, or one call a frame"},
          options.collection);
    visit(OptionInfo{.name = "device_streams", .help = "CUDA streams", .minimum = 1, .maximum = 256},
          options.device_streams);
    visit(OptionInfo{.name = "pinned", .help = "input in page-locked memory (CUDA)"}, options.pinned);
    visit(OptionInfo{.name = "graphs", .help = "launches as CUDA graphs"}, options.graphs);
    visit(OptionInfo{.name = "chunked", .help = "copies and kernels overlap chunk by chunk (CUDA)"},
          options.chunked);
    visit(OptionInfo{.name = "barrier", .help = "streams wait for each other after each round (CUDA)"},
          options.barrier);
    visit(OptionInfo{.name = "device_state", .help = "type of the background on the device (CUDA)"},
          options.device_state);
}

Work parse_work(const ladder::Settings& settings) {
    Work work;
    ladder::apply(work, settings);
    (void)clusters::parse_window(work.window);
    return work;
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
    if (!options.retain && !options.speed.hashes)
        throw OptionError("hashes", "false without retain",
                          "true: a rung that keeps nothing has only hashes to be gated by");
    const Options plain;
    if (options.speed.backend != "cuda" &&
        (options.device_streams != 1 || options.pinned || options.graphs || options.chunked ||
         options.barrier || options.device_state != plain.device_state))
        throw OptionError("backend", options.speed.backend,
                          "cuda, for device_streams, pinned, graphs, chunked, barrier and device_state");
    return options;
}

class Finding final : public ladder::Subject {
  public:
    Finding(const Work& work, const Options& options, std::span<const std::byte> input)
        : work_(work), options_(options), finder_(make(work, options, input)) {
        const auto pixels = static_cast<std::size_t>(work.simulation.rows * work.simulation.columns);
        data_ = reinterpret_cast<const frames::Pixel*>(input.data()) +
                static_cast<std::size_t>(work.dark) * pixels;
        infos_.resize(static_cast<std::size_t>(work.frames));
        for (std::size_t i = 0; i < infos_.size(); ++i) infos_[i].number = i;
    }
    std::string state_digest() const override { return finder_.model_digest(); }
    void poison() override {
        kept_ = {};
        counts_.assign(infos_.size(), ~std::uint64_t{0});
        hashes_.assign(infos_.size(), {});
    }
    ladder::Outcome run() override {
        const std::int64_t step = options_.collection == Collection::per_frame ? 1 : options_.batch;
        const std::int64_t rows = work_.simulation.rows, columns = work_.simulation.columns;
        std::uint64_t total = 0;
        for (std::int64_t first = 0; first < work_.frames; first += step) {
            const std::int64_t count = std::min(step, work_.frames - first);
            const frames::Block block{{infos_.data() + first, static_cast<std::size_t>(count)},
                                      {data_ + first * rows * columns, {count, rows, columns}}};
            const auto batch = finder_.find(block);
            total += batch.view().clusters();
            if (options_.retain || options_.collection == Collection::copy) {
                auto owned = batch.to_owned();
                note(first, owned.view());
                if (options_.retain) kept_.push_back(std::move(owned));
            } else {
                note(first, batch.view());
            }
        }
        return {static_cast<double>(work_.frames), total};
    }
    ladder::Answer output() override {
        ladder::Answer answer{
            ladder::array_of<std::uint64_t>("counts", std::span<const std::uint64_t>(counts_))};
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
    static clusters::Finder make(const Work& work, const Options& options, std::span<const std::byte> input) {
        const std::int64_t rows = work.simulation.rows, columns = work.simulation.columns;
        const auto expected =
            static_cast<std::size_t>((work.dark + work.frames) * rows * columns) * sizeof(frames::Pixel);
        if (input.size() != expected)
            throw Error(ErrorCode::state,
                        fmt::format("the input has {} bytes, expected {}", input.size(), expected));
        clusters::Training training({rows, columns}, {});
        training.add({reinterpret_cast<const frames::Pixel*>(input.data()), {work.dark, rows, columns}});
        return {training.finish({}, {}), options.find, options.speed};
    }
    void note(std::int64_t first, const clusters::ClustersView& view) {
        for (std::size_t i = 0; i < view.frames(); ++i) {
            counts_[static_cast<std::size_t>(first) + i] = view.count(i);
            if (!view.hashes.empty()) hashes_[static_cast<std::size_t>(first) + i] = view.hashes[i];
        }
    }

    Work work_;
    Options options_;
    clusters::Finder finder_;
    const frames::Pixel* data_ = nullptr;
    std::vector<frames::FrameInfo> infos_;
    std::vector<clusters::Clusters> kept_;
    std::vector<std::uint64_t> counts_;
    std::vector<Hash128> hashes_;
    std::vector<std::uint32_t> rows_, columns_;
    std::vector<std::int32_t> residuals_;
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
        const auto backends = clusters::available_backends();
        if (wanted == "auto" || wanted == "simd" ||
            std::find(backends.begin(), backends.end(), wanted) != backends.end())
            return {};
        if (wanted == "cuda") return "this build has no CUDA backend";
        return fmt::format("backend {} is not on this machine, which has {}", wanted,
                           fmt::join(backends, ", "));
    }
    std::optional<ladder::Settings> scalar(const ladder::Settings& settings) const override {
        ladder::Settings plain;
        for (const auto* option :
             {"n_sigma", "epoch", "memory", "rule", "streams", "ties", "payload", "retain"})
            if (const auto* setting = ladder::find(settings, option))
                plain.push_back({option, setting->value, 0});
        plain.push_back({"backend", std::string("reference"), 0});
        plain.push_back({"threads", std::int64_t{1}, 0});
        return plain;
    }
    std::string swept_option() const override { return "threads"; }
    std::vector<ladder::Load> loads(const ladder::Settings& work, const ladder::Settings&) const override {
        const Work w = parse_work(work);
        // Every pixel is read once; the model of binary32 pairs stays in the caches.
        return {
            {"memory_read", 2.0 * static_cast<double>(w.frames * w.simulation.rows * w.simulation.columns)}};
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
        return std::make_unique<Finding>(parse_work(input.work), parse(input.work, input.configuration),
                                         input.input);
    }
};

}  // namespace

const ladder::SubjectType& clusters() {
    static const Type type;
    return type;
}

}  // namespace lightmill::subjects

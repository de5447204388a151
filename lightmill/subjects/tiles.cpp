// The vision tower on a ladder: the tiles of one image, seeded weights. Input: the tiles' pixels (n, side,
// side, 3), then a safetensors file of the weights; peers read the same one.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/subjects/subjects.hpp"
#include "lightmill/vision/embed/model.hpp"
#include "lightmill/vision/image/processor.hpp"
#include "lightmill/vision/tower/tower.hpp"
#include "lightmill/vision/weights/safetensors.hpp"
#include "lightmill/vision/weights/seeded.hpp"

namespace lightmill::subjects {
namespace {

using ladder::Fact;

struct Work {
    std::string model = "smolvlm-256m-instruct";
    vision::SeededKind weights = vision::SeededKind::plain;
    std::int64_t seed = 1;
    std::int64_t tiles = 17;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Work>
void visit_options(O& options, Visitor&& visit) {
    visit(OptionInfo{.name = "model", .help = "whose configuration: a named model, tiny or tiny-pooling"},
          options.model);
    visit(OptionInfo{.name = "weights", .help = "kind of seeded weights"}, options.weights);
    visit(OptionInfo{.name = "seed", .help = "of the weights", .minimum = 0, .maximum = 1e9}, options.seed);
    visit(OptionInfo{.name = "tiles",
                     .help = "tiles a repetition: those of a picture, again and again",
                     .unit = "tiles",
                     .minimum = 1,
                     .maximum = 1024},
          options.tiles);
}

// How workers share the tiles.
enum class Sharing { blocks, tiles, batch };
constexpr std::array<std::string_view, 3> k_sharings{"blocks", "tiles", "batch"};
std::span<const std::string_view> names(Sharing) {
    return k_sharings;
}

struct Options {
    std::string target = "auto";
    Sharing sharing = Sharing::blocks;
    std::int64_t workers = 0;
    std::int64_t block_rows = 96;
    std::int64_t attention_rows = 48;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Options>
void visit_options(O& options, Visitor&& visit) {
    visit(OptionInfo{.name = "target", .help = "instruction set: auto, avx512, avx2 or reference"},
          options.target);
    visit(
        OptionInfo{
            .name = "sharing",
            .help = "blocks of rows; whole tiles, a worker each; or all tiles through a layer at a time"},
        options.sharing);
    visit(OptionInfo{.name = "workers",
                     .help = "threads; 0: as many as there are cores",
                     .minimum = 0,
                     .maximum = 1024},
          options.workers);
    visit(
        OptionInfo{
            .name = "block_rows", .help = "rows a task", .unit = "patches", .minimum = 1, .maximum = 4096},
        options.block_rows);
    visit(OptionInfo{.name = "attention_rows",
                     .help = "rows whose scores are held at a time",
                     .unit = "patches",
                     .minimum = 1,
                     .maximum = 4096},
          options.attention_rows);
}

Work parse_work(const ladder::Settings& settings) {
    Work work;
    ladder::apply(work, settings);
    (void)vision::known_config(work.model);
    return work;
}

Options parse(const ladder::Settings& settings) {
    Options options;
    ladder::apply(options, settings);
    return options;
}

// A picture of 512 × 512 by a formula, cut as the processor of the model does: 17 tiles of SmolVLM.
vision::Tiles picture_tiles(const vision::TowerConfig& config) {
    constexpr std::int64_t k_side = 512;
    vision::Image image({k_side, k_side});
    const auto pixels = image.view();
    for (std::int64_t y = 0; y < k_side; ++y) {
        for (std::int64_t x = 0; x < k_side; ++x) {
            const double u = static_cast<double>(x) / k_side, v = static_cast<double>(y) / k_side;
            const std::array<double, 3> phases{6 * M_PI * u, 6 * M_PI * v + 1, 6 * M_PI * (u + v) + 2};
            for (std::int64_t c = 0; c < 3; ++c)
                pixels(y, x, c) = static_cast<std::uint8_t>(
                    (0.5 + 0.5 * std::sin(phases[static_cast<std::size_t>(c)])) * 255 + 0.5);
        }
    }
    return vision::preprocess(std::as_const(image).view(), vision::processor_of(config, {}));
}

std::int64_t tile_bytes(const vision::TowerConfig& config) {
    return config.image * config.image * config.channels;
}

// Weights of a file in memory.
class MappedWeights final : public vision::TensorSource {
  public:
    explicit MappedWeights(std::span<const std::byte> bytes) {
        std::uint64_t length = 0;
        if (bytes.size() < sizeof length) throw Error(ErrorCode::state, "the input ends before its weights");
        std::memcpy(&length, bytes.data(), sizeof length);
        if (length > bytes.size() - sizeof length)
            throw Error(ErrorCode::state, "the input ends within its weights' header");
        data_ = bytes.subspan(sizeof length + length);
        vision::Metadata metadata;
        vision::parse_safetensors_header(
            {reinterpret_cast<const char*>(bytes.data()) + sizeof length, length},
            static_cast<std::int64_t>(data_.size()), place(), infos_, metadata);
    }
    [[nodiscard]] std::string place() const override { return "the input's weights"; }
    [[nodiscard]] std::vector<vision::TensorSpec> tensors() const override {
        std::vector<vision::TensorSpec> all;
        for (const auto& info : infos_) all.push_back({info.name, info.shape});
        return all;
    }
    void read(const std::string& name, float* out) const override {
        const auto info =
            std::find_if(infos_.begin(), infos_.end(), [&](const auto& i) { return i.name == name; });
        if (info == infos_.end() || info->dtype != vision::Dtype::bf16)
            throw Error(ErrorCode::state, fmt::format("tensor {} of BF16 is not there", name), place());
        const auto n = static_cast<std::size_t>(vision::element_count(info->shape));
        const std::byte* const from = data_.data() + info->begin;
        for (std::size_t i = 0; i < n; ++i) {
            std::uint16_t word = 0;
            std::memcpy(&word, from + 2 * i, sizeof word);
            out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16U);
        }
    }

  private:
    std::span<const std::byte> data_;
    std::vector<vision::TensorInfo> infos_;
};

class Embedding final : public ladder::Subject {
  public:
    Embedding(const Work& work, const Options& options, std::span<const std::byte> input)
        : work_(work),
          config_(vision::known_config(work.model)),
          pixels_(reinterpret_cast<const std::uint8_t*>(input.data())),
          tower_(config_,
                 MappedWeights(input.subspan(static_cast<std::size_t>(work.tiles * tile_bytes(config_)))),
                 options.target, workers_of(options)),
          pool_(workers_of(options)),
          engine_(tower_, vision::normalisation({}), pool_, engine_options(work, options)),
          out_(static_cast<std::size_t>(work.tiles * config_.output_rows() * config_.output)) {}
    void poison() override { std::fill_n(out_.data(), out_.size(), std::numeric_limits<float>::quiet_NaN()); }
    ladder::Outcome run() override {
        engine_.run({pixels_, {work_.tiles, config_.image, config_.image, config_.channels}}, out_.data());
        return {static_cast<double>(work_.tiles), static_cast<std::uint64_t>(work_.tiles)};
    }
    ladder::Answer output() override {
        return {ladder::array_of<float>("embeddings", std::span<const float>(out_.span()))};
    }

  private:
    static int workers_of(const Options& options) {
        return options.workers > 0 ? static_cast<int>(options.workers) : available_threads();
    }
    static vision::EngineOptions engine_options(const Work& work, const Options& options) {
        const auto config = vision::known_config(work.model);
        vision::EngineOptions engine{.block_rows = options.block_rows,
                                     .attention_rows = options.attention_rows};
        if (options.sharing == Sharing::tiles) {
            engine.block_rows =
                config.patches();  // one task a layer: a tile never meets a second worker at once
            engine.tiles_in_flight = workers_of(options);
        } else if (options.sharing == Sharing::batch) {
            engine.tiles_in_flight = work.tiles;
            engine.layer_by_layer = true;
        }
        return engine;
    }

    Work work_;
    vision::TowerConfig config_;
    const std::uint8_t* pixels_;
    vision::Tower tower_;
    Pool pool_;
    vision::Engine engine_;
    Buffer<float> out_;
};

class Type final : public ladder::SubjectType {
  public:
    std::string_view name() const noexcept override { return "tiles"; }
    std::string_view help() const noexcept override { return "the vision tower on the tiles of an image"; }
    std::vector<Fact> work(const ladder::Settings& settings) const override {
        return ladder::facts_of(parse_work(settings));
    }
    std::vector<Fact> configuration(const ladder::Settings&,
                                    const ladder::Settings& settings) const override {
        return ladder::facts_of(parse(settings));
    }
    std::string unavailable(const ladder::Settings&, const ladder::Settings& settings,
                            const ladder::Place&) const override {
        const auto wanted = parse(settings).target;
        const auto targets = vision::tower_targets();
        if (wanted == "auto" || std::find(targets.begin(), targets.end(), wanted) != targets.end()) return {};
        return fmt::format("target {} is not on this machine, which has {}", wanted,
                           fmt::join(targets, ", "));
    }
    // The scalar code for towers that it is through with in a moment. It would take minutes a tile of the
    // others: the plainest sharing on the narrowest target, which tests have proven equal to it in every bit,
    // stands in.
    std::optional<ladder::Settings> scalar(const ladder::Settings& settings,
                                           const ladder::Settings&) const override {
        const auto targets = vision::tower_targets();
        const bool small = vision::flops_a_tile(vision::known_config(parse_work(settings).model)) < 1e9;
        const auto target = small || targets.size() < 2 ? targets.back() : targets[targets.size() - 2];
        return ladder::Settings{
            {"target", target, 0}, {"sharing", std::string("tiles"), 0}, {"workers", std::int64_t{0}, 0}};
    }
    std::vector<ladder::Load> loads(const ladder::Settings& settings,
                                    const ladder::Settings&) const override {
        const auto work = parse_work(settings);
        return {{"fma_f32",
                 static_cast<double>(work.tiles) * vision::flops_a_tile(vision::known_config(work.model))}};
    }
    void write_input(const ladder::Settings& settings, const std::string& path) const override {
        const Work work = parse_work(settings);
        const auto config = vision::known_config(work.model);
        const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        if (!file.is_open()) throw IoError(path, "open", errno, io_advice(errno));
        const auto tiles = picture_tiles(config);
        const auto bytes = static_cast<std::size_t>(tile_bytes(config));
        const auto there = tiles.view().extent(0);
        for (std::int64_t i = 0; i < work.tiles; ++i)
            write_all(file, path, std::as_bytes(std::span(tiles.view()[i % there].data(), bytes)));
        vision::write_seeded(config, work.weights, static_cast<std::uint64_t>(work.seed), file, path);
    }
    std::unique_ptr<ladder::Subject> build(const ladder::BuildInput& input) const override {
        return std::make_unique<Embedding>(parse_work(input.work), parse(input.configuration), input.input);
    }
};

}  // namespace

const ladder::SubjectType& tiles() {
    static const Type type;
    return type;
}

}  // namespace lightmill::subjects

#include "lightmill/clusters/find/find.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "lightmill/base/error.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/clusters/find/engine_internal.hpp"
#include "lightmill/clusters/find/find_cuda_internal.hpp"
#include "lightmill/clusters/find/find_simd_internal.hpp"
#include "lightmill/clusters/find/slot_internal.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::clusters {
namespace {

constexpr std::string_view k_reference = "reference";
constexpr std::string_view k_cuda = "cuda";
// The CUDA backend on a GPU that the host plays: slow, and there to be tested where there is none.
constexpr std::string_view k_emulated = "cuda_emulated";

// The module's first rows (columns), with 0 before and the image's size behind.
std::vector<std::int64_t> module_bounds(std::span<const std::int64_t> starts, std::int64_t size,
                                        const char* name) {
    std::vector<std::int64_t> bounds{0};
    for (const auto start : starts) {
        if (start <= bounds.back() || start >= size) {
            throw OptionError(name, fmt::format("{}", fmt::join(starts, ", ")),
                              fmt::format("ascending numbers above 0 and below {}", size));
        }
        bounds.push_back(start);
    }
    bounds.push_back(size);
    return bounds;
}

// Threads for frames of this shape. Bands wait for each other once a frame, so a band should be worth a
// microsecond or more: with two threads on 3×4 pixels, on two busy cores, two million frames took 113 s
// instead of 1.2 s.
int worthwhile_threads(const Shape& shape, Rule rule) {
    constexpr std::int64_t k_pixels_a_band = 4096;
    if (rule == Rule::per_stream) return available_threads();  // whole frames go to threads
    const auto most = std::max<std::int64_t>(1, shape.pixels() / k_pixels_a_band);
    return static_cast<int>(std::min<std::int64_t>(available_threads(), most));
}

bool has_gpu() {
    std::string why_none;
    return !cuda::devices(why_none).empty();
}

// The state before the first frame.
FinderState begin(const Pedestal& pedestal, const FindOptions& options) {
    FinderState state;
    state.negatives.assign(pedestal.state.size(), 0);
    if (options.rule != Rule::raster) {
        state.models.assign(static_cast<std::size_t>(options.streams), pedestal.model);
        return state;
    }
    if (pedestal.frames != static_cast<std::uint64_t>(options.memory)) {
        throw OptionError(
            "memory", fmt::format("{} with a pedestal of {} dark frames", options.memory, pedestal.frames),
            fmt::format("{}: rule raster keeps running sums of exactly the frames it was trained on",
                        pedestal.frames));
    }
    for (std::size_t p = 0; p < pedestal.sum.size(); ++p) {
        // A pixel that was absent from some dark frames counts as if it had been there on average.
        const double share =
            pedestal.seen[p] == 0 ? 0.0 : static_cast<double>(pedestal.frames) / pedestal.seen[p];
        state.raster_sum.push_back(static_cast<double>(pedestal.sum[p]) * share);
        state.raster_square.push_back(static_cast<double>(pedestal.square[p]) * share);
    }
    return state;
}

}  // namespace

namespace detail {

void refuse_int16(std::int64_t value, std::int64_t row, std::int64_t column) {
    throw Error(ErrorCode::range,
                fmt::format("residual {} ADU at row {}, column {} does not fit payload int16 (-32768 to "
                            "32767); use payload int32",
                            value, row, column),
                "payload");
}

}  // namespace detail

std::vector<std::string_view> available_backends() {
    std::vector<std::string_view> backends;
    if (has_gpu()) backends.push_back(k_cuda);
    for (const auto& target : detail::simd_targets()) backends.push_back(target.name);
    backends.push_back(k_reference);
    return backends;
}

struct Finder::Impl {
    FindOptions options;
    SpeedOptions speed;
    Shape shape;
    detail::Modules modules;
    std::unique_ptr<detail::Engine> engine;
    std::string_view backend;
    std::vector<std::shared_ptr<detail::Slot>> slots;
    std::deque<std::shared_ptr<detail::Slot>> pending;  // submitted, oldest first
    std::uint64_t frames = 0;
    std::uint64_t lost_packets = 0;
    bool finished = false;
    bool failed = false;
    mutable AbsentCounts absent;

    Impl(const Pedestal& pedestal, const FindOptions& find_options, const SpeedOptions& speed_options,
         const FinderState& state, std::span<const std::int64_t> module_rows,
         std::span<const std::int64_t> module_columns)
        : options(find_options), speed(speed_options), shape(pedestal.shape) {
        check_options(speed);
        if (!speed.clusters && (speed.hashes || !speed.backend.starts_with(k_cuda)))
            throw OptionError("clusters", "false",
                              "true, or backend cuda without hashes, which are made of clusters");
        modules = {module_bounds(module_rows, shape.rows, "module_rows"),
                   module_bounds(module_columns, shape.columns, "module_columns")};
        frames = state.frames;
        lost_packets = state.absent.lost_packets;
        // Asked once: a look at the GPUs takes milliseconds.
        if (speed.backend == "auto" && options.rule != Rule::raster && has_gpu()) speed.backend = k_cuda;
        const bool gpu = speed.backend.starts_with(k_cuda);
        // Beside a GPU threads only hash and stage; to wake more of them costs more than they bring.
        constexpr int k_beside_gpu = 8;
        const int threads = speed.threads > 0 ? static_cast<int>(speed.threads)
                            : gpu             ? std::min(k_beside_gpu, available_threads())
                                              : worthwhile_threads(shape, options.rule);
        const detail::Setting setting{pedestal, options, modules, state, threads, speed};
        choose(setting);
        for (std::int64_t i = 0; i < speed.batches; ++i) slots.push_back(engine->make_slot());
    }

    void require_usable() const {
        if (failed)
            throw Error(ErrorCode::state, "find() after an error: the background is no longer known", "find");
    }
    template <class Work>
    void guard(Work&& work) {
        try {
            work();
        } catch (...) {
            failed = true;
            throw;
        }
    }

    void choose(const detail::Setting& setting) {
        const std::string& wanted = speed.backend;
        if (options.rule == Rule::raster) {
            if (wanted != "auto" && wanted != k_reference) {
                throw OptionError("backend", wanted + " with rule raster",
                                  "auto or reference: that rule is scalar");
            }
            backend = k_reference;
            engine = detail::make_raster(setting);
        } else if (wanted == k_reference) {
            backend = k_reference;
            engine = detail::make_reference(setting);
        } else if (wanted == k_emulated) {
            backend = k_emulated;
            engine = detail::make_emulated(setting);
        } else if (wanted == k_cuda) {
            backend = k_cuda;
            engine = detail::make_cuda(setting);
        } else {
            for (const auto& target : detail::simd_targets()) {
                if (wanted != "auto" && wanted != "simd" && wanted != target.name) continue;
                backend = target.name;
                engine = detail::make_bands(setting, target.kernel);
                return;
            }
            throw OptionError("backend", wanted,
                              fmt::format("auto, simd, or one that this machine has: {}",
                                          fmt::join(available_backends(), ", ")));
        }
    }

    std::shared_ptr<detail::Slot> free_slot() {
        for (const auto& slot : slots) {
            if (!slot->held.load(std::memory_order_acquire)) return slot;
        }
        throw Error(ErrorCode::state,
                    fmt::format("all {} batches are held; release one before the next find(), copy it with "
                                "to_owned(), or ask for more "
                                "with the option batches",
                                slots.size()),
                    "batches");
    }
};

std::string model_digest(const FinderState& state) {
    if (state.raster_sum.empty()) return model_digest(std::span<const Model>(state.models));
    Sha256 sha;
    sha.update(std::span(state.raster_sum));
    sha.update(std::span(state.raster_square));
    return sha.hex();
}

Finder::Finder(const Pedestal& pedestal, const FindOptions& options, const SpeedOptions& speed,
               std::span<const std::int64_t> module_rows, std::span<const std::int64_t> module_columns)
    : Finder(pedestal, options, speed, (check(options), begin(pedestal, options)), module_rows,
             module_columns) {}

Finder::Finder(const Pedestal& pedestal, const FindOptions& options, const SpeedOptions& speed,
               const FinderState& state, std::span<const std::int64_t> module_rows,
               std::span<const std::int64_t> module_columns) {
    check(options);
    const auto expected = begin(pedestal, options);
    if (state.models.size() != expected.models.size() ||
        state.raster_sum.size() != expected.raster_sum.size() ||
        state.negatives.size() != expected.negatives.size()) {
        throw Error(ErrorCode::state, "the finder's state is of another pedestal or other options", "state");
    }
    impl_ = std::make_unique<Impl>(pedestal, options, speed, state, module_rows, module_columns);
}

Finder::Finder(Finder&&) noexcept = default;
Finder& Finder::operator=(Finder&&) noexcept = default;
Finder::~Finder() = default;

void Finder::submit(const frames::Block& block) {
    auto& impl = *impl_;
    if (impl.finished)
        throw Error(ErrorCode::state, "find() after finish(): the last epoch has ended", "find");
    impl.require_usable();
    if (block.pixels.extent(1) != impl.shape.rows || block.pixels.extent(2) != impl.shape.columns) {
        throw OptionError("frames",
                          fmt::format("{}x{} pixels", block.pixels.extent(1), block.pixels.extent(2)),
                          fmt::format("{}x{} (rows x columns), the shape of the pedestal", impl.shape.rows,
                                      impl.shape.columns));
    }
    const auto frames = block.infos.size();
    if (block.pixels.extent(0) != static_cast<std::int64_t>(frames)) {
        throw OptionError("frames", fmt::format("{} frames with {} infos", block.pixels.extent(0), frames),
                          "one info a frame");
    }
    const auto slot = impl.free_slot();
    impl.guard([&] { impl.engine->submit(block, *slot); });
    slot->first_index = impl.frames;
    slot->numbers.clear();
    for (const auto& info : block.infos) {
        slot->numbers.push_back(info.number);
        impl.lost_packets += info.lost_pixels;
    }
    impl.frames += frames;
    slot->held.store(true, std::memory_order_relaxed);
    impl.pending.push_back(slot);
}

Batch Finder::collect() {
    auto& impl = *impl_;
    impl.require_usable();
    if (impl.pending.empty()) throw Error(ErrorCode::state, "collect() with nothing submitted", "collect");
    const auto slot = impl.pending.front();
    impl.guard([&] { impl.engine->collect(*slot); });
    impl.pending.pop_front();
    slot->view = {.window = impl.options.window,
                  .first_index = slot->first_index,
                  .numbers = slot->numbers,
                  .offsets = {},
                  .rows = {},
                  .columns = {},
                  .residuals = {},
                  .residuals16 = {},
                  .hashes = {}};
    slot->expose(static_cast<std::size_t>(impl.options.window.cells()), impl.options.payload);
    if (impl.speed.hashes) {
        slot->hashes.resize(slot->numbers.size());
        impl.engine->for_each_frame(slot->numbers.size(),
                                    [&](std::size_t f) { slot->hashes[f] = hash_frame(slot->view, f); });
        slot->view.hashes = slot->hashes;
    }
    return Batch(slot);
}

Batch Finder::find(const frames::Block& block) {
    if (!impl_->pending.empty())
        throw Error(
            ErrorCode::state,
            fmt::format("find() with {} blocks submitted; collect() them first", impl_->pending.size()),
            "find");
    submit(block);
    return collect();
}

std::size_t Finder::pending() const noexcept {
    return impl_->pending.size();
}

void Finder::reserve(std::int64_t frames, std::int64_t clusters_a_frame) {
    impl_->engine->reserve(frames, clusters_a_frame, impl_->slots);
}
void Finder::pin(std::span<const Pixel> pixels) {
    impl_->engine->pin(pixels);
}

void Finder::attach(const std::shared_ptr<detail::DeviceConsumer>& consumer) {
    if (frames() > 0) throw Error(ErrorCode::state, "attach() after the first frame", "attach");
    if (!impl_->engine->attach(consumer))
        throw Error(
            ErrorCode::unavailable,
            fmt::format("backend {} has its clusters on the host; add the batches to a Spectrum or a HitMap",
                        impl_->backend),
            "attach");
}

void Finder::finish() {
    if (!impl_->finished) impl_->guard([&] { impl_->engine->finish(); });
    impl_->finished = true;
}

std::uint64_t Finder::frames() const noexcept {
    return impl_->frames;
}

bool Finder::between_epochs() const noexcept {
    const auto& options = impl_->options;
    return impl_->finished ||
           impl_->frames % static_cast<std::uint64_t>(options.epoch * options.streams) == 0;
}

FinderState Finder::state() const {
    if (!between_epochs()) throw Error(ErrorCode::state, "a finder has a state between epochs only", "state");
    FinderState state;
    impl_->engine->save(state);
    state.frames = impl_->frames;
    state.absent.lost_packets = impl_->lost_packets;
    return state;
}

std::string Finder::model_digest() const {
    FinderState state;
    impl_->engine->save(state);
    return clusters::model_digest(state);
}

const AbsentCounts& Finder::absent() const noexcept {
    impl_->absent = impl_->engine->absent();
    impl_->absent.lost_packets = impl_->lost_packets;
    return impl_->absent;
}
std::span<const std::uint32_t> Finder::negatives() const {
    return impl_->engine->negatives();
}
std::string_view Finder::backend() const noexcept {
    return impl_->backend;
}
int Finder::threads() const noexcept {
    return impl_->engine->threads();
}

}  // namespace lightmill::clusters

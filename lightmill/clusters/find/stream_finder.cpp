#include "lightmill/clusters/find/stream_finder.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <deque>

#include "lightmill/base/error.hpp"
#include "lightmill/clusters/find/device_plan_internal.hpp"
#include "lightmill/clusters/find/find_cuda_internal.hpp"
#include "lightmill/clusters/find/find_kernels.hpp"

namespace lightmill::clusters {

using cuda::DeviceMemory;
using cuda::PinnedMemory;

namespace {

// A frame's region, in 32-bit words: the count, room up to 16, rows, columns, cells.
struct Region {
    std::size_t cap, cells;
    static constexpr std::size_t k_head = 16;
    [[nodiscard]] std::size_t size() const noexcept { return k_head + cap * (2 + cells); }
    template <class T>
    [[nodiscard]] T* rows(T* region) const noexcept {
        return region + k_head;
    }
    template <class T>
    [[nodiscard]] T* columns(T* region) const noexcept {
        return rows(region) + cap;
    }
    template <class T>
    [[nodiscard]] T* residuals(T* region) const noexcept {
        return columns(region) + cap;
    }
};

// The same bits seen as residuals.
template <class To, class From>
To* as(From* words) noexcept {
    return reinterpret_cast<To*>(words);
}

}  // namespace

std::int64_t auto_chunk(std::int64_t batch, std::int64_t streams, std::int64_t cap, const Window& window) {
    constexpr std::int64_t k_most_bytes = std::int64_t{128} << 20;
    const Region region{static_cast<std::size_t>(cap), static_cast<std::size_t>(window.cells())};
    const auto bytes = static_cast<std::int64_t>(region.size() * sizeof(std::uint32_t));
    const auto wanted = (std::max((batch + 7) / 8, 4 * streams) + streams - 1) / streams * streams;
    return std::max(streams, std::min(wanted, k_most_bytes / bytes / streams * streams));
}

struct StreamBatch::Slot {
    std::atomic<bool> held{false};
    Window window;
    Region region{};
    PinnedMemory<std::uint32_t> regions;  // (room × region.size())
    std::vector<std::uint64_t> numbers;
    std::vector<std::uint64_t> offsets;     // two a frame: 0 and its clusters
    std::vector<cuda::Device::Mark> marks;  // one a stream, behind its last frame of the block

    [[nodiscard]] std::uint32_t* at(std::size_t frame) const noexcept {
        return regions.data() + frame * region.size();
    }
};

StreamBatch::StreamBatch(std::shared_ptr<Slot> slot) noexcept : slot_(std::move(slot)) {}
StreamBatch& StreamBatch::operator=(StreamBatch&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
}
StreamBatch::~StreamBatch() {
    if (slot_) slot_->held.store(false, std::memory_order_release);
}
std::size_t StreamBatch::frames() const noexcept {
    return slot_->numbers.size();
}
std::uint32_t StreamBatch::count(std::size_t frame) const noexcept {
    return *slot_->at(frame);
}
ClustersView StreamBatch::view(std::size_t frame) const noexcept {
    const auto* region = slot_->at(frame);
    const std::size_t count = slot_->offsets[2 * frame + 1];
    return {
        .window = slot_->window,
        .first_index = frame,
        .numbers = std::span(slot_->numbers).subspan(frame, 1),
        .offsets = std::span(slot_->offsets).subspan(2 * frame, 2),
        .rows = {slot_->region.rows(region), count},
        .columns = {slot_->region.columns(region), count},
        .residuals = {as<const std::int32_t>(slot_->region.residuals(region)), count * slot_->region.cells},
        .residuals16 = {},
        .hashes = {}};
}

struct StreamFinder::Impl {
    // A stream: its queue, its background, and the memory of the one frame that it works on.
    struct Stream {
        cuda::Device::Queue queue;
        cuda::Device::Mark mark;
        detail::DeviceModel model;
        DeviceMemory<Pixel> frame;
        DeviceMemory<std::uint32_t> photons, region;
        DeviceMemory<std::int32_t> residuals;
        DeviceMemory<std::uint64_t> places;
        DeviceMemory<std::uint32_t> negatives;
        DeviceMemory<unsigned long long> absent;
        // With graphs: one for each of the two models that judge, and the host's ends of their copies.
        std::vector<cuda::Device::Graph> graphs;
        PinnedMemory<Pixel> staged_frame;
        PinnedMemory<std::uint32_t> staged_region;
        std::uint32_t* waiting = nullptr;  // where the region goes that is on its way to staged_region
    };

    FindOptions options;
    StreamOptions stream_options;
    Shape shape;
    Model original;
    std::vector<PixelState> state;
    std::shared_ptr<cuda::Device> device;
    detail::Kernels kernels;
    Region region;
    detail::DevicePlan tables;
    DeviceMemory<Pixel> offset;
    detail::JudgeParameters launch{};  // what all launches have in common
    std::vector<Stream> streams;
    std::vector<std::shared_ptr<StreamBatch::Slot>> slots;
    std::deque<std::shared_ptr<StreamBatch::Slot>> pending;
    std::vector<const Pixel*> pins;
    std::uint64_t next = 0;
    std::uint64_t frames_cut = 0, clusters_cut = 0, frames_at_cap = 0;

    Impl(const Pedestal& pedestal, const FindOptions& find_options, const StreamOptions& s,
         const std::string& where)
        : options(find_options),
          stream_options(s),
          shape(pedestal.shape),
          original(pedestal.model),
          state(pedestal.state),
          device(open(where)),
          kernels(detail::kernels_for(find_options.window)),
          region{static_cast<std::size_t>(s.cap), static_cast<std::size_t>(find_options.window.cells())} {
        const auto queue = device->make_queue();
        const detail::Modules modules{{0, shape.rows}, {0, shape.columns}};
        tables = detail::make_plan(device, queue, modules, options.window, 0, shape.rows);
        offset = cuda::upload(device, queue, original.offset);
        launch = detail::judge_parameters(tables.plan, options, pedestal.absent);
        launch.offset = offset.data();
        const auto pixels = state.size();
        const auto upload = [&](const auto& values) { return cuda::upload(device, queue, values); };
        for (std::int64_t i = 0; i < options.streams; ++i) {
            Stream stream;
            stream.queue = device->make_queue();
            stream.mark = device->make_mark();
            stream.model = detail::make_model(device, queue, tables.plan, original, state, options.epoch > 1);
            stream.frame = DeviceMemory<Pixel>(device, pixels);
            stream.photons =
                DeviceMemory<std::uint32_t>(device, static_cast<std::size_t>(tables.plan.map_words()));
            // Regions come back whole, written or not.
            stream.region = upload(std::vector<std::uint32_t>(region.size(), 0));
            stream.residuals = DeviceMemory<std::int32_t>(device, pixels);
            stream.places = DeviceMemory<std::uint64_t>(device, region.cap);
            stream.negatives = upload(std::vector<std::uint32_t>(pixels, 0));
            stream.absent = upload(std::vector<unsigned long long>(2, 0));
            if (stream_options.graphs) {
                stream.staged_frame = PinnedMemory<Pixel>(device, pixels);
                stream.staged_region = PinnedMemory<std::uint32_t>(device, region.size());
                for (int k = 0; k < 2; ++k) {
                    device->begin_capture(stream.queue);
                    queue_frame(stream, stream.staged_frame.data(), stream.staged_region.data());
                    stream.graphs.push_back(device->end_capture(stream.queue));
                }
            }
            streams.push_back(std::move(stream));
        }
    }

    ~Impl() {
        try {
            for (auto& stream : streams) {
                device->record(stream.queue, stream.mark);
                device->synchronize(stream.mark);
            }
        } catch (const Error&) {
            // A device that is lost writes nothing any more.
        }
        for (const auto* pixels : pins) device->unpin(pixels);
    }

    static std::shared_ptr<cuda::Device> open(const std::string& where) {
        if (where == "emulated") return cuda::emulated_devices(1, 1).front();
        const auto devices = detail::parse_devices(where);
        if (devices.size() != 1) throw OptionError("devices", where, "the number of one GPU");
        return cuda::open_device(devices.front());
    }

    std::shared_ptr<StreamBatch::Slot> free_slot(std::size_t frames) {
        std::shared_ptr<StreamBatch::Slot> slot;
        for (const auto& candidate : slots) {
            if (!candidate->held.load(std::memory_order_acquire)) slot = candidate;
        }
        if (!slot) {
            slot = std::make_shared<StreamBatch::Slot>();
            slot->window = options.window;
            slot->region = region;
            for (std::size_t i = 0; i < streams.size(); ++i) slot->marks.push_back(device->make_mark());
            slots.push_back(slot);
        }
        if (slot->regions.size() < frames * region.size()) {
            slot->regions = {};
            slot->regions = PinnedMemory<std::uint32_t>(device, frames * region.size());
        }
        return slot;
    }

    // One frame: in, judged, compacted, out. Advances the stream's background.
    void queue_frame(Stream& stream, const Pixel* pixels, std::uint32_t* to) {
        const auto& plan = tables.plan;
        device->copy_in(stream.queue, stream.frame.data(), pixels, state.size() * sizeof(Pixel));
        auto p = launch;
        p.frames = stream.frame.data();
        p.photons = stream.photons.data();
        p.residuals = stream.residuals.data();
        p.negatives = stream.negatives.data();
        p.absent = stream.absent.data();
        detail::advance(stream.model, 1, options.epoch, p);
        auto shape_of_judge = detail::judge_shape(plan);
        shape_of_judge.early = false;
        device->launch(stream.queue, kernels.judge, shape_of_judge, p);
        auto* words = stream.region.data();
        device->launch(stream.queue, kernels.compact, detail::compact_shape(),
                       detail::CompactParameters{.plan = plan,
                                                 .photons = stream.photons.data(),
                                                 .residuals = stream.residuals.data(),
                                                 .capacity = static_cast<std::uint32_t>(region.cap),
                                                 .places = stream.places.data(),
                                                 .count = words,
                                                 .rows = region.rows(words),
                                                 .columns = region.columns(words),
                                                 .cells = as<std::int32_t>(region.residuals(words))});
        device->copy_out(stream.queue, to, words, region.size() * sizeof(std::uint32_t));
    }

    // The graph's region goes where it belongs, once it is here.
    void settle(Stream& stream) {
        if (stream.waiting == nullptr) return;
        device->synchronize(stream.mark);
        std::memcpy(stream.waiting, stream.staged_region.data(), region.size() * sizeof(std::uint32_t));
        stream.waiting = nullptr;
    }

    void submit(const frames::Block& block) {
        const auto frames = block.infos.size();
        const auto slot = free_slot(frames);
        slot->held.store(true, std::memory_order_relaxed);
        slot->numbers.clear();
        for (const auto& info : block.infos) slot->numbers.push_back(info.number);
        for (std::size_t f = 0; f < frames; ++f) {
            auto& stream = streams[next++ % streams.size()];
            const auto* pixels = block.pixels[static_cast<std::int64_t>(f)].data();
            if (stream_options.graphs) {
                settle(stream);
                std::memcpy(stream.staged_frame.data(), pixels, state.size() * sizeof(Pixel));
                device->replay(stream.queue, stream.graphs[static_cast<std::size_t>(stream.model.current)]);
                device->record(stream.queue, stream.mark);
                stream.waiting = slot->at(f);
                stream.model.current = 1 - stream.model.current;
            } else {
                queue_frame(stream, pixels, slot->at(f));
            }
            if (stream_options.barrier && next % streams.size() == 0) wait_for_all();
        }
        for (std::size_t i = 0; i < streams.size(); ++i) device->record(streams[i].queue, slot->marks[i]);
        pending.push_back(slot);
    }

    void wait_for_all() {
        for (auto& stream : streams) {
            if (!stream_options.graphs) device->record(stream.queue, stream.mark);
            device->synchronize(stream.mark);
        }
    }

    StreamBatch collect() {
        const auto slot = pending.front();
        for (const auto mark : slot->marks) device->synchronize(mark);
        if (stream_options.graphs) {
            for (auto& stream : streams) settle(stream);
        }
        pending.pop_front();
        StreamBatch batch(slot);
        slot->offsets.clear();
        for (std::size_t f = 0; f < slot->numbers.size(); ++f) {
            const std::size_t count = *slot->at(f);
            if (count > region.cap) {
                if (!stream_options.truncate) {
                    throw Error(
                        ErrorCode::range,
                        fmt::format(
                            "frame {} has {} clusters, more than the cap of {}; raise the cap, or ask "
                            "for truncate",
                            slot->numbers[f], count, region.cap),
                        "cap");
                }
                ++frames_cut;
                clusters_cut += count - region.cap;
            }
            frames_at_cap += count == region.cap;
            slot->offsets.push_back(0);
            slot->offsets.push_back(std::min(count, region.cap));
        }
        return batch;
    }

    [[nodiscard]] std::string model_digest() const {
        std::vector<Model> models;
        for (const auto& stream : streams) {
            Model model = original;
            const auto fetch = [&](const DeviceMemory<float>& memory) {
                return cuda::download(*device, stream.queue, stream.mark, memory.data(), state.size());
            };
            detail::take_pixels(fetch(stream.model.latest_mean()), fetch(stream.model.latest_variance()), 0,
                                state, model);
            models.push_back(std::move(model));
        }
        return clusters::model_digest(std::span<const Model>(models));
    }
};

StreamFinder::StreamFinder(const Pedestal& pedestal, const FindOptions& options,
                           const StreamOptions& stream_options, const std::string& device) {
    check(options);
    check_options(stream_options);
    if (options.rule != Rule::per_stream)
        throw OptionError("rule", "another", "per_stream: each stream has a model");
    if (options.payload != Payload::int32) throw OptionError("payload", "int16", "int32");
    if (stream_options.graphs && options.epoch != 1)
        throw OptionError("graphs", fmt::format("true with epoch {}", options.epoch), "epoch 1");
    impl_ = std::make_unique<Impl>(pedestal, options, stream_options, device);
}
StreamFinder::StreamFinder(StreamFinder&&) noexcept = default;
StreamFinder& StreamFinder::operator=(StreamFinder&&) noexcept = default;
StreamFinder::~StreamFinder() = default;

void StreamFinder::reserve(std::int64_t frames, std::size_t blocks) {
    std::vector<std::shared_ptr<StreamBatch::Slot>> made;
    for (std::size_t i = 0; i < blocks; ++i) {
        made.push_back(impl_->free_slot(static_cast<std::size_t>(frames)));
        made.back()->held = true;
    }
    for (const auto& slot : made) slot->held = false;
}
void StreamFinder::pin(std::span<const Pixel> pixels) {
    impl_->device->pin(pixels.data(), pixels.size_bytes());
    impl_->pins.push_back(pixels.data());
}
void StreamFinder::submit(const frames::Block& block) {
    if (block.pixels.extent(1) != impl_->shape.rows || block.pixels.extent(2) != impl_->shape.columns) {
        throw OptionError("frames",
                          fmt::format("{}x{} pixels", block.pixels.extent(1), block.pixels.extent(2)),
                          fmt::format("{}x{} (rows x columns), the shape of the pedestal", impl_->shape.rows,
                                      impl_->shape.columns));
    }
    impl_->submit(block);
}
StreamBatch StreamFinder::collect() {
    if (impl_->pending.empty()) throw Error(ErrorCode::state, "collect() with nothing submitted", "collect");
    return impl_->collect();
}
std::size_t StreamFinder::pending() const noexcept {
    return impl_->pending.size();
}
std::string StreamFinder::model_digest() const {
    return impl_->model_digest();
}
std::uint64_t StreamFinder::frames_cut() const noexcept {
    return impl_->frames_cut;
}
std::uint64_t StreamFinder::clusters_cut() const noexcept {
    return impl_->clusters_cut;
}
std::uint64_t StreamFinder::frames_at_cap() const noexcept {
    return impl_->frames_at_cap;
}

}  // namespace lightmill::clusters

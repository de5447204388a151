// The finder on GPUs: frames go there chunk by chunk, several chunks at a time, each by one copy; what comes
// back are the bytes that clusters fill. Rows may be shared among several devices in bands, which hand each
// other the means of their border rows after each epoch.
//
// Queues of a band: in (frames), compute (judge: the only one that the model is in), results (scan, list,
// cells, of frames that are judged), out and places_out (small copies that need not stand between large
// ones). The order among them is made by a chunk's marks alone.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <optional>

#include "lightmill/base/error.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/clusters/find/device_consumer_internal.hpp"
#include "lightmill/clusters/find/device_plan_internal.hpp"
#include "lightmill/clusters/find/engine_internal.hpp"
#include "lightmill/clusters/find/find_cuda_internal.hpp"
#include "lightmill/clusters/find/find_kernels.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::clusters::detail {
namespace {

using cuda::DeviceMemory;
using cuda::PinnedMemory;

// A result in page-locked memory, which device copies fill: rows, columns and cells in the order of a
// device's list (find_body.hpp), with room for `stride` clusters each.
struct PinnedSlot final : Slot {
    std::shared_ptr<cuda::Device> device;
    PinnedMemory<std::uint32_t> memory;
    std::vector<std::uint64_t> ends;  // per frame, of the chunks that are on their way or here
    std::size_t pending = 0;          // chunks that are not here yet
    std::size_t count = 0;            // clusters
    std::size_t capacity = 0;         // clusters
    std::size_t stride = 0;
    bool packed = false;  // one chunk's list as it is: the stride is the count

    void begin(bool whole_chunk) noexcept {
        ends.clear();
        count = 0;
        packed = whole_chunk;
        stride = capacity;
    }
    [[nodiscard]] std::uint32_t* rows() const noexcept { return memory.data(); }
    [[nodiscard]] std::uint32_t* columns() const noexcept { return memory.data() + stride; }
    // Cells of `bytes` each.
    [[nodiscard]] std::byte* cells(std::size_t first, std::size_t bytes) const noexcept {
        return reinterpret_cast<std::byte*>(memory.data() + cells_at(stride)) + first * bytes;
    }
    void expose(std::size_t cells_each, Payload payload) override {
        offsets.assign(1, 0);
        offsets.insert(offsets.end(), ends.begin(), ends.end());
        view.offsets = offsets;
        if (count > capacity) return;  // they stayed on the device
        view.rows = {rows(), count};
        view.columns = {columns(), count};
        const auto* first = cells(0, 0);
        if (payload == Payload::int32) {
            view.residuals = {reinterpret_cast<const std::int32_t*>(first), count * cells_each};
        } else {
            view.residuals16 = {reinterpret_cast<const std::int16_t*>(first), count * cells_each};
        }
    }
    // Room for `clusters` of `bytes` of cells, keeping the first `kept`.
    void reserve(std::size_t clusters, std::size_t kept, std::size_t bytes) {
        if (clusters <= capacity) return;
        PinnedSlot larger;
        larger.capacity = larger.stride = std::max(clusters, capacity + capacity / 2);
        larger.memory = PinnedMemory<std::uint32_t>(device, list_words(larger.capacity, bytes));
        if (kept > 0) {
            std::copy_n(rows(), kept, larger.rows());
            std::copy_n(columns(), kept, larger.columns());
            std::copy_n(cells(0, bytes), kept * bytes, larger.cells(0, bytes));
        }
        memory = std::move(larger.memory);
        capacity = stride = larger.capacity;
    }
    [[nodiscard]] static std::size_t list_words(std::size_t clusters, std::size_t bytes) noexcept {
        return cells_at(clusters) + (clusters * bytes + 3) / 4;
    }
};

// What a chunk needs on one band.
struct BandChunk {
    DeviceMemory<Pixel> frames;
    DeviceMemory<std::uint32_t> photons, starts, counts;
    DeviceMemory<std::int32_t> residuals;
    DeviceMemory<unsigned long long> numbers;  // total, misfit, absent: of value, of gain bits
    DeviceMemory<std::uint64_t> places;
    DeviceMemory<std::uint32_t> list;
    std::size_t capacity = 0;  // clusters
    PinnedMemory<std::uint32_t> host_counts;
    PinnedMemory<unsigned long long> host_numbers;  // misfit, absent
    PinnedMemory<Pixel> staged;                     // pageable frames on their way
    std::optional<cuda::Device::Graph> graphs[2];   // by the model that judges first
    cuda::Device::Mark arrived, judged, counted, listed, copied;
    // Clusters of this band alone, where there are several bands: they are merged on the host.
    std::unique_ptr<PinnedSlot> merge = std::make_unique<PinnedSlot>();
};
enum : std::size_t { k_total, k_misfit, k_absent_value, k_absent_gain, k_numbers };

struct Chunk {
    std::vector<BandChunk> bands;
    std::int64_t room = 0;    // frames
    std::int64_t frames = 0;  // in it now
    PinnedSlot* slot = nullptr;
    bool issued = false;            // its copies out are queued
    std::size_t first_cluster = 0;  // in the slot
};

struct Band {
    std::shared_ptr<cuda::Device> device;
    std::int64_t first_row = 0, last_row = 0;  // of the image, its own
    cuda::Device::Queue in, compute, results, out;
    cuda::Device::Mark epoch_ended;
    DevicePlan tables;
    DeviceMemory<Pixel> offset;
    DeviceMemory<std::uint32_t> negatives;
    JudgeParameters launch{};  // what all launches have in common
    std::vector<DeviceModel> models;
    DeviceMemory<std::uint32_t> generations;  // (tiles) epochs behind them, of launches that judge together
    std::uint32_t generation = 0;

    [[nodiscard]] const BandPlan& plan() const noexcept { return tables.plan; }
    // Rows of the image that lie in its memory.
    [[nodiscard]] std::int64_t memory_first() const noexcept { return plan().first_row; }
    [[nodiscard]] std::int64_t memory_last() const noexcept {
        return memory_first() + plan().pixels / plan().columns;
    }
};

// The pixels of a band's own rows.
struct OwnPixels {
    std::size_t in_memory, in_image;  // the first
    std::size_t count;
};

constexpr std::int64_t k_default_chunk = 128;  // frames of a copy, at most, where none is asked for
constexpr std::size_t k_chunk_bytes = std::size_t{1} << 30;  // of device memory, where none is asked for
constexpr std::int64_t k_pixels_a_cluster = 48;              // room for this many clusters at first

class Gpus final : public Engine {
  public:
    Gpus(const Setting& setting, std::vector<std::shared_ptr<cuda::Device>> devices)
        : shape_(setting.pedestal.shape),
          options_(setting.options),
          modules_(setting.modules),
          original_(setting.pedestal.model),
          state_(setting.pedestal.state),
          kernels_(kernels_for(setting.options.window)),
          cell_bytes_(
              static_cast<std::size_t>(setting.options.window.cells()) *
              (setting.options.payload == Payload::int32 ? sizeof(std::int32_t) : sizeof(std::int16_t))),
          ring_size_(static_cast<std::size_t>(setting.speed.ring)),
          asked_chunk_(setting.speed.copy_frames),
          wants_clusters_(setting.speed.clusters),
          launches_(setting.speed.launches),
          absent_(setting.state.absent),
          negatives_(setting.state.negatives),
          next_(setting.state.frames),
          team_(setting.threads) {
        const auto half = options_.window.height / 2;
        if (shape_.rows >= 1 << 20 || shape_.columns >= 1 << 20) {
            throw OptionError("frames", fmt::format("{}x{} pixels", shape_.rows, shape_.columns),
                              "fewer than 2^20 rows and columns on a GPU");
        }
        // A band must reach beyond its neighbours' windows.
        const auto most = std::max<std::int64_t>(1, shape_.rows / std::max(half, 1));
        if (static_cast<std::int64_t>(devices.size()) > most) {
            throw OptionError("devices", fmt::format("{} of them", devices.size()),
                              fmt::format("{} at most for {} rows and this window", most, shape_.rows));
        }
        const auto count = static_cast<std::int64_t>(devices.size());
        for (std::int64_t i = 0; i < count; ++i) {
            bands_.push_back(make_band(devices[static_cast<std::size_t>(i)], shape_.rows * i / count,
                                       shape_.rows * (i + 1) / count, setting.state,
                                       setting.pedestal.absent));
        }
        auto shape = judge_shape(bands_.front().plan());
        shape.cooperative = true;
        all_tiles_fit_ = shape.blocks_x * shape.blocks_y <=
                         bands_.front().device->resident_blocks(kernels_.judge_many, shape);
        if (launches_ == Launches::persistent && !all_tiles_fit_) {
            throw OptionError(
                "launches", "persistent",
                fmt::format("another: the GPU does not hold all {} tiles of these frames at once",
                            shape.blocks_x * shape.blocks_y));
        }
    }
    ~Gpus() override {
        // Memory of chunks and slots is written until the queues are empty.
        try {
            for (auto& band : bands_) drain(band);
        } catch (const Error&) {
            // A device that is lost writes nothing any more.
        }
        for (const auto* pixels : pins_) bands_.front().device->unpin(pixels);
    }

    std::shared_ptr<Slot> make_slot() override {
        auto slot = std::make_shared<PinnedSlot>();
        slot->device = bands_.front().device;
        return slot;
    }

    void submit(const frames::Block& block, Slot& any_slot) override {
        auto& slot = static_cast<PinnedSlot&>(any_slot);
        const auto frames = block.pixels.extent(0);
        slot.begin(bands_.size() == 1 && frames <= chunk_frames(frames));
        for (std::int64_t first = 0; first < frames;) {
            auto& chunk = claim(frames - first);
            chunk.frames = std::min(chunk.room, frames - first);
            chunk.slot = &slot;
            chunk.issued = false;
            ++slot.pending;
            in_flight_.push_back(&chunk);
            send(chunk, block.pixels.data() + first * shape_.pixels());
            judge(chunk);
            for (std::size_t b = 0; b < bands_.size(); ++b) list(b, chunk);
            next_ += static_cast<std::uint64_t>(chunk.frames);
            first += chunk.frames;
            issue_ready();
        }
    }

    void reserve(std::int64_t frames, std::int64_t clusters_a_frame,
                 std::span<const std::shared_ptr<Slot>> slots) override {
        while (ring_.size() < ring_size_) {
            turn_ = ring_.size();
            (void)claim(frames);
        }
        const auto each = clusters_a_frame > 0 ? clusters_a_frame : shape_.pixels() / k_pixels_a_cluster + 1;
        const auto clusters = static_cast<std::size_t>(frames * each);
        for (const auto& slot : slots) {
            if (wants_clusters_ && !slot->held)
                static_cast<PinnedSlot&>(*slot).reserve(clusters, 0, cell_bytes_);
        }
    }

    void pin(std::span<const Pixel> pixels) override {
        bands_.front().device->pin(pixels.data(), pixels.size_bytes());
        pins_.push_back(pixels.data());
    }

    bool attach(const std::shared_ptr<DeviceConsumer>& consumer) override {
        consumer_ = consumer;
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            consumer->prepare(b, bands_[b].device, bands_[b].results, bands_[b].plan());
        }
        return true;
    }

    void collect(Slot& any_slot) override {
        const auto& slot = static_cast<PinnedSlot&>(any_slot);
        while (slot.pending > 0) retire();
    }

    void finish() override {
        for (auto& band : bands_) {
            for (auto& model : band.models) {
                if (model.in_epoch == 0) continue;
                const auto bytes = static_cast<std::size_t>(band.plan().pixels) * sizeof(float);
                band.device->copy(band.compute, model.mean[model.current].data(), model.learn_mean.data(),
                                  bytes);
                band.device->copy(band.compute, model.variance[model.current].data(),
                                  model.learn_variance.data(), bytes);
                model.in_epoch = 0;
            }
        }
    }

    void save(FinderState& state) const override {
        state.models.assign(bands_.front().models.size(), original_);
        for (const auto& band : bands_) {
            const auto own = own_pixels(band);
            for (std::size_t i = 0; i < band.models.size(); ++i) {
                const auto& model = band.models[i];
                take_pixels(fetch(band, model.latest_mean().data() + own.in_memory, own.count),
                            fetch(band, model.latest_variance().data() + own.in_memory, own.count),
                            own.in_image, state_, state.models[i]);
            }
        }
        state.absent = absent_;
        const auto counts = negatives();
        state.negatives.assign(counts.begin(), counts.end());
    }

    const AbsentCounts& absent() const noexcept override { return absent_; }
    std::span<const std::uint32_t> negatives() const override {
        now_negative_ = negatives_;
        for (const auto& band : bands_) {
            const auto own = own_pixels(band);
            const auto counts = fetch(band, band.negatives.data() + own.in_memory, own.count);
            for (std::size_t p = 0; p < own.count; ++p) now_negative_[own.in_image + p] += counts[p];
        }
        return now_negative_;
    }
    int threads() const noexcept override { return team_.size(); }

    void for_each_frame(std::size_t frames, const std::function<void(std::size_t)>& work) override {
        team_.for_each(frames, work);
    }

  private:
    Band make_band(const std::shared_ptr<cuda::Device>& device, std::int64_t first, std::int64_t last,
                   const FinderState& start, const AbsentRule& absent) const {
        Band band;
        band.device = device;
        band.first_row = first;
        band.last_row = last;
        band.in = device->make_queue();
        band.compute = device->make_queue();
        band.results = device->make_queue();
        band.out = device->make_queue();
        band.epoch_ended = device->make_mark();

        band.tables = make_plan(device, band.compute, modules_, options_.window, first, last);
        const auto tiles = judge_shape(band.plan());
        band.generations =
            cuda::upload(device, band.compute,
                         std::vector<std::uint32_t>(std::size_t{tiles.blocks_x} * tiles.blocks_y, 0));
        const auto from = original_.offset.begin() + band.memory_first() * shape_.columns;
        band.offset = cuda::upload(device, band.compute, std::vector<Pixel>(from, from + band.plan().pixels));
        band.negatives =
            cuda::upload(device, band.compute,
                         std::vector<std::uint32_t>(static_cast<std::size_t>(band.plan().pixels), 0));
        for (const auto& model : start.models) {
            band.models.push_back(
                make_model(device, band.compute, band.plan(), model, state_, options_.epoch > 1));
        }
        band.launch = judge_parameters(band.plan(), options_, absent);
        band.launch.offset = band.offset.data();
        band.launch.negatives = band.negatives.data();
        return band;
    }

    [[nodiscard]] OwnPixels own_pixels(const Band& band) const {
        return {static_cast<std::size_t>((band.first_row - band.memory_first()) * shape_.columns),
                static_cast<std::size_t>(band.first_row * shape_.columns),
                static_cast<std::size_t>((band.last_row - band.first_row) * shape_.columns)};
    }

    // Any mark would do: those who waited for it are queued already.
    template <class T>
    static std::vector<T> fetch(const Band& band, const T* memory, std::size_t count) {
        return cuda::download(*band.device, band.compute, band.epoch_ended, memory, count);
    }
    static void drain(const Band& band, cuda::Device::Queue queue) {
        band.device->record(queue, band.epoch_ended);
        band.device->synchronize(band.epoch_ended);
    }
    static void drain(const Band& band) {
        for (const auto queue : {band.in, band.compute, band.results, band.out}) drain(band, queue);
    }

    // The next chunk of the ring, empty. Grows the ring, and chunks that are too small for `frames`.
    Chunk& claim(std::int64_t frames) {
        const auto room = chunk_frames(frames);
        while (true) {
            if (turn_ == ring_.size() && ring_.size() < ring_size_) {
                try {
                    ring_.push_back(std::make_unique<Chunk>(make_chunk(room)));
                } catch (const DeviceError& error) {
                    if (!error.out_of_memory() || ring_.empty()) throw;
                    ring_size_ = ring_.size();  // the ring is shorter, and goes on
                }
            }
            if (turn_ == ring_.size()) turn_ = 0;
            auto& chunk = *ring_[turn_];
            while (std::find(in_flight_.begin(), in_flight_.end(), &chunk) != in_flight_.end()) retire();
            if (chunk.room < room && frames > chunk.room) {
                chunk = {};  // before the larger one is made
                try {
                    chunk = make_chunk(room);
                } catch (const DeviceError& error) {
                    if (!error.out_of_memory() || ring_.size() == 1) throw;
                    ring_.erase(ring_.begin() + static_cast<std::ptrdiff_t>(turn_));
                    ring_size_ = ring_.size();
                    continue;
                }
            }
            ++turn_;
            return chunk;
        }
    }

    [[nodiscard]] std::int64_t chunk_frames(std::int64_t frames) const {
        if (asked_chunk_ > 0) return std::min(asked_chunk_, frames);
        const auto bytes = static_cast<std::size_t>(shape_.pixels()) * (sizeof(Pixel) + sizeof(std::int32_t));
        return std::clamp<std::int64_t>(
            std::min(frames, k_default_chunk), 1,
            std::max<std::int64_t>(1, static_cast<std::int64_t>(k_chunk_bytes / bytes)));
    }

    Chunk make_chunk(std::int64_t room) const {
        Chunk chunk;
        chunk.room = room;
        for (const auto& band : bands_) {
            const auto& device = band.device;
            const auto pixels = static_cast<std::size_t>(room) * static_cast<std::size_t>(band.plan().pixels);
            const auto words =
                static_cast<std::size_t>(room) * static_cast<std::size_t>(band.plan().map_words());
            BandChunk c;
            c.frames = DeviceMemory<Pixel>(device, pixels);
            c.residuals = DeviceMemory<std::int32_t>(device, pixels);
            c.photons = DeviceMemory<std::uint32_t>(device, words);
            c.starts = DeviceMemory<std::uint32_t>(device, words);
            c.counts = DeviceMemory<std::uint32_t>(device, static_cast<std::size_t>(room));
            c.numbers = DeviceMemory<unsigned long long>(device, k_numbers);
            c.host_counts = PinnedMemory<std::uint32_t>(device, static_cast<std::size_t>(room));
            c.host_numbers = PinnedMemory<unsigned long long>(device, k_numbers);
            c.merge->device = device;
            for (auto* mark : {&c.arrived, &c.judged, &c.counted, &c.listed, &c.copied})
                *mark = device->make_mark();
            grow_lists(band, c, pixels / static_cast<std::size_t>(k_pixels_a_cluster) + 1);
            chunk.bands.push_back(std::move(c));
        }
        return chunk;
    }
    void grow_lists(const Band& band, BandChunk& c, std::size_t clusters) const {
        c.capacity = clusters;
        c.places = {};
        c.list = {};
        c.places = DeviceMemory<std::uint64_t>(band.device, clusters);
        c.list = DeviceMemory<std::uint32_t>(band.device, PinnedSlot::list_words(clusters, cell_bytes_));
    }

    // Queues the copies of a chunk's frames.
    void send(Chunk& chunk, const Pixel* pixels) {
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            const auto& band = bands_[b];
            auto& c = chunk.bands[b];
            const auto* from = pixels + band.memory_first() * shape_.columns;
            const auto piece = static_cast<std::size_t>(band.plan().pixels);
            auto step = static_cast<std::size_t>(shape_.pixels());
            const auto count = static_cast<std::size_t>(chunk.frames);
            if (!band.device->pinned(pixels)) {
                if (c.staged.size() < piece * count) {
                    c.staged = {};
                    c.staged = PinnedMemory<Pixel>(
                        band.device, piece * static_cast<std::size_t>(std::max(chunk.room, chunk.frames)));
                }
                for_each_frame(count, [&](std::size_t f) {
                    std::memcpy(c.staged.data() + f * piece, from + f * step, piece * sizeof(Pixel));
                });
                from = c.staged.data();
                step = piece;
            }
            if (step == piece) {
                band.device->copy_in(band.in, c.frames.data(), from, piece * count * sizeof(Pixel));
            } else {
                band.device->copy_in_pieces(band.in, c.frames.data(), from, piece * sizeof(Pixel),
                                            step * sizeof(Pixel), count);
            }
            band.device->record(band.in, c.arrived);
        }
    }

    // Queues the judging of a chunk's frames: as many frames a launch as have one model.
    void judge(Chunk& chunk) {
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            const auto& band = bands_[b];
            band.device->wait(band.compute, chunk.bands[b].arrived);
            band.device->zero(band.compute, chunk.bands[b].numbers.data(),
                              k_numbers * sizeof(unsigned long long));
        }
        if (judges_together(chunk)) {
            judge_together(chunk);
        } else if (launches_ == Launches::graph && one_epoch_a_frame() && chunk.frames == chunk.room) {
            judge_by_graph(chunk);
        } else {
            judge_one_by_one(chunk);
        }
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            bands_[b].device->record(bands_[b].compute, chunk.bands[b].judged);
        }
    }

    [[nodiscard]] bool one_epoch_a_frame() const {
        return options_.epoch == 1 && bands_.size() == 1 && bands_.front().models.size() == 1;
    }

    void judge_one_by_one(Chunk& chunk) {
        for (std::int64_t f = 0; f < chunk.frames;) {
            const auto stream = (next_ + static_cast<std::uint64_t>(f)) % bands_.front().models.size();
            std::int64_t count = 1;
            if (bands_.front().models.size() == 1) {
                count = std::min(chunk.frames - f, options_.epoch - bands_.front().models[stream].in_epoch);
            }
            bool ended = false;
            for (std::size_t b = 0; b < bands_.size(); ++b) {
                ended = judge(bands_[b], chunk.bands[b], bands_[b].models[stream], f, count);
            }
            if (ended && bands_.size() > 1) exchange(stream);
            f += count;
        }
    }

    // The launches of a whole chunk, kept as a graph for each of the models that may be the first.
    void judge_by_graph(Chunk& chunk) {
        auto& band = bands_.front();
        auto& model = band.models.front();
        auto& graph = chunk.bands.front().graphs[model.current];
        const int before = model.current;
        if (!graph) {
            band.device->begin_capture(band.compute);
            judge_one_by_one(chunk);
            graph = band.device->end_capture(band.compute);
        }
        band.device->replay(band.compute, *graph);
        model.current = chunk.frames % 2 == 0 ? before : 1 - before;
    }

    [[nodiscard]] bool judges_together(const Chunk& chunk) const {
        if (!one_epoch_a_frame() || chunk.frames < 2) return false;
        return launches_ == Launches::persistent || (launches_ == Launches::automatic && all_tiles_fit_);
    }

    void judge_together(Chunk& chunk) {
        auto& band = bands_.front();
        auto& model = band.models.front();
        auto p = parameters(band, chunk.bands.front(), 0);
        p.frame_count = static_cast<std::int32_t>(chunk.frames);
        p.begins = true;
        p.mean = model.mean[model.current].data();
        p.variance = model.variance[model.current].data();
        p.next_mean = model.mean[1 - model.current].data();
        p.next_variance = model.variance[1 - model.current].data();
        p.generations = band.generations.data();
        p.generation = band.generation;
        auto shape = judge_shape(band.plan());
        shape.early = false;
        shape.cooperative = true;
        band.device->launch(band.compute, kernels_.judge_many, shape, p);
        band.generation += static_cast<std::uint32_t>(chunk.frames);
        if (chunk.frames % 2 == 1) model.current = 1 - model.current;
    }

    // True where the launch ends the epoch.
    bool judge(const Band& band, const BandChunk& c, DeviceModel& model, std::int64_t first,
               std::int64_t count) {
        auto p = parameters(band, c, first);
        const bool ends = advance(model, count, options_.epoch, p);
        auto shape = judge_shape(band.plan());
        shape.early = launches_ != Launches::separate;
        band.device->launch(band.compute, kernels_.judge, shape, p);
        return ends;
    }

    // Of a launch from frame `first` of a chunk on; its model and its number of frames are still to be filled
    // in.
    static JudgeParameters parameters(const Band& band, const BandChunk& c, std::int64_t first) {
        auto p = band.launch;
        p.frames = c.frames.data() + first * band.plan().pixels;
        p.photons = c.photons.data() + first * band.plan().map_words();
        p.residuals = c.residuals.data() + first * band.plan().pixels;
        p.absent = c.numbers.data() + k_absent_value;
        return p;
    }

    // Gives every band the new means of the rows beyond its own. A neighbour writes to what is read here only
    // two epochs later, after it has waited for this band's next epoch.
    void exchange(std::size_t stream) {
        for (auto& band : bands_) band.device->record(band.compute, band.epoch_ended);
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            auto& band = bands_[b];
            const auto take = [&](const Band& other, std::int64_t first, std::int64_t last) {
                if (first >= last) return;
                band.device->wait(band.compute, other.epoch_ended);
                const auto& from = other.models[stream];
                auto& to = band.models[stream];
                band.device->copy(
                    band.compute, to.mean[to.current].data() + (first - band.memory_first()) * shape_.columns,
                    from.mean[from.current].data() + (first - other.memory_first()) * shape_.columns,
                    static_cast<std::size_t>((last - first) * shape_.columns) * sizeof(float));
            };
            if (b > 0) take(bands_[b - 1], band.memory_first(), band.first_row);
            if (b + 1 < bands_.size()) take(bands_[b + 1], band.last_row, band.memory_last());
        }
    }

    // Queues what makes a list of clusters of a chunk that is judged.
    void list(std::size_t b, Chunk& chunk) {
        const auto& band = bands_[b];
        auto& c = chunk.bands[b];
        auto& device = *band.device;
        device.wait(band.results, c.judged);
        const auto frames = static_cast<std::int32_t>(chunk.frames);
        device.launch(band.results, kernels_.scan, scan_shape(frames),
                      ScanParameters{.plan = band.plan(),
                                     .photons = c.photons.data(),
                                     .starts = c.starts.data(),
                                     .counts = c.counts.data(),
                                     .host_counts = c.host_counts.data(),
                                     .absent = c.numbers.data() + k_absent_value,
                                     .host_absent = c.host_numbers.data() + k_absent_value});
        device.record(band.results, c.counted);
        if (consumer_) consumer_->consume(b, frames, c.photons.data(), c.residuals.data());
        if (wants_clusters_) {
            write_lists(band, c, frames);
        } else {
            device.record(band.results, c.listed);
        }
    }
    void write_lists(const Band& band, BandChunk& c, std::int32_t frames) {
        auto& device = *band.device;
        device.launch(band.results, kernels_.list, list_shape(band.plan(), frames),
                      ListParameters{.plan = band.plan(),
                                     .frame_count = frames,
                                     .photons = c.photons.data(),
                                     .starts = c.starts.data(),
                                     .counts = c.counts.data(),
                                     .capacity = c.capacity,
                                     .places = c.places.data(),
                                     .list = c.list.data(),
                                     .total = c.numbers.data() + k_total});
        device.launch(band.results, kernels_.cells, cells_shape(),
                      CellsParameters{.plan = band.plan(),
                                      .places = c.places.data(),
                                      .total = c.numbers.data() + k_total,
                                      .capacity = c.capacity,
                                      .residuals = c.residuals.data(),
                                      .list = c.list.data(),
                                      .narrow = options_.payload == Payload::int16,
                                      .misfit = c.numbers.data() + k_misfit});
        device.record(band.results, c.listed);
    }

    // Queues the copies out of every chunk that is counted by now, in order.
    void issue_ready() {
        for (auto* chunk : in_flight_) {
            if (chunk->issued) continue;
            for (std::size_t b = 0; b < bands_.size(); ++b) {
                if (!bands_[b].device->done(chunk->bands[b].counted)) return;
            }
            issue(*chunk);
        }
    }

    // Queues the copies out of a chunk; waits until its clusters are counted.
    void issue(Chunk& chunk) {
        auto& slot = *chunk.slot;
        const auto frames = static_cast<std::size_t>(chunk.frames);
        std::vector<std::size_t> of_band(bands_.size(), 0);
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            auto& c = chunk.bands[b];
            bands_[b].device->synchronize(c.counted);
            for (std::size_t f = 0; f < frames; ++f) of_band[b] += c.host_counts.data()[f];
            if (wants_clusters_ && of_band[b] > c.capacity) {
                bands_[b].device->synchronize(c.listed);
                grow_lists(bands_[b], c, of_band[b] + of_band[b] / 4);
                write_lists(bands_[b], c, static_cast<std::int32_t>(frames));
            }
        }
        chunk.first_cluster = slot.count;
        for (std::size_t f = 0; f < frames; ++f) {
            for (const auto& c : chunk.bands) slot.count += c.host_counts.data()[f];
            slot.ends.push_back(slot.count);
        }
        if (wants_clusters_ && slot.count > slot.capacity) {
            // Chunks before this one may be on their way into the memory that is about to move.
            for (auto* earlier : in_flight_) {
                if (earlier->slot != &slot || !earlier->issued) continue;
                await_copies(*earlier);
            }
            slot.reserve(slot.count, chunk.first_cluster, cell_bytes_);
        }
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            auto& c = chunk.bands[b];
            if (!wants_clusters_) {
                bands_[b].device->wait(bands_[b].out, c.listed);
                bands_[b].device->record(bands_[b].out, c.copied);
                continue;
            }
            auto& to = bands_.size() == 1 ? slot : *c.merge;
            if (bands_.size() > 1) {
                to.begin(true);
                to.reserve(of_band[b], 0, cell_bytes_);
            }
            if (to.packed) to.stride = of_band[b];
            copy_out(bands_[b], c, to, bands_.size() == 1 ? chunk.first_cluster : 0, of_band[b]);
        }
        chunk.issued = true;
    }

    void copy_out(const Band& band, const BandChunk& c, PinnedSlot& to, std::size_t first,
                  std::size_t count) {
        auto& device = *band.device;
        device.wait(band.out, c.listed);
        const auto* list = c.list.data();
        const auto cells = count * cell_bytes_;
        if (to.packed) {
            device.copy_out(band.out, to.rows(), list, cells_at(count) * sizeof(std::uint32_t) + cells);
        } else {
            device.copy_out(band.out, to.rows() + first, list, count * sizeof(std::uint32_t));
            device.copy_out(band.out, to.columns() + first, list + count, count * sizeof(std::uint32_t));
            device.copy_out(band.out, to.cells(first, cell_bytes_), list + cells_at(count), cells);
        }
        if (options_.payload == Payload::int16) {
            device.copy_out(band.out, c.host_numbers.data() + k_misfit, c.numbers.data() + k_misfit,
                            sizeof(unsigned long long));
        }
        device.record(band.out, c.copied);
    }

    void await_copies(const Chunk& chunk) const {
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            bands_[b].device->synchronize(chunk.bands[b].copied);
        }
    }

    // Waits until the oldest chunk is here, and frees it.
    void retire() {
        auto& chunk = *in_flight_.front();
        if (!chunk.issued) issue(chunk);
        issue_ready();
        await_copies(chunk);
        in_flight_.pop_front();
        --chunk.slot->pending;
        for (const auto& c : chunk.bands) {
            absent_.absent_value += c.host_numbers.data()[k_absent_value];
            absent_.gain_bits += c.host_numbers.data()[k_absent_gain];
        }
        if (!wants_clusters_) return;
        if (bands_.size() > 1) merge(chunk);
        if (options_.payload == Payload::int16) refuse_misfit(chunk);
    }

    // Brings the bands' clusters into frame order: bands follow each other within a frame.
    void merge(Chunk& chunk) {
        auto& slot = *chunk.slot;
        std::vector<std::size_t> taken(bands_.size(), 0);
        auto to = chunk.first_cluster;
        for (std::size_t f = 0; f < static_cast<std::size_t>(chunk.frames); ++f) {
            for (std::size_t b = 0; b < bands_.size(); ++b) {
                const auto& from = *chunk.bands[b].merge;
                const std::size_t count = chunk.bands[b].host_counts.data()[f];
                std::copy_n(from.rows() + taken[b], count, slot.rows() + to);
                std::copy_n(from.columns() + taken[b], count, slot.columns() + to);
                std::copy_n(from.cells(taken[b], cell_bytes_), count * cell_bytes_,
                            slot.cells(to, cell_bytes_));
                taken[b] += count;
                to += count;
            }
        }
    }

    void refuse_misfit(const Chunk& chunk) const {
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            const auto& c = chunk.bands[b];
            const auto misfit = c.host_numbers.data()[k_misfit];
            if (misfit == 0) continue;
            const auto inverse = ~misfit;
            const auto cell = static_cast<std::int64_t>(inverse >> 18 & 0x3FFF);
            const auto cluster = static_cast<std::size_t>(inverse >> 32);
            const auto value = static_cast<std::int64_t>(inverse & 0x3FFFF) - (1 << 17);
            const auto& where = bands_.size() == 1 ? *chunk.slot : *c.merge;
            const auto at = (bands_.size() == 1 ? chunk.first_cluster : 0) + cluster;
            refuse_int16(value, where.rows()[at] + cell / options_.window.width - options_.window.height / 2,
                         where.columns()[at] + cell % options_.window.width - options_.window.width / 2);
        }
    }

    Shape shape_;
    FindOptions options_;
    Modules modules_;
    Model original_;
    std::vector<PixelState> state_;
    Kernels kernels_;
    std::size_t cell_bytes_;  // of a cluster
    std::size_t ring_size_;
    std::int64_t asked_chunk_;
    bool wants_clusters_;
    Launches launches_;
    bool all_tiles_fit_ = false;
    std::vector<Band> bands_;
    std::shared_ptr<DeviceConsumer> consumer_;  // none: null
    std::vector<std::unique_ptr<Chunk>> ring_;
    std::size_t turn_ = 0;  // of the next chunk to be filled
    std::vector<const Pixel*> pins_;
    std::deque<Chunk*> in_flight_;  // oldest first
    AbsentCounts absent_;
    std::vector<std::uint32_t> negatives_;  // before the first frame
    mutable std::vector<std::uint32_t> now_negative_;
    std::uint64_t next_;
    Team team_;
};

}  // namespace

std::vector<int> parse_devices(const std::string& text) {
    std::vector<int> devices;
    const char* at = text.data();
    const char* end = text.data() + text.size();
    while (true) {
        int index = 0;
        const auto [next, error] = std::from_chars(at, end, index);
        if (error != std::errc() || index < 0) break;
        devices.push_back(index);
        if (next == end) return devices;
        if (*next != ',') break;
        at = next + 1;
    }
    throw OptionError("devices", text, "numbers of GPUs with commas between, as in 0 or 0,1");
}

std::unique_ptr<Engine> make_cuda(const Setting& setting) {
    std::vector<std::shared_ptr<cuda::Device>> devices;
    for (const auto index : parse_devices(setting.speed.devices)) devices.push_back(cuda::open_device(index));
    return std::make_unique<Gpus>(setting, std::move(devices));
}

std::unique_ptr<Engine> make_emulated(const Setting& setting) {
    const auto count = static_cast<int>(parse_devices(setting.speed.devices).size());
    constexpr std::uint64_t k_seed = 20261201;
    return make_gpus(setting, cuda::emulated_devices(count, k_seed));
}

std::unique_ptr<Engine> make_gpus(const Setting& setting,
                                  std::vector<std::shared_ptr<cuda::Device>> devices) {
    return std::make_unique<Gpus>(setting, std::move(devices));
}

}  // namespace lightmill::clusters::detail

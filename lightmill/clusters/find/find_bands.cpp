// Threads over row bands. Every band carries its rows through all frames of a block and waits only
// for the bands beside it: for the means of their border rows, which they publish after each
// epoch. With rule per_stream there is one band a stream, the whole image, and nothing to wait for.

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>

#include "lightmill/base/team.hpp"
#include "lightmill/clusters/find/find_simd_internal.hpp"

namespace lightmill::clusters::detail {
namespace {

// A background in the kernel's padded memory.
struct PaddedModel {
    Buffer<Pixel> offset;
    Buffer<float> mean, variance;              // judges
    Buffer<float> learn_mean, learn_variance;  // learns; empty with epoch 1, where `mean` does both
};

// A band of rows of one stream and what its thread needs.
struct Lane {
    std::size_t stream = 0;
    std::int64_t first_row = 0, last_row = 0;
    std::int64_t in_epoch = 0;
    std::uint32_t epochs = 0;  // completed
    Workspace work;
    Found found;
    AbsentCounts absent;
    Misfit misfit;
    std::exception_ptr error;
    // Means of the first and last height/2 rows, for the bands above and below, and how many epochs
    // they have seen. Two copies, by the parity of that number: a neighbour is at most one behind,
    // since it had this band's rows of the epoch before in hand when it published its own.
    std::array<Buffer<float>, 2> top, bottom;
    Turnstile top_ready, bottom_ready;

    Lane(const RowLayout& layout, const Window& window) : work(layout, window) {}
};

class Bands final : public Engine {
  public:
    Bands(const Setting& setting, BandKernel kernel)
        : kernel_(kernel),
          shape_(setting.pedestal.shape),
          absent_rule_(setting.pedestal.absent),
          options_(setting.options),
          modules_(setting.modules),
          layout_(modules_.columns),
          original_(setting.pedestal.model),
          state_(setting.pedestal.state),
          start_absent_(setting.state.absent),
          negatives_(setting.state.negatives),
          next_(setting.state.frames),
          team_(team_size(setting)) {
        any_absent_ =
            absent_rule_.value || absent_rule_.gain_bits ||
            std::any_of(state_.begin(), state_.end(), [](PixelState s) { return s != PixelState::used; });
        for (const auto& model : setting.state.models) models_.push_back(pad(model));
        stream_negatives_.assign(models_.size(), std::vector<std::uint32_t>(state_.size(), 0));
        const int bands = options_.rule == Rule::per_stream ? 1 : team_.size();
        for (std::size_t stream = 0; stream < models_.size(); ++stream) {
            for (int band = 0; band < bands; ++band) {
                auto lane = std::make_unique<Lane>(layout_, options_.window);
                lane->stream = stream;
                lane->first_row = shape_.rows * band / bands;
                lane->last_row = shape_.rows * (band + 1) / bands;
                const auto border = static_cast<std::size_t>(options_.window.height / 2 * layout_.stride);
                for (auto half : {0U, 1U}) {
                    lane->top[half] = Buffer<float>(bands > 1 ? border : 0);
                    lane->bottom[half] = Buffer<float>(bands > 1 ? border : 0);
                }
                if (bands > 1) publish_top(*lane), publish_bottom(*lane);
                lanes_.push_back(std::move(lane));
            }
        }
    }

    void submit(const frames::Block& block, Slot& slot) override {
        const auto frames = block.pixels.extent(0);
        team_.for_each(lanes_.size(), [&](std::size_t i) { find_lane(i, block); });
        for (const auto& lane : lanes_) {
            if (lane->error) std::rethrow_exception(lane->error);
        }
        for (const auto& lane : lanes_) {
            if (lane->misfit.found) refuse_int16(lane->misfit.value, lane->misfit.row, lane->misfit.column);
        }
        if (lanes_.size() == 1) {
            std::swap(slot.found, lanes_.front()->found);
        } else {
            gather(frames, slot.found);
        }
        next_ += static_cast<std::uint64_t>(frames);
        count_absent();
    }

    void finish() override {
        for (auto& lane : lanes_) {
            if (lane->in_epoch > 0) end_epoch(*lane);
        }
        count_negatives();
    }

    void save(FinderState& state) const override {
        state.models.clear();
        for (const auto& model : models_) state.models.push_back(unpad(model));
        state.absent = absent_;
        state.negatives.assign(negatives().begin(), negatives().end());
    }

    const AbsentCounts& absent() const noexcept override { return absent_; }
    std::span<const std::uint32_t> negatives() const override {
        count_negatives();
        return negatives_;
    }
    int threads() const noexcept override { return team_.size(); }

    void for_each_frame(std::size_t frames, const std::function<void(std::size_t)>& work) override {
        team_.for_each(frames, work);
    }

  private:
    // A band must reach beyond its neighbour's window: height/2 rows at least.
    static int team_size(const Setting& setting) {
        const auto& options = setting.options;
        const auto most = options.rule == Rule::per_stream
                              ? options.streams
                              : setting.pedestal.shape.rows / std::max(options.window.height / 2, 1);
        return static_cast<int>(std::clamp<std::int64_t>(most, 1, setting.threads));
    }

    PaddedModel pad(const Model& model) const {
        const auto size = static_cast<std::size_t>(layout_.stride * shape_.rows);
        PaddedModel padded{Buffer<Pixel>(size, 0), Buffer<float>(size, 0), Buffer<float>(size, 0), {}, {}};
        for_each_pixel([&](std::size_t from, std::size_t to) {
            padded.offset[to] = model.offset[from];
            padded.mean[to] =
                state_[from] == PixelState::used ? model.mean[from] : std::numeric_limits<float>::quiet_NaN();
            padded.variance[to] = model.variance[from];
        });
        if (options_.epoch > 1) {
            padded.learn_mean = Buffer<float>(size);
            padded.learn_variance = Buffer<float>(size);
            std::memcpy(padded.learn_mean.data(), padded.mean.data(), size * sizeof(float));
            std::memcpy(padded.learn_variance.data(), padded.variance.data(), size * sizeof(float));
        }
        return padded;
    }

    Model unpad(const PaddedModel& padded) const {
        Model model = original_;  // absent pixels keep what they were trained to
        const auto& mean = options_.epoch > 1 ? padded.learn_mean : padded.mean;
        const auto& variance = options_.epoch > 1 ? padded.learn_variance : padded.variance;
        for_each_pixel([&](std::size_t to, std::size_t from) {
            if (state_[to] != PixelState::used) return;
            model.mean[to] = mean[from];
            model.variance[to] = variance[from];
        });
        return model;
    }

    // visit(index in the image, index in padded memory)
    template <class Visit>
    void for_each_pixel(Visit&& visit) const {
        for (std::int64_t row = 0; row < shape_.rows; ++row) {
            for (const auto& segment : layout_.segments) {
                for (std::int64_t x = 0; x < segment.columns; ++x) {
                    visit(static_cast<std::size_t>(row * shape_.columns + segment.first_column + x),
                          static_cast<std::size_t>(row * layout_.stride + segment.position + x));
                }
            }
        }
    }

    // Runs on the lane's thread. An error is kept and the frames go on being counted and published, so
    // that no neighbour waits for ever.
    void find_lane(std::size_t index, const frames::Block& block) {
        auto& lane = *lanes_[index];
        lane.found.clear();
        lane.misfit = {};
        for (std::int64_t f = 0; f < block.pixels.extent(0); ++f) {
            if ((next_ + static_cast<std::uint64_t>(f)) % models_.size() != lane.stream) continue;
            const Lane* above = lane.first_row > 0 ? lanes_[index - 1].get() : nullptr;
            const Lane* below = lane.last_row < shape_.rows ? lanes_[index + 1].get() : nullptr;
            if (above != nullptr) above->bottom_ready.wait_for(lane.epochs);
            if (!lane.error) {
                try {
                    kernel_(describe(lane, above, below, block.pixels[f].data()));
                    lane.found.ends.push_back(lane.found.count);
                } catch (...) {
                    lane.error = std::current_exception();
                }
            }
            if (++lane.in_epoch == options_.epoch) end_epoch(lane);
        }
    }

    BandFrame describe(Lane& lane, const Lane* above, const Lane* below, const Pixel* frame) {
        auto& model = models_[lane.stream];
        const auto half = lane.epochs % 2;
        const bool late = options_.epoch > 1;
        return {.frame = frame,
                .shape = shape_,
                .layout = &layout_,
                .module_rows = modules_.rows,
                .first_row = lane.first_row,
                .last_row = lane.last_row,
                .offset = model.offset.data(),
                .mean = model.mean.data(),
                .variance = model.variance.data(),
                .learn_mean = late ? model.learn_mean.data() : model.mean.data(),
                .learn_variance = late ? model.learn_variance.data() : model.variance.data(),
                .above = above != nullptr ? above->bottom[half].data() : nullptr,
                .below = below != nullptr ? below->top[half].data() : nullptr,
                .below_ready = below != nullptr ? &below->top_ready : nullptr,
                .generation = lane.epochs,
                .top = late || above == nullptr ? nullptr : lane.top[1 - half].data(),
                .top_ready = &lane.top_ready,
                .any_absent = any_absent_,
                .absent_value = absent_rule_.value ? *absent_rule_.value : -1,
                .gain_mask = absent_rule_.gain_bits ? 0xC000 : 0,
                .window = options_.window,
                .constants = Constants(options_),
                .ties_all = options_.ties == Ties::all,
                .payload = options_.payload,
                .work = &lane.work,
                .found = &lane.found,
                .negatives = stream_negatives_[lane.stream].data(),
                .absent = &lane.absent,
                .misfit = &lane.misfit};
    }

    void end_epoch(Lane& lane) {
        auto& model = models_[lane.stream];
        if (options_.epoch > 1) {
            const auto first = static_cast<std::size_t>(lane.first_row * layout_.stride);
            const auto bytes =
                static_cast<std::size_t>((lane.last_row - lane.first_row) * layout_.stride) * sizeof(float);
            std::memcpy(model.mean.data() + first, model.learn_mean.data() + first, bytes);
            std::memcpy(model.variance.data() + first, model.learn_variance.data() + first, bytes);
        }
        lane.in_epoch = 0;
        ++lane.epochs;
        if (lane.top[0].empty()) return;
        // With epoch 1 the kernel has published the top, unless it failed.
        if (lane.top_ready.value() != lane.epochs) publish_top(lane);
        publish_bottom(lane);
    }

    void publish_top(Lane& lane) const { publish(lane, lane.first_row, lane.top, lane.top_ready); }
    void publish_bottom(Lane& lane) const {
        publish(lane, lane.last_row - options_.window.height / 2, lane.bottom, lane.bottom_ready);
    }
    void publish(const Lane& lane, std::int64_t row, std::array<Buffer<float>, 2>& copies,
                 Turnstile& ready) const {
        const float* mean = models_[lane.stream].mean.data() + row * layout_.stride;
        auto& copy = copies[lane.epochs % 2];
        std::memcpy(copy.data(), mean, copy.size() * sizeof(float));
        ready.advance_to(lane.epochs);
    }

    // Brings the lanes' clusters into frame order: bands follow each other within a frame.
    void gather(std::int64_t frames, Found& out) {
        const auto cells = static_cast<std::size_t>(options_.window.cells());
        // pieces[frame][k]: which clusters of which lane, and where they go.
        struct Piece {
            const Lane* lane;
            std::size_t first, count, to;
        };
        std::vector<std::vector<Piece>> pieces(static_cast<std::size_t>(frames));
        std::vector<std::size_t> seen(lanes_.size(), 0);  // frames of the lane so far
        out.clear();
        for (std::size_t f = 0; f < pieces.size(); ++f) {
            for (std::size_t i = 0; i < lanes_.size(); ++i) {
                const auto& lane = *lanes_[i];
                if ((next_ + f) % models_.size() != lane.stream) continue;
                const auto first = seen[i] == 0 ? 0 : lane.found.ends[seen[i] - 1];
                const auto count = lane.found.ends[seen[i]++] - first;
                pieces[f].push_back({&lane, first, count, out.count});
                out.count += count;
            }
            out.ends.push_back(out.count);
        }
        const auto total = std::exchange(out.count, 0);
        out.reserve(total, cells, options_.payload);
        out.count = total;
        for_each_frame(pieces.size(), [&](std::size_t f) {
            for (const auto& piece : pieces[f]) {
                const auto& in = piece.lane->found;
                std::copy_n(in.rows.data() + piece.first, piece.count, out.rows.data() + piece.to);
                std::copy_n(in.columns.data() + piece.first, piece.count, out.columns.data() + piece.to);
                if (options_.payload == Payload::int32) {
                    std::copy_n(in.residuals.data() + piece.first * cells, piece.count * cells,
                                out.residuals.data() + piece.to * cells);
                } else {
                    std::copy_n(in.residuals16.data() + piece.first * cells, piece.count * cells,
                                out.residuals16.data() + piece.to * cells);
                }
            }
        });
    }

    void count_absent() {
        absent_ = start_absent_;
        for (const auto& lane : lanes_) {
            absent_.absent_value += lane->absent.absent_value;
            absent_.gain_bits += lane->absent.gain_bits;
        }
    }

    // Moves the streams' counts into the sum.
    void count_negatives() const {
        for (auto& counts : stream_negatives_) {
            for (std::size_t p = 0; p < counts.size(); ++p) negatives_[p] += std::exchange(counts[p], 0);
        }
    }

    BandKernel kernel_;
    Shape shape_;
    AbsentRule absent_rule_;
    FindOptions options_;
    Modules modules_;
    RowLayout layout_;
    Model original_;
    std::vector<PixelState> state_;
    bool any_absent_ = false;
    std::vector<PaddedModel> models_;
    AbsentCounts start_absent_, absent_ = start_absent_;
    mutable std::vector<std::uint32_t> negatives_;
    mutable std::vector<std::vector<std::uint32_t>> stream_negatives_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::uint64_t next_;
    Team team_;
};

}  // namespace

std::unique_ptr<Engine> make_bands(const Setting& setting, BandKernel kernel) {
    return std::make_unique<Bands>(setting, kernel);
}

}  // namespace lightmill::clusters::detail

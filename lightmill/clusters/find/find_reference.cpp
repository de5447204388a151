// The definition made executable: scalar, one step after the other, no trick. Everything else is
// tested against it bit for bit (docs/algorithms/clusters.md has the same steps in words).

#include <algorithm>
#include <cmath>

#include "lightmill/clusters/find/engine_internal.hpp"

namespace lightmill::clusters::detail {
namespace {

// One background with its place in its epoch.
struct Stream {
    Model judge;  // the model at the epoch's start: every frame of the epoch is judged with it
    Model learn;  // takes the samples, in frame order
    std::int64_t in_epoch = 0;
};

class Reference final : public Engine {
  public:
    explicit Reference(const Setting& setting)
        : shape_(setting.pedestal.shape),
          absent_rule_(setting.pedestal.absent),
          state_(setting.pedestal.state),
          options_(setting.options),
          constants_(setting.options),
          absent_(setting.state.absent),
          negatives_(setting.state.negatives),
          next_(setting.state.frames) {
        for (const auto& model : setting.state.models) streams_.push_back({model, model});
        v_.resize(state_.size());
        present_.resize(state_.size());
        row_module_ = module_ranges(setting.modules.rows);
        column_module_ = module_ranges(setting.modules.columns);
    }

    void submit(const frames::Block& block, Slot& slot) override {
        slot.found.clear();
        for (std::int64_t f = 0; f < block.pixels.extent(0); ++f) {
            auto& stream = streams_[next_++ % streams_.size()];
            find_frame(block.pixels[f].data(), stream, slot.found);
            slot.found.ends.push_back(slot.found.count);
            if (++stream.in_epoch == options_.epoch) end_epoch(stream);
        }
    }
    void finish() override {
        for (auto& stream : streams_) end_epoch(stream);
    }
    void save(FinderState& state) const override {
        state.models.clear();
        for (const auto& stream : streams_) state.models.push_back(stream.learn);
        state.absent = absent_;
        state.negatives = negatives_;
    }
    const AbsentCounts& absent() const noexcept override { return absent_; }
    std::span<const std::uint32_t> negatives() const override { return negatives_; }
    int threads() const noexcept override { return 1; }

  private:
    struct Range {
        std::int64_t first, last;  // half-open
    };
    // For each row (column): the rows (columns) of its module.
    static std::vector<Range> module_ranges(const std::vector<std::int64_t>& starts) {
        std::vector<Range> ranges;
        for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
            for (auto k = starts[i]; k < starts[i + 1]; ++k) ranges.push_back({starts[i], starts[i + 1]});
        }
        return ranges;
    }

    static void end_epoch(Stream& stream) {
        stream.judge.mean = stream.learn.mean;
        stream.judge.variance = stream.learn.variance;
        stream.in_epoch = 0;
    }

    std::size_t at(std::int64_t row, std::int64_t column) const noexcept {
        return static_cast<std::size_t>(row * shape_.columns + column);
    }

    void find_frame(const Pixel* frame, Stream& stream, Found& found) {
        const auto& model = stream.judge;
        for (std::size_t p = 0; p < v_.size(); ++p) {
            present_[p] = state_[p] == PixelState::used;
            if (present_[p] && absent_rule_.value && frame[p] == *absent_rule_.value) {
                present_[p] = false;
                ++absent_.absent_value;
            }
            if (present_[p] && absent_rule_.gain_bits && (frame[p] >> 14) != 0) {
                present_[p] = false;
                ++absent_.gain_bits;
            }
            v_[p] = static_cast<float>(int{frame[p]} - int{model.offset[p]}) - model.mean[p];
        }
        for (std::int64_t row = 0; row < shape_.rows; ++row) {
            for (std::int64_t column = 0; column < shape_.columns; ++column) {
                const auto p = at(row, column);
                if (!present_[p]) continue;
                if (judge(row, column, model.variance[p], found)) learn(frame, p, stream.learn);
            }
        }
    }

    // True where the pixel is background.
    bool judge(std::int64_t row, std::int64_t column, float variance, Found& found) {
        const float v = v_[at(row, column)];
        const float q = constants_.threshold * variance;
        if (v < 0 && v * v > q) {
            ++negatives_[at(row, column)];
            return false;
        }
        const std::int64_t dy = options_.window.height / 2;
        const std::int64_t dx = options_.window.width / 2;
        const Range rows = row_module_[static_cast<std::size_t>(row)];
        const Range columns = column_module_[static_cast<std::size_t>(column)];
        float maximum = v;
        float sum = 0;
        bool earlier_equal = false;
        for (auto c = std::max(column - dx, columns.first); c <= std::min(column + dx, columns.last - 1);
             ++c) {
            float total = 0;
            for (auto r = std::max(row - dy, rows.first); r <= std::min(row + dy, rows.last - 1); ++r) {
                if (!present_[at(r, c)]) continue;
                const float value = v_[at(r, c)];
                total += value;
                maximum = std::max(maximum, value);
                earlier_equal |= value == v && (r < row || (r == row && c < column));
            }
            sum += total;
        }
        const bool peak = maximum > 0 && maximum * maximum > q;
        const bool spread = sum > 0 && sum * sum > constants_.cells * q;
        if (!peak && !spread) return true;
        if (v == maximum && (options_.ties == Ties::all || !earlier_equal)) emit(row, column, found);
        return false;
    }

    void emit(std::int64_t row, std::int64_t column, Found& found) {
        const auto cells = static_cast<std::size_t>(options_.window.cells());
        found.reserve(1, cells, options_.payload);
        found.rows[found.count] = static_cast<std::uint32_t>(row);
        found.columns[found.count] = static_cast<std::uint32_t>(column);
        const std::int64_t dy = options_.window.height / 2;
        const std::int64_t dx = options_.window.width / 2;
        const Range rows = row_module_[static_cast<std::size_t>(row)];
        const Range columns = column_module_[static_cast<std::size_t>(column)];
        std::size_t i = found.count * cells;
        for (auto r = row - dy; r <= row + dy; ++r) {
            for (auto c = column - dx; c <= column + dx; ++c, ++i) {
                const bool inside =
                    r >= rows.first && r < rows.last && c >= columns.first && c < columns.last;
                const float value = inside && present_[at(r, c)] ? v_[at(r, c)] : 0.0F;
                const auto rounded = std::lrint(value);  // half to even: the default rounding
                if (options_.payload == Payload::int32) {
                    found.residuals[i] = static_cast<std::int32_t>(rounded);
                } else {
                    if (rounded < INT16_MIN || rounded > INT16_MAX) refuse_int16(rounded, r, c);
                    found.residuals16[i] = static_cast<std::int16_t>(rounded);
                }
            }
        }
        ++found.count;
    }

    void learn(const Pixel* frame, std::size_t p, Model& model) const {
        const float v = static_cast<float>(int{frame[p]} - int{model.offset[p]}) - model.mean[p];
        model.mean[p] = model.mean[p] + v * constants_.gain;
        model.variance[p] = constants_.keep * (model.variance[p] + (v * v) * constants_.gain);
    }

    Shape shape_;
    AbsentRule absent_rule_;
    std::vector<PixelState> state_;
    FindOptions options_;
    Constants constants_;
    std::vector<Stream> streams_;
    std::vector<Range> row_module_, column_module_;
    std::vector<float> v_;
    std::vector<std::uint8_t> present_;
    AbsentCounts absent_;
    std::vector<std::uint32_t> negatives_;
    std::uint64_t next_;
};

}  // namespace

std::unique_ptr<Engine> make_reference(const Setting& setting) {
    return std::make_unique<Reference>(setting);
}

}  // namespace lightmill::clusters::detail

// Rule raster: what aare 2026.3.17 does, step by step. Sums in double, the background changing while
// the frame is scanned, the total in row-major order, the maximum from 0, a root, halves away from
// zero, every tied pixel a cluster. Here for cross-checks and for those who move over; a test
// compares it with that release cluster for cluster.

#include <cmath>

#include "lightmill/clusters/find/engine_internal.hpp"

namespace lightmill::clusters::detail {
namespace {

class Raster final : public Engine {
  public:
    explicit Raster(const Setting& setting)
        : shape_(setting.pedestal.shape),
          absent_rule_(setting.pedestal.absent),
          state_(setting.pedestal.state),
          options_(setting.options),
          modules_(setting.modules),
          samples_(static_cast<double>(setting.options.memory)),
          sum_(setting.state.raster_sum),
          square_(setting.state.raster_square),
          absent_(setting.state.absent),
          negatives_(setting.state.negatives) {
        mean_.resize(sum_.size());
        for (std::size_t p = 0; p < sum_.size(); ++p) mean_[p] = sum_[p] / samples_;
        present_.resize(sum_.size());
    }

    void submit(const frames::Block& block, Slot& slot) override {
        slot.found.clear();
        for (std::int64_t f = 0; f < block.pixels.extent(0); ++f) {
            find_frame(block.pixels[f].data(), slot.found);
            slot.found.ends.push_back(slot.found.count);
        }
    }
    void finish() override {}
    void save(FinderState& state) const override {
        state.raster_sum = sum_;
        state.raster_square = square_;
        state.absent = absent_;
        state.negatives = negatives_;
    }
    const AbsentCounts& absent() const noexcept override { return absent_; }
    std::span<const std::uint32_t> negatives() const override { return negatives_; }
    int threads() const noexcept override { return 1; }

  private:
    void find_frame(const Pixel* frame, Found& found) {
        for (std::size_t p = 0; p < present_.size(); ++p) {
            present_[p] = state_[p] == PixelState::used;
            if (present_[p] && absent_rule_.value && frame[p] == *absent_rule_.value) {
                present_[p] = false;
                ++absent_.absent_value;
            }
            if (present_[p] && absent_rule_.gain_bits && (frame[p] >> 14) != 0) {
                present_[p] = false;
                ++absent_.gain_bits;
            }
        }
        for (std::size_t i = 0; i + 1 < modules_.rows.size(); ++i) {
            for (auto row = modules_.rows[i]; row < modules_.rows[i + 1]; ++row) {
                for (std::size_t k = 0; k + 1 < modules_.columns.size(); ++k) {
                    const Box box{modules_.rows[i], modules_.rows[i + 1], modules_.columns[k],
                                  modules_.columns[k + 1]};
                    for (auto column = box.first_column; column < box.last_column; ++column)
                        judge(frame, row, column, box, found);
                }
            }
        }
    }

    struct Box {
        std::int64_t first_row, last_row, first_column, last_column;  // half-open
    };

    std::size_t at(std::int64_t row, std::int64_t column) const noexcept {
        return static_cast<std::size_t>(row * shape_.columns + column);
    }

    void judge(const Pixel* frame, std::int64_t row, std::int64_t column, const Box& box, Found& found) {
        const auto p = at(row, column);
        if (!present_[p]) return;
        const double value = frame[p] - mean_[p];
        const double variance = square_[p] / samples_ - mean_[p] * mean_[p];
        const double noise = std::sqrt(variance);
        if (value < -options_.n_sigma * noise) {
            ++negatives_[p];
            return;
        }
        const std::int64_t dy = options_.window.height / 2;
        const std::int64_t dx = options_.window.width / 2;
        double maximum = 0;
        double total = 0;
        for (auto r = row - dy; r <= row + dy; ++r) {
            for (auto c = column - dx; c <= column + dx; ++c) {
                if (r < box.first_row || r >= box.last_row || c < box.first_column || c >= box.last_column)
                    continue;
                if (!present_[at(r, c)]) continue;
                const double neighbour = frame[at(r, c)] - mean_[at(r, c)];
                total += neighbour;
                maximum = std::max(maximum, neighbour);
            }
        }
        const double spread = std::sqrt(static_cast<double>(options_.window.cells()));
        if (!(maximum > options_.n_sigma * noise) && !(total > spread * options_.n_sigma * noise)) {
            const double x = frame[p];
            sum_[p] += x - sum_[p] / samples_;
            square_[p] += x * x - square_[p] / samples_;
            mean_[p] = sum_[p] / samples_;
            return;
        }
        if (value == maximum) emit(frame, row, column, box, found);
    }

    void emit(const Pixel* frame, std::int64_t row, std::int64_t column, const Box& box, Found& found) {
        const auto cells = static_cast<std::size_t>(options_.window.cells());
        found.reserve(1, cells, options_.payload);
        found.rows[found.count] = static_cast<std::uint32_t>(row);
        found.columns[found.count] = static_cast<std::uint32_t>(column);
        const std::int64_t dy = options_.window.height / 2;
        const std::int64_t dx = options_.window.width / 2;
        std::size_t i = found.count * cells;
        for (auto r = row - dy; r <= row + dy; ++r) {
            for (auto c = column - dx; c <= column + dx; ++c, ++i) {
                const bool inside =
                    r >= box.first_row && r < box.last_row && c >= box.first_column && c < box.last_column;
                const std::int64_t rounded =
                    inside && present_[at(r, c)] ? std::lround(frame[at(r, c)] - mean_[at(r, c)]) : 0;
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

    Shape shape_;
    AbsentRule absent_rule_;
    std::vector<PixelState> state_;
    FindOptions options_;
    Modules modules_;
    double samples_;  // as many as the pedestal was trained on
    std::vector<double> sum_, square_, mean_;
    std::vector<std::uint8_t> present_;
    AbsentCounts absent_;
    std::vector<std::uint32_t> negatives_;
};

}  // namespace

std::unique_ptr<Engine> make_raster(const Setting& setting) {
    return std::make_unique<Raster>(setting);
}

}  // namespace lightmill::clusters::detail

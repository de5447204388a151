#include "lightmill/clusters/run/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "lightmill/base/error.hpp"
#include "lightmill/clusters/find/find.hpp"
#include "lightmill/clusters/run/blocks_internal.hpp"
#include "lightmill/clusters/sink/result_file.hpp"

namespace lightmill::clusters {
namespace {

constexpr std::array<std::string_view, 5> k_test_names{"absent", "negative", "maximum", "sum", "background"};

// The half-open range of the module that holds `at`.
struct Range {
    std::int64_t first = 0, last = 0;
};
Range module_of(std::int64_t at, std::int64_t size, const std::vector<std::int64_t>& starts) {
    Range range{0, size};
    for (const auto start : starts) {
        if (start <= at) range.first = start;
        if (start > at) {
            range.last = start;
            break;
        }
    }
    return range;
}

// The definition for one pixel, word for word (docs/algorithms/clusters.md).
Judgement judge(const ResultInfo& info, const Pedestal& pedestal, const Model& model,
                const View<const Pixel, 2>& frame, std::int64_t row, std::int64_t column) {
    const auto& find = info.find;
    const auto at = [&](std::int64_t r, std::int64_t c) {
        return static_cast<std::size_t>(r * pedestal.shape.columns + c);
    };
    const auto absent = [&](std::int64_t r, std::int64_t c) {
        return pedestal.state[at(r, c)] != PixelState::used || pedestal.absent(frame(r, c));
    };
    const auto residual = [&](std::int64_t r, std::int64_t c) {
        const auto p = at(r, c);
        return static_cast<float>(std::int32_t{frame(r, c)} - std::int32_t{model.offset[p]}) - model.mean[p];
    };
    Judgement j;
    const auto p = at(row, column);
    j.value = frame(row, column);
    j.mean = static_cast<float>(model.offset[p]) + model.mean[p];
    j.variance = model.variance[p];
    j.threshold = static_cast<float>(find.n_sigma * find.n_sigma) * j.variance;
    j.sum_threshold = static_cast<float>(find.window.cells()) * j.threshold;
    if (absent(row, column)) {
        j.test = DecidedBy::absent;
        return j;
    }
    const auto v = j.residual = residual(row, column);
    j.maximum = v;
    j.holds_maximum = true;
    const auto rows = module_of(row, pedestal.shape.rows, info.module_rows);
    const auto columns = module_of(column, pedestal.shape.columns, info.module_columns);
    for (auto c = std::max(column - find.window.width / 2, columns.first);
         c < std::min(column + find.window.width / 2 + 1, columns.last); ++c) {
        float total = 0;
        for (auto r = std::max(row - find.window.height / 2, rows.first);
             r < std::min(row + find.window.height / 2 + 1, rows.last); ++r) {
            if (absent(r, c)) continue;
            const auto other = residual(r, c);
            total += other;
            j.maximum = std::max(j.maximum, other);
            const bool earlier = r < row || (r == row && c < column);
            if (other > v || (other == v && earlier && find.ties == Ties::first)) j.holds_maximum = false;
        }
        j.sum += total;
    }
    if (v < 0 && v * v > j.threshold) {
        j.test = DecidedBy::negative;
    } else if (j.maximum > 0 && j.maximum * j.maximum > j.threshold) {
        j.test = DecidedBy::maximum;
    } else if (j.sum > 0 && j.sum * j.sum > j.sum_threshold) {
        j.test = DecidedBy::sum;
    }
    j.photon = j.holds_maximum && (j.test == DecidedBy::maximum || j.test == DecidedBy::sum);
    return j;
}

// What differs between the clusters of one frame; index and number are the caller's.
std::optional<Difference> compare(const ClustersView& stored, const ClustersView& found, std::size_t frame) {
    auto s = stored.offsets[frame];
    auto f = found.offsets[frame];
    const auto place = [](const ClustersView& view, std::uint64_t i, std::uint64_t end) {
        return i == end ? std::pair{INT64_MAX, INT64_MAX}
                        : std::pair{std::int64_t{view.rows[i]}, std::int64_t{view.columns[i]}};
    };
    const auto cells = static_cast<std::uint64_t>(stored.window.cells());
    for (;; ++s, ++f) {
        const auto at_stored = place(stored, s, stored.offsets[frame + 1]);
        const auto at_found = place(found, f, found.offsets[frame + 1]);
        if (at_stored != at_found) {
            const auto& [row, column] = std::min(at_stored, at_found);
            return Difference{
                .kind = at_stored < at_found ? Difference::Kind::extra : Difference::Kind::missing,
                .row = row,
                .column = column,
                .stored = static_cast<std::int64_t>(stored.count(frame)),
                .expected = static_cast<std::int64_t>(found.count(frame)),
                .judgement = {}};
        }
        if (at_stored.first == INT64_MAX) return std::nullopt;
        for (std::uint64_t cell = 0; cell < cells; ++cell) {
            const auto a = stored.residual(s * cells + cell);
            const auto b = found.residual(f * cells + cell);
            if (a == b) continue;
            return Difference{.kind = Difference::Kind::residual,
                              .row = at_stored.first,
                              .column = at_stored.second,
                              .cell_row = static_cast<std::int64_t>(cell) / stored.window.width,
                              .cell_column = static_cast<std::int64_t>(cell) % stored.window.width,
                              .stored = a,
                              .expected = b,
                              .judgement = {}};
        }
    }
}

class Comparison {
  public:
    Comparison(const ResultReader& reader, frames::Source& source, const SpeedOptions& speed,
               const ProgressFunction& progress, const std::stop_token& stop)
        : reader_(reader),
          info_(reader.info()),
          source_(source),
          speed_(speed),
          progress_(progress),
          stop_(stop),
          pedestal_(reader.pedestal()) {
        speed_.hashes = false;
        const auto& shape = source.description().shape;
        if (shape != info_.shape) {
            throw OptionError(
                "frames",
                fmt::format("{}x{} pixels in {}", shape.rows, shape.columns, source.description().name),
                fmt::format("{}x{} (rows x columns), the shape of the result", info_.shape.rows,
                            info_.shape.columns));
        }
    }

    // stored_model: digest of the model in the file.
    std::optional<Difference> operator()(const std::string& stored_model) {
        const auto count = source_.description().count;
        if (count < info_.frames || (info_.complete && count > info_.frames)) {
            return Difference{.kind = Difference::Kind::frames,
                              .frame_index = std::min(count, info_.frames),
                              .stored = static_cast<std::int64_t>(info_.frames),
                              .expected = static_cast<std::int64_t>(count),
                              .judgement = {}};
        }
        Finder finder(pedestal_, info_.find, speed_, info_.module_rows, info_.module_columns);
        state_ = finder.state();
        const auto block = detail::block_frames(info_.shape, info_.find);
        while (finder.frames() < info_.frames) {
            if (stop_.stop_requested()) {
                throw Error(ErrorCode::interrupted,
                            fmt::format("stopped after {} of {} frames, all of them equal so far",
                                        finder.frames(), info_.frames));
            }
            const auto first = finder.frames();
            if (finder.between_epochs()) state_ = finder.state();
            const auto n = detail::next_count(first, info_.frames, block, info_.find);
            const auto frames = source_.read(first, n, storage_);
            const auto batch = finder.find(frames);
            const auto stored = reader_.read(first, n);
            if (auto difference = compare_block(stored.view(), batch.view())) return difference;
            if (progress_) progress_({.done = finder.frames(), .total = info_.frames});
        }
        if (info_.frames == count) finder.finish();
        if (!finder.between_epochs() || finder.model_digest() == stored_model) return std::nullopt;
        return Difference{.kind = Difference::Kind::model, .frame_index = info_.frames, .judgement = {}};
    }

  private:
    std::optional<Difference> compare_block(const ClustersView& stored, const ClustersView& found) {
        for (std::size_t f = 0; f < stored.frames(); ++f) {
            std::optional<Difference> difference;
            if (stored.numbers[f] != found.numbers[f]) {
                difference = Difference{.kind = Difference::Kind::frame_number,
                                        .stored = static_cast<std::int64_t>(stored.numbers[f]),
                                        .expected = static_cast<std::int64_t>(found.numbers[f]),
                                        .judgement = {}};
            } else {
                difference = compare(stored, found, f);
            }
            if (!difference) continue;
            difference->frame_index = stored.first_index + f;
            difference->frame_number = found.numbers[f];
            if (difference->kind != Difference::Kind::frame_number && info_.find.rule != Rule::raster)
                difference->judgement = judgement(*difference);
            return difference;
        }
        return std::nullopt;
    }

    // Goes from the last known state to the start of the frame's epoch, and judges there.
    Judgement judgement(const Difference& difference) {
        const auto index = difference.frame_index;
        const auto start = index - index % detail::epoch_frames(info_.find);
        Finder finder(pedestal_, info_.find, speed_, state_, info_.module_rows, info_.module_columns);
        const auto block = detail::block_frames(info_.shape, info_.find);
        while (finder.frames() < start) {
            const auto n = std::min(block, start - finder.frames());
            static_cast<void>(finder.find(source_.read(finder.frames(), n, storage_)));
        }
        const auto models = finder.state().models;
        const auto& model = models[index % models.size()];
        const auto frame = source_.read(index, 1, storage_);
        // Where the file has a cluster that cannot be, there is still a pixel to judge.
        return judge(info_, pedestal_, model, frame.pixels[0], difference.row, difference.column);
    }

    const ResultReader& reader_;
    const ResultInfo& info_;
    frames::Source& source_;
    SpeedOptions speed_;
    const ProgressFunction& progress_;
    const std::stop_token& stop_;
    Pedestal pedestal_;
    FinderState state_;
    frames::Storage storage_;
};

}  // namespace

std::string_view name(DecidedBy test) noexcept {
    return k_test_names[static_cast<std::size_t>(test)];
}

std::string Judgement::text() const {
    if (test == DecidedBy::absent)
        return fmt::format("value {} ADU is absent, so the pixel is judged by nothing", value);
    const auto sigma = std::sqrt(variance);
    auto words = fmt::format(
        "value {} ADU, mean {:.3f}, sigma {:.3f}, residual v = {:.3f}, maximum M = {:.3f}, sum S = {:.3f}; ",
        value, mean, sigma, residual, maximum, sum);
    switch (test) {
        case DecidedBy::negative:
            words +=
                fmt::format("negative, as v < 0 and v² = {:.1f} > {:.1f}", residual * residual, threshold);
            break;
        case DecidedBy::maximum:
            words +=
                fmt::format("the maximum decides, as M² = {:.1f} > {:.1f}", maximum * maximum, threshold);
            break;
        case DecidedBy::sum:
            words += fmt::format("the sum decides, as S² = {:.1f} > {:.1f}", sum * sum, sum_threshold);
            break;
        default:
            words += fmt::format("background, as M² = {:.1f} and S² = {:.1f} stay within {:.1f} and {:.1f}",
                                 maximum * maximum, sum * sum, threshold, sum_threshold);
    }
    if (test == DecidedBy::maximum || test == DecidedBy::sum) {
        words += photon ? ", and the pixel holds it: a photon" : ", but another pixel holds it: a neighbour";
        if (test == DecidedBy::sum) {
            words = words.substr(0, words.rfind(", ")) +
                    (photon ? ", and the pixel holds the maximum: a photon"
                            : ", but another pixel holds the maximum: a neighbour");
        }
    }
    return words;
}

std::string Difference::text() const {
    const auto where =
        fmt::format("frame {} (number {}), row {}, column {}", frame_index, frame_number, row, column);
    std::string words;
    switch (kind) {
        case Kind::frames:
            return fmt::format("the file has {} frames, the source has {}", stored, expected);
        case Kind::model:
            return fmt::format(
                "all clusters of {} frames agree, but the background model at the end does not", frame_index);
        case Kind::frame_number:
            return fmt::format("frame {}: the file says number {}, the source says {}", frame_index, stored,
                               expected);
        case Kind::missing:
            words = fmt::format("{}: a cluster belongs here that the file does not have", where);
            break;
        case Kind::extra:
            words = fmt::format("{}: the file has a cluster that does not belong here", where);
            break;
        case Kind::residual:
            words = fmt::format("{}: cell ({}, {}) of the cluster is {} ADU in the file and must be {}",
                                where, cell_row, cell_column, stored, expected);
            break;
    }
    if (judgement) words += ". By the definition: " + judgement->text();
    return words;
}

VerifyReport verify(const std::string& path, frames::Source* frames, const SpeedOptions& speed,
                    const ProgressFunction& progress, const std::stop_token& stop) {
    const ResultReader reader(path);
    const auto& info = reader.info();
    VerifyReport report{.frames = info.frames,
                        .clusters = info.clusters,
                        .complete = info.complete,
                        .stored_digest = info.digest,
                        .digest = {},
                        .stored_model_digest = info.model_digest,
                        .model_digest = {},
                        .damaged_frame = {},
                        .compared = frames != nullptr,
                        .difference = {}};
    ResultDigest digest;
    for (std::uint64_t at = 0; at < info.frames;) {
        if (stop.stop_requested()) {
            throw Error(ErrorCode::interrupted,
                        fmt::format("stopped after {} of {} frames", at, info.frames));
        }
        auto block = reader.read_block(at);
        const auto stored = std::move(block.hashes);
        block.hashes.clear();
        const auto view = block.view();
        for (std::size_t f = 0; f < view.frames(); ++f) {
            block.hashes.push_back(hash_frame(view, f));
            if (block.hashes[f] != stored[f] && !report.damaged_frame) report.damaged_frame = at + f;
        }
        digest.add(block.view());
        at += view.frames();
        if (progress && frames == nullptr) progress({.done = at, .total = info.frames});
    }
    // A run that was stopped or killed before its first frame has nothing to say.
    report.digest = info.frames == 0 && info.digest.empty() ? std::string() : digest.hex();
    const bool model_known = !info.model_digest.empty();
    if (model_known) report.model_digest = model_digest(reader.state());
    if (frames != nullptr) {
        report.difference = Comparison(reader, *frames, speed, progress, stop)(
            model_known ? report.model_digest : model_digest(reader.state()));
    }
    return report;
}

}  // namespace lightmill::clusters

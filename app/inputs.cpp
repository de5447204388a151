#include "app/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "app/options_cli.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/frames/npy.hpp"

namespace lightmill::app {
namespace {

// "A:B" with either part optional. Throws OptionError.
std::pair<std::optional<std::uint64_t>, std::optional<std::uint64_t>> parse_range(std::string_view text,
                                                                                  const char* option,
                                                                                  const char* allowed) {
    const auto colon = text.find(':');
    auto part = [&](std::string_view digits) -> std::optional<std::uint64_t> {
        if (digits.empty()) return std::nullopt;
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error != std::errc{} || end != digits.data() + digits.size())
            throw OptionError(option, std::string(text), allowed);
        return value;
    };
    if (colon == std::string_view::npos) throw OptionError(option, std::string(text), allowed);
    return {part(text.substr(0, colon)), part(text.substr(colon + 1))};
}

constexpr const char* k_roi_allowed =
    "FIRST_ROW:LAST_ROW,FIRST_COLUMN:LAST_COLUMN, half-open, as in 0:256,128:512";
constexpr const char* k_frames_allowed = "FIRST:LAST, half-open, as in 100:200, :200 or 100:";

frames::Region parse_roi(const std::string& text, const frames::Shape& shape) {
    const auto comma = text.find(',');
    if (comma == std::string::npos) throw OptionError("roi", text, k_roi_allowed);
    const auto rows = parse_range(std::string_view(text).substr(0, comma), "roi", k_roi_allowed);
    const auto columns = parse_range(std::string_view(text).substr(comma + 1), "roi", k_roi_allowed);
    auto bound = [](const std::optional<std::uint64_t>& value, std::int64_t otherwise) {
        return value ? static_cast<std::int64_t>(std::min<std::uint64_t>(*value, INT64_MAX)) : otherwise;
    };
    return {bound(rows.first, 0), bound(rows.second, shape.rows), bound(columns.first, 0),
            bound(columns.second, shape.columns)};
}

// Another source, with its reads shown on a line of progress, until the program is asked to stop.
class WatchedSource final : public frames::Source {
  public:
    WatchedSource(frames::Source& source, const clusters::PedestalOptions& options, ProgressLine& line)
        : source_(&source), line_(&line), total_(source.description().count) {
        if (options.pedestal_frames > 0)
            total_ = std::min(total_, static_cast<std::uint64_t>(options.pedestal_frames));
    }
    const frames::Description& description() const noexcept override { return source_->description(); }
    frames::Block read(std::uint64_t first, std::uint64_t count, frames::Storage& storage) override {
        if (stop_.stop_requested()) {
            throw Error(
                ErrorCode::interrupted,
                fmt::format("stopped after {} of {} dark frames, before anything was written; begin again",
                            first, total_));
        }
        auto block = source_->read(first, count, storage);
        const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
        line_->show(progress_text("dark frames", first + count, total_, seconds));
        return block;
    }
    frames::Anomalies anomalies() const override { return source_->anomalies(); }

  private:
    frames::Source* source_;
    ProgressLine* line_;
    std::uint64_t total_;
    std::stop_token stop_ = stop_token();
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

void add_selection(CLI::App& verb, Selection& selection) {
    verb.add_option("--dataset", selection.dataset,
                    "dataset path in HDF5 files; else NeXus' default or the only 3-D dataset");
    verb.add_option("--frames", selection.frames,
                    "frames FIRST:LAST of the data, half-open, as in 0:1000 or 500:");
    verb.add_option("--roi", selection.roi,
                    "region r0:r1,c0:c1 of every frame, half-open, as in 0:256,0:512");
}

std::unique_ptr<frames::Source> open_frames(const std::vector<std::string>& files, const Selection& selection,
                                            bool with_frame_range) {
    std::vector<std::unique_ptr<frames::Source>> sources;
    for (const auto& file : files) sources.push_back(frames::open(file, {.dataset = selection.dataset}));
    auto source = sources.size() == 1 ? std::move(sources.front()) : frames::concatenate(std::move(sources));
    if (with_frame_range && !selection.frames.empty()) {
        const auto [first, last] = parse_range(selection.frames, "frames", k_frames_allowed);
        const auto count = source->description().count;
        source = frames::slice(std::move(source), first.value_or(0), last.value_or(count));
    }
    if (!selection.roi.empty()) {
        const auto region = parse_roi(selection.roi, source->description().shape);
        source = frames::crop(std::move(source), region);
    }
    return source;
}

std::vector<std::pair<std::string, std::string>> provenance(const Selection& selection) {
    std::vector<std::pair<std::string, std::string>> all;
    if (!selection.dataset.empty()) all.emplace_back("dataset", selection.dataset);
    if (!selection.frames.empty()) all.emplace_back("frames", selection.frames);
    if (!selection.roi.empty()) all.emplace_back("roi", selection.roi);
    return all;
}

Selection selection_from(const std::vector<std::pair<std::string, std::string>>& provenance) {
    Selection selection;
    for (const auto& [name, value] : provenance) {
        if (name == "dataset") selection.dataset = value;
        if (name == "frames") selection.frames = value;
        if (name == "roi") selection.roi = value;
    }
    return selection;
}

void add_training(CLI::App& verb, TrainingChoice& choice) {
    add_options(verb, choice.options);
    verb.add_option("--mask", choice.mask,
                    "pixels that are absent always: .npy of (rows, columns), non-zero = absent");
    verb.add_option("--absent", choice.absent,
                    "value of a pixel that never came, or none; 65535 in .raw files unless asked otherwise");
    verb.add_flag_function(
        "--gain-bits,!--no-gain-bits", [&choice](std::int64_t value) { choice.gain_bits = value > 0; },
        "pixels whose bits 14 and 15 are not zero are in another gain and absent; on for JUNGFRAU .raw");
}

clusters::AbsentRule absent_rule(const TrainingChoice& choice, const frames::Description& description,
                                 const clusters::AbsentRule& fallback) {
    clusters::AbsentRule rule{description.absent_value ? description.absent_value : fallback.value,
                              description.gain_bits || fallback.gain_bits};
    if (choice.absent == "none") {
        rule.value.reset();
    } else if (!choice.absent.empty()) {
        unsigned value = 0;
        const char* end = choice.absent.data() + choice.absent.size();
        const auto result = std::from_chars(choice.absent.data(), end, value);
        if (result.ec != std::errc{} || result.ptr != end || value > 65535)
            throw OptionError("absent", choice.absent, "0 to 65535, or none");
        rule.value = static_cast<frames::Pixel>(value);
    }
    if (choice.gain_bits) rule.gain_bits = *choice.gain_bits;
    return rule;
}

std::vector<std::uint8_t> read_mask(const TrainingChoice& choice, const Selection& selection,
                                    const frames::Shape& shape) {
    if (choice.mask.empty()) return {};
    auto [mask, found] = frames::read_npy_mask(choice.mask);
    if (found == shape) return mask;
    if (!selection.roi.empty()) {  // a mask of whole frames
        const auto region = parse_roi(selection.roi, found);
        if (region.last_row <= found.rows && region.last_column <= found.columns &&
            region.last_row - region.first_row == shape.rows &&
            region.last_column - region.first_column == shape.columns) {
            std::vector<std::uint8_t> part;
            for (auto row = region.first_row; row < region.last_row; ++row) {
                const auto* begin = mask.data() + row * found.columns;
                part.insert(part.end(), begin + region.first_column, begin + region.last_column);
            }
            return part;
        }
    }
    throw OptionError(
        "mask", fmt::format("{}x{} pixels in {}", found.rows, found.columns, choice.mask),
        fmt::format("{}x{} (rows x columns), the shape of the frames", shape.rows, shape.columns));
}

clusters::Pedestal train_on(frames::Source& dark, const Selection& selection, const TrainingChoice& choice,
                            const clusters::AbsentRule& rule, ProgressLine& line) {
    const auto mask = read_mask(choice, selection, dark.description().shape);
    WatchedSource watched(dark, choice.options, line);
    auto pedestal = clusters::train(watched, rule, mask, choice.options);
    line.show("");
    return pedestal;
}

}  // namespace lightmill::app

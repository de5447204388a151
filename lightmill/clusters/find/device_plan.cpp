#include <algorithm>
#include <limits>
#include <vector>

#include "lightmill/clusters/find/device_plan_internal.hpp"

namespace lightmill::clusters::detail {
namespace {

// Padded rows or columns: the image's, with `gap` times −1 before each module but the first.
std::vector<std::int64_t> padded(const std::vector<std::int64_t>& starts, std::int64_t gap) {
    std::vector<std::int64_t> places;
    for (std::size_t m = 0; m + 1 < starts.size(); ++m) {
        if (m > 0) places.insert(places.end(), static_cast<std::size_t>(gap), -1);
        for (auto k = starts[m]; k < starts[m + 1]; ++k) places.push_back(k);
    }
    return places;
}

}  // namespace

DevicePlan make_plan(const std::shared_ptr<cuda::Device>& device, cuda::Device::Queue queue,
                     const Modules& modules, const Window& window, std::int64_t first, std::int64_t last) {
    const std::int64_t hh = window.height / 2, hw = window.width / 2;
    const auto image_rows = modules.rows.back(), image_columns = modules.columns.back();
    const auto memory_first = std::max<std::int64_t>(0, first - hh);
    const auto memory_last = std::min(image_rows, last + hh);
    const auto rows = padded(modules.rows, hh), columns = padded(modules.columns, hw);
    const auto place_of_row = [&](std::int64_t row) {
        return std::find(rows.begin(), rows.end(), row) - rows.begin();
    };
    const auto own_rows = place_of_row(last - 1) - place_of_row(first) + 1;
    const auto tiles = (own_rows + k_tile_rows - 1) / k_tile_rows;
    std::vector<std::int32_t> row_of(static_cast<std::size_t>(tiles * k_tile_rows + 2 * hh), -1);
    for (std::size_t i = 0; i < row_of.size(); ++i) {
        const auto y = place_of_row(first) + static_cast<std::int64_t>(i) - hh;
        if (y < 0 || y >= static_cast<std::int64_t>(rows.size())) continue;
        const auto row = rows[static_cast<std::size_t>(y)];
        if (row >= memory_first && row < memory_last)
            row_of[i] = static_cast<std::int32_t>(row - memory_first);
    }
    const auto words = (static_cast<std::int64_t>(columns.size()) + 31) / 32;
    std::vector<std::int32_t> column_of(static_cast<std::size_t>(words * 32 + 2 * hw), -1);
    for (std::size_t x = 0; x < columns.size(); ++x) {
        column_of[x + static_cast<std::size_t>(hw)] = static_cast<std::int32_t>(columns[x]);
    }
    DevicePlan made{cuda::upload(device, queue, row_of), cuda::upload(device, queue, column_of), {}};
    made.plan = {.row_of = made.row_of.data(),
                 .column_of = made.column_of.data(),
                 .rows = static_cast<std::int32_t>(own_rows),
                 .words = static_cast<std::int32_t>(words),
                 .columns = static_cast<std::int32_t>(image_columns),
                 .pixels = static_cast<std::int32_t>((memory_last - memory_first) * image_columns),
                 .half_height = static_cast<std::int32_t>(hh),
                 .half_width = static_cast<std::int32_t>(hw),
                 .first_row = static_cast<std::int32_t>(memory_first)};
    return made;
}

DeviceModel make_model(const std::shared_ptr<cuda::Device>& device, cuda::Device::Queue queue,
                       const BandPlan& plan, const Model& model, std::span<const PixelState> state,
                       bool several_frames_an_epoch) {
    const auto first = static_cast<std::ptrdiff_t>(plan.first_row) * plan.columns;
    const auto part = [&](const std::vector<float>& values) {
        return std::vector<float>(values.begin() + first, values.begin() + first + plan.pixels);
    };
    auto mean = part(model.mean);
    const auto variance = part(model.variance);
    for (std::size_t p = 0; p < mean.size(); ++p) {
        if (state[static_cast<std::size_t>(first) + p] != PixelState::used) {
            mean[p] = std::numeric_limits<float>::quiet_NaN();
        }
    }
    DeviceModel made;
    for (int i : {0, 1}) {
        made.mean[i] = cuda::upload(device, queue, mean);
        made.variance[i] = cuda::upload(device, queue, variance);
    }
    if (several_frames_an_epoch) {
        made.learn_mean = cuda::upload(device, queue, mean);
        made.learn_variance = cuda::upload(device, queue, variance);
    }
    return made;
}

void take_pixels(std::span<const float> mean, std::span<const float> variance, std::size_t first,
                 std::span<const PixelState> state, Model& model) {
    for (std::size_t p = 0; p < mean.size(); ++p) {
        if (state[first + p] != PixelState::used) continue;
        model.mean[first + p] = mean[p];
        model.variance[first + p] = variance[p];
    }
}

JudgeParameters judge_parameters(const BandPlan& plan, const FindOptions& options, const AbsentRule& absent) {
    const Constants constants(options);
    JudgeParameters p{};
    p.plan = plan;
    p.threshold = constants.threshold;
    p.cells = constants.cells;
    p.gain = constants.gain;
    p.keep = constants.keep;
    p.absent_value = absent.value ? *absent.value : -1;
    p.gain_mask = absent.gain_bits ? 0xC000 : 0;
    p.ties_all = options.ties == Ties::all;
    return p;
}

bool advance(DeviceModel& model, std::int64_t count, std::int64_t epoch, JudgeParameters& parameters) {
    const bool ends = model.in_epoch + count == epoch;
    const int next = 1 - model.current;
    parameters.frame_count = static_cast<std::int32_t>(count);
    parameters.mean = model.mean[model.current].data();
    parameters.variance = model.variance[model.current].data();
    parameters.learn_mean = model.learn_mean.data();
    parameters.learn_variance = model.learn_variance.data();
    parameters.next_mean = ends ? model.mean[next].data() : nullptr;
    parameters.next_variance = ends ? model.variance[next].data() : nullptr;
    parameters.begins = model.in_epoch == 0;
    model.in_epoch = ends ? 0 : model.in_epoch + count;
    if (ends) model.current = next;
    return ends;
}

}  // namespace lightmill::clusters::detail

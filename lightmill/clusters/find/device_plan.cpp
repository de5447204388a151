#include <algorithm>

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
    DevicePlan made{upload(device, queue, row_of), upload(device, queue, column_of), {}};
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

}  // namespace lightmill::clusters::detail

#pragma once
// One pass along one axis. One table row per instruction set, and the reference.

#include <cstdint>
#include <span>
#include <string_view>

#include "lightmill/vision/image/image.hpp"
#include "lightmill/vision/image/resize_weights_internal.hpp"

namespace lightmill::vision::detail {

// Along a row: `out` has the rows of `in` and axis.output() columns.
using RowPass = void (*)(Pixels in, const Axis& axis, View<std::uint8_t, 3> out);
// Down a column: `out` has the columns of `in` and axis.output() rows.
using ColumnPass = void (*)(Pixels in, const Axis& axis, View<std::uint8_t, 3> out);

struct ResizeTarget {
    std::string_view name;  // "simd_avx512"
    RowPass rows;
    ColumnPass columns;
};

[[nodiscard]] ResizeTarget resize_reference() noexcept;
// Those that this machine has, best first.
[[nodiscard]] std::span<const ResizeTarget> resize_simd_targets();

}  // namespace lightmill::vision::detail

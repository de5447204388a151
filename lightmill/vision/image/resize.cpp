#include "lightmill/vision/image/resize.hpp"

#include <fmt/format.h>

#include <cstring>

#include "lightmill/base/error.hpp"
#include "lightmill/vision/image/resize_internal.hpp"

namespace lightmill::vision {
namespace {

detail::ResizeTarget target(std::string_view backend) {
    const auto simd = detail::resize_simd_targets();
    const auto reference = detail::resize_reference();
    if (backend == reference.name) return reference;
    if (backend == "auto") return simd.empty() ? reference : simd.front();
    for (const auto& candidate : simd)
        if (candidate.name == backend) return candidate;
    throw OptionError("backend", std::string(backend),
                      fmt::format("auto, or one of {}", fmt::join(resize_backends(), ", ")));
}

std::string text(const Size& size) {
    return fmt::format("{} rows × {} columns", size.rows, size.columns);
}

}  // namespace

std::span<const std::string_view> names(Filter) {
    static constexpr std::string_view k_names[] = {"lanczos", "bicubic"};
    return k_names;
}

std::vector<std::string_view> resize_backends() {
    std::vector<std::string_view> backends;
    for (const auto& simd : detail::resize_simd_targets()) backends.push_back(simd.name);
    backends.push_back(detail::resize_reference().name);
    return backends;
}

Image resize(Pixels image, const Size& size, Filter filter, std::string_view backend) {
    const auto passes = target(backend);
    const Size from{image.extent(0), image.extent(1)};
    if (from.rows < 1 || from.columns < 1 || image.extent(2) != k_channels)
        throw OptionError("image", text(from), "at least one pixel of three channels");
    if (size.rows < 1 || size.columns < 1 || size.rows > k_max_pixels / size.columns)
        throw OptionError("size", text(size), fmt::format("1 up to {} pixels", k_max_pixels));
    Image out(size);
    if (size == from) {
        std::memcpy(out.view().data(), image.data(), out.view().flat().size_bytes());
        return out;
    }
    const detail::Axis along(from.columns, size.columns, filter);
    const detail::Axis down(from.rows, size.rows, filter);
    // Rows first, then columns; an axis that keeps its size is left alone.
    if (size.rows == from.rows) {
        passes.rows(image, along, out.view());
    } else if (size.columns == from.columns) {
        passes.columns(image, down, out.view());
    } else {
        Image between({from.rows, size.columns});
        passes.rows(image, along, between.view());
        passes.columns(std::as_const(between).view(), down, out.view());
    }
    return out;
}

}  // namespace lightmill::vision

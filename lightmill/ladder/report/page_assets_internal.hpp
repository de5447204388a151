#pragma once
#include <string_view>

namespace lightmill::ladder::detail {

// page_style.css and page_script.js as they were at build time.
[[nodiscard]] std::string_view page_style() noexcept;
[[nodiscard]] std::string_view page_script() noexcept;

}  // namespace lightmill::ladder::detail

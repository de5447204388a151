#pragma once
#include <string_view>

namespace lightmill {

// What this binary is: filled in by the build.
[[nodiscard]] std::string_view version() noexcept;         // "0.1.0"
[[nodiscard]] std::string_view compiler() noexcept;        // "GNU 12.2.0"
[[nodiscard]] std::string_view compiler_flags() noexcept;  // of the build type
[[nodiscard]] std::string_view build_type() noexcept;

}  // namespace lightmill

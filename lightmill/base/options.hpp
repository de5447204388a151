#pragma once
// One description of an options struct feeds the program's flags, Python's keywords, the attributes
// of result files, reports and the ladder's checks.
//
// An options aggregate has, in its own namespace, a function
//     template <class Options, class Visitor> void visit_options(Options& options, Visitor&& visit);
// that calls visit(OptionInfo, field&) for each field, in order. Field types are bool, integers,
// double, std::string, std::optional of those, and enumerations that have
//     std::span<const std::string_view> names(EnumType);   // by value, in order
// found by argument-dependent look-up.

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lightmill/base/error.hpp"

namespace lightmill {

struct OptionInfo {
    std::string_view name;       // snake_case; the flag is the same with '-' for '_'
    std::string_view help;       // one sentence: effect
    std::string_view unit = {};  // empty where it has none
    double minimum = -std::numeric_limits<double>::infinity();
    double maximum = std::numeric_limits<double>::infinity();
    bool above_minimum = false;  // the minimum itself is not allowed
};

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};

// The allowed values in words, as error messages and help texts show them.
template <class T>
[[nodiscard]] std::string allowed_values(const OptionInfo& info, const T& value) {
    if constexpr (is_optional<T>::value) {
        return "unset, or " + allowed_values(info, typename T::value_type{});
    } else if constexpr (std::is_enum_v<T>) {
        return fmt::format("one of {}", fmt::join(names(value), ", "));
    } else if constexpr (std::is_same_v<T, bool>) {
        return "true or false";
    } else if constexpr (std::is_same_v<T, std::string>) {
        return "text";
    } else {
        std::string text = std::is_integral_v<T> ? "a whole number" : "a number";
        if (std::isfinite(info.minimum))
            text += fmt::format(" {} {}", info.above_minimum ? "above" : "from", info.minimum);
        if (std::isfinite(info.maximum)) text += fmt::format(" up to {}", info.maximum);
        return text;
    }
}

template <class T>
[[nodiscard]] std::string option_text(const T& value) {
    if constexpr (is_optional<T>::value) {
        return value ? option_text(*value) : std::string("unset");
    } else if constexpr (std::is_enum_v<T>) {
        return std::string(names(value)[static_cast<std::size_t>(value)]);
    } else {
        return fmt::format("{}", value);
    }
}

// Throws OptionError for the first field outside its stated range (NaN is outside every range).
template <class Options>
void check_options(const Options& options) {
    visit_options(options, [](const OptionInfo& info, const auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        auto check = [&](auto value) {
            const auto x = static_cast<double>(value);
            const bool inside =
                x <= info.maximum && (info.above_minimum ? x > info.minimum : x >= info.minimum);
            if (!inside)
                throw OptionError(std::string(info.name), option_text(field), allowed_values(info, field));
        };
        if constexpr (is_optional<T>::value) {
            if constexpr (std::is_arithmetic_v<typename T::value_type>) {
                if (field) check(*field);
            }
        } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
            check(field);
        }
    });
}

}  // namespace lightmill

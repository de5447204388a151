#pragma once
// Values that a ladder file gives to a subject's options, checked by the options' own description
// (lightmill/base/options.hpp): name, type, range.

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lightmill/base/options.hpp"
#include "lightmill/ladder/probe/environment.hpp"

namespace lightmill::ladder {

using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

// name = value, as it stood in a line of the ladder file.
struct Setting {
    std::string name;
    Value value;
    int line = 0;  // 0: not from a file
};
using Settings = std::vector<Setting>;

[[nodiscard]] std::string value_text(const Value& value);
// "frames=1024" as a setting; true, false and numbers are taken as such. Throws OptionError without a '='.
[[nodiscard]] Setting parse_setting(std::string_view text);
[[nodiscard]] const Setting* find(const Settings& settings, std::string_view name) noexcept;
// Those of `base`, with the ones of `over` in their place or behind.
[[nodiscard]] Settings merged(const Settings& base, const Settings& over);

namespace detail {

// False where the value's type is not the field's.
template <class T>
[[nodiscard]] bool assign(T& field, const Value& value) {
    if constexpr (is_optional<T>::value) {
        typename T::value_type inner{};
        if (!assign(inner, value)) return false;
        field = inner;
        return true;
    } else if constexpr (std::is_enum_v<T>) {
        const auto* text = std::get_if<std::string>(&value);
        if (text == nullptr) return false;
        const auto all = names(T{});
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i] != *text) continue;
            field = static_cast<T>(i);
            return true;
        }
        return false;
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string> ||
                         std::is_same_v<T, std::vector<std::string>>) {
        const auto* found = std::get_if<T>(&value);
        if (found != nullptr) field = *found;
        return found != nullptr;
    } else if constexpr (std::is_integral_v<T>) {
        const auto* found = std::get_if<std::int64_t>(&value);
        if (found == nullptr || !std::in_range<T>(*found)) return false;
        field = static_cast<T>(*found);
        return true;
    } else {
        if (const auto* whole = std::get_if<std::int64_t>(&value)) {
            field = static_cast<T>(*whole);
            return true;
        }
        const auto* found = std::get_if<double>(&value);
        if (found != nullptr) field = static_cast<T>(*found);
        return found != nullptr;
    }
}

template <class T>
[[nodiscard]] std::string allowed(const OptionInfo& info, const T& field) {
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        return "a list of texts";
    } else {
        return allowed_values(info, field);
    }
}

}  // namespace detail

// Fills in the options that are set. Throws OptionError for a name that there is not, another type, a value
// out of range.
template <class Options>
void apply(Options& options, const Settings& settings) {
    for (const auto& setting : settings) {
        bool known = false;
        std::string all;
        visit_options(options, [&](const OptionInfo& info, auto& field) {
            all += (all.empty() ? "" : ", ") + std::string(info.name);
            if (info.name != setting.name) return;
            known = true;
            if (!detail::assign(field, setting.value))
                throw OptionError(setting.name, value_text(setting.value), detail::allowed(info, field));
        });
        if (!known) throw OptionError(setting.name, "an option that there is not", "one of " + all);
    }
    check_options(options);
}

// Every option with its value, for tables and for what changed from rung to rung.
template <class Options>
[[nodiscard]] std::vector<Fact> facts_of(const Options& options) {
    std::vector<Fact> facts;
    visit_options(options, [&](const OptionInfo& info, const auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            facts.push_back({std::string(info.name), value_text(field)});
        } else {
            facts.push_back({std::string(info.name), option_text(field)});
        }
    });
    return facts;
}

}  // namespace lightmill::ladder

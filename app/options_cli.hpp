#pragma once
// Flags from an options struct's one description (lightmill/base/options.hpp).

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lightmill/base/options.hpp"

namespace lightmill::app {

inline std::string flag_name(std::string_view option) {
    std::string flag = "--" + std::string(option);
    for (auto& c : flag) c = c == '_' ? '-' : c;
    return flag;
}

// Adds a flag for every field but those named in `except`; the field itself is filled in. Ranges are
// checked by check_options where the options are used, so that every face gives the same message.
template <class Options>
void add_options(CLI::App& verb, Options& options, const std::vector<std::string_view>& except = {}) {
    visit_options(options, [&](const OptionInfo& info, auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        if (std::find(except.begin(), except.end(), info.name) != except.end()) return;
        auto help = info.unit.empty() ? std::string(info.help) : fmt::format("{} [{}]", info.help, info.unit);
        if (std::isfinite(info.minimum)) help += "; " + allowed_values(info, field);
        CLI::Option* option = nullptr;
        if constexpr (std::is_same_v<T, bool>) {
            option = verb.add_flag(flag_name(info.name), field, help);
        } else if constexpr (std::is_enum_v<T>) {
            const std::string name(info.name);
            option = verb.add_option_function<std::string>(
                flag_name(info.name),
                [&field, name](const std::string& text) {
                    const auto all = names(T{});
                    for (std::size_t i = 0; i < all.size(); ++i) {
                        if (all[i] == text) {
                            field = static_cast<T>(i);
                            return;
                        }
                    }
                    throw OptionError(name, text, fmt::format("one of {}", fmt::join(all, ", ")));
                },
                help);
            option->type_name(fmt::format("{}", fmt::join(names(T{}), "|")))->default_str(option_text(field));
        } else {
            option = verb.add_option(flag_name(info.name), field, help);
            // A word where a number should be is refused in the same words as a number out of range.
            if constexpr (std::is_arithmetic_v<T>)
                option->check([info, &field](const std::string& text) -> std::string {
                    auto value = T{};
                    if (!CLI::detail::lexical_cast(text, value))
                        throw OptionError(std::string(info.name), text, allowed_values(info, field));
                    return {};
                });
            if constexpr (!is_optional<T>::value) option->capture_default_str();
        }
    });
}

}  // namespace lightmill::app

#pragma once
// An options struct as JSON, from its one description (lightmill/base/options.hpp).

#include <nlohmann/json.hpp>
#include <string>

#include "lightmill/base/options.hpp"

namespace lightmill::app {

template <class Options>
[[nodiscard]] nlohmann::ordered_json options_json(const Options& options) {
    auto json = nlohmann::ordered_json::object();
    visit_options(options, [&](const OptionInfo& info, const auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        auto& value = json[std::string(info.name)];
        if constexpr (is_optional<T>::value) {
            if (field) value = *field;
        } else if constexpr (std::is_enum_v<T>) {
            value = option_text(field);
        } else {
            value = field;
        }
    });
    return json;
}

}  // namespace lightmill::app

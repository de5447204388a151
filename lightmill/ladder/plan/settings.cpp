#include "lightmill/ladder/plan/settings.hpp"

#include <fmt/format.h>
#include <charconv>

namespace lightmill::ladder {

std::string value_text(const Value& value) {
    if (const auto* list = std::get_if<std::vector<std::string>>(&value))
        return fmt::format("[{}]", fmt::join(*list, ", "));
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
    return fmt::format("{}", std::get<double>(value));
}

Setting parse_setting(std::string_view text) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0)
        throw OptionError("setting", std::string(text), "NAME=VALUE, such as frames=1024");
    const auto name = std::string(text.substr(0, equals));
    const auto value = text.substr(equals + 1);
    if (value == "true" || value == "false") return {name, value == "true", 0};
    const char* end = value.data() + value.size();
    std::int64_t whole = 0;
    if (const auto [at, error] = std::from_chars(value.data(), end, whole); error == std::errc() && at == end)
        return {name, whole, 0};
    double number = 0;
    if (const auto [at, error] = std::from_chars(value.data(), end, number);
        error == std::errc() && at == end)
        return {name, number, 0};
    return {name, std::string(value), 0};
}

const Setting* find(const Settings& settings, std::string_view name) noexcept {
    for (const auto& setting : settings)
        if (setting.name == name) return &setting;
    return nullptr;
}

Settings merged(const Settings& base, const Settings& over) {
    Settings result;
    for (const auto& setting : base)
        if (find(over, setting.name) == nullptr) result.push_back(setting);
    result.insert(result.end(), over.begin(), over.end());
    return result;
}

}  // namespace lightmill::ladder

#include "lightmill/ladder/plan/settings.hpp"

#include <fmt/format.h>

namespace lightmill::ladder {

std::string value_text(const Value& value) {
    if (const auto* list = std::get_if<std::vector<std::string>>(&value))
        return fmt::format("[{}]", fmt::join(*list, ", "));
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
    return fmt::format("{}", std::get<double>(value));
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

#include "lightmill/clusters/find/options.hpp"

#include <fmt/format.h>

#include <charconv>

namespace lightmill::clusters {
namespace {

constexpr std::array<std::string_view, 3> k_rules{"snapshot", "raster", "per_stream"};
constexpr std::array<std::string_view, 2> k_ties{"first", "all"};
constexpr std::array<std::string_view, 2> k_payloads{"int32", "int16"};
constexpr std::string_view k_window_allowed = "WIDTHxHEIGHT, both odd, from 3x3 to 21x21";

bool allowed_side(int side) {
    return side >= k_min_window && side <= k_max_window && side % 2 == 1;
}

}  // namespace

std::span<const std::string_view> names(Rule) {
    return k_rules;
}
std::span<const std::string_view> names(Ties) {
    return k_ties;
}
std::span<const std::string_view> names(Launches) {
    static constexpr std::array<std::string_view, 5> k_names{"auto", "single", "separate", "graph",
                                                             "persistent"};
    return k_names;
}
std::span<const std::string_view> names(Payload) {
    return k_payloads;
}

std::string to_string(const Window& window) {
    return fmt::format("{}x{}", window.width, window.height);
}

Window parse_window(std::string_view text) {
    Window window;
    const char* end = text.data() + text.size();
    const auto width = std::from_chars(text.data(), end, window.width);
    bool good = width.ec == std::errc{} && width.ptr != end && *width.ptr == 'x';
    if (good) {
        const auto height = std::from_chars(width.ptr + 1, end, window.height);
        good = height.ec == std::errc{} && height.ptr == end;
    }
    if (!good || !allowed_side(window.width) || !allowed_side(window.height)) {
        throw OptionError("window", std::string(text), std::string(k_window_allowed));
    }
    return window;
}

void check(const FindOptions& options) {
    check_options(options);
    if (!allowed_side(options.window.width) || !allowed_side(options.window.height)) {
        throw OptionError("window", to_string(options.window), std::string(k_window_allowed));
    }
    if (options.streams > 1 && options.rule != Rule::per_stream) {
        throw OptionError("streams",
                          fmt::format("{} with rule {}", options.streams, option_text(options.rule)),
                          "1, or rule per_stream");
    }
    if (options.rule == Rule::raster) {
        if (options.epoch != 1)
            throw OptionError("epoch", fmt::format("{} with rule raster", options.epoch),
                              "1: the model changes within each frame");
        if (options.ties != Ties::all)
            throw OptionError("ties", "first with rule raster", "all, as the peer has it");
    }
}

}  // namespace lightmill::clusters

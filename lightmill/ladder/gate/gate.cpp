#include "lightmill/ladder/gate/gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lightmill::ladder {
namespace {

template <class T>
void compare_array(const Array& expected, const Array& found, const Tolerance& tolerance,
                   GateResult& result) {
    const std::size_t count = std::min(expected.count(), found.count());
    auto at = [](const Array& array, std::size_t i) {
        T value;
        std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
        return value;
    };
    std::size_t differ = 0, first = 0, outside = 0, first_outside = 0;
    double largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const T want = at(expected, i);
        const T got = at(found, i);
        if constexpr (std::is_floating_point_v<T>) {
            if (!std::isfinite(got)) {
                result.failure =
                    fmt::format("{}: index {} is {}, expected {}: a value that is not finite never passes",
                                expected.name, i, got, want);
                return;
            }
        }
        // Bits, not values: -0 is another answer than +0.
        if (std::memcmp(&want, &got, sizeof(T)) == 0) continue;
        const double distance = std::fabs(static_cast<double>(got) - static_cast<double>(want));
        if (differ++ == 0) first = i;
        largest = std::max(largest, distance);
        const double limit = tolerance.absolute + tolerance.relative * std::fabs(static_cast<double>(want));
        if (tolerance.exact() || !(distance <= limit)) {
            if (outside++ == 0) first_outside = i;
        }
    }
    if (outside > 0) first = first_outside;
    const auto where = [&] {
        return fmt::format("{}: first difference at index {}: {}, expected {}; {} of {} differ, by up to {}",
                           expected.name, first, at(found, first), at(expected, first), differ, count,
                           largest);
    };
    if (outside > 0) {
        result.failure = where();
    } else if (found.count() != expected.count()) {
        result.failure = fmt::format("{}: {} elements, expected {}; the first {} agree", expected.name,
                                     found.count(), expected.count(), count);
    } else if (static_cast<double>(differ) > tolerance.share * static_cast<double>(count)) {
        result.failure = fmt::format("{}; more than the allowed share of {}", where(), tolerance.share);
    } else if (differ > 0) {
        result.distance +=
            fmt::format("{}{}: {} of {} differ, by up to {}", result.distance.empty() ? "" : "; ",
                        expected.name, differ, count, largest);
    }
}

}  // namespace

GateResult compare_answers(const Answer& expected, const Answer& found, const Tolerance& tolerance) {
    GateResult result;
    for (std::size_t a = 0; a < std::max(expected.size(), found.size()); ++a) {
        if (a >= found.size() || a >= expected.size() || found[a].name != expected[a].name ||
            found[a].type != expected[a].type) {
            const auto text = [&](const Answer& answer) {
                return a < answer.size() ? fmt::format("{} of {}", answer[a].name, name(answer[a].type))
                                         : std::string("no array");
            };
            result.failure = fmt::format("array {}: found {}, expected {}", a, text(found), text(expected));
            return result;
        }
        switch (expected[a].type) {
            case Element::i8:
                compare_array<std::int8_t>(expected[a], found[a], tolerance, result);
                break;
            case Element::u8:
                compare_array<std::uint8_t>(expected[a], found[a], tolerance, result);
                break;
            case Element::i16:
                compare_array<std::int16_t>(expected[a], found[a], tolerance, result);
                break;
            case Element::u16:
                compare_array<std::uint16_t>(expected[a], found[a], tolerance, result);
                break;
            case Element::i32:
                compare_array<std::int32_t>(expected[a], found[a], tolerance, result);
                break;
            case Element::u32:
                compare_array<std::uint32_t>(expected[a], found[a], tolerance, result);
                break;
            case Element::i64:
                compare_array<std::int64_t>(expected[a], found[a], tolerance, result);
                break;
            case Element::u64:
                compare_array<std::uint64_t>(expected[a], found[a], tolerance, result);
                break;
            case Element::f32:
                compare_array<float>(expected[a], found[a], tolerance, result);
                break;
            case Element::f64:
                compare_array<double>(expected[a], found[a], tolerance, result);
                break;
        }
        if (!result.failure.empty()) return result;
    }
    if (found.empty()) {
        result.failure = "the answer holds no array";
        return result;
    }
    result.passed = true;
    if (result.distance.empty()) result.distance = "bit-identical";
    return result;
}

}  // namespace lightmill::ladder

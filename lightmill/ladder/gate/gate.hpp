#pragma once
// Whether an answer is the right one.

#include <string>

#include "lightmill/ladder/gate/answer.hpp"

namespace lightmill::ladder {

// How far a foreign program's answer may lie from ours. All zero: bit by bit.
struct Tolerance {
    double absolute = 0;
    double relative = 0;  // of the expected value
    double share = 0;     // of an array's elements that may differ at all
    [[nodiscard]] bool exact() const noexcept { return absolute == 0 && relative == 0; }
};

struct GateResult {
    bool passed = false;
    std::string failure;   // array, first index, both values; empty where it passed
    std::string distance;  // "bit-identical", or how many differ and by how much
};

// A value that is NaN or infinite never passes; neither does an empty answer.
[[nodiscard]] GateResult compare_answers(const Answer& expected, const Answer& found,
                                         const Tolerance& tolerance);

}  // namespace lightmill::ladder

#pragma once
// Two sessions side by side. Their rounds are not paired, so what may be said is less than within one
// session.

#include <optional>
#include <string>
#include <vector>

#include "lightmill/ladder/report/analysis.hpp"

namespace lightmill::ladder {

// One rung in both sessions, bridged through the reference that they share.
struct ComparedRung {
    std::string id;
    std::string why_not;  // why it cannot be compared; empty where it can
    double first_s = 0;   // times as measured; these alone carry the machine's mood
    double second_s = 0;
    // (reference/rung in the second) / (reference/rung in the first): above 1 the rung has gained on the
    // reference.
    Estimate change;
    std::string verdict;  // FASTER, SLOWER, SAME, LIKELY FASTER, LIKELY SLOWER, UNRESOLVED
};

struct Comparison {
    std::string first;  // the sessions, as named by the caller
    std::string second;
    std::string why_not;                   // why nothing can be compared; empty where something can
    std::vector<std::string> differences;  // in environment, build and policy, "compiler: GNU 12 → GNU 13"
    // Time of the reference, first/second. It agrees where the interval lies inside the margin; only then can
    // a verdict be more than LIKELY.
    Estimate reference;
    bool reference_agrees = false;
    double margin = 0;  // the larger one of the two sessions'
    int claims = 0;
    std::vector<ComparedRung> rungs;  // every rung of either session
};

[[nodiscard]] Comparison compare(const Summary& first, const Summary& second, const std::string& first_name,
                                 const std::string& second_name);

[[nodiscard]] std::string to_text(const Comparison& comparison, TableStyle style);
[[nodiscard]] std::string to_json(const Comparison& comparison);

}  // namespace lightmill::ladder

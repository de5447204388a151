#pragma once
// Everything that this program can put on a ladder.

#include "lightmill/ladder/plan/subject.hpp"

namespace lightmill::subjects {

// The clusters finder, the vision tower, any program that speaks the line protocol, and two to learn with:
// demo and matrix.
[[nodiscard]] const ladder::SubjectType& clusters();
[[nodiscard]] const ladder::SubjectType& command();
[[nodiscard]] const ladder::SubjectType& demo();
[[nodiscard]] const ladder::SubjectType& matrix();
[[nodiscard]] const ladder::SubjectType& tiles();

[[nodiscard]] ladder::Subjects all();

}  // namespace lightmill::subjects

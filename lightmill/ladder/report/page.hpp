#pragma once
#include <string>

#include "lightmill/ladder/report/analysis.hpp"

namespace lightmill::ladder {

// The report as one HTML file that fetches nothing: everything it shows and does is in it.
[[nodiscard]] std::string to_html(const Summary& summary);

}  // namespace lightmill::ladder

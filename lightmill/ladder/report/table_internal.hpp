#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "lightmill/ladder/report/analysis.hpp"

namespace lightmill::ladder::detail {

struct Table {
    std::vector<std::string> head;
    std::vector<std::vector<std::string>> lines;
    std::size_t left = 0;  // so many leading columns are aligned left, the rest right
};

[[nodiscard]] std::string render(const Table& table, TableStyle style);

}  // namespace lightmill::ladder::detail

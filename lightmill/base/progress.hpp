#pragma once
#include <cstdint>
#include <functional>

namespace lightmill {

// Where long work stands. Called from one thread at a time, a few times a second at most.
struct Progress {
    std::uint64_t done = 0;
    std::uint64_t total = 0;  // 0: not known
};
using ProgressFunction = std::function<void(const Progress&)>;

}  // namespace lightmill

#pragma once
// What a measurement was made on: the facts of the machine, the kernel and the build that a reader needs to
// judge whether two results may be compared.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lightmill::ladder {

struct Fact {
    std::string name;  // "cpu"
    std::string value;
    friend bool operator==(const Fact&, const Fact&) = default;
};

// In a fixed order; a fact that this machine does not give is "not known".
[[nodiscard]] std::vector<Fact> environment();

// The value of a fact, empty where there is none of that name.
[[nodiscard]] std::string_view value(const std::vector<Fact>& facts, std::string_view name) noexcept;

// The facts that tell two machines apart: those that differ make times incomparable.
[[nodiscard]] bool identifies_machine(std::string_view fact_name) noexcept;

// Sizes of this machine's data caches in bytes; 0 where not known. Level 2 is one core's, level 3 the sum of
// all.
struct CacheSizes {
    std::int64_t level1 = 0;
    std::int64_t level2 = 0;
    std::int64_t level3 = 0;
};
[[nodiscard]] CacheSizes cache_sizes();

// Bytes that new allocations may use without swapping.
[[nodiscard]] std::int64_t available_memory_bytes();

// Threads that run or want to run at this moment on the whole machine, this one included.
[[nodiscard]] int running_threads();

}  // namespace lightmill::ladder

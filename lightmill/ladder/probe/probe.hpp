#pragma once
// The ceilings of this machine, measured once and kept beside the results. A subject's declared work over
// these is its floor: the time that no implementation can beat.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/base/progress.hpp"
#include "lightmill/ladder/probe/environment.hpp"

namespace lightmill::ladder {

// What one resource gave with so many threads. Bytes of a copy are counted twice: read and written.
struct Ceiling {
    std::string resource;  // one of resources()
    int threads = 1;
    double best = 0;    // units a second, the highest that three passes confirm: what a floor is made of
    double median = 0;  // over the passes; far below the best says that the machine was not quiet
    int passes = 0;
    std::string how;         // the kernel that was best: "simd_avx512, streaming stores"
    std::int64_t bytes = 0;  // of one transfer, for the links of a GPU
};

// What one thing takes that has no rate: "launch of a kernel that does nothing and wait".
struct Cost {
    std::string what;
    double seconds = 0;
};

struct Probe {
    std::vector<Ceiling> ceilings;
    std::vector<Cost> costs;         // of a GPU
    double page_fault_s = 0;         // first touch of an anonymous 4 KiB page, clearing it included
    double huge_page_fault_s = 0;    // the same for a 2 MiB page; 0 where the kernel gave none
    double clock_resolution_s = 0;   // the smallest step of the clock that rungs are timed with
    std::string gpu;                 // what was measured of a GPU, or why nothing was
    std::vector<std::string> notes;  // what makes these ceilings doubtful
    std::vector<Fact> environment;
    double took_s = 0;
};

struct ProbeOptions {
    int threads = 0;       // the most to try; 0: as many as this process may use
    double budget_s = 10;  // for all passes together; buffers and calibration come on top
    std::int64_t buffer_bytes =
        0;  // per memory buffer; 0: four times the last-level cache, as far as memory allows
};

// Units: bytes for memory, caches and links, operations (an FMA is two) for fma_f32 and fma_f64.
[[nodiscard]] std::span<const std::string_view> resources() noexcept;

// Keeps this process's threads busy for budget_s and a little more.
[[nodiscard]] Probe probe(const ProbeOptions& options, const ProgressFunction& progress = {});

// The highest rate of a resource with at most `threads` threads (0: any number); 0 where it was not measured.
[[nodiscard]] double ceiling(const Probe& probe, std::string_view resource, int threads = 0) noexcept;

[[nodiscard]] std::string to_json(const Probe& probe);
// path names the text in errors. Throws FormatError.
[[nodiscard]] Probe probe_from_json(const std::string& text, const std::string& path);
// As a table for a terminal.
[[nodiscard]] std::string to_text(const Probe& probe);

}  // namespace lightmill::ladder

#pragma once
// What the parts of the probe share.

#include <cstddef>
#include <functional>
#include <memory>

#include "lightmill/ladder/probe/probe.hpp"

namespace lightmill::cuda {
class Device;
}

namespace lightmill::ladder::detail {

// Units a second over passes of one piece of work.
struct Rates {
    double best = 0;
    double median = 0;
    int passes = 0;
};

// pass(repeats) does `repeats` times what is worth `units`; repeats grow until a pass is long against what
// starting it takes, and passes until the time is used up.
[[nodiscard]] Rates measure(double budget_s, double units, const std::function<void(int)>& pass);

// Links, memory and launches of a GPU: entries of `into.ceilings` and `into.costs`.
// buffer_bytes: of a copy within the device; far more than its caches hold.
void probe_device(const std::shared_ptr<cuda::Device>& device, double budget_s, std::size_t buffer_bytes,
                  Probe& into);

}  // namespace lightmill::ladder::detail

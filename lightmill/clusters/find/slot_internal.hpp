#pragma once
// The memory behind a Batch.

#include <atomic>
#include <cstdint>
#include <vector>

#include "lightmill/base/buffer.hpp"
#include "lightmill/clusters/find/batch.hpp"

namespace lightmill::clusters::detail {

// Clusters in the order they were found. Buffers have room for one vector more than is used, since
// kernels store whole vectors.
struct Found {
    Buffer<std::uint32_t> rows;
    Buffer<std::uint32_t> columns;
    Buffer<std::int32_t> residuals;
    Buffer<std::int16_t> residuals16;
    std::size_t count = 0;
    std::vector<std::uint64_t> ends;  // per frame: count after it

    void clear() noexcept {
        count = 0;
        ends.clear();
    }
    // Room for `more` clusters of `cells` values behind the present ones.
    void reserve(std::size_t more, std::size_t cells, Payload payload) {
        constexpr std::size_t k_slack =
            64;  // values; the widest vector of int16 and the tail of a window's row
        rows.grow(count + more, count);
        columns.grow(count + more, count);
        const auto need = (count + more) * cells + k_slack;
        if (payload == Payload::int32) {
            residuals.grow(need, count * cells);
        } else {
            residuals16.grow(need, count * cells);
        }
    }
};

struct Slot {
    std::atomic<bool> held{false};
    std::vector<std::uint64_t> numbers;
    std::vector<std::uint64_t> offsets;
    std::vector<Hash128> hashes;
    Found found;
    ClustersView view;
};

}  // namespace lightmill::clusters::detail

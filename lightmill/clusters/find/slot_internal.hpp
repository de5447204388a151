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
    std::uint64_t first_index = 0;
    std::vector<std::uint64_t> numbers;
    std::vector<std::uint64_t> offsets;
    std::vector<Hash128> hashes;
    Found found;
    ClustersView view;

    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    virtual ~Slot() = default;
    // Fills the view's offsets, rows, columns and residuals with what was found.
    virtual void expose(std::size_t cells, Payload payload) {
        offsets.assign(1, 0);
        offsets.insert(offsets.end(), found.ends.begin(), found.ends.end());
        view.offsets = offsets;
        view.rows = found.rows.span().first(found.count);
        view.columns = found.columns.span().first(found.count);
        if (payload == Payload::int32) {
            view.residuals = found.residuals.span().first(found.count * cells);
        } else {
            view.residuals16 = found.residuals16.span().first(found.count * cells);
        }
    }
};

}  // namespace lightmill::clusters::detail

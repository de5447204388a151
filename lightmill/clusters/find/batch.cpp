#include "lightmill/clusters/find/batch.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "lightmill/clusters/find/slot_internal.hpp"

namespace lightmill::clusters {

ClustersView Clusters::view() const noexcept {
    return {window, first_index, numbers, offsets, rows, columns, residuals, residuals16, hashes};
}

void Clusters::append(const ClustersView& more) {
    if (numbers.empty()) {
        window = more.window;
        first_index = more.first_index;
    }
    auto add = [](auto& to, auto from) { to.insert(to.end(), from.begin(), from.end()); };
    const auto base = offsets.back();
    for (std::size_t i = 1; i < more.offsets.size(); ++i) offsets.push_back(base + more.offsets[i]);
    add(numbers, more.numbers);
    add(rows, more.rows);
    add(columns, more.columns);
    add(residuals, more.residuals);
    add(residuals16, more.residuals16);
    add(hashes, more.hashes);
}

Batch::Batch(std::shared_ptr<detail::Slot> slot) noexcept : slot_(std::move(slot)), view_(slot_->view) {}
Batch& Batch::operator=(Batch&& other) noexcept {
    if (this != &other) {
        release();
        slot_ = std::move(other.slot_);
        view_ = std::exchange(other.view_, {});
    }
    return *this;
}
Batch::~Batch() {
    release();
}
void Batch::release() noexcept {
    if (slot_) slot_->held.store(false, std::memory_order_release);
    slot_.reset();
    view_ = {};
}
Clusters Batch::to_owned() const {
    Clusters owned;
    owned.append(view_);
    return owned;
}

Hash128 hash_frame(const ClustersView& clusters, std::size_t frame) {
    const std::size_t first = clusters.offsets[frame];
    const std::size_t count = clusters.count(frame);
    const auto cells = static_cast<std::size_t>(clusters.window.cells());
    const std::array<std::uint64_t, 2> head{clusters.numbers[frame], count};
    Xxh3 hash;
    hash.update(std::span(head));
    hash.update(clusters.rows.subspan(first, count));
    hash.update(clusters.columns.subspan(first, count));
    if (clusters.residuals16.empty()) {
        hash.update(clusters.residuals.subspan(first * cells, count * cells));
    } else {
        std::array<std::int32_t, 1024> wide{};
        auto narrow = clusters.residuals16.subspan(first * cells, count * cells);
        while (!narrow.empty()) {
            const auto n = std::min(narrow.size(), wide.size());
            std::copy_n(narrow.begin(), n, wide.begin());
            hash.update(std::span(wide).first(n));
            narrow = narrow.subspan(n);
        }
    }
    return hash.digest();
}

void ResultDigest::add(const ClustersView& clusters) {
    for (std::size_t i = 0; i < clusters.frames(); ++i) {
        const std::array<std::uint64_t, 2> head{clusters.numbers[i], clusters.count(i)};
        const auto hash = clusters.hashes.empty() ? hash_frame(clusters, i) : clusters.hashes[i];
        sha_.update(std::span(head));
        sha_.update(std::span(hash));
    }
}

}  // namespace lightmill::clusters

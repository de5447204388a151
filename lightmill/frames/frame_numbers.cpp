#include "lightmill/frames/frame_numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lightmill/base/error.hpp"

namespace lightmill::frames {
namespace {

void list(std::vector<std::uint64_t>& numbers, std::uint64_t number) {
    if (numbers.size() < Anomalies::k_max_listed) numbers.push_back(number);
}

void list_gap(std::vector<std::uint64_t>& numbers, std::uint64_t first, std::uint64_t last) {
    for (auto n = first; numbers.size() < Anomalies::k_max_listed; ++n) {
        numbers.push_back(n);
        if (n == last) break;
    }
}

}  // namespace

void FrameNumbers::see(std::uint64_t first, std::span<const FrameInfo> infos) {
    if (any_ && first < end_) {
        const auto known = end_ - first;
        if (known >= infos.size()) return;
        infos = infos.subspan(known);
        first = end_;
    }
    if (infos.empty()) return;
    if (any_ && first > end_ && infos.front().number > highest_) highest_ = infos.front().number - 1;
    end_ = first + infos.size();
    for (const auto& info : infos) see_next(info.number);
}

void FrameNumbers::see_next(std::uint64_t number) {
    if (!any_) {
        any_ = true;
        lowest_ = highest_ = number;
    } else if (number > highest_) {
        if (number - highest_ > 1) gaps_[highest_ + 1] = number - 1;
        highest_ = number;
    } else if (number < lowest_) {
        if (lowest_ - number > 1) gaps_[number + 1] = lowest_ - 1;
        lowest_ = number;
        ++found_.out_of_order_frames;
        list(found_.out_of_order, number);
    } else {
        auto gap = gaps_.upper_bound(number);
        if (gap != gaps_.begin() && std::prev(gap)->second >= number) {
            --gap;
            const auto [first, last] = *gap;
            gaps_.erase(gap);
            if (first < number) gaps_[first] = number - 1;
            if (number < last) gaps_[number + 1] = last;
            ++found_.out_of_order_frames;
            list(found_.out_of_order, number);
        } else {
            ++found_.repeated_frames;
            list(found_.repeated, number);
        }
    }
    if (gaps_.size() > k_max_gaps) {
        const auto [first, last] = *gaps_.begin();
        gaps_.erase(gaps_.begin());
        settled_frames_ += last - first + 1;
        if (settled_.size() < Anomalies::k_max_listed) settled_[first] = last;
    }
}

Anomalies FrameNumbers::anomalies() const {
    auto result = found_;
    result.missing_frames = settled_frames_;
    for (const auto& [first, last] : settled_) list_gap(result.missing, first, last);
    for (const auto& [first, last] : gaps_) {
        result.missing_frames += last - first + 1;
        list_gap(result.missing, first, last);
    }
    return result;
}

void require_inside(const Description& description, std::uint64_t first, std::uint64_t count) {
    if (first <= description.count && count <= description.count - first) return;
    throw Error(ErrorCode::range,
                fmt::format("{}: {} frames from {} on were asked for, expected at most {} in all",
                            description.name, count, first, description.count),
                description.name);
}

void add(Anomalies& a, const Anomalies& b) {
    a.missing_frames += b.missing_frames;
    a.repeated_frames += b.repeated_frames;
    a.out_of_order_frames += b.out_of_order_frames;
    for (auto n : b.missing) list(a.missing, n);
    for (auto n : b.repeated) list(a.repeated, n);
    for (auto n : b.out_of_order) list(a.out_of_order, n);
}

}  // namespace lightmill::frames

#pragma once
// A bounded queue between two stages of a run.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace lightmill::clusters::detail {

template <class T>
class Channel {
  public:
    explicit Channel(std::size_t capacity) : capacity_(capacity) {}

    // Waits for room. False, and the value is gone, once the channel was cut.
    bool push(T value) {
        std::unique_lock lock(mutex_);
        room_.wait(lock, [&] { return cut_ || queue_.size() < capacity_; });
        if (cut_) return false;
        queue_.push_back(std::move(value));
        filled_.notify_one();
        return true;
    }
    // Waits for a value. None once the channel is closed and empty, or cut.
    std::optional<T> pop() {
        std::unique_lock lock(mutex_);
        filled_.wait(lock, [&] { return cut_ || closed_ || !queue_.empty(); });
        if (cut_ || queue_.empty()) return std::nullopt;
        std::optional<T> value(std::move(queue_.front()));
        queue_.pop_front();
        room_.notify_one();
        return value;
    }
    // Nothing more will come; what is queued can still be taken.
    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        filled_.notify_all();
    }
    // Both sides stop now.
    void cut() {
        const std::lock_guard lock(mutex_);
        cut_ = true;
        queue_.clear();
        filled_.notify_all();
        room_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable room_, filled_;
    std::deque<T> queue_;
    std::size_t capacity_;
    bool closed_ = false;
    bool cut_ = false;
};

}  // namespace lightmill::clusters::detail

#pragma once
// Threads that take tasks from one queue. Tasks never wait for each other: whoever finishes the last thing
// that a task needs posts it. Threads without work sleep in the kernel.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace lightmill {

class Pool {
  public:
    // worker: 0 … workers − 1, for scratch memory of its own. A task may post others and may not throw.
    using Task = std::function<void(int worker)>;

    explicit Pool(int workers);  // at least 1
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool();  // drops the tasks that have not begun and waits for those that have

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(threads_.size()); }
    // Tasks of a lower order are taken first, equal ones as they came. May be called by any thread.
    void post(std::uint64_t order, Task task);

  private:
    struct Entry {
        std::uint64_t order, number;
        Task task;
        friend bool operator<(const Entry& a, const Entry& b) noexcept {  // the queue's top is its largest
            return a.order != b.order ? a.order > b.order : a.number > b.number;
        }
    };
    void serve(int worker);

    std::mutex mutex_;
    std::condition_variable some_;
    std::priority_queue<Entry> queue_;
    std::uint64_t posted_ = 0;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace lightmill

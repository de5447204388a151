#include "lightmill/base/pool.hpp"

#include <algorithm>
#include <utility>

namespace lightmill {

Pool::Pool(int workers) {
    threads_.reserve(static_cast<std::size_t>(std::max(workers, 1)));
    for (int worker = 0; worker < std::max(workers, 1); ++worker)
        threads_.emplace_back([this, worker] { serve(worker); });
}

Pool::~Pool() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    some_.notify_all();
    for (auto& thread : threads_) thread.join();
}

void Pool::post(std::uint64_t order, Task task) {
    {
        const std::lock_guard lock(mutex_);
        queue_.push({order, posted_++, std::move(task)});
    }
    some_.notify_one();
}

void Pool::serve(int worker) {
    std::unique_lock lock(mutex_);
    for (;;) {
        some_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (stop_) return;
        // top() is const, since changing an order would break the queue; moving the task out does not.
        Task task = std::move(const_cast<Entry&>(queue_.top()).task);
        queue_.pop();
        lock.unlock();
        task(worker);
        task = nullptr;  // what it holds is let go without the lock
        lock.lock();
    }
}

}  // namespace lightmill

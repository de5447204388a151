#pragma once
// A fixed team of threads that runs one function on all members at once. Members wait for each other
// only through counters of the work itself (see Turnstile), never through a scheduler.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace lightmill {

// Threads that this process may use: the smaller of its affinity mask and its cgroup's CPU quota,
// at least 1.
[[nodiscard]] int available_threads();

// Runs work(member) on `size` threads, the caller being member 0. Not re-entrant.
class Team {
  public:
    explicit Team(int size);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team();

    [[nodiscard]] int size() const noexcept { return static_cast<int>(threads_.size()) + 1; }
    // Returns when every member is done; rethrows the exception of the lowest member that threw.
    void run(const std::function<void(int)>& work);
    // work(0 … count − 1), dealt out to the members in turn.
    void for_each(std::size_t count, const std::function<void(std::size_t)>& work);

  private:
    void serve(int member);

    std::vector<std::thread> threads_;
    const std::function<void(int)>* work_ = nullptr;
    std::vector<std::exception_ptr> errors_;
    std::atomic<std::uint32_t> turn_{0};
    std::atomic<int> running_{0};
    std::atomic<bool> stop_{false};
};

// A counter that one thread advances and others wait on: spins briefly, then sleeps in the kernel.
class alignas(64) Turnstile {
  public:
    void reset(std::uint32_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
    // Publishes everything written before it to those who wait.
    void advance_to(std::uint32_t value) noexcept {
        value_.store(value, std::memory_order_release);
        value_.notify_all();
    }
    [[nodiscard]] std::uint32_t value() const noexcept { return value_.load(std::memory_order_acquire); }
    // Returns once the counter is at least `value`.
    void wait_for(std::uint32_t value) const noexcept;

  private:
    std::atomic<std::uint32_t> value_{0};
};

}  // namespace lightmill

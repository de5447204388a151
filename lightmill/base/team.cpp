#include "lightmill/base/team.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace lightmill {
namespace {

constexpr int k_spins = 1000;  // some 15 us: a neighbour's band of a small frame; beyond that, sleep

void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Waits until done(value) holds; spins first, then sleeps until the value changes.
template <class T, class Done>
void wait_until(const std::atomic<T>& counter, Done done) noexcept {
    for (int i = 0; i < k_spins; ++i) {
        if (done(counter.load(std::memory_order_acquire))) return;
        relax();
    }
    for (;;) {
        const T seen = counter.load(std::memory_order_acquire);
        if (done(seen)) return;
        counter.wait(seen, std::memory_order_acquire);
    }
}

// Whole CPUs of the cgroup's quota (v2), or 0 where there is none.
int quota_threads() {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
    return static_cast<int>(std::max(1.0, std::strtod(quota.c_str(), nullptr) / period));
}

}  // namespace

int available_threads() {
    cpu_set_t set;
    CPU_ZERO(&set);
    int n = ::sched_getaffinity(0, sizeof set, &set) == 0
                ? CPU_COUNT(&set)
                : static_cast<int>(std::thread::hardware_concurrency());
    if (const int quota = quota_threads(); quota > 0) n = std::min(n, quota);
    return std::max(n, 1);
}

Team::Team(int size) : errors_(static_cast<std::size_t>(std::max(size, 1))) {
    threads_.reserve(errors_.size() - 1);
    for (int member = 1; member < size; ++member) threads_.emplace_back([this, member] { serve(member); });
}

Team::~Team() {
    stop_.store(true, std::memory_order_relaxed);
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
    for (auto& thread : threads_) thread.join();
}

void Team::run(const std::function<void(int)>& work) {
    work_ = &work;
    std::fill(errors_.begin(), errors_.end(), nullptr);
    running_.store(size() - 1, std::memory_order_relaxed);
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
    try {
        work(0);
    } catch (...) {
        errors_[0] = std::current_exception();
    }
    wait_until(running_, [](int n) { return n == 0; });
    for (const auto& error : errors_) {
        if (error) std::rethrow_exception(error);
    }
}

void Team::for_each(std::size_t count, const std::function<void(std::size_t)>& work) {
    run([&](int member) {
        for (auto i = static_cast<std::size_t>(member); i < count; i += static_cast<std::size_t>(size()))
            work(i);
    });
}

void Team::serve(int member) {
    std::uint32_t seen = 0;
    for (;;) {
        wait_until(turn_, [seen](std::uint32_t turn) { return turn != seen; });
        ++seen;
        if (stop_.load(std::memory_order_relaxed)) return;
        try {
            (*work_)(member);
        } catch (...) {
            errors_[static_cast<std::size_t>(member)] = std::current_exception();
        }
        if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
    }
}

void Turnstile::wait_for(std::uint32_t value) const noexcept {
    wait_until(value_, [value](std::uint32_t now) { return static_cast<std::int32_t>(now - value) >= 0; });
}

}  // namespace lightmill

#pragma once
// Owning, aligned, uninitialised memory for plain values.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace lightmill {

inline constexpr std::size_t k_alignment_bytes = 64;  // a cache line, and the widest vector

// A move-only array of plain values, aligned to a cache line. Elements are NOT initialised unless
// asked for. Growing keeps the content.
template <class T>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  public:
    Buffer() noexcept = default;
    explicit Buffer(std::size_t size) : data_(allocate(size)), size_(size) {}
    Buffer(std::size_t size, T value) : Buffer(size) { std::fill_n(data(), size, value); }
    Buffer(Buffer&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        data_ = std::move(other.data_);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }

    [[nodiscard]] T* data() noexcept { return data_.get(); }
    [[nodiscard]] const T* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return data()[i]; }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data()[i]; }
    [[nodiscard]] std::span<T> span() noexcept { return {data(), size_}; }
    [[nodiscard]] std::span<const T> span() const noexcept { return {data(), size_}; }

    // Makes room for at least `size` elements and keeps the first `used` of them.
    void grow(std::size_t size, std::size_t used) {
        if (size <= size_) return;
        Buffer larger(std::max(size, size_ + size_ / 2));
        if (used > 0) std::memcpy(larger.data(), data(), used * sizeof(T));
        *this = std::move(larger);
    }

  private:
    struct Free {
        void operator()(T* p) const noexcept {
            ::operator delete(static_cast<void*>(p), std::align_val_t{k_alignment_bytes});
        }
    };
    static T* allocate(std::size_t size) {
        return size == 0
                   ? nullptr
                   : static_cast<T*>(::operator new(size * sizeof(T), std::align_val_t{k_alignment_bytes}));
    }
    std::unique_ptr<T, Free> data_;
    std::size_t size_ = 0;
};

}  // namespace lightmill

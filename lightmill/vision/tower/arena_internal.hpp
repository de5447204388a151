#pragma once
// Large arrays on huge pages where the system has them: a product reads 256 bytes here, 256 there.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace lightmill::vision::detail {

// Uninitialised values, aligned to 2 MiB where they fill as much.
class Arena {
  public:
    Arena() noexcept = default;
    explicit Arena(std::int64_t values) : size_(values) {
        constexpr std::size_t k_huge = std::size_t{2} << 20;
        auto bytes = static_cast<std::size_t>(values) * sizeof(float);
        const std::size_t alignment = bytes >= k_huge ? k_huge : 64;
        bytes = (bytes + alignment - 1) / alignment * alignment;
        data_.reset(static_cast<float*>(std::aligned_alloc(alignment, bytes > 0 ? bytes : alignment)));
        if (!data_) throw std::bad_alloc();
        if (alignment == k_huge)
            (void)::madvise(data_.get(), bytes, MADV_HUGEPAGE);  // advice: may be refused
    }
    [[nodiscard]] float* data() noexcept { return data_.get(); }
    [[nodiscard]] const float* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  private:
    struct Free {
        void operator()(float* p) const noexcept { std::free(p); }
    };
    std::unique_ptr<float, Free> data_;
    std::int64_t size_ = 0;
};

}  // namespace lightmill::vision::detail

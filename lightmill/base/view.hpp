#pragma once
// Non-owning views of dense row-major arrays. The memory space is part of the type, so that device
// memory cannot be handed to host code.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace lightmill {

struct Host {};
struct Device {};

// A dense row-major view of Rank dimensions, the last one contiguous. Indices are not checked.
template <class T, std::size_t Rank, class Space = Host>
class View {
  public:
    using Extents = std::array<std::int64_t, Rank>;

    constexpr View() noexcept = default;
    constexpr View(T* data, const Extents& extents) noexcept : data_(data), extents_(extents) {}
    // A view of T is a view of const T.
    template <class U>
        requires(std::is_same_v<const U, T>)
    constexpr View(const View<U, Rank, Space>& other) noexcept
        : data_(other.data()), extents_(other.extents()) {}

    [[nodiscard]] constexpr T* data() const noexcept { return data_; }
    [[nodiscard]] constexpr const Extents& extents() const noexcept { return extents_; }
    [[nodiscard]] constexpr std::int64_t extent(std::size_t dimension) const noexcept {
        return extents_[dimension];
    }
    [[nodiscard]] constexpr std::int64_t size() const noexcept {
        std::int64_t n = 1;
        for (auto e : extents_) n *= e;
        return n;
    }

    template <class... Index>
        requires(sizeof...(Index) == Rank && std::is_same_v<Space, Host>)
    [[nodiscard]] constexpr T& operator()(Index... index) const noexcept {
        const std::array<std::int64_t, Rank> i{static_cast<std::int64_t>(index)...};
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < Rank; ++d) offset = offset * extents_[d] + i[d];
        return data_[offset];
    }
    // The sub-view at index i of the first dimension.
    [[nodiscard]] constexpr View<T, Rank - 1, Space> operator[](std::int64_t i) const noexcept
        requires(Rank > 1)
    {
        std::array<std::int64_t, Rank - 1> rest{};
        std::int64_t stride = 1;
        for (std::size_t d = 1; d < Rank; ++d) {
            rest[d - 1] = extents_[d];
            stride *= extents_[d];
        }
        return {data_ + i * stride, rest};
    }
    [[nodiscard]] constexpr std::span<T> flat() const noexcept
        requires(std::is_same_v<Space, Host>)
    {
        return {data_, static_cast<std::size_t>(size())};
    }

  private:
    T* data_ = nullptr;
    Extents extents_{};
};

}  // namespace lightmill

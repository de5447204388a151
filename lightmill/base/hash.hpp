#pragma once
// The two hashes that results are identified by.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace lightmill {

// XXH3-128 in its canonical (big-endian) byte order, as the xxhsum program prints it.
using Hash128 = std::array<std::byte, 16>;

// Streaming XXH3-128 over bytes. Move-only.
class Xxh3 {
  public:
    Xxh3();
    void update(const void* data, std::size_t size) noexcept;
    template <class T, std::size_t N>
        requires std::is_trivially_copyable_v<T>
    void update(std::span<T, N> values) noexcept {
        update(values.data(), values.size_bytes());
    }
    // The hash of all bytes since construction or the last reset().
    [[nodiscard]] Hash128 digest() const noexcept;
    void reset() noexcept;

  private:
    struct Free {
        void operator()(void* state) const noexcept;
    };
    std::unique_ptr<void, Free> state_;
};

// Streaming SHA-256 over bytes. Move-only.
class Sha256 {
  public:
    Sha256();
    void update(const void* data, std::size_t size);
    template <class T, std::size_t N>
        requires std::is_trivially_copyable_v<T>
    void update(std::span<T, N> values) {
        update(values.data(), values.size_bytes());
    }
    // Lower-case hexadecimal, 64 characters. The stream goes on: more may be added after it.
    [[nodiscard]] std::string hex() const;

  private:
    struct Free {
        void operator()(void* state) const noexcept;
    };
    std::unique_ptr<void, Free> state_;
};

[[nodiscard]] std::string sha256_hex(std::string_view bytes);
// SHA-256 of a file's content, lower-case hexadecimal. Throws IoError.
[[nodiscard]] std::string sha256_file(const std::string& path);

}  // namespace lightmill

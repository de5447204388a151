#pragma once
// An answer in the one form that gates compare: named arrays in an order that the subject fixes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lightmill/base/file.hpp"

namespace lightmill::ladder {

enum class Element { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64 };
[[nodiscard]] std::string_view name(Element type) noexcept;
[[nodiscard]] std::size_t size_bytes(Element type) noexcept;

// Memory of the subject (or of a mapped file), not of the array.
struct Array {
    std::string name;
    Element type = Element::u8;
    std::span<const std::byte> bytes;
    [[nodiscard]] std::size_t count() const noexcept { return bytes.size() / size_bytes(type); }
};
using Answer = std::vector<Array>;

template <class T>
[[nodiscard]] constexpr Element element_of() {
    if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? Element::f32 : Element::f64;
    constexpr int k_order = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
    return static_cast<Element>(k_order + (std::is_unsigned_v<T> || std::is_same_v<T, std::byte> ? 1 : 0));
}
template <class T>
[[nodiscard]] Array array_of(std::string name, std::span<const T> values) {
    return {std::move(name), element_of<T>(), std::as_bytes(values)};
}

// XXH3-128 over names, types, counts and bytes, in hexadecimal.
[[nodiscard]] std::string checksum(const Answer& answer);
// Elements of floating-point arrays that are NaN or infinite.
[[nodiscard]] std::uint64_t nonfinite(const Answer& answer);

// The file that travels from a worker to the gate: for each array a line "array NAME TYPE COUNT\n", then
// its elements, little endian.
void write_answer(const std::string& path, const Answer& answer);
class AnswerFile {
  public:
    AnswerFile() noexcept = default;
    // Throws IoError, FormatError.
    explicit AnswerFile(const std::string& path);
    [[nodiscard]] const Answer& answer() const noexcept { return answer_; }

  private:
    MappedFile file_;
    Answer answer_;
};

}  // namespace lightmill::ladder

#pragma once
// The header of a .npy file.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lightmill/base/file.hpp"

namespace lightmill::frames::detail {

struct NpyHeader {
    std::string type;  // 'descr': as in "<u2"; a structured type's text from '[' to ']'
    bool is_structured = false;
    bool fortran_order = false;
    std::vector<std::int64_t> shape;
    std::size_t size_bytes = 0;  // of the header: where the data begin
};

// Throws FormatError.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& path);

// A header of k_npy_header_bytes whatever the shape, so that it can be replaced once the shape is known.
// descr: with its quotes or brackets.
[[nodiscard]] std::string npy_header(const std::string& descr, std::span<const std::int64_t> shape);
inline constexpr std::size_t k_npy_header_bytes = 256;

// Creates partial_path(path) with a header of shape 0, and finishes it with its true one.
[[nodiscard]] FileDescriptor create_npy(const std::string& path, bool overwrite);
void finish_npy(FileDescriptor& file, const std::string& path, const std::string& header);
// Removes what was not finished.
void abandon_npy(FileDescriptor& file, const std::string& path) noexcept;

}  // namespace lightmill::frames::detail

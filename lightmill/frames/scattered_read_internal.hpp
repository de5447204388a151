#pragma once
// Reads records whose headers and images go to different places, in one system call for many of them
// and without a copy in between.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/uio.h>

#include "lightmill/base/file.hpp"

namespace lightmill::frames::detail {

// Adds a piece to a list, joining it to the one before where they touch.
void add_piece(std::vector<iovec>& pieces, void* data, std::size_t size);

// Fills all pieces, in order, from consecutive bytes of the file that start at `offset`. Uses up
// `pieces`. Throws IoError; FormatError where the file ends early.
void read_scattered(const FileDescriptor& file, const std::string& path, std::int64_t offset,
                    std::span<iovec> pieces);

}  // namespace lightmill::frames::detail

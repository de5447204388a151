#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/scattered_read_internal.hpp"

namespace lightmill::frames::detail {

void add_piece(std::vector<iovec>& pieces, void* data, std::size_t size) {
    if (!pieces.empty()) {
        auto& last = pieces.back();
        if (static_cast<std::byte*>(last.iov_base) + last.iov_len == data) {
            last.iov_len += size;
            return;
        }
    }
    pieces.push_back({data, size});
}

void read_scattered(const FileDescriptor& file, const std::string& path, std::int64_t offset,
                    std::span<iovec> pieces) {
    while (!pieces.empty()) {
        const auto n = ::preadv(file.get(), pieces.data(),
                                static_cast<int>(std::min<std::size_t>(pieces.size(), IOV_MAX)), offset);
        if (n < 0) {
            if (errno == EINTR) continue;
            throw IoError(path, "read", errno);
        }
        auto got = static_cast<std::size_t>(n);
        if (got == 0 && pieces.front().iov_len > 0) {
            throw FormatError(
                path, offset,
                "the file ends here, expected more frames as when it was opened; it was cut since");
        }
        offset += n;
        while (!pieces.empty() && got >= pieces.front().iov_len) {
            got -= pieces.front().iov_len;
            pieces = pieces.subspan(1);
        }
        if (got > 0) {
            auto& piece = pieces.front();
            piece = {static_cast<std::byte*>(piece.iov_base) + got, piece.iov_len - got};
        }
    }
}

}  // namespace lightmill::frames::detail

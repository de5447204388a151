#include "lightmill/clusters/sink/clust.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "lightmill/base/error.hpp"

namespace lightmill::clusters {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

template <class T>
void append(std::vector<std::byte>& bytes, const T* values, std::size_t count) {
    const auto* first = reinterpret_cast<const std::byte*>(values);
    bytes.insert(bytes.end(), first, first + count * sizeof(T));
}

std::size_t value_bytes(Payload payload) {
    return payload == Payload::int32 ? 4 : 2;
}

void require_16_bits(const char* what, std::span<const std::uint32_t> values) {
    constexpr std::uint32_t k_most = std::numeric_limits<std::uint16_t>::max();
    for (const auto value : values) {
        if (value > k_most) {
            throw Error(
                ErrorCode::range,
                fmt::format("{} {} does not fit a .clust file, whose coordinates go to {}; write a result "
                            "file (.h5)",
                            what, value, k_most),
                what);
        }
    }
}

}  // namespace

ClustWriter::ClustWriter(const std::string& path, bool overwrite) : path_(path) {
    require_writable(path, overwrite);
    const auto partial = partial_path(path);
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (overwrite ? O_TRUNC : O_EXCL);
    file_ = FileDescriptor(::open(partial.c_str(), flags, 0644));
    if (!file_.is_open()) {
        throw IoError(partial, "create", errno,
                      errno == EEXIST ? "an interrupted run left it; give --overwrite" : io_advice(errno));
    }
}

void ClustWriter::add(const ClustersView& clusters) {
    require_16_bits("row", clusters.rows);
    require_16_bits("column", clusters.columns);
    for (const auto number : clusters.numbers) {
        if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
            throw Error(
                ErrorCode::range,
                fmt::format("frame number {} does not fit a .clust file, whose numbers go to {}; write a "
                            "result file (.h5)",
                            number, std::numeric_limits<std::int32_t>::max()),
                "frame_number");
        }
    }
    const auto cells = static_cast<std::size_t>(clusters.window.cells());
    bytes_.clear();
    for (std::size_t f = 0; f < clusters.frames(); ++f) {
        if (clusters.count(f) > std::numeric_limits<std::uint32_t>::max()) {
            throw Error(ErrorCode::range, "more than 2^32 clusters in a frame do not fit a .clust file",
                        "count");
        }
        const auto number = static_cast<std::int32_t>(clusters.numbers[f]);
        const auto count = static_cast<std::uint32_t>(clusters.count(f));
        append(bytes_, &number, 1);
        append(bytes_, &count, 1);
        for (auto i = clusters.offsets[f]; i < clusters.offsets[f + 1]; ++i) {
            const std::uint16_t x = static_cast<std::uint16_t>(clusters.columns[i]);
            const std::uint16_t y = static_cast<std::uint16_t>(clusters.rows[i]);
            append(bytes_, &x, 1);
            append(bytes_, &y, 1);
            if (clusters.residuals16.empty()) {
                append(bytes_, clusters.residuals.data() + i * cells, cells);
            } else {
                append(bytes_, clusters.residuals16.data() + i * cells, cells);
            }
        }
    }
    try {
        write_all(file_, partial_path(path_), bytes_);
    } catch (...) {
        // Whole frames only: what got through of these goes.
        if (::ftruncate(file_.get(), size_) == 0) ::lseek(file_.get(), 0, SEEK_END);
        throw;
    }
    size_ += static_cast<std::int64_t>(bytes_.size());
}

void ClustWriter::publish() {
    file_.close();
    lightmill::publish(path_);
}

ClustReader::ClustReader(const std::string& path, const Window& window, Payload payload)
    : path_(path), window_(window), payload_(payload), file_(open_for_reading(path)) {
    size_ = size_bytes(file_, path);
}

Clusters ClustReader::read(std::uint64_t frames) {
    Clusters out;
    out.window = window_;
    out.first_index = frames_;
    const auto cells = static_cast<std::size_t>(window_.cells());
    const auto each = static_cast<std::int64_t>(4 + cells * value_bytes(payload_));
    for (std::uint64_t f = 0; f < frames && at_ < size_; ++f) {
        struct {
            std::int32_t number;
            std::uint32_t count;
        } head{};
        static_assert(sizeof head == 8);
        read_exact(file_, path_, at_, std::as_writable_bytes(std::span(&head, 1)));
        if (head.number < 0) {
            throw FormatError(path_, at_,
                              fmt::format("found frame number {}, expected one from 0", head.number));
        }
        const auto left = (size_ - at_ - 8) / each;
        if (head.count > left) {
            throw FormatError(
                path_, at_ + 4,
                fmt::format("found a count of {} clusters of {} bytes (window {}), expected at most {}, "
                            "which the rest of the file holds; it is truncated, or of another window "
                            "or type",
                            head.count, each, to_string(window_), left));
        }
        bytes_.resize(head.count * static_cast<std::size_t>(each));
        read_exact(file_, path_, at_ + 8, bytes_);
        const auto* from = bytes_.data();
        for (std::uint32_t i = 0; i < head.count; ++i) {
            std::uint16_t x = 0, y = 0;
            std::memcpy(&x, from, 2);
            std::memcpy(&y, from + 2, 2);
            out.columns.push_back(x);
            out.rows.push_back(y);
            const auto old = payload_ == Payload::int32 ? out.residuals.size() : out.residuals16.size();
            if (payload_ == Payload::int32) {
                out.residuals.resize(old + cells);
                std::memcpy(out.residuals.data() + old, from + 4, cells * 4);
            } else {
                out.residuals16.resize(old + cells);
                std::memcpy(out.residuals16.data() + old, from + 4, cells * 2);
            }
            from += each;
        }
        out.numbers.push_back(static_cast<std::uint64_t>(head.number));
        out.offsets.push_back(out.rows.size());
        at_ += 8 + static_cast<std::int64_t>(bytes_.size());
        ++frames_;
    }
    return out;
}

}  // namespace lightmill::clusters

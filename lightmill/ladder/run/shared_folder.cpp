#include "lightmill/ladder/run/shared_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "lightmill/base/error.hpp"
#include "lightmill/ladder/probe/environment.hpp"

namespace lightmill::ladder {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view k_prefix = "lightmill_ladder-";

// The lock of a folder of ours that nobody holds; closed where it is not ours, held, or not there.
FileDescriptor locked(const std::string& folder) {
    FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info{};
    if (!fd.is_open() || ::fstat(fd.get(), &info) != 0 || info.st_uid != ::geteuid() ||
        ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
        return {};
    return fd;
}

void remove_abandoned(const std::string& memory) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(memory, ignored)) {
        if (entry.path().filename().string().rfind(k_prefix, 0) != 0) continue;
        if (const FileDescriptor lock = locked(entry.path().string()); lock.is_open())
            fs::remove_all(entry.path(), ignored);
    }
}

// Bytes that a folder can take; -1 where it is not there or cannot be used, and `why` then says so.
std::int64_t room(const std::string& folder, std::string& why) {
    struct statvfs info{};
    if (::statvfs(folder.c_str(), &info) != 0) {
        why = fmt::format("{} is not there", folder);
    } else if ((info.f_flag & ST_RDONLY) != 0 || ::access(folder.c_str(), W_OK) != 0) {
        why = fmt::format("{} cannot be written to", folder);
    } else if ((info.f_flag & ST_NOEXEC) != 0) {
        why = fmt::format("{} does not let programs start from it (noexec)", folder);
    } else {
        return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
    }
    return -1;
}

std::string mebibytes(std::int64_t bytes) {
    return fmt::format("{} MiB", (bytes + (1 << 20) - 1) >> 20);
}

}  // namespace

SharedFolder::SharedFolder(const std::string& memory, const std::string& name, const std::string& otherwise,
                           std::int64_t bytes) {
    remove_abandoned(memory);
    std::int64_t free = room(memory, why_not_memory_);
    if (free >= 0) free = std::min(free, available_memory_bytes());
    if (free >= 0 && free < bytes)
        why_not_memory_ = fmt::format("{} or the memory behind it has {} free, {} are needed", memory,
                                      mebibytes(free), mebibytes(bytes));
    path_ = (fs::path(memory) / (std::string(k_prefix) + name)).string();
    if (!why_not_memory_.empty()) {
        path_ = otherwise;
        fs::remove_all(path_);  // left by this session, killed earlier
        std::string why;
        const std::int64_t there = room(fs::absolute(path_).parent_path().string(), why);
        if (there >= 0 && there < bytes)
            why = fmt::format("{} has {} free, {} are needed", path_, mebibytes(there), mebibytes(bytes));
        if (!why.empty())
            throw Error(ErrorCode::io,
                        fmt::format("no room for the input and the copies of the program: {}; {}",
                                    why_not_memory_, why),
                        path_);
    }
    // Between the two calls another session may take it for abandoned and remove it: then once more.
    for (int attempt = 0; attempt < 100 && !lock_.is_open(); ++attempt) {
        if (::mkdir(path_.c_str(), 0700) != 0) throw IoError(path_, "mkdir", errno, io_advice(errno));
        lock_ = locked(path_);
        if (lock_.is_open() && !fs::exists(path_)) lock_.close();
    }
    if (!lock_.is_open()) throw IoError(path_, "flock", EWOULDBLOCK);
}

SharedFolder::~SharedFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

}  // namespace lightmill::ladder

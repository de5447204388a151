#include "lightmill/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "lightmill/base/error.hpp"

namespace lightmill {

std::string io_advice(int error_number) {
    switch (error_number) {
        case ENOSPC:
        case EDQUOT:
            return "free some space, or write elsewhere";
        case EACCES:
        case EPERM:
            return "check the permissions of the file and its folder";
        case ENOENT:
            return "check the path";
        case EMFILE:
        case ENFILE:
            return "too many files are open; raise the limit (ulimit -n)";
        default:
            return {};
    }
}

namespace {

[[noreturn]] void fail(const std::string& path, const char* call, int error_number) {
    throw IoError(path, call, error_number, io_advice(error_number));
}

FileDescriptor create(const std::string& path) {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.is_open()) fail(path, "create", errno);
    return file;
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
        close();
        fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
}
FileDescriptor::~FileDescriptor() {
    close();
}
void FileDescriptor::close() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

FileDescriptor open_for_reading(const std::string& path) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) fail(path, "open", errno);
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) fail(path, "stat", errno);
    if (S_ISDIR(info.st_mode)) throw IoError(path, "open", EISDIR, "name a file");
    return file;
}

std::int64_t size_bytes(const FileDescriptor& file, const std::string& path) {
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) fail(path, "stat", errno);
    return info.st_size;
}

void read_exact(const FileDescriptor& file, const std::string& path, std::int64_t offset,
                std::span<std::byte> out) {
    std::size_t done = 0;
    while (done < out.size()) {
        const auto n = ::pread(file.get(), out.data() + done, out.size() - done,
                               offset + static_cast<std::int64_t>(done));
        if (n < 0) {
            if (errno == EINTR) continue;
            fail(path, "read", errno);
        }
        if (n == 0) {
            throw FormatError(
                path, offset,
                fmt::format("the file ends {} bytes into a read of {}; it is truncated", done, out.size()));
        }
        done += static_cast<std::size_t>(n);
    }
}

void write_all(const FileDescriptor& file, const std::string& path, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto n = ::write(file.get(), bytes.data(), bytes.size());
        if (n < 0) {
            if (errno == EINTR) continue;
            fail(path, "write", errno);
        }
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
}

MappedFile::MappedFile(const std::string& path) {
    const FileDescriptor file = open_for_reading(path);
    size_ = static_cast<std::size_t>(size_bytes(file, path));
    if (size_ == 0) return;
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED) fail(path, "mmap", errno);
    data_ = static_cast<const std::byte*>(address);
}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}
MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string partial_path(const std::string& path) {
    return path + ".partial";
}

void require_writable(const std::string& path, bool overwrite) {
    namespace fs = std::filesystem;
    if (path.empty()) throw OptionError("output", "an empty name", "a file name");
    std::error_code error;
    const auto status = fs::status(path, error);
    if (fs::is_directory(status)) throw IoError(path, "create", EISDIR, "name a file");
    if (fs::exists(status) && !overwrite) {
        throw IoError(path, "create", EEXIST, "give --overwrite, or another name");
    }
    auto folder = fs::path(path).parent_path();
    if (folder.empty()) folder = ".";
    if (!fs::is_directory(folder, error))
        throw IoError(folder.string(), "write to folder", ENOENT, "make the folder first");
    if (::access(folder.c_str(), W_OK | X_OK) != 0) fail(folder.string(), "write to folder", errno);
}

void publish(const std::string& path) {
    const auto from = partial_path(path);
    {
        const FileDescriptor file(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
        if (!file.is_open()) fail(from, "open", errno);
        if (::fsync(file.get()) != 0) fail(from, "sync", errno);
    }
    if (::rename(from.c_str(), path.c_str()) != 0) fail(path, "rename", errno);
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
    const auto partial = partial_path(path);
    try {
        const auto file = create(partial);
        write_all(file, partial, bytes);
    } catch (...) {
        ::unlink(partial.c_str());
        throw;
    }
    publish(path);
}
void write_file(const std::string& path, const std::string& text) {
    write_file(path, std::as_bytes(std::span(text)));
}

std::string read_file(const std::string& path, std::int64_t limit_bytes) {
    const auto file = open_for_reading(path);
    const auto size = size_bytes(file, path);
    if (size > limit_bytes) {
        throw FormatError(
            path, -1,
            fmt::format("found {} bytes, expected at most {} for a file of this kind", size, limit_bytes));
    }
    std::string text(static_cast<std::size_t>(size), '\0');
    read_exact(file, path, 0, std::as_writable_bytes(std::span(text)));
    return text;
}

}  // namespace lightmill

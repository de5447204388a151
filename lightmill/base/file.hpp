#pragma once
// Files: owners of descriptors and mappings, reads that are whole or an error, and output that
// appears whole or not at all.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lightmill {

// Owns a file descriptor.
class FileDescriptor {
  public:
    FileDescriptor() noexcept = default;
    explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept;
    FileDescriptor& operator=(FileDescriptor&& other) noexcept;
    ~FileDescriptor();

    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
    void close() noexcept;

  private:
    int fd_ = -1;
};

// What a user can do about an error number; empty where nothing is known.
[[nodiscard]] std::string io_advice(int error_number);

// Opens for reading. Throws IoError. A directory is refused by name.
[[nodiscard]] FileDescriptor open_for_reading(const std::string& path);
// Size in bytes of an open file.
[[nodiscard]] std::int64_t size_bytes(const FileDescriptor& file, const std::string& path);
// Reads exactly out.size() bytes at `offset`. Throws IoError; FormatError, naming both counts, where the file
// ends early.
void read_exact(const FileDescriptor& file, const std::string& path, std::int64_t offset,
                std::span<std::byte> out);
// Writes all bytes at the current position. Throws IoError with advice for a full disk.
void write_all(const FileDescriptor& file, const std::string& path, std::span<const std::byte> bytes);

// A file mapped read-only. An empty file has no bytes.
class MappedFile {
  public:
    MappedFile() noexcept = default;
    explicit MappedFile(const std::string& path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

// The name under which an output grows: "OUT.partial".
[[nodiscard]] std::string partial_path(const std::string& path);
// Throws IoError/OptionError where `path` exists and `overwrite` is not set, where its folder does
// not exist or cannot be written: before any work is done for it.
void require_writable(const std::string& path, bool overwrite);
// Syncs partial_path(path) to disk and gives it its name, whole. Throws IoError.
void publish(const std::string& path);

// A small output file that appears whole or not at all: written to partial_path, synced, renamed.
void write_file(const std::string& path, std::span<const std::byte> bytes);
void write_file(const std::string& path, const std::string& text);
// The whole content of a small file. Throws IoError; FormatError above `limit_bytes`.
[[nodiscard]] std::string read_file(const std::string& path,
                                    std::int64_t limit_bytes = std::int64_t{64} << 20);

}  // namespace lightmill

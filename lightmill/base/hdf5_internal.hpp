#pragma once
// HDF5's C interface with owners and exceptions. Not for public headers.

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lightmill::hdf5 {

// Every use of HDF5 happens inside a session: one thread of the process at a time (the library may be
// built without its own lock), and nothing printed on standard error. Nests.
class Session {
  public:
    Session();
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

  private:
    std::unique_lock<std::recursive_mutex> lock_;
    H5E_auto2_t print_ = nullptr;
    void* print_data_ = nullptr;
};

// Throws what the library's error stack says: IoError where the operating system refused (its errno is
// in the stack), else FormatError. path: the file concerned; what: what was tried, "read /clusters/row".
[[noreturn]] void fail(const std::string& path, const std::string& what);

// Passes a result on, or fails where it is negative.
template <class Result>
Result check(Result result, const std::string& path, const std::string& what) {
    if (result < 0) fail(path, what);
    return result;
}

// Owns an identifier of any kind. Closing never throws; a file that must be whole is closed by close().
class Id {
  public:
    Id() noexcept = default;
    explicit Id(hid_t id) noexcept : id_(id) {}
    Id(Id&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
    Id& operator=(Id&& other) noexcept {
        if (this != &other) {
            reset();
            id_ = std::exchange(other.id_, H5I_INVALID_HID);
        }
        return *this;
    }
    ~Id() { reset(); }

    [[nodiscard]] hid_t get() const noexcept { return id_; }
    [[nodiscard]] explicit operator bool() const noexcept { return id_ >= 0; }
    void reset() noexcept;
    // Closes, and fails where that loses data.
    void close(const std::string& path);

  private:
    hid_t id_ = H5I_INVALID_HID;
};

// Cuts an open file off from the disk: from here on the library writes into memory that goes with it.
// For a file that a failed write broke: closing it would write the rest of its tables around the hole.
void divert(hid_t file) noexcept;

// The library's type for a plain C++ one, as it lies in memory. Needs a session, like everything here.
template <class T>
[[nodiscard]] hid_t native_type() noexcept {
    if constexpr (std::is_enum_v<T>) {
        return native_type<std::underlying_type_t<T>>();
    } else if constexpr (std::is_same_v<T, float>) {
        return H5T_NATIVE_FLOAT;
    } else if constexpr (std::is_same_v<T, double>) {
        return H5T_NATIVE_DOUBLE;
    } else if constexpr (sizeof(T) == 1) {
        return std::is_signed_v<T> ? H5T_NATIVE_INT8 : H5T_NATIVE_UINT8;
    } else if constexpr (sizeof(T) == 2) {
        return std::is_signed_v<T> ? H5T_NATIVE_INT16 : H5T_NATIVE_UINT16;
    } else if constexpr (sizeof(T) == 4) {
        return std::is_signed_v<T> ? H5T_NATIVE_INT32 : H5T_NATIVE_UINT32;
    } else {
        static_assert(sizeof(T) == 8);
        return std::is_signed_v<T> ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64;
    }
}

using Extents = std::vector<hsize_t>;

// A group or dataset with its name in the file, for errors.
[[nodiscard]] Id open_group(hid_t parent, const std::string& name, const std::string& path);
[[nodiscard]] Id create_group(hid_t parent, const std::string& name, const std::string& path);
[[nodiscard]] Id open_dataset(hid_t parent, const std::string& name, const std::string& path);
[[nodiscard]] bool has(hid_t parent, const std::string& name);  // a link of that name
[[nodiscard]] bool has_attribute(hid_t object, const std::string& name);
[[nodiscard]] Extents extents(hid_t dataset, const std::string& name, const std::string& path);

namespace detail {
[[nodiscard]] Id create_dataset(hid_t parent, const std::string& name, const Extents& extents, hid_t type,
                                const std::string& path);
void write(hid_t dataset, hid_t type, const void* data, const std::string& name, const std::string& path);
// Reads a whole dataset of exactly these extents and of a number type of the same class and at most
// this size. Throws FormatError where it is another.
void require(hid_t dataset, hid_t type, const Extents& extents, const std::string& name,
             const std::string& path);
void read(hid_t dataset, hid_t type, void* data, const std::string& name, const std::string& path);
void write_attribute(hid_t object, const std::string& name, hid_t type, std::span<const hsize_t> extents,
                     const void* data, const std::string& path);
void read_attribute(hid_t object, const std::string& name, hid_t type, std::size_t values, void* data,
                    const std::string& path);
std::size_t attribute_size(hid_t object, const std::string& name, const std::string& path);
}  // namespace detail

// A contiguous dataset, its place in the file taken at once.
template <class T>
void write_dataset(hid_t parent, const std::string& name, const Extents& extents, std::span<const T> values,
                   const std::string& path) {
    const auto dataset = detail::create_dataset(parent, name, extents, native_type<T>(), path);
    if (!values.empty()) detail::write(dataset.get(), native_type<T>(), values.data(), name, path);
}
template <class T>
[[nodiscard]] std::vector<T> read_dataset(hid_t parent, const std::string& name, const Extents& expected,
                                          const std::string& path) {
    const auto dataset = open_dataset(parent, name, path);
    detail::require(dataset.get(), native_type<T>(), expected, name, path);
    hsize_t size = 1;
    for (const auto extent : expected) size *= extent;
    std::vector<T> values(size);
    if (size > 0) detail::read(dataset.get(), native_type<T>(), values.data(), name, path);
    return values;
}

// Numbers, and strings of fixed length in UTF-8. Writing replaces an attribute that is there.
template <class T>
    requires std::is_arithmetic_v<T>
void write_attribute(hid_t object, const std::string& name, T value, const std::string& path) {
    detail::write_attribute(object, name, native_type<T>(), {}, &value, path);
}
template <class T>
void write_attribute(hid_t object, const std::string& name, const std::vector<T>& values,
                     const std::string& path) {
    const hsize_t size = values.size();
    detail::write_attribute(object, name, native_type<T>(), {&size, 1}, values.data(), path);
}
void write_text(hid_t object, const std::string& name, std::string_view value, const std::string& path);

template <class T>
[[nodiscard]] T read_attribute(hid_t object, const std::string& name, const std::string& path) {
    T value{};
    detail::read_attribute(object, name, native_type<T>(), 1, &value, path);
    return value;
}
template <class T>
[[nodiscard]] std::vector<T> read_attributes(hid_t object, const std::string& name, const std::string& path) {
    std::vector<T> values(detail::attribute_size(object, name, path));
    if (!values.empty())
        detail::read_attribute(object, name, native_type<T>(), values.size(), values.data(), path);
    return values;
}
[[nodiscard]] std::string read_text(hid_t object, const std::string& name, const std::string& path);

}  // namespace lightmill::hdf5

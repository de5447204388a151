#include "lightmill/base/hdf5_internal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"

namespace lightmill::hdf5 {
namespace {

std::recursive_mutex& library_mutex() {
    static std::recursive_mutex mutex;
    return mutex;
}

// The innermost entries say what happened, the outermost what was tried.
struct Trace {
    std::string text;
    int error_number = 0;
    std::string filter;  // of a message "required filter 'X' is not registered"
};

herr_t gather(unsigned, const H5E_error2_t* entry, void* out) noexcept {
    auto& trace = *static_cast<Trace*>(out);
    try {
        const std::string_view text = entry->desc == nullptr ? "" : entry->desc;
        if (trace.text.empty()) trace.text = text;
        constexpr std::string_view k_errno = "errno = ";
        if (const auto at = text.find(k_errno); at != std::string_view::npos && trace.error_number == 0) {
            const auto digits = text.substr(at + k_errno.size());
            std::from_chars(digits.data(), digits.data() + digits.size(), trace.error_number);
        }
        constexpr std::string_view k_filter = "required filter '";
        if (const auto at = text.find(k_filter); at != std::string_view::npos) {
            const auto rest = text.substr(at + k_filter.size());
            trace.filter = rest.substr(0, rest.find('\''));
        }
    } catch (...) {
        return -1;
    }
    return 0;
}

std::string text(const Extents& extents) {
    return extents.empty() ? "one value" : fmt::format("{}", fmt::join(extents, " x "));
}

const char* class_name(H5T_class_t type) {
    switch (type) {
        case H5T_INTEGER:
            return "integers";
        case H5T_FLOAT:
            return "floating-point numbers";
        case H5T_STRING:
            return "text";
        default:
            return "another type";
    }
}

}  // namespace

Session::Session() : lock_(library_mutex()) {
    // A file that cannot be closed must not be tried again when the process ends: that crashes.
    static const herr_t once = H5dont_atexit();
    static_cast<void>(once);
    H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}
Session::~Session() {
    H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
}

void fail(const std::string& path, const std::string& what) {
    Trace trace;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, gather, &trace);
    H5Eclear2(H5E_DEFAULT);
    if (trace.error_number != 0) throw IoError(path, what, trace.error_number, io_advice(trace.error_number));
    if (!trace.filter.empty()) {
        throw Error(
            ErrorCode::unavailable,
            fmt::format("{}: {} needs the HDF5 filter \"{}\", which is not installed; install its plugin "
                        "(Debian: package bitshuffle for bitshuffle, hdf5-filter-plugin for others)",
                        path, what, trace.filter),
            path);
    }
    throw FormatError(path, -1, fmt::format("HDF5 could not {}: {}", what, trace.text));
}

void Id::reset() noexcept {
    if (id_ < 0) return;
    const Session session;
    H5Idec_ref(id_);
    id_ = H5I_INVALID_HID;
}

void Id::close(const std::string& path) {
    if (id_ < 0) return;
    const Session session;
    const bool file = H5Iget_type(id_) == H5I_FILE;
    if (file) check(H5Fflush(id_, H5F_SCOPE_GLOBAL), path, "write");
    check(H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)), path, "close");
}

void divert(hid_t file) noexcept {
    const Session session;
    void* handle = nullptr;
    if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || handle == nullptr) return;
    const FileDescriptor memory(::memfd_create("lightmill", MFD_CLOEXEC));
    if (memory.is_open()) ::dup3(memory.get(), *static_cast<int*>(handle), O_CLOEXEC);
}

Id open_group(hid_t parent, const std::string& name, const std::string& path) {
    return Id(check(H5Gopen2(parent, name.c_str(), H5P_DEFAULT), path, fmt::format("open group {}", name)));
}
Id create_group(hid_t parent, const std::string& name, const std::string& path) {
    return Id(check(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), path,
                    fmt::format("create group {}", name)));
}
Id open_dataset(hid_t parent, const std::string& name, const std::string& path) {
    return Id(check(H5Dopen2(parent, name.c_str(), H5P_DEFAULT), path, fmt::format("open dataset {}", name)));
}
bool has(hid_t parent, const std::string& name) {
    const bool found = H5Lexists(parent, name.c_str(), H5P_DEFAULT) > 0;
    H5Eclear2(H5E_DEFAULT);
    return found;
}
bool has_attribute(hid_t object, const std::string& name) {
    const bool found = H5Aexists(object, name.c_str()) > 0;
    H5Eclear2(H5E_DEFAULT);
    return found;
}
Extents extents(hid_t dataset, const std::string& name, const std::string& path) {
    const Id space(check(H5Dget_space(dataset), path, fmt::format("read the shape of {}", name)));
    const int rank =
        check(H5Sget_simple_extent_ndims(space.get()), path, fmt::format("read the shape of {}", name));
    Extents extents(static_cast<std::size_t>(rank));
    if (rank > 0) H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
    return extents;
}

namespace detail {

Id create_dataset(hid_t parent, const std::string& name, const Extents& extents, hid_t type,
                  const std::string& path) {
    const auto what = fmt::format("create dataset {}", name);
    const Id space(
        check(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), path, what));
    const Id properties(check(H5Pcreate(H5P_DATASET_CREATE), path, what));
    check(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), path, what);
    return Id(
        check(H5Dcreate2(parent, name.c_str(), type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
              path, what));
}

void write(hid_t dataset, hid_t type, const void* data, const std::string& name, const std::string& path) {
    check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), path, fmt::format("write {}", name));
}

void require(hid_t dataset, hid_t type, const Extents& expected, const std::string& name,
             const std::string& path) {
    const auto what = fmt::format("read {}", name);
    const auto found = hdf5::extents(dataset, name, path);
    if (found != expected) {
        throw FormatError(
            path, -1, fmt::format("dataset {}: found {}, expected {}", name, text(found), text(expected)));
    }
    const Id stored(check(H5Dget_type(dataset), path, what));
    const auto found_class = H5Tget_class(stored.get());
    const auto expected_class = H5Tget_class(type);
    if (found_class != expected_class || H5Tget_size(stored.get()) != H5Tget_size(type)) {
        throw FormatError(path, -1,
                          fmt::format("dataset {}: found {} of {} bytes, expected {} of {} bytes", name,
                                      class_name(found_class), H5Tget_size(stored.get()),
                                      class_name(expected_class), H5Tget_size(type)));
    }
    // Extents that nothing was stored for would ask for memory that the file does not justify.
    hsize_t bytes = H5Tget_size(type);
    for (const auto extent : expected) {
        constexpr hsize_t k_most = hsize_t{1} << 62;
        if (extent != 0 && bytes > k_most / extent) {
            throw FormatError(path, -1, fmt::format("dataset {}: {} is absurd", name, text(expected)));
        }
        bytes *= extent;
    }
    const auto kept = H5Dget_storage_size(dataset);
    if (kept < bytes) {
        throw FormatError(path, -1,
                          fmt::format("dataset {}: found {} bytes stored, expected {}", name, kept, bytes));
    }
}

void read(hid_t dataset, hid_t type, void* data, const std::string& name, const std::string& path) {
    check(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), path, fmt::format("read {}", name));
}

void write_attribute(hid_t object, const std::string& name, hid_t type, std::span<const hsize_t> extents,
                     const void* data, const std::string& path) {
    const auto what = fmt::format("write attribute {}", name);
    const bool empty = extents.size() == 1 && extents[0] == 0;
    const Id space(check(extents.empty()
                             ? H5Screate(H5S_SCALAR)
                             : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                         path, what));
    if (has_attribute(object, name)) check(H5Adelete(object, name.c_str()), path, what);
    const Id attribute(
        check(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), path, what));
    if (!empty) check(H5Awrite(attribute.get(), type, data), path, what);
}

std::size_t attribute_size(hid_t object, const std::string& name, const std::string& path) {
    const auto what = fmt::format("read attribute {}", name);
    const Id attribute(check(H5Aopen(object, name.c_str(), H5P_DEFAULT), path, what));
    const Id space(check(H5Aget_space(attribute.get()), path, what));
    return static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space.get()), path, what));
}

void read_attribute(hid_t object, const std::string& name, hid_t type, std::size_t values, void* data,
                    const std::string& path) {
    const auto what = fmt::format("read attribute {}", name);
    if (const auto found = attribute_size(object, name, path); found != values) {
        throw FormatError(path, -1,
                          fmt::format("attribute {}: found {} values, expected {}", name, found, values));
    }
    const Id attribute(check(H5Aopen(object, name.c_str(), H5P_DEFAULT), path, what));
    const Id stored(check(H5Aget_type(attribute.get()), path, what));
    if (const auto found = H5Tget_class(stored.get()); found != H5Tget_class(type)) {
        throw FormatError(path, -1,
                          fmt::format("attribute {}: found {}, expected {}", name, class_name(found),
                                      class_name(H5Tget_class(type))));
    }
    check(H5Aread(attribute.get(), type, data), path, what);
}

}  // namespace detail

void write_text(hid_t object, const std::string& name, std::string_view value, const std::string& path) {
    const auto what = fmt::format("write attribute {}", name);
    const Id type(check(H5Tcopy(H5T_C_S1), path, what));
    check(H5Tset_size(type.get(), std::max<std::size_t>(value.size(), 1)), path, what);
    check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), path, what);
    check(H5Tset_cset(type.get(), H5T_CSET_UTF8), path, what);
    detail::write_attribute(object, name, type.get(), {}, value.empty() ? "" : value.data(), path);
}

std::string read_text(hid_t object, const std::string& name, const std::string& path) {
    const auto what = fmt::format("read attribute {}", name);
    const Id attribute(check(H5Aopen(object, name.c_str(), H5P_DEFAULT), path, what));
    const Id type(check(H5Aget_type(attribute.get()), path, what));
    const auto found = H5Tget_class(type.get());
    if (found != H5T_STRING || H5Tis_variable_str(type.get()) != 0 ||
        detail::attribute_size(object, name, path) != 1) {
        throw FormatError(path, -1,
                          fmt::format("attribute {}: found {}, expected text of fixed length", name,
                                      found == H5T_STRING ? "other text" : class_name(found)));
    }
    std::string value(H5Tget_size(type.get()), '\0');
    check(H5Aread(attribute.get(), type.get(), value.data()), path, what);
    value.resize(value.find_last_not_of('\0') + 1);
    return value;
}

}  // namespace lightmill::hdf5

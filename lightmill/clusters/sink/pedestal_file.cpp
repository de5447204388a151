#include "lightmill/clusters/sink/pedestal_file.hpp"

#include <fmt/format.h>

#include "lightmill/base/build_info.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/sink/layout_internal.hpp"

namespace lightmill::clusters {

void save_pedestal(const Pedestal& pedestal, const std::string& path, const std::vector<std::string>& sources,
                   bool overwrite) {
    require_writable(path, overwrite);
    const hdf5::Session session;
    const auto partial = partial_path(path);
    {
        hdf5::Id file(hdf5::check(H5Fcreate(partial.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                                  partial, "create"));
        hdf5::write_text(file.get(), "format", detail::k_pedestal_format, partial);
        hdf5::write_attribute(file.get(), "format_version", detail::k_format_version, partial);
        hdf5::write_text(file.get(), "version", version(), partial);
        detail::write_pedestal(file.get(), pedestal, partial);
        detail::write_texts(file.get(), "sources", sources, partial);
        file.close(partial);
    }
    publish(path);
}

Pedestal load_pedestal(const std::string& path) {
    const hdf5::Session session;
    const auto file = detail::open_file(path);
    if (detail::format_of(file.get(), path) != detail::k_result_format) {
        detail::require_format(file.get(), detail::k_pedestal_format, path);
    }
    return detail::read_pedestal(file.get(), path);
}

bool is_pedestal_file(const std::string& path) {
    const hdf5::Session session;
    static_cast<void>(open_for_reading(path));
    try {
        const auto file = detail::open_file(path);
        const auto format = detail::format_of(file.get(), path);
        return format == detail::k_pedestal_format || format == detail::k_result_format;
    } catch (const FormatError&) {
        return false;
    }
}

}  // namespace lightmill::clusters

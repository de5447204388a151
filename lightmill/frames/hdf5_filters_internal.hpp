#pragma once
// Filters of HDF5 datasets that may or may not be installed.

#include <hdf5.h>

#include <string>

namespace lightmill::frames::detail {

inline constexpr H5Z_filter_t k_bitshuffle = 32008;

// Throws Error (unavailable) naming the filter and the package that has it.
void require_filter(H5Z_filter_t filter, const std::string& path);

}  // namespace lightmill::frames::detail

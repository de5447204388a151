#pragma once
// Trained pedestals in HDF5 files. docs/formats/pedestal.md.

#include <string>
#include <vector>

#include "lightmill/clusters/pedestal/pedestal.hpp"

namespace lightmill::clusters {

// Appears whole or not at all. sources: names of the dark files, for the reader's sake. Throws OptionError
// where the file exists and `overwrite` is not set; IoError.
void save_pedestal(const Pedestal& pedestal, const std::string& path,
                   const std::vector<std::string>& sources = {}, bool overwrite = false);

// Also takes the pedestal out of a result file. Throws IoError; FormatError naming what is wrong.
[[nodiscard]] Pedestal load_pedestal(const std::string& path);

// Whether the file is HDF5 with a pedestal (or result) of ours, as opposed to frames. Throws IoError
// where it cannot be read at all.
[[nodiscard]] bool is_pedestal_file(const std::string& path);

}  // namespace lightmill::clusters

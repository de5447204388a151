#pragma once
// Old JUNGFRAU .dat files: records of a 16-byte header and an image. docs/formats/dat.md.

#include <memory>
#include <string>

#include "lightmill/frames/source.hpp"

namespace lightmill::frames {

[[nodiscard]] std::unique_ptr<Source> open_dat(const std::string& path);

}  // namespace lightmill::frames

// Any text as a manifest: read, or refused as a format error; no name that is read leads elsewhere.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "lightmill/base/error.hpp"
#include "lightmill/vision/weights/manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace lightmill;
    try {
        const auto manifest = vision::parse_manifest({reinterpret_cast<const char*>(data), size}, "fuzz");
        for (const auto& file : manifest.files)
            if (file.name.find("..") != std::string::npos || file.name.front() == '/') std::abort();
    } catch (const FormatError&) {
    }
    return 0;
}

// Any bytes as an image file: decoded, or refused as a format error.

#include <cstdint>
#include <cstdlib>
#include <span>

#include "lightmill/base/error.hpp"
#include "lightmill/vision/image/decode.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace lightmill;
    using namespace lightmill::vision;
    for (const auto alpha : {Alpha::drop, Alpha::white}) {
        try {
            const auto image =
                decode(std::as_bytes(std::span(data, size)), "fuzz", {.alpha = alpha, .max_pixels = 1 << 16});
            std::uint64_t sum = 0;  // every pixel is there
            for (const auto pixel : image.view().flat()) sum += pixel;
            if (image.view().size() == 0 || sum > 255U * static_cast<std::uint64_t>(image.view().size()))
                std::abort();
        } catch (const FormatError&) {
        }
    }
    return 0;
}

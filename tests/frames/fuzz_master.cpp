// Any bytes as a master file: parsed and laid out, or refused with an Error. Seeds and a dictionary
// stand in seeds/.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/master.hpp"

using namespace lightmill;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const auto master =
            frames::parse_master(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
        const auto layout = frames::layout(master);
        // The ports cover the frame, each pixel once.
        std::int64_t pixels = 0;
        for (const auto& port : layout.ports) {
            pixels += port.shape.pixels();
            if (port.first_row < 0 || port.first_row + port.shape.rows > layout.shape.rows ||
                port.first_column < 0 || port.first_column + port.shape.columns > layout.shape.columns)
                std::abort();
        }
        if (pixels != layout.shape.pixels() || pixels <= 0) std::abort();
    } catch (const Error&) {  // refused: the other right answer
    }
    return 0;
}

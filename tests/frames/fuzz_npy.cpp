// Any bytes as a .npy file: refused, or read to the last pixel.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/npy.hpp"
#include "lightmill/frames/truth.hpp"

using namespace lightmill;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto path =
        (std::filesystem::temp_directory_path() / ("lightmill_fuzz_" + std::to_string(::getpid()) + ".npy"))
            .string();
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    try {
        const auto source = frames::open_npy(path);
        const auto& d = source->description();
        frames::Storage storage;
        const auto block = source->read(0, d.count, storage);
        std::uint64_t sum = 0;
        for (auto pixel : block.pixels.flat()) sum += pixel;
        const auto bytes =
            static_cast<std::uint64_t>(block.pixels.size()) * static_cast<unsigned>(d.bits) / 8;
        if (bytes > size || block.infos.size() != d.count || sum > 65535 * (bytes + 1)) std::abort();
    } catch (const Error&) {  // refused: the other right answer
    }
    try {
        if (frames::read_truth(path).size() * sizeof(frames::TruthRecord) > size) std::abort();
    } catch (const Error&) {
    }
    return 0;
}

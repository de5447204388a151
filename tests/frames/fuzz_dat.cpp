// Files of any length, with any bytes at their start, as JUNGFRAU .dat files.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/dat.hpp"

using namespace lightmill;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto path = (std::filesystem::temp_directory_path() /
                              ("lightmill_fuzz_" + std::to_string(::getpid()) + "_000000.dat"))
                                 .string();
    constexpr std::size_t k_sizes[] = {1'048'592, 524'304, 131'088, 0};
    const auto selector = size > 0 ? data[0] : 0;
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    const auto whole = k_sizes[selector & 3] * (selector >> 2 & 3);
    std::filesystem::resize_file(path, whole == 0 ? size : whole + (selector >> 6 == 3 ? 1 : 0));
    try {
        const auto source = frames::open_dat(path);
        frames::Storage storage;
        const auto count = source->description().count;
        const auto block = source->read(0, count, storage);
        if (block.infos.size() != count || count == 0) return 0;
        std::uint64_t number = 0;
        if (size >= sizeof number) {
            std::memcpy(&number, data, sizeof number);
            if (block.infos.front().number != number) std::abort();
        }
    } catch (const Error&) {  // refused: the other right answer
    }
    return 0;
}

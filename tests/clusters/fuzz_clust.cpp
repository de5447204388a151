// Any bytes as a .clust file of some window: refused, or read and written back to the same bytes.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/sink/clust.hpp"

using namespace lightmill;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto path =
        (std::filesystem::temp_directory_path() / ("lightmill_fuzz_" + std::to_string(::getpid()) + ".clust"))
            .string();
    if (size == 0) return 0;
    const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const clusters::Window window{3 + 2 * (data[0] & 3), 3 + 2 * (data[0] >> 2 & 3)};
    const auto payload = (data[0] & 16) != 0 ? clusters::Payload::int16 : clusters::Payload::int32;
    try {
        clusters::ClustReader reader(path, window, payload);
        clusters::ClustWriter writer(path + "2", true);
        for (auto part = reader.read(1 + (data[0] >> 5)); !part.numbers.empty();
             part = reader.read(1 + (data[0] >> 5)))
            writer.add(part.view());
        writer.publish();
        if (read_file(path + "2") != bytes) std::abort();
    } catch (const Error&) {  // refused: the other right answer
    }
    return 0;
}

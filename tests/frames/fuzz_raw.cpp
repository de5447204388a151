// Runs whose records are put together from any bytes: numbers that repeat, jump and go back, masks
// with holes, ports that disagree, files that are cut. Whatever comes, frames are the same however
// they are read, and lost pixels hold the absent value.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/raw.hpp"

using namespace lightmill;
using frames::Pixel;

namespace {

const std::filesystem::path& folder() {
    static const auto path = [] {
        std::string pattern = (std::filesystem::temp_directory_path() / "lightmill_fuzz_raw_XXXXXX").string();
        return std::filesystem::path(::mkdtemp(pattern.data()));
    }();
    return path;
}

void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder() / name, std::ios::binary | std::ios::trunc) << bytes;
}

struct Bytes {
    const std::uint8_t* data;
    std::size_t size;
    std::uint8_t next() {
        if (size == 0) return 0;
        --size;
        return *data++;
    }
};

struct Read {
    std::vector<frames::FrameInfo> infos;
    std::vector<Pixel> pixels;
    friend bool operator==(const Read&, const Read&) = default;
};

Read read_all(frames::Source& source, std::uint64_t length) {
    Read result;
    frames::Storage storage;
    const auto count = source.description().count;
    for (std::uint64_t first = 0; first < count; first += length) {
        const auto block = source.read(first, std::min(length, count - first), storage);
        result.infos.insert(result.infos.end(), block.infos.begin(), block.infos.end());
        result.pixels.insert(result.pixels.end(), block.pixels.flat().begin(), block.pixels.flat().end());
    }
    return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Bytes in{data, size};
    const auto shape = in.next();
    const int ports_x = 1 + (shape & 1);
    const int ports_y = 1 + (shape >> 1 & 1);
    const int bits = shape >> 2 & 1 ? 8 : 16;
    const int rows = 1 + (shape >> 3 & 3);
    const int columns = 1 + (shape >> 5 & 3);
    const auto per_file = 1 + in.next() % 8;
    const auto record = 112 + static_cast<std::size_t>(rows * columns * bits / 8);
    write("run_master_0.json",
          fmt::format(R"({{"Version": 7.2, "Detector Type": "Moench", "Geometry": {{"x": {}, "y": {}}}, )"
                      R"("Pixels": {{"x": {}, "y": {}}}, "Image Size in bytes": {}, "Dynamic Range": {}}})",
                      ports_x, ports_y, columns, rows, rows * columns * bits / 8, bits));

    const int ports = ports_x * ports_y;
    std::vector<std::string> written;
    for (int port = 0; port < ports; ++port) {
        const auto count = in.next() % 40;
        std::string bytes;
        int file = 0;
        std::uint64_t number = 1;
        const auto flush = [&] {
            const auto name = fmt::format("run_d{}_f{}_0.raw", port, file++);
            write(name, bytes);
            written.push_back(name);
            bytes.clear();
        };
        for (int i = 0; i < count; ++i) {
            const auto step = in.next();
            if (step == 255) {
                bytes.append(in.next(), 'x');  // cut or shifted
                continue;
            }
            frames::RawHeader header;
            // Mostly the next number; else anything near, 0, or far.
            number = step < 160   ? number + 1
                     : step < 240 ? number + step - 200
                     : step < 250 ? 0
                                  : number << step % 64;
            header.frame_number = number;
            header.detector_type = step == 254 ? 9 : 5;
            header.packets[0] = in.next() & 1;
            bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
            bytes.append(record - sizeof header, static_cast<char>(i + 1));
            if (bytes.size() >= record * static_cast<std::size_t>(per_file)) flush();
        }
        if (!bytes.empty() || file == 0 || in.next() % 4 == 0) flush();
    }

    try {
        const auto source = frames::open_raw((folder() / "run_master_0.json").string());
        const auto all = read_all(*source, source->description().count + 1);
        const auto found = source->anomalies();
        if (read_all(*source, 1) != all || read_all(*source, 7) != all) std::abort();
        if (source->anomalies().missing_frames != found.missing_frames) std::abort();
        const auto pixels = static_cast<std::size_t>(source->description().shape.pixels());
        for (std::size_t i = 0; i < all.infos.size(); ++i) {
            std::uint32_t absent = 0;
            for (std::size_t p = 0; p < pixels; ++p)
                absent += all.pixels[i * pixels + p] == frames::k_raw_absent;
            // Data that a cut file shifted may hold the value as well.
            if (absent < all.infos[i].lost_pixels) std::abort();
        }
    } catch (const Error&) {  // refused: the other right answer
    }
    for (const auto& name : written) std::filesystem::remove(folder() / name);
    return 0;
}

#pragma once
// Folders, frames and runs for tests of the readers.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/raw_writer.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::frames {

// A folder of its own for one test, removed with it.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "lightmill_frames_XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_bytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Every pixel of every frame has a value of its own, below `below`.
inline std::vector<Pixel> pattern_frame(const Shape& shape, std::uint64_t number,
                                        std::uint64_t below = 16'384) {
    std::vector<Pixel> pixels(static_cast<std::size_t>(shape.pixels()));
    for (std::size_t i = 0; i < pixels.size(); ++i)
        pixels[i] = static_cast<Pixel>((number * 7919 + i * 31 + i / 97) % below);
    return pixels;
}

// The part of a frame.
inline std::vector<Pixel> part(const std::vector<Pixel>& frame, const Shape& shape, const Region& region) {
    std::vector<Pixel> result;
    for (auto r = region.first_row; r < region.last_row; ++r) {
        for (auto c = region.first_column; c < region.last_column; ++c)
            result.push_back(frame[static_cast<std::size_t>(r * shape.columns + c)]);
    }
    return result;
}

// Writes pattern frames with these numbers; losses(number) says what goes wrong with each.
inline void write_run(
    const std::string& master, const Shape& detector, const RawWriteOptions& options,
    const std::vector<std::uint64_t>& numbers,
    const std::function<RawLosses(std::uint64_t)>& losses = [](auto) { return RawLosses{}; }) {
    RawWriter writer(master, detector, options);
    for (auto number : numbers) {
        auto frame = pattern_frame(detector, number, options.bits == 8 ? 256 : 16'384);
        if (options.roi) frame = part(frame, detector, *options.roi);
        writer.write(number, frame, losses(number));
    }
    writer.finish();
}

inline std::vector<Pixel> frame_of(const Block& block, std::int64_t i) {
    const auto view = block.pixels[i].flat();
    return {view.begin(), view.end()};
}

inline std::vector<std::uint64_t> numbers_of(const Block& block) {
    std::vector<std::uint64_t> numbers;
    for (const auto& info : block.infos) numbers.push_back(info.number);
    return numbers;
}

// Runs f and returns the message of the error it throws; fails the test where it throws none.
template <class E, class F>
std::string message_of(F&& f) {
    try {
        f();
    } catch (const E& error) {
        return error.what();
    } catch (const std::exception& error) {
        ADD_FAILURE() << "another kind of error: " << error.what();
        return {};
    }
    ADD_FAILURE() << "no error";
    return {};
}

}  // namespace lightmill::frames

#pragma once
// A small simulated run, and a source that misbehaves on demand, for the tests of sink and run.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "lightmill/clusters/pedestal/pedestal.hpp"
#include "lightmill/frames/frame_numbers.hpp"
#include "lightmill/frames/simulated.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters::test {

// A folder that goes with its owner.
class Folder {
  public:
    Folder() {
        static int count = 0;
        path_ = std::filesystem::temp_directory_path() /
                ("lightmill_sink_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
        std::filesystem::create_directories(path_);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
    [[nodiscard]] std::string path() const { return path_.string(); }

  private:
    std::filesystem::path path_;
};

inline frames::SimulationOptions small_scene() {
    frames::SimulationOptions options;
    options.rows = 50;
    options.columns = 70;
    options.photons = 40;
    options.seed = 7;
    return options;
}

inline std::unique_ptr<frames::Source> data(std::uint64_t count) {
    return frames::open_simulated(small_scene(), frames::FrameKind::data, count, 1);
}

inline Pedestal pedestal(std::uint64_t dark_frames = 100) {
    const auto dark = frames::open_simulated(small_scene(), frames::FrameKind::dark, dark_frames, 1);
    return train(*dark, {}, {}, {});
}

// Any number of frames from a few: fast, and no less random to the finder.
class Repeated final : public frames::Source {
  public:
    explicit Repeated(std::uint64_t count, std::uint64_t of = 300) {
        const auto source = data(of);
        description_ = source->description();
        description_.count = count;
        frames::Storage storage;
        const auto block = source->read(0, of, storage);
        pixels_.assign(block.pixels.data(), block.pixels.data() + block.pixels.size());
    }
    [[nodiscard]] const frames::Description& description() const noexcept override { return description_; }
    [[nodiscard]] frames::Block read(std::uint64_t first, std::uint64_t count,
                                     frames::Storage& storage) override {
        const auto size = static_cast<std::size_t>(description_.shape.pixels());
        storage.infos.resize(count);
        storage.pixels.grow(count * size, 0);
        for (std::uint64_t i = 0; i < count; ++i) {
            storage.infos[i] = {.number = 1000 + first + i};
            const auto* from = pixels_.data() + ((first + i) * size) % pixels_.size();
            std::copy(from, from + size, storage.pixels.data() + i * size);
        }
        return {storage.infos,
                {storage.pixels.data(),
                 {static_cast<std::int64_t>(count), description_.shape.rows, description_.shape.columns}}};
    }
    [[nodiscard]] frames::Anomalies anomalies() const override { return {}; }

  private:
    frames::Description description_;
    std::vector<frames::Pixel> pixels_;
};

// Passes another source on, with other frame numbers, and calls `before` ahead of each block.
class Wrapped final : public frames::Source {
  public:
    using Before = std::function<void(std::uint64_t first, std::uint64_t count)>;
    explicit Wrapped(std::unique_ptr<frames::Source> source, Before before = {},
                     std::vector<std::uint64_t> numbers = {})
        : source_(std::move(source)), before_(std::move(before)), numbers_(std::move(numbers)) {}
    [[nodiscard]] const frames::Description& description() const noexcept override {
        return source_->description();
    }
    [[nodiscard]] frames::Block read(std::uint64_t first, std::uint64_t count,
                                     frames::Storage& storage) override {
        if (before_) before_(first, count);
        const auto block = source_->read(first, count, storage);
        if (numbers_.empty()) return block;
        storage.infos.assign(block.infos.begin(), block.infos.end());
        for (std::uint64_t i = 0; i < count; ++i) storage.infos[i].number = numbers_[first + i];
        seen_.see(first, storage.infos);
        return {storage.infos, block.pixels};
    }
    void recall(std::uint64_t first, std::span<const frames::FrameInfo> infos) override {
        if (!numbers_.empty()) seen_.see(first, infos);
    }
    [[nodiscard]] frames::Anomalies anomalies() const override { return seen_.anomalies(); }

  private:
    std::unique_ptr<frames::Source> source_;
    Before before_;
    std::vector<std::uint64_t> numbers_;
    frames::FrameNumbers seen_;
};

}  // namespace lightmill::clusters::test

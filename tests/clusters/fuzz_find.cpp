// Differential fuzzing: bytes choose a small world and options, and every backend must agree with the
// reference on clusters, model and counters.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "scene.hpp"

using namespace lightmill::clusters;  // NOLINT(google-build-using-namespace): a program of one function

namespace {

class Bytes {
  public:
    Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    std::uint8_t next() { return at_ < size_ ? data_[at_++] : std::uint8_t{0}; }
    std::uint16_t word() { return static_cast<std::uint16_t>(next() | next() << 8); }

  private:
    const std::uint8_t* data_;
    std::size_t size_;
    std::size_t at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Bytes bytes(data, size);
    test::Scene scene;
    auto& pedestal = scene.pedestal;
    pedestal.shape = {1 + bytes.next() % 12, 1 + bytes.next() % 40};
    pedestal.frames = 100;
    const auto pixels = static_cast<std::size_t>(pedestal.shape.pixels());
    const std::size_t frames = 1 + bytes.next() % 4;
    FindOptions options;
    options.window = {3 + 2 * (bytes.next() % 10), 3 + 2 * (bytes.next() % 10)};
    options.n_sigma = (1 + bytes.next()) / 16.0;
    options.epoch = 1 + bytes.next() % 3;
    options.memory = 2 + bytes.next();
    options.ties = bytes.next() % 2 == 0 ? Ties::first : Ties::all;
    const auto flags = bytes.next();
    if (flags & 1) pedestal.absent.value = 65535;
    pedestal.absent.gain_bits = (flags & 2) != 0;
    const std::size_t step = 1 + bytes.next() % 4;
    for (std::size_t p = 0; p < pixels; ++p) {
        pedestal.model.offset.push_back(bytes.word());
        pedestal.model.mean.push_back(static_cast<float>(static_cast<std::int16_t>(bytes.word())) / 65536.0F);
        pedestal.model.variance.push_back(static_cast<float>(bytes.word()) / 8.0F);
        pedestal.state.push_back((flags & 4) && bytes.next() % 8 == 0 ? PixelState::masked
                                                                      : PixelState::used);
    }
    pedestal.seen.assign(pixels, 100);
    pedestal.sum.assign(pixels, 0);
    pedestal.square.assign(pixels, 0);
    for (std::size_t f = 0; f < frames; ++f) {
        scene.infos.push_back({f, 0});
        for (std::size_t p = 0; p < pixels; ++p) {
            const auto value = bytes.next();  // mostly near the offset, now and then anything
            scene.pixels.push_back(value < 250 ? static_cast<Pixel>(pedestal.model.offset[p] + value)
                                               : bytes.word());
        }
    }
    const auto want = test::find_all(scene, options, {.backend = "reference"}, 100);
    for (const auto backend : available_backends()) {
        for (const int threads : {1, 3}) {
            if (backend == "reference") continue;
            const auto got =
                test::find_all(scene, options, {.backend = std::string(backend), .threads = threads}, step);
            if (got.digest != want.digest || got.model_digest != want.model_digest ||
                got.absent != want.absent || got.negatives != want.negatives) {
                std::abort();
            }
        }
    }
    return 0;
}

#include "lightmill/frames/dat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/frames/frame_numbers.hpp"
#include "lightmill/frames/scattered_read_internal.hpp"

namespace lightmill::frames {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

struct DatHeader {
    std::uint64_t frame_number;
    std::uint64_t bunch_id;
};
static_assert(sizeof(DatHeader) == 16);

// The format does not say its image size: the first of these whose records fill the file is it.
constexpr std::array k_shapes{Shape{512, 1024}, Shape{256, 1024}, Shape{256, 256}};

std::int64_t record_bytes(const Shape& shape) {
    return static_cast<std::int64_t>(sizeof(DatHeader)) +
           shape.pixels() * static_cast<std::int64_t>(sizeof(Pixel));
}

class DatSource final : public Source {
  public:
    explicit DatSource(const std::string& path) : path_(path), file_(open_for_reading(path)) {
        const auto bytes = size_bytes(file_, path);
        const auto fills = [&](const Shape& shape) { return bytes % record_bytes(shape) == 0; };
        const auto* shape = std::ranges::find_if(k_shapes, fills);
        if (shape == k_shapes.end()) {
            const auto& first = k_shapes.front();
            throw FormatError(
                path, bytes - bytes % record_bytes(first),
                fmt::format("found {} bytes, expected a multiple of {}, {} or {} (records of 512 × "
                            "1024, 256 × 1024 or 256 × 256 pixels); the file is truncated or no "
                            "JUNGFRAU .dat file",
                            bytes, record_bytes(first), record_bytes(k_shapes[1]),
                            record_bytes(k_shapes[2])));
        }
        description_.name = path;
        description_.format = "dat";
        description_.shape = *shape;
        description_.count = static_cast<std::uint64_t>(bytes / record_bytes(*shape));
        description_.gain_bits = true;
        description_.files = {path};
    }

    const Description& description() const noexcept override { return description_; }

    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        require_inside(description_, first, count);
        const auto pixels = static_cast<std::size_t>(description_.shape.pixels());
        storage.infos.assign(count, FrameInfo{});
        storage.pixels.grow(count * pixels, 0);
        storage.scratch.grow(count * sizeof(DatHeader), 0);
        auto* headers = reinterpret_cast<DatHeader*>(storage.scratch.data());
        places_.clear();
        for (std::uint64_t i = 0; i < count; ++i) {
            detail::add_piece(places_, headers + i, sizeof(DatHeader));
            detail::add_piece(places_, storage.pixels.data() + i * pixels, pixels * sizeof(Pixel));
        }
        detail::read_scattered(file_, path_,
                               static_cast<std::int64_t>(first) * record_bytes(description_.shape), places_);
        for (std::uint64_t i = 0; i < count; ++i) storage.infos[i].number = headers[i].frame_number;
        numbers_.see(first, storage.infos);
        return {storage.infos,
                {storage.pixels.data(),
                 {static_cast<std::int64_t>(count), description_.shape.rows, description_.shape.columns}}};
    }

    void recall(std::uint64_t first, std::span<const FrameInfo> infos) override {
        numbers_.see(first, infos);
    }

    Anomalies anomalies() const override { return numbers_.anomalies(); }

  private:
    std::string path_;
    FileDescriptor file_;
    Description description_;
    std::vector<iovec> places_;
    FrameNumbers numbers_;
};

}  // namespace

std::unique_ptr<Source> open_dat(const std::string& path) {
    return std::make_unique<DatSource>(path);
}

}  // namespace lightmill::frames

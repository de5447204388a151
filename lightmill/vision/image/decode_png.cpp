// PNG through libpng.
//
// libpng leaves by a long jump where it fails. Nothing between the jump's two ends may have a destructor:
// buffers are made outside of guarded().

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

#include "lightmill/base/error.hpp"
#include "lightmill/vision/image/decode_internal.hpp"

namespace lightmill::vision::detail {
namespace {

class Reader {
  public:
    Reader(std::span<const std::byte> file, std::string name) : rest_(file), name_(std::move(name)) {
        png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
        info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
        if (info_ == nullptr) {
            png_destroy_read_struct(&png_, nullptr, nullptr);
            throw std::bad_alloc();
        }
        png_set_read_fn(png_, this, read);
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }

    // Runs work(png, info); throws what libpng said where it left.
    template <class Work>
    void guarded(Work work) {
        if (setjmp(jump_) == 0) {
            work(png_, info_);
        } else {
            throw FormatError(name_, -1,
                              fmt::format("the PNG image is damaged ({}); get a whole copy", message_));
        }
    }

  private:
    [[noreturn]] static void fail(png_structp png, png_const_charp message) {
        auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
        std::snprintf(reader->message_, sizeof reader->message_, "%s", message);
        std::longjmp(reader->jump_, 1);
    }
    static void ignore(png_structp, png_const_charp) {}
    static void read(png_structp png, png_bytep to, std::size_t size) {
        auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
        if (size > reader->rest_.size()) png_error(png, "the file ends early");
        std::memcpy(to, reader->rest_.data(), size);
        reader->rest_ = reader->rest_.subspan(size);
    }

    std::span<const std::byte> rest_;
    std::string name_;
    png_structp png_ = nullptr;
    png_infop info_ = nullptr;
    std::jmp_buf jump_{};
    char message_[256] = {};
};

// Pillow's alpha_composite over opaque white, in its integers.
void composite_on_white(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to) {
    for (std::int64_t i = 0; i < pixels; ++i, from += 4, to += k_channels) {
        constexpr unsigned k_bits = 7;
        const auto own = unsigned{from[3]} << k_bits;
        const auto white = (255U << k_bits) - own;
        for (int c = 0; c < k_channels; ++c) {
            const auto sum = from[c] * own + 255U * white + (128U << k_bits);
            to[c] = static_cast<std::uint8_t>((((sum >> 8) + sum) >> 8) >> k_bits);
        }
    }
}

}  // namespace

Decoded decode_png(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options) {
    Reader reader(file, name);
    std::uint64_t columns = 0, rows = 0;
    reader.guarded([&](png_structp png, png_infop info) {
        png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // require_pixels judges
        // Texts and colour profiles are not looked at: what is not unpacked cannot be a bomb.
        static constexpr png_byte k_kept[] = "tRNS\0eXIf";
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, k_kept, 2);
        png_read_info(png, info);
        columns = png_get_image_width(png, info);
        rows = png_get_image_height(png, info);
    });
    require_pixels(rows, columns, name, options);
    bool transparent = false;
    reader.guarded([&](png_structp png, png_infop info) {
        png_set_expand(png);  // palettes, gray below 8 bits, transparent colours
        png_set_strip_16(png);
        png_set_gray_to_rgb(png);
        if (options.alpha == Alpha::drop) png_set_strip_alpha(png);
        png_set_interlace_handling(png);
        png_read_update_info(png, info);
        transparent = png_get_channels(png, info) == 4;
    });
    const Size size{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
    Decoded out{Image(size), 1};
    // All rows at once: the passes of an interlaced image build on each other.
    Buffer<std::uint8_t> with_alpha(transparent ? static_cast<std::size_t>(size.rows * size.columns * 4) : 0,
                                    0);
    std::uint8_t* const first = transparent ? with_alpha.data() : out.image.view().data();
    const auto stride = size.columns * (transparent ? 4 : k_channels);
    reader.guarded([&](png_structp png, png_infop info) {
        for (int pass = png_set_interlace_handling(png); pass > 0; --pass) {
            for (std::int64_t r = 0; r < size.rows; ++r) png_read_row(png, first + r * stride, nullptr);
        }
        png_read_end(png, info);
        png_bytep exif = nullptr;
        png_uint_32 exif_size = 0;
        if (png_get_eXIf_1(png, info, &exif_size, &exif) != 0)
            out.orientation = exif_orientation(std::as_bytes(std::span(exif, exif_size)));
    });
    if (transparent) composite_on_white(with_alpha.data(), size.rows * size.columns, out.image.view().data());
    return out;
}

}  // namespace lightmill::vision::detail

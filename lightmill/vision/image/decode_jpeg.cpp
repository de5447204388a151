// JPEG through libjpeg-turbo, asked for what Pillow asks for: the accurate DCT, smooth upsampling, colours as
// the file's own markers tell.
//
// libjpeg leaves by a long jump where it fails. Nothing between the jump's two ends may have a destructor:
// buffers are made outside of guarded().

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs FILE
#include <cstring>

#include <jpeglib.h>  // before jerror.h, whose codes depend on it

#include <jerror.h>

#include "lightmill/base/error.hpp"
#include "lightmill/vision/image/decode_internal.hpp"

namespace lightmill::vision::detail {
namespace {

// A progressive file may hold any number of scans, each as costly as a whole image; encoders write about ten.
constexpr int k_max_scans = 200;

class Decompressor {
  public:
    explicit Decompressor(std::string name) : name_(std::move(name)) {
        info_.err = jpeg_std_error(&manager_.base);
        manager_.base.error_exit = [](j_common_ptr info) { leave(info); };
        manager_.base.emit_message = [](j_common_ptr info, int level) {
            if (level < 0 && is_loss(info->err->msg_code)) leave(info);
        };
        manager_.base.output_message = [](j_common_ptr) {};
        progress_.progress_monitor = [](j_common_ptr info) {
            const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
            if (decompress->input_scan_number <= k_max_scans) return;
            auto* manager = reinterpret_cast<Manager*>(info->err);
            std::snprintf(manager->message, sizeof manager->message, "more than %d scans", k_max_scans);
            std::longjmp(manager->jump, 1);
        };
    }
    Decompressor(const Decompressor&) = delete;
    Decompressor& operator=(const Decompressor&) = delete;
    ~Decompressor() { jpeg_destroy_decompress(&info_); }

    // Runs work(info); throws what libjpeg said where it left.
    template <class Work>
    void guarded(Work work) {
        if (setjmp(manager_.jump) == 0) {
            work(info_);
        } else {
            throw FormatError(
                name_, -1, fmt::format("the JPEG image is damaged ({}); get a whole copy", manager_.message));
        }
    }
    void watch_scans() { info_.progress = &progress_; }

  private:
    struct Manager {
        jpeg_error_mgr base;  // first: libjpeg's pointer is also ours
        std::jmp_buf jump;
        char message[JMSG_LENGTH_MAX];
    };
    [[noreturn]] static void leave(j_common_ptr info) {
        auto* manager = reinterpret_cast<Manager*>(info->err);
        manager->base.format_message(info, manager->message);
        std::longjmp(manager->jump, 1);
    }
    // libjpeg only warns where data are lost, and paints gray.
    static bool is_loss(int code) {
        return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
               code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC;
    }

    jpeg_decompress_struct info_{};
    Manager manager_{};
    jpeg_progress_mgr progress_{};
    std::string name_;
};

int orientation_of(const jpeg_decompress_struct& info) {
    for (const auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
        const auto bytes = std::as_bytes(std::span(marker->data, marker->data_length));
        if (bytes.size() >= 6 && std::memcmp(bytes.data(), "Exif\0", 5) == 0) return exif_orientation(bytes);
    }
    return 1;
}

// Pillow's conversion of Adobe's inverted CMYK: (255 − ink) · (255 − black) / 255, rounded.
void cmyk_to_rgb(const JSAMPLE* from, std::int64_t columns, std::uint8_t* to) {
    for (std::int64_t x = 0; x < columns; ++x, from += 4, to += k_channels) {
        const unsigned light = from[3];
        for (int i = 0; i < k_channels; ++i) {
            const auto ink = 255U - from[i];
            const auto product = ink * light + 128;
            to[i] = static_cast<std::uint8_t>(light - (((product >> 8) + product) >> 8));
        }
    }
}

}  // namespace

Decoded decode_jpeg(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options) {
    Decompressor decompressor(name);
    Size size;
    int components = 0;
    int orientation = 1;
    decompressor.guarded([&](jpeg_decompress_struct& info) {
        jpeg_create_decompress(&info);
        jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
        jpeg_save_markers(&info, JPEG_APP0 + 1, 0xFFFF);  // EXIF
        jpeg_read_header(&info, TRUE);
        size = {info.image_height, info.image_width};
        components = info.num_components;
        orientation = orientation_of(info);
    });
    require_pixels(static_cast<std::uint64_t>(size.rows), static_cast<std::uint64_t>(size.columns), name,
                   options);
    if (components != 1 && components != 3 && components != 4)
        throw FormatError(name, -1,
                          fmt::format("found a JPEG image of {} components, expected 1, 3 or 4", components));
    Decoded out{Image(size), orientation};
    const bool cmyk = components == 4;
    const Buffer<JSAMPLE> inks(cmyk ? static_cast<std::size_t>(4 * size.columns) : 0);
    auto* const ink_row = const_cast<JSAMPLE*>(inks.data());
    std::uint8_t* row = out.image.view().data();
    decompressor.watch_scans();
    decompressor.guarded([&](jpeg_decompress_struct& info) {
        info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
        jpeg_start_decompress(&info);
        while (info.output_scanline < info.output_height) {
            JSAMPROW into = cmyk ? ink_row : row;
            jpeg_read_scanlines(&info, &into, 1);
            if (cmyk) cmyk_to_rgb(ink_row, size.columns, row);
            row += size.columns * k_channels;
        }
        jpeg_finish_decompress(&info);
    });
    return out;
}

}  // namespace lightmill::vision::detail

// Files that Pillow wrote or that were put together by hand (seeds/fuzz_image), and what Pillow reads in
// them.

#include "lightmill/vision/image/decode.hpp"

#include <gmock/gmock.h>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "tests/vision/image/fixtures.hpp"

namespace lightmill::vision {
namespace {

using testing::HasSubstr;

std::string file(const std::string& name) {
    return read_file(LIGHTMILL_IMAGE_FILES "/" + name);
}

std::span<const std::byte> bytes(const std::string& text) {
    return std::as_bytes(std::span(text));
}

// What a refusal says; empty where the file is taken.
std::string refusal(const std::string& content, const DecodeOptions& options = {}) {
    try {
        (void)decode(bytes(content), "picture", options);
    } catch (const FormatError& error) {
        return error.what();
    }
    return {};
}

TEST(Decode, equals_pillow_in_every_pixel) {
    for (auto& line : fixture_lines("decode.txt")) {
        std::string name, alpha, exif, hash;
        Size size;
        line >> name >> alpha >> exif >> size.rows >> size.columns >> hash;
        ASSERT_TRUE(line) << line.str();
        const auto image = decode_file(LIGHTMILL_IMAGE_FILES "/" + name,
                                       {.alpha = alpha == "white" ? Alpha::white : Alpha::drop,
                                        .exif = exif == "apply" ? Exif::apply : Exif::ignore});
        EXPECT_EQ(image.size(), size) << line.str();
        EXPECT_EQ(short_hash(std::as_const(image).view().flat()), hash) << line.str();
    }
}

void append(std::string& out, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

std::uint32_t crc(const std::string& data) {
    std::uint32_t c = 0xFFFFFFFFU;
    for (const char byte : data) {
        c ^= static_cast<std::uint8_t>(byte);
        for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xEDB88320U ^ (c >> 1) : c >> 1;
    }
    return ~c;
}

std::string chunk(const std::string& kind, const std::string& data) {
    std::string out;
    append(out, static_cast<std::uint32_t>(data.size()));
    out += kind + data;
    append(out, crc(kind + data));
    return out;
}

const std::string k_png_signature("\x89PNG\r\n\x1a\n", 8);

std::string png_header(std::uint32_t rows, std::uint32_t columns, int depth = 8, int colour = 2) {
    std::string data;
    append(data, columns);
    append(data, rows);
    data += {static_cast<char>(depth), static_cast<char>(colour), 0, 0, 0};
    return k_png_signature + chunk("IHDR", data);
}

// zlib without compression: stored blocks.
std::string stored(const std::string& data) {
    std::string out("\x78\x01", 2);
    std::uint32_t a = 1, b = 0;
    for (const char byte : data) {
        a = (a + static_cast<std::uint8_t>(byte)) % 65521;
        b = (b + a) % 65521;
    }
    for (std::size_t at = 0; at < data.size() || at == 0; at += 65535) {
        const auto part = data.substr(at, 65535);
        const auto size = static_cast<std::uint16_t>(part.size());
        out.push_back(at + 65535 >= data.size() ? 1 : 0);
        for (const auto word : {size, static_cast<std::uint16_t>(~size)}) {
            out.push_back(static_cast<char>(word & 0xFF));
            out.push_back(static_cast<char>(word >> 8));
        }
        out += part;
    }
    append(out, b << 16 | a);
    return out;
}

// 16-bit gray: the high byte. (Pillow keeps such files as 32-bit integers, and its conversion to RGB clips
// them at 255.)
TEST(Decode, sixteen_bits_of_gray_become_their_high_byte) {
    const std::string line("\0\x12\xFF\x00\x80\xFF\xFE", 7);
    const auto content = png_header(1, 3, 16, 0) + chunk("IDAT", stored(line)) + chunk("IEND", "");
    const auto image = decode(bytes(content), "gray");
    EXPECT_THAT(image.view().flat(), testing::ElementsAre(0x12, 0x12, 0x12, 0, 0, 0, 0xFF, 0xFF, 0xFF));
}

TEST(Decode, a_hundred_thousand_by_ten_simply_works) {
    const std::uint32_t columns = 100'000, rows = 10;
    std::string lines;
    for (std::uint32_t r = 0; r < rows; ++r) {
        lines.push_back(0);
        for (std::uint32_t i = 0; i < 3 * columns; ++i) lines.push_back(static_cast<char>(splitmix(r, i)));
    }
    const auto image =
        decode(bytes(png_header(rows, columns) + chunk("IDAT", stored(lines)) + chunk("IEND", "")), "wide");
    EXPECT_EQ(image.size(), (Size{rows, columns}));
    EXPECT_EQ(image.view()(9, 99'999, 2), static_cast<std::uint8_t>(splitmix(9, 299'999)));
}

TEST(Decode, too_many_pixels_are_refused_before_memory_is_taken) {
    // 178,956,971 = 59 · 3,033,169; the files have no pixels at all.
    EXPECT_THAT(refusal(png_header(3'033'169, 59) + chunk("IDAT", "")),
                HasSubstr("178956971 pixels, expected at most 178956970"));
    EXPECT_THAT(refusal(png_header(0x7FFFFFFF, 0x7FFFFFFF) + chunk("IDAT", "")),
                HasSubstr("expected at most 178956970"));
    const std::string jpeg(
        "\xFF\xD8\xFF\xC0\0\x11\x08\xFF\xDC\xFF\xDC\x03\x01\x11\0\x02\x11\0\x03\x11\0"
        "\xFF\xDA\0\x0C\x03\x01\0\x02\0\x03\0\0\x3F\0",
        35);
    EXPECT_THAT(refusal(jpeg), HasSubstr("65500 × 65500 = 4290250000 pixels, expected at most 178956970"));
    EXPECT_THAT(refusal(file("waves_gray.jpg"), {.max_pixels = 734}),
                HasSubstr("35 × 21 = 735 pixels, expected at most 734"));
    EXPECT_EQ(refusal(file("waves_gray.jpg"), {.max_pixels = 735}), "");
    EXPECT_THROW((void)decode({}, "picture", {.max_pixels = 0}), OptionError);
}

TEST(Decode, other_formats_are_refused_by_name) {
    EXPECT_THAT(refusal(std::string("RIFF\x24\0\0\0WEBPVP8 ", 16)),
                HasSubstr("found a WebP image, expected a PNG or JPEG image; convert it"));
    EXPECT_THAT(refusal("GIF89a..."), HasSubstr("GIF"));
    EXPECT_THAT(refusal("BM......"), HasSubstr("BMP"));
    EXPECT_THAT(refusal(std::string("II*\0....", 8)), HasSubstr("TIFF"));
    EXPECT_THAT(refusal(std::string("\0\0\0\x1c"
                                    "ftypavif",
                                    12)),
                HasSubstr("AVIF"));
    EXPECT_THAT(refusal(""), HasSubstr("the file is empty"));
    EXPECT_THAT(refusal("hello"), HasSubstr("found the bytes 68 65 6c 6c 6f, expected a PNG or JPEG image"));
}

// Every beginning of a file but the whole of it is refused; none crashes or is read past its end.
TEST(Decode, truncated_files_are_refused) {
    for (const auto* name : {"noise_sampling2.jpg", "noise_progressive.jpg", "noise_cmyk.jpg", "rgb8.png",
                             "rgba16_interlaced.png", "palette4.png"}) {
        const auto whole = file(name);
        EXPECT_EQ(refusal(whole), "") << name;
        for (std::size_t size = 0; size < whole.size();
             size += size < 100 || size + 40 > whole.size() ? 1U : 13U) {
            const std::vector<char> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            EXPECT_THROW((void)decode(std::as_bytes(std::span(part)), name), FormatError)
                << name << ' ' << size;
        }
    }
}

TEST(Decode, damage_is_told) {
    auto png = file("rgb8.png");
    png[png.size() / 2] = static_cast<char>(png[png.size() / 2] ^ 1);
    EXPECT_THAT(refusal(png), HasSubstr("picture: the PNG image is damaged (IDAT: "));
    auto jpeg = file("noise_sampling0.jpg");
    jpeg.replace(jpeg.size() - 40, 2, "\xFF\xD9");
    EXPECT_THAT(refusal(jpeg),
                HasSubstr("the JPEG image is damaged (Corrupt JPEG data: premature end of data segment)"));
    EXPECT_THAT(refusal(png_header(0, 5)), HasSubstr("PNG image is damaged"));
    EXPECT_THAT(refusal(k_png_signature), HasSubstr("the file ends early"));
}

TEST(Decode, a_file_that_is_not_there_is_told) {
    EXPECT_THROW((void)decode_file("/no/such/picture.png"), IoError);
}

// A file may ask for any number of scans of the same pixels.
TEST(Decode, endless_scans_are_refused) {
    const auto whole = file("noise_progressive.jpg");
    const auto first = whole.find("\xFF\xDA");
    const auto scan = whole.substr(first, whole.find("\xFF\xC4", first) - first);
    auto many = whole.substr(0, first);
    for (int i = 0; i < 300; ++i) many += scan;
    EXPECT_THAT(refusal(many + whole.substr(first)), HasSubstr("more than 200 scans"));
}

// Data that are no EXIF at all, or whose offsets lead nowhere, leave the picture as it lies.
TEST(Decode, broken_exif_does_not_lose_a_picture) {
    const auto whole = file("turned6.jpg");
    const auto upright = decode(bytes(file("turned1.jpg")), "turned1");
    const auto at = whole.find("Exif");
    ASSERT_NE(at, std::string::npos);
    for (std::size_t i = at; i < at + 30; ++i) {
        auto broken = whole;
        broken[i] = static_cast<char>(0xFF);
        const auto image = decode(bytes(broken), "broken");
        EXPECT_EQ(image.size().rows * image.size().columns, upright.size().rows * upright.size().columns);
    }
}

}  // namespace
}  // namespace lightmill::vision

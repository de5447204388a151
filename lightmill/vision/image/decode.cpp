#include "lightmill/vision/image/decode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/vision/image/decode_internal.hpp"

namespace lightmill::vision {
namespace {

// What a file begins with, and at which byte.
struct Signature {
    std::string_view bytes;
    std::size_t at;
    std::string_view format;
};
using namespace std::string_view_literals;
constexpr Signature k_png{"\x89PNG\r\n\x1a\n"sv, 0, "PNG"};
constexpr Signature k_jpeg{"\xff\xd8\xff"sv, 0, "JPEG"};
// Known well enough to say what they are.
constexpr Signature k_others[] = {
    {"WEBP"sv, 8, "WebP"},
    {"GIF8"sv, 0, "GIF"},
    {"BM"sv, 0, "BMP"},
    {"II*\0"sv, 0, "TIFF"},
    {"MM\0*"sv, 0, "TIFF"},
    {"ftypavif"sv, 4, "AVIF"},
    {"ftyphei"sv, 4, "HEIC"},
    {"ftypmif1"sv, 4, "HEIF"},
    {"\xff\x0a"sv, 0, "JPEG XL"},
    {"\0\0\0\x0cJXL "sv, 0, "JPEG XL"},
    {"\0\0\0\x0cjP  "sv, 0, "JPEG 2000"},
};

bool is(const Signature& signature, std::span<const std::byte> file) {
    return file.size() >= signature.at + signature.bytes.size() &&
           std::memcmp(file.data() + signature.at, signature.bytes.data(), signature.bytes.size()) == 0;
}

[[noreturn]] void refuse(std::span<const std::byte> file, const std::string& name) {
    constexpr std::string_view k_advice = "expected a PNG or JPEG image; convert it";
    if (file.empty()) throw FormatError(name, -1, "the file is empty, expected a PNG or JPEG image");
    for (const auto& signature : k_others)
        if (is(signature, file))
            throw FormatError(name, -1, fmt::format("found a {} image, {}", signature.format, k_advice));
    throw FormatError(
        name, 0,
        fmt::format("found the bytes {:02x}, {}",
                    fmt::join(file.first(std::min<std::size_t>(file.size(), 8)), " "), k_advice));
}

}  // namespace

namespace detail {

void require_pixels(std::uint64_t rows, std::uint64_t columns, const std::string& name,
                    const DecodeOptions& options) {
    if (rows == 0 || columns == 0)
        throw FormatError(
            name, -1, fmt::format("found an image of {} × {} pixels, expected at least one", columns, rows));
    const auto limit = static_cast<std::uint64_t>(options.max_pixels);
    if (rows > limit / columns)
        throw FormatError(
            name, -1,
            fmt::format("found an image of {} × {} = {} pixels, expected at most {}; scale it down first",
                        columns, rows, rows * columns, limit));
}

}  // namespace detail

std::span<const std::string_view> names(Alpha) {
    static constexpr std::string_view k_names[] = {"drop", "white"};
    return k_names;
}
std::span<const std::string_view> names(Exif) {
    static constexpr std::string_view k_names[] = {"apply", "ignore"};
    return k_names;
}

Image decode(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options) {
    check_options(options);
    detail::Decoded decoded;
    if (is(k_png, file)) {
        decoded = detail::decode_png(file, name, options);
    } else if (is(k_jpeg, file)) {
        decoded = detail::decode_jpeg(file, name, options);
    } else {
        refuse(file, name);
    }
    if (options.exif == Exif::ignore) return std::move(decoded.image);
    return detail::turned(std::move(decoded.image), decoded.orientation);
}

Image decode_file(const std::string& path, const DecodeOptions& options) {
    const MappedFile file(path);
    return decode(file.bytes(), path, options);
}

}  // namespace lightmill::vision

#include "lightmill/vision/weights/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "lightmill/base/error.hpp"

namespace lightmill::vision {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t k_max_header = 100'000'000;  // bytes, the format's own limit

struct DtypeRow {
    Dtype dtype;
    std::string_view name;
    std::int64_t bytes;
};
constexpr std::array<DtypeRow, 15> k_dtypes{{{Dtype::boolean, "BOOL", 1},
                                             {Dtype::u8, "U8", 1},
                                             {Dtype::i8, "I8", 1},
                                             {Dtype::i16, "I16", 2},
                                             {Dtype::u16, "U16", 2},
                                             {Dtype::f16, "F16", 2},
                                             {Dtype::bf16, "BF16", 2},
                                             {Dtype::i32, "I32", 4},
                                             {Dtype::u32, "U32", 4},
                                             {Dtype::f32, "F32", 4},
                                             {Dtype::i64, "I64", 8},
                                             {Dtype::u64, "U64", 8},
                                             {Dtype::f64, "F64", 8},
                                             {Dtype::f8_e4m3, "F8_E4M3", 1},
                                             {Dtype::f8_e5m2, "F8_E5M2", 1}}};

// Reads the header event by event: nlohmann's own tree would keep the last of two equal keys in silence.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
  public:
    HeaderReader(const std::string& path, std::vector<TensorInfo>& infos, Metadata& metadata)
        : path_(path), infos_(infos), metadata_(metadata) {}

    bool null() override { return refuse("null"); }
    bool boolean(bool) override { return refuse("a truth value"); }
    bool number_integer(number_integer_t value) override { return refuse(fmt::format("{}", value)); }
    bool number_float(number_float_t, const string_t& text) override { return refuse(text); }
    bool binary(binary_t&) override { return refuse("binary data"); }
    bool number_unsigned(number_unsigned_t value) override {
        if (depth_ != 3) return refuse(fmt::format("{}", value));
        if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
            fail(fmt::format("{} of {} is too large", value, tensor_));
        const auto number = static_cast<std::int64_t>(value);
        if (field_ == "shape") {
            infos_.back().shape.push_back(number);
        } else {
            offsets_.push_back(number);
        }
        return true;
    }
    bool string(string_t& value) override {
        if (depth_ == 2 && tensor_ == "__metadata__") {
            metadata_.emplace_back(field_, value);
        } else if (depth_ == 2 && field_ == "dtype") {
            const auto row = std::find_if(k_dtypes.begin(), k_dtypes.end(),
                                          [&](const auto& d) { return d.name == value; });
            if (row == k_dtypes.end())
                fail(fmt::format("tensor {} has the unknown dtype {}", tensor_, value));
            infos_.back().dtype = row->dtype;
        } else {
            return refuse(fmt::format("the text \"{}\"", value));
        }
        return true;
    }
    bool start_object(std::size_t) override {
        if (depth_ >= 2) return refuse("an object");
        if (++depth_ == 2) {
            fields_.clear();
            offsets_.clear();
            if (tensor_ != "__metadata__") infos_.push_back({tensor_, {}, {}, 0, 0});
        }
        return true;
    }
    bool key(string_t& value) override {
        if (depth_ == 1) {
            if (!tensors_.insert(value).second) fail(fmt::format("tensor {} is there twice", value));
            tensor_ = value;
        } else {
            if (!fields_.insert(value).second) fail(fmt::format("{} has {} twice", tensor_, value));
            field_ = value;
            if (tensor_ != "__metadata__" && value != "dtype" && value != "shape" && value != "data_offsets")
                fail(fmt::format("tensor {} has the unknown field {}", tensor_, value));
        }
        return true;
    }
    bool end_object() override {
        if (depth_ == 2 && tensor_ != "__metadata__") {
            for (const auto* field : {"dtype", "shape", "data_offsets"})
                if (!fields_.contains(field)) fail(fmt::format("tensor {} has no {}", tensor_, field));
            if (offsets_.size() != 2)
                fail(fmt::format("data_offsets of {} has {} numbers, expected 2", tensor_, offsets_.size()));
            infos_.back().begin = offsets_[0];
            infos_.back().end = offsets_[1];
        }
        --depth_;
        return true;
    }
    bool start_array(std::size_t) override {
        if (depth_ != 2 || tensor_ == "__metadata__" || field_ == "dtype") return refuse("a list");
        ++depth_;
        return true;
    }
    bool end_array() override {
        --depth_;
        return true;
    }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& error) override {
        throw FormatError(path_, static_cast<std::int64_t>(position) + 8,
                          fmt::format("the header is not JSON: {}", error.what()));
    }

  private:
    [[noreturn]] void fail(const std::string& message) const { throw FormatError(path_, -1, message); }
    bool refuse(const std::string& what) const {
        fail(depth_ < 2 ? fmt::format("{} stands where a tensor is expected ({})", what, tensor_)
                        : fmt::format("{} of {} holds {}, expected {}", field_, tensor_, what,
                                      tensor_ == "__metadata__" ? "text"
                                      : field_ == "dtype"       ? "a type's name"
                                                                : "whole numbers from 0"));
    }

    const std::string& path_;
    std::vector<TensorInfo>& infos_;
    Metadata& metadata_;
    int depth_ = 0;  // 1: tensors, 2: fields, 3: a list of numbers
    std::string tensor_, field_;
    std::set<std::string> tensors_, fields_;
    std::vector<std::int64_t> offsets_;
};

// Bytes that a tensor's shape and type ask for; nothing where that number does not fit.
std::optional<std::int64_t> expected_bytes(const TensorInfo& info) {
    std::int64_t n = size_bytes(info.dtype);
    for (const auto extent : info.shape)
        if (__builtin_mul_overflow(n, extent, &n)) return std::nullopt;
    return n;
}

}  // namespace

std::string_view name(Dtype dtype) noexcept {
    return k_dtypes[static_cast<std::size_t>(dtype)].name;
}
std::int64_t size_bytes(Dtype dtype) noexcept {
    return k_dtypes[static_cast<std::size_t>(dtype)].bytes;
}

float half_to_float(std::uint16_t bits) noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
    const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
    const std::uint32_t fraction = bits & 0x3ffU;
    if (exponent == 0) {  // zero or subnormal: fraction · 2^-24
        const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
        return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t wide = exponent == 31 ? 0xffU : exponent + 112U;
    return std::bit_cast<float>(sign | (wide << 23U) | (fraction << 13U));
}

void parse_safetensors_header(std::string_view header, std::int64_t data_bytes, const std::string& path,
                              std::vector<TensorInfo>& infos, Metadata& metadata) {
    if (header.empty() || header.front() != '{')
        throw FormatError(path, 8, "the header does not begin with {, expected a JSON object");
    HeaderReader reader(path, infos, metadata);
    nlohmann::json::sax_parse(header, &reader);
    std::sort(infos.begin(), infos.end(), [](const TensorInfo& a, const TensorInfo& b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::int64_t at = 0;
    const TensorInfo* before = nullptr;
    for (const auto& info : infos) {
        if (info.end < info.begin)
            throw FormatError(path, -1,
                              fmt::format("tensor {} ends at byte {} before it begins at {}", info.name,
                                          info.end, info.begin));
        if (info.begin != at)
            throw FormatError(
                path, -1,
                fmt::format("tensor {} begins at byte {} of the data, expected {}, where {} ends: {}",
                            info.name, info.begin, at, before != nullptr ? before->name : "the header",
                            info.begin < at ? "they overlap" : "there is a hole"));
        const auto expected = expected_bytes(info);
        if (!expected || *expected != info.end - info.begin)
            throw FormatError(
                path, -1,
                fmt::format("tensor {} has {} bytes, expected {} for {} of shape {}", info.name,
                            info.end - info.begin, expected ? fmt::format("{}", *expected) : "more than 2^63",
                            name(info.dtype), shape_text(info.shape)));
        at = info.end;
        before = &info;
    }
    if (at != data_bytes)
        throw FormatError(
            path, -1,
            fmt::format("the tensors take {} bytes, the file holds {} behind its header: {}", at, data_bytes,
                        at > data_bytes ? "it was cut" : "something was added"));
}

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)), file_(open_for_reading(path_)) {
    const auto size = lightmill::size_bytes(file_, path_);
    if (size < 8)
        throw FormatError(path_, 0, fmt::format("{} bytes, expected at least 8 of a safetensors file", size));
    std::uint64_t length = 0;
    read_exact(file_, path_, 0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > static_cast<std::uint64_t>(k_max_header))
        throw FormatError(path_, 0,
                          fmt::format("a header of {} bytes, expected at most {}: not a safetensors "
                                      "file?",
                                      length, k_max_header));
    data_ = 8 + static_cast<std::int64_t>(length);
    if (data_ > size)
        throw FormatError(path_, 0,
                          fmt::format("a header of {} bytes in a file of {}: it was cut", length, size));
    std::string header(static_cast<std::size_t>(length), '\0');
    read_exact(file_, path_, 8, std::as_writable_bytes(std::span(header)));
    parse_safetensors_header(header, size - data_, path_, infos_, metadata_);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const noexcept {
    const auto found =
        std::find_if(infos_.begin(), infos_.end(), [&](const auto& i) { return i.name == name; });
    return found == infos_.end() ? nullptr : &*found;
}

void SafetensorsFile::read_bytes(const TensorInfo& info, std::int64_t offset,
                                 std::span<std::byte> out) const {
    read_exact(file_, path_, data_ + info.begin + offset, out);
}

std::vector<TensorSpec> SafetensorsFile::tensors() const {
    std::vector<TensorSpec> all;
    for (const auto& info : infos_) all.push_back({info.name, info.shape});
    return all;
}

void SafetensorsFile::read(const std::string& wanted, float* out) const {
    const auto* info = find(wanted);
    if (info == nullptr) throw FormatError(path_, -1, fmt::format("tensor {} is not there", wanted));
    const auto n = element_count(info->shape);
    if (info->dtype == Dtype::f32) {
        read_bytes(*info, 0, {reinterpret_cast<std::byte*>(out), static_cast<std::size_t>(4 * n)});
    } else if (info->dtype == Dtype::bf16 || info->dtype == Dtype::f16) {
        // Read into the upper half of where the values go, and widened from the front: word i lies at byte
        // 2n + 2i, never before the end of value i - 1 at byte 4i.
        auto* words = reinterpret_cast<std::byte*>(out) + 2 * n;
        read_bytes(*info, 0, {words, static_cast<std::size_t>(2 * n)});
        for (std::int64_t i = 0; i < n; ++i) {
            std::uint16_t word = 0;
            std::memcpy(&word, words + 2 * i, 2);
            const float value = info->dtype == Dtype::bf16
                                    ? std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16U)
                                    : half_to_float(word);
            std::memcpy(out + i, &value, 4);
        }
    } else {
        throw FormatError(
            path_, -1, fmt::format("tensor {} is {}, expected BF16, F16 or F32", wanted, name(info->dtype)));
    }
    for (std::int64_t i = 0; i < n; ++i)
        if (!std::isfinite(out[i]))
            throw FormatError(
                path_, -1,
                fmt::format("tensor {} holds {} at element {}: weights must be finite", wanted, out[i], i));
}

std::string safetensors_header(std::span<const TensorInfo> infos, const Metadata& metadata,
                               std::int64_t total_bytes) {
    nlohmann::ordered_json root = nlohmann::ordered_json::object();
    if (!metadata.empty()) {
        auto& texts = root["__metadata__"];
        for (const auto& [key, value] : metadata) texts[key] = value;
    }
    for (const auto& info : infos) {
        root[info.name] = {
            {"dtype", name(info.dtype)}, {"shape", info.shape}, {"data_offsets", {info.begin, info.end}}};
    }
    auto text = root.dump();
    if (total_bytes != 0) {
        const auto room = total_bytes - 8;
        if (static_cast<std::int64_t>(text.size()) > room)
            throw Error(ErrorCode::range,
                        fmt::format("a header of {} bytes, expected at most {}", text.size(), room));
        text.resize(static_cast<std::size_t>(room), ' ');
    } else {
        text.resize((text.size() + 7) / 8 * 8, ' ');
    }
    const auto length = static_cast<std::uint64_t>(text.size());
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + text;
}

}  // namespace lightmill::vision

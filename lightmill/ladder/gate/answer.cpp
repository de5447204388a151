#include "lightmill/ladder/gate/answer.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hash.hpp"

namespace lightmill::ladder {
namespace {

constexpr std::array<std::string_view, 10> k_names{"i8",  "u8",  "i16", "u16", "i32",
                                                   "u32", "i64", "u64", "f32", "f64"};
constexpr std::array<std::size_t, 10> k_sizes{1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

template <class T>
std::uint64_t nonfinite_in(std::span<const std::byte> bytes) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
        T value;
        std::memcpy(&value, bytes.data() + i, sizeof value);
        if (!std::isfinite(value)) ++count;
    }
    return count;
}

}  // namespace

std::string_view name(Element type) noexcept {
    return k_names[static_cast<std::size_t>(type)];
}
std::size_t size_bytes(Element type) noexcept {
    return k_sizes[static_cast<std::size_t>(type)];
}

std::string checksum(const Answer& answer) {
    Xxh3 hash;
    for (const auto& array : answer) {
        const std::string head = fmt::format("{} {} {}\n", array.name, name(array.type), array.count());
        hash.update(head.data(), head.size());
        hash.update(array.bytes);
    }
    std::string text;
    for (const auto byte : hash.digest()) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    return text;
}

std::uint64_t nonfinite(const Answer& answer) {
    std::uint64_t count = 0;
    for (const auto& array : answer) {
        if (array.type == Element::f32) count += nonfinite_in<float>(array.bytes);
        if (array.type == Element::f64) count += nonfinite_in<double>(array.bytes);
    }
    return count;
}

void write_answer(const std::string& path, const Answer& answer) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file.is_open()) throw IoError(path, "open", errno, io_advice(errno));
    for (const auto& array : answer) {
        const std::string head = fmt::format("array {} {} {}\n", array.name, name(array.type), array.count());
        write_all(file, path, std::as_bytes(std::span(head)));
        write_all(file, path, array.bytes);
    }
}

AnswerFile::AnswerFile(const std::string& path) : file_(path) {
    const auto bytes = file_.bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::size_t at = 0;
    while (at < text.size()) {
        const auto bad = [&](const std::string& message) {
            return FormatError(path, static_cast<std::int64_t>(at), message);
        };
        const auto line = text.substr(at, std::min<std::size_t>(text.size() - at, 256));
        const auto end = line.find('\n');
        std::array<std::string_view, 4> words;
        std::size_t found = 0;
        for (std::size_t i = 0; end != std::string_view::npos && i < end && found < words.size(); ++found) {
            const auto space = std::min(line.find(' ', i), end);
            words[found] = line.substr(i, space - i);
            i = space + 1;
        }
        if (found != 4 || words[0] != "array") {
            throw bad("an answer's array begins with a line \"array NAME TYPE COUNT\"");
        }
        Array array{std::string(words[1]), Element::u8, {}};
        const auto* type = std::find(k_names.begin(), k_names.end(), words[2]);
        if (type == k_names.end())
            throw bad(
                fmt::format("element type '{}', expected one of {}", words[2], fmt::join(k_names, ", ")));
        array.type = static_cast<Element>(type - k_names.begin());
        std::uint64_t count = 0;
        const auto number = std::from_chars(words[3].data(), words[3].data() + words[3].size(), count);
        const auto rest = text.size() - at - end - 1;
        if (number.ec != std::errc{} || number.ptr != words[3].data() + words[3].size())
            throw bad(fmt::format("count '{}', expected a whole number", words[3]));
        if (count > rest / size_bytes(array.type))
            throw bad(fmt::format("array {} has {} elements of {}, but only {} bytes follow", array.name,
                                  count, words[2], rest));
        array.bytes = bytes.subspan(at + end + 1, count * size_bytes(array.type));
        at += end + 1 + array.bytes.size();
        answer_.push_back(std::move(array));
    }
}

}  // namespace lightmill::ladder

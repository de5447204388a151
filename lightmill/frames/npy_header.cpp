#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/npy_header_internal.hpp"

namespace lightmill::frames::detail {
namespace {

// Reads the header's dictionary: a Python literal with exactly the keys descr, fortran_order and shape.
class Dictionary {
  public:
    Dictionary(std::string_view text, std::size_t first_byte, const std::string& path)
        : text_(text), first_byte_(first_byte), path_(path) {}

    NpyHeader parse() {
        NpyHeader header;
        bool has_type = false, has_order = false, has_shape = false;
        expect('{');
        while (!take('}')) {
            const auto at = at_;
            const auto key = quoted();
            expect(':');
            bool* has = key == "descr"           ? &has_type
                        : key == "fortran_order" ? &has_order
                        : key == "shape"         ? &has_shape
                                                 : nullptr;
            if (has == nullptr || *has)
                refuse(at,
                       fmt::format("found key '{}', expected 'descr', 'fortran_order' and 'shape', once each",
                                   key));
            *has = true;
            if (has == &has_type) {
                header.is_structured = peek() == '[';
                header.type = header.is_structured ? bracketed() : quoted();
            } else if (has == &has_order) {
                header.fortran_order = boolean();
            } else {
                header.shape = tuple();
            }
            if (!take(',') && peek() != '}') refuse(at_, "expected ',' or '}'");
        }
        if (peek() != '\0') refuse(at_, "found text after the dictionary");
        if (!has_type || !has_order || !has_shape)
            refuse(0, "expected the keys 'descr', 'fortran_order' and 'shape'");
        return header;
    }

  private:
    [[noreturn]] void refuse(std::size_t at, const std::string& what) const {
        throw FormatError(path_, static_cast<std::int64_t>(first_byte_ + at), "npy header: " + what);
    }
    // The next character that is no blank; '\0' at the end.
    char peek() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool take(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c)) refuse(at_, fmt::format("expected '{}'", c));
    }
    std::string quoted() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') refuse(at_, "expected a quoted text");
        const auto end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) refuse(at_, "found a text without its closing quote");
        std::string value(text_.substr(at_ + 1, end - at_ - 1));
        if (value.find_first_of("\\\n") != std::string::npos || value.size() > 64)
            refuse(at_, "found a text that no writer of arrays makes");
        at_ = end + 1;
        return value;
    }
    std::string bracketed() {
        const auto first = at_;
        int depth = 0;
        do {
            const char c = at_ < text_.size() ? text_[at_++] : '\0';
            if (c == '\0') refuse(first, "found '[' without its ']'");
            depth += c == '[' ? 1 : c == ']' ? -1 : 0;
        } while (depth > 0);
        return std::string(text_.substr(first, at_ - first));
    }
    bool boolean() {
        (void)peek();
        for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}}) {
            if (text_.substr(at_).starts_with(word)) {
                at_ += word.size();
                return value;
            }
        }
        refuse(at_, "expected True or False");
    }
    std::vector<std::int64_t> tuple() {
        std::vector<std::int64_t> values;
        expect('(');
        while (!take(')')) {
            (void)peek();
            std::int64_t value = 0;
            const auto* begin = text_.data() + at_;
            const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
            if (error != std::errc{} || value < 0)
                refuse(at_, "expected a whole number that is not negative");
            at_ += static_cast<std::size_t>(end - begin);
            if (take('L')) {
            }  // Python 2 wrote 400L
            values.push_back(value);
            if (values.size() > 32) refuse(at_, "found more than 32 dimensions");
            if (!take(',') && peek() != ')') refuse(at_, "expected ',' or ')'");
        }
        return values;
    }

    std::string_view text_;
    std::size_t first_byte_;
    const std::string& path_;
    std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& path) {
    constexpr std::string_view k_magic = "\x93NUMPY";
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    if (!text.starts_with(k_magic)) {
        throw FormatError(
            path, 0,
            "found no NumPy array: expected the file to start with \\x93NUMPY, as np.save writes it");
    }
    const auto byte = [&](std::size_t i) {
        return static_cast<std::size_t>(static_cast<unsigned char>(text[i]));
    };
    if (text.size() < 10) throw FormatError(path, 6, "the file ends inside the npy header; it is truncated");
    const auto major = byte(6), minor = byte(7);
    if (major < 1 || major > 3 || minor != 0) {
        throw FormatError(path, 6,
                          fmt::format("found npy version {}.{}, expected 1.0, 2.0 or 3.0", major, minor));
    }
    const std::size_t start = major == 1 ? 10 : 12;
    if (text.size() < start)
        throw FormatError(path, 8, "the file ends inside the npy header; it is truncated");
    auto size = byte(8) | byte(9) << 8;
    if (major > 1) size |= byte(10) << 16 | byte(11) << 24;
    if (size > text.size() - start) {
        throw FormatError(
            path, 8,
            fmt::format("found an npy header of {} bytes, expected at most the {} that are left in the "
                        "file; it is truncated or damaged",
                        size, text.size() - start));
    }
    auto header = Dictionary(text.substr(start, size), start, path).parse();
    header.size_bytes = start + size;
    return header;
}

std::string npy_header(const std::string& descr, std::span<const std::int64_t> shape) {
    auto text = fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': ({}{}), }}", descr,
                            fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
    constexpr auto k_size = k_npy_header_bytes - 10;
    text.resize(k_size - 1, ' ');
    text += '\n';
    std::string header = "\x93NUMPY";
    header += {'\1', '\0', static_cast<char>(k_size & 0xff), static_cast<char>(k_size >> 8)};
    return header + text;
}

FileDescriptor create_npy(const std::string& path, bool overwrite) {
    require_writable(path, overwrite);
    const auto partial = partial_path(path);
    FileDescriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.is_open()) throw IoError(partial, "create", errno, io_advice(errno));
    const std::string blank(k_npy_header_bytes, '\0');
    write_all(file, partial, std::as_bytes(std::span(blank)));
    return file;
}

void finish_npy(FileDescriptor& file, const std::string& path, const std::string& header) {
    const auto partial = partial_path(path);
    if (::lseek(file.get(), 0, SEEK_SET) != 0) throw IoError(partial, "seek", errno);
    write_all(file, partial, std::as_bytes(std::span(header)));
    publish(path);
    file.close();
}

void abandon_npy(FileDescriptor& file, const std::string& path) noexcept {
    if (!file.is_open()) return;
    file.close();
    try {
        ::unlink(partial_path(path).c_str());
    } catch (...) {  // no memory for the name: the file stays
    }
}

}  // namespace lightmill::frames::detail

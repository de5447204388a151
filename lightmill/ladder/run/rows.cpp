#include "lightmill/ladder/run/rows.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>

#include "lightmill/base/error.hpp"

namespace lightmill::ladder {
namespace {

constexpr std::array<std::string_view, 25> k_columns{"session",
                                                     "round",
                                                     "slot",
                                                     "rung",
                                                     "executable",
                                                     "repetition",
                                                     "phase",
                                                     "wall_s",
                                                     "user_s",
                                                     "system_s",
                                                     "minor_faults",
                                                     "major_faults",
                                                     "voluntary_switches",
                                                     "involuntary_switches",
                                                     "peak_rss_bytes",
                                                     "items",
                                                     "count",
                                                     "checksum",
                                                     "detectors",
                                                     "cycles",
                                                     "instructions",
                                                     "cache_misses",
                                                     "gpu",
                                                     "invalid",
                                                     "not_quotable"};

std::string head() {
    return fmt::format("{}\n", fmt::join(k_columns, ","));
}

// A field as RFC 4180 wants it; line ends become spaces, so that a row is a line.
std::string quoted(std::string text) {
    for (auto& c : text)
        if (c == '\n' || c == '\r') c = ' ';
    if (text.find_first_of(",\"") == std::string::npos) return text;
    std::string result = "\"";
    for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + '"';
}
std::string counter(std::int64_t value) {
    return value < 0 ? std::string() : fmt::format("{}", value);
}

std::string line(const Row& row) {
    std::vector<std::string> detectors;
    for (const auto& d : row.detectors) detectors.push_back(fmt::format("{}={}", d.name, d.value));
    const auto& m = row.measured;
    const std::array<std::string, k_columns.size()> fields{
        row.session,
        fmt::format("{}", row.round),
        fmt::format("{}", row.slot),
        row.arm,
        row.executable,
        fmt::format("{}", row.repetition),
        row.repetition == 0 ? "cold" : "warm",
        fmt::format("{:.9f}", m.wall_s),
        fmt::format("{:.6f}", m.user_s),
        fmt::format("{:.6f}", m.system_s),
        fmt::format("{}", m.minor_faults),
        fmt::format("{}", m.major_faults),
        fmt::format("{}", m.voluntary_switches),
        fmt::format("{}", m.involuntary_switches),
        fmt::format("{}", m.peak_rss_bytes),
        fmt::format("{}", row.items),
        fmt::format("{}", row.count),
        row.checksum,
        fmt::format("{}", fmt::join(detectors, "; ")),
        counter(m.cycles),
        counter(m.instructions),
        counter(m.cache_misses),
        row.gpu,
        row.invalid,
        fmt::format("{}", fmt::join(row.not_quotable, "; "))};
    std::string text;
    for (const auto& field : fields) text += (text.empty() ? "" : ",") + quoted(field);
    return text + '\n';
}

std::vector<std::string> split_line(std::string_view text) {
    std::vector<std::string> fields{{}};
    bool inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (inside) {
            if (text[i] != '"') {
                fields.back() += text[i];
            } else if (i + 1 < text.size() && text[i + 1] == '"') {
                fields.back() += text[i++];
            } else {
                inside = false;
            }
        } else if (text[i] == '"') {
            inside = true;
        } else if (text[i] == ',') {
            fields.emplace_back();
        } else {
            fields.back() += text[i];
        }
    }
    return fields;
}

std::vector<std::string> split_list(const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t start = 0; start < text.size();) {
        const auto end = std::min(text.find("; ", start), text.size());
        parts.push_back(text.substr(start, end - start));
        start = end + 2;
    }
    return parts;
}

}  // namespace

RowWriter::RowWriter(const std::string& path) : path_(path) {
    file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file_.is_open()) throw IoError(path, "open", errno, io_advice(errno));
    // Two runners in one directory would repeat rows; the lock goes with its process, however that ends.
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0)
        throw IoError(path, "lock", errno, "another `ladder run` is writing this session; let it end first");
    const std::string text = read_file(path, std::int64_t{1} << 30);
    size_ = static_cast<std::int64_t>(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
    if (size_ > 0 && text.compare(0, head().size(), head()) != 0)
        throw FormatError(path, 0, "the columns are not those that this version writes; start a new session");
    if (::ftruncate(file_.get(), size_) != 0 || ::lseek(file_.get(), size_, SEEK_SET) < 0)
        throw IoError(path, "truncate", errno);
    if (size_ > 0) return;
    const std::string columns = head();
    write_all(file_, path_, std::as_bytes(std::span(columns)));
    size_ = static_cast<std::int64_t>(head().size());
}

void RowWriter::write(const Row& row) {
    const std::string text = line(row);
    try {
        write_all(file_, path_, std::as_bytes(std::span(text)));
    } catch (const IoError&) {
        // Nothing more can be done where even that fails; a reader leaves out half a line.
        (void)!::ftruncate(file_.get(), size_);
        throw;
    }
    size_ += static_cast<std::int64_t>(text.size());
    ::fdatasync(file_.get());
}

std::vector<Row> read_rows(const std::string& path) {
    std::vector<Row> rows;
    if (!std::filesystem::exists(path)) return rows;
    const std::string text = read_file(path, std::int64_t{1} << 30);
    std::map<std::string, std::size_t> columns;
    for (std::size_t at = 0; at < text.size();) {
        const auto end = text.find('\n', at);
        if (end == std::string::npos) break;
        const auto fields = split_line(std::string_view(text).substr(at, end - at));
        const auto offset = static_cast<std::int64_t>(at);
        at = end + 1;
        if (columns.empty()) {
            for (std::size_t i = 0; i < fields.size(); ++i) columns[fields[i]] = i;
            for (const auto name : k_columns)
                if (!columns.contains(std::string(name)))
                    throw FormatError(path, 0, fmt::format("there is no column {}", name));
            continue;
        }
        if (fields.size() != columns.size())
            throw FormatError(path, offset,
                              fmt::format("a row has {} fields, expected {}", fields.size(), columns.size()));
        const auto get = [&](const char* name) -> const std::string& { return fields[columns[name]]; };
        const auto number = [&](const char* name, auto& value) {
            const std::string& field = get(name);
            if (field.empty()) return;
            const auto result = std::from_chars(field.data(), field.data() + field.size(), value);
            if (result.ec != std::errc{} || result.ptr != field.data() + field.size())
                throw FormatError(path, offset, fmt::format("{} is '{}', expected a number", name, field));
        };
        Row row;
        row.session = get("session");
        row.arm = get("rung");
        row.executable = get("executable");
        row.checksum = get("checksum");
        row.gpu = get("gpu");
        row.invalid = get("invalid");
        row.not_quotable = split_list(get("not_quotable"));
        auto& m = row.measured;
        number("round", row.round);
        number("slot", row.slot);
        number("repetition", row.repetition);
        number("wall_s", m.wall_s);
        number("user_s", m.user_s);
        number("system_s", m.system_s);
        number("minor_faults", m.minor_faults);
        number("major_faults", m.major_faults);
        number("voluntary_switches", m.voluntary_switches);
        number("involuntary_switches", m.involuntary_switches);
        number("peak_rss_bytes", m.peak_rss_bytes);
        number("items", row.items);
        number("count", row.count);
        number("cycles", m.cycles);
        number("instructions", m.instructions);
        number("cache_misses", m.cache_misses);
        for (const auto& part : split_list(get("detectors"))) {
            const auto equals = part.find('=');
            Detector detector{part.substr(0, equals), 0};
            if (equals != std::string::npos)
                std::from_chars(part.data() + equals + 1, part.data() + part.size(), detector.value);
            row.detectors.push_back(detector);
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

Made made_so_far(const std::vector<Row>& rows, int repetitions) {
    Made made;
    for (const auto& row : rows) {
        const Made::Process process{row.arm, row.round};
        int& n = made.repetitions[process];
        n = std::max(n, row.repetition + 1);
        const auto says = [&](const char* word) { return row.invalid.rfind(word, 0) == 0; };
        if (n >= repetitions || says("CRASH") || says("TIMEOUT") || says("GARBAGE") || says("CLOSED") ||
            says("ERROR") || says("INTERRUPTED"))
            made.closed.insert(process);
    }
    return made;
}

}  // namespace lightmill::ladder

#include "lightmill/ladder/report/directory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/ladder/report/page.hpp"

namespace lightmill::ladder {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view k_format = "lightmill ladder session 1";
constexpr std::int64_t k_file_limit_bytes = std::int64_t{1} << 30;

std::string in(const std::string& directory, std::string_view name) {
    return (std::filesystem::path(directory) / name).string();
}

Json facts_json(const std::vector<Fact>& facts) {
    Json json = Json::object();
    for (const auto& fact : facts) json[fact.name] = fact.value;
    return json;
}
std::vector<Fact> facts_from(const Json& json) {
    std::vector<Fact> facts;
    for (const auto& [name, value] : json.items()) facts.push_back({name, value.get<std::string>()});
    return facts;
}

Json rung_json(const SessionRung& rung) {
    Json work = Json::object();
    for (const auto& load : rung.work) work[load.resource] = load.amount;
    return {{"id", rung.id},
            {"label", rung.label},
            {"status", rung.status},
            {"reason", rung.reason},
            {"before", rung.before},
            {"configuration", facts_json(rung.configuration)},
            {"changes", rung.changes},
            {"not_run", rung.not_run},
            {"gate_failure", rung.gate_failure},
            {"gate_distance", rung.gate_distance},
            {"work", work},
            {"work_is_serial", rung.work_is_serial},
            {"not_quotable", rung.not_quotable},
            {"executable", rung.executable}};
}
SessionRung rung_from(const Json& json) {
    SessionRung rung;
    rung.id = json.at("id");
    rung.label = json.at("label");
    rung.status = json.at("status");
    rung.reason = json.at("reason");
    rung.before = json.at("before");
    rung.configuration = facts_from(json.at("configuration"));
    rung.changes = json.at("changes").get<std::vector<std::string>>();
    rung.not_run = json.at("not_run");
    rung.gate_failure = json.at("gate_failure");
    rung.gate_distance = json.at("gate_distance");
    for (const auto& [resource, amount] : json.at("work").items()) rung.work.push_back({resource, amount});
    rung.work_is_serial = json.at("work_is_serial");
    rung.not_quotable = json.at("not_quotable").get<std::vector<std::string>>();
    rung.executable = json.at("executable");
    return rung;
}

// Runs `read` on the parsed file; what the JSON library finds becomes a FormatError that names the file.
template <class Read>
void with_json(const std::string& path, Read read) {
    const std::string text = read_file(path);
    try {
        read(Json::parse(text));
    } catch (const nlohmann::json::parse_error& error) {
        throw FormatError(path, static_cast<std::int64_t>(error.byte),
                          fmt::format("not JSON: {}", error.what()));
    } catch (const nlohmann::json::exception& error) {
        throw FormatError(path, -1, fmt::format("not a ladder session's ({})", error.what()));
    }
}

// ---- rows.csv ------------------------------------------------------------------------------------

struct Line {
    std::vector<std::string> fields;
    std::int64_t offset = 0;  // of its first byte
    bool whole = false;       // ended by a line feed
};

// RFC 4180: fields may stand in quotes, a quote within is doubled.
std::vector<Line> parse_csv(const std::string& text) {
    std::vector<Line> lines;
    std::size_t i = 0;
    while (i < text.size()) {
        Line line;
        line.offset = static_cast<std::int64_t>(i);
        std::string field;
        bool quoted = false;
        for (; i < text.size(); ++i) {
            const char c = text[i];
            if (quoted) {
                if (c != '"') {
                    field += c;
                } else if (i + 1 < text.size() && text[i + 1] == '"') {
                    field += c;
                    ++i;
                } else {
                    quoted = false;
                }
            } else if (c == '"') {
                quoted = true;
            } else if (c == ',') {
                line.fields.push_back(std::move(field));
                field.clear();
            } else if (c == '\n') {
                line.whole = true;
                ++i;
                break;
            } else if (c != '\r') {
                field += c;
            }
        }
        line.fields.push_back(std::move(field));
        lines.push_back(std::move(line));
    }
    return lines;
}

class RowReader {
  public:
    RowReader(std::string path, const Line& head) : path_(std::move(path)) {
        for (std::size_t i = 0; i < head.fields.size(); ++i) columns_.emplace(head.fields[i], i);
        width_ = head.fields.size();
    }

    SessionRow read(const Line& line) {
        line_ = &line;
        if (line.fields.size() != width_)
            throw FormatError(
                path_, line.offset,
                fmt::format("a row has {} fields, the head has {}", line.fields.size(), width_));
        SessionRow row;
        row.rung = text("rung");
        row.round = number<int>("round");
        row.slot = number<int>("slot");
        row.repetition = number<int>("repetition");
        row.wall_s = number<double>("wall_s");
        row.user_s = number<double>("user_s");
        row.system_s = number<double>("system_s");
        row.minor_faults = number<std::int64_t>("minor_faults");
        row.major_faults = number<std::int64_t>("major_faults");
        row.voluntary_switches = number<std::int64_t>("voluntary_switches");
        row.involuntary_switches = number<std::int64_t>("involuntary_switches");
        row.peak_rss_bytes = number<std::int64_t>("peak_rss_bytes");
        row.items = number<double>("items");
        row.invalid = text("invalid");
        const std::string& guards = text("not_quotable");
        for (std::size_t start = 0; start < guards.size();) {
            const std::size_t end = std::min(guards.find("; ", start), guards.size());
            row.not_quotable.push_back(guards.substr(start, end - start));
            start = end + 2;
        }
        return row;
    }

  private:
    const std::string& text(const std::string& column) const {
        const auto found = columns_.find(column);
        if (found == columns_.end())
            throw FormatError(path_, 0, fmt::format("there is no column {}", column));
        return line_->fields[found->second];
    }
    // An empty field is a value that was not measured: 0.
    template <class T>
    T number(const std::string& column) const {
        const std::string& field = text(column);
        T value{};
        if (field.empty()) return value;
        const auto result = std::from_chars(field.data(), field.data() + field.size(), value);
        if (result.ec != std::errc() || result.ptr != field.data() + field.size())
            throw FormatError(path_, line_->offset,
                              fmt::format("{} is '{}', expected a number", column, field));
        return value;
    }

    std::string path_;
    std::map<std::string, std::size_t> columns_;
    std::size_t width_ = 0;
    const Line* line_ = nullptr;
};

void read_rows(const std::string& path, Session& session) {
    const auto lines = parse_csv(read_file(path, k_file_limit_bytes));
    if (lines.empty()) return;  // killed before the head was written
    RowReader reader(path, lines.front());
    std::set<std::string> known;
    for (const auto& rung : session.rungs) known.insert(rung.id);
    std::set<std::tuple<std::string, int, int>> seen;
    for (std::size_t i = 1; i < lines.size(); ++i) {
        if (!lines[i].whole) {
            session.notes.push_back(
                "the last row is not whole and was left out: the session was killed while it wrote");
            break;
        }
        const SessionRow row = reader.read(lines[i]);
        if (known.count(row.rung) == 0)
            throw FormatError(path, lines[i].offset,
                              fmt::format("rung '{}' is not one of the session's", row.rung));
        if (!seen.emplace(row.rung, row.round, row.repetition).second)
            throw FormatError(path, lines[i].offset,
                              fmt::format("rung {}, round {}, repetition {} stands here a second time",
                                          row.rung, row.round, row.repetition));
        session.rows.push_back(row);
    }
}

void write_manifest(const std::string& directory, const Session& session) {
    Json files = Json::object();
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
        if (entry.is_regular_file())
            names.push_back(std::filesystem::relative(entry.path(), directory).generic_string());
    std::sort(names.begin(), names.end());
    for (const auto& name : names)
        if (name != "manifest.json") files[name] = sha256_file(in(directory, name));
    const Json json = {{"format", "lightmill ladder manifest 1"}, {"session", session.id}, {"sha256", files}};
    write_file(in(directory, "manifest.json"), json.dump(2) + "\n");
}

}  // namespace

void write_session(const std::string& directory, const Session& session) {
    Json json;
    json["format"] = k_format;
    json["id"] = session.id;
    json["name"] = session.name;
    json["subject"] = session.subject;
    json["work"] = session.work;
    json["planned_rounds"] = session.planned_rounds;
    json["looks"] = session.looks;
    json["alpha"] = session.alpha;
    json["delta"] = session.delta;
    json["policy"] = facts_json(session.policy);
    json["rungs"] = Json::array();
    for (const auto& rung : session.rungs) json["rungs"].push_back(rung_json(rung));
    json["notes"] = session.notes;
    write_file(in(directory, "session.json"), json.dump(2) + "\n");
    const Json environment = {{"before", facts_json(session.environment_before)},
                              {"after", facts_json(session.environment_after)}};
    write_file(in(directory, "env.json"), environment.dump(2) + "\n");
    if (session.probe) write_file(in(directory, "probe.json"), to_json(*session.probe));
}

Session read_session(const std::string& directory) {
    Session session;
    session.directory = directory;
    const std::string path = in(directory, "session.json");
    with_json(path, [&](const Json& json) {
        if (json.at("format") != k_format)
            throw FormatError(
                path, -1, fmt::format("format is {}, expected \"{}\"", json.at("format").dump(), k_format));
        session.id = json.at("id");
        session.name = json.at("name");
        session.subject = json.at("subject");
        session.work = json.at("work");
        session.planned_rounds = json.at("planned_rounds");
        session.looks = json.at("looks").get<std::vector<int>>();
        session.alpha = json.at("alpha");
        session.delta = json.at("delta");
        session.policy = facts_from(json.at("policy"));
        for (const auto& rung : json.at("rungs")) session.rungs.push_back(rung_from(rung));
        session.notes = json.at("notes").get<std::vector<std::string>>();
    });
    with_json(in(directory, "env.json"), [&](const Json& json) {
        session.environment_before = facts_from(json.at("before"));
        session.environment_after = facts_from(json.at("after"));
    });
    if (const std::string probe = in(directory, "probe.json"); std::filesystem::exists(probe))
        session.probe = probe_from_json(read_file(probe), probe);
    read_rows(in(directory, "rows.csv"), session);
    return session;
}

Summary analyse(const std::string& directory) {
    Summary summary = analyse(read_session(directory));
    write_file(in(directory, "summary.json"), to_json(summary));
    return summary;
}

Summary write_report(const std::string& directory) {
    Summary summary = analyse(directory);
    write_file(in(directory, "summary.md"), to_text(summary, TableStyle::markdown));
    write_file(in(directory, "report.html"), to_html(summary));
    write_manifest(directory, summary.session);
    return summary;
}

}  // namespace lightmill::ladder

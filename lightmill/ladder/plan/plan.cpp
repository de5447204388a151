#include "lightmill/ladder/plan/plan.hpp"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"

namespace lightmill::ladder {
namespace {

constexpr std::array<std::string_view, 4> k_statuses{"reference", "adopted", "rejected", "candidate"};

// Reads tables of one file; every complaint names file and line.
class Reader {
  public:
    Reader(std::string file, const Subjects& subjects, const Variables& variables)
        : file_(std::move(file)), subjects_(subjects), variables_(variables) {}

    [[noreturn]] void fail(int line, const std::string& message) const {
        throw FormatError(file_, -1, line > 0 ? fmt::format("line {}: {}", line, message) : message);
    }
    static int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }
    static std::string found(const toml::node& node) {
        std::ostringstream text;
        node.visit([&](const auto& value) {
            using T = std::remove_cvref_t<decltype(value)>;
            if constexpr (toml::is_table<T>) {
                text << "a table";
            } else if constexpr (toml::is_array<T>) {
                text << "a list";
            } else if constexpr (toml::is_string<T>) {
                text << "the text \"" << value.get() << '"';
            } else {
                text << node.type() << ' ' << value;
            }
        });
        return text.str();
    }

    void keys(const toml::table& table, const std::string& where,
              std::initializer_list<std::string_view> allowed) const {
        for (const auto& [key, node] : table) {
            if (std::find(allowed.begin(), allowed.end(), key.str()) == allowed.end())
                fail(static_cast<int>(key.source().begin.line),
                     fmt::format("{}: unknown key '{}', expected one of {}", where, key.str(),
                                 fmt::join(allowed, ", ")));
        }
    }
    std::string text(const toml::table& table, const std::string& where, std::string_view key,
                     bool required) const {
        const toml::node* node = table.get(key);
        if (node == nullptr) {
            if (required) fail(line_of(table), fmt::format("{}: the key '{}' is missing", where, key));
            return {};
        }
        const auto value = node->value_exact<std::string>();
        if (!value)
            fail(line_of(*node), fmt::format("{}: {}: found {}, expected a text", where, key, found(*node)));
        if (required && value->empty())
            fail(line_of(*node), fmt::format("{}: {}: found an empty text, expected a name", where, key));
        return *value;
    }
    const toml::table* table(const toml::table& parent, const std::string& where,
                             std::string_view key) const {
        const toml::node* node = parent.get(key);
        if (node == nullptr) return nullptr;
        if (!node->is_table())
            fail(line_of(*node), fmt::format("{}: {}: found {}, expected a table", where, key, found(*node)));
        return node->as_table();
    }
    const toml::array* list(const toml::table& parent, const std::string& where, std::string_view key) const {
        const toml::node* node = parent.get(key);
        if (node == nullptr) return nullptr;
        if (!node->is_array())
            fail(line_of(*node),
                 fmt::format("{}: {}: found {}, expected a list of tables", where, key, found(*node)));
        return node->as_array();
    }

    Settings settings(const toml::table& table, const std::string& where) const {
        Settings result;
        for (const auto& [key, node] : table) {
            Setting setting{std::string(key.str()), {}, static_cast<int>(key.source().begin.line)};
            if (const auto flag = node.value_exact<bool>()) {
                setting.value = *flag;
            } else if (const auto whole = node.value_exact<std::int64_t>()) {
                setting.value = *whole;
            } else if (const auto number = node.value_exact<double>()) {
                setting.value = *number;
            } else if (const auto words = node.value_exact<std::string>()) {
                setting.value = *words;
            } else if (node.is_array()) {
                std::vector<std::string> texts;
                for (const auto& element : *node.as_array()) {
                    const auto value = element.value_exact<std::string>();
                    if (!value)
                        fail(line_of(element), fmt::format("{}: {}: found {} in a list, expected texts",
                                                           where, key.str(), found(element)));
                    texts.push_back(*value);
                }
                setting.value = texts;
            } else {
                fail(setting.line,
                     fmt::format(
                         "{}: {}: found {}, expected true or false, a number, a text or a list of texts",
                         where, key.str(), found(node)));
            }
            result.push_back(std::move(setting));
        }
        // toml++ sorts by name; a person reads by line.
        std::stable_sort(result.begin(), result.end(),
                         [](const Setting& a, const Setting& b) { return a.line < b.line; });
        return result;
    }
    // Runs `check`; what it finds wrong gets the line of the setting it is about.
    template <class Check>
    auto checked(const Settings& about, int line, const std::string& where, Check check) const {
        try {
            return check();
        } catch (const OptionError& error) {
            const Setting* setting = ladder::find(about, error.option());
            fail(setting != nullptr && setting->line > 0 ? setting->line : line,
                 fmt::format("{}: {}", where, error.what()));
        }
    }

    const SubjectType& subject(const toml::table& parent, const std::string& where) const {
        const std::string wanted = text(parent, where, "subject", true);
        std::vector<std::string_view> all;
        for (const auto* type : subjects_) {
            if (type->name() == wanted) return *type;
            all.push_back(type->name());
        }
        fail(line_of(*parent.get("subject")),
             fmt::format("{}: subject: found '{}', expected one of {}", where, wanted, fmt::join(all, ", ")));
    }

    Ladder read(const std::string& content, const Settings& work_over) const;

  private:
    Rung rung(const toml::table& table, const Ladder& ladder, const Settings& common) const;
    void check_order(const Ladder& ladder) const;

    std::string file_;
    const Subjects& subjects_;
    const Variables& variables_;
};

Rung Reader::rung(const toml::table& table, const Ladder& ladder, const Settings& common) const {
    Rung rung;
    rung.line = line_of(table);
    rung.id = text(table, "rung", "id", true);
    const std::string where = fmt::format("rung '{}'", rung.id);
    keys(table, where, {"id", "label", "status", "before", "reason", "act", "subject", "config", "answer"});
    if (!good_id(rung.id) || rung.id.size() > 64)
        fail(rung.line,
             fmt::format("{}: id: found '{}', expected letters, digits, '-', '_' or '.'", where, rung.id));
    if (rung.id == "null")
        fail(rung.line,
             "rung 'null': that id is the reference's second copy, which every session has; choose another");
    rung.label = text(table, where, "label", false);
    if (rung.label.empty()) rung.label = rung.id;
    rung.before = text(table, where, "before", false);
    rung.reason = text(table, where, "reason", false);
    rung.act = text(table, where, "act", false);
    const std::string status = text(table, where, "status", false);
    if (!status.empty()) {
        const auto* known = std::find(k_statuses.begin(), k_statuses.end(), status);
        if (known == k_statuses.end())
            fail(line_of(*table.get("status")), fmt::format("{}: status: found '{}', expected one of {}",
                                                            where, status, fmt::join(k_statuses, ", ")));
        rung.status = static_cast<Status>(known - k_statuses.begin());
    }
    if (rung.status == Status::rejected && rung.reason.empty())
        fail(rung.line, fmt::format("{}: a rejected rung says why: the key 'reason' is missing", where));
    rung.subject = table.contains("subject") ? &subject(table, where) : ladder.subject;
    const bool foreign = rung.subject != ladder.subject;
    if (const auto* config = this->table(table, where, "config")) rung.config = settings(*config, where);
    if (!foreign) rung.config = merged(common, rung.config);
    if (const auto* answer = this->table(table, where, "answer")) {
        if (!foreign)
            fail(line_of(*answer),
                 fmt::format("{}: 'answer' is for a rung of another subject than the ladder's; "
                             "its own options already say what the answer is",
                             where));
        rung.answer = merged(common, settings(*answer, where));
        checked(*rung.answer, rung.line, where + ", answer",
                [&] { return ladder.subject->configuration(ladder.work, *rung.answer); });
    }
    const Settings work = foreign ? Settings{} : ladder.work;
    rung.configuration = checked(rung.config, rung.line, where,
                                 [&] { return rung.subject->configuration(work, rung.config); });
    rung.unavailable = rung.subject->unavailable(work, rung.config, ladder.place);
    return rung;
}

void Reader::check_order(const Ladder& ladder) const {
    std::set<std::string> ids;
    const Rung* reference = nullptr;
    for (const auto& rung : ladder.rungs) {
        if (!ids.insert(rung.id).second)
            fail(rung.line, fmt::format("rung '{}': the id is used twice; the first one is in line {}",
                                        rung.id, ladder.find(rung.id)->line));
        if (rung.status != Status::reference) continue;
        if (reference != nullptr)
            fail(rung.line, fmt::format("rung '{}': a second reference; '{}' in line {} is one already",
                                        rung.id, reference->id, reference->line));
        reference = &rung;
    }
    if (reference == nullptr)
        fail(0, "no rung has the status \"reference\": one must, all others are compared with it");
    for (const auto& rung : ladder.rungs) {
        std::vector<std::string> path{rung.id};
        for (const Rung* at = &rung; !at->before.empty();) {
            const Rung* next = ladder.find(at->before);
            if (next == nullptr)
                fail(at->line, fmt::format("rung '{}': before: found '{}', expected the id of a rung", at->id,
                                           at->before));
            path.push_back(next->id);
            if (next == &rung)
                fail(rung.line, fmt::format("rung '{}': 'before' goes in a circle: {}", rung.id,
                                            fmt::join(path, " -> ")));
            if (path.size() > ladder.rungs.size() + 1) break;  // a circle that this rung only leads to
            at = next;
        }
    }
}

Ladder Reader::read(const std::string& content, const Settings& work_over) const {
    toml::table top;
    try {
        top = toml::parse(content, file_);
    } catch (const toml::parse_error& error) {
        fail(static_cast<int>(error.source().begin.line), fmt::format("not TOML: {}", error.description()));
    }
    const std::string where = "ladder";
    Ladder ladder;
    ladder.file = file_;
    ladder.text = content;
    ladder.place = {std::filesystem::absolute(file_).parent_path().string(), variables_};
    keys(top, where, {"name", "title", "subject", "work", "common", "policy", "gate", "sweep", "rung"});
    ladder.name = text(top, where, "name", true);
    if (!good_id(ladder.name) || ladder.name.size() > 64)  // files are named by it
        fail(line_of(*top.get("name")),
             fmt::format("{}: name: found '{}', expected letters, digits, '-', '_' or '.', 64 at most", where,
                         ladder.name));
    ladder.title = text(top, where, "title", false);
    ladder.subject = &subject(top, where);
    if (const auto* work = table(top, where, "work")) ladder.work = settings(*work, "work");
    ladder.work = merged(ladder.work, work_over);
    ladder.work_facts = checked(ladder.work, 0, "work", [&] { return ladder.subject->work(ladder.work); });
    Settings common;
    if (const auto* options = table(top, where, "common")) common = settings(*options, "common");
    if (const auto* policy = table(top, where, "policy")) {
        const Settings given = settings(*policy, "policy");
        checked(given, line_of(*policy), "policy", [&] {
            apply(ladder.policy, given);
            return 0;
        });
    }
    if (const auto* gate = table(top, where, "gate")) {
        keys(*gate, "gate", {"absolute", "relative", "share"});
        for (const auto& [key, field] : {std::pair{"absolute", &ladder.tolerance.absolute},
                                         std::pair{"relative", &ladder.tolerance.relative},
                                         std::pair{"share", &ladder.tolerance.share}}) {
            const toml::node* node = gate->get(key);
            if (node == nullptr) continue;
            const auto value = node->value<double>();
            if (!node->is_number() || !value || !(*value >= 0 && *value < 1e300))
                fail(line_of(*node),
                     fmt::format("gate: {}: found {}, expected a number from 0 up", key, found(*node)));
            *field = *value;
        }
    }
    const auto* rungs = list(top, where, "rung");
    if (rungs == nullptr || rungs->empty())
        fail(0, "there is no [[rung]]: a ladder has at least a reference");
    for (const auto& node : *rungs) {
        if (!node.is_table())
            fail(line_of(node), fmt::format("rung: found {}, expected a table", found(node)));
        ladder.rungs.push_back(rung(*node.as_table(), ladder, common));
    }
    check_order(ladder);
    for (auto& rung : ladder.rungs) {
        const Rung* before = ladder.find(rung.before);
        if (before == nullptr || before->subject != rung.subject) continue;
        rung.changes = changes(before->configuration, rung.configuration);
    }
    if (const auto* sweep = list(top, where, "sweep")) {
        for (const auto& node : *sweep) {
            if (!node.is_table())
                fail(line_of(node), fmt::format("sweep: found {}, expected a table", found(node)));
            Settings tried = settings(*node.as_table(), "sweep");
            checked(tried, line_of(node), "sweep", [&] {
                return ladder.reference().subject->configuration(ladder.work,
                                                                 merged(ladder.reference().config, tried));
            });
            ladder.sweep.push_back(std::move(tried));
        }
    }
    return ladder;
}

}  // namespace

std::vector<std::string> changes(const std::vector<Fact>& before, const std::vector<Fact>& after) {
    std::vector<std::string> all;
    for (const auto& fact : after)
        if (const auto old = value(before, fact.name); old != fact.value)
            all.push_back(fmt::format("{}: {} → {}", fact.name, old, fact.value));
    return all;
}

bool good_id(std::string_view id) noexcept {
    return !id.empty() && std::all_of(id.begin(), id.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    });
}

std::span<const std::string_view> names(Status) {
    return k_statuses;
}

const Rung& Ladder::reference() const {
    for (const auto& rung : rungs)
        if (rung.status == Status::reference) return rung;
    throw Error(ErrorCode::state, "a ladder without a reference");
}
const Rung* Ladder::find(std::string_view id) const noexcept {
    for (const auto& rung : rungs)
        if (rung.id == id) return &rung;
    return nullptr;
}
std::string Ladder::work_text() const {
    std::string all;
    for (const auto& fact : work_facts)
        all += fmt::format("{}{}={}", all.empty() ? "" : " ", fact.name, fact.value);
    return all;
}

Ladder parse_ladder(const std::string& text, const std::string& file, const Subjects& subjects,
                    const Variables& variables, const Settings& work) {
    return Reader(file, subjects, variables).read(text, work);
}
Ladder read_ladder(const std::string& file, const Subjects& subjects, const Variables& variables,
                   const Settings& work) {
    return parse_ladder(read_file(file, 1 << 20), file, subjects, variables, work);
}

std::vector<std::size_t> round_order(std::size_t arms, int round, std::uint64_t seed) {
    std::vector<std::size_t> order(arms);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937_64 random(seed * std::uint64_t{0x9e3779b97f4a7c15} + static_cast<std::uint64_t>(round / 2));
    // Fisher-Yates by hand: std::shuffle may differ from library to library.
    for (std::size_t i = arms; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
    return order;
}

std::string to_text(const Ladder& ladder) {
    std::string text =
        fmt::format("{}{}{}\nsubject   {}\nwork      {}\n", ladder.name, ladder.title.empty() ? "" : ": ",
                    ladder.title, ladder.subject->name(), ladder.work_text());
    text += "policy   ";
    for (const auto& fact : facts_of(ladder.policy)) text += fmt::format(" {}={}", fact.name, fact.value);
    text += "\n\n";
    std::size_t runnable = 0;
    std::string act;
    for (const auto& rung : ladder.rungs) {
        if (rung.act != act) {
            act = rung.act;
            if (!act.empty()) text += fmt::format("-- {}\n", act);
        }
        text += fmt::format("{:<12} {:<10} {}{}\n", rung.id,
                            names(rung.status)[static_cast<std::size_t>(rung.status)], rung.label,
                            rung.compound() ? "  [compound]" : "");
        if (!rung.before.empty())
            text += fmt::format("{:12} after {}: {}\n", "", rung.before,
                                rung.changes.empty() ? "(another subject, or nothing changes)"
                                                     : fmt::format("{}", fmt::join(rung.changes, "; ")));
        if (!rung.reason.empty()) text += fmt::format("{:12} {}\n", "", rung.reason);
        if (rung.unavailable.empty()) {
            ++runnable;
        } else {
            text += fmt::format("{:12} not runnable here: {}\n", "", rung.unavailable);
        }
    }
    text += fmt::format(
        "\n{} of {} rungs run here: {} processes a round with the null arm, {} rounds, {} repetitions each; "
        "up "
        "to {:.0f} s of waiting for a quiet machine",
        runnable, ladder.rungs.size(), runnable + 1, ladder.policy.rounds, ladder.policy.repetitions,
        ladder.policy.busy_wait_s * static_cast<double>(ladder.policy.rounds));
    if (!ladder.sweep.empty())
        text += fmt::format("\nthe reference's {} is swept first over {} settings",
                            ladder.reference().subject->swept_option(), ladder.sweep.size());
    return text + "\n";
}

}  // namespace lightmill::ladder

#include "lightmill/ladder/report/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lightmill/ladder/report/table_internal.hpp"

namespace lightmill::ladder {
namespace {

// One ln(time) a valid process.
std::vector<double> log_times(const RungSummary& s) {
    std::map<int, std::vector<double>> by_round;
    std::map<int, bool> valid;
    for (const auto& row : s.rows) {
        const auto known = valid.emplace(row.round, true).first;
        if (!row.invalid.empty() || !(row.wall_s > 0)) known->second = false;
        if ((row.repetition == 0) == s.cold_only) by_round[row.round].push_back(row.wall_s);
    }
    std::vector<double> logs;
    for (auto& [round, times] : by_round)
        if (valid[round]) logs.push_back(std::log(median(std::move(times))));
    return logs;
}

// second / first of two medians that are not paired: each interval at half of alpha, so that both hold
// together, and the widest quotient that they allow.
Estimate quotient(std::span<const double> first, std::span<const double> second, double alpha) {
    const Estimate a = estimate(first, alpha / 2);
    const Estimate b = estimate(second, alpha / 2);
    Estimate q;
    q.rounds = std::min(a.rounds, b.rounds);
    q.ratio = b.ratio / a.ratio;
    q.widened = a.widened || b.widened;
    if (a.bounded() && b.bounded()) {
        q.low = b.low / a.high;
        q.high = b.high / a.low;
    }
    return q;
}

std::string difference(std::string_view name, std::string_view a, std::string_view b) {
    // Hashes tell themselves apart by their first digits.
    auto shown = [](std::string_view text) {
        return text.empty()        ? std::string("not given")
               : text.size() == 64 ? std::string(text.substr(0, 12)) + "…"
                                   : std::string(text);
    };
    return fmt::format("{}: {} → {}", name, shown(a), shown(b));
}

std::vector<std::string> differences(const std::vector<Fact>& first, const std::vector<Fact>& second,
                                     bool machine) {
    std::vector<std::string> found;
    for (const auto& fact : first)
        if (identifies_machine(fact.name) == machine && fact.name != "time" && fact.name != "load_average")
            if (const auto other = value(second, fact.name); other != fact.value)
                found.push_back(difference(fact.name, fact.value, other));
    for (const auto& fact : second)
        if (identifies_machine(fact.name) == machine && value(first, fact.name).empty() &&
            !fact.value.empty())
            found.push_back(difference(fact.name, {}, fact.value));
    return found;
}

std::string why_nothing(const Summary& a, const Summary& b) {
    if (a.session.subject != b.session.subject)
        return "the " + difference("subjects differ", a.session.subject, b.session.subject);
    if (a.session.work != b.session.work)
        return difference("the work differs", a.session.work, b.session.work);
    if (!a.trust.valid) return "the first session is INVALID";
    if (!b.trust.valid) return "the second session is INVALID";
    const auto machine = differences(a.session.environment_before, b.session.environment_before, true);
    if (!machine.empty())
        return fmt::format("the machine differs ({}): measure both on one, best as two builds in one session",
                           fmt::join(machine, "; "));
    const RungSummary* first = reference(a);
    const RungSummary* second = reference(b);
    if (first == nullptr || second == nullptr || first->state != "timed" || second->state != "timed")
        return "there is no reference that both sessions timed";
    if (first->rung.id != second->rung.id)
        return difference("the references differ", first->rung.id, second->rung.id);
    if (const auto changed = differences(first->rung.configuration, second->rung.configuration, false);
        !changed.empty())
        return fmt::format("the references are configured differently ({})", fmt::join(changed, "; "));
    if (first->cold_only != second->cold_only)
        return "the reference is cold in one session and warm in the other";
    return {};
}

std::string why_not(const RungSummary* first, const RungSummary* second) {
    if (first == nullptr) return "only in the second session";
    if (second == nullptr) return "only in the first session";
    if (first->state != "timed")
        return fmt::format("first session: {}: {}", first->state, first->state_reason);
    if (second->state != "timed")
        return fmt::format("second session: {}: {}", second->state, second->state_reason);
    if (const auto changed = differences(first->rung.configuration, second->rung.configuration, false);
        !changed.empty())
        return fmt::format("configured differently ({})", fmt::join(changed, "; "));
    if (first->cold_only != second->cold_only) return "cold in one session and warm in the other";
    if (!first->against_reference || !second->against_reference || first->against_reference->d.empty() ||
        second->against_reference->d.empty())
        return "no round in which it and the reference are valid";
    return {};
}

std::string verdict(const Estimate& change, double margin, bool same_allowed, bool reference_agrees) {
    SessionTrust trust;
    trust.valid = true;
    trust.same_allowed = same_allowed && reference_agrees;
    trust.margin = margin;
    const Verdict judged = judge(change, trust);
    const bool likely = !reference_agrees && (judged == Verdict::faster || judged == Verdict::slower);
    return fmt::format("{}{}", likely ? "LIKELY " : "", name(judged));
}

}  // namespace

Comparison compare(const Summary& first, const Summary& second, const std::string& first_name,
                   const std::string& second_name) {
    Comparison c;
    c.first = first_name;
    c.second = second_name;
    c.differences = differences(first.session.environment_before, second.session.environment_before, false);
    for (const auto& text : differences(first.session.policy, second.session.policy, false))
        c.differences.push_back("policy: " + text);
    c.why_not = why_nothing(first, second);
    auto list = [&](const Summary& summary) {
        for (const auto& s : summary.rungs) {
            const bool known =
                std::any_of(c.rungs.begin(), c.rungs.end(), [&](const auto& r) { return r.id == s.rung.id; });
            if (known || s.rung.status == "reference") continue;
            c.rungs.emplace_back();
            c.rungs.back().id = s.rung.id;
        }
    };
    list(first);
    list(second);
    for (auto& rung : c.rungs) {
        rung.why_not = c.why_not.empty() ? why_not(find(first, rung.id), find(second, rung.id))
                                         : "nothing can be compared";
        if (rung.why_not.empty()) ++c.claims;
    }
    if (!c.why_not.empty()) return c;

    const double alpha =
        Family{.alpha = std::min(first.session.alpha, second.session.alpha), .claims = c.claims}
            .alpha_per_claim();
    c.margin = std::max(first.trust.margin, second.trust.margin);
    const auto first_log = log_times(*reference(first));
    const auto second_log = log_times(*reference(second));
    c.reference = quotient(second_log, first_log, alpha);
    c.reference_agrees =
        c.reference.bounded() && c.reference.low >= 1 / (1 + c.margin) && c.reference.high <= 1 + c.margin;
    for (auto& rung : c.rungs) {
        const RungSummary* a = find(first, rung.id);
        const RungSummary* b = find(second, rung.id);
        if (a != nullptr) rung.first_s = a->warm_s;
        if (b != nullptr) rung.second_s = b->warm_s;
        if (!rung.why_not.empty()) continue;
        rung.change = quotient(a->against_reference->d, b->against_reference->d, alpha);
        rung.verdict = verdict(rung.change, c.margin, first.trust.same_allowed && second.trust.same_allowed,
                               c.reference_agrees);
    }
    return c;
}

std::string to_text(const Comparison& c, TableStyle style) {
    const bool markdown = style == TableStyle::markdown;
    const std::string item = markdown ? "* " : "  ";
    std::string text = fmt::format("{}first  {}\n{}second {}\n\n", item, c.first, item, c.second);
    for (const auto& line : c.differences) text += fmt::format("{}differs: {}\n", item, line);
    if (!c.differences.empty()) text += "\n";
    if (!c.why_not.empty()) return text + fmt::format("Nothing can be compared: {}.\n", c.why_not);
    text +=
        fmt::format("Reference, first/second: {}; {}.\n", ratio_text(c.reference),
                    c.reference_agrees
                        ? fmt::format("it agrees within the margin of {:.2g} %", 100 * c.margin)
                        : fmt::format("it does not agree within the margin of {:.2g} %, so nothing is more "
                                      "than likely",
                                      100 * c.margin));
    text +=
        "Change: how much a rung gained on the reference from the first session to the second. The sessions "
        "are not "
        "paired; for more, run both builds in one session.\n\n";
    detail::Table table{{"rung", "verdict", "change", "first", "second"}, {}, 2};
    for (const auto& rung : c.rungs)
        table.lines.push_back({rung.id, rung.why_not.empty() ? rung.verdict : "not compared",
                               rung.why_not.empty() ? ratio_text(rung.change) : "–", time_text(rung.first_s),
                               time_text(rung.second_s)});
    text += detail::render(table, style) + "\n";
    for (const auto& rung : c.rungs)
        if (!rung.why_not.empty()) text += fmt::format("{}{}: {}\n", item, rung.id, rung.why_not);
    return text;
}

std::string to_json(const Comparison& c) {
    using Json = nlohmann::ordered_json;
    auto interval = [](const Estimate& e) -> Json {
        if (e.rounds == 0) return nullptr;
        return {{"ratio", e.ratio},
                {"low", e.bounded() ? Json(e.low) : Json(nullptr)},
                {"high", e.bounded() ? Json(e.high) : Json(nullptr)},
                {"rounds", e.rounds}};
    };
    Json json;
    json["format"] = "lightmill ladder comparison 1";
    json["first"] = c.first;
    json["second"] = c.second;
    json["comparable"] = c.why_not.empty();
    json["why_not"] = c.why_not;
    json["differences"] = c.differences;
    json["reference"] = interval(c.reference);
    json["reference_agrees"] = c.reference_agrees;
    json["margin"] = std::isfinite(c.margin) ? Json(c.margin) : Json(nullptr);
    json["claims"] = c.claims;
    json["rungs"] = Json::array();
    for (const auto& rung : c.rungs)
        json["rungs"].push_back({{"id", rung.id},
                                 {"verdict", rung.verdict},
                                 {"why_not", rung.why_not},
                                 {"change", interval(rung.change)},
                                 {"first_s", rung.first_s},
                                 {"second_s", rung.second_s}});
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lightmill::ladder

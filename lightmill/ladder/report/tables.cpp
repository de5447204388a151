// A summary as JSON and as text.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lightmill/ladder/report/analysis.hpp"
#include "lightmill/ladder/report/table_internal.hpp"

namespace lightmill::ladder {
namespace {

using Json = nlohmann::ordered_json;

Json finite(double x) {
    return std::isfinite(x) ? Json(x) : Json(nullptr);
}

Json facts_json(const std::vector<Fact>& facts) {
    Json json = Json::object();
    for (const auto& fact : facts) json[fact.name] = fact.value;
    return json;
}

Json claim_json(const Claim& claim) {
    const Estimate& e = claim.estimate;
    return {{"base", claim.base},
            {"verdict", name(claim.verdict)},
            {"why", claim.why},
            {"ratio", finite(e.ratio)},
            {"low", e.bounded() ? Json(e.low) : Json(nullptr)},
            {"high", finite(e.high)},
            {"rounds", e.rounds},
            {"lag1_autocorrelation", e.lag1},
            {"widened_for_correlation", e.widened}};
}

Json rung_json(const RungSummary& s) {
    Json json;
    json["id"] = s.rung.id;
    json["label"] = s.rung.label;
    json["status"] = s.rung.status;
    json["reason"] = s.rung.reason;
    json["before"] = s.rung.before;
    json["changes"] = s.rung.changes;
    json["compound"] = s.rung.changes.size() > 1;
    json["configuration"] = facts_json(s.rung.configuration);
    json["state"] = s.state;
    json["state_reason"] = s.state_reason;
    json["gate_distance"] = s.rung.gate_distance;
    json["processes"] = s.processes;
    json["invalid_processes"] = s.invalid_processes;
    const bool has_times = s.warm_s > 0;
    auto time = [&](double seconds) { return has_times ? Json(seconds) : Json(nullptr); };
    json["cold_s"] = time(s.cold_s);
    json["warm_s"] = s.cold_only ? Json(nullptr) : time(s.warm_s);
    json["best_s"] = time(s.best_s);
    json["spread"] = time(s.spread);
    json["cpu_s"] = time(s.cpu_s);
    json["items_per_s"] = time(s.items_per_s);
    json["cold_minor_faults"] = s.cold_faults;
    json["warm_minor_faults"] = s.warm_faults;
    json["major_faults"] = s.major_faults;
    json["fault_share"] = s.fault_share;
    json["peak_rss_bytes"] = s.peak_rss_bytes;
    json["against_reference"] = s.against_reference ? claim_json(*s.against_reference) : Json(nullptr);
    json["against_before"] = s.against_before ? claim_json(*s.against_before) : Json(nullptr);
    json["floor"] = nullptr;
    if (s.floor) {
        Json bars = Json::object();
        for (const auto& bar : s.floor->bars) bars[bar.resource] = bar.amount;
        json["floor"] = {{"seconds", s.floor->seconds},
                         {"resource", s.floor->resource},
                         {"fraction", s.floor->fraction},
                         {"error", s.floor->fraction > 1},
                         {"seconds_by_resource", bars}};
    }
    json["flags"] = s.flags;
    json["quotable"] = s.not_quotable.empty();
    json["not_quotable_because"] = s.not_quotable;
    return json;
}

std::string escaped(std::string text) {
    for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) text.insert(i, "\\");
    return text;
}

std::size_t width(const std::string& text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string detail::render(const detail::Table& table, TableStyle style) {
    std::string text;
    if (style == TableStyle::markdown) {
        auto line = [&](const std::vector<std::string>& cells) {
            text += '|';
            for (const auto& cell : cells) text += ' ' + escaped(cell) + " |";
            text += '\n';
        };
        line(table.head);
        text += '|';
        for (std::size_t i = 0; i < table.head.size(); ++i) text += i < table.left ? " --- |" : " ---: |";
        text += '\n';
        for (const auto& cells : table.lines) line(cells);
        return text;
    }
    std::vector<std::size_t> widths;
    for (const auto& cell : table.head) widths.push_back(width(cell));
    for (const auto& cells : table.lines)
        for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width(cells[i]));
    auto line = [&](const std::vector<std::string>& cells) {
        std::string out;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const std::string pad(widths[i] - width(cells[i]), ' ');
            out += (i == 0 ? "" : "  ") + (i < table.left ? cells[i] + pad : pad + cells[i]);
        }
        out.erase(out.find_last_not_of(' ') + 1);
        text += out + '\n';
    };
    line(table.head);
    for (const auto& cells : table.lines) line(cells);
    return text;
}

std::string time_text(double seconds) {
    if (!(seconds > 0)) return "–";
    struct Unit {
        double seconds;
        std::string_view name;
    };
    for (const Unit& unit : {Unit{1e-9, "ns"}, Unit{1e-6, "µs"}, Unit{1e-3, "ms"}})
        if (seconds < 999.5 * unit.seconds)
            return fmt::format("{:.3g} {}", seconds / unit.seconds, unit.name);
    return seconds < 999.5 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string percent_text(double fraction) {
    return fraction < 0.095 ? fmt::format("{:.1g} %", 100 * fraction)
                            : fmt::format("{:.0f} %", 100 * fraction);
}

std::string ratio_text(const Estimate& e) {
    if (e.rounds == 0) return "–";
    // Digits down to a thousandth of the ratio, so that an interval of a few per mille can be seen.
    const int digits = e.ratio >= 100 ? 0 : e.ratio >= 10 ? 1 : e.ratio >= 2 ? 2 : e.ratio >= 0.1 ? 3 : 4;
    if (!e.bounded()) return fmt::format("{:.{}f} [no interval]", e.ratio, digits);
    return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", e.ratio, digits, e.low, digits, e.high, digits);
}

std::string to_json(const Summary& summary) {
    const Session& session = summary.session;
    Json json;
    json["format"] = "lightmill ladder summary 1";
    json["ladder"] = session.name;
    json["subject"] = session.subject;
    json["work"] = session.work;
    json["session"] = session.id;
    json["rounds"] = summary.rounds;
    json["planned_rounds"] = session.planned_rounds;
    json["looks"] = session.looks;
    json["claims"] = summary.family.claims;
    json["alpha"] = summary.family.alpha;
    json["alpha_per_claim"] = summary.family.alpha_per_claim();
    json["delta"] = session.delta;
    json["valid"] = summary.trust.valid;
    json["same_allowed"] = summary.trust.same_allowed;
    json["margin"] = finite(summary.trust.margin);
    json["trust"] = summary.trust_text;
    json["null_arm"] = summary.has_null_arm ? claim_json(summary.null_arm) : Json(nullptr);
    json["quotable"] = summary.not_quotable.empty();
    json["not_quotable_because"] = summary.not_quotable;
    json["rungs"] = Json::array();
    for (const auto& rung : summary.rungs) json["rungs"].push_back(rung_json(rung));
    json["guards"] = Json::array();
    for (const auto& guard : summary.guards)
        json["guards"].push_back({{"what", guard.what}, {"rounds", guard.rounds}, {"rungs", guard.rungs}});
    json["slots"] = Json::array();
    for (const auto& slot : summary.slots)
        json["slots"].push_back({{"slot", slot.group}, {"turns", slot.count}, {"median_ln", slot.median}});
    json["changed_environment"] = summary.changed_environment;
    json["notes"] = summary.notes;
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_text(const Summary& summary, TableStyle style) {
    const Session& session = summary.session;
    const bool markdown = style == TableStyle::markdown;
    const std::string item = markdown ? "* " : "  ";
    std::string text = fmt::format("{}{}: {}\n\n", markdown ? "# " : "", session.name, session.subject);
    text += summary.trust_text + "\n";
    text += fmt::format(
        "{} rounds; {} {:.3g} %, so each interval holds with {:.4g} %{}.\n\n", summary.rounds,
        summary.family.claims == 1 ? std::string("one claim has")
                                   : fmt::format("{} claims share", summary.family.claims),
        100 * summary.family.alpha, 100 * (1 - summary.family.alpha_per_claim()),
        summary.family.looks > 1 ? fmt::format(" ({} looks declared)", summary.family.looks) : "");
    detail::Table table;
    table.head = {"rung", "status", "verdict", "× reference", "step",    "× before", "warm",
                  "cold", "best",   "spread",  "faults",      "% floor", "quotable"};
    table.left = 3;
    for (const auto& s : summary.rungs) {
        const bool timed = s.warm_s > 0;
        const bool is_reference = s.rung.status == "reference";
        std::string verdict = s.state == "timed" && is_reference ? "–" : s.state;
        if (s.against_reference) verdict = name(s.against_reference->verdict);
        // One claim, not two, where the rung before is the reference.
        const bool own_step =
            s.against_before && !(s.against_reference && s.against_before->base == s.against_reference->base);
        table.lines.push_back(
            {s.rung.id, s.rung.status, verdict,
             is_reference && timed ? "1"
             : s.against_reference ? ratio_text(s.against_reference->estimate)
                                   : "–",
             own_step ? std::string(name(s.against_before->verdict)) : "–",
             own_step ? ratio_text(s.against_before->estimate) : "–", s.cold_only ? "–" : time_text(s.warm_s),
             time_text(s.cold_s), time_text(s.best_s), timed ? fmt::format("{:.1f} %", 100 * s.spread) : "–",
             timed ? fmt::format("{:.0f}", s.warm_faults) : "–",
             s.floor ? percent_text(s.floor->fraction) + (s.floor->fraction > 1 ? " !" : "") : "–",
             s.state != "timed"       ? "–"
             : s.not_quotable.empty() ? "yes"
                                      : "NO"});
    }
    text += detail::render(table, style) + "\n";
    for (const auto& s : summary.rungs) {
        std::vector<std::string> lines;
        if (!s.rung.changes.empty())
            lines.push_back(fmt::format("{}after {}: {}", s.rung.changes.size() > 1 ? "compound, " : "",
                                        s.rung.before, fmt::join(s.rung.changes, "; ")));
        if (s.rung.status == "rejected")
            lines.push_back("rejected: " + (s.rung.reason.empty() ? "no reason given" : s.rung.reason));
        if (s.state != "timed") lines.push_back(s.state + ": " + s.state_reason);
        for (const auto* claim : {&s.against_reference, &s.against_before})
            if (*claim && !(*claim)->why.empty())
                lines.push_back(
                    fmt::format("{} against {}: {}", name((*claim)->verdict), (*claim)->base, (*claim)->why));
        for (const auto& flag : s.flags) lines.push_back(flag);
        for (const auto& reason : s.not_quotable)
            if (s.state == "timed") lines.push_back("not quotable: " + reason);
        // Both claims may have one cause.
        lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
        for (const auto& line : lines) text += fmt::format("{}{}: {}\n", item, s.rung.id, line);
    }
    for (const auto& note : summary.notes) text += item + note + "\n";
    for (const auto& note : session.notes) text += item + note + "\n";
    return text;
}

}  // namespace lightmill::ladder

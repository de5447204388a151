#include "lightmill/ladder/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lightmill/ladder/report/page_assets_internal.hpp"

namespace lightmill::ladder {
namespace {

std::string escape(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

// A logarithmic axis over a drawing whose width the reader's window decides: places are percentages.
class Axis {
  public:
    Axis(double low, double high)
        : low_(std::log(low)), span_(std::max(std::log(high) - std::log(low), 1e-9)) {}
    [[nodiscard]] double place(double value) const {
        return std::clamp(100 * (std::log(value) - low_) / span_, 0.0, 100.0);
    }
    // Three to seven round values, the sparsest choice that has at least three.
    [[nodiscard]] std::vector<double> ticks() const {
        const double low = std::exp(low_);
        const double high = std::exp(low_ + span_);
        std::vector<double> best;
        for (const std::vector<double>& digits :
             {std::vector<double>{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}}) {
            std::vector<double> found;
            for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10)
                for (const double digit : digits)
                    if (const double x = digit * decade; x >= low * 0.999 && x <= high * 1.001)
                        found.push_back(x);
            if (found.size() >= 3) return thinned(std::move(found));
            best = std::move(found);
        }
        for (double step : {0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001}) {
            const double unit = step * std::pow(10, std::floor(std::log10(low) + 0.3));
            std::vector<double> found;
            for (double k = std::ceil(low / unit); k * unit <= high; ++k) found.push_back(k * unit);
            if (found.size() >= 3) return thinned(std::move(found));
        }
        return best;
    }

  private:
    static std::vector<double> thinned(std::vector<double> ticks) {
        while (ticks.size() > 6) {
            std::vector<double> half;
            for (std::size_t i = 0; i < ticks.size(); i += 2) half.push_back(ticks[i]);
            ticks = std::move(half);
        }
        return ticks;
    }
    double low_;
    double span_;
};

std::string tick_labels(const Axis& axis, const std::vector<double>& ticks, bool times) {
    std::string svg = R"(<svg height="16" aria-hidden="true">)";
    for (const double tick : ticks) {
        const double x = axis.place(tick);
        svg += fmt::format(R"(<text x="{:.2f}%" y="12" text-anchor="{}">{}</text>)", x,
                           x < 4    ? "start"
                           : x > 96 ? "end"
                                    : "middle",
                           times ? time_text(tick) : fmt::format("{:.4g} ×", tick));
    }
    return svg + "</svg>";
}

std::string grid(const Axis& axis, const std::vector<double>& ticks) {
    std::string svg;
    for (const double tick : ticks)
        svg += fmt::format(R"(<line class="grid" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="100%"/>)",
                           axis.place(tick));
    return svg;
}

std::string verdict_html(Verdict verdict) {
    constexpr std::array<std::string_view, 5> k_glyphs{"▲", "▼", "=", "?", "✕"};
    return fmt::format(R"(<span class="verdict {0}">{1} {0}</span>)", name(verdict),
                       k_glyphs[static_cast<std::size_t>(verdict)]);
}

// The marker's shape repeats the verdict. Drawn about the origin of a nested svg, so that it keeps its size.
std::string marker(Verdict verdict, double x) {
    std::string_view shape;
    switch (verdict) {
        case Verdict::faster:
            shape = R"(<path class="mark" d="M0-7 7 6H-7Z"/>)";
            break;
        case Verdict::slower:
            shape = R"(<path class="mark" d="M0 7 7-6H-7Z"/>)";
            break;
        case Verdict::same:
            shape = R"(<rect class="mark" x="-5.5" y="-5.5" width="11" height="11"/>)";
            break;
        case Verdict::unresolved:
            shape = R"(<circle class="hollow" r="5.5"/>)";
            break;
        case Verdict::invalid:
            shape = R"(<path class="stroke" d="M-5-5 5 5M-5 5 5-5"/>)";
            break;
    }
    return fmt::format(R"(<svg x="{:.2f}%" y="16" width="1" height="1" overflow="visible">{}</svg>)", x,
                       shape);
}

// "16.4 k"
std::string rate_text(double rate) {
    for (const auto& [factor, letter] : {std::pair{1e9, 'G'}, {1e6, 'M'}, {1e3, 'k'}})
        if (rate >= factor) return fmt::format("{:.3g} {}", rate / factor, letter);
    return fmt::format("{:.3g}", rate);
}

bool is_shown(const RungSummary& s) {
    return s.warm_s > 0;
}

class Page {
  public:
    explicit Page(const Summary& summary) : s_(summary) {}

    std::string run() {
        head();
        table();
        claims("Against the reference",
               "How many times as fast as the reference each rung is, with the interval of the median.",
               false);
        claims("Step by step", "Each rung against the one before it: what the step itself brought.", true);
        bars();
        strips();
        left_out();
        guards();
        environment();
        how_to_read();
        out_ += "</main>\n<script>" + std::string(detail::page_script()) + "</script>\n</body>\n</html>\n";
        return std::move(out_);
    }

  private:
    template <class... Args>
    void put(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    }

    void tile(std::string_view kind, const std::string& title, const std::string& text) {
        put("<div class=\"tile {}\"><b>{}</b><span>{}</span></div>\n", kind, escape(title), escape(text));
    }

    void head() {
        const Session& session = s_.session;
        out_ +=
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
            "'unsafe-inline'; "
            "script-src 'unsafe-inline'\">\n";
        put("<title>{} – ladder</title>\n<style>\n", escape(session.name));
        out_ += detail::page_style();
        put("</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n<p class=\"lead\">Subject <b>{}</b>{}{}</p>\n",
            escape(session.name), escape(session.subject),
            session.work.empty() ? "" : ": " + escape(session.work),
            session.environment_before.empty()
                ? ""
                : fmt::format("<br>{}, {}", escape(value(session.environment_before, "cpu")),
                              escape(value(session.environment_before, "time"))));
        out_ += "<div class=\"tiles\">\n";
        const std::string& trust = s_.trust_text;
        const auto colon = trust.find(':');
        tile(!s_.trust.valid         ? "bad"
             : s_.trust.same_allowed ? "good"
                                     : "warn",
             !s_.trust.valid                  ? "Session INVALID"
             : s_.trust.same_allowed          ? "Session valid"
             : s_.null_arm.estimate.bounded() ? "Valid, but noisy"
                                              : "Too few rounds",
             colon == std::string::npos ? trust : capital(trust.substr(colon + 2)));
        const RungSummary* best = nullptr;
        int quotable = 0;
        int timed = 0;
        for (const auto& rung : s_.rungs) {
            if (rung.state != "timed") continue;
            ++timed;
            if (rung.not_quotable.empty()) ++quotable;
            if (rung.rung.status == "adopted" && rung.against_reference &&
                (best == nullptr || rung.warm_s < best->warm_s))
                best = &rung;
        }
        if (best != nullptr) {
            const Claim& claim = *best->against_reference;
            tile(claim.verdict == Verdict::faster && best->not_quotable.empty() ? "good" : "warn",
                 fmt::format("{}: {} ×", best->rung.id, ratio_text(claim.estimate)),
                 fmt::format("fastest adopted rung against {}, {}{}", claim.base, name(claim.verdict),
                             best->not_quotable.empty() ? "" : ", not quotable"));
        }
        tile("", fmt::format("{} rounds", s_.rounds),
             fmt::format("{} {:.3g} %{}, so each interval is meant to hold with {:.2f} %",
                         s_.family.claims == 1 ? std::string("one claim has")
                                               : fmt::format("{} claims share", s_.family.claims),
                         100 * s_.family.alpha,
                         s_.family.looks > 1 ? fmt::format(" over {} declared looks", s_.family.looks) : "",
                         100 * (1 - s_.family.alpha_per_claim())));
        tile(quotable == timed ? "good" : "warn",
             fmt::format("{} of {} timed rungs quotable", quotable, timed),
             quotable == timed ? "no guard fired" : "the reasons stand in the table and below");
        out_ += "</div>\n";
        for (const auto& list : {s_.notes, session.notes})
            for (const auto& note : list) put("<p class=\"soft\">Note: {}</p>\n", escape(note));
    }

    static std::string capital(std::string text) {
        if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
        return text;
    }

    // value: what the column sorts by; empty for none.
    void cell(std::string_view label, const std::string& value, const std::string& html,
              std::string_view kind = {}) {
        put("<td data-label=\"{}\" data-v=\"{}\" class=\"{}{}\">{}</td>", label, escape(value), kind,
            html == "–" ? " none" : "", html);
    }

    static std::string claim_html(const std::optional<Claim>& claim) {
        if (!claim) return "–";
        return fmt::format("{}<br>{}", ratio_text(claim->estimate), verdict_html(claim->verdict));
    }

    void table() {
        out_ += R"(<h2>Rungs</h2>
<p>Times are medians over fresh processes, one a rung and round. Warm: the median of the repetitions after the
first; cold: the first; spread: warm over best; CPU: user and system, peak memory below.
Every rung tried stays here.</p>
<div class="scroll"><table class="rungs">
<thead><tr><th class="text">Rung</th><th>× reference</th><th>× rung before</th><th>Warm</th><th>Best</th><th>CPU</th>
<th>Faults</th><th>% of floor</th><th class="text">Quotable</th></tr></thead>
<tbody>
)";
        for (const auto& s : s_.rungs) row(s);
        out_ += "</tbody>\n</table></div>\n";
    }

    void row(const RungSummary& s) {
        const bool timed = is_shown(s);
        put("<tr class=\"{}\">", s.rung.status == "rejected" ? "rejected" : timed ? "" : "absent");
        std::string first = fmt::format("<b>{}</b> <span class=\"status\">{}</span>", escape(s.rung.id),
                                        escape(s.rung.status));
        if (!s.rung.label.empty()) first += "<br>" + escape(s.rung.label);
        std::string changes;
        if (!s.rung.changes.empty())
            changes = fmt::format("<br><span class=\"soft\">{}after {}: <code>{}</code></span>",
                                  s.rung.changes.size() > 1 ? "compound, " : "", escape(s.rung.before),
                                  escape(fmt::format("{}", fmt::join(s.rung.changes, "; "))));
        cell("Rung", s.rung.id, timed ? first + changes : first, "text");
        if (!timed) {
            // One cell in place of eight empty ones.
            put("<td colspan=\"8\" data-label=\"\" data-v=\"\" class=\"text\"><span class=\"verdict "
                "{}\">{}{}</span>: {}{}</td></tr>\n",
                s.state == "not run" ? "SAME" : "INVALID", s.state == "not run" ? "" : "✕ ", escape(s.state),
                escape(s.state_reason), changes);
            return;
        }
        const bool is_reference = s.rung.status == "reference";
        const auto sort_ratio = [](const std::optional<Claim>& claim) {
            return claim && claim->estimate.rounds > 0 ? fmt::format("{}", claim->estimate.ratio)
                                                       : std::string();
        };
        cell("× reference", is_reference ? "1" : sort_ratio(s.against_reference),
             is_reference ? "1" : claim_html(s.against_reference), "ratio");
        const bool own_step =
            s.against_before && !(s.against_reference && s.against_before->base == s.against_reference->base);
        cell("× rung before", sort_ratio(s.against_before),
             own_step           ? claim_html(s.against_before)
             : s.against_before ? std::string("<span class=\"soft\">the reference</span>")
                                : std::string("–"),
             "ratio");
        auto number = [&](std::string_view label, double value, const std::string& text) {
            cell(label, fmt::format("{}", value), text);
        };
        number("Warm", s.warm_s,
               fmt::format("{}<br><span class=\"soft\">cold {}</span>",
                           s.cold_only ? "none" : time_text(s.warm_s), time_text(s.cold_s)));
        number("Best", s.best_s,
               fmt::format("{}<br><span class=\"soft\">spread {:.1f} %</span>", time_text(s.best_s),
                           100 * s.spread));
        number("CPU", s.cpu_s,
               fmt::format("{}<br><span class=\"soft\">{:.0f} MiB</span>", time_text(s.cpu_s),
                           static_cast<double>(s.peak_rss_bytes) / (1 << 20)));
        number(
            "Faults", s.warm_faults,
            fmt::format("{:.0f}<br><span class=\"soft\">cold {:.0f}</span>", s.warm_faults, s.cold_faults));
        if (s.floor) {
            cell("% of floor", fmt::format("{}", s.floor->fraction),
                 fmt::format(
                     "{}<br>{}", percent_text(s.floor->fraction),
                     s.floor->fraction > 1
                         ? std::string("<span class=\"verdict INVALID\">✕ ERROR</span>")
                         : fmt::format("<span class=\"soft\">{}</span>", escape(spaced(s.floor->resource)))));
        } else {
            cell("% of floor", "", "–");
        }
        std::string quotable;
        if (s.state != "timed") {
            quotable =
                fmt::format("<span class=\"verdict INVALID\">✕ {}</span><br><span class=\"soft\">{}</span>",
                            escape(s.state), escape(s.state_reason));
        } else if (s.not_quotable.empty()) {
            quotable = "yes";
        } else {
            quotable = "<span class=\"verdict SLOWER\">no</span>";
            for (const auto& reason : s.not_quotable)
                quotable += "<br><span class=\"soft\">" + escape(reason) + "</span>";
        }
        cell("Quotable",
             s.state != "timed"       ? "2"
             : s.not_quotable.empty() ? "0"
                                      : "1",
             quotable, quotable == "yes" ? "text" : "text why");
        out_ += "</tr>\n";
    }

    // Intervals on a common logarithmic axis, the margin shaded about 1.
    void claims(const std::string& title, const std::string& text, bool before) {
        std::vector<std::pair<const RungSummary*, const Claim*>> shown;
        for (const auto& s : s_.rungs) {
            const auto& claim = before ? s.against_before : s.against_reference;
            if (claim && claim->estimate.rounds > 0) shown.emplace_back(&s, &*claim);
        }
        if (shown.empty()) return;
        double low = 1;
        double high = 1;
        auto widen = [&](const Estimate& e) {
            low = std::min({low, e.ratio, e.bounded() ? e.low : e.ratio});
            high = std::max({high, e.ratio, e.bounded() ? e.high : e.ratio});
        };
        for (const auto& [s, claim] : shown) widen(claim->estimate);
        if (s_.has_null_arm && s_.null_arm.estimate.rounds > 0) widen(s_.null_arm.estimate);
        const double room = std::max(std::pow(high / low, 0.06), 1.01);
        const Axis axis(low / room, high * room);
        const auto ticks = axis.ticks();
        put("<h2>{}</h2>\n<p>{} Shaded: differences too small to be claimed in this session. "
            "Logarithmic.</p>\n"
            "<div class=\"plot\">\n",
            title, text);
        if (s_.has_null_arm && s_.null_arm.estimate.rounds > 0)
            interval_line(axis, ticks, "null arm", "<span class=\"soft\">reference twice</span>",
                          s_.null_arm);
        for (const auto& [s, claim] : shown)
            interval_line(axis, ticks, s->rung.id,
                          before ? fmt::format("<span class=\"soft\">after {}</span>", escape(claim->base))
                                 : std::string(),
                          *claim);
        put("<div class=\"line axis\"><span></span>{}<span></span></div>\n</div>\n",
            tick_labels(axis, ticks, false));
    }

    void interval_line(const Axis& axis, const std::vector<double>& ticks, const std::string& id,
                       const std::string& under, const Claim& claim) {
        const Estimate& e = claim.estimate;
        put("<div class=\"line\"><span><b>{}</b>{}</span><svg height=\"32\" class=\"{}\" "
            "role=\"img\"><title>{}: {}, {} rounds"
            "</title>",
            escape(id), under.empty() ? "" : "<br>" + under, name(claim.verdict), escape(id), ratio_text(e),
            e.rounds);
        if (std::isfinite(s_.trust.margin)) {
            const double from = axis.place(1 / (1 + s_.trust.margin));
            put(R"(<rect class="band" x="{:.2f}%" width="{:.2f}%" y="0" height="100%"/>)", from,
                axis.place(1 + s_.trust.margin) - from);
        }
        out_ += grid(axis, ticks);
        put(R"(<line class="one" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="100%"/>)", axis.place(1));
        if (e.bounded())
            put(R"(<line class="stroke" x1="{:.2f}%" x2="{:.2f}%" y1="16" y2="16"/>)", axis.place(e.low),
                axis.place(e.high));
        put("{}</svg><span class=\"number\">{}<br>{}</span></div>\n",
            marker(claim.verdict, axis.place(e.ratio)), ratio_text(e), verdict_html(claim.verdict));
    }

    void bars() {
        double low = std::numeric_limits<double>::infinity();
        double high = 0;
        bool floors = false;
        for (const auto& s : s_.rungs) {
            if (!is_shown(s)) continue;
            low = std::min({low, s.best_s, s.floor ? s.floor->seconds : s.best_s});
            high = std::max({high, s.warm_s, s.cold_s, s.floor ? s.floor->seconds : 0});
            floors = floors || s.floor;
        }
        if (!(high > 0)) return;
        const Axis axis(low / 1.6, high * 1.1);
        const auto ticks = axis.ticks();
        put("<h2>Time{}</h2>\n<p>Bar: warm median. Ring: cold median. {} Logarithmic, shorter is "
            "faster.</p>\n<div class=\"plot\">\n",
            floors ? " against the floor" : "",
            floors
                ? "Thick line: the floor, what this machine's measured ceilings allow for the declared work; "
                  "its share of the warm time stands at the right."
                : "No rung declares work that the probe has ceilings for, so there is no floor.");
        for (const auto& s : s_.rungs) {
            if (!is_shown(s)) continue;
            std::string text = time_text(s.warm_s);
            if (s.items_per_s > 0) text += fmt::format(", {} items/s", rate_text(s.items_per_s));
            std::string under;
            if (s.floor) {
                under =
                    s.floor->fraction > 1
                        ? fmt::format("<span class=\"verdict INVALID\">✕ {:.0f} % of the floor: error</span>",
                                      100 * s.floor->fraction)
                        : fmt::format("<span class=\"soft\">{} of {}, {}</span>",
                                      percent_text(s.floor->fraction), time_text(s.floor->seconds),
                                      escape(spaced(s.floor->resource)));
            }
            put("<div class=\"line\"><span><b>{}</b></span><svg height=\"32\" role=\"img\"><title>{}: warm "
                "{}, cold {}, best {}</title>{}",
                escape(s.rung.id), escape(s.rung.id), time_text(s.warm_s), time_text(s.cold_s),
                time_text(s.best_s), grid(axis, ticks));
            put(R"(<rect class="bar{}" x="0" y="8" height="16" width="{:.2f}%"/>)",
                s.rung.status == "rejected" || s.state != "timed" ? " off" : "", axis.place(s.warm_s));
            put(R"(<circle class="c" cx="{:.2f}%" cy="16" r="4.5"/>)", axis.place(s.cold_s));
            if (s.floor)
                put(R"(<line class="floor" x1="{0:.2f}%" x2="{0:.2f}%" y1="3" y2="29"/>)",
                    axis.place(s.floor->seconds));
            put("</svg><span class=\"number\">{}{}</span></div>\n", text,
                under.empty() ? "" : "<br>" + under);
        }
        put("<div class=\"line axis\"><span></span>{}<span></span></div>\n</div>\n",
            tick_labels(axis, ticks, true));
    }

    void strips() {
        const bool any = std::any_of(s_.rungs.begin(), s_.rungs.end(),
                                     [](const RungSummary& s) { return !s.rows.empty(); });
        if (!any) return;
        out_ += R"(<h2>Every repetition</h2>
<p>Left to right: the rounds of the session. Cold repetitions above, warm ones below, each on a logarithmic
scale of its own from the fastest to the slowest.</p>
<p><span class="key"><svg><circle class="w" cx="50%" cy="50%" r="4"/></svg>warm</span>
<span class="key"><svg><circle class="c" cx="50%" cy="50%" r="4"/></svg>cold</span>
<span class="key"><svg><path class="n" d="M9 4 14 9 9 14 4 9Z"/></svg>a guard fired</span>
<span class="key"><svg><path class="x" d="M4 4 14 14M4 14 14 4"/></svg>invalid, not counted</span>
<span class="key"><svg><line class="median" x1="0" x2="100%" y1="50%" y2="50%"/></svg>warm median</span></p>
<div class="plot strip">
)";
        for (const auto& s : s_.rungs) {
            if (!s.rows.empty()) strip(s);
            if (s.rung.status == "reference" && !s_.null_rung.rows.empty()) strip(s_.null_rung);
        }
        out_ += "</div>\n";
    }

    // Two lanes, each with a scale of its own: a cold repetition may take many times as long as a warm one.
    struct Lane {
        double top;
        double height;
        double low = std::numeric_limits<double>::infinity();
        double high = 0;

        void add(double seconds) {
            if (!(seconds > 0)) return;
            low = std::min(low, seconds);
            high = std::max(high, seconds);
        }
        [[nodiscard]] double y(double seconds) const {
            if (!(seconds > 0)) return top + height / 2;
            return top + height * (1 - Axis(low / 1.0001, high * 1.0001).place(seconds) / 100);
        }
        [[nodiscard]] std::string text() const {
            return fmt::format("{} to {}", time_text(low), time_text(high));
        }
    };

    void strip(const RungSummary& s) {
        Lane cold{8, 22};
        Lane warm{44, 54};
        int rounds = 1;
        int repetitions = 1;
        for (const auto& row : s.rows) {
            rounds = std::max(rounds, row.round + 1);
            repetitions = std::max(repetitions, row.repetition + 1);
            (row.repetition == 0 ? cold : warm).add(row.wall_s);
        }
        const bool has_warm = warm.high > 0;
        put(R"(<div class="line"><span><b>{0}</b></span><svg height="{1}" role="img"><title>Every repetition of {0}</title>)",
            escape(s.rung.id), has_warm ? 106 : 38);
        if (has_warm) out_ += R"(<line class="grid" x1="0" x2="100%" y1="37" y2="37"/>)";
        if (is_shown(s) && !s.cold_only)
            put(R"(<line class="median" x1="0" x2="100%" y1="{0:.1f}" y2="{0:.1f}"/>)", warm.y(s.warm_s));
        for (const auto& row : s.rows) {
            const bool is_cold = row.repetition == 0;
            const double x = 100.0 * (row.round + 0.15 + 0.7 * (row.repetition + 0.5) / repetitions) / rounds;
            const double y = (is_cold ? cold : warm).y(row.wall_s);
            const std::string what = escape(fmt::format(
                "round {}, repetition {}: {}{}{}{}", row.round + 1, row.repetition, time_text(row.wall_s),
                is_cold ? ", cold" : "", row.invalid.empty() ? "" : ", invalid: " + row.invalid,
                row.not_quotable.empty() ? "" : ", not quotable: " + row.not_quotable[0]));
            if (!row.invalid.empty() || !row.not_quotable.empty()) {
                put(R"(<svg x="{:.2f}%" y="{:.1f}" width="1" height="1" overflow="visible"><path class="{}"/><title>{}</title></svg>)",
                    x, y,
                    row.invalid.empty() ? R"(n" d="M0-4.5 4.5 0 0 4.5-4.5 0Z)"
                                        : R"(x" d="M-4-4 4 4M-4 4 4-4)",
                    what);
            } else {
                put(R"(<circle class="{}" cx="{:.2f}%" cy="{:.1f}" r="{}"><title>{}</title></circle>)",
                    !row.not_quotable.empty() ? "n"
                    : is_cold                 ? "c"
                                              : "w",
                    x, y, is_cold ? "3" : "2.4", what);
            }
        }
        put("</svg><span class=\"number\">{}{}<br><span class=\"soft\">{} processes{}</span></span></div>\n",
            cold.high > 0 ? "cold " + cold.text() : "", has_warm ? "<br>warm " + warm.text() : "",
            s.processes, s.invalid_processes > 0 ? fmt::format(", {} invalid", s.invalid_processes) : "");
    }

    void left_out() {
        // What many share is said once.
        std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
        auto add = [&](const std::string& reason, const std::string& id) {
            const auto known = std::find_if(reasons.begin(), reasons.end(),
                                            [&](const auto& entry) { return entry.first == reason; });
            (known == reasons.end() ? reasons.emplace_back(reason, std::vector<std::string>{}) : *known)
                .second.push_back("<b>" + escape(id) + "</b>");
        };
        for (const auto& s : s_.rungs) {
            if (s.rung.status == "rejected")
                add("rejected: " +
                        (s.rung.reason.empty() ? "no reason is given in the ladder" : s.rung.reason),
                    s.rung.id);
            if (s.state != "timed") add(s.state + ": " + s.state_reason, s.rung.id);
        }
        std::string items;
        for (const auto& [reason, ids] : reasons)
            items += fmt::format("<li>{}, {}</li>\n", fmt::join(ids, ", "), escape(reason));
        if (!items.empty())
            put("<h2>What was rejected, failed or not run, and why</h2>\n<ul>\n{}</ul>\n", items);
    }

    void guards() {
        out_ += "<h2>Guards and flags</h2>\n";
        std::string items;
        for (const auto& guard : s_.guards)
            items += fmt::format("<li>{}: in {} round{}, rungs {}</li>\n", escape(guard.what), guard.rounds,
                                 guard.rounds == 1 ? "" : "s",
                                 escape(fmt::format("{}", fmt::join(guard.rungs, ", "))));
        for (const auto& reason : s_.not_quotable)
            items += "<li>whole session: " + escape(reason) + "</li>\n";
        for (const auto& s : s_.rungs) {
            for (const auto& flag : s.flags)
                items += fmt::format("<li><b>{}</b>: {}</li>\n", escape(s.rung.id), escape(flag));
            for (const auto& claim : {s.against_reference, s.against_before})
                if (claim && !claim->why.empty() && s.state == "timed")
                    items += fmt::format("<li><b>{}</b> against {}: {}, {}</li>\n", escape(s.rung.id),
                                         escape(claim->base), name(claim->verdict), escape(claim->why));
        }
        if (items.empty()) {
            out_ += "<p>None fired.</p>\n";
        } else {
            put("<p>Rows that a guard marks are kept, and cannot be quoted.</p>\n<ul>\n{}</ul>\n", items);
        }
    }

    void facts(const std::string& title, const std::vector<Fact>& list) {
        if (list.empty()) return;
        put("<h2>{}</h2>\n<dl class=\"facts\">\n", title);
        for (const auto& fact : list)
            put("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(spaced(fact.name)), fact_html(fact.value));
        out_ += "</dl>\n";
    }
    // Hashes by their beginning; the whole one under the mouse.
    static std::string fact_html(const std::string& value) {
        const bool hash =
            value.size() == 64 && value.find_first_not_of("0123456789abcdef") == std::string::npos;
        return hash ? fmt::format("<span title=\"{}\">{}…</span>", value, value.substr(0, 16))
                    : escape(value);
    }
    static std::string spaced(std::string name) {
        std::replace(name.begin(), name.end(), '_', ' ');
        return name;
    }

    void environment() {
        const Session& session = s_.session;
        facts("Environment", session.environment_before);
        for (const auto& change : s_.changed_environment)
            put("<p>Changed by the end: {}</p>\n", escape(change));
        if (session.environment_after.empty() && !session.environment_before.empty())
            out_ += "<p class=\"soft\">The session was interrupted: nothing was recorded at its end.</p>\n";
        facts("Policy", session.policy);
        if (!session.probe) return;
        std::vector<Fact> ceilings;
        for (const auto resource : resources()) {
            const double rate = ceiling(*session.probe, resource);
            if (rate > 0)
                ceilings.push_back(
                    {std::string(resource),
                     fmt::format("{:.4g} G{}/s", rate / 1e9, resource.substr(0, 3) == "fma" ? "op" : "B")});
        }
        ceilings.push_back({"page_fault", time_text(session.probe->page_fault_s)});
        for (const auto& cost : session.probe->costs) {
            std::string time = time_text(cost.seconds);
            if (const auto blank = time.find(' '); blank != std::string::npos)
                time.replace(blank, 1, "\u00a0");  // what it is may take two lines, the number not
            ceilings.push_back({cost.what, time});
        }
        ceilings.push_back({"gpu", session.probe->gpu});
        facts("Ceilings of this machine", ceilings);
        for (const auto& note : session.probe->notes) put("<p class=\"soft\">Probe: {}</p>\n", escape(note));
    }

    void how_to_read() {
        put("<h2>How to read this</h2>\n<ul>\n"
            "<li>In every round each rung runs once, in a fresh process, one at a time, in a random order "
            "and then its mirror. A "
            "ratio is taken inside a round and the median of the ratios is quoted, with the exact interval "
            "of a median from "
            "order statistics; it needs no assumption about the shape of the noise.</li>\n"
            "<li>{} or {}: the interval excludes 1 and the median lies beyond the margin. {}: the whole "
            "interval lies inside the "
            "margin. {}: neither; nothing is claimed. {}: the rung or the session is not to be "
            "trusted.</li>\n"
            "<li>The null arm is the reference under a second name. What it shows is what this session calls "
            "a difference by "
            "chance: its half width is the smallest margin, and if its interval excludes 1 nothing here "
            "counts.</li>\n"
            "<li>Quotable: gate passed before and after timing, no guard fired in any of its rounds, and the "
            "session ended where it "
            "was declared to.</li>\n</ul>\n",
            verdict_html(Verdict::faster), verdict_html(Verdict::slower), verdict_html(Verdict::same),
            verdict_html(Verdict::unresolved), verdict_html(Verdict::invalid));
        put("<p class=\"soft\">Session <code>{}</code>. Beside this file: rows.csv holds every repetition, "
            "summary.json these numbers.</p>\n",
            escape(s_.session.id));
    }

    const Summary& s_;
    std::string out_;
};

}  // namespace

std::string to_html(const Summary& summary) {
    return Page(summary).run();
}

}  // namespace lightmill::ladder

#include "lightmill/ladder/report/page.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <string>

#include "lightmill/base/file.hpp"
#include "tests/ladder/synthetic_session.hpp"

namespace lightmill::ladder {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::Synthetic;

// Everything a page can hold: floors right and wrong, guards, dropped rows, failures, rejections, bad names.
Synthetic full_session() {
    Synthetic s = Synthetic::ladder();
    s.session.environment_before = environment();
    s.session.environment_after = s.session.environment_before;
    s.add("wrong", "candidate", "bands").gate_failure = "first difference at byte 12: 7, expected 8";
    s.add("opt4", "adopted", "bands").not_run = "no CUDA device here";
    s.rung("simd").label = "<script>alert('label')</script> & \"quotes\"";
    Probe probe;
    probe.ceilings = {{"memory_read", 2, 50e9, 45e9, 9, ""}};
    probe.clock_resolution_s = 2e-8;
    probe.gpu = "no GPU here";
    s.session.probe = probe;
    s.rung("simd").work = {{"memory_read", 0.2e9}};
    s.rung("bands").work = {{"memory_read", 0.9e9}};
    for (auto& row : s.session.rows) {
        if (row.rung == "simd" && row.round == 5) row.invalid = "CRASH";
        if (row.rung == "cpu" && row.round == 9) row.not_quotable = {"2 other threads were running"};
    }
    return s;
}

int count(const std::string& text, const std::string& what) {
    int n = 0;
    for (std::size_t i = 0; (i = text.find(what, i)) != std::string::npos; i += what.size()) ++n;
    return n;
}

TEST(Page, FetchesNothing) {
    const std::string html = to_html(analyse(full_session().session));
    for (auto pattern : {"http://", "https://", " src=", "@import", "url(", "<link"})
        EXPECT_THAT(html, Not(HasSubstr(pattern)));
    EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST(Page, ShowsEveryRungEveryRepetitionAndWhy) {
    const Summary summary = analyse(full_session().session);
    const std::string html = to_html(summary);
    for (const auto& rung : summary.rungs) EXPECT_THAT(html, HasSubstr("<b>" + rung.rung.id + "</b>"));
    std::size_t rows = 0;
    for (const auto& rung : summary.rungs) rows += rung.rows.size();
    EXPECT_EQ(rows, 4u * 24 * 4);  // 4 timed rungs × 24 rounds × 4 repetitions
    EXPECT_EQ(summary.null_rung.rows.size(), 24u * 4);
    EXPECT_EQ(count(html, "<title>round "), static_cast<int>(rows + summary.null_rung.rows.size()));
    EXPECT_EQ(count(html, "invalid: CRASH</title>"), 4);
    for (auto text :
         {"the same time, one option more", "first difference at byte 12: 7, expected 8",
          "no CUDA device here", "2 other threads were running", "of the floor: error", "Session valid",
          "24 rounds", "7 claims", "null arm", "FASTER", "cache level 3", "no GPU here"})
        EXPECT_THAT(html, HasSubstr(text));
}

TEST(Page, EscapesWhatLaddersSay) {
    const std::string html = to_html(analyse(full_session().session));
    EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
    EXPECT_THAT(html,
                HasSubstr("&lt;script&gt;alert(&#39;label&#39;)&lt;/script&gt; &amp; &quot;quotes&quot;"));
}

TEST(Page, InvalidAndEmptySessionsHaveAPageToo) {
    Synthetic s = Synthetic::ladder();
    for (auto& row : s.session.rows)
        if (row.rung == "null") row.wall_s *= 1.05;
    EXPECT_THAT(to_html(analyse(s.session)), HasSubstr("Session INVALID"));
    s.session.rows.clear();
    EXPECT_THAT(to_html(analyse(s.session)), HasSubstr("No null arm"));
}

TEST(Page, NumbersAreNeverNotANumber) {
    for (const auto& session : {full_session().session, Session{}, [] {
                                    auto s = Synthetic::ladder();
                                    for (auto& row : s.session.rows) row.wall_s = 0;
                                    return s.session;
                                }()}) {
        const std::string html = to_html(analyse(session));
        EXPECT_FALSE(std::regex_search(html, std::regex("\"-?(nan|inf)[%\"]")));
        EXPECT_FALSE(std::regex_search(html, std::regex("[> ]-?(nan|inf)[< ]")));
    }
}

// ---- in a browser ------------------------------------------------------------------------------

std::string output_of(const std::string& command) {
    std::string text;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return text;
    std::array<char, 4096> part{};
    for (std::size_t n = 0; (n = fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), n);
    pclose(pipe);
    return text;
}

std::string browser() {
    std::string path =
        output_of("command -v chromium || command -v chromium-browser || command -v google-chrome");
    path.erase(path.find_last_not_of('\n') + 1);
    return path;
}

struct Folder {
    std::filesystem::path path;
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "lightmill_page_XXXXXX").string();
        path = mkdtemp(name.data());
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};

TEST(Page, OpensInABrowserAtTwoWidthsWithoutSidewaysScrolling) {
    const std::string program = browser();
    if (program.empty()) GTEST_SKIP() << "no Chromium in PATH: the page was not opened in a browser";
    const Folder folder;
    // The copy says of itself what it looks like once its own script has run.
    std::string html = to_html(analyse(full_session().session));
    const std::string probe = R"(<script>
document.querySelectorAll('table.rungs th button')[1].click();
document.documentElement.dataset.measured = [document.documentElement.scrollWidth <= innerWidth,
  document.querySelectorAll('table.rungs th button').length, document.querySelector('.rungs tbody b').textContent,
  [...document.querySelectorAll('svg')].every((s) => s.getBoundingClientRect().width > 0 || s.closest('.axis'))].join(' ');
</script></body>)";
    html.replace(html.rfind("</body>"), 7, probe);
    const std::string file = (folder.path / "report.html").string();
    write_file(file, html);
    for (int width : {1280, 500}) {
        const std::string image = (folder.path / fmt::format("{}.png", width)).string();
        const std::string command = fmt::format(
            "timeout 60 {} --headless --no-sandbox --disable-gpu --hide-scrollbars "
            "--user-data-dir={}/profile "
            "--window-size={},1600 ",
            program, folder.path.string(), width);
        const std::string dom = output_of(fmt::format("{}--dump-dom file://{} 2>/dev/null", command, file));
        // Sorted by the ratio, the reference comes first (1), and what has none last.
        EXPECT_THAT(dom, HasSubstr("data-measured=\"true 9 cpu true\"")) << width << dom.substr(0, 300);
        output_of(fmt::format("{}--screenshot={} file://{} 2>/dev/null", command, image, file));
        ASSERT_TRUE(std::filesystem::exists(image)) << width;
        EXPECT_GT(std::filesystem::file_size(image), 40'000u) << width;  // an empty page has 5 kB
    }
}

}  // namespace
}  // namespace lightmill::ladder

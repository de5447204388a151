#include "lightmill/ladder/report/directory.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/hash.hpp"
#include "tests/ladder/synthetic_session.hpp"

namespace lightmill::ladder {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::Synthetic;

class Directory : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "lightmill_session_XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    void TearDown() override { std::filesystem::remove_all(path_); }

    [[nodiscard]] std::string in(const std::string& name) const { return path_ + "/" + name; }

    // As a runner writes them: one column more than the analysis knows, another order, quotes where needed.
    static std::string csv(const Session& session) {
        std::string text =
            "round,slot,rung,repetition,checksum,wall_s,user_s,system_s,minor_faults,major_faults,"
            "voluntary_switches,involuntary_switches,peak_rss_bytes,items,invalid,not_quotable\n";
        for (const auto& row : session.rows)
            text +=
                fmt::format("{},{},{},{},abc,{},{},{},{},{},{},{},{},{},{},\"{}\"\n", row.round, row.slot,
                            row.rung, row.repetition, row.wall_s, row.user_s, row.system_s, row.minor_faults,
                            row.major_faults, row.voluntary_switches, row.involuntary_switches,
                            row.peak_rss_bytes, row.items, row.invalid, fmt::join(row.not_quotable, "; "));
        return text;
    }
    void write(const Session& session) const {
        write_session(path_, session);
        write_file(in("rows.csv"), csv(session));
    }
    std::string error() const {
        try {
            static_cast<void>(read_session(path_));
        } catch (const FormatError& e) {
            return e.file() + ": " + e.what();
        }
        return "accepted";
    }

    std::string path_;
};

Synthetic sample() {
    Synthetic s = Synthetic::ladder();
    s.rung("simd").work = {{"memory_read", 1e6}};
    s.rung("bands").not_quotable = {"not swept"};
    s.rung("bands").configuration = {{"threads", "2"}};
    s.session.rows[3].not_quotable = {"busy: 3, 4 threads", "throttled"};
    s.session.rows[4].invalid = "CRASH";
    Probe probe;
    probe.ceilings = {{"memory_read", 2, 50e9, 45e9, 9, "how"}};
    s.session.probe = probe;
    return s;
}

TEST_F(Directory, ReadsBackWhatWasWritten) {
    const Session written = sample().session;
    write(written);
    const Session read = read_session(path_);
    EXPECT_EQ(read.name, written.name);
    EXPECT_EQ(read.looks, written.looks);
    EXPECT_EQ(read.environment_after, written.environment_after);
    ASSERT_EQ(read.rungs.size(), written.rungs.size());
    EXPECT_EQ(read.rungs[2].work[0].resource, "memory_read");
    EXPECT_EQ(read.rungs[2].changes, written.rungs[2].changes);
    EXPECT_EQ(read.rungs[3].configuration, written.rungs[3].configuration);
    ASSERT_EQ(read.rows.size(), written.rows.size());
    EXPECT_EQ(read.rows[7].wall_s, written.rows[7].wall_s);
    EXPECT_THAT(read.rows[3].not_quotable, ElementsAre("busy: 3, 4 threads", "throttled"));
    EXPECT_EQ(read.rows[4].invalid, "CRASH");
    ASSERT_TRUE(read.probe);
    // One answer, whichever way the session came.
    EXPECT_EQ(to_json(analyse(read)), to_json(analyse(written)));
}

TEST_F(Directory, ReportWritesEveryFileAndTheirHashes) {
    write(sample().session);
    const Summary summary = write_report(path_);
    EXPECT_TRUE(summary.trust.valid);
    const auto manifest = nlohmann::json::parse(read_file(in("manifest.json")));
    for (auto name : {"session.json", "rows.csv", "env.json", "probe.json", "summary.json", "summary.md",
                      "report.html"}) {
        ASSERT_TRUE(std::filesystem::exists(in(name))) << name;
        EXPECT_EQ(manifest["sha256"][name], sha256_file(in(name))) << name;
    }
    EXPECT_EQ(manifest["sha256"].size(), 7u);
    const std::string first = read_file(in("summary.json"));
    write_report(path_);  // again, over what is there
    EXPECT_EQ(read_file(in("summary.json")), first);
}

TEST_F(Directory, KilledWhileWritingARow) {
    const Session session = sample().session;
    write(session);
    std::string text = read_file(in("rows.csv"));
    write_file(in("rows.csv"), text.substr(0, text.size() - 9));
    const Session read = read_session(path_);
    EXPECT_EQ(read.rows.size(), session.rows.size() - 1);
    EXPECT_THAT(read.notes, Contains(HasSubstr("not whole")));
    for (auto rows : {std::string(), text.substr(0, text.find('\n') + 1), text.substr(0, 20)}) {
        write_file(in("rows.csv"), rows);
        EXPECT_TRUE(read_session(path_).rows.empty());
        EXPECT_FALSE(write_report(path_).trust.valid);
    }
}

TEST_F(Directory, BadFilesAreRefusedWithTheirNameAndWhatIsWrong) {
    const Session session = sample().session;
    const std::string head = csv(session).substr(0, csv(session).find('\n') + 1);
    write(session);
    auto rows = [&](const std::string& lines) {
        write_file(in("rows.csv"), head + lines);
        return error();
    };
    EXPECT_THAT(rows("0,0,cpu,0\n"), HasSubstr("a row has 4 fields, the head has 16"));
    EXPECT_THAT(rows("0,0,gpu,0,x,1,1,1,1,1,1,1,1,1,,\n"), HasSubstr("rung 'gpu' is not one"));
    EXPECT_THAT(rows("0,0,cpu,0,x,fast,1,1,1,1,1,1,1,1,,\n"),
                HasSubstr("wall_s is 'fast', expected a number"));
    EXPECT_THAT(rows("0,0,cpu,0,x,1,1,1,1,1,1,1,1,1,,\n0,1,cpu,0,x,1,1,1,1,1,1,1,1,1,,\n"),
                HasSubstr("a second time"));
    EXPECT_EQ(rows("0,0,cpu,0,x,1,,,,,,,,,,\r\n"), "accepted");
    write_file(in("rows.csv"), std::string("round,slot\n1,2\n"));
    EXPECT_THAT(error(), HasSubstr("there is no column rung"));

    write(session);
    write_file(in("session.json"), std::string("{\"format\": \"another\"}"));
    EXPECT_THAT(error(), HasSubstr("session.json"));
    EXPECT_THAT(error(), HasSubstr("expected \"lightmill ladder session 1\""));
    write_file(in("session.json"), std::string("{"));
    EXPECT_THAT(error(), HasSubstr("not JSON"));
    write_session(path_, session);
    write_file(in("env.json"), std::string("[]"));
    EXPECT_THAT(error(), HasSubstr("env.json"));
    std::filesystem::remove(in("session.json"));
    EXPECT_THROW(static_cast<void>(read_session(path_)), IoError);
}

}  // namespace
}  // namespace lightmill::ladder

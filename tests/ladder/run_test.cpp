#include "lightmill/ladder/run/run.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <tuple>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/ladder/report/directory.hpp"
#include "lightmill/ladder/run/guards.hpp"
#include "lightmill/ladder/run/rows.hpp"
#include "lightmill/ladder/run/shared_folder.hpp"
#include "lightmill/subjects/subjects.hpp"
#include "tests/ladder/faulty_subject.hpp"

namespace lightmill::ladder {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const testing_support::FaultyType k_faulty;

Subjects known() {
    return {&subjects::demo(), &subjects::command(), &k_faulty};
}

struct Run : testing::Test {
    fs::path folder =
        fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::path out = folder / "session";
    std::vector<std::string> said;

    void SetUp() override {
        fs::remove_all(folder);
        fs::create_directories(folder);
    }
    RunOptions options() {
        RunOptions o;
        o.output = out.string();
        o.builds = {{"", LIGHTMILL_TEST_WORKER}};
        o.environment = {"PATH=/usr/bin:/bin"};
        o.say = [this](const std::string& text) { said.push_back(text); };
        return o;
    }
    // A quick policy that takes the machine as it is.
    static std::string head(const std::string& subject, const std::string& policy,
                            const std::string& work = "") {
        return "name = \"t\"\nsubject = \"" + subject + "\"\n[work]\n" + work +
               "\n[policy]\nbusy_wait_s = 0\n" + policy + "\n";
    }
    Ladder ladder(const std::string& text) {
        return parse_ladder(text, (folder / "ladder.toml").string(), known(), {});
    }
    std::vector<Row> rows(const std::string& name = "rows.csv") { return read_rows((out / name).string()); }
    Session session() { return read_session(out.string()); }
    SessionRung rung(const std::string& id) {
        for (const auto& r : session().rungs)
            if (r.id == id) return r;
        ADD_FAILURE() << "no rung " << id;
        return {};
    }
};

TEST_F(Run, KnownRatiosAreRecoveredAndTheWrongAnswerIsNeverTimed) {
    const auto plan = ladder(head("demo", "rounds = 9\nrepetitions = 3", "milliseconds = 20") + R"(
[[rung]]
id = "slow"
status = "reference"
[[rung]]
id = "fast"
before = "slow"
config = { speed = 2.0 }
[[rung]]
id = "wrong"
config = { speed = 4.0, wrong = true }
)");
    const auto result = run_ladder(plan, options());
    EXPECT_EQ(result.gate_failures, 1u);
    EXPECT_EQ(result.rows, 3u * 9 * 3);
    for (const auto& row : rows()) {
        EXPECT_NE(row.arm, "wrong");
        EXPECT_EQ(row.invalid, "");
        EXPECT_GT(row.measured.wall_s, 0.009);
        EXPECT_GT(row.measured.peak_rss_bytes, 100000);
        EXPECT_FALSE(row.checksum.empty());
    }
    EXPECT_THAT(rung("wrong").gate_failure,
                HasSubstr("squares: first difference at index 999: 998002, expected 998001"));
    EXPECT_THAT(rung("fast").gate_distance, "bit-identical");
    const Summary summary = write_report(out.string());
    const auto& claim = *find(summary, "fast")->against_reference;
    EXPECT_LE(claim.estimate.low, 2.0);
    EXPECT_GE(claim.estimate.high, 1.9);
    EXPECT_NEAR(claim.estimate.ratio, 2.0, 0.6);  // on a machine with other work too; the interval judges
    EXPECT_EQ(summary.rounds, 9);
    EXPECT_EQ(find(summary, "wrong")->state, "gate failed");
    for (const auto* name : {"rows.csv", "gate.csv", "env.json", "session.json", "ladder.toml",
                             "summary.json", "manifest.json", "report.html"})
        EXPECT_TRUE(fs::exists(out / name)) << name;
    EXPECT_FALSE(fs::exists("/dev/shm/lightmill_ladder-" + session().id));
    // Counters and GPUs are there, or it is said why not.
    for (const auto* fact : {"hardware_counters", "gpu"})
        EXPECT_NE(value(session().policy, fact), "") << fact;
}

// Another process takes the machine for the first half of the session: pairs of the same round shift
// together.
TEST_F(Run, ADriftOfTheMachineFlipsNoVerdict) {
    const auto plan =
        ladder(head("demo", "rounds = 12\nrepetitions = 2\nalpha = 0.001", "milliseconds = 4") + R"(
[[rung]]
id = "slow"
status = "reference"
config = { method = "count" }
[[rung]]
id = "twin"
config = { method = "count" }
[[rung]]
id = "fast"
config = { method = "count", speed = 4.0 }
)");
    pid_t load = -1;
    auto end_load = [&] {
        if (load <= 0) return;
        ::kill(load, SIGKILL);
        ::waitpid(load, nullptr, 0);
        load = -1;
    };
    auto o = options();
    o.progress = [&](const std::string& text) {
        if (text.rfind("round 1 ", 0) == 0) {
            load = ::fork();
            if (load == 0)
                for (const std::atomic<bool> never{false}; !never;) {
                }
        }
        if (text.rfind("round 7 ", 0) == 0) end_load();
    };
    run_ladder(plan, o);
    end_load();
    const Summary summary = analyse(read_session(out.string()));
    ASSERT_EQ(summary.rounds, 12);
    const auto& twin = *find(summary, "twin")->against_reference;
    EXPECT_NE(twin.verdict, Verdict::faster);
    EXPECT_NE(twin.verdict, Verdict::slower);
    const auto& fast = *find(summary, "fast")->against_reference;
    EXPECT_GT(fast.estimate.ratio, 2);
    EXPECT_NE(fast.verdict, Verdict::slower);
    EXPECT_NE(fast.verdict, Verdict::same);
}

TEST_F(Run, EveryFaultOfASubjectIsNamedAndTheSessionGoesOn) {
    std::string text = head("faulty", "rounds = 2\nrepetitions = 3\ntimeout_s = 1.5");
    const std::vector<std::pair<std::string, std::string>> faults{
        {"wrong", "values: first difference at index 2: 7, expected 2"},
        {"nan", "NONFINITE"},
        {"crash", "CRASH: ended by signal 9"},
        {"hang", "TIMEOUT: no answer within 1.5 s"},
        {"throws", "ERROR: no more memory on Tuesdays"},
        {"advances", "STATE_ADVANCED"},
        {"at_cap", "DETECTOR: at_cap=5"},
        {"unwritten", "NONFINITE"},
        {"late", "values: first difference at index 1: -1, expected 1"},
        {"middle", "the checksum of repetition 1"}};
    text += "[[rung]]\nid = \"none\"\nstatus = \"reference\"\n";
    for (const auto& [fault, says] : faults)
        text += "[[rung]]\nid = \"" + fault + "\"\nconfig = { fault = \"" + fault + "\" }\n";
    const auto result = run_ladder(ladder(text), options());
    EXPECT_EQ(result.gate_failures, faults.size());
    for (const auto& [fault, says] : faults) {
        const std::string failure = rung(fault).gate_failure;
        if (fault == "nan" || fault == "unwritten") {
            EXPECT_THAT(failure, HasSubstr("never passes")) << fault;
        } else {
            EXPECT_THAT(failure, HasSubstr(says)) << fault;
        }
        // Its row in gate.csv says so too.
        EXPECT_THAT(rows("gate.csv"), Contains(AllOf(testing::Field(&Row::arm, fault),
                                                     testing::Field(&Row::invalid, testing::Ne("")))));
    }
    for (const auto& row : rows()) {
        EXPECT_TRUE(row.arm == "none" || row.arm == "null") << row.arm;
        EXPECT_EQ(row.invalid, "");
    }
    EXPECT_EQ(rows().size(), 2u * 2 * 3);
    // The reference has a thread count that nobody tried out.
    EXPECT_THAT(rung("none").not_quotable, Contains(HasSubstr("threads was not swept")));
}

// Programs that fail in the timed rounds only: a file counts how often each was started.
TEST_F(Run, ACommandMayDoWhateverItLikes) {
    const std::string answer =
        "  elif v == 'output': open(w[0], 'wb').write(b'array x f64 1\\n' + struct.pack('<d', 4.5)); "
        "say('ok')\n";
    const std::vector<std::tuple<std::string, std::string, std::string>> programs{
        {"good", "say('ok wall=0.000001 items=1 count=1')", ""},
        {"garbage", "say('here you are')", "GARBAGE: it answered 'here you are' to 'run', expected 'ok"},
        {"binary", "os.write(3, b'\\xff\\x00' * 70000)", "GARBAGE: "},
        {"pairs", "say('ok wall')", "GARBAGE: 'wall' in its answer"},
        {"number", "say('ok wall=soon')", "GARBAGE: wall is 'soon'"},
        {"nan", "say('ok wall=nan items=1')", "NONFINITE: a wall time of 'nan'"},
        {"huge", "say('ok wall=0.000001 count=1e300')", "NONFINITE: count is '1e300'"},
        {"faults", "say('ok wall=0.000001 minor_faults=nan')", "NONFINITE: minor_faults is 'nan'"},
        {"cap", "say('ok wall=0.000001 detector.cap=inf')", "NONFINITE: detector.cap is 'inf'"},
        {"liar", "say('ok wall=9 items=1')", "CLOCK: it says 9"},
        {"dies", "sys.exit(7)", "CRASH: ended with exit code 7"},
        {"hangs", "time.sleep(60)", "TIMEOUT"},
        {"closes", "os.close(3); time.sleep(60)", "CLOSED: it closed descriptor 3"},
        {"deaf", "say('ok wall=0.000001'); os.close(0); sys.stdin.close(); time.sleep(60)", ""},
    };
    std::string text = head("command", "rounds = 1\nrepetitions = 2\ntimeout_s = 2", "size = 3");
    std::size_t failing = 0;
    for (const auto& [id, run, says] : programs) {
        // The first start tells how long it takes, the second is the gate: everybody behaves. In the rounds
        // they do not.
        std::ofstream(folder / (id + ".py"))
            << "import os, struct, sys, time\n"
            << "def say(t): os.write(3, (t + '\\n').encode())\n"
            << "print('noise on stdout')\n"
            << "mark = sys.argv[0] + '.started'\n"
            << "open(mark, 'a').write('x')\n"
            << "gate = os.path.getsize(mark) <= 2\n"
            << "for line in sys.stdin:\n"
            << "  v, *w = line.split()\n"
            << "  if v == 'run' and gate: say('ok wall=0.000001 items=1 count=1')\n"
            << "  elif v == 'run': " << run << "\n"
            << answer << "  elif v == 'end': break\n  else: say('ok')\n";
        text += "[[rung]]\nid = \"" + id +
                "\"\nconfig = { program = \"/usr/bin/python3\", arguments = [\"{here}/" + id + ".py\"] }\n" +
                (id == "good" ? "status = \"reference\"\n" : "");
        if (!says.empty()) ++failing;
    }
    // "config" before "status" would put the status into no table: ids and statuses are keys of the rung.
    const auto result = run_ladder(ladder(text), options());
    EXPECT_EQ(result.gate_failures, 0u);
    for (const auto& [id, run, says] : programs) {
        std::vector<Row> own;
        for (const auto& row : rows())
            if (row.arm == id) own.push_back(row);
        ASSERT_FALSE(own.empty()) << id;
        if (id == "deaf") {
            EXPECT_THAT(own.back().invalid,
                        AllOf(testing::Not(""),
                              testing::AnyOf(HasSubstr("CLOSED"), HasSubstr("CRASH"), HasSubstr("TIMEOUT"))))
                << id;
        } else if (says.empty()) {
            EXPECT_EQ(own.size(), 2u);
            EXPECT_EQ(own.back().invalid, "") << id;
        } else {
            EXPECT_THAT(own.front().invalid, HasSubstr(says)) << id;
        }
    }
    EXPECT_GE(failing, 9u);
}

TEST_F(Run, AForeignAnswerPassesWithinTheToleranceOnly) {
    std::string text =
        head("demo", "rounds = 1\nrepetitions = 2", "items = 3\nmilliseconds = 1") +
        "[gate]\nabsolute = 0.5\nshare = 1.0\n[[rung]]\nid = \"own\"\nstatus = \"reference\"\n";
    for (const auto& [id, value] :
         {std::pair{"near", "4.25"}, std::pair{"far", "5"}, std::pair{"nan", "nan"}}) {
        std::ofstream(folder / (std::string(id) + ".py"))
            << "import os, struct, sys\nreplies = os.fdopen(3, 'w', buffering=1)\nfor line in sys.stdin:\n"
               "  v, *w = line.split()\n"
               "  if v == 'hello': assert 'items=3' in w, w\n"
               "  if v == 'end': break\n"
               "  if v == 'output': open(w[0], 'wb').write(b'array squares f64 3\\n' + struct.pack('<3d', 0, "
               "1, float('"
            << value << "')))\n  print('ok wall=0.000001', file=replies)\n";
        text +=
            std::string("[[rung]]\nid = \"") + id +
            "\"\nsubject = \"command\"\nconfig = { program = \"/usr/bin/python3\", arguments = [\"{here}/" +
            id + ".py\"] }\n";
    }
    run_ladder(ladder(text), options());
    EXPECT_EQ(rung("near").gate_failure, "");
    EXPECT_THAT(rung("near").gate_distance, HasSubstr("1 of 3 differ, by up to 0.25"));
    EXPECT_THAT(rung("far").gate_failure, HasSubstr("index 2: 5, expected 4"));
    EXPECT_THAT(rung("nan").gate_failure, HasSubstr("never passes"));
}

TEST_F(Run, TheExamplesOfTheProtocolWork) {
    const std::string examples = std::string(LIGHTMILL_LADDERS) + "/examples";
    const std::string program = (folder / "worker").string();
    ASSERT_EQ(
        std::system((std::string(LIGHTMILL_TEST_CXX) + " -O1 -o " + program + " " + examples + "/worker.cpp")
                        .c_str()),
        0);
    const auto plan =
        ladder(head("command", "rounds = 1\nrepetitions = 2", "size = 1000") +
               "[gate]\nrelative = 1e-9\nshare = 1.0\n[[rung]]\nid = \"python\"\nstatus = \"reference\"\n"
               "config = { program = \"/usr/bin/python3\", arguments = [\"" +
               examples + "/worker.py\", \"loop\"] }\n[[rung]]\nid = \"cpp\"\nconfig = { program = \"" +
               program + "\" }\n");
    const auto result = run_ladder(plan, options());
    EXPECT_EQ(result.gate_failures, 0u) << rung("cpp").gate_failure;
    for (const auto& row : rows()) {
        EXPECT_EQ(row.invalid, "") << row.arm;
        EXPECT_EQ(row.items, 1000) << row.arm;
    }
    EXPECT_EQ(rows().size(), 3u * 2);
}

// Starts a session and kills it as soon as `file` of it has so many rows.
void kill_at(const Ladder& plan, const RunOptions& options, const std::string& file, std::size_t rows) {
    const std::string path = (fs::path(options.output) / file).string();
    const pid_t child = ::fork();
    if (child == 0) {
        run_ladder(plan, options);
        ::_exit(0);
    }
    for (int i = 0; i < 4000 && read_rows(path).size() < rows; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
}
std::string whole_lines(const std::string& text) {
    return text.substr(0, text.rfind('\n') + 1);
}

TEST_F(Run, KilledInTheMiddleAndResumedKeepsEveryRowAndRepeatsNone) {
    const auto plan = ladder(
        head("demo", "rounds = 4\nrepetitions = 3", "milliseconds = 15") +
        "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n[[rung]]\nid = \"b\"\nconfig = { speed = 2.0 }\n");
    const std::string file = (out / "rows.csv").string();
    // In the middle of the second process of the second round or so.
    kill_at(plan, options(), "rows.csv", 14);
    const std::string before = read_file(file);
    auto again = options();
    EXPECT_THROW(run_ladder(plan, again), OptionError);  // a directory with a session is not overwritten
    again.resume = true;
    const auto other = ladder(head("demo", "rounds = 4", "milliseconds = 15") +
                              "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n");
    EXPECT_THROW(run_ladder(other, again), OptionError);
    auto smaller = plan;
    smaller.work_facts.front().value = "7";
    EXPECT_THROW(run_ladder(smaller, again), OptionError);
    run_ladder(plan, again);
    const std::string after = read_file(file);
    EXPECT_EQ(whole_lines(after).substr(0, whole_lines(before).size()), whole_lines(before));
    std::set<std::tuple<std::string, int, int>> seen;
    std::set<std::pair<std::string, int>> processes;
    int interrupted = 0;
    for (const auto& row : rows()) {
        EXPECT_TRUE(seen.emplace(row.arm, row.round, row.repetition).second);
        processes.emplace(row.arm, row.round);
        if (!row.invalid.empty()) {
            EXPECT_THAT(row.invalid, HasSubstr("INTERRUPTED"));
            ++interrupted;
        }
    }
    EXPECT_EQ(processes.size(), 3u * 4);
    EXPECT_LE(interrupted, 1);
    const Summary summary = write_report(out.string());
    EXPECT_EQ(summary.rounds, 4);
    // Once more: nothing is left to do.
    EXPECT_EQ(run_ladder(plan, again).rows, 0u);
    EXPECT_EQ(read_file(file), after);
}

TEST_F(Run, KilledInTheSweepOrTheGatesAndResumedRepeatsNoRowEither) {
    const auto plan = ladder(head("faulty", "rounds = 2\nrepetitions = 4") +
                             "[[sweep]]\nthreads = 1\n[[sweep]]\nthreads = 2\n[[rung]]\nid = \"a\"\nstatus = "
                             "\"reference\"\n[[rung]]\nid = \"b\"\n[[rung]]\nid = \"c\"\n");
    for (const auto& [name, at] : {std::pair{"sweep.csv", 10U}, {"gate.csv", 6U}}) {
        fs::remove_all(out);
        const std::string file = (out / name).string();
        kill_at(plan, options(), name, at);
        const std::string before = whole_lines(read_file(file));
        auto again = options();
        again.resume = true;
        run_ladder(plan, again);
        EXPECT_EQ(read_file(file).substr(0, before.size()), before) << name;
        for (const auto* each : {"sweep.csv", "gate.csv", "rows.csv"}) {
            std::set<std::tuple<std::string, int, int>> seen;
            int interrupted = 0;
            for (const auto& row : rows(each)) {
                EXPECT_TRUE(seen.emplace(row.arm, row.round, row.repetition).second)
                    << each << " after a kill in " << name << ": " << row.arm << ' ' << row.round << ' '
                    << row.repetition;
                interrupted += row.invalid.empty() ? 0 : 1;
            }
            EXPECT_LE(interrupted, 1) << each;
        }
        std::set<std::pair<std::string, int>> swept;
        for (const auto& row : rows("sweep.csv")) swept.emplace(row.arm, row.round);
        EXPECT_EQ(swept.size(), 2u * 3) << name;
        EXPECT_EQ(analyse(read_session(out.string())).rounds, 2) << name;
        // What the killed session left in memory is gone.
        for (const auto& entry : fs::directory_iterator("/dev/shm"))
            EXPECT_EQ(entry.path().string().find(session().id), std::string::npos) << entry.path();
    }
}

// A limit on file sizes does what a full disk does.
TEST_F(Run, AFullDiskEndsTheSessionAndItsRowsCanBeGoneOnWith) {
    const auto plan = ladder(head("demo", "rounds = 4\nrepetitions = 3", "milliseconds = 5") +
                             "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n");
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    auto o = options();
    o.progress = [&](const std::string& text) {
        if (text.rfind("round 2 ", 0) != 0) return;
        const rlimit tight{fs::file_size(out / "rows.csv") + 300, old.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &tight);
    };
    try {
        run_ladder(plan, o);
        ADD_FAILURE() << "no error";
    } catch (const IoError& error) {
        EXPECT_THAT(error.what(), HasSubstr("rows.csv"));
    }
    ::setrlimit(RLIMIT_FSIZE, &old);
    const std::string before = read_file((out / "rows.csv").string());
    EXPECT_GE(rows().size(), 6u);
    EXPECT_EQ(before.back(), '\n');
    auto again = options();
    again.resume = true;
    run_ladder(plan, again);
    EXPECT_EQ(read_file((out / "rows.csv").string()).substr(0, before.size()), before);
    EXPECT_EQ(analyse(read_session(out.string())).rounds, 4);
}

TEST_F(Run, ASessionGoesOnUnderTheTermsThatItBeganWith) {
    const auto plan = ladder(head("demo", "rounds = 100\nrepetitions = 2", "milliseconds = 2") +
                             "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n[[rung]]\nid = "
                             "\"b\"\n[[rung]]\nid = \"c\"\n");
    auto o = options();
    o.rounds = 50;
    o.rungs = {"b"};
    o.budget_s = 0.2;
    kill_at(plan, o, "gate.csv", 1);
    auto again = options();
    again.resume = true;
    again.rounds = 60;
    EXPECT_THROW(run_ladder(plan, again), OptionError);
    again.rounds.reset();
    again.budget_s = 100;
    EXPECT_THROW(run_ladder(plan, again), OptionError);
    again.budget_s.reset();  // its own budget and its own rungs still hold
    EXPECT_LT(run_ladder(plan, again).rounds, 50);
    EXPECT_EQ(rung("b").not_run, "");
    EXPECT_EQ(rung("c").not_run, "not asked for (--rungs)");
}

TEST_F(Run, NothingIsNoNumberOfRoundsAndNoBudget) {
    const auto plan = ladder(head("demo", "rounds = 1\nrepetitions = 1", "milliseconds = 1") +
                             "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n");
    for (const int rounds : {0, -3}) {
        auto o = options();
        o.rounds = rounds;
        EXPECT_THROW(run_ladder(plan, o), OptionError) << rounds;
    }
    for (const double budget : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
        auto o = options();
        o.budget_s = budget;
        EXPECT_THROW(run_ladder(plan, o), OptionError) << budget;
    }
    EXPECT_FALSE(fs::exists(out)) << "a refused session leaves nothing";
}

TEST_F(Run, TheTimeIsToldBeforeAnythingIsMeasured) {
    const std::string text = head("demo", "rounds = 10\nrepetitions = 5", "milliseconds = 20") +
                             "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n";
    auto o = options();
    o.rounds = 1;
    bool rows_yet = false;
    o.say = [&](const std::string& line) {
        if (said.empty()) rows_yet = fs::exists(out / "gate.csv") || fs::exists(out / "sweep.csv");
        said.push_back(line);
    };
    run_ladder(ladder(text), o);
    EXPECT_FALSE(rows_yet);
    EXPECT_THAT(said.front(), HasSubstr("2 arms, 1 rounds, 5 repetitions a process. From one repetition"));

    o.memory = folder.string();
    o.output = (folder / "nowhere").string();  // not made: the other has the room
    const std::string told = estimate_ladder(ladder(text), o);
    EXPECT_FALSE(fs::exists(folder / "nowhere"));
    const auto at = told.find("about ");
    ASSERT_NE(at, std::string::npos) << told;
    // Ten rounds of two processes of five times 20 ms, and what starting takes.
    const double seconds = std::atof(told.c_str() + at + 6);
    EXPECT_GE(seconds, 2) << told;
    EXPECT_LE(seconds, 20) << told;
}

TEST_F(Run, WithoutRoomInMemoryASessionWorksOnTheDiskAndSaysSo) {
    auto o = options();
    o.memory = (folder / "nowhere").string();
    run_ladder(ladder(head("demo", "rounds = 1\nrepetitions = 2", "milliseconds = 1") +
                      "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n"),
               o);
    EXPECT_THAT(session().notes,
                Contains(AllOf(HasSubstr("lie on a disk"), HasSubstr("nowhere is not there"))));
    EXPECT_EQ(rows().size(), 4u);
    EXPECT_FALSE(fs::exists(out / "work"));
}

TEST_F(Run, ASharedFolderKnowsTheOnesThatNobodyHolds) {
    const std::string memory = (folder / "memory").string();
    fs::create_directories(memory + "/lightmill_ladder-left");
    std::ofstream(memory + "/lightmill_ladder-left/input") << "old";
    fs::create_directories(memory + "/lightmill-other");
    std::string first_path;
    {
        const SharedFolder first(memory, "first", out.string(), 1000);
        first_path = first.path();
        EXPECT_EQ(first.why_not_memory(), "");
        EXPECT_FALSE(fs::exists(memory + "/lightmill_ladder-left"));
        EXPECT_TRUE(fs::exists(memory + "/lightmill-other"));
        const SharedFolder second(memory, "second", out.string(), 1000);
        EXPECT_TRUE(fs::exists(first_path)) << "a folder in use was removed";
        // More than any machine has.
        const SharedFolder big(memory, "big", out.string(), std::int64_t{0});
        EXPECT_EQ(big.path(), memory + "/lightmill_ladder-big");
    }
    EXPECT_FALSE(fs::exists(first_path));
    try {
        const SharedFolder huge(memory, "huge", out.string(), std::int64_t{1} << 60);
        FAIL() << "nothing has that room";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(memory), HasSubstr(out.string()), HasSubstr("are needed")));
    }
}

// The positive control: what is known to be 2 % slower is called so, and the interval holds the truth.
void expect_two_percent(const Summary& summary) {
    for (const auto& [id, verdict, truth] :
         {std::tuple{"slower", Verdict::slower, 0.98}, std::tuple{"faster", Verdict::faster, 1.02}}) {
        const Claim& claim = *find(summary, id)->against_reference;
        EXPECT_EQ(claim.verdict, verdict) << id << ' ' << ratio_text(claim.estimate) << ' ' << claim.why;
        // A sleep ends a little late, so that the truth lies a little nearer to 1.
        EXPECT_LE(claim.estimate.low, truth + 0.002) << id;
        EXPECT_GE(claim.estimate.high, truth - 0.002) << id;
    }
}

TEST_F(Run, TwoPercentSlowerAreSeen) {
    const auto plan =
        ladder(head("demo", "rounds = 24\nrepetitions = 6\nalpha = 0.001", "milliseconds = 10") + R"(
[[rung]]
id = "base"
status = "reference"
[[rung]]
id = "slower"
config = { speed = 0.98 }
[[rung]]
id = "faster"
config = { speed = 1.02 }
)");
    run_ladder(plan, options());
    const Summary summary = analyse(read_session(out.string()));
    for (const auto* id : {"slower", "faster"}) {
        const Claim& claim = *find(summary, id)->against_reference;
        EXPECT_NE(claim.verdict, id == std::string("slower") ? Verdict::faster : Verdict::slower);
        if (claim.estimate.half_width() > 0.01 || summary.trust.margin > 0.01)
            GTEST_SKIP() << "the machine is too busy for 2 %: " << id << ' ' << ratio_text(claim.estimate)
                         << "; " << summary.trust_text;
    }
    expect_two_percent(summary);
}

// The same from programs that tell times, so that it can be seen on a busy machine too: 0.2 % of noise.
TEST_F(Run, TwoPercentSlowerAreSeenWhateverTheMachineDoes) {
    std::ofstream(folder / "tells.py")
        << "import os, random, struct, sys, time\n"
           "replies = os.fdopen(3, 'w', buffering=1)\n"
           "for line in sys.stdin:\n"
           "  v, *w = line.split()\n"
           "  if v == 'end': break\n"
           "  reply = 'ok'\n"
           "  if v == 'run': time.sleep(0.003); reply = f'ok wall={0.002 / float(sys.argv[1]) * "
           "random.gauss(1, 0.002)} items=1'\n"
           "  if v == 'output': open(w[0], 'wb').write(b'array x f64 1\\n' + struct.pack('<d', 4.5))\n"
           "  print(reply, file=replies)\n";
    std::string text = head("command", "rounds = 24\nrepetitions = 3\nalpha = 0.001", "size = 1");
    for (const auto& [id, speed] : {std::pair{"base", "1"}, {"slower", "0.98"}, {"faster", "1.02"}})
        text += fmt::format(
            "[[rung]]\nid = \"{0}\"\n{2}config = {{ program = \"/usr/bin/python3\", arguments = "
            "[\"{{here}}/tells.py\", \"{1}\"] }}\n",
            id, speed, id == std::string("base") ? "status = \"reference\"\n" : "");
    const auto result = run_ladder(ladder(text), options());
    ASSERT_EQ(result.gate_failures, 0U) << rung("slower").gate_failure;
    expect_two_percent(analyse(read_session(out.string())));
}

TEST_F(Run, TheReferenceMayStandAnywhereInTheFile) {
    const auto result = run_ladder(
        ladder(head("demo", "rounds = 1\nrepetitions = 2", "items = 3\nmilliseconds = 1") +
               "[[rung]]\nid = \"wrong\"\nconfig = { wrong = true }\n[[rung]]\nid = \"fast\"\nconfig = { "
               "speed = 2.0 }\n[[rung]]\nid = \"slow\"\nstatus = \"reference\"\n"),
        options());
    EXPECT_EQ(result.gate_failures, 1u);
    EXPECT_EQ(result.rows, 6u);  // fast, slow and the null arm
    EXPECT_EQ(rung("fast").gate_distance, "bit-identical");
    EXPECT_EQ(session().rungs.front().id, "wrong");  // the session keeps the file's order
}

TEST_F(Run, ASessionThatNamesAFolderElsewhereIsNotResumed) {
    const std::string text = head("demo", "rounds = 1\nrepetitions = 2", "items = 3\nmilliseconds = 1") +
                             "[[rung]]\nid = \"slow\"\nstatus = \"reference\"\n";
    run_ladder(ladder(text), options());
    Session changed = session();
    changed.id = "t/../../" + folder.string();
    write_session(out.string(), changed);
    auto again = options();
    again.resume = true;
    try {
        run_ladder(ladder(text), again);
        FAIL() << "accepted";
    } catch (const FormatError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("session.json"), HasSubstr("id: found 't/../../")));
    }
    EXPECT_TRUE(fs::exists(folder));
}

TEST_F(Run, AStopEndsBetweenRequestsAndKeepsTheRows) {
    const auto plan = ladder(head("demo", "rounds = 100\nrepetitions = 2", "milliseconds = 10") +
                             "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n");
    std::stop_source stop;
    auto o = options();
    o.stop = stop.get_token();
    o.progress = [&](const std::string& text) {
        if (text.rfind("round 3", 0) == 0) stop.request_stop();
    };
    const auto result = run_ladder(plan, o);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(rows().size(), 2u * 2 * 2);
}

TEST_F(Run, CutsAreOpen) {
    const std::string text =
        head("demo", "rounds = 50\nrepetitions = 2", "milliseconds = 5") +
        "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n[[rung]]\nid = \"b\"\n[[rung]]\nid = \"c\"\n";
    auto o = options();
    o.rungs = {"b"};
    o.rounds = 20;
    o.budget_s = 0.01;
    const auto result = run_ladder(ladder(text), o);
    EXPECT_EQ(result.rounds, 1);
    EXPECT_EQ(session().planned_rounds, 1);
    EXPECT_THAT(session().notes, Contains(HasSubstr("budget of 0.01 s cut the rounds from 20 to 1")));
    EXPECT_THAT(session().notes, Contains(HasSubstr("--rounds cut the rounds from 50 to 20")));
    EXPECT_EQ(rung("c").not_run, "not asked for (--rungs)");
    EXPECT_THAT(said.front(),
                AllOf(HasSubstr("3 arms, 20 rounds, which the budget of 0.01 s will cut to about 1"),
                      HasSubstr("From one repetition of each: about")));
    EXPECT_THAT(said, Contains(HasSubstr("3 arms passed; 1 rounds of about")));
    o.output = (folder / "other").string();
    o.rungs = {"d"};
    try {
        run_ladder(ladder(text), o);
        ADD_FAILURE();
    } catch (const OptionError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("found d"), HasSubstr("one of a, b, c")));
    }
}

TEST_F(Run, BuildsCompeteInOneSessionAndAreRefusedWhereTheyAreOne) {
    const auto plan =
        ladder(head("demo", "rounds = 2\nrepetitions = 2", "milliseconds = 2") +
               "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n[[rung]]\nid = \"b\"\nbefore = \"a\"\n");
    auto o = options();
    o.builds = {{"old", LIGHTMILL_TEST_WORKER}, {"new", LIGHTMILL_TEST_WORKER}};
    EXPECT_THROW(run_ladder(plan, o), OptionError);
    fs::remove_all(out);
    const fs::path other = folder / "other_worker";
    fs::copy_file(LIGHTMILL_TEST_WORKER, other);
    std::ofstream(other, std::ios::app | std::ios::binary) << "x";
    o.builds[1].path = other.string();
    run_ladder(plan, o);
    EXPECT_EQ(rung("b@new").before, "b@old");
    EXPECT_EQ(rung("b@old").before, "a@old");
    EXPECT_THAT(rung("a@new").changes, testing::ElementsAre("executable: old → new"));
    EXPECT_EQ(rung("a@new").status, "candidate");
    std::set<std::string> arms, hashes;
    for (const auto& row : rows()) {
        arms.insert(row.arm);
        hashes.insert(row.executable);
    }
    EXPECT_THAT(arms, testing::UnorderedElementsAre("a@old", "null", "a@new", "b@old", "b@new"));
    EXPECT_EQ(hashes.size(), 2u);
    EXPECT_EQ(analyse(read_session(out.string())).rounds, 2);
}

TEST_F(Run, TheSweepIsKeptAndItsBestIsTaken) {
    const auto plan = ladder(head("faulty", "rounds = 1\nrepetitions = 2") +
                             "[[sweep]]\nthreads = 3\n[[sweep]]\nthreads = 4\n[[rung]]\nid = \"a\"\nstatus = "
                             "\"reference\"\n[[rung]]\nid = \"b\"\nbefore = "
                             "\"a\"\nconfig = { threads = 2 }\n[[rung]]\nid = \"c\"\nbefore = \"b\"\n");
    EXPECT_THAT(plan.find("b")->changes, testing::ElementsAre("threads: 1 → 2"));
    run_ladder(plan, options());
    EXPECT_EQ(rows("sweep.csv").size(), 2u * 3 * 2);
    // A step up from the reference starts from what the sweep made of it.
    const std::string taken(value(rung("a").configuration, "threads"));
    EXPECT_THAT(taken, testing::AnyOf("3", "4"));
    EXPECT_EQ(value(rung("null").configuration, "threads"), taken);
    EXPECT_THAT(rung("b").changes, testing::ElementsAre("threads: " + taken + " → 2"));
    EXPECT_THAT(rung("c").changes, testing::ElementsAre("threads: 2 → 1"));
    EXPECT_THAT(session().notes, Contains(AllOf(HasSubstr("threads=3"), HasSubstr("threads=4"),
                                                HasSubstr("taken: threads=" + taken))));
    EXPECT_TRUE(rung("a").not_quotable.empty());
}

TEST_F(Run, GuardsMarkRowsAndNameTheirReason) {
    auto o = options();
    o.stale_build = [] { return std::string("stale build"); };
    // No machine is that quiet.
    const auto plan =
        ladder(head("demo", "rounds = 1\nrepetitions = 1\nbusy_threads = 0", "milliseconds = 1") +
               "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n");
    run_ladder(plan, o);
    for (const auto& row : rows()) {
        EXPECT_EQ(row.invalid, "");
        EXPECT_THAT(row.not_quotable, Contains("stale build"));
    }
}

TEST_F(Run, GpusThatAreBusyOrSlowedDownMarkTheRows) {
    auto o = options();
    o.gpu_library = LIGHTMILL_FAKE_NVML;  // its second device is both
    run_ladder(ladder(head("demo", "rounds = 1\nrepetitions = 1", "milliseconds = 1") +
                      "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n"),
               o);
    EXPECT_EQ(rows().size(), 2U);
    for (const auto& row : rows()) {
        EXPECT_EQ(row.invalid, "");
        EXPECT_THAT(row.not_quotable, AllOf(Contains("busy GPU 1"), Contains("GPU 1 throttled")));
        EXPECT_THAT(row.not_quotable, testing::Not(Contains(HasSubstr("GPU 0"))));
        EXPECT_THAT(row.gpu, HasSubstr("gpu1: sm=2001MHz memory=2002MHz"));
        EXPECT_THAT(row.gpu, HasSubstr("throttle=0x4"));
    }
    EXPECT_EQ(value(session().policy, "gpu"), "watched");
}

TEST(Guards, ABusyMachineIsSeen) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> load;
    for (int i = 0; i < 3; ++i)
        load.emplace_back([&] {
            while (!stop) {
            }
        });
    const GpuMonitor gpus;
    Policy policy;
    policy.busy_wait_s = 0.3;
    EXPECT_THAT(wait_until_quiet(policy, gpus, {}), Contains(HasSubstr("busy machine")));
    stop = true;
    for (auto& thread : load) thread.join();
    policy.busy_threads = 100000;
    policy.busy_pressure = 100;
    EXPECT_THAT(disturbances(policy, gpus), testing::IsEmpty());
}

TEST(SourceDigest, ChangesWithAnyByteAndAnyName) {
    const fs::path root = fs::path(testing::TempDir()) / "digest";
    fs::remove_all(root);
    fs::create_directories(root / "lightmill");
    EXPECT_EQ(source_digest((root / "nowhere").string()), "");
    std::ofstream(root / "lightmill/a.cpp") << "int a;";
    const auto first = source_digest(root.string());
    EXPECT_EQ(first.size(), 64u);
    EXPECT_EQ(source_digest(root.string()), first);
    std::ofstream(root / "lightmill/a.cpp") << "int b;";
    const auto second = source_digest(root.string());
    EXPECT_NE(second, first);
    fs::rename(root / "lightmill/a.cpp", root / "lightmill/b.cpp");
    EXPECT_NE(source_digest(root.string()), second);
    std::ofstream(root / "lightmill/notes.md") << "nothing";
}

}  // namespace
}  // namespace lightmill::ladder

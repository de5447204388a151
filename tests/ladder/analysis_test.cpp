#include "lightmill/ladder/report/analysis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/ladder/synthetic_session.hpp"

namespace lightmill::ladder {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_support::Synthetic;

TEST(Analysis, RecoversKnownRatiosAgainstReferenceAndBefore) {
    const Summary summary = analyse(Synthetic::ladder().session);
    EXPECT_TRUE(summary.trust.valid) << summary.trust_text;
    EXPECT_TRUE(summary.trust.same_allowed);
    EXPECT_EQ(summary.rounds, 24);
    EXPECT_EQ(summary.family.claims,
              5);  // simd, bands, pinned against cpu; bands against simd, pinned against bands
    ASSERT_EQ(summary.rungs.size(), 4u);  // the null arm is no rung

    const RungSummary& simd = *find(summary, "simd");
    ASSERT_TRUE(simd.against_reference && simd.against_before);
    EXPECT_EQ(simd.against_reference->verdict, Verdict::faster);
    EXPECT_NEAR(simd.against_reference->estimate.ratio, 5, 0.05);
    EXPECT_LT(simd.against_reference->estimate.low, 5.02);
    EXPECT_GT(simd.against_reference->estimate.high, 4.98);
    EXPECT_EQ(simd.against_before->base, "cpu");

    const RungSummary& bands = *find(summary, "bands");
    EXPECT_NEAR(bands.against_reference->estimate.ratio, 100.0 / 11, 0.1);
    EXPECT_EQ(bands.against_before->base, "simd");
    EXPECT_NEAR(bands.against_before->estimate.ratio, 20.0 / 11, 0.02);

    const RungSummary& pinned = *find(summary, "pinned");
    EXPECT_EQ(pinned.against_before->verdict, Verdict::same);
    EXPECT_EQ(pinned.rung.reason, "the same time, one option more");

    const RungSummary& cpu = *reference(summary);
    EXPECT_EQ(cpu.rung.id, "cpu");
    EXPECT_FALSE(cpu.against_reference);
    EXPECT_NEAR(cpu.warm_s, 0.1, 0.001);
    EXPECT_NEAR(cpu.cold_s, 0.15, 0.002);
    EXPECT_LT(cpu.best_s, cpu.warm_s);
    EXPECT_NEAR(cpu.spread, cpu.warm_s / cpu.best_s - 1, 1e-12);
    EXPECT_EQ(cpu.cold_faults, 1000);
    EXPECT_EQ(cpu.warm_faults, 10);
    EXPECT_NEAR(cpu.items_per_s, 1000, 10);
    EXPECT_EQ(cpu.rows.size(), 24u * 4);
    for (const auto& rung : summary.rungs) EXPECT_THAT(rung.not_quotable, IsEmpty()) << rung.rung.id;
}

TEST(Analysis, SlowerIsCalledSlower) {
    Synthetic s = Synthetic::ladder();
    s.add("graphs", "rejected", "bands").reason = "slower";
    s.time("graphs", 0.0125);
    const Summary summary = analyse(s.session);
    EXPECT_EQ(find(summary, "graphs")->against_before->verdict, Verdict::slower);
    EXPECT_EQ(find(summary, "graphs")->against_reference->verdict, Verdict::faster);
}

TEST(Analysis, BiasedNullArmInvalidatesEverything) {
    Synthetic s = Synthetic::ladder();
    for (auto& row : s.session.rows)
        if (row.rung == "null") row.wall_s *= 1.03;
    const Summary summary = analyse(s.session);
    EXPECT_FALSE(summary.trust.valid);
    EXPECT_THAT(summary.trust_text, HasSubstr("INVALID"));
    for (const auto& rung : summary.rungs) {
        EXPECT_THAT(rung.not_quotable, Contains("the session is INVALID"));
        if (rung.against_reference) {
            EXPECT_EQ(rung.against_reference->verdict, Verdict::invalid);
        }
    }
}

TEST(Analysis, WithoutNullArmNothingIsClaimed) {
    Synthetic s = Synthetic::ladder();
    s.session.rungs.erase(s.session.rungs.begin() + 1);
    std::erase_if(s.session.rows, [](const SessionRow& row) { return row.rung == "null"; });
    const Summary summary = analyse(s.session);
    EXPECT_FALSE(summary.trust.valid);
    EXPECT_THAT(summary.trust_text, HasSubstr("no null arm"));
    EXPECT_EQ(find(summary, "simd")->against_reference->verdict, Verdict::invalid);
}

TEST(Analysis, NoisySessionFindsFactorsButNoEquality) {
    Synthetic s;
    s.sigma = 0.08;
    s.add("cpu", "reference");
    s.add("null", "null");
    s.add("simd", "adopted", "cpu");
    s.add("twin", "candidate", "cpu");
    s.add("little", "candidate", "cpu");
    s.time("cpu", 0.1);
    s.time("null", 0.1);
    s.time("simd", 0.02);
    s.time("twin", 0.1);
    s.time("little", 0.098);
    const Summary summary = analyse(s.session);
    ASSERT_TRUE(summary.trust.valid);
    EXPECT_FALSE(summary.trust.same_allowed);
    EXPECT_GT(summary.trust.margin, 0.01);
    EXPECT_EQ(summary.null_arm.verdict, Verdict::unresolved);  // not even of itself may it say SAME
    EXPECT_EQ(find(summary, "simd")->against_reference->verdict, Verdict::faster);
    EXPECT_EQ(find(summary, "twin")->against_reference->verdict, Verdict::unresolved);
    EXPECT_EQ(find(summary, "little")->against_reference->verdict, Verdict::unresolved);
    EXPECT_THAT(find(summary, "twin")->against_reference->why, Not(IsEmpty()));
}

TEST(Analysis, AnInvalidSideDropsThePairAndTooManyTheRung) {
    Synthetic s = Synthetic::ladder();
    for (auto& row : s.session.rows) {
        // Two rounds where the rung died, in one of them far from its true time.
        if (row.rung == "simd" && (row.round == 3 || row.round == 7)) {
            row.invalid = "CRASH";
            row.wall_s *= 100;
        }
        if (row.rung == "bands" && row.round < 5) row.invalid = "TIMEOUT";  // 5 of 24: above 20 %
        if (row.rung == "cpu" && row.round == 10 && row.repetition == 2) row.invalid = "NONFINITE";
    }
    const Summary summary = analyse(s.session);
    const RungSummary& simd = *find(summary, "simd");
    EXPECT_EQ(simd.state, "timed");
    EXPECT_EQ(simd.invalid_processes, 2);
    EXPECT_EQ(simd.against_reference->estimate.rounds, 21);
    EXPECT_THAT(simd.against_reference->rounds, Not(Contains(3)));
    EXPECT_THAT(simd.against_reference->rounds, Not(Contains(10)));
    EXPECT_NEAR(simd.warm_s, 0.02, 0.0005);
    EXPECT_EQ(simd.against_reference->verdict, Verdict::faster);
    EXPECT_EQ(simd.rows.size(), 24u * 4);  // rows are never dropped

    const RungSummary& bands = *find(summary, "bands");
    EXPECT_EQ(bands.state, "invalid");
    EXPECT_THAT(bands.state_reason, HasSubstr("5 of 24"));
    EXPECT_THAT(bands.state_reason, HasSubstr("TIMEOUT"));
    EXPECT_EQ(bands.against_reference->verdict, Verdict::invalid);
    EXPECT_THAT(bands.not_quotable, Not(IsEmpty()));
    // What is compared with an invalid rung is invalid too; against the reference it stands.
    EXPECT_EQ(find(summary, "pinned")->against_before->verdict, Verdict::invalid);
    EXPECT_EQ(find(summary, "pinned")->against_reference->verdict, Verdict::faster);
    EXPECT_THAT(summary.guards, Contains(testing::Field(&GuardCount::what, "CRASH")));
}

TEST(Analysis, ExactlyOneFifthInvalidIsStillTimed) {
    Synthetic s = Synthetic::ladder();
    s.rounds = 20;
    s.add("fifth", "candidate", "cpu");
    s.time("fifth", 0.05);
    for (auto& row : s.session.rows)
        if (row.rung == "fifth" && row.round < 4) row.invalid = "CRASH";
    EXPECT_EQ(find(analyse(s.session), "fifth")->state, "timed");
}

TEST(Analysis, FailedGatesAndRungsNotRunStayWithTheirReason) {
    Synthetic s = Synthetic::ladder();
    s.add("wrong", "candidate", "bands").gate_failure = "first difference at byte 12: 7, expected 8";
    s.add("opt4", "adopted", "bands").not_run = "no CUDA device here";
    const Summary summary = analyse(s.session);
    const RungSummary& wrong = *find(summary, "wrong");
    EXPECT_EQ(wrong.state, "gate failed");
    EXPECT_THAT(wrong.state_reason, HasSubstr("byte 12"));
    EXPECT_FALSE(wrong.against_reference);
    EXPECT_EQ(wrong.warm_s, 0);
    EXPECT_THAT(wrong.not_quotable, Not(IsEmpty()));
    const RungSummary& opt4 = *find(summary, "opt4");
    EXPECT_EQ(opt4.state, "not run");
    EXPECT_EQ(opt4.state_reason, "no CUDA device here");
    // The failed rung was a declared claim; the one that cannot run here was not.
    EXPECT_EQ(summary.family.claims, 7);
    // A rung after one that cannot run here has one claim only, against the reference.
    s.add("opt5", "adopted", "opt4");
    s.time("opt5", 0.01);
    const Summary more = analyse(s.session);
    EXPECT_EQ(more.family.claims, 8);
    EXPECT_TRUE(find(more, "opt5")->against_reference);
    EXPECT_FALSE(find(more, "opt5")->against_before);
}

TEST(Analysis, FloorNamesTheTallestBarAndOverAHundredPercentIsAnError) {
    Synthetic s = Synthetic::ladder();
    Probe probe;
    probe.ceilings = {{"memory_read", 1, 5e9, 5e9, 9, ""},
                      {"memory_read", 2, 10e9, 9e9, 9, ""},
                      {"fma_f32", 2, 100e9, 90e9, 9, ""}};
    probe.page_fault_s = 1e-6;
    probe.clock_resolution_s = 20e-9;
    s.session.probe = probe;
    s.rung("simd").work = {{"memory_read", 0.1e9}, {"fma_f32", 0.5e9}};  // 10 ms and 5 ms
    s.rung("bands").work = {{"memory_read", 0.2e9}};                     // 20 ms: more than it takes
    s.rung("pinned").work = {{"memory_read", 0.02e9}, {"fma_f32", 0.4e9}, {"hbm", 1}};
    s.rung("pinned").work_is_serial = true;
    const Summary summary = analyse(s.session);
    const Floor& simd = *find(summary, "simd")->floor;
    EXPECT_EQ(simd.resource, "memory_read");
    EXPECT_DOUBLE_EQ(simd.seconds, 0.010);
    EXPECT_NEAR(simd.fraction, 0.5, 0.01);
    const RungSummary& bands = *find(summary, "bands");
    EXPECT_GT(bands.floor->fraction, 1.5);
    EXPECT_THAT(bands.not_quotable, Contains(HasSubstr("an error in the declared work or in the probe")));
    const RungSummary& pinned = *find(summary, "pinned");
    EXPECT_DOUBLE_EQ(pinned.floor->seconds, 0.006);  // one after the other
    EXPECT_EQ(pinned.floor->resource, "fma_f32");
    EXPECT_THAT(pinned.flags, Contains(HasSubstr("hbm")));
    EXPECT_FALSE(reference(summary)->floor);
}

TEST(Analysis, GuardsMakeARungUnquotableAndKeepItsRows) {
    Synthetic s = Synthetic::ladder();
    for (auto& row : s.session.rows)
        if (row.rung == "simd" && row.round == 5) row.not_quotable = {"3 other threads were running"};
    s.rung("cpu").not_quotable = {"its thread count was not swept"};
    const Summary summary = analyse(s.session);
    EXPECT_THAT(find(summary, "simd")->not_quotable,
                ElementsAre("3 other threads were running (in 1 of 24 rounds)"));
    EXPECT_THAT(find(summary, "cpu")->not_quotable, ElementsAre("its thread count was not swept"));
    EXPECT_THAT(find(summary, "bands")->not_quotable, IsEmpty());
    EXPECT_EQ(find(summary, "simd")->against_reference->estimate.rounds, 24);
}

TEST(Analysis, GuardsOfOneKindStandTogether) {
    Synthetic s = Synthetic::ladder();
    for (auto& row : s.session.rows) {
        if (row.rung != "simd" || row.repetition != 0) continue;
        if (row.round < 3)
            row.not_quotable = {"busy machine: " + std::to_string(row.round + 2) + " other threads run"};
        if (row.round == 7) row.invalid = "CRASH: signal 11";
        if (row.round == 8) row.invalid = "CRASH: signal 6";
    }
    const Summary summary = analyse(s.session);
    EXPECT_THAT(find(summary, "simd")->not_quotable,
                ElementsAre("busy machine, such as: 2 other threads run (in 3 of 24 rounds)"));
    ASSERT_EQ(summary.guards.size(), 2u);
    EXPECT_EQ(summary.guards[0].what, "CRASH, such as: signal 11");
    EXPECT_EQ(summary.guards[0].rounds, 2);
    EXPECT_THAT(summary.guards[1].rungs, ElementsAre("simd"));
}

// The runner leaves one row of a rung that failed its gate.
TEST(Analysis, AFailedGatesRowEndsNoSession) {
    Synthetic s = Synthetic::ladder();
    s.add("wrong", "candidate", "bands").gate_failure = "differs";
    SessionRow row;
    row.rung = "wrong";
    row.invalid = "GATE_FAILED: differs";
    s.session.rows.push_back(row);
    const Summary summary = analyse(s.session);
    EXPECT_EQ(summary.rounds, 24);
    EXPECT_EQ(find(summary, "wrong")->state, "gate failed");
    EXPECT_FALSE(find(summary, "wrong")->against_reference);
    EXPECT_THAT(find(summary, "simd")->not_quotable, IsEmpty());
}

TEST(Analysis, ColdOnlyRungsAreComparedColdWithCold) {
    Synthetic s;
    s.add("terminal", "reference");
    s.add("null", "null");
    s.add("warm", "adopted", "terminal");
    s.warm = 0;
    s.time("terminal", 0.1, 2.0);
    s.time("null", 0.1, 2.0);
    s.warm = 3;
    s.time("warm", 0.1, 1.0);
    const Summary summary = analyse(s.session);
    EXPECT_TRUE(reference(summary)->cold_only);
    EXPECT_NEAR(reference(summary)->warm_s, 0.2, 0.002);
    EXPECT_NEAR(find(summary, "warm")->against_reference->estimate.ratio, 2.0, 0.02);
    EXPECT_THAT(find(summary, "warm")->flags, Contains(HasSubstr("cold")));
}

TEST(Analysis, StoppingBetweenLooksIsNotQuotable) {
    Synthetic s = Synthetic::ladder();
    std::erase_if(s.session.rows, [](const SessionRow& row) { return row.round >= 15; });
    EXPECT_THAT(find(analyse(s.session), "simd")->not_quotable, Contains(HasSubstr("after 15 of 24 rounds")));
    s.session.looks = {15, 24};
    const Summary looked = analyse(s.session);
    EXPECT_THAT(find(looked, "simd")->not_quotable, IsEmpty());
    EXPECT_DOUBLE_EQ(looked.family.alpha_per_claim(), 0.05 / 5 / 2);
}

TEST(Analysis, AMachineThatChangesIsNotQuotable) {
    Synthetic s = Synthetic::ladder();
    s.session.environment_after[1].value = "another cpu";
    const Summary summary = analyse(s.session);
    EXPECT_THAT(summary.changed_environment, ElementsAre("cpu: none → another cpu"));  // load may change
    EXPECT_THAT(find(summary, "simd")->not_quotable, Contains(HasSubstr("changed during the session")));
}

TEST(Analysis, PlaceInTheRoundThatMattersIsNoted) {
    Synthetic s = Synthetic::ladder();
    std::mt19937 random(3);
    for (auto& row : s.session.rows) row.slot = (row.round % 2 == 0) ? row.slot : 4 - row.slot;
    for (auto& row : s.session.rows)
        if (row.slot == 0) row.wall_s *= 1.10;
    const Summary summary = analyse(s.session);
    EXPECT_THAT(summary.notes, Contains(HasSubstr("the place in the round matters")));
    EXPECT_THAT(analyse(Synthetic::ladder().session).notes, IsEmpty());
}

TEST(Analysis, EmptySessionIsDescribedNotRefused) {
    Synthetic s = Synthetic::ladder();
    s.session.rows.clear();
    const Summary summary = analyse(s.session);
    EXPECT_FALSE(summary.trust.valid);
    for (const auto& rung : summary.rungs) EXPECT_EQ(rung.state, "not run");
    EXPECT_FALSE(to_json(summary).empty());
    EXPECT_FALSE(to_text(summary, TableStyle::terminal).empty());
}

TEST(Tables, JsonHoldsEveryRungAndParses) {
    Synthetic s = Synthetic::ladder();
    s.add("wrong", "candidate", "bands").gate_failure = "differs";
    const auto json = nlohmann::json::parse(to_json(analyse(s.session)));
    EXPECT_EQ(json["format"], "lightmill ladder summary 1");
    EXPECT_EQ(json["claims"], 7);
    ASSERT_EQ(json["rungs"].size(), 5u);
    EXPECT_EQ(json["rungs"][1]["id"], "simd");
    EXPECT_EQ(json["rungs"][1]["against_reference"]["verdict"], "FASTER");
    EXPECT_EQ(json["rungs"][1]["against_reference"]["rounds"], 24);
    EXPECT_TRUE(json["rungs"][1]["quotable"]);
    EXPECT_EQ(json["rungs"][3]["status"], "rejected");
    EXPECT_TRUE(json["rungs"][4]["warm_s"].is_null());  // failed its gate: no time
    EXPECT_EQ(json["rungs"][4]["state_reason"], "differs");
    EXPECT_FALSE(json["null_arm"]["ratio"].is_null());
}

TEST(Tables, MarkdownEscapesAndAligns) {
    Synthetic s = Synthetic::ladder();
    s.rung("pinned").id = "a|b";
    for (auto& row : s.session.rows)
        if (row.rung == "pinned") row.rung = "a|b";
    const std::string text = to_text(analyse(s.session), TableStyle::markdown);
    EXPECT_THAT(text, HasSubstr("| a\\|b |"));
    EXPECT_THAT(text, HasSubstr("rejected: the same time, one option more"));
    EXPECT_THAT(text, HasSubstr("FASTER"));
    const std::string terminal = to_text(analyse(s.session), TableStyle::terminal);
    EXPECT_THAT(terminal, HasSubstr("a|b"));
    EXPECT_THAT(terminal, Not(HasSubstr("| ---")));
}

TEST(Tables, TimesAndRatiosInWords) {
    EXPECT_EQ(time_text(0), "–");
    EXPECT_EQ(time_text(3e-8), "30 ns");
    EXPECT_EQ(time_text(1.234e-5), "12.3 µs");
    EXPECT_EQ(time_text(0.0123), "12.3 ms");
    EXPECT_EQ(time_text(12.34), "12.3 s");
    EXPECT_EQ(time_text(1234), "1234 s");
    EXPECT_EQ(percent_text(0.0032), "0.3 %");
    EXPECT_EQ(percent_text(0.04), "4 %");
    EXPECT_EQ(percent_text(0.34), "34 %");
    EXPECT_EQ(percent_text(1.45), "145 %");
    Estimate e;
    EXPECT_EQ(ratio_text(e), "–");
    e.rounds = 3;
    e.ratio = 2;
    EXPECT_EQ(ratio_text(e), "2.00 [no interval]");
    e.low = 1.5;
    e.high = 2.5;
    EXPECT_EQ(ratio_text(e), "2.00 [1.50, 2.50]");
}

TEST(Analysis, ARungWhoseSecondRepetitionIsStillSlowIsFlagged) {
    Synthetic s = Synthetic::ladder();
    for (auto& row : s.session.rows)
        if (row.rung == "simd" && row.repetition == 1) row.wall_s *= 1.5;
    const Summary summary = analyse(s.session);
    EXPECT_THAT(find(summary, "simd")->flags,
                Contains(HasSubstr("not settled: repetition 1 takes 50 % longer")));
    EXPECT_THAT(find(summary, "bands")->flags, Not(Contains(HasSubstr("not settled"))));
}

}  // namespace
}  // namespace lightmill::ladder

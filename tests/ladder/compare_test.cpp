#include "lightmill/ladder/report/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/ladder/synthetic_session.hpp"

namespace lightmill::ladder {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::Synthetic;

Synthetic session(unsigned seed, double bands_factor = 1, double everything = 1) {
    Synthetic s;
    s.random.seed(seed);
    s.add("cpu", "reference").configuration = {{"threads", "1"}};
    s.add("null", "null");
    s.add("simd", "adopted", "cpu").configuration = {{"threads", "1"}, {"backend", "simd"}};
    s.add("bands", "adopted", "simd").configuration = {{"threads", "2"}, {"backend", "simd"}};
    s.time("cpu", 0.100 * everything);
    s.time("null", 0.100 * everything);
    s.time("simd", 0.020 * everything);
    s.time("bands", 0.011 * everything * bands_factor);
    return s;
}

const ComparedRung& rung(const Comparison& c, const std::string& id) {
    for (const auto& r : c.rungs)
        if (r.id == id) return r;
    throw std::out_of_range(id);
}

TEST(Compare, AgreeingReferencesGiveFullVerdicts) {
    const Comparison c = compare(analyse(session(1).session), analyse(session(2, 0.9).session), "a", "b");
    EXPECT_THAT(c.why_not, IsEmpty());
    EXPECT_TRUE(c.reference_agrees);
    EXPECT_EQ(c.claims, 2);
    EXPECT_EQ(rung(c, "bands").verdict, "FASTER");
    EXPECT_NEAR(rung(c, "bands").change.ratio, 1 / 0.9, 0.01);
    EXPECT_LT(rung(c, "bands").change.low, 1 / 0.9);
    EXPECT_GT(rung(c, "bands").change.high, 1 / 0.9);
    EXPECT_EQ(rung(c, "simd").verdict, "SAME");
    // The widest quotient that two intervals allow, each at half of what the two claims share.
    const auto d = [](const Summary& s) {
        return estimate(find(s, "bands")->against_reference->d, 0.05 / 2 / 2);
    };
    const Estimate first = d(analyse(session(1).session));
    const Estimate second = d(analyse(session(2, 0.9).session));
    EXPECT_DOUBLE_EQ(rung(c, "bands").change.low, second.low / first.high);
    EXPECT_DOUBLE_EQ(rung(c, "bands").change.high, second.high / first.low);
    const Comparison back = compare(analyse(session(2, 0.9).session), analyse(session(1).session), "b", "a");
    EXPECT_EQ(rung(back, "bands").verdict, "SLOWER");
}

TEST(Compare, AMachineInAnotherMoodIsBridgedAndAtMostLikely) {
    const Comparison c =
        compare(analyse(session(1).session), analyse(session(2, 0.9, 1.2).session), "a", "b");
    EXPECT_FALSE(c.reference_agrees);
    EXPECT_NEAR(c.reference.ratio, 1 / 1.2, 0.01);
    EXPECT_EQ(rung(c, "bands").verdict, "LIKELY FASTER");
    EXPECT_NEAR(rung(c, "bands").change.ratio, 1 / 0.9, 0.01);  // not 1 / (0.9 · 1.2)
    EXPECT_EQ(rung(c, "simd").verdict, "UNRESOLVED");           // SAME needs the reference to agree
    EXPECT_THAT(to_text(c, TableStyle::terminal), HasSubstr("nothing is more than likely"));
}

TEST(Compare, OnlyWhatIsComparable) {
    Synthetic second = session(2);
    second.rung("simd").configuration[0].value = "2";
    second.add("new", "candidate", "bands");
    second.time("new", 0.009);
    second.rung("bands").gate_failure = "differs";
    Synthetic first = session(1);
    first.add("old", "rejected", "bands");
    first.time("old", 0.012);
    const Comparison c = compare(analyse(first.session), analyse(second.session), "a", "b");
    EXPECT_THAT(c.why_not, IsEmpty());
    EXPECT_EQ(c.claims, 0);
    EXPECT_THAT(rung(c, "simd").why_not, HasSubstr("threads: 1 → 2"));
    EXPECT_THAT(rung(c, "new").why_not, HasSubstr("only in the second"));
    EXPECT_THAT(rung(c, "old").why_not, HasSubstr("only in the first"));
    EXPECT_THAT(rung(c, "bands").why_not, HasSubstr("gate failed"));
    EXPECT_THAT(to_text(c, TableStyle::markdown), HasSubstr("* bands: second session: gate failed: differs"));
}

TEST(Compare, NothingAcrossMachinesWorksSubjectsOrInvalidSessions) {
    const Summary first = analyse(session(1).session);
    auto why = [&](auto change) {
        Synthetic s = session(2);
        change(s);
        const Comparison c = compare(first, analyse(s.session), "a", "b");
        for (const auto& r : c.rungs) EXPECT_FALSE(r.why_not.empty());
        EXPECT_THAT(to_text(c, TableStyle::terminal), HasSubstr("Nothing can be compared"));
        return c.why_not;
    };
    EXPECT_THAT(why([](Synthetic& s) { s.session.environment_before[1].value = "another"; }),
                HasSubstr("cpu: none → another"));
    EXPECT_THAT(why([](Synthetic& s) { s.session.work = "more frames"; }), HasSubstr("the work differs"));
    EXPECT_THAT(why([](Synthetic& s) { s.session.subject = "tiles"; }), HasSubstr("subjects differ"));
    EXPECT_THAT(why([](Synthetic& s) { s.rung("cpu").configuration[0].value = "8"; }),
                HasSubstr("configured differently (threads: 1 → 8)"));
    EXPECT_THAT(why([](Synthetic& s) {
                    for (auto& row : s.session.rows)
                        if (row.rung == "null") row.wall_s *= 1.1;
                }),
                HasSubstr("second session is INVALID"));
    EXPECT_THAT(why([](Synthetic& s) { s.session.rows.clear(); }), HasSubstr("INVALID"));
}

TEST(Compare, BuildAndPolicyDifferencesAreNamedNotRefused) {
    Synthetic second = session(2);
    second.session.environment_before.push_back({"compiler", "GNU 13"});
    second.session.policy[1].value = "5";
    const Comparison c = compare(analyse(session(1).session), analyse(second.session), "a", "b");
    EXPECT_THAT(c.why_not, IsEmpty());
    EXPECT_THAT(c.differences, Contains("compiler: not given → GNU 13"));
    EXPECT_THAT(c.differences, Contains("policy: warm: 3 → 5"));
    const auto json = nlohmann::json::parse(to_json(c));
    EXPECT_TRUE(json["comparable"]);
    EXPECT_EQ(json["rungs"][0]["id"], "simd");
    EXPECT_EQ(json["rungs"][0]["change"]["rounds"], 24);
}

// Two sessions of one truth: called different no more often than alpha.
TEST(Compare, IdenticalSessionsAreNotCalledDifferent) {
    int alarms = 0;
    constexpr int k_trials = 200;
    for (unsigned trial = 0; trial < k_trials; ++trial) {
        const Comparison c =
            compare(analyse(session(1000 + trial).session), analyse(session(5000 + trial).session), "a", "b");
        for (const auto& r : c.rungs)
            alarms += r.verdict == "FASTER" || r.verdict == "SLOWER" || r.verdict.rfind("LIKELY", 0) == 0;
    }
    EXPECT_LE(alarms, k_trials / 20);
}

}  // namespace
}  // namespace lightmill::ladder

#include "lightmill/ladder/report/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>

namespace lightmill::ladder {
namespace {

constexpr double k_infinity = std::numeric_limits<double>::infinity();

TEST(Median, OddEvenEmptyAndUnsorted) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
    EXPECT_EQ(median({7}), 7);
    EXPECT_TRUE(std::isnan(median({})));
}

// Ranks and coverages as printed in tables of the confidence interval of a median (Campbell and Gardner 1988,
// Conover 1999 table A3, Gibbons table G).
TEST(OrderStatistics, RanksOfPublishedTables) {
    struct Row {
        int n, rank_95, rank_99;
    };
    for (const Row& row :
         {Row{5, 0, 0}, Row{6, 1, 0}, Row{7, 1, 0}, Row{8, 1, 1}, Row{9, 2, 1}, Row{10, 2, 1}, Row{11, 2, 1},
          Row{12, 3, 2}, Row{15, 4, 3}, Row{17, 5, 3}, Row{20, 6, 4}, Row{25, 8, 6}, Row{30, 10, 8},
          Row{40, 14, 12}, Row{50, 18, 16}, Row{100, 40, 37}}) {
        EXPECT_EQ(order_rank(row.n, 0.05), row.rank_95) << row.n;
        EXPECT_EQ(order_rank(row.n, 0.01), row.rank_99) << row.n;
    }
}

TEST(OrderStatistics, BinomialTailsOfPublishedTables) {
    EXPECT_NEAR(fair_binomial_cdf(6, 0), 0.015625, 1e-12);
    EXPECT_NEAR(fair_binomial_cdf(10, 1), 0.0107, 5e-5);
    EXPECT_NEAR(fair_binomial_cdf(15, 3), 0.0176, 5e-5);
    EXPECT_NEAR(fair_binomial_cdf(20, 5), 0.0207, 5e-5);
    EXPECT_NEAR(fair_binomial_cdf(25, 7), 0.0216, 5e-5);
    EXPECT_NEAR(fair_binomial_cdf(30, 9), 0.0214, 5e-5);
    EXPECT_NEAR(fair_binomial_cdf(30, 30), 1, 1e-12);
    EXPECT_NEAR(fair_binomial_cdf(4000, 2000), 0.5063, 1e-4);  // no underflow: 2^-4000 is below any double
}

TEST(OrderStatistics, MinimumRoundsByFamilySize) {
    auto rounds = [](int claims) { return minimum_rounds(Family{.claims = claims}.alpha_per_claim()); };
    EXPECT_EQ(rounds(1), 6);
    EXPECT_EQ(rounds(3), 7);
    EXPECT_EQ(rounds(7), 9);
    EXPECT_EQ(rounds(10), 9);
    // Rounds from which one dissenting round is tolerated (rank 2).
    EXPECT_EQ(order_rank(12, 0.05 / 7), 2);
    EXPECT_EQ(order_rank(11, 0.05 / 7), 1);
    EXPECT_EQ(order_rank(13, 0.05 / 10), 2);
    EXPECT_EQ(order_rank(12, 0.05 / 10), 1);
    // Rounds that use their rounds well: each is the first with its rank.
    for (int n : {6, 9, 12, 15, 17, 20, 25, 30, 40})
        EXPECT_EQ(order_rank(n, 0.05), order_rank(n - 1, 0.05) + 1) << n;
    for (int n : {9, 12, 16, 19, 24, 30, 32, 40, 48})
        EXPECT_EQ(order_rank(n, 0.05 / 7), order_rank(n - 1, 0.05 / 7) + 1) << n;
}

TEST(Family, ClaimsAndLooksShareOneAlpha) {
    EXPECT_DOUBLE_EQ((Family{.alpha = 0.05, .claims = 5, .looks = 1}.alpha_per_claim()), 0.01);
    EXPECT_DOUBLE_EQ((Family{.alpha = 0.05, .claims = 5, .looks = 2}.alpha_per_claim()), 0.005);
    EXPECT_DOUBLE_EQ((Family{.alpha = 0.05, .claims = 0, .looks = 0}.alpha_per_claim()), 0.05);
}

TEST(Estimate, WorkedByHand) {
    // n = 9 at 95 %: rank 2, so [x(2), x(8)] of these, in an order without trend.
    const std::vector<double> d{0.5, 0.1, 0.8, 0.2, 0.9, 0.3, 0.7, 0.4, 0.6};
    const Estimate e = estimate(d, 0.05);
    EXPECT_EQ(e.rounds, 9);
    EXPECT_FALSE(e.widened);
    EXPECT_DOUBLE_EQ(e.ratio, std::exp(0.5));
    EXPECT_DOUBLE_EQ(e.low, std::exp(0.2));
    EXPECT_DOUBLE_EQ(e.high, std::exp(0.8));
    EXPECT_NEAR(e.half_width(), std::exp(0.3) - 1, 1e-12);
    EXPECT_TRUE(e.bounded());
    EXPECT_TRUE(e.excludes_one());
}

TEST(Estimate, TooFewRoundsHaveNoInterval) {
    const Estimate e = estimate(std::vector<double>{0.1, 0.1, 0.1, 0.1, 0.1}, 0.05);
    EXPECT_FALSE(e.bounded());
    EXPECT_FALSE(e.excludes_one());
    EXPECT_EQ(e.high, k_infinity);
    EXPECT_EQ(e.half_width(), k_infinity);
    EXPECT_DOUBLE_EQ(e.ratio, std::exp(0.1));
    const Estimate none = estimate({}, 0.05);
    EXPECT_EQ(none.rounds, 0);
    EXPECT_TRUE(std::isnan(none.ratio));
    EXPECT_FALSE(none.bounded());
}

TEST(Estimate, CorrelatedRoundsWiden) {
    std::vector<double> steady, trending;
    for (int i = 0; i < 24; ++i) {
        trending.push_back(i * 0.01);
        steady.push_back(((i * 7) % 24) * 0.01);  // the same values, mixed
    }
    const Estimate wide = estimate(trending, 0.05);
    const Estimate narrow = estimate(steady, 0.05);
    EXPECT_TRUE(wide.widened);
    EXPECT_GT(wide.lag1, 0.8);
    EXPECT_FALSE(narrow.widened);
    EXPECT_TRUE(narrow.bounded());
    EXPECT_DOUBLE_EQ(wide.low, 1);  // the whole range: no more can be said
    EXPECT_DOUBLE_EQ(wide.high, std::exp(0.23));
}

Estimate interval(double low, double ratio, double high) {
    Estimate e;
    e.rounds = 24;
    e.low = low;
    e.ratio = ratio;
    e.high = high;
    return e;
}

TEST(Verdicts, EachRule) {
    const SessionTrust quiet = judge_session(interval(0.998, 1.0, 1.002), 0.01);
    ASSERT_TRUE(quiet.valid);
    EXPECT_TRUE(quiet.same_allowed);
    EXPECT_DOUBLE_EQ(quiet.margin, 0.01);
    EXPECT_EQ(judge(interval(1.02, 1.05, 1.08), quiet), Verdict::faster);
    EXPECT_EQ(judge(interval(0.92, 0.95, 0.98), quiet), Verdict::slower);
    EXPECT_EQ(judge(interval(0.995, 1.001, 1.005), quiet), Verdict::same);
    EXPECT_EQ(judge(interval(1.002, 1.004, 1.006), quiet), Verdict::same);  // real, but inside the margin
    EXPECT_EQ(judge(interval(1.002, 1.008, 1.03), quiet),
              Verdict::unresolved);                                            // median inside, interval not
    EXPECT_EQ(judge(interval(0.99, 1.05, 1.10), quiet), Verdict::unresolved);  // holds 1
    EXPECT_EQ(judge(interval(1.0, 1.05, 1.10), quiet), Verdict::unresolved);   // touches 1
    EXPECT_EQ(judge(interval(0, 1.05, k_infinity), quiet), Verdict::unresolved);  // too few rounds
    EXPECT_EQ(judge(interval(1 / 1.01, 1.0, 1.01), quiet), Verdict::same);  // the margin itself is inside
    EXPECT_EQ(judge(interval(0.9900, 1.0, 1.005), quiet), Verdict::unresolved);  // 0.99 lies below 1/1.01
}

TEST(Verdicts, NullArmThatExcludesOneInvalidatesTheSession) {
    for (const Estimate& null_arm :
         {interval(1.001, 1.002, 1.003), interval(0.997, 0.998, 0.999), Estimate{}}) {
        const SessionTrust trust = judge_session(null_arm, 0.01);
        EXPECT_FALSE(trust.valid);
        EXPECT_EQ(judge(interval(2, 2.1, 2.2), trust), Verdict::invalid);
        EXPECT_EQ(judge(interval(0.999, 1, 1.001), trust), Verdict::invalid);
    }
}

TEST(Verdicts, TooFewRoundsForANullIntervalLeaveEverythingOpen) {
    const SessionTrust trust = judge_session(estimate(std::vector<double>{0.0, 0.1, -0.1}, 0.05), 0.01);
    EXPECT_TRUE(trust.valid);
    EXPECT_EQ(trust.margin, k_infinity);
    EXPECT_EQ(judge(interval(2, 2.1, 2.2), trust), Verdict::unresolved);
    EXPECT_EQ(judge(interval(0.999, 1, 1.001), trust), Verdict::unresolved);
}

TEST(Verdicts, WideNullArmRaisesTheMarginAndForbidsSame) {
    const SessionTrust noisy = judge_session(interval(1 / 1.05, 1.0, 1.05), 0.01);
    ASSERT_TRUE(noisy.valid);
    EXPECT_FALSE(noisy.same_allowed);
    EXPECT_NEAR(noisy.margin, 0.05, 1e-12);
    EXPECT_EQ(judge(interval(1.01, 1.04, 1.07), noisy),
              Verdict::unresolved);  // below what the session can see
    EXPECT_EQ(judge(interval(0.999, 1.0, 1.001), noisy),
              Verdict::unresolved);                                     // SAME is not this session's to say
    EXPECT_EQ(judge(interval(2.9, 3.0, 3.1), noisy), Verdict::faster);  // far beyond its width
    EXPECT_EQ(judge(interval(0.4, 0.5, 0.6), noisy), Verdict::slower);
}

TEST(Diagnostics, Lag1AndGroups) {
    EXPECT_DOUBLE_EQ(lag1_autocorrelation(std::vector<double>{1, -1, 1, -1}), -0.75);
    EXPECT_DOUBLE_EQ(lag1_autocorrelation(std::vector<double>{1, 1, -1, -1}), 0.25);
    EXPECT_EQ(lag1_autocorrelation(std::vector<double>{2, 2, 2}), 0);
    EXPECT_EQ(lag1_autocorrelation(std::vector<double>{1, 2}), 0);
    const auto groups = medians_by_group(std::vector<double>{5, 1, 7, 3, 9}, std::vector<int>{1, 0, 1, 0, 1});
    ASSERT_EQ(groups.size(), 2u);
    EXPECT_EQ(groups[0].group, 0);
    EXPECT_EQ(groups[0].count, 2);
    EXPECT_EQ(groups[0].median, 2);
    EXPECT_EQ(groups[1].median, 7);
    EXPECT_TRUE(all_resolved(std::vector<Verdict>{Verdict::same, Verdict::faster, Verdict::invalid}));
    EXPECT_FALSE(all_resolved(std::vector<Verdict>{Verdict::same, Verdict::unresolved}));
}

// ---- simulation: the kinds of data that ladders meet -------------------------------------------
// Each kind gives the times of two arms in one round of a session; `effect` is ln(base/rung).
struct Session {
    std::mt19937_64 random;
    double drift = 0;       // walks over the session, the same for both arms
    bool reversed = false;  // the order of the last round
    explicit Session(std::uint64_t seed) : random(seed) {}
    double normal(double sigma) { return std::normal_distribution<double>(0, sigma)(random); }
    bool chance(double p) { return std::bernoulli_distribution(p)(random); }
    double spike() { return std::exponential_distribution<double>(1 / 0.3)(random); }
};
using Kind = std::function<double(Session&, int round)>;  // returns d without the effect

const std::vector<std::pair<std::string, Kind>>& kinds() {
    static const std::vector<std::pair<std::string, Kind>> k_kinds{
        {"symmetric", [](Session& s, int) { return s.normal(0.02) - s.normal(0.02); }},
        {"spikes in both arms",
         [](Session& s, int) {
             double d = s.normal(0.01) - s.normal(0.01);
             if (s.chance(0.2)) d += s.spike();
             if (s.chance(0.2)) d -= s.spike();
             return d;
         }},
        {"spikes in one arm",
         [](Session& s, int) {
             double d = s.normal(0.01) - s.normal(0.01);
             if (s.chance(0.2)) d += s.spike();
             return d;
         }},
        // 0.4 % from one process to the next, in a random order and then its mirror: a trend as large as the
        // noise over a session, and it must cancel.
        {"drift",
         [](Session& s, int round) {
             s.reversed = round % 2 == 0 ? s.chance(0.5) : !s.reversed;
             const double first = s.drift += 0.004;
             const double second = s.drift += 0.004;
             const double base = s.reversed ? second : first;
             const double rung = s.reversed ? first : second;
             return base - rung + s.normal(0.01) - s.normal(0.01);
         }},
    };
    return k_kinds;
}

double true_median(const Kind& kind) {
    Session session(1);
    std::vector<double> d;
    for (int round = 0; round < 400'000; ++round) d.push_back(kind(session, round));
    return median(std::move(d));
}

TEST(Simulation, IntervalCoversTheMedianAtItsNominalRate) {
    constexpr int k_trials = 3000;
    constexpr double k_tolerance = 0.012;  // three standard errors of a 95 % rate over 3000 trials
    for (const auto& [label, kind] : kinds()) {
        const double truth = std::exp(true_median(kind));
        for (int rounds : {12, 20, 48}) {
            Session session(static_cast<std::uint64_t>(rounds));
            int covered = 0;
            for (int trial = 0; trial < k_trials; ++trial) {
                std::vector<double> d;
                for (int round = 0; round < rounds; ++round) d.push_back(kind(session, round));
                const Estimate e = estimate(d, 0.05);
                if (e.low <= truth && truth <= e.high) ++covered;
            }
            const double rate = static_cast<double>(covered) / k_trials;
            EXPECT_GE(rate, 0.95 - k_tolerance) << label << ", " << rounds << " rounds";
            EXPECT_LE(rate, 0.995) << label << ", " << rounds << " rounds: wider than it has to be";
        }
    }
}

// Why not the interval of a mean: with spikes in one arm it speaks of another number than the median.
TEST(Simulation, StudentsIntervalLosesTheMedianWhereOneArmHasSpikes) {
    constexpr int k_trials = 2000;
    constexpr int k_rounds = 48;
    constexpr double k_t = 2.012;  // 97.5 % quantile, 47 degrees of freedom
    const Kind& kind = kinds()[2].second;
    ASSERT_EQ(kinds()[2].first, "spikes in one arm");
    const double truth = true_median(kind);
    Session session(4);
    int covered = 0;
    for (int trial = 0; trial < k_trials; ++trial) {
        double sum = 0;
        double squares = 0;
        for (int round = 0; round < k_rounds; ++round) {
            const double d = kind(session, round);
            sum += d;
            squares += d * d;
        }
        const double mean = sum / k_rounds;
        const double error = std::sqrt((squares / k_rounds - mean * mean) / (k_rounds - 1));
        if (std::abs(mean - truth) <= k_t * error) ++covered;
    }
    EXPECT_LT(covered, k_trials / 2);
}

// Identical arms: a session (null arm and five claims) may call none of them different more often than alpha.
TEST(Simulation, IdenticalArmsAreNotCalledDifferentBeyondNominal) {
    constexpr int k_trials = 1500;
    constexpr double k_three_sigma = 0.017;
    for (const auto& [label, kind] : kinds()) {
        if (label == "spikes in one arm") continue;  // those arms do differ
        for (int rounds : {12, 24}) {
            const Family family{.claims = 5};
            Session session(static_cast<std::uint64_t>(100 + rounds));
            auto arm = [&] {
                std::vector<double> d;
                for (int round = 0; round < rounds; ++round) d.push_back(kind(session, round));
                return estimate(d, family.alpha_per_claim());
            };
            int alarms = 0;
            int invalid = 0;
            for (int trial = 0; trial < k_trials; ++trial) {
                const SessionTrust trust = judge_session(arm(), 0.0);  // delta 0: only the statistics decide
                if (!trust.valid) ++invalid;
                bool alarm = false;
                for (int claim = 0; claim < family.claims; ++claim) {
                    const Verdict verdict = judge(arm(), trust);
                    if (verdict == Verdict::faster || verdict == Verdict::slower) alarm = true;
                }
                if (alarm) ++alarms;
            }
            EXPECT_LE(static_cast<double>(alarms) / k_trials, 0.05 + k_three_sigma)
                << label << ", " << rounds;
            EXPECT_LE(static_cast<double>(invalid) / k_trials, 0.05 / family.claims + k_three_sigma)
                << label << ", " << rounds;
        }
    }
}

TEST(Simulation, AKnownEffectIsFound) {
    constexpr int k_trials = 500;
    const Family family{.claims = 7};
    Session session(5);
    int found = 0;
    for (int trial = 0; trial < k_trials; ++trial) {
        auto arm = [&](double effect) {
            std::vector<double> d;
            for (int round = 0; round < 24; ++round) d.push_back(effect + session.normal(0.02));
            return estimate(d, family.alpha_per_claim());
        };
        const SessionTrust trust = judge_session(arm(0), 0.01);
        if (judge(arm(0.04), trust) == Verdict::faster && judge(arm(-0.04), trust) == Verdict::slower)
            ++found;
    }
    EXPECT_GE(found, k_trials * 9 /
                         10);  // two standard deviations of d: more than the 12 rounds that 90 % power needs
}

// Paying for the looks keeps the promise; peeking without paying breaks it.
TEST(Simulation, DeclaredLooksKeepTheirAlpha) {
    constexpr int k_trials = 4000;
    auto false_alarms = [&](int looks_paid) {
        Session session(77);
        const double alpha = Family{.looks = looks_paid}.alpha_per_claim();
        int alarms = 0;
        for (int trial = 0; trial < k_trials; ++trial) {
            std::vector<double> d;
            for (int look : {12, 24, 48}) {
                while (static_cast<int>(d.size()) < look) d.push_back(session.normal(0.02));
                if (estimate(d, alpha).excludes_one()) {
                    ++alarms;
                    break;
                }
            }
        }
        return static_cast<double>(alarms) / k_trials;
    };
    EXPECT_LE(false_alarms(3), 0.05);
    EXPECT_GT(false_alarms(1), 0.055);
}

// Rounds that hang together (AR(1), r = 0.6): without the widening the interval would cover far less.
TEST(Simulation, CorrelatedRoundsKeepMostOfTheirCoverage) {
    constexpr int k_trials = 3000;
    Session session(9);
    int plain = 0;
    int widened = 0;
    for (int trial = 0; trial < k_trials; ++trial) {
        std::vector<double> d;
        double x = session.normal(0.02);
        for (int round = 0; round < 48; ++round) d.push_back(x = 0.6 * x + session.normal(0.016));
        const Estimate e = estimate(d, 0.05);
        if (e.low <= 1 && 1 <= e.high) ++widened;
        std::sort(d.begin(), d.end());
        const auto k = static_cast<std::size_t>(order_rank(48, 0.05));
        if (d[k - 1] <= 0 && 0 <= d[48 - k]) ++plain;
    }
    EXPECT_LT(plain, k_trials * 85 / 100);
    EXPECT_GE(widened, k_trials * 90 / 100);
}

}  // namespace
}  // namespace lightmill::ladder

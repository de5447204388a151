#pragma once
// The statistics of the ladder, free of any file or subject: paired log ratios, the exact
// order-statistic interval of their median, verdicts, the null arm, and what is watched beside them.
//
// Why order statistics: they need no shape of the data. With spikes in one arm only, the interval of a mean
// loses the median in most sessions; this one keeps it (tests/ladder/statistics_test.cpp shows both).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace lightmill::ladder {

// NaN for no values.
[[nodiscard]] inline double median(std::vector<double> values) {
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

// P(Binomial(n, 1/2) <= k).
[[nodiscard]] inline double fair_binomial_cdf(int n, int k) {
    double sum = 0;
    for (int i = 0; i <= std::min(k, n); ++i)
        sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) -
                        n * std::log(2.0));
    return std::min(sum, 1.0);
}

// The rank k (1-based) of the interval [x(k), x(n+1-k)] that holds the median of any continuous
// distribution with probability 1 - 2 P(Binomial(n, 1/2) <= k-1) >= 1 - alpha; 0 where n is too small for
// one.
[[nodiscard]] inline int order_rank(int n, double alpha) {
    int k = 0;
    while (k < n / 2 && 2 * fair_binomial_cdf(n, k) <= alpha) ++k;
    return k;
}

// The smallest number of rounds that has an interval at all.
[[nodiscard]] inline int minimum_rounds(double alpha) {
    int n = 2;
    while (order_rank(n, alpha) == 0) ++n;
    return n;
}

// All statements of one session share one chance of being wrong: Bonferroni over the declared claims
// and over the declared looks at the data.
struct Family {
    double alpha = 0.05;  // chance that any interval of the session misses its truth
    int claims = 1;       // distinct pairs (rung, base) that get an interval
    int looks = 1;        // times the data may decide to stop, declared before the first round

    [[nodiscard]] double alpha_per_claim() const {
        return alpha / (std::max(claims, 1) * std::max(looks, 1));
    }
};

// Lag-1 autocorrelation about the mean; 0 for fewer than 3 values or constant ones.
[[nodiscard]] inline double lag1_autocorrelation(std::span<const double> values) {
    if (values.size() < 3) return 0;
    double mean = 0;
    for (double x : values) mean += x / static_cast<double>(values.size());
    double variance = 0;
    double product = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        variance += (values[i] - mean) * (values[i] - mean);
        if (i > 0) product += (values[i] - mean) * (values[i - 1] - mean);
    }
    return variance > 0 ? product / variance : 0;
}

inline constexpr double k_autocorrelation_limit = 0.3;

// What is known about one ratio base/rung: above 1 the rung is faster than its base.
struct Estimate {
    int rounds = 0;  // pairs that count
    double ratio = std::numeric_limits<double>::quiet_NaN();
    double low = 0;  // 0 and infinity where the rounds are too few for an interval
    double high = std::numeric_limits<double>::infinity();
    double lag1 = 0;       // autocorrelation of d from round to round
    bool widened = false;  // rounds were correlated: the interval was widened for it

    [[nodiscard]] bool bounded() const { return low > 0; }
    [[nodiscard]] bool excludes_one() const { return low > 1 || high < 1; }
    // In log space, as a ratio - 1: 0.01 for [0.99, 1.01].
    [[nodiscard]] double half_width() const {
        return bounded() ? std::exp((std::log(high) - std::log(low)) / 2) - 1
                         : std::numeric_limits<double>::infinity();
    }
};

// From d = ln(base) - ln(rung), one a round, in the order of the rounds.
//
// Correlated rounds carry less than their number. The count of d below the median then has a variance
// larger by (1 + r) / (1 - r) (first-order autoregression), so above the limit the ranks move out from the
// middle by the root of that, at most to the smallest and largest d. Only ever wider.
[[nodiscard]] inline Estimate estimate(std::span<const double> d, double alpha) {
    Estimate result;
    result.rounds = static_cast<int>(d.size());
    if (d.empty()) return result;
    std::vector<double> sorted(d.begin(), d.end());
    std::sort(sorted.begin(), sorted.end());
    result.ratio = std::exp(median(sorted));
    result.lag1 = lag1_autocorrelation(d);
    int k = order_rank(result.rounds, alpha);
    if (k > 0 && result.lag1 > k_autocorrelation_limit) {
        const double r = std::min(result.lag1, 0.9);
        const double middle = (result.rounds + 1) / 2.0;
        k = std::max(1, static_cast<int>(std::floor(middle - (middle - k) * std::sqrt((1 + r) / (1 - r)))));
        result.widened = true;
    }
    if (k < 1) return result;
    result.low = std::exp(sorted[static_cast<std::size_t>(k - 1)]);
    result.high = std::exp(sorted[static_cast<std::size_t>(result.rounds - k)]);
    return result;
}

enum class Verdict { faster, slower, same, unresolved, invalid };
[[nodiscard]] inline std::string_view name(Verdict verdict) {
    constexpr std::string_view k_names[] = {"FASTER", "SLOWER", "SAME", "UNRESOLVED", "INVALID"};
    return k_names[static_cast<std::size_t>(verdict)];
}

// What the null arm (the reference run twice under two names) says about the session.
struct SessionTrust {
    bool valid = false;         // false: the null interval excludes 1, or there was no null arm
    bool same_allowed = false;  // false: the null arm is wider than the margin asked for
    double margin = 0;          // the smallest difference that may be claimed, as a ratio - 1
};

// delta: the margin asked for, as a ratio - 1. The margin used is never below the null arm's half width; a
// session wider than delta may still claim what lies beyond its own width, but cannot say SAME. With too few
// rounds for a null interval the margin is infinite: everything is UNRESOLVED.
[[nodiscard]] inline SessionTrust judge_session(const Estimate& null_arm, double delta) {
    SessionTrust trust;
    trust.valid = null_arm.rounds > 0 && !null_arm.excludes_one();
    trust.same_allowed = null_arm.half_width() <= delta;
    trust.margin = std::max(delta, null_arm.half_width());
    return trust;
}

// FASTER/SLOWER: the interval excludes 1 and the median lies beyond the margin. SAME: the whole interval
// lies inside the margin. UNRESOLVED otherwise.
[[nodiscard]] inline Verdict judge(const Estimate& estimate, const SessionTrust& trust) {
    if (!trust.valid) return Verdict::invalid;
    if (!estimate.bounded()) return Verdict::unresolved;
    const double margin = 1 + trust.margin;
    if (estimate.low > 1 && estimate.ratio > margin) return Verdict::faster;
    if (estimate.high < 1 && estimate.ratio < 1 / margin) return Verdict::slower;
    if (trust.same_allowed && estimate.low >= 1 / margin && estimate.high <= margin) return Verdict::same;
    return Verdict::unresolved;
}

// At a declared look a session may stop when nothing is open any more. The looks are paid for in Family.
[[nodiscard]] inline bool all_resolved(std::span<const Verdict> verdicts) {
    return std::none_of(verdicts.begin(), verdicts.end(), [](Verdict v) { return v == Verdict::unresolved; });
}

// Median of the values that share a group, and how many there are: what a place in the round's order does.
struct GroupMedian {
    int group = 0;
    int count = 0;
    double median = 0;
};
[[nodiscard]] inline std::vector<GroupMedian> medians_by_group(std::span<const double> values,
                                                               std::span<const int> groups) {
    std::map<int, std::vector<double>> sorted;
    for (std::size_t i = 0; i < std::min(values.size(), groups.size()); ++i)
        sorted[groups[i]].push_back(values[i]);
    std::vector<GroupMedian> result;
    for (auto& [group, members] : sorted) {
        const int count = static_cast<int>(members.size());
        result.push_back({group, count, median(std::move(members))});
    }
    return result;
}

}  // namespace lightmill::ladder

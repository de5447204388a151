#pragma once
// A session that was never run: rungs with known ratios, noise from a seed.

#include <cmath>
#include <random>
#include <string>

#include "lightmill/ladder/report/session.hpp"

namespace lightmill::ladder::testing_support {

struct Synthetic {
    Session session;
    std::mt19937_64 random{42};
    double sigma = 0.003;  // of ln(time), from process to process
    int rounds = 24;
    int warm = 3;

    Synthetic() {
        session.name = "clusters-3x3";
        session.subject = "clusters";
        session.id = "synthetic";
        session.looks = {24};
        session.planned_rounds = 24;
        session.environment_before = {{"host", "test"}, {"cpu", "none"}, {"load_average", "0.1"}};
        session.environment_after = {{"host", "test"}, {"cpu", "none"}, {"load_average", "0.9"}};
        session.policy = {{"rounds", "24"}, {"warm", "3"}};
    }

    SessionRung& add(const std::string& id, const std::string& status, const std::string& before = {}) {
        SessionRung rung;
        rung.id = id;
        rung.label = "the " + id + " rung";
        rung.status = status;
        rung.before = before;
        session.rungs.push_back(rung);
        return session.rungs.back();
    }

    // One process a round; cold takes `cold_factor` times as long.
    void time(const std::string& id, double seconds, double cold_factor = 1.5) {
        const int slot = slots_++;
        for (int round = 0; round < rounds; ++round) {
            const double process = seconds * std::exp(std::normal_distribution<double>(0, sigma)(random));
            for (int repetition = 0; repetition <= warm; ++repetition) {
                SessionRow row;
                row.rung = id;
                row.round = round;
                row.slot = slot;
                row.repetition = repetition;
                row.wall_s = repetition == 0
                                 ? process * cold_factor
                                 : process * std::exp(std::normal_distribution<double>(0, sigma / 3)(random));
                row.user_s = row.wall_s * 0.9;
                row.minor_faults = repetition == 0 ? 1000 : 10;
                row.peak_rss_bytes = 1 << 20;
                row.items = 100;
                session.rows.push_back(row);
            }
        }
    }

    // A whole small ladder: reference and its null copy, three rungs up, one of them rejected.
    static Synthetic ladder() {
        Synthetic s;
        s.add("cpu", "reference");
        s.add("null", "null");
        s.add("simd", "adopted", "cpu").changes = {"backend: scalar → simd"};
        s.add("bands", "adopted", "simd").changes = {"threads: 1 → 2"};
        auto& twin = s.add("pinned", "rejected", "bands");
        twin.changes = {"pin: off → on"};
        twin.reason = "the same time, one option more";
        s.time("cpu", 0.100);
        s.time("null", 0.100);
        s.time("simd", 0.020);
        s.time("bands", 0.011);
        s.time("pinned", 0.011);
        return s;
    }

    [[nodiscard]] SessionRung& rung(const std::string& id) {
        for (auto& r : session.rungs)
            if (r.id == id) return r;
        return session.rungs.front();
    }

  private:
    int slots_ = 0;
};

}  // namespace lightmill::ladder::testing_support

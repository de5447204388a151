#include "lightmill/ladder/plan/plan.hpp"
#include "lightmill/clusters/find/find.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lightmill/base/error.hpp"
#include "lightmill/subjects/subjects.hpp"

namespace lightmill::ladder {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Ladder parse(const std::string& text) {
    return parse_ladder(text, "dir/a.toml", subjects::all(), {});
}
std::string message_of(const std::string& text) {
    try {
        (void)parse(text);
    } catch (const FormatError& error) {
        return error.what();
    }
    return "accepted";
}

// Lines 1 and 2, then a reference in lines 3 to 5.
const std::string k_head = "name = \"t\"\nsubject = \"demo\"\n";
const std::string k_reference = "[[rung]]\nid = \"a\"\nstatus = \"reference\"\n";

TEST(Plan, ReadsRungsDefaultsAndChanges) {
    const Ladder ladder =
        parse(k_head + "[work]\nitems = 7\n[common]\nspeed = 2\n[policy]\nrounds = 48\n" + k_reference +
              "[[rung]]\nid = \"b\"\nbefore = \"a\"\nstatus = \"rejected\"\nreason = \"slow\"\n"
              "config = { speed = 4.0, method = \"spin\" }\n");
    EXPECT_EQ(ladder.policy.rounds, 48);
    EXPECT_EQ(ladder.policy.repetitions, Policy{}.repetitions);
    EXPECT_EQ(ladder.reference().id, "a");
    EXPECT_THAT(ladder.work_text(), HasSubstr("items=7"));
    const Rung& b = *ladder.find("b");
    EXPECT_EQ(b.status, Status::rejected);
    EXPECT_THAT(b.changes, ElementsAre("method: sleep → spin", "speed: 2 → 4"));
    EXPECT_TRUE(b.compound());
    EXPECT_FALSE(ladder.find("a")->compound());
    EXPECT_THAT(to_text(ladder),
                AllOf(HasSubstr("[compound]"), HasSubstr("slow"), HasSubstr("2 of 2 rungs run here")));
}

struct Bad {
    std::string text;
    std::vector<std::string> says;
};
TEST(Plan, EveryFaultIsNamedWithFileLineFoundAndExpected) {
    const std::string head = k_head + k_reference;
    const std::vector<Bad> all{
        {"name = ", {"line 1", "not TOML"}},
        {k_head, {"no [[rung]]"}},
        {k_head + "colour = 1\n" + k_reference,
         {"line 3", "unknown key 'colour'", "expected one of", "policy"}},
        {"subject = \"demo\"\n" + k_reference, {"'name' is missing"}},
        {"name = 3\nsubject = \"demo\"\n" + k_reference,
         {"line 1", "name", "found integer 3", "expected a text"}},
        {"name = \"../t\"\nsubject = \"demo\"\n" + k_reference, {"line 1", "name: found '../t'", "letters"}},
        {"name = \"my t\"\nsubject = \"demo\"\n" + k_reference, {"line 1", "name: found 'my t'"}},
        {"name = \"t\"\nsubject = \"dmo\"\n" + k_reference, {"line 2", "found 'dmo'", "clusters", "demo"}},
        {k_head + "[[rung]]\nid = \"a\"\n", {"no rung has the status \"reference\""}},
        {head + "[[rung]]\nid = \"b\"\nstatus = \"reference\"\n",
         {"line 6", "second reference", "'a' in line 3"}},
        {head + "[[rung]]\nid = \"a\"\n", {"line 6", "used twice", "line 3"}},
        {head + "[[rung]]\nid = \"null\"\n", {"line 6", "second copy"}},
        {head + "[[rung]]\nid = \"b c\"\n", {"id: found 'b c'"}},
        {head + "[[rung]]\nid = \"b\"\nstatus = \"great\"\n", {"line 8", "found 'great'", "candidate"}},
        {head + "[[rung]]\nid = \"b\"\nstatus = \"rejected\"\n", {"says why"}},
        {head + "[[rung]]\nid = \"b\"\nbefore = \"zz\"\n", {"rung 'b'", "before: found 'zz'"}},
        {head + "[[rung]]\nid = \"b\"\nbefore = \"c\"\n[[rung]]\nid = \"c\"\nbefore = \"b\"\n",
         {"circle", "b -> c -> b"}},
        {head + "[[rung]]\nid = \"b\"\nbefore = \"b\"\n", {"circle", "b -> b"}},
        {head + "config = { speed = 5000.0 }\n", {"line 6", "rung 'a'", "speed: found 5000", "up to 1000"}},
        {head + "config = { speed = nan }\n", {"line 6", "speed: found nan"}},
        {head + "config = { speed = \"fast\" }\n", {"line 6", "speed: found fast", "a number"}},
        {head + "config = { method = \"wait\" }\n", {"line 6", "method: found wait", "sleep, spin, count"}},
        {head + "config = { sped = 1.0 }\n", {"line 6", "sped", "one of method, speed, wrong"}},
        {head + "config = 4\n", {"line 6", "config: found integer 4", "expected a table"}},
        {head + "rounds = 3\n", {"line 6", "unknown key 'rounds'"}},  // a rung cannot change the policy
        {k_head + "[work]\nitems = 0\n" + k_reference, {"line 4", "items: found 0", "from 1"}},
        {k_head + "[policy]\nrounds = 0\n" + k_reference, {"line 4", "rounds: found 0", "from 1"}},
        {k_head + "[policy]\nrounds = 2.5\n" + k_reference,
         {"line 4", "rounds: found 2.5", "a whole number"}},
        {k_head + "[policy]\nround = 2\n" + k_reference, {"line 4", "round"}},
        {k_head + "[gate]\nabsolute = -1\n" + k_reference, {"line 4", "absolute", "from 0"}},
        {k_head + "[[sweep]]\nthreads = 2\n" + k_reference, {"line 4", "threads"}},
        {"name = \"t\"\nsubject = \"demo\"\nrung = 4\n", {"line 3", "found integer 4", "a list of tables"}},
    };
    for (const auto& bad : all) {
        const std::string message = message_of(bad.text);
        EXPECT_THAT(message, HasSubstr("dir/a.toml")) << bad.text;
        for (const auto& part : bad.says) EXPECT_THAT(message, HasSubstr(part)) << bad.text;
    }
}

TEST(Plan, ClustersOptionsThatDoNotGoTogetherAreRefused) {
    const std::string head = "name = \"t\"\nsubject = \"clusters\"\n[work]\nframes = 10\n" + k_reference;
    EXPECT_THAT(message_of(head + "config = { epoch = 3 }\n"), HasSubstr("a divisor of the 10 frames"));
    EXPECT_THAT(message_of(head + "config = { pinned = true }\n"), HasSubstr("cuda"));
    EXPECT_THAT(message_of(head + "config = { streams = 2 }\n"), HasSubstr("rule per_stream"));
    EXPECT_THAT(message_of(head + "config = { hashes = false, batch = 2 }\n"),
                HasSubstr("at least 5, one a call"));
    EXPECT_THAT(message_of(head + "config = { hashes = false, collection = \"copy\" }\n"), HasSubstr("view"));
    EXPECT_THAT(message_of(head + "config = { readers = 2 }\n"), HasSubstr("views without hashes"));
    EXPECT_THAT(message_of(head + "config = { cap = 100 }\n"), HasSubstr("streams"));
    EXPECT_THAT(message_of(head + "config = { engine = \"streams\" }\n"), HasSubstr("backend cuda"));
    EXPECT_THAT(
        message_of(head + "config = { engine = \"streams\", backend = \"cuda\", rule = \"per_stream\", "
                          "chunk = \"half\" }\n"),
        HasSubstr("off, auto, or a number"));
    EXPECT_THAT(message_of("name = \"t\"\nsubject = \"clusters\"\n[work]\nwindow = \"4x4\"\n" + k_reference),
                HasSubstr("line 4"));
}

TEST(Plan, TheLaddersOfTheProjectAreGood) {
    for (const auto* name :
         {"clusters-3x3", "clusters-9x9", "examples/demo", "examples/matrix", "examples/command"}) {
        const auto ladder =
            read_ladder(fmt::format("{}/{}.toml", LIGHTMILL_LADDERS, name), subjects::all(), {});
        EXPECT_GE(ladder.rungs.size(), 2u) << name;
    }
    const auto ladder =
        read_ladder(std::string(LIGHTMILL_LADDERS) + "/clusters-3x3.toml", subjects::all(), {});
    for (const auto* id : {"opt1", "opt2", "opt3", "opt4", "opt5", "opt7", "opt8"}) {
        ASSERT_NE(ladder.find(id), nullptr) << id;
        if (clusters::available_backends().front() != "cuda") {
            EXPECT_THAT(ladder.find(id)->unavailable, HasSubstr("no GPU")) << id;
        } else {
            EXPECT_EQ(ladder.find(id)->unavailable, "") << id;
        }
    }
    EXPECT_THAT(ladder.find("aare")->unavailable, HasSubstr("LIGHTMILL_PEER_PYTHON is not set"));
    EXPECT_FALSE(ladder.sweep.empty());
}

TEST(Plan, TheWorkCanBeAnother) {
    const auto file = std::string(LIGHTMILL_LADDERS) + "/clusters-3x3.toml";
    const auto ladder =
        read_ladder(file, subjects::all(), {}, {parse_setting("frames=768"), parse_setting("judge=simd")});
    EXPECT_THAT(ladder.work_text(), HasSubstr("frames=768"));
    EXPECT_THAT(ladder.work_text(), HasSubstr("judge=simd"));
    EXPECT_THROW((void)read_ladder(file, subjects::all(), {}, {parse_setting("frams=768")}), Error);
    EXPECT_THROW((void)parse_setting("frames"), OptionError);
    EXPECT_EQ(std::get<double>(parse_setting("a=0.5").value), 0.5);
    EXPECT_EQ(std::get<bool>(parse_setting("a=true").value), true);
    EXPECT_EQ(std::get<std::string>(parse_setting("a=3x3").value), "3x3");
}

TEST(Plan, ARoundIsRandomAndTheNextOneItsMirror) {
    std::set<std::vector<std::size_t>> seen;
    std::vector<int> first(5, 0);
    for (int round = 0; round < 200; round += 2) {
        auto order = round_order(5, round, 1);
        seen.insert(order);
        ++first[order.front()];
        auto mirror = round_order(5, round + 1, 1);
        std::reverse(mirror.begin(), mirror.end());
        EXPECT_EQ(order, mirror);
        EXPECT_EQ(order, round_order(5, round, 1));
        std::sort(order.begin(), order.end());
        EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
    }
    EXPECT_GT(seen.size(), 50u);
    for (const int n : first) EXPECT_GT(n, 5);  // of 100; each is first a fifth of the time
    EXPECT_NE(round_order(5, 0, 1), round_order(5, 0, 2));
}

TEST(Subjects, TheFindersFloorIsMemoryOrTheLinkToTheGpu) {
    const Settings work{{"frames", std::int64_t{10}, 0}};
    const auto resource = [&](const std::string& backend) {
        const auto loads = subjects::clusters().loads(work, {{"backend", backend, 0}});
        EXPECT_EQ(loads.size(), 1U);
        EXPECT_EQ(loads.at(0).amount, 2.0 * 10 * 400 * 400);
        return loads.at(0).resource;
    };
    EXPECT_EQ(resource("simd"), "memory_read");
    EXPECT_EQ(resource("cuda"), "host_to_device");
}

}  // namespace
}  // namespace lightmill::ladder

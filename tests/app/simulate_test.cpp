// The verbs simulate and info, as a user runs them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "lightmill/frames/simulated.hpp"
#include "lightmill/frames/truth.hpp"
#include "tests/frames/run_files.hpp"

namespace lightmill::frames {
namespace {

using testing::HasSubstr;

struct Ran {
    int exit_code = -1;
    std::string output;  // both streams
};

class SimulateVerb : public testing::Test {
  protected:
    Ran run(const std::string& arguments) {
        Ran ran;
        const auto command =
            "cd '" + folder.path().string() + "' && '" LIGHTMILL_PROGRAM "' " + arguments + " 2>&1";
        auto* pipe = ::popen(command.c_str(), "r");
        std::array<char, 4096> part{};
        while (const auto size = std::fread(part.data(), 1, part.size(), pipe))
            ran.output.append(part.data(), size);
        const int status = ::pclose(pipe);
        ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        return ran;
    }
    Ran must(const std::string& arguments) {
        auto ran = run(arguments);
        EXPECT_EQ(ran.exit_code, 0) << arguments << "\n" << ran.output;
        return ran;
    }
    TemporaryFolder folder;
};

// Every format holds the frames of the library's generator, whatever the threads, and the truth.
TEST_F(SimulateVerb, WritesIntoEveryFormat) {
    const std::string options =
        " --rows 80 --columns 90 --photons 30 --seed 5 --lost-packets 0.1 --frames 25";
    SimulationOptions simulated;
    simulated.rows = 80;
    simulated.columns = 90;
    simulated.photons = 30;
    simulated.seed = 5;
    simulated.lost_packets = 0.1;
    const Simulation simulation(simulated);
    int threads = 1;
    for (const std::string name : {"a.npy", "b.h5", "c_master_0.json"}) {
        must("simulate " + name + options + " --threads " + std::to_string(threads++));
        const auto source = open(folder / name);
        ASSERT_EQ(source->description().count, 25U) << name;
        Storage storage;
        const auto block = source->read(0, 25, storage);
        std::vector<TruthRecord> expected;
        for (std::uint64_t i = 0; i < 25; ++i) {
            std::vector<Pixel> pixels(80 * 90);
            std::vector<Photon> photons;
            const auto info = simulation.frame(FrameKind::data, i, pixels, &photons);
            EXPECT_EQ(frame_of(block, static_cast<std::int64_t>(i)), pixels) << name << " " << i;
            EXPECT_EQ(block.infos[i].number, i);
            if (name.ends_with(".json")) {
                EXPECT_EQ(block.infos[i].lost_pixels, info.lost_pixels);
            }
            for (const auto& photon : photons) expected.push_back({i, photon});
        }
        EXPECT_EQ(read_truth(folder / (name + ".truth.npy")), expected);
        if (!name.ends_with(".npy")) {
            EXPECT_EQ(source->description().absent_value, Pixel{65535});
        }
    }
}

TEST_F(SimulateVerb, SaysWhatItDid) {
    const auto json = nlohmann::json::parse(
        must("simulate dark.npy --dark --frames 3 --rows 20 --columns 30 --json").output);
    EXPECT_EQ(json["frames"], 3);
    EXPECT_EQ(json["kind"], "dark");
    EXPECT_EQ(json["output"], "dark.npy");
    EXPECT_EQ(json["truth"], nullptr);
    EXPECT_EQ(json["options"]["rows"], 20);
    EXPECT_FALSE(std::filesystem::exists(folder / "dark.npy.truth.npy"));
    EXPECT_EQ(must("simulate quiet.npy --frames 3 --rows 20 --columns 30 --quiet").output, "");
    const auto raw = nlohmann::json::parse(
        must("simulate run.raw --dark --frames 3 --rows 20 --columns 30 --json").output);
    EXPECT_EQ(raw["output"], "run_master_0.json");
    EXPECT_TRUE(std::filesystem::exists(folder / "run_master_0.json"));
}

TEST_F(SimulateVerb, Refuses) {
    must("simulate a.npy --frames 2 --rows 20 --columns 30");
    const auto before = read_bytes(folder / "a.npy");
    auto ran = run("simulate a.npy --frames 3 --rows 20 --columns 30");
    EXPECT_EQ(ran.exit_code, 4);
    EXPECT_THAT(ran.output, HasSubstr("--overwrite"));
    EXPECT_EQ(read_bytes(folder / "a.npy"), before);
    must("simulate a.npy --dark --frames 3 --rows 20 --columns 30 --overwrite");
    EXPECT_FALSE(std::filesystem::exists(folder / "a.npy.truth.npy")) << "of frames that are gone";

    ran = run("simulate b.tiff --frames 2");
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_THAT(ran.output, HasSubstr(".npy"));
    EXPECT_EQ(run("simulate b.npy --frames 2 --noise -1").exit_code, 2);
    EXPECT_EQ(run("simulate b.npy --frames -2").exit_code, 2);
    EXPECT_EQ(run("simulate b.npy --frames 0").exit_code, 2);
    ran = run("simulate b.npy --frames 1000000000");  // 320 TB
    EXPECT_EQ(ran.exit_code, 4);
    EXPECT_THAT(ran.output, HasSubstr("320000000000000 bytes"));
    EXPECT_EQ(run("simulate b.h5 --frames 2 --compression zip").exit_code, 2);
    EXPECT_EQ(run("simulate none/b.npy --frames 2").exit_code, 4);
    EXPECT_EQ(run("simulate").exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(folder / "b.npy"));
    EXPECT_FALSE(std::filesystem::exists(folder / "b.npy.partial"));
}

TEST_F(SimulateVerb, InfoSaysWhatAFileIs) {
    must("simulate a.npy --frames 4 --rows 20 --columns 30 --photons 5");
    must("simulate b.h5 --frames 5 --rows 20 --columns 30 --photons 5 --lost-packets 0.5");
    const auto json = nlohmann::json::parse(must("info a.npy b.h5 a.npy.truth.npy --json").output)["files"];
    EXPECT_EQ(json[0]["file"], "a.npy");
    EXPECT_EQ(json[0]["kind"], "frames");
    EXPECT_EQ(json[0]["format"], "npy");
    EXPECT_EQ(json[0]["frames"], 4);
    EXPECT_EQ(json[0]["shape"], (std::vector<int>{20, 30}));
    EXPECT_EQ(json[0]["absent_value"], nullptr);
    EXPECT_EQ(json[1]["format"], "hdf5");
    EXPECT_EQ(json[1]["absent_value"], 65535);
    EXPECT_EQ(json[2]["kind"], "truth");
    EXPECT_EQ(json[2]["photons"], read_truth(folder / "a.npy.truth.npy").size());
    const auto text = must("info a.npy").output;
    EXPECT_THAT(text, HasSubstr("20 rows × 30 columns"));
}

TEST_F(SimulateVerb, InfoScansFrameNumbersAndLostPackets) {
    RawWriteOptions options;
    options.detector = Detector::moench;
    write_run(folder / "run_master_0.json", {80, 80}, options, {5, 6, 9, 6, 8}, [](auto number) {
        RawLosses losses;
        if (number == 9) losses.packets.push_back({0, 1});
        return losses;
    });
    const auto json = nlohmann::json::parse(must("info run_master_0.json --scan --json").output)["files"][0];
    EXPECT_EQ(json["lost_pixels"], 3200);
    EXPECT_EQ(json["frames_with_lost_pixels"], 1);
    EXPECT_EQ(json["frame_numbers"], (std::vector<int>{5, 8}));
    EXPECT_EQ(json["anomalies"]["missing"], std::vector<int>{7});
    EXPECT_EQ(json["anomalies"]["repeated"], std::vector<int>{6});
    EXPECT_EQ(json["anomalies"]["out_of_order"], std::vector<int>{8});
}

TEST_F(SimulateVerb, InfoGoesOnAfterAnError) {
    must("simulate a.npy --frames 4 --rows 20 --columns 30");
    write_bytes(folder / "bad.npy", "no array");
    const auto ran = run("info bad.npy a.npy none.npy");
    EXPECT_EQ(ran.exit_code, 3);
    EXPECT_THAT(ran.output, HasSubstr("bad.npy, byte 0"));
    EXPECT_THAT(ran.output, HasSubstr("20 rows × 30 columns"));
    EXPECT_THAT(ran.output, HasSubstr("none.npy: open failed"));
}

}  // namespace
}  // namespace lightmill::frames

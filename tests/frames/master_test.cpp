// The master file: which keys are taken, which are refused and in which words, and where each port's
// image lies.

#include "lightmill/frames/master.hpp"

#include <gmock/gmock.h>

#include "run_files.hpp"

namespace lightmill::frames {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As a receiver of version 7.2 writes it.
const std::string k_v7 = R"({
    "Version": 7.2,
    "Timestamp": "Tue Feb 20 08:29:19 2024",
    "Detector Type": "Jungfrau",
    "Timing Mode": "auto",
    "Geometry": {"x": 1, "y": 2},
    "Image Size in bytes": 524288,
    "Pixels": {"x": 1024, "y": 256},
    "Max Frames Per File": 3,
    "Frame Discard Policy": "nodiscard",
    "Frame Padding": 1,
    "Scan Parameters": "[disabled]",
    "Total Frames": 10,
    "Receiver Roi": {"xmin": 4294967295, "xmax": 4294967295, "ymin": 4294967295, "ymax": 4294967295},
    "Exptime": "10us",
    "Period": "1ms",
    "Number of UDP Interfaces": 2,
    "Number of rows": 512,
    "Frames in File": 10
})";

const std::string k_v8 = R"({
    "Version": 8.0,
    "Timestamp": "Tue Feb 20 08:29:19 2025",
    "Detector Type": "Moench",
    "Timing Mode": "auto",
    "Geometry": {"x": 1, "y": 1},
    "Image Size": 320000,
    "Pixels": {"x": 400, "y": 400},
    "Max Frames Per File": 100000,
    "Frame Discard Policy": "nodiscard",
    "Frame Padding": 1,
    "Scan Parameters": {"enable": 0, "dacInd": 0, "start offset": 0, "stop offset": 0, "step size": 0, "dac settle time ns": 0},
    "Total Frames": 10,
    "Receiver Rois": [{"xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1}],
    "Exposure Time": "10us",
    "Acquisition Period": "1ms",
    "Number of UDP Interfaces": 1,
    "Number of rows": 400,
    "Frames in File": 10,
    "Readout Speed": "full_speed"
})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

TEST(Master, Version7) {
    const auto m = parse_master(k_v7, "m");
    EXPECT_EQ(m.version, 7.2);
    EXPECT_EQ(m.detector, Detector::jungfrau);
    EXPECT_EQ(m.ports_x, 1);
    EXPECT_EQ(m.ports_y, 2);
    EXPECT_EQ(m.port_shape, (Shape{256, 1024}));
    EXPECT_EQ(m.bits, 16);
    EXPECT_EQ(m.udp_interfaces, 2);
    EXPECT_EQ(m.max_frames_per_file, 3U);
    EXPECT_EQ(m.frames_in_file, 10U);
    EXPECT_FALSE(m.roi);
    EXPECT_EQ(packet_bytes(m), 8192);
    EXPECT_EQ(packets_per_image(m), 64);
}

TEST(Master, Version8) {
    const auto m = parse_master(k_v8, "m");
    EXPECT_EQ(m.version, 8.0);
    EXPECT_EQ(m.detector, Detector::moench);
    EXPECT_EQ(m.port_shape, (Shape{400, 400}));
    EXPECT_FALSE(m.roi);
    EXPECT_EQ(packet_bytes(m), 6400);
    EXPECT_EQ(packets_per_image(m), 50);
}

TEST(Master, UnknownAndLaterAreTaken) {
    EXPECT_NO_THROW((void)parse_master(replaced(k_v7, "{", R"({"New": [1, {"a": null}], )"), "m"));
    EXPECT_EQ(parse_master(replaced(k_v8, "8.0", "9.3"), "m").version, 9.3);
    EXPECT_EQ(
        parse_master(
            replaced(k_v8, R"("Receiver Rois": [{"xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1}],)", ""),
            "m")
            .roi,
        std::nullopt);
    EXPECT_EQ(
        parse_master(replaced(k_v8, R"([{"xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1}])", "[]"), "m").roi,
        std::nullopt);
    EXPECT_EQ(parse_master(replaced(k_v7, R"("Jungfrau")", R"("JUNGFRAU")"), "m").detector,
              Detector::jungfrau);
    EXPECT_FALSE(parse_master(replaced(k_v7, R"(,
    "Frames in File": 10)",
                                       ""),
                              "m")
                     .frames_in_file);
}

TEST(Master, RegionsIncludeTheirLastPixels) {
    const auto v7 =
        replaced(k_v7, R"({"xmin": 4294967295, "xmax": 4294967295, "ymin": 4294967295, "ymax": 4294967295})",
                 R"({"xmin": 0, "xmax": 1023, "ymin": 10, "ymax": 511})");
    const auto roi = parse_master(v7, "m").roi.value();
    EXPECT_EQ(roi.first_row, 10);
    EXPECT_EQ(roi.last_row, 512);
    EXPECT_EQ(roi.first_column, 0);
    EXPECT_EQ(roi.last_column, 1024);
    const auto v8 = replaced(k_v8, R"({"xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1})",
                             R"({"xmin": 5, "xmax": 5, "ymin": 399, "ymax": 399})");
    EXPECT_EQ(layout(parse_master(v8, "m")).shape, (Shape{1, 1}));
}

struct Refusal {
    std::string name;
    std::string from, to;  // in the version 7.2 text
    std::vector<std::string> words;
};
void PrintTo(const Refusal& r, std::ostream* out) {
    *out << r.name;
}
class MasterRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(MasterRefuses, NamingTheKey) {
    const auto& r = GetParam();
    const auto text = replaced(k_v7, r.from, r.to);
    const auto message = message_of<FormatError>([&] { (void)parse_master(text, "run_master_0.json"); });
    EXPECT_THAT(message, HasSubstr("run_master_0.json"));
    for (const auto& words : r.words) EXPECT_THAT(message, HasSubstr(words));
}

const std::string k_no_roi =
    R"({"xmin": 4294967295, "xmax": 4294967295, "ymin": 4294967295, "ymax": 4294967295})";

INSTANTIATE_TEST_SUITE_P(
    All, MasterRefuses,
    ::testing::Values(
        Refusal{"cut", "\"Frames in File\": 10\n}", "\"Frames in", {"not JSON", "byte 612", "line 19"}},
        Refusal{"an_array", k_v7, "[1, 2]", {"found a JSON array", "expected an object"}},
        Refusal{"empty", k_v7, "", {"not JSON"}},
        Refusal{"version_text", "7.2", "\"7.2\"", {"\"Version\"", "found \"7.2\"", "7.0 or later"}},
        Refusal{"version_6", "7.2", "6.4", {"\"Version\"", "found 6.4", "7.0 or later", "byte 6"}},
        Refusal{"version_missing", "\"Version\"", "\"Wersion\"", {"no key \"Version\""}},
        Refusal{"detector", "\"Jungfrau\"", "\"Mythen3\"", {"found \"Mythen3\"", "\"Moench\""}},
        Refusal{"detector_number", "\"Jungfrau\"", "3", {"\"Detector Type\"", "found 3"}},
        Refusal{"geometry_missing", "\"Geometry\"", "\"Shape\"", {"no key \"Geometry\""}},
        Refusal{"geometry_list", R"({"x": 1, "y": 2})", "[1, 2]", {"\"Geometry\"", "member \"x\""}},
        Refusal{"geometry_negative",
                R"({"x": 1, "y": 2})",
                R"({"x": 1, "y": -2})",
                {"found -2", "from 1 to 4096"}},
        Refusal{"geometry_zero", R"({"x": 1, "y": 2})", R"({"x": 0, "y": 2})", {"found 0", "from 1"}},
        Refusal{"geometry_fraction",
                R"({"x": 1, "y": 2})",
                R"({"x": 1.5, "y": 2})",
                {"found 1.5", "whole number"}},
        Refusal{"geometry_text", R"({"x": 1, "y": 2})", R"({"x": "1", "y": 2})", {"found \"1\""}},
        Refusal{"geometry_absurd",
                R"({"x": 1, "y": 2})",
                R"({"x": 4096, "y": 4096})",
                {"found 4096", "from 1 to 1"}},
        Refusal{
            "half_module", R"({"x": 1, "y": 2})", R"({"x": 1, "y": 3})", {"\"Geometry\"", "whole modules"}},
        Refusal{"pixels_absurd",
                R"({"x": 1024, "y": 256})",
                R"({"x": 1000000, "y": 1000000})",
                {"\"Pixels\"", "to 65536"}},
        Refusal{"pixels_too_many",
                R"({"x": 1024, "y": 256})",
                R"({"x": 65536, "y": 65536})",
                {"\"Pixels\"", "268435456"}},
        Refusal{"pixels_huge_number",
                R"({"x": 1024, "y": 256})",
                R"({"x": 18446744073709551615, "y": 256})",
                {"found 18446744073709551615"}},
        Refusal{"image_size",
                "524288",
                "524289",
                {"\"Image Size in bytes\"", "found 524289", "524288: 256 × 1024 pixels of 16 bits"}},
        Refusal{"image_size_negative", "524288", "-524288", {"found -524288"}},
        Refusal{"image_size_missing",
                "\"Image Size in bytes\"",
                "\"Other\"",
                {"no key \"Image Size in bytes\" nor \"Image Size\""}},
        Refusal{"bits_32",
                "\"Exptime\"",
                "\"Dynamic Range\": 32, \"Exptime\"",
                {"\"Dynamic Range\"", "found 32", "8 or 16 bits"}},
        Refusal{
            "bits_4", "\"Exptime\"", "\"Dynamic Range\": 4, \"Exptime\"", {"\"Dynamic Range\"", "found 4"}},
        Refusal{"bits_8_with_16_bit_size",
                "\"Exptime\"",
                "\"Dynamic Range\": 8, \"Exptime\"",
                {"pixels of 8 bits"}},
        Refusal{"a_number_beyond_double", "524288", "85e428", {"not JSON", "85e428"}},
        Refusal{"interfaces",
                "\"Number of UDP Interfaces\": 2",
                "\"Number of UDP Interfaces\": 3",
                {"found 3", "from 1 to 2"}},
        Refusal{"frames_negative", "\"Frames in File\": 10", "\"Frames in File\": -10", {"found -10"}},
        Refusal{
            "max_frames_negative", "\"Max Frames Per File\": 3", "\"Max Frames Per File\": -3", {"found -3"}},
        Refusal{"roi_outside",
                k_no_roi,
                R"({"xmin": 0, "xmax": 1024, "ymin": 0, "ymax": 1})",
                {"\"Receiver Roi\"", "xmax < 1024"}},
        Refusal{"roi_reversed",
                k_no_roi,
                R"({"xmin": 9, "xmax": 8, "ymin": 0, "ymax": 1})",
                {"\"Receiver Roi\""}},
        Refusal{"roi_half_set",
                k_no_roi,
                R"({"xmin": 0, "xmax": 8, "ymin": -1, "ymax": -1})",
                {"\"Receiver Roi\""}},
        Refusal{"roi_member_missing", k_no_roi, R"({"xmin": 0, "xmax": 8, "ymin": 0})", {"member \"ymax\""}},
        Refusal{"roi_text", k_no_roi, R"("none")", {"\"Receiver Roi\"", "found \"none\""}},
        Refusal{
            "two_rois",
            "\"Receiver Roi\": " + k_no_roi,
            R"("Receiver Rois": [{"xmin": 0, "xmax": 8, "ymin": 0, "ymax": 9}, {"xmin": 10, "xmax": 12, "ymin": 0, "ymax": 9}])",
            {"\"Receiver Rois\"", "expected one region"}},
        Refusal{"rois_object",
                "\"Receiver Roi\": " + k_no_roi,
                R"("Receiver Rois": {"xmin": 0})",
                {"an array of regions"}},
        Refusal{"quad", "\"Exptime\"", "\"Quad\": 1, \"Exptime\"", {"\"Quad\""}}),
    [](const auto& test) { return test.param.name; });

TEST(MasterRefusesMore, MoenchInReadoutOrder) {
    const auto text = replaced(k_v8, "\"Readout Speed\"", "\"Analog Samples\": 5000, \"Readout Speed\"");
    EXPECT_THAT(message_of<FormatError>([&] { (void)parse_master(text, "m"); }), HasSubstr("readout order"));
}
TEST(MasterRefusesMore, MorePacketsThanTheMaskHolds) {
    const auto text = replaced(replaced(k_v8, R"({"x": 400, "y": 400})", R"({"x": 4000, "y": 4000})"),
                               "320000", "32000000");
    EXPECT_THAT(message_of<FormatError>([&] { (void)parse_master(text, "m"); }),
                HasSubstr("at most 512 packets"));
}
TEST(MasterRefusesMore, DeepNesting) {
    const std::string deep(200'000, '[');
    EXPECT_THAT(message_of<FormatError>([&] { (void)parse_master(deep, "m"); }), HasSubstr("not JSON"));
}

TEST(Layout, PortsRunThroughModulesThenDownThenAcross) {
    RawMaster m;
    m.ports_x = 2;
    m.ports_y = 4;
    m.udp_interfaces = 2;
    m.port_shape = {256, 1024};
    const auto l = layout(m);
    EXPECT_EQ(l.shape, (Shape{1024, 2048}));
    ASSERT_EQ(l.ports.size(), 8U);
    // Module (0, 0): ports 0 and 1; module (1, 0): 2 and 3; module (0, 1): 4 and 5; …
    const std::vector<std::pair<int, int>> expected{{0, 0},    {256, 0},    {512, 0},    {768, 0},
                                                    {0, 1024}, {256, 1024}, {512, 1024}, {768, 1024}};
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(l.ports[i].index, static_cast<std::int64_t>(i));
        EXPECT_EQ(l.ports[i].first_row, expected[i].first);
        EXPECT_EQ(l.ports[i].first_column, expected[i].second);
    }
    EXPECT_THAT(l.module_rows, ElementsAre(512));
    EXPECT_THAT(l.module_columns, ElementsAre(1024));
}

TEST(Layout, EigerPortsRunAcrossAHalfModuleFirst) {
    RawMaster m;
    m.detector = Detector::eiger;
    m.ports_x = 2;
    m.ports_y = 4;
    m.port_shape = {256, 512};
    const auto l = layout(m);
    const std::vector<std::pair<int, int>> expected{{0, 0},   {0, 512},   {256, 0}, {256, 512},
                                                    {512, 0}, {512, 512}, {768, 0}, {768, 512}};
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(l.ports[i].first_row, expected[i].first);
        EXPECT_EQ(l.ports[i].first_column, expected[i].second);
        EXPECT_EQ(l.ports[i].flipped, i % 4 < 2);
    }
    EXPECT_THAT(l.module_rows, ElementsAre(512));
    EXPECT_TRUE(l.module_columns.empty());
}

TEST(Layout, ARegionCutsPortsAndLeavesOthersOut) {
    RawMaster m;
    m.ports_x = 2;
    m.ports_y = 2;
    m.udp_interfaces = 2;
    m.port_shape = {256, 1024};
    m.roi = Region{250, 260, 1000, 1024};
    const auto l = layout(m);
    EXPECT_EQ(l.shape, (Shape{10, 24}));
    ASSERT_EQ(l.ports.size(), 2U);
    EXPECT_EQ(l.ports[0].index, 0);
    EXPECT_EQ(l.ports[0].shape, (Shape{6, 24}));
    EXPECT_EQ(l.ports[0].skipped_rows, 250);
    EXPECT_EQ(l.ports[0].skipped_columns, 1000);
    EXPECT_EQ(l.ports[1].index, 1);
    EXPECT_EQ(l.ports[1].first_row, 6);
    EXPECT_EQ(l.ports[1].shape, (Shape{4, 24}));
    EXPECT_TRUE(l.module_rows.empty()) << "both ports are one module";
    EXPECT_TRUE(l.module_columns.empty());
}

TEST(Layout, AFlippedPortStoresItsLastRowFirst) {
    RawMaster m;
    m.detector = Detector::eiger;
    m.ports_x = m.ports_y = 2;
    m.port_shape = {8, 12};
    // Rows 1 to 5 of the upper ports are their stored rows 2 to 6; rows 9, 10 of the detector are 1, 2 below.
    m.roi = Region{1, 6, 0, 24};
    EXPECT_EQ(layout(m).ports.front().skipped_rows, 2);
    m.roi = Region{9, 11, 0, 24};
    EXPECT_EQ(layout(m).ports.front().skipped_rows, 1);
}

TEST(Names, AreTakenApart) {
    const auto name = parse_raw_name("/data/a_master_b_master_12.json");
    EXPECT_EQ(name.base, "a_master_b");
    EXPECT_EQ(name.subfile(3, 45), "/data/a_master_b_d3_f45_12.raw");
    EXPECT_EQ(parse_raw_name("run_master_0.json").subfile(0, 0), "./run_d0_f0_0.raw");
    for (const auto* wrong : {"run.json", "run_master_.json", "run_master_x.json", "run_master_0.txt"})
        EXPECT_THROW((void)parse_raw_name(wrong), FormatError) << wrong;
}

}  // namespace
}  // namespace lightmill::frames

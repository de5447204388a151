// Runs of the receiver's format: what was written comes back, and what was lost is named.

#include "lightmill/frames/raw.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "run_files.hpp"

namespace lightmill::frames {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Numbers = std::vector<std::uint64_t>;

Numbers count_from(std::uint64_t first, std::size_t n) {
    Numbers numbers(n);
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
}

std::uint64_t anomalies_in_all(const Source& source) {
    const auto a = source.anomalies();
    return a.missing_frames + a.repeated_frames + a.out_of_order_frames;
}

class Raw : public ::testing::Test {
  protected:
    TemporaryFolder folder_;
    std::string master_ = folder_ / "run_master_7.json";
    std::string data(int port, int subfile) const {
        return folder_ / ("run_d" + std::to_string(port) + "_f" + std::to_string(subfile) + "_7.raw");
    }
    Storage storage_;
};

struct Case {
    std::string name;
    Shape detector;
    RawWriteOptions options;
    std::vector<std::int64_t> module_rows, module_columns;
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

class RawRoundTrip : public ::testing::TestWithParam<Case> {};

TEST_P(RawRoundTrip, GivesBackEveryPixel) {
    const auto& c = GetParam();
    const TemporaryFolder folder;
    const auto master = folder / "run_master_0.json";
    write_run(master, c.detector, c.options, count_from(5, 11));

    const auto source = open(master);
    const auto& d = source->description();
    EXPECT_EQ(d.format, "raw");
    EXPECT_EQ(d.count, 11U);
    EXPECT_EQ(d.bits, c.options.bits);
    EXPECT_EQ(d.absent_value, k_raw_absent);
    EXPECT_EQ(d.gain_bits, c.options.detector == Detector::jungfrau);
    EXPECT_EQ(d.module_rows, c.module_rows);
    EXPECT_EQ(d.module_columns, c.module_columns);
    // In blocks of every length, so that each boundary of sub-files is met in each way.
    for (std::uint64_t length = 1; length <= 11; ++length) {
        Storage storage;
        for (std::uint64_t first = 0; first < 11; first += length) {
            const auto block = source->read(first, std::min(length, 11 - first), storage);
            for (std::size_t i = 0; i < block.infos.size(); ++i) {
                const auto number = 5 + first + i;
                ASSERT_EQ(block.infos[i], (FrameInfo{number, 0}));
                auto expected = pattern_frame(c.detector, number, c.options.bits == 8 ? 256 : 16'384);
                if (c.options.roi) expected = part(expected, c.detector, *c.options.roi);
                ASSERT_EQ(frame_of(block, static_cast<std::int64_t>(i)), expected) << "frame " << number;
            }
        }
    }
    EXPECT_EQ(anomalies_in_all(*source), 0U);
}

RawWriteOptions with(Detector detector, std::int64_t ports_x, std::int64_t ports_y, int interfaces, int bits,
                     bool version_8, std::uint64_t per_file, std::optional<Region> roi = {}) {
    RawWriteOptions options;
    options.detector = detector;
    options.ports_x = ports_x;
    options.ports_y = ports_y;
    options.udp_interfaces = interfaces;
    options.bits = bits;
    options.version_8 = version_8;
    options.max_frames_per_file = per_file;
    options.roi = roi;
    return options;
}

INSTANTIATE_TEST_SUITE_P(
    All, RawRoundTrip,
    ::testing::Values(
        Case{"one_file", {12, 10}, with(Detector::jungfrau, 1, 1, 1, 16, false, 0), {}, {}},
        Case{"sub_files", {12, 10}, with(Detector::jungfrau, 1, 1, 1, 16, false, 3), {}, {}},
        Case{"one_frame_a_file", {12, 10}, with(Detector::jungfrau, 1, 1, 1, 16, true, 1), {}, {}},
        Case{"two_interfaces", {12, 10}, with(Detector::jungfrau, 1, 2, 2, 16, false, 3), {}, {}},
        Case{"two_by_two_modules", {24, 20}, with(Detector::jungfrau, 2, 4, 2, 16, true, 4), {12}, {10}},
        Case{"three_modules_across", {6, 30}, with(Detector::jungfrau, 3, 1, 1, 16, false, 5), {}, {10, 20}},
        Case{"three_modules_down", {18, 10}, with(Detector::moench, 1, 3, 1, 16, false, 5), {6, 12}, {}},
        Case{"moench_packets", {400, 400}, with(Detector::moench, 1, 1, 1, 16, true, 6), {}, {}},
        Case{"bytes", {12, 10}, with(Detector::jungfrau, 1, 2, 2, 8, false, 3), {}, {}},
        Case{"bytes_across", {12, 21}, with(Detector::moench, 3, 2, 1, 8, true, 3), {6}, {7, 14}},
        // Rows of even port rows are stored from the last to the first.
        Case{"eiger", {16, 24}, with(Detector::eiger, 4, 4, 1, 16, false, 3), {8}, {12}},
        Case{"eiger_bytes", {8, 12}, with(Detector::eiger, 2, 2, 1, 8, false, 3), {}, {}},
        Case{"roi_in_one_port",
             {12, 10},
             with(Detector::jungfrau, 1, 1, 1, 16, false, 3, Region{2, 7, 3, 9}),
             {},
             {}},
        Case{"roi_across_ports",
             {24, 20},
             with(Detector::jungfrau, 2, 4, 2, 16, true, 4, Region{5, 14, 8, 20}),
             {7},
             {2}},
        Case{"roi_leaves_ports_out",
             {24, 20},
             with(Detector::jungfrau, 2, 4, 2, 16, false, 4, Region{13, 24, 0, 10}),
             {},
             {}},
        Case{"roi_of_one_pixel",
             {24, 20},
             with(Detector::jungfrau, 2, 4, 2, 16, false, 4, Region{23, 24, 19, 20}),
             {},
             {}},
        Case{"roi_flipped",
             {16, 24},
             with(Detector::eiger, 4, 4, 1, 16, false, 3, Region{1, 11, 5, 20}),
             {7},
             {7}},
        Case{"one_row", {1, 40}, with(Detector::jungfrau, 2, 1, 1, 16, false, 3), {}, {20}}),
    [](const auto& test) { return test.param.name; });

TEST_F(Raw, HeaderByteForByte) {
    RawWriteOptions options;
    options.ports_y = 2;
    options.udp_interfaces = 2;
    RawWriter writer(master_, {16, 1024}, options);  // 8 × 1024 pixels of 2 bytes a port: two packets
    writer.write(0x0102030405060708, pattern_frame({16, 1024}, 1), {{{1, 0}}, {}});
    writer.finish();
    const auto bytes = read_bytes(data(1, 0));
    ASSERT_EQ(bytes.size(), 112U + 8 * 1024 * 2);
    const unsigned char expected[112] = {
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,  // frame number
        100,  0,    0,    0,                             // exposure length
        1,    0,    0,    0,                             // packets caught: one of two
        0,    0,    0,    0,    0,    0,    0,    0,     // detector specific 1
        0x80, 0xa8, 0x72, 0x3b, 0x04, 0xcd, 0x95, 0x5e,  // timestamp: the number times 10000, mod 2^64
        0,    0,    1,    0,    0,    0,    0,    0,     // module, row, column, detector specific 2
        0,    0,    0,    0,    0,    0,                 // detector specific 3 and 4
        3,    2,                                         // detector type, header version
        0x02,                                            // packets 0 (lost) and 1
    };
    EXPECT_EQ(bytes.substr(0, 112), std::string(reinterpret_cast<const char*>(expected), 112));
    // Padding: the lost packet's 8192 bytes are ones.
    EXPECT_EQ(bytes.substr(112, 8192), std::string(8192, '\xff'));
    EXPECT_NE(bytes[112 + 8192], '\xff');
}

TEST_F(Raw, LostPacketsAreAbsentPixelsAlsoWithoutPadding) {
    for (const bool padding : {true, false}) {
        RawWriteOptions options;
        options.padding = padding;
        options.overwrite = true;
        const Shape shape{512, 1024};  // 128 packets of four rows
        write_run(master_, shape, options, {1, 2, 3}, [](auto number) {
            return number == 2 ? RawLosses{{{0, 0}, {0, 77}, {0, 127}}, {}} : RawLosses{};
        });
        const auto source = open(master_);
        const auto block = source->read(0, 3, storage_);
        EXPECT_EQ(frame_of(block, 0), pattern_frame(shape, 1));
        EXPECT_EQ(frame_of(block, 2), pattern_frame(shape, 3));
        EXPECT_EQ(block.infos[0].lost_pixels, 0U);
        EXPECT_EQ(block.infos[1].lost_pixels, 3U * 4096);
        auto expected = pattern_frame(shape, 2);
        for (const int packet : {0, 77, 127})
            std::fill_n(expected.begin() + packet * 4096, 4096, k_raw_absent);
        EXPECT_EQ(frame_of(block, 1), expected) << "padding " << padding;
    }
}

TEST_F(Raw, MoenchPacketsAreEightRowsOf400) {
    RawWriteOptions options;
    options.detector = Detector::moench;
    options.padding = false;
    const Shape shape{400, 400};
    write_run(master_, shape, options, {9}, [](auto) { return RawLosses{{{0, 49}}, {}}; });
    const auto source = open(master_);
    const auto block = source->read(0, 1, storage_);
    EXPECT_EQ(block.infos[0].lost_pixels, 3200U);
    auto expected = pattern_frame(shape, 9);
    std::fill_n(expected.begin() + 49 * 3200, 3200, k_raw_absent);
    EXPECT_EQ(frame_of(block, 0), expected);
}

TEST_F(Raw, PacketsMayEndInsideARow) {
    RawWriteOptions options;
    options.padding = false;
    const Shape shape{4, 3000};
    write_run(master_, shape, options, {1}, [](auto) { return RawLosses{{{0, 1}}, {}}; });
    const auto source = open(master_);
    const auto block = source->read(0, 1, storage_);
    auto expected = pattern_frame(shape, 1);
    std::fill_n(expected.begin() + 4096, 4096, k_raw_absent);
    EXPECT_EQ(frame_of(block, 0), expected);
    EXPECT_EQ(block.infos[0].lost_pixels, 4096U);
}

TEST_F(Raw, LostPacketsInsideARegionCountItsPixelsOnly) {
    RawWriteOptions options;
    options.padding = false;
    options.roi = Region{2, 9, 100, 612};
    const Shape shape{16, 1024};  // packets of four rows: rows 4 to 7 are packet 1
    write_run(master_, shape, options, {1}, [](auto) { return RawLosses{{{0, 1}, {0, 3}}, {}}; });
    const auto source = open(master_);
    const auto block = source->read(0, 1, storage_);
    auto expected = part(pattern_frame(shape, 1), shape, *options.roi);
    std::fill_n(expected.begin() + 2 * 512, 4 * 512, k_raw_absent);
    EXPECT_EQ(frame_of(block, 0), expected);
    EXPECT_EQ(block.infos[0].lost_pixels, 4U * 512);
}

TEST_F(Raw, PacketsOfBytesHoldTwiceThePixels) {
    RawWriteOptions options;
    options.bits = 8;
    options.ports_x = 2;
    const Shape shape{32, 1024};  // a port of 32 × 512 bytes: two packets of 16 rows
    write_run(master_, shape, options, {1}, [](auto) { return RawLosses{{{1, 0}}, {}}; });
    const auto source = open(master_);
    const auto block = source->read(0, 1, storage_);
    auto expected = pattern_frame(shape, 1, 256);
    for (int r = 0; r < 16; ++r) std::fill_n(expected.begin() + r * 1024 + 512, 512, k_raw_absent);
    EXPECT_EQ(frame_of(block, 0), expected);
    EXPECT_EQ(block.infos[0].lost_pixels, 16U * 512);
}

TEST_F(Raw, FlippedPortsLoseTheRightRows) {
    RawWriteOptions options;
    options.detector = Detector::eiger;
    options.ports_x = options.ports_y = 2;
    const Shape shape{16, 1024};  // a port of 8 × 512 pixels: packets of 4096 bytes are four rows
    write_run(master_, shape, options, {1}, [](auto) { return RawLosses{{{0, 0}, {2, 0}}, {}}; });
    const auto source = open(master_);
    const auto block = source->read(0, 1, storage_);
    auto expected = pattern_frame(shape, 1);
    for (int r = 4; r < 8; ++r) std::fill_n(expected.begin() + r * 1024, 512, k_raw_absent);
    // Ports are numbered along a module first: 0 and 1 above, 2 and 3 below; the lower are not flipped.
    for (int r = 8; r < 12; ++r) std::fill_n(expected.begin() + r * 1024, 512, k_raw_absent);
    EXPECT_EQ(frame_of(block, 0), expected);
}

TEST_F(Raw, SinglePortNumbersAreReportedAndFramesKeepFileOrder) {
    const Shape shape{4, 5};
    RawWriteOptions options;
    options.max_frames_per_file = 4;
    const Numbers numbers{10, 11, 14, 13, 14, 20, 9, 21};
    write_run(master_, shape, options, numbers);
    const auto source = open(master_);
    for (int pass = 0; pass < 2; ++pass) {  // reading again counts nothing twice
        const auto block = source->read(0, 8, storage_);
        EXPECT_EQ(numbers_of(block), numbers);
        for (std::size_t i = 0; i < numbers.size(); ++i)
            EXPECT_EQ(frame_of(block, static_cast<std::int64_t>(i)), pattern_frame(shape, numbers[i]));
        const auto a = source->anomalies();
        EXPECT_EQ(a.missing_frames, 6U);  // 12, 15 to 19
        EXPECT_THAT(a.missing, ElementsAre(12, 15, 16, 17, 18, 19));
        EXPECT_THAT(a.repeated, ElementsAre(14));
        EXPECT_THAT(a.out_of_order, ElementsAre(13, 9));
    }
}

class RawPorts : public Raw {
  protected:
    static constexpr Shape k_shape{8, 10};
    RawWriteOptions options_ = with(Detector::jungfrau, 1, 2, 2, 16, false, 4);

    // The frame with the rows of some ports absent.
    static std::vector<Pixel> without(std::uint64_t number, const std::vector<int>& ports) {
        auto frame = pattern_frame(k_shape, number);
        for (auto port : ports) std::fill_n(frame.begin() + port * 40, 40, k_raw_absent);
        return frame;
    }
};

TEST_F(RawPorts, APortThatLostAFrameIsAbsentInIt) {
    // Port 0 loses 3 and 9, port 1 loses 6; nobody has 7.
    write_run(master_, k_shape, options_, {1, 2, 3, 4, 5, 6, 8, 9, 10, 11}, [](auto number) {
        if (number == 3 || number == 9) return RawLosses{{}, {0}};
        return number == 6 ? RawLosses{{}, {1}} : RawLosses{};
    });
    const auto source = open(master_);
    ASSERT_EQ(source->description().count, 10U);
    for (const std::uint64_t length : {1U, 3U, 10U}) {
        for (std::uint64_t first = 0; first < 10; first += length) {
            const auto block = source->read(first, std::min(length, 10 - first), storage_);
            for (std::size_t i = 0; i < block.infos.size(); ++i) {
                const auto number = block.infos[i].number;
                EXPECT_EQ(number, first + i + (first + i < 6 ? 1 : 2));
                const std::vector<int> ports = number == 3 || number == 9 ? std::vector{0}
                                               : number == 6              ? std::vector{1}
                                                                          : std::vector<int>{};
                EXPECT_EQ(block.infos[i].lost_pixels, ports.size() * 40);
                EXPECT_EQ(frame_of(block, static_cast<std::int64_t>(i)), without(number, ports)) << number;
            }
        }
    }
    const auto a = source->anomalies();
    EXPECT_THAT(a.missing, ElementsAre(7));
    EXPECT_EQ(a.repeated_frames + a.out_of_order_frames, 0U);
}

TEST_F(RawPorts, TheFirstAndLastFramesMayBeOnePorts) {
    write_run(master_, k_shape, options_, count_from(1, 7), [](auto number) {
        if (number <= 2) return RawLosses{{}, {1}};
        return number == 7 ? RawLosses{{}, {0}} : RawLosses{};
    });
    const auto source = open(master_);
    const auto block = source->read(0, 7, storage_);
    EXPECT_EQ(numbers_of(block), count_from(1, 7));
    EXPECT_EQ(frame_of(block, 0), without(1, {1}));
    EXPECT_EQ(frame_of(block, 3), without(4, {}));
    EXPECT_EQ(frame_of(block, 6), without(7, {0}));
}

TEST_F(RawPorts, SameOrderInAllPortsIsKept) {
    const Numbers numbers{1, 2, 5, 3, 5, 6, 7, 8};
    write_run(master_, k_shape, options_, numbers);
    const auto source = open(master_);
    const auto block = source->read(0, 8, storage_);
    EXPECT_EQ(numbers_of(block), numbers);
    EXPECT_EQ(frame_of(block, 3), pattern_frame(k_shape, 3));
    const auto a = source->anomalies();
    EXPECT_THAT(a.missing, ElementsAre(4));
    EXPECT_THAT(a.repeated, ElementsAre(5));
    EXPECT_THAT(a.out_of_order, ElementsAre(3));
}

TEST_F(RawPorts, OrderThatOnePortBrokeIsRestored) {
    // Port 0: 1 3 2 4 5 …; port 1: in order. Swaps two records of port 0's first file.
    write_run(master_, k_shape, options_, count_from(1, 9));
    auto bytes = read_bytes(data(0, 0));
    const std::size_t record = 112 + 80;
    std::swap_ranges(bytes.begin() + record, bytes.begin() + 2 * record, bytes.begin() + 2 * record);
    write_bytes(data(0, 0), bytes);
    const auto source = open(master_);
    ASSERT_EQ(source->description().count, 9U);
    for (int pass = 0; pass < 2; ++pass) {
        const auto block = source->read(0, 9, storage_);
        EXPECT_EQ(numbers_of(block), count_from(1, 9));
        for (std::int64_t i = 0; i < 9; ++i)
            EXPECT_EQ(frame_of(block, i), pattern_frame(k_shape, static_cast<std::uint64_t>(i + 1)));
    }
    const auto a = source->anomalies();
    EXPECT_EQ(a.missing_frames + a.repeated_frames, 0U);
    EXPECT_THAT(a.out_of_order, ElementsAre(2));
}

TEST_F(RawPorts, ANumberTwiceInOnePortOnlyIsReportedAndTheLostOneAbsent) {
    // Port 1's first file: 1 2 2 4, its ends as they should be.
    write_run(master_, k_shape, options_, count_from(1, 9));
    auto bytes = read_bytes(data(1, 0));
    const std::size_t record = 112 + 80;
    bytes.replace(2 * record, record, bytes.substr(record, record));
    write_bytes(data(1, 0), bytes);
    const auto source = open(master_);
    const auto block = source->read(2, 7, storage_);
    EXPECT_EQ(numbers_of(block), count_from(3, 7));
    EXPECT_EQ(frame_of(block, 0), without(3, {1}));
    EXPECT_EQ(block.infos[0].lost_pixels, 40U);
    EXPECT_EQ(frame_of(block, 1), without(4, {}));
    EXPECT_THAT(source->anomalies().repeated, ElementsAre(2));
}

TEST_F(RawPorts, DisorderAcrossFilesOfOnePortIsRestored) {
    write_run(master_, k_shape, options_, count_from(1, 12));
    std::filesystem::rename(data(1, 0), folder_ / "kept");
    std::filesystem::rename(data(1, 1), data(1, 0));
    std::filesystem::rename(folder_ / "kept", data(1, 1));
    const auto source = open(master_);
    const auto block = source->read(0, 12, storage_);
    EXPECT_EQ(numbers_of(block), count_from(1, 12));
    for (std::int64_t i = 0; i < 12; ++i)
        EXPECT_EQ(frame_of(block, i), pattern_frame(k_shape, static_cast<std::uint64_t>(i + 1)));
    EXPECT_THAT(source->anomalies().out_of_order, ElementsAre(1, 2, 3, 4));
}

TEST_F(RawPorts, ARunThatOnePortRepeatsInPartGoesOnBehindIt) {
    options_.max_frames_per_file = 2;
    int written = 0;
    write_run(master_, k_shape, options_, {1, 2, 3, 4, 3, 4, 5, 6}, [&](auto) {
        const bool repeated = written == 4 || written == 5;
        ++written;
        return repeated ? RawLosses{{}, {1}} : RawLosses{};
    });
    const auto source = open(master_);
    const auto block = source->read(0, source->description().count, storage_);
    EXPECT_EQ(numbers_of(block), count_from(1, 6));
    for (std::int64_t i = 0; i < 6; ++i)
        EXPECT_EQ(frame_of(block, i), pattern_frame(k_shape, static_cast<std::uint64_t>(i + 1)));
    EXPECT_THAT(source->anomalies().repeated, ElementsAre(3, 4));
}

TEST_F(RawPorts, RandomLossesMatchABruteForceList) {
    std::uint64_t state = 12345;
    const auto random = [&] {
        state = state * 6364136223846793005U + 1442695040888963407U;
        return state >> 33;
    };
    for (int round = 0; round < 20; ++round) {
        options_.overwrite = true;
        options_.max_frames_per_file = 3 + random() % 7;
        std::vector<std::vector<int>> lost(41);
        write_run(master_, k_shape, options_, count_from(1, 40), [&](auto number) {
            RawLosses losses;
            for (int port = 0; port < 2; ++port) {
                // The ends are kept, so that no port seems to lack a file.
                if (number == 1 || number == 40 || random() % 4 > 0) continue;
                lost[number].push_back(port);
                losses.ports.push_back(port);
            }
            return losses;
        });
        const auto source = open(master_);
        const auto block = source->read(0, source->description().count, storage_);
        std::size_t i = 0;
        std::uint64_t missing = 0;
        for (std::uint64_t number = 1; number <= 40; ++number) {
            if (lost[number].size() == 2) {
                ++missing;
                continue;
            }
            ASSERT_EQ(block.infos[i],
                      (FrameInfo{number, static_cast<std::uint32_t>(lost[number].size() * 40)}));
            ASSERT_EQ(frame_of(block, static_cast<std::int64_t>(i)), without(number, lost[number]));
            ++i;
        }
        EXPECT_EQ(i, block.infos.size());
        EXPECT_EQ(source->anomalies().missing_frames, missing);
    }
}

TEST_F(Raw, ThousandsOfSubfilesUnderALowDescriptorLimit) {
    const Shape shape{2, 4};
    RawWriteOptions options = with(Detector::jungfrau, 1, 2, 2, 16, false, 1);
    write_run(master_, shape, options, count_from(1, 1500));
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit low = before;
    low.rlim_cur = 32;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    try {
        const auto source = open(master_);
        EXPECT_EQ(source->description().files.size(), 3001U);
        EXPECT_EQ(source->description().count, 1500U);
        const auto block = source->read(0, 1500, storage_);
        for (std::int64_t i = 0; i < 1500; ++i)
            ASSERT_EQ(frame_of(block, i), pattern_frame(shape, static_cast<std::uint64_t>(i + 1)));
    } catch (const Error& error) {
        ADD_FAILURE() << error.what();
    }
    setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(Raw, NoFrames) {
    write_run(master_, {4, 5}, {}, {});
    const auto source = open(master_);
    EXPECT_EQ(source->description().count, 0U);
    EXPECT_THAT(source->read(0, 0, storage_).infos, IsEmpty());
    EXPECT_EQ(anomalies_in_all(*source), 0U);
    std::filesystem::remove(data(0, 0));
    EXPECT_EQ(open(master_)->description().count, 0U) << "the master file says that there are none";
    EXPECT_THAT(message_of<Error>([&] { (void)source->read(0, 1, storage_); }), HasSubstr("at most 0"));
}

TEST_F(Raw, RunsMayStartAtALaterSubfile) {
    RawWriteOptions options = with(Detector::jungfrau, 1, 2, 2, 16, false, 4);
    write_run(master_, {8, 10}, options, count_from(1, 8));
    for (int port = 0; port < 2; ++port) {
        std::filesystem::rename(data(port, 1), data(port, 8));
        std::filesystem::rename(data(port, 0), data(port, 7));
    }
    EXPECT_EQ(numbers_of(open(master_)->read(0, 8, storage_)), count_from(1, 8));
}

// --- refused, with what was found and expected --------------------------------------------------------

class RawRefused : public Raw {
  protected:
    void SetUp() override {
        write_run(master_, {8, 10}, with(Detector::jungfrau, 1, 2, 2, 16, false, 4), count_from(1, 10));
    }
    template <class E>
    std::string open_error() {
        return message_of<E>([&] { (void)open(master_); });
    }
};

TEST_F(RawRefused, TruncatedInAHeader) {
    std::filesystem::resize_file(data(1, 2), 192 + 100);
    EXPECT_THAT(open_error<FormatError>(),
                AllOf(HasSubstr("run_d1_f2_7.raw, byte 192"),
                      HasSubstr("found 100 bytes after 1 whole records"), HasSubstr("records of 192 bytes")));
}
TEST_F(RawRefused, TruncatedInAnImage) {
    std::filesystem::resize_file(data(0, 0), 4 * 192 - 1);
    EXPECT_THAT(open_error<FormatError>(), HasSubstr("run_d0_f0_7.raw, byte 576"));
}
TEST_F(RawRefused, TruncatedBetweenRecords) {
    std::filesystem::resize_file(data(0, 2), 192);
    std::filesystem::resize_file(data(1, 2), 192);
    EXPECT_THAT(open_error<FormatError>(),
                AllOf(HasSubstr("found 9 frames"), HasSubstr("expected 10"), HasSubstr("Frames in File")));
}
TEST_F(RawRefused, SubfileMissingInTheMiddle) {
    std::filesystem::remove(data(0, 1));
    EXPECT_THAT(open_error<IoError>(),
                AllOf(HasSubstr("run_d0_f1_7.raw"), HasSubstr("sub-file 2 of port 0")));
}
TEST_F(RawRefused, FirstSubfileMissing) {
    std::filesystem::remove(data(1, 0));
    EXPECT_THAT(open_error<IoError>(), HasSubstr("run_d1_f0_7.raw"));
}
TEST_F(RawRefused, LastSubfileMissingInOnePort) {
    std::filesystem::remove(data(1, 2));
    EXPECT_THAT(open_error<IoError>(), HasSubstr("run_d1_f2_7.raw"));
    // An empty one says that the port stopped there.
    write_bytes(data(1, 2), "");
    const auto source = open(master_);
    const auto block = source->read(0, 10, storage_);
    EXPECT_EQ(block.infos[7].lost_pixels, 0U);
    EXPECT_EQ(block.infos[8].lost_pixels, 40U);
}
TEST_F(RawRefused, LastSubfileMissingInAllPorts) {
    std::filesystem::remove(data(0, 2));
    std::filesystem::remove(data(1, 2));
    EXPECT_THAT(open_error<FormatError>(), AllOf(HasSubstr("found 8 frames"), HasSubstr("expected 10")));
}
TEST_F(RawRefused, APortWithoutFiles) {
    for (int i = 0; i < 3; ++i) std::filesystem::remove(data(1, i));
    EXPECT_THAT(open_error<IoError>(),
                AllOf(HasSubstr("run_d1_f0_7.raw"), HasSubstr("port 1 has no data file")));
}
TEST_F(RawRefused, MorePortsThanTheGeometryHas) {
    std::filesystem::copy(data(1, 0), data(5, 0));
    EXPECT_THAT(open_error<FormatError>(), AllOf(HasSubstr("port 5"), HasSubstr("0 to 1")));
}
TEST_F(RawRefused, AFolderInPlaceOfADataFile) {
    std::filesystem::remove(data(0, 1));
    std::filesystem::create_directory(data(0, 1));
    EXPECT_THAT(open_error<FormatError>(), HasSubstr("not a regular file"));
}
TEST_F(RawRefused, AnotherDetectorsRecords) {
    auto bytes = read_bytes(data(0, 0));
    bytes[192 + 46] = 77;
    write_bytes(data(0, 0), bytes);
    const auto source = open(master_);
    EXPECT_THAT(message_of<FormatError>([&] { (void)source->read(0, 2, storage_); }),
                AllOf(HasSubstr("byte 238"), HasSubstr("detector type 77"), HasSubstr("3 (Jungfrau)")));
}
TEST_F(RawRefused, AFileThatWasCutWhileOpen) {
    const auto source = open(master_);
    std::filesystem::resize_file(data(0, 1), 192 + 50);
    EXPECT_THAT(message_of<FormatError>([&] { (void)source->read(0, 10, storage_); }),
                AllOf(HasSubstr("run_d0_f1_7.raw, byte 242"), HasSubstr("it was cut since")));
}
TEST_F(RawRefused, AFileThatWentWhileOpen) {
    // One port: nothing was read at opening, so nothing is open yet.
    auto options = with(Detector::jungfrau, 1, 1, 1, 16, false, 4);
    options.overwrite = true;
    write_run(master_, {8, 10}, options, count_from(1, 10));
    const auto source = open(master_);
    std::filesystem::remove(data(0, 1));
    EXPECT_THAT(message_of<IoError>([&] { (void)source->read(0, 10, storage_); }),
                HasSubstr("run_d0_f1_7.raw"));
}
TEST_F(RawRefused, MoreFramesThanThereAre) {
    const auto source = open(master_);
    EXPECT_THAT(message_of<Error>([&] { (void)source->read(8, 3, storage_); }), HasSubstr("at most 10"));
    EXPECT_THAT(message_of<Error>([&] { (void)source->read(1, UINT64_MAX, storage_); }),
                HasSubstr("at most 10"));
}
TEST_F(RawRefused, OtherNames) {
    const auto other = folder_ / "run.json";
    std::filesystem::copy(master_, other);
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(other); }),
                HasSubstr("<base>_master_<number>.json"));
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(data(0, 0)); }), HasSubstr("master file"));
    write_bytes(folder_ / "run_master_8.raw", "Version                    : 6.4\n");
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(folder_ / "run_master_8.raw"); }),
                HasSubstr("text master file"));
    EXPECT_THAT(message_of<IoError>([&] { (void)open(folder_ / "run_master_9.json"); }),
                HasSubstr("No such file"));
}

// --- the writer -----------------------------------------------------------------------------------------

TEST_F(Raw, WriterKeepsARunThatIsThere) {
    const RawWriteOptions options = with(Detector::jungfrau, 1, 1, 1, 16, false, 2);
    write_run(master_, {4, 5}, options, count_from(1, 9));
    EXPECT_THAT(message_of<IoError>([&] { write_run(master_, {4, 5}, options, {1}); }),
                HasSubstr("--overwrite"));
    std::filesystem::remove(master_);
    EXPECT_THAT(message_of<IoError>([&] { write_run(master_, {4, 5}, options, {1}); }),
                HasSubstr("--overwrite"));
    auto overwrite = options;
    overwrite.overwrite = true;
    write_run(master_, {4, 5}, overwrite, count_from(1, 3));
    EXPECT_EQ(open(master_)->description().count, 3U) << "data files of the longer run are gone";
    EXPECT_FALSE(std::filesystem::exists(data(0, 4)));
}

TEST_F(Raw, AnUnfinishedRunHasNoMasterFile) {
    {
        RawWriter writer(master_, {4, 5}, with(Detector::jungfrau, 1, 1, 1, 16, false, 2));
        for (std::uint64_t i = 1; i < 4; ++i) writer.write(i, pattern_frame({4, 5}, i));
    }
    EXPECT_FALSE(std::filesystem::exists(master_));
    EXPECT_TRUE(std::filesystem::exists(data(0, 0)));
    EXPECT_FALSE(std::filesystem::exists(data(0, 1)));
    EXPECT_FALSE(std::filesystem::exists(data(0, 1) + ".partial"));
}

TEST_F(Raw, WriterRefuses) {
    EXPECT_THAT(message_of<OptionError>(
                    [&] { RawWriter(master_, {5, 5}, with(Detector::jungfrau, 1, 2, 2, 16, false, 2)); }),
                HasSubstr("divide into equal ports"));
    EXPECT_THAT(message_of<OptionError>(
                    [&] { RawWriter(master_, {4, 4}, with(Detector::jungfrau, 1, 1, 1, 12, false, 2)); }),
                HasSubstr("8 or 16"));
    RawWriter bytes(master_, {4, 5}, with(Detector::jungfrau, 1, 1, 1, 8, false, 2));
    EXPECT_THAT(message_of<Error>([&] { bytes.write(1, std::vector<Pixel>(20, 256)); }), HasSubstr("256"));
    EXPECT_THAT(message_of<Error>([&] { bytes.write(1, std::vector<Pixel>(19, 0)); }), HasSubstr("4 × 5"));
}

}  // namespace
}  // namespace lightmill::frames

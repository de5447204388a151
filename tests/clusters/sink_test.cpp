// Files of the sink by themselves: .clust, saved pedestals, and results as other programs see them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/run/run.hpp"
#include "lightmill/clusters/sink/clust.hpp"
#include "lightmill/clusters/sink/pedestal_file.hpp"
#include "lightmill/clusters/sink/result_file.hpp"
#include "tests/clusters/run_scene.hpp"

namespace lightmill::clusters {
namespace {

using test::Folder;
using ::testing::HasSubstr;

bool exists(const std::string& path) {
    return std::filesystem::exists(path);
}

// Standard output of a command, and whether it succeeded.
std::pair<std::string, bool> output_of(const std::string& command) {
    std::string text;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
    return {text, ::pclose(pipe) == 0};
}

// --- .clust ---------------------------------------------------------------------------------------

TEST(Clust, ReadsAFileOfAaresAncestorsAndWritesTheSameBytes) {
    const char* folder = std::getenv("LIGHTMILL_TEST_DATA");
    if (folder == nullptr) GTEST_SKIP() << "LIGHTMILL_TEST_DATA is not set: no cluster file to read";
    const auto path = std::string(folder) + "/clusters/single_frame_97_clusters.clust";
    ClustReader reader(path, {3, 3});
    const auto clusters = reader.read(10);
    EXPECT_EQ(clusters.numbers, std::vector<std::uint64_t>{135});
    ASSERT_EQ(clusters.rows.size(), 97U);
    for (std::uint32_t i = 0; i < 97; ++i) {
        EXPECT_EQ(clusters.columns[i], i + 1);
        EXPECT_EQ(clusters.rows[i], 200 + i);
        for (std::uint32_t cell = 0; cell < 9; ++cell)
            EXPECT_EQ(clusters.residuals[i * 9 + cell], static_cast<std::int32_t>(9 * i + cell));
    }
    EXPECT_EQ(reader.read(1).numbers.size(), 0U);
    const Folder temporary;
    ClustWriter writer(temporary.file("copy.clust"), false);
    writer.add(clusters.view());
    writer.publish();
    EXPECT_EQ(read_file(temporary.file("copy.clust")), read_file(path));
}

TEST(Clust, RunsWriteItWholeFramesWithoutClustersToo) {
    const Folder folder;
    for (const auto payload : {Payload::int32, Payload::int16}) {
        const auto path = folder.file(payload == Payload::int32 ? "a.clust" : "b.clust");
        RunOptions options;
        options.find.payload = payload;
        options.find.window = {5, 3};
        options.output.output = path;
        Clusters expected;
        expected.window = options.find.window;
        auto scene = test::small_scene();
        scene.photons = 0.5;  // many frames without any
        const auto source = frames::open_simulated(scene, frames::FrameKind::data, 2000, 1);
        const auto dark = frames::open_simulated(scene, frames::FrameKind::dark, 100, 1);
        const auto summary = run(*source, train(*dark, {}, {}, {}), options,
                                 {.clusters = [&](const ClustersView& view) { expected.append(view); }});
        EXPECT_EQ(summary.output, path);
        EXPECT_FALSE(exists(path + ".partial"));
        ClustReader reader(path, {5, 3}, payload);
        Clusters found;
        found.window = expected.window;
        for (auto part = reader.read(77); !part.numbers.empty(); part = reader.read(77)) {
            EXPECT_EQ(part.first_index, found.numbers.size());
            found.append(part.view());
        }
        EXPECT_EQ(found.numbers, expected.numbers);
        EXPECT_EQ(found.offsets, expected.offsets);
        EXPECT_EQ(found.rows, expected.rows);
        EXPECT_EQ(found.columns, expected.columns);
        EXPECT_EQ(found.residuals, expected.residuals);
        EXPECT_EQ(found.residuals16, expected.residuals16);
        EXPECT_GT(std::ranges::adjacent_find(found.offsets) - found.offsets.begin(), -1);
        EXPECT_NE(std::ranges::adjacent_find(found.offsets), found.offsets.end()) << "no frame was empty";
    }
}

TEST(Clust, NamesWhatDoesNotFit) {
    const Folder folder;
    const auto refuse = [&](std::uint64_t number, std::uint32_t row, std::uint32_t column,
                            const char* words) {
        Clusters one;
        one.numbers = {number};
        one.offsets = {0, 1};
        one.rows = {row};
        one.columns = {column};
        one.residuals.assign(9, 1);
        ClustWriter writer(folder.file("out.clust"), true);
        try {
            writer.add(one.view());
            FAIL() << words;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::range);
            EXPECT_THAT(error.what(), HasSubstr(words));
        }
        EXPECT_EQ(std::filesystem::file_size(folder.file("out.clust.partial")), 0U);
    };
    refuse(std::uint64_t{1} << 31, 0, 0, "frame number 2147483648");
    refuse(0, 65536, 0, "row 65536");
    refuse(0, 0, 70000, "column 70000");
    Clusters most;
    most.numbers = {(std::uint64_t{1} << 31) - 1};
    most.offsets = {0, 1};
    most.rows = most.columns = {65535};
    most.residuals.assign(9, INT32_MIN);
    ClustWriter writer(folder.file("most.clust"), false);
    writer.add(most.view());
    writer.publish();
    ClustReader reader(folder.file("most.clust"), {3, 3});
    const auto back = reader.read(1);
    EXPECT_EQ(back.numbers, most.numbers);
    EXPECT_EQ(back.rows, most.rows);
    EXPECT_EQ(back.residuals, most.residuals);
}

TEST(Clust, DamagedFilesAreRefusedByByte) {
    const Folder folder;
    const auto path = folder.file("x.clust");
    const auto refuse = [&](const std::string& bytes, std::int64_t offset) {
        std::ofstream(path, std::ios::binary) << bytes;
        ClustReader reader(path, {3, 3});
        try {
            while (!reader.read(1).numbers.empty()) {
            }
            FAIL() << offset;
        } catch (const FormatError& error) {
            EXPECT_EQ(error.byte_offset(), offset);
        }
    };
    const auto frame = [](std::int32_t number, std::uint32_t count, std::size_t clusters) {
        std::string bytes(8 + clusters * 40, '\1');
        std::memcpy(bytes.data(), &number, 4);
        std::memcpy(bytes.data() + 4, &count, 4);
        return bytes;
    };
    refuse(frame(1, 2, 2) + frame(2, 3, 2), 88 + 4);   // one cluster short
    refuse(frame(1, 2, 2) + frame(-2, 0, 0), 88);      // a number below 0
    refuse(frame(1, 0, 0) + std::string(7, '\0'), 8);  // half a header
    refuse(frame(1, 0xffffffff, 1), 4);
    std::ofstream(path, std::ios::binary | std::ios::trunc).flush();
    EXPECT_TRUE(ClustReader(path, {3, 3}).read(5).numbers.empty());
}

TEST(Clust, AnOutputThatIsThereIsKept) {
    const Folder folder;
    ClustWriter(folder.file("x.clust"), false).publish();
    EXPECT_THROW(ClustWriter(folder.file("x.clust"), false), Error);
    {
        const ClustWriter begun(folder.file("y.clust"), false);
    }
    EXPECT_THROW(ClustWriter(folder.file("y.clust"), false), Error);
    ClustWriter(folder.file("y.clust"), true).publish();
}

// --- pedestals ------------------------------------------------------------------------------------

TEST(PedestalFile, RoundTrip) {
    const Folder folder;
    auto scene = test::small_scene();
    scene.dead_pixels = 5;
    const auto dark = frames::open_simulated(scene, frames::FrameKind::dark, 60, 1);
    std::vector<std::uint8_t> mask(50 * 70);
    mask[77] = 1;
    for (const auto& absent :
         {AbsentRule{}, AbsentRule{.value = 65535}, AbsentRule{.value = 0, .gain_bits = true}}) {
        const auto pedestal = train(*dark, absent, mask, {.pedestal_frames = 50, .min_noise = 0.5});
        EXPECT_GE(pedestal.pixels_in(PixelState::low_noise), 5U);
        const auto path = folder.file("pedestal.h5");
        save_pedestal(pedestal, path, {"dark_a.npy", "dark_b.npy"}, true);
        EXPECT_EQ(load_pedestal(path), pedestal);
        EXPECT_TRUE(is_pedestal_file(path));
        EXPECT_FALSE(exists(path + ".partial"));
    }
}

TEST(PedestalFile, RefusesWhatIsNone) {
    const Folder folder;
    const auto path = folder.file("pedestal.h5");
    save_pedestal(test::pedestal(), path);
    EXPECT_THROW(save_pedestal(test::pedestal(), path), Error);
    EXPECT_THROW(static_cast<void>(load_pedestal(folder.file("none.h5"))), IoError);
    std::ofstream(folder.file("text.h5")) << "not HDF5";
    EXPECT_THROW(static_cast<void>(load_pedestal(folder.file("text.h5"))), FormatError);
    EXPECT_FALSE(is_pedestal_file(folder.file("text.h5")));
    EXPECT_FALSE(is_result_file(path));
    EXPECT_THROW(ResultReader{path}, FormatError);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    EXPECT_THROW(static_cast<void>(load_pedestal(path)), FormatError);
    EXPECT_THROW(save_pedestal(test::pedestal(), folder.file("no/folder.h5")), Error);
}

TEST(PedestalFile, OutOfAResultToo) {
    const Folder folder;
    RunOptions options;
    options.output.output = folder.file("out.h5");
    const auto source = test::data(20);
    static_cast<void>(run(*source, test::pedestal(), options));
    EXPECT_EQ(load_pedestal(folder.file("out.h5")), test::pedestal());
    EXPECT_TRUE(is_result_file(folder.file("out.h5")));
}

// --- as others see it -----------------------------------------------------------------------------

TEST(ResultFile, IsReadByH5pyInThreeLines) {
    const std::string python = "/usr/bin/python3";
    if (!output_of(python + " -c 'import h5py' 2>&1").second) {
        GTEST_SKIP() << python << " has no h5py (Debian: python3-h5py)";
    }
    const Folder folder;
    RunOptions options;
    options.find.window = {5, 3};
    options.output.output = folder.file("out.h5");
    const auto source = test::data(200);
    const auto summary = run(*source, test::pedestal(), options);
    const auto [text, fine] =
        output_of(python + " -c '\nimport h5py\nf = h5py.File(\"" + options.output.output + "\")\n" +
                  "c = f[\"clusters\"]; o = c[\"offset\"][:]; d = c[\"data\"][o[7]:o[8]]\n"
                  "print(len(c[\"frame_number\"]), len(o), o[-1], d.shape == (o[8] - o[7], 3, 5), "
                  "c[\"data\"].dtype, c[\"row\"].dtype)\n"
                  "print(c.attrs[\"window\"].decode(), c.attrs[\"n_sigma\"], c.attrs[\"rule\"].decode(), "
                  "f.attrs[\"digest\"].decode(), "
                  "f.attrs[\"complete\"])\n"
                  "print(f[\"hit_map\"][:].sum() == o[-1], f[\"spectrum/counts\"][:].sum() + "
                  "f[\"spectrum\"].attrs[\"underflow\"] + "
                  "f[\"spectrum\"].attrs[\"overflow\"] == o[-1], len(f[\"spectrum/edges_adu\"]), "
                  "f[\"pedestal/mean\"].shape, "
                  "f[\"model/mean\"].shape)\n' 2>&1");
    EXPECT_TRUE(fine) << text;
    EXPECT_EQ(text, "200 201 " + std::to_string(summary.clusters) + " True int32 uint32\n5x3 5.0 snapshot " +
                        summary.digest + " 1\nTrue True 1001 (50, 70) (1, 50, 70)\n");
}

TEST(ResultFile, SaysWhatItIsNot) {
    const Folder folder;
    EXPECT_THROW(ResultReader{folder.file("none.h5")}, IoError);
    std::ofstream(folder.file("text.h5")) << std::string(5000, 'x');
    EXPECT_THROW(ResultReader{folder.file("text.h5")}, FormatError);
    RunOptions options;
    options.output.output = folder.file("out.h5");
    const auto source = test::data(300);
    static_cast<void>(run(*source, test::pedestal(), options));
    const ResultReader reader(options.output.output);
    EXPECT_THROW(static_cast<void>(reader.read(299, 2)), Error);
    EXPECT_THROW(static_cast<void>(reader.read(301, 0)), Error);
    std::filesystem::copy_file(options.output.output, folder.file("torn.h5"));
    for (const double part : {0.999, 0.7, 0.3, 0.01}) {
        std::filesystem::resize_file(
            folder.file("torn.h5"),
            static_cast<std::uintmax_t>(
                part * static_cast<double>(std::filesystem::file_size(options.output.output))));
        EXPECT_THROW(ResultReader{folder.file("torn.h5")}, FormatError) << part;
    }
}

}  // namespace
}  // namespace lightmill::clusters

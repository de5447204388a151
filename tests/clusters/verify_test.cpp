#include "lightmill/clusters/run/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/run/run.hpp"
#include "lightmill/clusters/sink/result_file.hpp"
#include "tests/clusters/run_scene.hpp"

namespace lightmill::clusters {
namespace {

using test::Folder;
using ::testing::HasSubstr;

constexpr std::uint64_t k_frames = 3000;  // more than two blocks

Summary make(const std::string& path, const FindOptions& find = {},
             const Pedestal& pedestal = test::pedestal()) {
    RunOptions options;
    options.find = find;
    options.output.output = path;
    const auto source = test::data(k_frames);
    return run(*source, pedestal, options);
}

// Changes one value of a dataset of numbers, as a bad disk might.
template <class T>
void change(const std::string& path, const std::string& dataset, std::vector<hsize_t> at, T value,
            hid_t type) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    const hid_t set = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
    ASSERT_GE(set, 0);
    const hid_t space = H5Dget_space(set);
    H5Sselect_elements(space, H5S_SELECT_SET, 1, at.data());
    const hsize_t one = 1;
    const hid_t memory = H5Screate_simple(1, &one, nullptr);
    ASSERT_GE(H5Dwrite(set, type, memory, space, H5P_DEFAULT, &value), 0);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

TEST(Verify, AWholeFileIsFine) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    const auto summary = make(path);
    const auto alone = verify(path);
    EXPECT_TRUE(alone.ok());
    EXPECT_TRUE(alone.complete);
    EXPECT_FALSE(alone.compared);
    EXPECT_EQ(alone.digest, summary.digest);
    EXPECT_EQ(alone.model_digest, summary.model_digest);
    const auto source = test::data(k_frames);
    const auto with_frames = verify(path, source.get());
    EXPECT_TRUE(with_frames.ok()) << with_frames.difference->text();
    EXPECT_TRUE(with_frames.compared);
}

TEST(Verify, EveryRuleAndEpochCanBeFoundAgain) {
    const Folder folder;
    for (const auto& find : {FindOptions{.window = {5, 3}, .epoch = 64}, FindOptions{.epoch = 1300},
                             FindOptions{.rule = Rule::per_stream, .streams = 3},
                             FindOptions{.memory = 100, .rule = Rule::raster, .ties = Ties::all}}) {
        const auto path = folder.file("out.h5");
        make(path, find);
        const auto source = test::data(k_frames);
        const auto report = verify(path, source.get());
        EXPECT_TRUE(report.ok()) << report.difference->text();
        std::filesystem::remove(path);
    }
}

TEST(Verify, NamesTheFrameOfADamagedCluster) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    make(path);
    const auto clusters = ResultReader(path).read(0, k_frames);
    // A cluster of the second half of frame 1700.
    const auto i = clusters.offsets[1701] - 2;
    change<std::int32_t>(path, "clusters/data", {i, 1, 2}, clusters.residuals[i * 9 + 5] + 1,
                         H5T_NATIVE_INT32);
    auto report = verify(path);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.damaged_frame, 1700U);
    EXPECT_NE(report.digest, report.stored_digest);

    const auto source = test::data(k_frames);
    report = verify(path, source.get());
    ASSERT_TRUE(report.difference);
    const auto& d = *report.difference;
    EXPECT_EQ(d.kind, Difference::Kind::residual);
    EXPECT_EQ(d.frame_index, 1700U);
    EXPECT_EQ(d.row, clusters.rows[i]);
    EXPECT_EQ(d.column, clusters.columns[i]);
    EXPECT_EQ(d.cell_row, 1);
    EXPECT_EQ(d.cell_column, 2);
    EXPECT_EQ(d.stored, d.expected + 1);
    ASSERT_TRUE(d.judgement);
    EXPECT_TRUE(d.judgement->photon);
    EXPECT_EQ(std::lrint(d.judgement->residual), clusters.residuals[i * 9 + 4]);
    EXPECT_THAT(d.text(), HasSubstr("a photon"));
}

TEST(Verify, ExplainsMissingAndExtraClusters) {
    const Folder folder;
    for (const auto& find :
         {FindOptions{}, FindOptions{.epoch = 50}, FindOptions{.rule = Rule::per_stream, .streams = 4}}) {
        const auto path = folder.file("out.h5");
        make(path, find);
        const auto clusters = ResultReader(path).read(0, k_frames);
        // One cluster moves to the pixel on its right: it is missing where it was.
        const auto frame = std::uint64_t{1999};
        const auto i = clusters.offsets[frame] + 3;
        ASSERT_LT(clusters.columns[i], 60U);
        change<std::uint32_t>(path, "clusters/column", {i}, clusters.columns[i] + 1, H5T_NATIVE_UINT32);
        const auto source = test::data(k_frames);
        const auto missing = verify(path, source.get());
        ASSERT_TRUE(missing.difference);
        EXPECT_EQ(missing.difference->kind, Difference::Kind::missing);
        EXPECT_EQ(missing.difference->frame_index, frame);
        EXPECT_EQ(missing.difference->row, clusters.rows[i]);
        EXPECT_EQ(missing.difference->column, clusters.columns[i]);
        EXPECT_TRUE(missing.difference->judgement->photon);
        // The judgement's own residual is the one that the finder rounded: the model is the right one.
        EXPECT_EQ(std::lrint(missing.difference->judgement->residual), clusters.residuals[i * 9 + 4]);
        // To the left: there is one that does not belong.
        change<std::uint32_t>(path, "clusters/column", {i}, clusters.columns[i] - 1, H5T_NATIVE_UINT32);
        const auto extra = verify(path, source.get());
        ASSERT_TRUE(extra.difference);
        EXPECT_EQ(extra.difference->kind, Difference::Kind::extra);
        EXPECT_EQ(extra.difference->column, clusters.columns[i] - 1);
        EXPECT_FALSE(extra.difference->judgement->photon);
        EXPECT_THAT(extra.difference->text(), HasSubstr("does not belong"));
        std::filesystem::remove(path);
    }
}

TEST(Verify, SeesAnotherModelAndOtherFrames) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    make(path);
    change<float>(path, "model/mean", {0, 10, 10}, 0.25F, H5T_NATIVE_FLOAT);
    const auto source = test::data(k_frames);
    auto report = verify(path, source.get());
    EXPECT_FALSE(report.ok());
    EXPECT_NE(report.model_digest, report.stored_model_digest);
    ASSERT_TRUE(report.difference);
    EXPECT_EQ(report.difference->kind, Difference::Kind::model);

    const auto fewer = test::data(k_frames - 1);
    report = verify(path, fewer.get());
    ASSERT_TRUE(report.difference);
    EXPECT_EQ(report.difference->kind, Difference::Kind::frames);
    auto scene = test::small_scene();
    scene.rows = 51;
    const auto other = frames::open_simulated(scene, frames::FrameKind::data, k_frames, 1);
    EXPECT_THROW(static_cast<void>(verify(path, other.get())), OptionError);
    EXPECT_THROW(static_cast<void>(verify(folder.file("none.h5"))), IoError);
}

TEST(Verify, AnInterruptedFileIsFineAsFarAsItGoes) {
    const Folder folder;
    const auto path = folder.file("out.h5");
    RunOptions options;
    options.output.output = path;
    std::stop_source stop;
    test::Wrapped source(test::data(9000), [&](std::uint64_t first, std::uint64_t) {
        if (first > 2000) stop.request_stop();
    });
    const auto summary = run(source, test::pedestal(), options, {.stop = stop.get_token()});
    ASSERT_TRUE(summary.interrupted);
    const auto frames = test::data(9000);
    const auto report = verify(path + ".partial", frames.get());
    EXPECT_TRUE(report.ok());
    EXPECT_FALSE(report.complete);
    EXPECT_EQ(report.frames, summary.frames);
}

}  // namespace
}  // namespace lightmill::clusters

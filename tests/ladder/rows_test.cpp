#include "lightmill/ladder/run/rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "lightmill/base/error.hpp"

namespace lightmill::ladder {
namespace {

Row some_row(int repetition) {
    Row row{
        .session = "s", .round = 3, .slot = 1, .arm = "simd", .executable = "abc", .repetition = repetition};
    row.measured.wall_s = 0.25;
    row.measured.minor_faults = 12;
    row.measured.peak_rss_bytes = 4096;
    row.items = 100;
    row.count = 7;
    row.checksum = "ff";
    row.detectors = {{"at_cap", 2}, {"lost", 0}};
    row.invalid = "it said \"no\", twice\nand more";
    row.not_quotable = {"busy machine", "stale build"};
    return row;
}

struct Rows : testing::Test {
    std::string path = testing::TempDir() + "/rows_test.csv";
    void SetUp() override { std::filesystem::remove(path); }
};

TEST_F(Rows, ComeBackAsTheyWere) {
    EXPECT_TRUE(read_rows(path).empty());
    RowWriter(path).write(some_row(0));
    const auto rows = read_rows(path);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].arm, "simd");
    EXPECT_EQ(rows[0].round, 3);
    EXPECT_EQ(rows[0].measured.wall_s, 0.25);
    EXPECT_EQ(rows[0].measured.minor_faults, 12);
    EXPECT_EQ(rows[0].measured.cycles, -1);
    EXPECT_EQ(rows[0].invalid, "it said \"no\", twice and more");
    EXPECT_THAT(rows[0].not_quotable, testing::ElementsAre("busy machine", "stale build"));
    ASSERT_EQ(rows[0].detectors.size(), 2u);
    EXPECT_EQ(rows[0].detectors[0].value, 2u);
}

TEST_F(Rows, HalfALineOfAKilledSessionIsLeftOutAndWrittenOver) {
    RowWriter(path).write(some_row(0));
    std::ofstream(path, std::ios::app) << "s,3,1,si";
    EXPECT_EQ(read_rows(path).size(), 1u);
    RowWriter(path).write(some_row(1));
    const auto rows = read_rows(path);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[1].repetition, 1);
}

TEST_F(Rows, AFullDiskIsAnErrorAndKeepsTheRowsBefore) {
    // A limit on file sizes does what a full disk does: a write that is short, then one that fails.
    ::signal(SIGXFSZ, SIG_IGN);
    RowWriter writer(path);
    writer.write(some_row(0));
    rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    const rlimit tight{std::filesystem::file_size(path) + 20, old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &tight);
    EXPECT_THROW(writer.write(some_row(1)), IoError);
    ::setrlimit(RLIMIT_FSIZE, &old);
    ASSERT_EQ(read_rows(path).size(), 1u);
    writer.write(some_row(2));
    EXPECT_EQ(read_rows(path).size(), 2u);
}

TEST_F(Rows, TwoWritersAtATimeAreRefused) {
    {
        const RowWriter first(path);
        try {
            const RowWriter second(path);
            FAIL() << "two writers";
        } catch (const IoError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("another `ladder run` is writing this session"));
        }
    }
    RowWriter later(path);
    later.write(some_row(0));
    EXPECT_EQ(read_rows(path).size(), 1u);
}

TEST_F(Rows, WhatIsNoRowIsNamed) {
    std::ofstream(path) << "a,b\n1,2\n";
    EXPECT_THROW((void)read_rows(path), FormatError);
    EXPECT_THROW(RowWriter{path}, FormatError);
}

}  // namespace
}  // namespace lightmill::ladder

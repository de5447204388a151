#include "lightmill/frames/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "lightmill/frames/truth.hpp"
#include "tests/frames/run_files.hpp"

namespace lightmill::frames {
namespace {

using testing::HasSubstr;

// A file as numpy.save writes it: version, dictionary, data.
std::string npy_bytes(const std::string& dictionary, const std::string& data, int version = 1,
                      std::size_t align = 64) {
    std::string text = dictionary;
    const std::size_t start = version == 1 ? 10 : 12;
    while ((start + text.size() + 1) % align != 0) text += ' ';
    text += '\n';
    std::string bytes = "\x93NUMPY";
    bytes += {static_cast<char>(version), '\0'};
    for (std::size_t i = 0; i < start - 8; ++i) bytes += static_cast<char>(text.size() >> (8 * i) & 0xff);
    return bytes + text + data;
}
std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
    return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}
std::string bytes_of(std::vector<Pixel> pixels) {
    return {reinterpret_cast<const char*>(pixels.data()), pixels.size() * 2};
}
std::string counting(std::size_t pixels) {
    std::vector<Pixel> values(pixels);
    std::iota(values.begin(), values.end(), Pixel{1000});
    return bytes_of(values);
}

class Npy : public testing::Test {
  protected:
    std::string refused(const std::string& bytes) {
        write_bytes(path, bytes);
        return message_of<FormatError>([&] { (void)open(path); });
    }
    TemporaryFolder folder;
    std::string path = folder / "a.npy";
};

TEST_F(Npy, ReadsWithoutACopy) {
    for (int version : {1, 2, 3}) {
        write_bytes(path, npy_bytes(dictionary("'<u2'", "(5, 3, 4)"), counting(60), version));
        const auto source = open(path);
        EXPECT_EQ(source->description().format, "npy");
        EXPECT_EQ(source->description().shape, (Shape{3, 4}));
        EXPECT_EQ(source->description().count, 5U);
        EXPECT_EQ(source->description().bits, 16);
        EXPECT_EQ(source->description().absent_value, std::nullopt);
        Storage storage;
        const auto block = source->read(1, 3, storage);
        EXPECT_EQ(storage.pixels.size(), 0U) << "copied";
        EXPECT_EQ(numbers_of(block), (std::vector<std::uint64_t>{1, 2, 3}));
        EXPECT_EQ(block.pixels(0, 0, 0), 1012);
        EXPECT_EQ(block.pixels(2, 2, 3), 1047);
        EXPECT_EQ(source->read(5, 0, storage).infos.size(), 0U);
        EXPECT_THROW((void)source->read(3, 3, storage), Error);
    }
}

TEST_F(Npy, WidensBytesAndCopiesUnalignedData) {
    std::string data(24, '\0');
    std::iota(data.begin(), data.end(), static_cast<char>(240));
    write_bytes(path, npy_bytes(dictionary("'|u1'", "(2, 3, 4)"), data));
    Storage storage;
    {
        const auto source = open(path);
        EXPECT_EQ(source->description().bits, 8);
        const auto block = source->read(0, 2, storage);
        EXPECT_EQ(block.pixels(0, 0, 0), 240);
        EXPECT_EQ(block.pixels(1, 0, 3), 255);
        EXPECT_EQ(block.pixels(1, 1, 0), 0);
    }
    auto odd = npy_bytes(dictionary("'<u2'", "(2, 3, 4)"), counting(24), 1, 1);
    if (odd.size() % 2 == 0) odd = npy_bytes(dictionary("'<u2'", "(2, 3, 4) "), counting(24), 1, 1);
    write_bytes(path, odd);
    const auto block = open(path)->read(1, 1, storage);
    EXPECT_EQ(block.pixels.data(), storage.pixels.data());
    EXPECT_EQ(block.pixels(0, 2, 3), 1023);
}

TEST_F(Npy, RefusesOtherArraysByName) {
    const auto file = [&](const std::string& descr, const std::string& shape,
                          const std::string& order = "False") {
        return npy_bytes(dictionary(descr, shape, order), counting(60));
    };
    EXPECT_THAT(refused(file("'>u2'", "(5, 3, 4)")), HasSubstr("big-endian"));
    EXPECT_THAT(refused(file("'<f4'", "(5, 3, 2)")), HasSubstr("'<f4'"));
    EXPECT_THAT(refused(file("'<i2'", "(5, 3, 4)")), HasSubstr("'<i2'"));
    EXPECT_THAT(refused(file("'<u2'", "(5, 3, 4)", "True")), HasSubstr("Fortran"));
    EXPECT_THAT(refused(file("'<u2'", "(15, 4)")), HasSubstr("array[None]"));
    EXPECT_THAT(refused(file("'<u2'", "(60,)")), HasSubstr("1 dimensions"));
    EXPECT_THAT(refused(file("'<u2'", "()")), HasSubstr("0 dimensions"));
    EXPECT_THAT(refused(file("'<u2'", "(5, 0, 4)")), HasSubstr("without pixels"));
    EXPECT_THAT(refused(file("[('x', '<u2')]", "(60,)")), HasSubstr("structured"));
}

TEST_F(Npy, RefusesAShapeThatLies) {
    for (const auto* shape :
         {"(6, 3, 4)", "(4, 3, 4)", "(0, 3, 4)", "(9223372036854775807, 3, 4)", "(4611686018427387904, 4, 1)",
          "(1, 9223372036854775807, 9223372036854775807)"}) {
        const auto message = refused(npy_bytes(dictionary("'<u2'", shape), counting(60)));
        EXPECT_THAT(message, HasSubstr("found 120 bytes of pixels"));
        EXPECT_THAT(message, HasSubstr(path + ", byte 128"));
    }
    const auto half = npy_bytes(dictionary("'<u2'", "(5, 3, 4)"), counting(60).substr(0, 119));
    EXPECT_THAT(refused(half), HasSubstr("truncated"));
}

TEST_F(Npy, RefusesDamagedHeaders) {
    const auto whole = npy_bytes(dictionary("'<u2'", "(5, 3, 4)"), counting(60));
    for (std::size_t size : {0U, 5U, 6U, 9U, 10U, 60U, 127U}) {
        EXPECT_FALSE(refused(whole.substr(0, size)).empty()) << size;
    }
    auto other = whole;
    other[6] = 4;
    EXPECT_THAT(refused(other), HasSubstr("version 4.0"));
    EXPECT_THAT(refused("{}"), HasSubstr("NUMPY"));
    for (const auto* text :
         {"", "{", "{}", "{'descr': '<u2'}", "{'descr': '<u2', 'fortran_order': False, 'shape': (5, 3, 4)} x",
          "{'descr': '<u2', 'descr': '<u2', 'fortran_order': False, 'shape': (5, 3, 4)}",
          "{'descr': '<u2', 'fortran_order': 0, 'shape': (5, 3, 4)}",
          "{'descr': '<u2', 'fortran_order': False, 'shape': (5, 3, -4)}",
          "{'descr': '<u2', 'fortran_order': False, 'shape': (5, 3, 99999999999999999999)}",
          "{'descr': '<u2', 'fortran_order': False, 'shape': [5, 3, 4]}",
          "{'descr': '<u2', 'fortran_order': False, 'shape': (5, 3, 4), 'more': 1}",
          "{'descr': '<u2' 'fortran_order': False, 'shape': (5, 3, 4)}", "{'descr': [(, }",
          "{'descr': '<u2}"}) {
        EXPECT_THAT(refused(npy_bytes(text, counting(60))), HasSubstr("npy header")) << text;
    }
}

TEST_F(Npy, WritesWhatItReads) {
    const Shape shape{7, 9};
    {
        NpyWriter writer(path, shape);
        for (std::uint64_t i = 0; i < 30; ++i) writer.write(pattern_frame(shape, i));
        EXPECT_TRUE(std::filesystem::exists(partial_path(path)));
        EXPECT_FALSE(std::filesystem::exists(path));
        EXPECT_THROW(writer.write(std::vector<Pixel>(62)), Error);
        writer.finish();
        EXPECT_THROW(writer.write(pattern_frame(shape, 0)), Error);
    }
    EXPECT_FALSE(std::filesystem::exists(partial_path(path)));
    const auto source = open(path);
    ASSERT_EQ(source->description().count, 30U);
    Storage storage;
    const auto block = source->read(0, 30, storage);
    for (std::int64_t i = 0; i < 30; ++i)
        EXPECT_EQ(frame_of(block, i), pattern_frame(shape, static_cast<std::uint64_t>(i)));

    EXPECT_THAT(message_of<IoError>([&] { NpyWriter again(path, shape); }), HasSubstr("--overwrite"));
    {
        NpyWriter abandoned(path, shape, true);
    }
    EXPECT_FALSE(std::filesystem::exists(partial_path(path)));
    EXPECT_EQ(open(path)->description().count, 30U) << "an abandoned writer leaves the old file";
    EXPECT_THROW(NpyWriter(folder / "none/a.npy", shape), IoError);
}

TEST_F(Npy, ReadsALongFileInLittleMemory) {
    const Shape shape{512, 1024};
    constexpr std::uint64_t k_frames = 200;  // 200 MiB
    {
        NpyWriter writer(path, shape);
        for (std::uint64_t i = 0; i < k_frames; ++i)
            writer.write(std::vector<Pixel>(static_cast<std::size_t>(shape.pixels()), static_cast<Pixel>(i)));
        writer.finish();
    }
    const auto mapped_kb = [] {  // of files, resident
        std::ifstream status("/proc/self/status");
        for (std::string line; std::getline(status, line);) {
            if (line.starts_with("RssFile:")) return std::stol(line.substr(8));
        }
        return -1L;
    };
    const auto before = mapped_kb();
    const auto source = open(path);
    Storage storage;
    const auto early = source->read(0, 10, storage);
    long most = 0;
    for (std::uint64_t i = 0; i < k_frames; i += 10) {
        const auto block = source->read(i, 10, storage);
        for (std::int64_t k = 0; k < 10; ++k)
            ASSERT_EQ(block.pixels(k, 511, 1023), i + static_cast<std::uint64_t>(k));
        most = std::max(most, mapped_kb() - before);
    }
    EXPECT_LT(most, 100 * 1024);
    EXPECT_EQ(early.pixels(3, 0, 0), 3) << "what was let go comes back";
}

TEST_F(Npy, AFileThatShrinksIsAnErrorNotACrash) {
    const Shape shape{64, 1024};
    {
        NpyWriter writer(path, shape);
        for (std::uint64_t i = 0; i < 10; ++i) writer.write(pattern_frame(shape, i));
        writer.finish();
    }
    const auto source = open(path);
    std::filesystem::resize_file(path, 4 * 64 * 1024 * 2);
    Storage storage;
    (void)source->read(0, 3, storage);
    EXPECT_THAT(message_of<FormatError>([&] { (void)source->read(5, 5, storage); }), HasSubstr("truncated"));
}

TEST_F(Npy, TruthComesBack) {
    EXPECT_EQ(truth_path("x/data.h5"), "x/data.h5.truth.npy");
    const std::vector<Photon> photons{{1.5, 2.25, 1100}, {399.9, 0, 1099}};
    {
        TruthWriter writer(path);
        writer.add(3, photons);
        writer.add(4, {});
        writer.add(7, std::span(photons).subspan(1));
        writer.finish();
    }
    const std::vector<TruthRecord> expected{{3, photons[0]}, {3, photons[1]}, {7, photons[1]}};
    EXPECT_EQ(read_truth(path), expected);
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(path); }), HasSubstr("structured"));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    EXPECT_THROW((void)read_truth(path), FormatError);
    EXPECT_THROW(TruthWriter writer(path), IoError);
    write_bytes(path, npy_bytes(dictionary("'<u2'", "(5, 3, 4)"), counting(60)));
    EXPECT_THROW((void)read_truth(path), FormatError);
}

}  // namespace
}  // namespace lightmill::frames

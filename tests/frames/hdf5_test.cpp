#include "lightmill/frames/hdf5.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "lightmill/base/hdf5_internal.hpp"
#include "tests/frames/run_files.hpp"

namespace lightmill::frames {
namespace {

using hdf5::Extents;
using hdf5::Id;
using testing::HasSubstr;

// Writes files as others do, with the C interface.
class File {
  public:
    explicit File(const std::string& path)
        : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
        EXPECT_TRUE(file_);
    }
    [[nodiscard]] hid_t id() const { return file_.get(); }

    struct Layout {
        hid_t type = H5T_STD_U16LE;  // in the file
        Extents chunk = {};
        bool gzip = false;
        std::optional<H5Z_filter_t> filter = {};
        std::optional<Pixel> fill = {};
    };
    template <class T>
    void dataset(const std::string& name, const Extents& extents, const std::vector<T>& values,
                 const Layout& layout) {
        const Id links(H5Pcreate(H5P_LINK_CREATE));
        H5Pset_create_intermediate_group(links.get(), 1);
        const Id properties(H5Pcreate(H5P_DATASET_CREATE));
        if (!layout.chunk.empty())
            H5Pset_chunk(properties.get(), static_cast<int>(layout.chunk.size()), layout.chunk.data());
        if (layout.gzip) H5Pset_deflate(properties.get(), 1);
        if (layout.filter) H5Pset_filter(properties.get(), *layout.filter, H5Z_FLAG_MANDATORY, 0, nullptr);
        if (layout.fill) H5Pset_fill_value(properties.get(), H5T_NATIVE_UINT16, &*layout.fill);
        const Id space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
        const Id dataset(H5Dcreate2(id(), name.c_str(), layout.type, space.get(), links.get(),
                                    properties.get(), H5P_DEFAULT));
        ASSERT_TRUE(dataset);
        if (!values.empty()) {
            ASSERT_GE(
                H5Dwrite(dataset.get(), hdf5::native_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
                0);
        }
    }
    void frames(const std::string& name, std::uint64_t count, const Layout& layout) {
        std::vector<Pixel> values;
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto frame = pattern_frame({5, 7}, i, 256);
            values.insert(values.end(), frame.begin(), frame.end());
        }
        dataset(name, {count, 5, 7}, values, layout);
    }
    void frames(const std::string& name, std::uint64_t count = 6) { frames(name, count, Layout{}); }
    // Strings of variable length, as h5py writes them.
    void attribute(const std::string& group, const std::string& name, const std::string& value) {
        const Id object(H5Oopen(id(), group.c_str(), H5P_DEFAULT));
        const Id type(H5Tcopy(H5T_C_S1));
        H5Tset_size(type.get(), H5T_VARIABLE);
        const Id space(H5Screate(H5S_SCALAR));
        const Id attribute(
            H5Acreate2(object.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
        const char* text = value.c_str();
        ASSERT_GE(H5Awrite(attribute.get(), type.get(), &text), 0);
    }
    void text(const std::string& name, const std::string& value) {
        const Id links(H5Pcreate(H5P_LINK_CREATE));
        H5Pset_create_intermediate_group(links.get(), 1);
        const Id type(H5Tcopy(H5T_C_S1));
        H5Tset_size(type.get(), value.size());
        const Id space(H5Screate(H5S_SCALAR));
        const Id dataset(
            H5Dcreate2(id(), name.c_str(), type.get(), space.get(), links.get(), H5P_DEFAULT, H5P_DEFAULT));
        ASSERT_GE(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, value.data()), 0);
    }

  private:
    hdf5::Session session_;
    Id file_;
};

class Hdf5 : public testing::Test {
  protected:
    void expect_frames(const std::string& dataset, std::uint64_t count) {
        const auto source = open(path, {.dataset = dataset});
        EXPECT_EQ(source->description().format, "hdf5");
        EXPECT_EQ(source->description().shape, (Shape{5, 7}));
        ASSERT_EQ(source->description().count, count);
        Storage storage;
        const auto block = source->read(1, count - 1, storage);
        for (std::uint64_t i = 1; i < count; ++i) {
            EXPECT_EQ(frame_of(block, static_cast<std::int64_t>(i - 1)), pattern_frame({5, 7}, i, 256));
            EXPECT_EQ(block.infos[i - 1].number, i);
        }
        EXPECT_EQ(source->read(count, 0, storage).infos.size(), 0U);
        EXPECT_THROW((void)source->read(count, 1, storage), Error);
    }
    std::string refused(const std::string& dataset = {}) {
        return message_of<FormatError>([&] { (void)open(path, {.dataset = dataset}); });
    }
    TemporaryFolder folder;
    std::string path = folder / "a.h5";
};

TEST_F(Hdf5, ReadsEveryLayout) {
    const File::Layout layouts[] = {{},
                                    {.chunk = {1, 5, 7}},
                                    {.chunk = {4, 3, 3}, .gzip = true},
                                    {.type = H5T_STD_U16BE},
                                    {.type = H5T_STD_U8LE, .chunk = {2, 5, 7}, .gzip = true}};
    for (const auto& layout : layouts) {
        File(path).frames("any/where", 6, layout);
        expect_frames("any/where", 6);
        expect_frames("/any/where", 6);
        expect_frames("", 6);
        EXPECT_EQ(open(path)->description().bits, layout.type == H5T_STD_U8LE ? 8 : 16);
        EXPECT_EQ(open(path)->description().absent_value, std::nullopt);
    }
}

TEST_F(Hdf5, FollowsNeXus) {
    {
        File file(path);
        file.frames("/entry/data/data", 3);
        file.frames("/other/place/counts", 4);
        file.frames("/other/place/more", 5);
    }
    expect_frames("", 3);  // the usual place
    {
        File file(path);
        file.frames("/entry/data/data", 3);
        file.frames("/other/place/counts", 4);
        file.attribute("/", "default", "other");
        file.attribute("/other", "default", "place");
        file.attribute("/other/place", "signal", "counts");
    }
    expect_frames("", 4);  // what the attributes say
    {
        File file(path);
        file.frames("/entry/data/data", 3);
        file.dataset<float>("/plot/sum", {5, 7}, {}, {.type = H5T_NATIVE_FLOAT});
        file.attribute("/", "default", "plot");
        file.attribute("/plot", "signal", "sum");
    }
    expect_frames("", 3);  // a plot is no frames
    {
        File file(path);
        file.frames("/entry/data/data", 3);
        file.attribute("/", "default", "nowhere");
    }
    expect_frames("", 3);
}

TEST_F(Hdf5, ListsCandidates) {
    {
        File file(path);
        file.frames("/a/first", 3);
        file.frames("/b/second", 4);
        file.dataset<float>("/c/third", {2, 3}, {}, {.type = H5T_NATIVE_FLOAT});
    }
    auto message = refused();
    EXPECT_THAT(message, HasSubstr("/a/first (3, 5, 7)"));
    EXPECT_THAT(message, HasSubstr("/b/second (4, 5, 7)"));
    EXPECT_THAT(message, HasSubstr("--dataset"));
    EXPECT_THAT(message, testing::Not(HasSubstr("third")));
    expect_frames("/b/second", 4);
    {
        File file(path);
        file.frames("/a/first", 3);
        H5Lcreate_soft("/a/first", file.id(), "again", H5P_DEFAULT, H5P_DEFAULT);
        H5Lcreate_soft("/not/there", file.id(), "dangling", H5P_DEFAULT, H5P_DEFAULT);
        H5Lcreate_external("none.h5", "/x", file.id(), "outside", H5P_DEFAULT, H5P_DEFAULT);
    }
    expect_frames("", 3);  // one dataset by two names is one
    EXPECT_THAT(refused("/outside"), HasSubstr("not there"));
    {
        File(path).dataset<float>("/c", {2, 3, 4}, {}, {.type = H5T_NATIVE_FLOAT});
    }
    EXPECT_THAT(refused(), HasSubstr("/c (2, 3, 4) of floating-point numbers of 32 bits"));
    {
        File file(path);
    }
    EXPECT_THAT(refused(), HasSubstr("no dataset"));
}

TEST_F(Hdf5, RefusesOtherDatasetsByName) {
    {
        File file(path);
        const auto add = [&](const std::string& name, const Extents& extents, hid_t type) {
            file.dataset<Pixel>(name, extents, {}, {.type = type});
        };
        add("signed", {2, 3, 4}, H5T_STD_I16LE);
        add("wide", {2, 3, 4}, H5T_STD_U32LE);
        add("flat", {3, 4}, H5T_STD_U16LE);
        add("deep", {1, 2, 3, 4}, H5T_STD_U16LE);
        add("hollow", {2, 0, 4}, H5T_STD_U16LE);
        add("scalar", {}, H5T_STD_U16LE);
        file.dataset<Pixel>("huge", {2, hsize_t{1} << 40, hsize_t{1} << 40}, {}, {.chunk = {1, 16, 16}});
    }
    EXPECT_THAT(refused("signed"), HasSubstr("signed integers of 16 bits"));
    EXPECT_THAT(refused("wide"), HasSubstr("unsigned integers of 32 bits"));
    EXPECT_THAT(refused("flat"), HasSubstr("(1, rows, columns)"));
    EXPECT_THAT(refused("deep"), HasSubstr("(1, 2, 3, 4)"));
    EXPECT_THAT(refused("hollow"), HasSubstr("(2, 0, 4)"));
    EXPECT_THAT(refused("scalar"), HasSubstr("expected (frames, rows, columns)"));
    EXPECT_THAT(refused("huge"), HasSubstr("pixels"));
    EXPECT_THAT(refused("none"), HasSubstr("no dataset none"));
    EXPECT_THAT(refused("/"), HasSubstr("no dataset /"));
}

TEST_F(Hdf5, RefusesWhatIsNoFile) {
    EXPECT_THAT(message_of<IoError>([&] { (void)open(path); }), HasSubstr(path));
    write_bytes(path, "no HDF5");
    EXPECT_THAT(refused(), HasSubstr(path));
    File(path).frames("data", 40);
    const auto whole = read_bytes(path);
    write_bytes(path, whole.substr(0, whole.size() - 100));
    EXPECT_THAT(refused(), HasSubstr("truncated"));
}

TEST_F(Hdf5, ADamagedChunkIsAnError) {
    std::vector<Pixel> values(4 * 64 * 64);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Pixel>(i * i % 4099);
    File(path).dataset("data", {4, 64, 64}, values, {.chunk = {1, 64, 64}, .gzip = true});
    auto bytes = read_bytes(path);
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size()) - 3000, bytes.end() - 1000, '\x5a');
    write_bytes(path, bytes);
    const auto source = open(path);
    Storage storage;
    EXPECT_THAT(message_of<Error>([&] { (void)source->read(0, 4, storage); }),
                HasSubstr("read /data, frames 0 to 3"));
}

TEST_F(Hdf5, NamesAMissingFilter) {
    const H5Z_class2_t copy{
        H5Z_CLASS_T_VERS,
        310,
        1,
        1,
        "copy",
        nullptr,
        nullptr,
        [](unsigned, std::size_t, const unsigned*, std::size_t size, std::size_t*, void**) { return size; }};
    ASSERT_GE(H5Zregister(&copy), 0);
    File(path).frames("data", 3, {.chunk = {1, 5, 7}, .filter = 310});
    expect_frames("", 3);
    ASSERT_GE(H5Zunregister(310), 0);
    try {
        (void)open(path);
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unavailable);
        EXPECT_THAT(error.what(), HasSubstr("filter 310"));
        EXPECT_THAT(error.what(), HasSubstr("HDF5_PLUGIN_PATH"));
    }
}

TEST_F(Hdf5, FillValuesAreAbsentPixels) {
    File(path).frames("data", 3, {.chunk = {1, 5, 7}, .fill = Pixel{4321}});
    EXPECT_EQ(open(path)->description().absent_value, Pixel{4321});
    File(path).frames("data", 3, {.chunk = {1, 5, 7}, .fill = Pixel{0}});
    EXPECT_EQ(open(path)->description().absent_value, std::nullopt);
}

// slsDetectorPackage's receiver: data files and a virtual file, frame numbers beside the frames.
TEST_F(Hdf5, ReadsTheReceiversLayout) {
    const auto part = [&](int port) { return folder / ("run_d" + std::to_string(port) + "_f0_0.h5"); };
    const auto write_part = [&](int port, std::uint64_t count) {
        std::vector<Pixel> values(count * 12, static_cast<Pixel>(100 * (port + 1)));
        for (std::uint64_t i = 0; i < count; ++i) values[i * 12] = static_cast<Pixel>(i);
        File(part(port)).dataset("data", {count, 3, 4}, values, {.chunk = {1, 3, 4}, .fill = Pixel{65535}});
    };
    const auto write_master = [&] {
        File file(path);
        const Id groups(H5Pcreate(H5P_LINK_CREATE));
        H5Pset_create_intermediate_group(groups.get(), 1);
        const Id properties(H5Pcreate(H5P_DATASET_CREATE));
        const Pixel fill = 65535;
        H5Pset_fill_value(properties.get(), H5T_NATIVE_UINT16, &fill);
        const Extents whole{5, 3, 8}, half{5, 3, 4};
        const Id space(H5Screate_simple(3, whole.data(), nullptr)),
            source(H5Screate_simple(3, half.data(), nullptr));
        for (hsize_t port = 0; port < 2; ++port) {
            const Extents start{0, 0, 4 * port};
            H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, half.data(), nullptr);
            const auto name = std::filesystem::path(part(static_cast<int>(port))).filename().string();
            H5Pset_virtual(properties.get(), space.get(), name.c_str(), "/data", source.get());
        }
        const Id dataset(H5Dcreate2(file.id(), "/entry/data/data", H5T_STD_U16LE, space.get(), groups.get(),
                                    properties.get(), H5P_DEFAULT));
        ASSERT_TRUE(dataset);
        file.dataset<std::uint64_t>("/entry/data/frame number", {5, 2},
                                    {10, 10, 11, 11, 14, 14, 14, 14, 12, 12}, {.type = H5T_STD_U64LE});
        file.text("/entry/instrument/detector/Detector Type", "Jungfrau");
    };
    write_part(0, 5);
    write_part(1, 5);
    write_master();
    {
        const auto source = open(path);
        const auto& d = source->description();
        EXPECT_EQ(d.shape, (Shape{3, 8}));
        EXPECT_EQ(d.absent_value, Pixel{65535});
        EXPECT_TRUE(d.gain_bits);
        EXPECT_EQ(d.files, (std::vector<std::string>{path, part(0), part(1)}));
        Storage storage;
        const auto block = source->read(0, 5, storage);
        EXPECT_EQ(numbers_of(block), (std::vector<std::uint64_t>{10, 11, 14, 14, 12}));
        EXPECT_EQ(block.pixels(3, 0, 0), 3);
        EXPECT_EQ(block.pixels(3, 2, 3), 100);
        EXPECT_EQ(block.pixels(3, 2, 7), 200);
        const auto anomalies = source->anomalies();
        EXPECT_EQ(anomalies.missing, std::vector<std::uint64_t>{13});
        EXPECT_EQ(anomalies.repeated, std::vector<std::uint64_t>{14});
        EXPECT_EQ(anomalies.out_of_order, std::vector<std::uint64_t>{12});
    }
    write_part(1, 4);
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(path); }),
                HasSubstr(part(1) + ": found /data of shape (4, 3, 4)"));
    File(part(1)).frames("other", 5);
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(path); }), HasSubstr("no dataset /data"));
    std::filesystem::remove(part(1));
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(path); }),
                HasSubstr(part(1).substr(part(1).rfind('/') + 1)));
}

TEST_F(Hdf5, RefusesTooFewFrameNumbers) {
    File file(path);
    file.frames("/entry/data/data", 3);
    file.dataset<std::uint64_t>("/entry/data/frame number", {2}, {1, 2}, {.type = H5T_STD_U64LE});
    H5Fflush(file.id(), H5F_SCOPE_GLOBAL);
    EXPECT_THAT(refused(), HasSubstr("a frame number for each of 3 frames"));
}

TEST_F(Hdf5, WritesWhatItReads) {
    for (auto compression : {Compression::none, Compression::gzip, Compression::bitshuffle}) {
        Hdf5WriteOptions options{.compression = compression, .lost_pixels = compression == Compression::gzip};
        std::unique_ptr<Hdf5Writer> writer;
        try {
            writer = std::make_unique<Hdf5Writer>(path, Shape{5, 7}, options);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::unavailable) throw;
            EXPECT_THAT(error.what(), HasSubstr("32008 (bitshuffle)"));
            EXPECT_THAT(error.what(), HasSubstr("Debian's package bitshuffle"));
            continue;
        }
        for (std::uint64_t i = 0; i < 20; ++i) writer->write(pattern_frame({5, 7}, i, 256));
        EXPECT_THROW(writer->write(std::vector<Pixel>(34)), Error);
        EXPECT_FALSE(std::filesystem::exists(path));
        writer->finish();
        EXPECT_THROW(writer->write(pattern_frame({5, 7}, 0)), Error);
        EXPECT_FALSE(std::filesystem::exists(partial_path(path)));
        expect_frames("", 20);
        EXPECT_EQ(open(path)->description().absent_value,
                  options.lost_pixels ? std::optional<Pixel>(65535) : std::nullopt);
        EXPECT_THROW(Hdf5Writer(path, Shape{5, 7}), IoError);
        options.overwrite = true;
        const auto first = read_bytes(path);
        {
            Hdf5Writer abandoned(path, Shape{5, 7}, options);
            abandoned.write(pattern_frame({5, 7}, 3));
        }
        EXPECT_FALSE(std::filesystem::exists(partial_path(path)));
        EXPECT_EQ(read_bytes(path), first) << "an abandoned writer leaves the old file";
        Hdf5Writer again(path, Shape{5, 7}, options);
        for (std::uint64_t i = 0; i < 20; ++i) again.write(pattern_frame({5, 7}, i, 256));
        again.finish();
        EXPECT_EQ(read_bytes(path), first) << "the same frames, other bytes";
        std::filesystem::remove(path);
    }
}

TEST_F(Hdf5, AFullDiskLeavesNothing) {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const auto whole = limit;
    const auto old = std::signal(SIGXFSZ, SIG_IGN);
    std::string message;
    {
        Hdf5Writer writer(path, Shape{512, 1024});
        limit.rlim_cur = 10 << 20;
        ::setrlimit(RLIMIT_FSIZE, &limit);
        message = message_of<IoError>([&] {
            for (std::uint64_t i = 0; i < 12; ++i) writer.write(pattern_frame({512, 1024}, i));
        });
    }
    ::setrlimit(RLIMIT_FSIZE, &whole);
    std::signal(SIGXFSZ, old);
    EXPECT_THAT(message, HasSubstr(partial_path(path)));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Hdf5, OneThreadReadsWhileAnotherWrites) {
    const auto other = folder / "b.h5";
    {
        Hdf5Writer writer(path, Shape{5, 7}, {.compression = Compression::gzip});
        for (std::uint64_t i = 0; i < 200; ++i) writer.write(pattern_frame({5, 7}, i, 256));
        writer.finish();
    }
    std::thread thread([&] {
        Hdf5Writer writer(other, Shape{5, 7}, {.compression = Compression::gzip});
        for (std::uint64_t i = 0; i < 200; ++i) writer.write(pattern_frame({5, 7}, i, 256));
        writer.finish();
    });
    const auto source = open(path);
    Storage storage;
    for (std::uint64_t i = 0; i < 200; ++i)
        EXPECT_EQ(frame_of(source->read(i, 1, storage), 0), pattern_frame({5, 7}, i, 256));
    thread.join();
    EXPECT_EQ(open(other)->description().count, 200U);
}

}  // namespace
}  // namespace lightmill::frames

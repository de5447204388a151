// Sources made of other sources, opening by content and name, and .dat files.

#include "lightmill/frames/source.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "run_files.hpp"

namespace lightmill::frames {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Frames in memory whose pixels are number * 100 + position.
class Memory final : public Source {
  public:
    Memory(Shape shape, std::vector<std::uint64_t> numbers) : numbers_(std::move(numbers)) {
        description_.name = "memory";
        description_.format = "memory";
        description_.shape = shape;
        description_.count = numbers_.size();
        description_.files = {"a file"};
    }
    Description& mutable_description() { return description_; }
    const Description& description() const noexcept override { return description_; }
    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        EXPECT_LE(first + count, numbers_.size());
        const auto n = static_cast<std::uint64_t>(description_.shape.pixels());
        storage.infos.clear();
        storage.pixels.grow(count * n, 0);
        for (std::uint64_t f = 0; f < count; ++f) {
            storage.infos.push_back({numbers_[first + f], lost_});
            for (std::uint64_t i = 0; i < n; ++i) {
                storage.pixels[f * n + i] =
                    i < lost_ ? Pixel{65535} : static_cast<Pixel>(numbers_[first + f] * 100 + i);
            }
        }
        return {storage.infos,
                {storage.pixels.data(),
                 {static_cast<std::int64_t>(count), description_.shape.rows, description_.shape.columns}}};
    }
    Anomalies anomalies() const override {
        Anomalies a;
        a.missing_frames = 1;
        a.missing = {numbers_.empty() ? 0 : numbers_.front()};
        return a;
    }
    std::uint32_t lost_ = 0;  // the first pixels of each frame

  private:
    std::vector<std::uint64_t> numbers_;
    Description description_;
};

std::unique_ptr<Memory> memory(std::vector<std::uint64_t> numbers, Shape shape = {3, 4}) {
    return std::make_unique<Memory>(shape, std::move(numbers));
}

std::unique_ptr<Source> joined(std::vector<std::vector<std::uint64_t>> parts) {
    std::vector<std::unique_ptr<Source>> sources;
    for (auto& p : parts) sources.push_back(memory(p));
    return concatenate(std::move(sources));
}

TEST(Concatenate, ReadsAcrossAllBoundaries) {
    const auto source = joined({{1, 2, 3}, {}, {7}, {1, 2}, {}});
    const auto& d = source->description();
    EXPECT_EQ(d.count, 6U);
    EXPECT_EQ(d.files.size(), 5U);
    const std::vector<std::uint64_t> all{1, 2, 3, 7, 1, 2};
    for (std::uint64_t first = 0; first <= 6; ++first) {
        for (std::uint64_t count = 0; first + count <= 6; ++count) {
            Storage storage;
            const auto block = source->read(first, count, storage);
            ASSERT_EQ(block.pixels.extent(0), static_cast<std::int64_t>(count));
            ASSERT_EQ(block.infos.size(), count);
            for (std::uint64_t i = 0; i < count; ++i) {
                EXPECT_EQ(block.infos[i].number, all[first + i]);
                EXPECT_EQ(block.pixels(static_cast<std::int64_t>(i), 2, 3), all[first + i] * 100 + 11);
            }
        }
    }
    Storage storage;
    EXPECT_THAT(message_of<Error>([&] { (void)source->read(4, 3, storage); }), HasSubstr("at most 6"));
    EXPECT_EQ(source->anomalies().missing_frames, 5U);
    EXPECT_THAT(source->anomalies().missing, ElementsAre(1, 0, 7, 1, 0));
}

TEST(Concatenate, BlocksInOtherStorageStayValid) {
    const auto source = joined({{1, 2}, {3, 4}, {5, 6}});
    Storage a, b;
    const auto first = source->read(1, 2, a);
    const auto second = source->read(3, 2, b);
    EXPECT_EQ(first.pixels(1, 0, 0), 300);
    EXPECT_EQ(second.pixels(1, 0, 0), 500);
}

TEST(Concatenate, RefusesWhatDiffers) {
    const auto differing = [](auto change) {
        std::vector<std::unique_ptr<Source>> sources;
        sources.push_back(memory({1}));
        auto other = memory({1});
        other->mutable_description().name = "the other";
        change(other->mutable_description());
        sources.push_back(std::move(other));
        return message_of<OptionError>([&] { (void)concatenate(std::move(sources)); });
    };
    EXPECT_THAT(differing([](auto& d) { d.shape = {4, 3}; }),
                AllOf(HasSubstr("the other"), HasSubstr("4 × 3"), HasSubstr("3 × 4 in memory")));
    EXPECT_THAT(differing([](auto& d) { d.absent_value = 1; }), HasSubstr("absent"));
    EXPECT_THAT(differing([](auto& d) { d.gain_bits = true; }), HasSubstr("gain bits"));
    EXPECT_THAT(differing([](auto& d) { d.module_rows = {1}; }), HasSubstr("modules"));
    EXPECT_THAT(message_of<OptionError>([] { (void)concatenate({}); }), HasSubstr("at least one"));
}

TEST(Crop, CutsPixelsModulesAndLosses) {
    auto whole = memory({4, 5});
    whole->mutable_description().module_rows = {1, 2};
    whole->mutable_description().module_columns = {1, 3};
    whole->mutable_description().absent_value = 65535;
    whole->lost_ = 6;  // row 0 and half of row 1
    const auto source = crop(std::move(whole), {1, 3, 1, 4});
    const auto& d = source->description();
    EXPECT_EQ(d.shape, (Shape{2, 3}));
    EXPECT_EQ(d.count, 2U);
    EXPECT_THAT(d.module_rows, ElementsAre(1));
    EXPECT_THAT(d.module_columns, ElementsAre(2));
    Storage storage;
    const auto block = source->read(0, 2, storage);
    EXPECT_THAT(frame_of(block, 1), ElementsAre(65535, 506, 507, 509, 510, 511));
    EXPECT_EQ(block.infos[1], (FrameInfo{5, 1}));
}

TEST(Crop, RefusesWhatIsEmptyOrOutside) {
    for (const Region& r : {Region{0, 4, 0, 4}, Region{-1, 2, 0, 4}, Region{1, 1, 0, 4}, Region{2, 1, 0, 4},
                            Region{0, 3, 0, 5}, Region{0, 3, -1, 4}, Region{0, 3, 4, 4}}) {
        EXPECT_THAT(message_of<OptionError>([&] { (void)crop(memory({1}), r); }),
                    AllOf(HasSubstr("roi"), HasSubstr("rows within 0:3")));
    }
}

TEST(Slice, ShiftsFrames) {
    const auto source = slice(memory({1, 2, 3, 4, 5}), 1, 4);
    EXPECT_EQ(source->description().count, 3U);
    Storage storage;
    EXPECT_THAT(numbers_of(source->read(0, 3, storage)), ElementsAre(2, 3, 4));
    EXPECT_THAT(numbers_of(slice(slice(memory({1, 2, 3, 4, 5}), 1, 4), 2, 3)->read(0, 1, storage)),
                ElementsAre(4));
    EXPECT_EQ(slice(memory({1}), 1, 1)->description().count, 0U);
    EXPECT_THAT(message_of<Error>([&] { (void)source->read(1, 3, storage); }), HasSubstr("at most 3"));
    EXPECT_THAT(message_of<OptionError>([] { (void)slice(memory({1, 2}), 1, 3); }),
                AllOf(HasSubstr("frames"), HasSubstr("1:3"), HasSubstr("0:2")));
    EXPECT_THAT(message_of<OptionError>([] { (void)slice(memory({1, 2}), 2, 1); }), HasSubstr("2:1"));
}

TEST(Open, NamesWhatItFound) {
    const TemporaryFolder folder;
    write_bytes(folder / "notes.txt", "hello\x01 there");
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(folder / "notes.txt"); }),
                AllOf(HasSubstr("notes.txt"), HasSubstr("hello"), HasSubstr(".npy")));
    write_bytes(folder / "empty", "");
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(folder / "empty"); }), HasSubstr("expected"));
    EXPECT_THAT(message_of<IoError>([&] { (void)open(folder / "none.json"); }), HasSubstr("none.json"));
    EXPECT_THAT(message_of<IoError>([&] { (void)open(folder.path().string()); }), HasSubstr("name a file"));
    ASSERT_EQ(::mkfifo((folder / "pipe.json").c_str(), 0600), 0);
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(folder / "pipe.json"); }),
                HasSubstr("regular file"));
}

// --- .dat ------------------------------------------------------------------------------------------------

std::string dat_record(std::uint64_t number, std::uint64_t bunch, const std::vector<Pixel>& pixels) {
    std::string bytes(reinterpret_cast<const char*>(&number), 8);
    bytes.append(reinterpret_cast<const char*>(&bunch), 8);
    return bytes.append(reinterpret_cast<const char*>(pixels.data()), pixels.size() * 2);
}

TEST(Dat, SizesFollowFromTheFile) {
    const TemporaryFolder folder;
    for (const auto& shape : {Shape{512, 1024}, Shape{256, 1024}, Shape{256, 256}}) {
        std::string bytes;
        for (const std::uint64_t n : {7U, 8U, 10U}) bytes += dat_record(n, 99, pattern_frame(shape, n));
        write_bytes(folder / "run_000000.dat", bytes);
        const auto source = open(folder / "run_000000.dat");
        const auto& d = source->description();
        EXPECT_EQ(d.format, "dat");
        EXPECT_EQ(d.shape, shape);
        EXPECT_EQ(d.count, 3U);
        EXPECT_TRUE(d.gain_bits);
        EXPECT_EQ(d.absent_value, std::nullopt);
        Storage storage;
        const auto block = source->read(1, 2, storage);
        EXPECT_THAT(numbers_of(block), ElementsAre(8, 10));
        EXPECT_EQ(frame_of(block, 0), pattern_frame(shape, 8));
        EXPECT_EQ(frame_of(block, 1), pattern_frame(shape, 10));
        EXPECT_THAT(source->anomalies().missing, ElementsAre(9));
    }
}

TEST(Dat, RefusesOtherSizes) {
    const TemporaryFolder folder;
    const auto path = folder / "run_000000.dat";
    write_bytes(path, dat_record(1, 2, pattern_frame({512, 1024}, 1)) + std::string(100, 'x'));
    EXPECT_THAT(message_of<FormatError>([&] { (void)open(path); }),
                AllOf(HasSubstr("byte 1048592"), HasSubstr("found 1048692 bytes"),
                      HasSubstr("1048592, 524304 or 131088")));
    write_bytes(path, "");
    EXPECT_EQ(open(path)->description().count, 0U);
}

}  // namespace
}  // namespace lightmill::frames

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/base/options.hpp"
#include "lightmill/base/pool.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/base/view.hpp"

namespace lightmill {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Files : public testing::Test {
  protected:
    Files() : folder_(fs::temp_directory_path() / fmt::format("lightmill_base_{}", ::getpid())) {
        fs::create_directories(folder_);
    }
    ~Files() override { fs::remove_all(folder_); }
    std::string path(const char* name) const { return (folder_ / name).string(); }
    fs::path folder_;
};

std::string hex(const Hash128& hash) {
    std::string text;
    for (const auto b : hash) text += fmt::format("{:02x}", static_cast<unsigned>(b));
    return text;
}

TEST(Hashes, KnownVectors) {
    EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    Xxh3 xxh;
    EXPECT_EQ(hex(xxh.digest()), "99aa06d3014798d86001c324468d497f");  // xxhsum -H2 of nothing
    xxh.update("abc", 3);
    EXPECT_EQ(hex(xxh.digest()), "06b05ab6733a618578af5f94892f3950");
    xxh.reset();
    EXPECT_EQ(hex(xxh.digest()), "99aa06d3014798d86001c324468d497f");
}

TEST(Hashes, StreamingEqualsWhole) {
    std::string text(10000, 'x');
    std::iota(text.begin(), text.end(), '\0');
    Sha256 sha;
    for (std::size_t i = 0; i < text.size(); i += 7)
        sha.update(text.data() + i, std::min<std::size_t>(7, text.size() - i));
    EXPECT_EQ(sha.hex(), sha256_hex(text));
    EXPECT_EQ(sha.hex(), sha256_hex(text));  // hex() does not end the stream
    sha.update("a", 1);
    EXPECT_EQ(sha.hex(), sha256_hex(text + "a"));
}

TEST_F(Files, AppearWholeUnderTheirName) {
    write_file(path("a"), std::string("content"));
    EXPECT_EQ(read_file(path("a")), "content");
    EXPECT_FALSE(fs::exists(partial_path(path("a"))));
    EXPECT_EQ(sha256_file(path("a")), sha256_hex("content"));
    const MappedFile map(path("a"));
    EXPECT_EQ(std::memcmp(map.bytes().data(), "content", 7), 0);
}

TEST_F(Files, TruncatedReadsSayWhere) {
    write_file(path("a"), std::string("0123456789"));
    const auto file = open_for_reading(path("a"));
    std::array<std::byte, 8> bytes{};
    read_exact(file, path("a"), 2, bytes);
    EXPECT_EQ(static_cast<char>(bytes[0]), '2');
    try {
        read_exact(file, path("a"), 5, bytes);
        FAIL();
    } catch (const FormatError& error) {
        EXPECT_EQ(error.byte_offset(), 5);
        EXPECT_THAT(error.what(), HasSubstr("5 bytes into a read of 8"));
    }
}

TEST_F(Files, RefusalsSayWhatToDo) {
    EXPECT_THROW((void)open_for_reading(path("missing")), IoError);
    EXPECT_THROW((void)open_for_reading(folder_.string()), IoError);
    EXPECT_THROW(require_writable(path("no/such/folder.h5"), false), IoError);
    write_file(path("a"), std::string("x"));
    try {
        require_writable(path("a"), false);
        FAIL();
    } catch (const IoError& error) {
        EXPECT_THAT(error.what(), HasSubstr("--overwrite"));
    }
    require_writable(path("a"), true);
    EXPECT_THROW((void)read_file(path("a"), 0), FormatError);
}

TEST_F(Files, AFullDiskIsAnIoErrorWithAdvice) {
    FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    if (!full.is_open()) GTEST_SKIP() << "no /dev/full on this machine";
    const std::string text(1 << 16, 'x');
    try {
        write_all(full, "/dev/full", std::as_bytes(std::span(text)));
        FAIL();
    } catch (const IoError& error) {
        EXPECT_EQ(error.error_number(), ENOSPC);
        EXPECT_THAT(error.what(), HasSubstr("free some space"));
    }
}

TEST(Teams, RunEveryMemberEveryTime) {
    for (const int size : {1, 2, 5}) {
        Team team(size);
        std::vector<std::atomic<int>> turns(static_cast<std::size_t>(size));
        for (int i = 0; i < 500; ++i)
            team.run([&](int member) { ++turns[static_cast<std::size_t>(member)]; });
        for (const auto& n : turns) EXPECT_EQ(n, 500);
    }
}

TEST(Teams, RethrowTheLowestMembersErrorAndGoOn) {
    Team team(3);
    for (int i = 0; i < 50; ++i) {
        try {
            team.run([](int member) {
                if (member > 0) throw std::runtime_error(std::to_string(member));
            });
            FAIL();
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "1");
        }
    }
    team.run([](int) {});
}

TEST(Teams, TurnstilesPublishWhatWasWrittenBefore) {
    Team team(2);
    Turnstile ping, pong;
    std::uint32_t value = 0;
    team.run([&](int member) {
        for (std::uint32_t i = 1; i <= 20000; ++i) {
            if (member == 0) {
                value = i;
                ping.advance_to(i);
                pong.wait_for(i);
            } else {
                ping.wait_for(i);
                ASSERT_EQ(value, i);
                pong.advance_to(i);
            }
        }
    });
}

TEST(Views, RowMajorWithSubviews) {
    std::array<int, 24> data{};
    std::iota(data.begin(), data.end(), 0);
    const View<int, 3> view(data.data(), {2, 3, 4});
    EXPECT_EQ(view(1, 2, 3), 23);
    EXPECT_EQ(view[1](0, 2), 14);
    EXPECT_EQ(view[1][2].extent(0), 4);
    const View<const int, 3> same = view;
    EXPECT_EQ(same.flat().size(), 24U);
    static_assert(!std::is_invocable_v<View<int, 1, Device>, int>);
}

TEST(Buffers, GrowAndKeepTheirContent) {
    Buffer<int> buffer(4, 7);
    buffer.grow(1000, 4);
    EXPECT_GE(buffer.size(), 1000U);
    EXPECT_EQ(buffer[3], 7);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % k_alignment_bytes, 0U);
    Buffer<int> moved = std::move(buffer);
    EXPECT_TRUE(buffer.empty());  // NOLINT(bugprone-use-after-move): moved-from is empty by contract
    EXPECT_EQ(moved[0], 7);
}

enum class Colour { red, blue };
constexpr std::array<std::string_view, 2> k_colours{"red", "blue"};
std::span<const std::string_view> names(Colour) {
    return k_colours;
}

struct Sample {
    double share = 0.5;
    std::int64_t count = 3;
    std::optional<double> limit = {};
    Colour colour = Colour::red;
    bool fast = false;
    std::string name = {};
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, Sample>
void visit_options(Options& o, Visitor&& visit) {
    visit(OptionInfo{.name = "share", .help = "h", .minimum = 0, .maximum = 1, .above_minimum = true},
          o.share);
    visit(OptionInfo{.name = "count", .help = "h", .minimum = 1}, o.count);
    visit(OptionInfo{.name = "limit", .help = "h", .minimum = 0}, o.limit);
    visit(OptionInfo{.name = "colour", .help = "h"}, o.colour);
    visit(OptionInfo{.name = "fast", .help = "h"}, o.fast);
    visit(OptionInfo{.name = "name", .help = "h"}, o.name);
}

std::string refusal(const Sample& sample) {
    try {
        check_options(sample);
    } catch (const OptionError& error) {
        return error.what();
    }
    return {};
}

TEST(Options, AreCheckedByTheirDescription) {
    EXPECT_EQ(refusal({}), "");
    EXPECT_EQ(refusal({.share = 0}), "share: found 0, expected a number above 0 up to 1");
    EXPECT_EQ(refusal({.share = std::nan("")}), "share: found nan, expected a number above 0 up to 1");
    EXPECT_EQ(refusal({.count = 0}), "count: found 0, expected a whole number from 1");
    EXPECT_EQ(refusal({.limit = -1}), "limit: found -1, expected unset, or a number from 0");
    EXPECT_EQ(option_text(Colour::blue), "blue");
    EXPECT_EQ(allowed_values({}, Colour::red), "one of red, blue");
}

// Waits in a test for what tasks count.
class Countdown {
  public:
    explicit Countdown(int n) : left_(n) {}
    void down() {
        const std::lock_guard lock(mutex_);
        if (--left_ == 0) zero_.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        zero_.wait(lock, [this] { return left_ == 0; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable zero_;
    int left_;
};

TEST(ThePool, RunsEveryTaskOnceAlsoThoseThatTasksPost) {
    for (const int workers : {1, 2, 5}) {
        Countdown all(40 * 25);
        std::array<std::atomic<int>, 40> counts{};
        Pool pool(workers);
        EXPECT_EQ(pool.workers(), workers);
        for (std::size_t i = 0; i < counts.size(); ++i) {
            pool.post(i, [&, i](int worker) {
                EXPECT_LT(worker, workers);
                for (int k = 0; k < 25; ++k)
                    pool.post(i, [&, i](int) {
                        counts[i].fetch_add(1);
                        all.down();
                    });
            });
        }
        all.wait();
        for (const auto& count : counts) EXPECT_EQ(count.load(), 25);
    }
}

TEST(ThePool, TakesTheLowestOrderFirstAndEqualOnesAsTheyCame) {
    std::vector<int> seen;  // by one worker
    Countdown all(6), started(1), gate(1);
    Pool pool(1);
    pool.post(0, [&](int) {
        started.down();
        gate.wait();
    });
    started.wait();
    for (const auto& [order, name] : {std::pair{5, 1}, {2, 2}, {5, 3}, {1, 4}, {2, 5}, {9, 6}}) {
        pool.post(static_cast<std::uint64_t>(order), [&, name = name](int) {
            seen.push_back(name);
            all.down();
        });
    }
    gate.down();
    all.wait();
    EXPECT_EQ(seen, (std::vector{4, 2, 5, 1, 3, 6}));
}

TEST(ThePool, DropsWhatHasNotBegunWhenItEnds) {
    Countdown started(1);
    std::atomic<int> ran{0};
    {
        Pool pool(1);
        pool.post(0, [&](int) {
            started.down();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            ++ran;
        });
        started.wait();
        for (int i = 0; i < 10; ++i) pool.post(1, [&](int) { ++ran; });
    }
    EXPECT_EQ(ran.load(), 1);
}

TEST(ThePool, SleepsWithoutWork) {
    const auto cpu_seconds = [] {
        rusage usage{};
        ::getrusage(RUSAGE_SELF, &usage);
        return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    };
    Pool pool(8);
    Countdown some(8);
    for (int i = 0; i < 8; ++i) pool.post(0, [&](int) { some.down(); });
    some.wait();
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_LT(cpu_seconds() - before, 0.01 * 8 * 0.5);  // 1 % of each worker
}

}  // namespace
}  // namespace lightmill

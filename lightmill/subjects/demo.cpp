// To learn with, and to test the ladder itself: work whose ratios are known beforehand.

#include <chrono>
#include <ctime>
#include <thread>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/subjects/subjects.hpp"

namespace lightmill::subjects {
namespace {

using ladder::Fact;

struct Work {
    std::int64_t items = 1000;
    double milliseconds = 5;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Work>
void visit_options(O& options, Visitor&& visit) {
    visit(OptionInfo{.name = "items", .help = "numbers to square", .minimum = 1, .maximum = 1e7},
          options.items);
    visit(OptionInfo{.name = "milliseconds",
                     .help = "what a rung of speed 1 takes",
                     .unit = "ms",
                     .minimum = 0,
                     .maximum = 60000,
                     .above_minimum = true},
          options.milliseconds);
}

enum class Method { sleep, spin, count };
constexpr std::array<std::string_view, 3> k_methods{"sleep", "spin", "count"};
std::span<const std::string_view> names(Method) {
    return k_methods;
}

struct Options {
    Method method = Method::sleep;
    double speed = 1;
    bool wrong = false;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Options>
void visit_options(O& options, Visitor&& visit) {
    visit(OptionInfo{.name = "method",
                     .help = "sleep; spin: burn CPU time; count: a fixed number of additions"},
          options.method);
    visit(OptionInfo{.name = "speed", .help = "so many times as fast", .minimum = 0.01, .maximum = 1000},
          options.speed);
    visit(OptionInfo{.name = "wrong", .help = "gives a wrong last number: the gate must find it"},
          options.wrong);
}

double cpu_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Demo final : public ladder::Subject {
  public:
    Demo(const Work& work, const Options& options)
        : work_(work), options_(options), squares_(static_cast<std::size_t>(work.items)) {}
    void poison() override { std::fill_n(squares_.data(), squares_.size(), -1.0); }
    ladder::Outcome run() override {
        for (std::size_t i = 0; i < squares_.size(); ++i)
            squares_[i] = static_cast<double>(i) * static_cast<double>(i);
        if (options_.wrong) squares_[squares_.size() - 1] += 1;
        const double seconds = work_.milliseconds / 1000 / options_.speed;
        if (options_.method == Method::sleep) {
            std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        } else if (options_.method == Method::spin) {
            for (const double start = cpu_seconds(); cpu_seconds() - start < seconds;) {
            }
        } else {
            // About a million additions a millisecond, each waiting for the one before.
            volatile std::uint64_t sum = 0;
            for (auto n = static_cast<std::uint64_t>(seconds * 1e9 / 2); n > 0; --n) sum = sum + n;
        }
        return {static_cast<double>(work_.items), squares_.size()};
    }
    ladder::Answer output() override {
        return {ladder::array_of<double>("squares", std::span<const double>(squares_.span()))};
    }

  private:
    Work work_;
    Options options_;
    Buffer<double> squares_;
};

class Type final : public ladder::SubjectType {
  public:
    std::string_view name() const noexcept override { return "demo"; }
    std::string_view help() const noexcept override {
        return "squares of numbers, with a speed that is told";
    }
    std::vector<Fact> work(const ladder::Settings& settings) const override {
        return ladder::facts_of(parse<Work>(settings));
    }
    std::vector<Fact> configuration(const ladder::Settings&,
                                    const ladder::Settings& settings) const override {
        return ladder::facts_of(parse<Options>(settings));
    }
    std::optional<ladder::Settings> scalar(const ladder::Settings&, const ladder::Settings&) const override {
        return ladder::Settings{{"speed", 1000.0, 0}};
    }
    std::unique_ptr<ladder::Subject> build(const ladder::BuildInput& input) const override {
        return std::make_unique<Demo>(parse<Work>(input.work), parse<Options>(input.configuration));
    }

  private:
    template <class O>
    static O parse(const ladder::Settings& settings) {
        O options;
        ladder::apply(options, settings);
        return options;
    }
};

}  // namespace

const ladder::SubjectType& demo() {
    static const Type type;
    return type;
}

}  // namespace lightmill::subjects

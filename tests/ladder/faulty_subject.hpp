#pragma once
// A subject that does wrong what can be done wrong.

#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <limits>
#include <stdexcept>

#include "lightmill/ladder/plan/subject.hpp"

namespace lightmill::ladder::testing_support {

enum class Fault { none, wrong, nan, crash, hang, throws, advances, at_cap, unwritten, late, middle };
inline constexpr std::array<std::string_view, 11> k_faults{
    "none", "wrong", "nan", "crash", "hang", "throws", "advances", "at_cap", "unwritten", "late", "middle"};
inline std::span<const std::string_view> names(Fault) {
    return k_faults;
}

struct FaultyOptions {
    Fault fault = Fault::none;
    std::int64_t threads = 1;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, FaultyOptions>
void visit_options(O& options, Visitor&& visit) {
    visit(OptionInfo{.name = "fault", .help = "what goes wrong"}, options.fault);
    visit(OptionInfo{.name = "threads", .help = "nothing", .minimum = 1, .maximum = 8}, options.threads);
}

class FaultySubject final : public Subject {
  public:
    explicit FaultySubject(Fault fault) : fault_(fault) {}
    void reserve() override {
        if (fault_ == Fault::advances) ++state_;
    }
    std::string state_digest() const override { return std::to_string(state_); }
    void poison() override { values_.fill(std::numeric_limits<double>::quiet_NaN()); }
    Outcome run() override {
        ++runs_;
        ::usleep(1000);
        if (fault_ == Fault::crash) ::kill(::getpid(), SIGKILL);  // a sanitizer would take SIGSEGV for itself
        if (fault_ == Fault::hang) ::pause();
        if (fault_ == Fault::throws) throw std::runtime_error("no more memory on Tuesdays");
        if (fault_ == Fault::unwritten) return {4, 4};
        for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<double>(i);
        if (fault_ == Fault::wrong) values_[2] = 7;
        if (fault_ == Fault::nan) values_[3] = std::nan("");
        if (fault_ == Fault::late && runs_ == 3) values_[1] = -1;
        if (fault_ == Fault::middle && runs_ == 2) values_[1] = -1;  // right again at the end
        return {4, 4};
    }
    Answer output() override { return {array_of<double>("values", std::span<const double>(values_))}; }
    std::vector<Detector> detectors() const override {
        return {{"at_cap", fault_ == Fault::at_cap ? 5U : 0U}};
    }

  private:
    Fault fault_;
    int state_ = 0;
    int runs_ = 0;
    std::array<double, 4> values_{};
};

class FaultyType final : public SubjectType {
  public:
    std::string_view name() const noexcept override { return "faulty"; }
    std::string_view help() const noexcept override { return "goes wrong"; }
    std::vector<Fact> work(const Settings&) const override { return {}; }
    std::vector<Fact> configuration(const Settings&, const Settings& settings) const override {
        return facts_of(parse(settings));
    }
    std::optional<Settings> scalar(const Settings&, const Settings&) const override { return Settings{}; }
    std::string swept_option() const override { return "threads"; }
    std::unique_ptr<Subject> build(const BuildInput& input) const override {
        return std::make_unique<FaultySubject>(parse(input.configuration).fault);
    }

  private:
    static FaultyOptions parse(const Settings& settings) {
        FaultyOptions options;
        apply(options, settings);
        return options;
    }
};

}  // namespace lightmill::ladder::testing_support

#pragma once
// What can be put on a ladder. A subject's type describes and checks its options without building
// anything; the subject itself lives in a worker process of its own.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/ladder/gate/answer.hpp"
#include "lightmill/ladder/plan/settings.hpp"
#include "lightmill/ladder/report/session.hpp"

namespace lightmill::ladder {

// What one repetition did.
struct Outcome {
    double items = 0;         // frames, products: what a rate counts
    std::uint64_t count = 0;  // results: clusters, elements
};

// Something that must not happen (a result at its cap, a loss), counted outside the clock; anything but 0
// makes the row invalid.
struct Detector {
    std::string name;
    std::uint64_t value = 0;
};

class Subject {
  public:
    Subject() = default;
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;
    virtual ~Subject() = default;

    // Allocates and pins what the runs will need. May not advance the state.
    virtual void reserve() {}
    // Names the state that the next answer depends on, apart from the input.
    [[nodiscard]] virtual std::string state_digest() const { return {}; }
    // Before each repetition, outside the clock: makes the last answer unusable, so that one that is not
    // written again cannot pass.
    virtual void poison() = 0;
    // The timed work, once.
    virtual Outcome run() = 0;
    // The answer of the last run; its memory stays until the subject is used again.
    [[nodiscard]] virtual Answer output() = 0;
    [[nodiscard]] virtual std::vector<Detector> detectors() const { return {}; }
};

// A program that speaks the line protocol (docs/ladder.md).
struct Launch {
    std::string program;
    std::vector<std::string> arguments;
};

// Named values from outside: environment variables that a ladder file may mention.
using Variables = std::map<std::string, std::string>;

// Where a foreign program is looked for.
struct Place {
    std::string folder;  // of the ladder file
    Variables variables;
};

struct BuildInput {
    Settings work;
    Settings configuration;
    std::span<const std::byte> input;  // what write_input wrote, read-only, shared
};

class SubjectType {
  public:
    SubjectType() = default;
    SubjectType(const SubjectType&) = delete;
    SubjectType& operator=(const SubjectType&) = delete;
    virtual ~SubjectType() = default;

    [[nodiscard]] virtual std::string_view name() const noexcept = 0;
    [[nodiscard]] virtual std::string_view help() const noexcept = 0;  // one sentence

    // Every option with its value, defaults included. Throw OptionError for what is not allowed.
    [[nodiscard]] virtual std::vector<Fact> work(const Settings& work) const = 0;
    [[nodiscard]] virtual std::vector<Fact> configuration(const Settings& work,
                                                          const Settings& configuration) const = 0;
    // Why that configuration cannot run on this machine; empty where it can.
    [[nodiscard]] virtual std::string unavailable(const Settings&, const Settings&, const Place&) const {
        return {};
    }
    // The plain implementation that gives the same answer to that work; nothing where there is none, and the
    // reference rung stands in.
    [[nodiscard]] virtual std::optional<Settings> scalar(const Settings&, const Settings&) const {
        return std::nullopt;
    }
    // The option that a fair CPU baseline has tried out, such as "threads"; empty where there is none.
    [[nodiscard]] virtual std::string swept_option() const { return {}; }
    // Bytes and operations that a repetition cannot do without, by the probe's resources.
    [[nodiscard]] virtual std::vector<Load> loads(const Settings&, const Settings&) const { return {}; }
    // Makes the input that all rungs share, of so many bytes. Nothing where the subject has none.
    [[nodiscard]] virtual std::int64_t input_bytes(const Settings&) const { return 0; }
    virtual void write_input(const Settings&, const std::string&) const {}
    [[nodiscard]] virtual std::unique_ptr<Subject> build(const BuildInput& input) const = 0;
    // Set for a foreign program: it is started in place of build().
    [[nodiscard]] virtual std::optional<Launch> launch(const Settings&, const Place&) const {
        return std::nullopt;
    }
};

// What a program offers, in the order of its help.
using Subjects = std::vector<const SubjectType*>;

}  // namespace lightmill::ladder

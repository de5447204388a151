// Any program that speaks the line protocol (docs/ladder.md).

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "lightmill/base/error.hpp"
#include "lightmill/subjects/subjects.hpp"

namespace lightmill::subjects {
namespace {

using ladder::Fact;

struct Options {
    std::string program;
    std::vector<std::string> arguments;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Options>
void visit_options(O& options, Visitor&& visit) {
    visit(
        OptionInfo{
            .name = "program",
            .help =
                "what to start: a path, beside the ladder file unless it begins with '/', a name found in "
                "PATH, or $NAME for the environment variable NAME"},
        options.program);
    visit(OptionInfo{.name = "arguments", .help = "its arguments; {here} is the folder of the ladder file"},
          options.arguments);
}

// A command has no work of its own to describe: numbers and texts for its hello.
class Command final : public ladder::SubjectType {
  public:
    std::string_view name() const noexcept override { return "command"; }
    std::string_view help() const noexcept override { return "any program that speaks the line protocol"; }

    std::vector<Fact> work(const ladder::Settings& work) const override {
        std::vector<Fact> facts;
        for (const auto& setting : work) facts.push_back({setting.name, ladder::value_text(setting.value)});
        return facts;
    }
    std::vector<Fact> configuration(const ladder::Settings&,
                                    const ladder::Settings& configuration) const override {
        return ladder::facts_of(parse(configuration));
    }
    std::string unavailable(const ladder::Settings&, const ladder::Settings& configuration,
                            const ladder::Place& place) const override {
        const std::string program = resolved(parse(configuration).program, place);
        if (program.empty()) {
            const std::string variable = parse(configuration).program.substr(1);
            return fmt::format("the environment variable {} is not set; it names the program to start",
                               variable);
        }
        if (program.find('/') != std::string::npos && ::access(program.c_str(), X_OK) != 0)
            return fmt::format("{} is not there or cannot be executed", program);
        return {};
    }
    std::optional<ladder::Launch> launch(const ladder::Settings& configuration,
                                         const ladder::Place& place) const override {
        const Options options = parse(configuration);
        ladder::Launch launch{resolved(options.program, place), options.arguments};
        for (auto& argument : launch.arguments)
            for (auto at = argument.find("{here}"); at != std::string::npos;
                 at = argument.find("{here}", at + place.folder.size()))
                argument.replace(at, 6, place.folder);
        return launch;
    }
    std::unique_ptr<ladder::Subject> build(const ladder::BuildInput&) const override {
        throw Error(ErrorCode::state, "a command is started, not built");
    }

  private:
    static Options parse(const ladder::Settings& configuration) {
        Options options;
        ladder::apply(options, configuration);
        if (options.program.empty()) throw OptionError("program", "nothing", "the program to start");
        return options;
    }
    // Empty where a variable is not set.
    static std::string resolved(const std::string& program, const ladder::Place& place) {
        if (program.front() == '$') {
            const auto found = place.variables.find(program.substr(1));
            return found == place.variables.end() ? std::string() : found->second;
        }
        if (program.front() == '/' || program.find('/') == std::string::npos) return program;
        return (std::filesystem::path(place.folder) / program).lexically_normal().string();
    }
};

}  // namespace

const ladder::SubjectType& command() {
    static const Command type;
    return type;
}

}  // namespace lightmill::subjects

// The program: one file a verb (verb_*.cpp), errors to exit codes here.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/program.hpp"
#include "lightmill/base/build_info.hpp"
#include "lightmill/base/error.hpp"

namespace lightmill::app {
namespace {

int exit_code(ErrorCode code) {
    switch (code) {
        case ErrorCode::option:
            return k_usage;
        case ErrorCode::format:
            return k_format;
        case ErrorCode::io:
            return k_io;
        case ErrorCode::range:
            return k_range;
        case ErrorCode::device:
        case ErrorCode::unavailable:
            return k_unavailable;
        case ErrorCode::network:
            return k_network;
        case ErrorCode::interrupted:
            return stop_signal_code() != 0 ? stop_signal_code() : k_interrupted;
        case ErrorCode::state:
            return k_internal;
    }
    return k_internal;
}

// Edits (insert, delete, replace a letter) that lead from one word to another.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        auto diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const auto replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
        }
    }
    return row.back();
}

// "; did you mean X?" where one of the names is close.
std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
    const std::string* nearest = nullptr;
    std::size_t fewest = 3;
    for (const auto& name : names) {
        const auto edits = distance(word, name);
        if (edits < fewest) {
            fewest = edits;
            nearest = &name;
        }
    }
    return nearest != nullptr ? fmt::format("; did you mean {}?", *nearest) : std::string();
}

// What is wrong with a command line, in one line.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
    const CLI::App* verb = &app;
    std::string path = "lightmill";
    for (auto chosen = verb->get_subcommands(); !chosen.empty(); chosen = verb->get_subcommands()) {
        verb = chosen.front();
        path += " " + verb->get_name();
    }
    std::vector<std::string> verbs, options;
    for (const auto* sub : verb->get_subcommands(nullptr)) verbs.push_back(sub->get_name());
    for (const auto* option : verb->get_options()) {
        for (const auto& name : option->get_lnames()) options.push_back("--" + name);
    }
    // Words that are neither an option nor a verb, before what may be missing because of them.
    for (const auto& word : app.remaining(true)) {
        if (word.size() > 1 && word.front() == '-') {
            const auto name = word.substr(0, word.find('='));
            return fmt::format("{}: {} is not an option{} `{} --help` lists them", path, name,
                               suggestion(name, options), path);
        }
        if (!verbs.empty())
            return fmt::format("{}: {} is not a verb{} There are {}", path, word, suggestion(word, verbs),
                               fmt::join(verbs, ", "));
    }
    if (!verbs.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
        return fmt::format("{}: a verb is missing: {}. `{} --help` says more", path, fmt::join(verbs, ", "),
                           path);
    return fmt::format("{}: {}; `{} --help` says more", path, error.what(), path);
}

int run(int argc, char** argv) {
    CLI::App app{
        "lightmill: photon clusters from frames of hybrid pixel detectors, the same answer however the work "
        "is shared",
        "lightmill"};
    app.set_version_flag("--version",
                         fmt::format("lightmill {} ({}, {})", version(), compiler(), build_type()));
    app.require_subcommand(1);
    app.footer(
        "Example, from nothing to a spectrum:\n"
        "  lightmill simulate dark.npy --dark --frames 1000\n"
        "  lightmill simulate data.npy --frames 2000\n"
        "  lightmill find data.npy --pedestal dark.npy -o clusters.h5\n"
        "`lightmill VERB --help` has an example for each verb; exit codes are in docs/exit_codes.md.");
    Program program{app};
    add_simulate(program);
    add_pedestal(program);
    add_find(program);
    add_verify(program);
    add_info(program);
    add_ladder(program);
    add_embed(program);
    add_search(program);
    add_models(program);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
        fmt::print(stderr, "{}\n", complaint(app, error));
        return k_usage;
    }
    return program.exit_code;
}

}  // namespace
}  // namespace lightmill::app

int main(int argc, char** argv) {
    using lightmill::Error;
    namespace app = lightmill::app;
    try {
        const int code = app::run(argc, argv);
        if (std::fflush(stdout) != 0)
            throw std::system_error(errno, std::generic_category(), "standard output");
        return code;
    } catch (const Error& error) {
        fmt::print(stderr, "lightmill: {}\n", error.what());
        return app::exit_code(error.code());
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "lightmill: out of memory\n");
        return app::k_internal;
    } catch (const std::system_error& error) {  // what was printed found no room, no more threads, …
        fmt::print(stderr, "lightmill: {}\n", error.what());
        return app::k_io;
    } catch (const std::exception& error) {
        fmt::print(stderr, "lightmill: internal error: {}\n", error.what());
        return app::k_internal;
    }
}

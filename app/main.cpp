// The program: one file a verb (verb_*.cpp), errors to exit codes here.

#include <fmt/format.h>

#include <exception>
#include <new>

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
        case ErrorCode::interrupted:
            return stop_signal_code() != 0 ? stop_signal_code() : k_interrupted;
        case ErrorCode::state:
            return k_internal;
    }
    return k_internal;
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
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? k_ok : k_usage;
    }
    return program.exit_code;
}

}  // namespace
}  // namespace lightmill::app

int main(int argc, char** argv) {
    using namespace lightmill;
    try {
        return app::run(argc, argv);
    } catch (const Error& error) {
        fmt::print(stderr, "lightmill: {}\n", error.what());
        return app::exit_code(error.code());
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "lightmill: out of memory\n");
        return app::k_internal;
    } catch (const std::exception& error) {
        fmt::print(stderr, "lightmill: internal error: {}\n", error.what());
        return app::k_internal;
    }
}

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/inputs.hpp"
#include "app/options_cli.hpp"
#include "app/program.hpp"
#include "lightmill/clusters/run/verify.hpp"
#include "lightmill/clusters/sink/result_file.hpp"

namespace lightmill::app {
namespace {

struct Arguments {
    std::string file;
    std::vector<std::string> data;
    clusters::SpeedOptions speed;
    bool json = false, quiet = false;
};

const char* sameness(bool same) {
    return same ? "as stored" : "NOT as stored";
}

int verify(const Arguments& arguments) {
    const auto stop = stop_token();
    std::unique_ptr<frames::Source> source;
    if (!arguments.data.empty()) {
        const auto selection = selection_from(clusters::ResultReader(arguments.file).info().provenance);
        source = open_frames(arguments.data, selection, true);
    }
    ProgressLine line(arguments.quiet);
    ProgressFunction progress;
    if (line.visible()) {
        progress = [&](const Progress& p) { line.show(fmt::format("{} / {} frames", p.done, p.total)); };
    }
    const auto report = clusters::verify(arguments.file, source.get(), arguments.speed, progress, stop);
    line.show("");
    if (arguments.json) {
        nlohmann::ordered_json object{{"file", arguments.file},
                                      {"ok", report.ok()},
                                      {"complete", report.complete},
                                      {"frames", report.frames},
                                      {"clusters", report.clusters},
                                      {"digest", report.digest},
                                      {"stored_digest", report.stored_digest},
                                      {"model_digest", report.model_digest},
                                      {"stored_model_digest", report.stored_model_digest},
                                      {"compared_with_frames", report.compared}};
        object["damaged_frame"] = report.damaged_frame ? nlohmann::ordered_json(*report.damaged_frame)
                                                       : nlohmann::ordered_json(nullptr);
        object["difference"] = report.difference ? nlohmann::ordered_json(report.difference->text())
                                                 : nlohmann::ordered_json(nullptr);
        fmt::print("{}\n", object.dump(2));
    } else if (!arguments.quiet) {
        fmt::print("{}: {} frames, {} clusters{}\n", arguments.file, report.frames, report.clusters,
                   report.complete ? "" : " (an interrupted run; go on with find --resume)");
        fmt::print("digest         {}  {}\n", report.digest, sameness(report.digest == report.stored_digest));
        fmt::print("model digest   {}  {}\n", report.model_digest,
                   sameness(report.model_digest == report.stored_model_digest));
        if (report.damaged_frame)
            fmt::print("frame number {} does not give the hash stored for it\n", *report.damaged_frame);
        if (report.compared && !report.difference)
            fmt::print("found again from the frames: equal, cluster for cluster\n");
        if (report.difference) fmt::print("first difference: {}\n", report.difference->text());
    }
    return report.ok() ? k_ok : k_difference;
}

}  // namespace

void add_verify(Program& program) {
    auto* verb = program.app.add_subcommand(
        "verify", "recompute the digests of a result file; with its frames, find again and compare");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("file", arguments->file, "result file of `lightmill find`")->required();
    verb->add_option("data", arguments->data,
                     "the frames it came from; --frames and --roi are taken from the file");
    add_options(*verb, arguments->speed, {"batches", "hashes"});
    verb->add_flag("--json", arguments->json, "print one JSON object");
    verb->add_flag("--quiet", arguments->quiet, "print nothing but errors; the exit code says it");
    verb->footer(
        "Examples:\n"
        "  lightmill verify clusters.h5\n"
        "  lightmill verify clusters.h5 data.npy --backend reference\n"
        "Exit code 1: a difference was found; it is named by frame, pixel and the test that decided.");
    verb->callback([arguments, &program] { program.exit_code = verify(*arguments); });
}

}  // namespace lightmill::app

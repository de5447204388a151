#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/inputs.hpp"
#include "app/program.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/sink/pedestal_file.hpp"

namespace lightmill::app {
namespace {

struct Arguments {
    std::vector<std::string> dark;
    std::string output;
    Selection selection;
    TrainingChoice training;
    bool overwrite = false, json = false, quiet = false;
};

void pedestal(const Arguments& arguments) {
    require_writable(arguments.output, arguments.overwrite);
    const auto dark = open_frames(arguments.dark, arguments.selection, true);
    const auto& description = dark->description();
    ProgressLine line(arguments.quiet);
    const auto trained = train_on(*dark, arguments.selection, arguments.training,
                                  absent_rule(arguments.training, description), line);
    clusters::save_pedestal(trained, arguments.output, description.files, arguments.overwrite);
    using clusters::PixelState;
    double mean = 0, variance = 0;
    const auto used = trained.pixels_in(PixelState::used);
    for (std::size_t p = 0; p < trained.state.size(); ++p) {
        if (trained.state[p] != PixelState::used) continue;
        mean += static_cast<double>(trained.model.offset[p]) + static_cast<double>(trained.model.mean[p]);
        variance += static_cast<double>(trained.model.variance[p]);
    }
    const auto n = static_cast<double>(std::max<std::uint64_t>(used, 1));
    if (arguments.json) {
        const nlohmann::ordered_json object{
            {"output", arguments.output},
            {"dark_frames", trained.frames},
            {"rows", trained.shape.rows},
            {"columns", trained.shape.columns},
            {"mean_adu", mean / n},
            {"noise_adu", std::sqrt(variance / n)},
            {"used_pixels", used},
            {"masked_pixels", trained.pixels_in(PixelState::masked)},
            {"unseen_pixels", trained.pixels_in(PixelState::unseen)},
            {"low_noise_pixels", trained.pixels_in(PixelState::low_noise)},
            {"model_digest", clusters::model_digest(std::span(&trained.model, 1))}};
        fmt::print("{}\n", object.dump(2));
    } else if (!arguments.quiet) {
        fmt::print(
            "pedestal of {} dark frames, {}x{} pixels: mean {:.1f} ADU, noise {:.2f} ADU (rms over pixels)\n",
            trained.frames, trained.shape.rows, trained.shape.columns, mean / n, std::sqrt(variance / n));
        fmt::print("pixels used {}, masked {}, unseen {}, below min-noise {}\n", used,
                   trained.pixels_in(PixelState::masked), trained.pixels_in(PixelState::unseen),
                   trained.pixels_in(PixelState::low_noise));
        fmt::print("written to {}\n", arguments.output);
    }
}

}  // namespace

void add_pedestal(Program& program) {
    auto* verb = program.app.add_subcommand("pedestal", "train a background on dark frames and save it");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("dark", arguments->dark, "dark frames: master .json, .dat, .npy or HDF5")->required();
    verb->add_option("-o,--output", arguments->output, "file to write")->required();
    add_training(*verb, arguments->training);
    add_selection(*verb, arguments->selection);
    verb->add_flag("--overwrite", arguments->overwrite, "replace an existing output");
    verb->add_flag("--json", arguments->json, "print one JSON object");
    verb->add_flag("--quiet", arguments->quiet, "print nothing but errors");
    verb->footer(
        "Example:\n  lightmill pedestal dark_master_0.json -o pedestal.h5\n  lightmill find "
        "data_master_0.json --pedestal pedestal.h5 -o clusters.h5");
    verb->callback([arguments] { pedestal(*arguments); });
}

}  // namespace lightmill::app

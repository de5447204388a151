#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/inputs.hpp"
#include "app/options_cli.hpp"
#include "app/options_json.hpp"
#include "app/program.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/reduce/plot.hpp"
#include "lightmill/clusters/run/run.hpp"
#include "lightmill/clusters/sink/pedestal_file.hpp"

namespace lightmill::app {
namespace {

struct Arguments {
    std::vector<std::string> data, pedestal;
    std::string window = "3x3";
    std::string plots;
    Selection selection;
    TrainingChoice training;
    clusters::RunOptions run;
    bool ties_given = false, no_output = false, json = false, quiet = false;
};

// Everything that the answer depends on.
nlohmann::ordered_json answer_json(const clusters::RunOptions& options, const clusters::Pedestal& pedestal) {
    nlohmann::ordered_json object{{"window", to_string(options.find.window)}};
    object.update(options_json(options.find));
    object.update(options_json(pedestal.options));
    object["absent"] = pedestal.absent.value ? nlohmann::ordered_json(*pedestal.absent.value)
                                             : nlohmann::ordered_json(nullptr);
    object["gain_bits"] = pedestal.absent.gain_bits;
    for (const auto& [name, value] : options.provenance) object[name] = value;
    return object;
}

nlohmann::ordered_json summary_json(const clusters::Summary& summary, const clusters::Pedestal& pedestal) {
    nlohmann::ordered_json hot = nlohmann::ordered_json::array();
    for (const auto& pixel : summary.hot_pixels) {
        hot.push_back({{"row", pixel.row},
                       {"column", pixel.column},
                       {"fired", pixel.fired},
                       {"negative", pixel.negative}});
    }
    const auto& anomalies = summary.anomalies;
    return {{"frames", summary.frames},
            {"clusters", summary.clusters},
            {"digest", summary.digest},
            {"model_digest", summary.model_digest},
            {"frames_per_second", summary.frames_per_second},
            {"wall_seconds", summary.wall_seconds},
            {"read_seconds", summary.read_seconds},
            {"find_seconds", summary.find_seconds},
            {"write_seconds", summary.write_seconds},
            {"absent_pixels",
             {{"masked", summary.masked_pixels},
              {"unseen", summary.unseen_pixels},
              {"low_noise", summary.low_noise_pixels},
              {"absent_value", summary.absent.absent_value},
              {"gain_bits", summary.absent.gain_bits},
              {"lost_packets", summary.absent.lost_packets}}},
            {"missing_frames", anomalies.missing_frames},
            {"repeated_frames", anomalies.repeated_frames},
            {"out_of_order_frames", anomalies.out_of_order_frames},
            {"missing_frame_numbers", anomalies.missing},
            {"repeated_frame_numbers", anomalies.repeated},
            {"out_of_order_frame_numbers", anomalies.out_of_order},
            {"hot_pixels", hot},
            {"backend", summary.backend},
            {"threads", summary.threads},
            {"options", answer_json(summary.options, pedestal)},
            {"output", summary.output},
            {"interrupted", summary.interrupted},
            {"resumed_frames", summary.resumed_frames},
            {"version", summary.version}};
}

std::string some_numbers(const std::vector<std::uint64_t>& numbers) {
    const auto shown = std::span(numbers).first(std::min<std::size_t>(numbers.size(), 8));
    return fmt::format("{}{}", fmt::join(shown, ", "), numbers.size() > shown.size() ? ", …" : "");
}

void print_summary(const clusters::Summary& summary) {
    const auto per_frame = summary.frames > 0
                               ? static_cast<double>(summary.clusters) / static_cast<double>(summary.frames)
                               : 0.0;
    fmt::print("frames         {}\n", summary.frames);
    fmt::print("clusters       {}  ({:.1f} a frame)\n", summary.clusters, per_frame);
    fmt::print("window         {}, {} sigma, rule {}\n", to_string(summary.options.find.window),
               summary.options.find.n_sigma, option_text(summary.options.find.rule));
    if (summary.options.find.rule == clusters::Rule::per_stream) {
        fmt::print(
            "               of {} streams, each with a background of its own: the answer depends on their "
            "number\n",
            summary.options.find.streams);
    }
    fmt::print("speed          {:.0f} frames/s in {:.2f} s ({}, {} threads)\n", summary.frames_per_second,
               summary.wall_seconds, summary.backend, summary.threads);
    fmt::print(
        "absent pixels  {} masked, {} unseen, {} below min-noise; pixel-frames: {} absent value ({} in lost "
        "packets), {} other gain\n",
        summary.masked_pixels, summary.unseen_pixels, summary.low_noise_pixels, summary.absent.absent_value,
        summary.absent.lost_packets, summary.absent.gain_bits);
    const auto& a = summary.anomalies;
    if (a.missing_frames > 0)
        fmt::print("missing        {} frames: {}\n", a.missing_frames, some_numbers(a.missing));
    if (a.repeated_frames > 0)
        fmt::print("repeated       {} frames: {}\n", a.repeated_frames, some_numbers(a.repeated));
    if (a.out_of_order_frames > 0)
        fmt::print("out of order   {} frames: {}\n", a.out_of_order_frames, some_numbers(a.out_of_order));
    if (!summary.hot_pixels.empty()) {
        fmt::print(
            "hot pixels     {} fired or were negative in more than a tenth of the frames; first: row {}, "
            "column {}\n",
            summary.hot_pixels.size(), summary.hot_pixels.front().row, summary.hot_pixels.front().column);
    }
    fmt::print("digest         {}\n", summary.digest);
    fmt::print("model digest   {}\n", summary.model_digest);
    if (!summary.output.empty()) fmt::print("written to     {}\n", summary.output);
}

clusters::Pedestal pedestal_for(const Arguments& arguments, const frames::Description& data,
                                ProgressLine& line) {
    if (arguments.pedestal.size() == 1 && clusters::is_pedestal_file(arguments.pedestal.front())) {
        auto pedestal = clusters::load_pedestal(arguments.pedestal.front());
        if (!arguments.training.mask.empty() || arguments.training.options != clusters::PedestalOptions{}) {
            throw OptionError("pedestal", "a saved pedestal with --mask, --pedestal-frames or --min-noise",
                              "dark frames: those are decided when the pedestal is trained");
        }
        pedestal.absent = absent_rule(arguments.training, data, pedestal.absent);
        return pedestal;
    }
    const auto dark = open_frames(arguments.pedestal, arguments.selection, false);
    return train_on(*dark, arguments.selection, arguments.training, absent_rule(arguments.training, data),
                    line);
}

int find(Arguments arguments) {
    auto& options = arguments.run;
    options.find.window = clusters::parse_window(arguments.window);
    if (options.find.rule == clusters::Rule::raster && !arguments.ties_given)
        options.find.ties = clusters::Ties::all;
    clusters::check(options.find);
    if (arguments.no_output == !options.output.output.empty()) {
        throw OptionError("output", arguments.no_output ? "both -o and --no-output" : "nothing",
                          "-o FILE, or --no-output to write none");
    }
    if (!arguments.no_output && !options.output.resume)
        require_writable(options.output.output, options.output.overwrite);
    const auto stop = stop_token();
    const auto source = open_frames(arguments.data, arguments.selection, true);
    ProgressLine line(arguments.quiet);
    const auto pedestal = pedestal_for(arguments, source->description(), line);
    options.provenance = provenance(arguments.selection);
    if (!arguments.training.mask.empty()) options.provenance.emplace_back("mask", arguments.training.mask);

    auto begin = std::chrono::steady_clock::now();
    std::optional<std::uint64_t> before;  // frames of an earlier session
    if (!options.output.resume) before = 0;
    clusters::RunHooks hooks;
    hooks.stop = stop;
    if (line.visible()) {
        hooks.progress = [&](const Progress& progress) {
            const auto now = std::chrono::steady_clock::now();
            if (!before) {
                before = progress.done;
                begin = now;
            }
            const double seconds = std::chrono::duration<double>(now - begin).count();
            line.show(progress_text("frames", progress.done, progress.total, seconds, *before));
        };
    }
    const auto summary = clusters::run(*source, pedestal, options, hooks);
    line.show("");
    if (!arguments.plots.empty()) {
        plot_spectrum(summary.spectrum, arguments.plots + "_spectrum.png");
        plot_hit_map(summary.hit_map, arguments.plots + "_hit_map.png");
    }
    if (arguments.json) {
        fmt::print("{}\n", summary_json(summary, pedestal).dump(2));
    } else if (!arguments.quiet) {
        print_summary(summary);
        if (!arguments.plots.empty())
            fmt::print("pictures       {0}_spectrum.png, {0}_hit_map.png\n", arguments.plots);
    }
    if (summary.interrupted) {
        fmt::print(
            stderr, "lightmill: stopped after {} frames{}\n", summary.frames,
            summary.output.empty()
                ? ""
                : fmt::format("; they are in {}. Go on with the same command and --resume", summary.output));
        return stop_signal_code() != 0 ? stop_signal_code() : static_cast<int>(k_interrupted);
    }
    return k_ok;
}

}  // namespace

void add_find(Program& program) {
    auto* verb = program.app.add_subcommand("find", "find photon clusters in frames");
    auto arguments = std::make_shared<Arguments>();
    auto& run = arguments->run;
    verb->add_option("data", arguments->data,
                     "frames: master .json, .dat, .npy or HDF5; several are taken one after another")
        ->required();
    verb->add_option("--pedestal", arguments->pedestal, "dark frames to train on, or a saved pedestal")
        ->required();
    verb->add_option("-o,--output", run.output.output, "result file (.h5), or aare's cluster file (.clust)");
    verb->add_flag("--no-output", arguments->no_output, "write no file: summary and digests only");
    verb->add_option("--window", arguments->window, "WIDTHxHEIGHT, both odd, 3x3 to 21x21")
        ->capture_default_str();
    add_options(*verb, run.find);
    add_training(*verb, arguments->training);
    add_selection(*verb, arguments->selection);
    add_options(*verb, run.speed, {"batches", "hashes"});
    add_options(*verb, run.spectrum);
    verb->add_option("--plots", arguments->plots, "write PREFIX_spectrum.png and PREFIX_hit_map.png")
        ->type_name("PREFIX");
    add_options(*verb, run.output, {"output"});
    verb->add_flag("--json", arguments->json, "print one JSON object");
    verb->add_flag("--quiet", arguments->quiet, "print nothing but errors");
    verb->footer(
        "Examples:\n"
        "  lightmill find run_master_0.json --pedestal dark_master_0.json -o clusters.h5\n"
        "  lightmill find data.npy --pedestal pedestal.h5 --window 9x9 --payload int16 --no-output --json\n"
        "An interrupted run leaves OUT.partial; the same command with --resume goes on from there.");
    auto* ties = verb->get_option("--ties");
    verb->callback([arguments, ties, &program] {
        arguments->ties_given = ties->count() > 0;
        program.exit_code = find(*arguments);
    });
}

}  // namespace lightmill::app

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "app/options_cli.hpp"
#include "app/options_json.hpp"
#include "app/program.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/frames/hdf5.hpp"
#include "lightmill/frames/npy.hpp"
#include "lightmill/frames/raw_writer.hpp"
#include "lightmill/frames/simulated.hpp"
#include "lightmill/frames/truth.hpp"

namespace lightmill::app {
namespace {

namespace fs = std::filesystem;
using frames::FrameKind;

struct OutputOptions {
    frames::Compression compression = frames::Compression::none;
    bool overwrite = false;
};
template <class Options, class Visitor>
    requires std::is_same_v<std::remove_const_t<Options>, OutputOptions>
void visit_options(Options& options, Visitor&& visit) {
    visit(OptionInfo{.name = "compression", .help = "of HDF5 files"}, options.compression);
    visit(OptionInfo{.name = "overwrite", .help = "replace existing files"}, options.overwrite);
}

constexpr std::int64_t k_most_frames = 1'000'000'000;

struct Arguments {
    std::string output;
    bool dark = false;
    std::int64_t frames = 1000;  // signed, so that "-2" is refused and not wrapped
    frames::SimulationOptions simulation;
    OutputOptions writing;
    int threads = 0;
    bool no_truth = false;
    bool json = false;
    bool quiet = false;
};

// Where the frames go: one of the formats, by the output's name.
class Output {
  public:
    Output(const std::string& path, FrameKind kind, const frames::Simulation& simulation,
           const OutputOptions& options)
        : path_(path), kind_(kind), simulation_(simulation) {
        const auto extension = fs::path(path).extension().string();
        const auto shape = simulation.shape();
        if (extension == ".npy") {
            npy_ = std::make_unique<frames::NpyWriter>(path_, shape, options.overwrite);
        } else if (extension == ".h5" || extension == ".hdf5" || extension == ".nxs") {
            hdf5_ = std::make_unique<frames::Hdf5Writer>(
                path_, shape,
                frames::Hdf5WriteOptions{.compression = options.compression,
                                         .lost_pixels = simulation.options().lost_packets > 0,
                                         .overwrite = options.overwrite});
        } else if (extension == ".json" || extension == ".raw") {
            // The data files' names follow from the master's, which has to end so.
            const auto stem = fs::path(path).stem().string();
            if (extension == ".raw" || stem.find("_master_") == std::string::npos)
                path_ = fs::path(path).replace_filename(stem + "_master_0.json").string();
            // MOENCH: no gain bits, and packets of the simulator's size.
            frames::RawWriteOptions raw;
            raw.detector = frames::Detector::moench;
            raw.overwrite = options.overwrite;
            raw_ = std::make_unique<frames::RawWriter>(path_, shape, raw);
        } else {
            throw OptionError("output", path, "a name that ends in .npy, .h5, .hdf5, .nxs, .json or .raw");
        }
    }

    [[nodiscard]] const std::string& path() const { return path_; }

    void write(const frames::Block& block) {
        if (npy_) npy_->write(block.pixels.flat());
        if (hdf5_) hdf5_->write(block.pixels.flat());
        for (std::int64_t i = 0; raw_ && i < block.pixels.extent(0); ++i) {
            const auto number = block.infos[static_cast<std::size_t>(i)].number;
            frames::RawLosses losses;
            for (auto packet : simulation_.lost_packets(kind_, number)) losses.packets.push_back({0, packet});
            raw_->write(number, block.pixels[i].flat(), losses);
        }
    }
    void finish() {
        if (npy_) npy_->finish();
        if (hdf5_) hdf5_->finish();
        if (raw_) raw_->finish();
    }

  private:
    std::string path_;
    FrameKind kind_;
    const frames::Simulation& simulation_;
    std::unique_ptr<frames::NpyWriter> npy_;
    std::unique_ptr<frames::Hdf5Writer> hdf5_;
    std::unique_ptr<frames::RawWriter> raw_;
};

// A disk that will be too small is better told before it is full. (What is overwritten may make room: the
// old file goes only when the new one is whole.)
void require_room(const std::string& path, std::uint64_t bytes) {
    auto folder = fs::path(path).parent_path();
    if (folder.empty()) folder = ".";
    std::error_code error;
    const auto space = fs::space(folder, error);
    if (error || space.available >= bytes) return;  // no such folder: the writer says so
    throw IoError(path, fmt::format("write {} bytes where {} are free", bytes, space.available), ENOSPC,
                  "free some space, write elsewhere, or ask for fewer frames");
}

void simulate(const Arguments& arguments) {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    if (arguments.threads < 0 || arguments.threads > 1024)
        throw OptionError("threads", fmt::format("{}", arguments.threads),
                          "a whole number from 0 up to 1024");
    if (arguments.frames < 1 || arguments.frames > k_most_frames) {
        throw OptionError("frames", fmt::format("{}", arguments.frames),
                          fmt::format("a whole number from 1 up to {}", k_most_frames));
    }
    const auto frame_count = static_cast<std::uint64_t>(arguments.frames);
    const auto kind = arguments.dark ? FrameKind::dark : FrameKind::data;
    const auto stop = stop_token();
    const frames::Simulation simulation(arguments.simulation);
    const auto frame_bytes = static_cast<std::uint64_t>(simulation.shape().pixels()) * sizeof(frames::Pixel);
    if (arguments.writing.compression == frames::Compression::none)
        require_room(arguments.output, frame_count * frame_bytes);
    Output output(arguments.output, kind, simulation, arguments.writing);
    std::optional<frames::TruthWriter> truth;
    const auto truth_path = frames::truth_path(output.path());
    if (kind == FrameKind::data && !arguments.no_truth)
        truth.emplace(truth_path, arguments.writing.overwrite);

    Team team(arguments.threads > 0 ? arguments.threads : available_threads());
    ProgressLine line(arguments.quiet || arguments.json);
    frames::Storage storage;
    std::vector<std::vector<frames::Photon>> photons;
    std::uint64_t photon_count = 0, lost_pixels = 0;
    // Blocks of some 16 MB: enough to keep every thread busy.
    const auto block_frames =
        std::max<std::uint64_t>((16U << 20) / frame_bytes, static_cast<std::uint64_t>(team.size()));
    for (std::uint64_t first = 0; first < frame_count; first += block_frames) {
        if (stop.stop_requested()) {
            throw Error(ErrorCode::interrupted,
                        fmt::format("{}: interrupted after {} of {} frames; begin again with --overwrite",
                                    output.path(), first, frame_count),
                        output.path());
        }
        const auto count = std::min(block_frames, frame_count - first);
        const auto block = simulation.block(kind, first, count, team, storage, truth ? &photons : nullptr);
        for (const auto& info : block.infos) lost_pixels += info.lost_pixels;
        output.write(block);
        for (std::uint64_t i = 0; truth && i < count; ++i) {
            truth->add(first + i, photons[i]);
            photon_count += photons[i].size();
        }
        line.show(progress_text("frames", first + count, frame_count, seconds()));
    }
    // The truth first: where the frames are, it is there too. That of frames which are gone goes with them.
    if (truth) truth->finish();
    if (!truth && arguments.writing.overwrite) {
        std::error_code ignored;
        fs::remove(truth_path, ignored);
    }
    output.finish();

    const auto wall = seconds();
    const auto rate = wall > 0 ? static_cast<double>(frame_count) / wall : 0;
    if (arguments.json) {
        nlohmann::ordered_json json{{"output", output.path()},
                                    {"truth", nullptr},
                                    {"kind", names(kind)[static_cast<std::size_t>(kind)]},
                                    {"frames", frame_count},
                                    {"photons", photon_count},
                                    {"lost_pixels", lost_pixels},
                                    {"wall_seconds", wall},
                                    {"frames_per_second", rate},
                                    {"threads", team.size()},
                                    {"options", options_json(arguments.simulation)}};
        if (truth) json["truth"] = truth_path;
        fmt::print("{}\n", json.dump(2));
    } else if (!arguments.quiet) {
        fmt::print("{}: {} {} frames of {} × {} pixels, {:.2f} s ({:.0f} frames/s)\n", output.path(),
                   frame_count, names(kind)[static_cast<std::size_t>(kind)], simulation.shape().rows,
                   simulation.shape().columns, wall, rate);
        if (truth) fmt::print("{}: the truth, {} photons\n", truth_path, photon_count);
    }
}

}  // namespace

void add_simulate(Program& program) {
    auto* verb = program.app.add_subcommand("simulate", "make frames with known photons");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("output", arguments->output,
                     "file to write: .npy, .h5 (.hdf5, .nxs), or .json (.raw) for a receiver's run")
        ->required();
    verb->add_flag("--dark", arguments->dark, "frames without photons");
    verb->add_option("--frames", arguments->frames, "number of frames")->capture_default_str();
    add_options(*verb, arguments->simulation);
    add_options(*verb, arguments->writing);
    verb->add_flag("--no-truth", arguments->no_truth, "do not write the photons beside the data frames");
    verb->add_option("--threads", arguments->threads, "0: as many as the process may use")
        ->capture_default_str();
    verb->add_flag("--json", arguments->json, "print one JSON object");
    verb->add_flag("--quiet", arguments->quiet, "print nothing");
    verb->footer(
        "The same options give the same bytes, whatever the number of threads. The photons' places and "
        "energies\n"
        "go to OUT.truth.npy beside data frames (docs/formats/truth.md).\n"
        "Example: lightmill simulate dark.npy --dark --frames 1000\n"
        "         lightmill simulate data.npy --frames 2000 --photons 500 --seed 7");
    verb->callback([arguments] { simulate(*arguments); });
}

}  // namespace lightmill::app

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/models.hpp"
#include "app/options_cli.hpp"
#include "app/program.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/team.hpp"
#include "lightmill/frames/npy_header_internal.hpp"
#include "lightmill/vision/embed/embed.hpp"

namespace lightmill::app {
namespace {

namespace fs = std::filesystem;

struct Arguments {
    std::vector<std::string> inputs;
    std::string model, output, target = "auto";
    vision::DecodeOptions decoding;
    int workers = 0;
    bool resume = false, overwrite = false, json = false, quiet = false;
};

bool is_image(const fs::path& path) {
    auto extension = path.extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

// Files as they are named; a folder's images, by name; "-": one path a line of standard input.
std::vector<std::string> images_of(const std::vector<std::string>& inputs) {
    std::vector<std::string> images;
    for (const auto& input : inputs) {
        if (input == "-") {
            for (std::string line; std::getline(std::cin, line);)
                if (!line.empty()) images.push_back(line);
        } else if (fs::is_directory(input)) {
            std::vector<std::string> found;
            for (const auto& entry : fs::recursive_directory_iterator(input))
                if (entry.is_regular_file() && is_image(entry.path())) found.push_back(entry.path().string());
            if (found.empty())
                throw OptionError("images", input, "a folder that holds .png, .jpg or .jpeg files");
            std::sort(found.begin(), found.end());
            images.insert(images.end(), found.begin(), found.end());
        } else {
            images.push_back(input);
        }
    }
    if (images.empty()) throw OptionError("images", "none", "at least one image");
    return images;
}

// float32, C order, (tiles, rows, columns).
void write_npy(const std::string& path, std::span<const float> values, std::int64_t tiles, std::int64_t rows,
               std::int64_t columns) {
    const std::array shape{tiles, rows, columns};
    auto bytes = frames::detail::npy_header("'<f4'", shape);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    write_file(path, bytes);
}

int embed(const Arguments& arguments) {
    const auto stop = stop_token();
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    check_options(arguments.decoding);
    if (arguments.workers < 0 || arguments.workers > 1024)
        throw OptionError("workers", fmt::format("{}", arguments.workers),
                          "0 (as many as there are cores) to 1024");
    const auto extension = fs::path(arguments.output).extension().string();
    if (extension != ".safetensors" && extension != ".npy")
        throw OptionError("output", arguments.output, "a name that ends in .safetensors or .npy");
    const auto images = images_of(arguments.inputs);
    const bool npy = extension == ".npy";
    if (npy && images.size() != 1)
        throw OptionError(
            "output", arguments.output,
            fmt::format("a name that ends in .safetensors for {} images; .npy holds one", images.size()));
    if (npy && arguments.resume)
        throw OptionError("resume", "true", "false for a .npy file, which holds one image");
    require_writable(arguments.output, arguments.overwrite);  // before the weights are read

    const int workers = arguments.workers > 0 ? arguments.workers : available_threads();
    const auto model = vision::load_model(find_model(arguments.model), arguments.target, workers);
    const auto identity = vision::identity_of(model, arguments.decoding);
    const double load_seconds = seconds();

    std::optional<vision::EmbeddingWriter> writer;
    if (!npy) writer.emplace(arguments.output, identity, images, arguments.overwrite, arguments.resume);
    const auto first = writer ? static_cast<std::size_t>(writer->done()) : 0;
    const std::int64_t tiles_before = writer ? writer->tiles() : 0;
    std::int64_t tiles = tiles_before, failed = writer ? writer->failed() : 0;
    ProgressLine line(arguments.quiet || arguments.json);
    vision::EmbedHooks hooks;
    hooks.stop = stop;
    hooks.result = [&](std::size_t image, const vision::ImageResult& result, std::span<const float> values) {
        if (result.tiles == 0) {
            ++failed;
            line.show("");
            fmt::print(stderr, "lightmill: {}; left out\n", result.failure);
        }
        tiles += result.tiles;
        if (writer) {
            writer->add(result, values);
        } else if (result.tiles > 0) {
            write_npy(arguments.output, values, result.tiles, identity.rows, identity.columns);
        }
        (void)image;
    };
    hooks.progress = [&](const Progress& progress) {
        line.show(progress_text("images", progress.done, progress.total, seconds() - load_seconds, first));
    };
    const auto done = vision::embed(model, arguments.decoding, images, first, workers, hooks);
    line.show("");
    const bool whole = done == images.size();
    std::string digest;
    if (whole && writer) digest = writer->finish();
    const double work_seconds = seconds() - load_seconds;
    if (arguments.json) {
        nlohmann::ordered_json json{
            {"images", images.size()},
            {"done", done},
            {"resumed", first},
            {"failed", failed},
            {"tiles", tiles},
            {"shape", {tiles, identity.rows, identity.columns}},
            {"model", identity.model},
            {"model_digest", identity.model_digest},
            {"processor", identity.processor},
            {"target", model.tower.target()},
            {"workers", workers},
            {"load_seconds", load_seconds},
            {"seconds", work_seconds},
            {"tiles_per_second", static_cast<double>(tiles - tiles_before) / work_seconds},
            {"digest", digest},
            {"output", arguments.output},
            {"interrupted", !whole}};
        fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else if (!arguments.quiet) {
        fmt::print("images         {}{}\n", done,
                   failed > 0 ? fmt::format(", {} of them failed", failed) : "");
        fmt::print("tiles          {}, each {} x {}\n", tiles, identity.rows, identity.columns);
        fmt::print("rate           {:.2f} tiles/s, {} workers, {}\n",
                   static_cast<double>(tiles - tiles_before) / work_seconds, workers, model.tower.target());
        if (!digest.empty()) fmt::print("digest         {}\n", digest);
        if (whole) fmt::print("written        {}\n", arguments.output);
    }
    if (!whole) {
        fmt::print(stderr, "lightmill: stopped after {} images{}\n", done,
                   writer ? fmt::format("; they are in {}. Go on with the same command and --resume",
                                        partial_path(arguments.output))
                          : "");
        return stop_signal_code() != 0 ? stop_signal_code() : static_cast<int>(k_interrupted);
    }
    return failed > 0 ? static_cast<int>(k_format) : static_cast<int>(k_ok);
}

struct SearchArguments {
    std::string index, image, model, target = "auto";
    vision::DecodeOptions decoding;
    std::int64_t count = 10;
    int workers = 0;
    bool json = false;
};

int search(const SearchArguments& arguments) {
    check_options(arguments.decoding);
    if (arguments.count < 1)
        throw OptionError("count", fmt::format("{}", arguments.count), "a whole number from 1");
    const auto index = vision::read_embeddings(arguments.index);
    const int workers = arguments.workers > 0 ? arguments.workers : available_threads();
    const auto model = vision::load_model(find_model(arguments.model), arguments.target, workers);
    const auto identity = vision::identity_of(model, arguments.decoding);
    const auto refuse = [&](std::string_view what, const std::string& found, const std::string& expected) {
        if (found != expected)
            throw OptionError(std::string(what), found,
                              fmt::format("{}, of which {} is", expected, arguments.index));
    };
    refuse("model", identity.model_digest, index.identity.model_digest);
    refuse("processor", identity.processor, index.identity.processor);
    std::vector<float> pooled;
    vision::EmbedHooks hooks;
    hooks.result = [&](std::size_t, const vision::ImageResult& result, std::span<const float> values) {
        if (result.tiles == 0) throw FormatError(arguments.image, -1, result.failure);
        pooled = vision::pool_rows(values, identity.columns);
    };
    (void)vision::embed(model, arguments.decoding, {arguments.image}, 0, workers, hooks);
    const auto matches = vision::nearest(index, pooled, static_cast<std::size_t>(arguments.count));
    auto json = nlohmann::ordered_json::array();
    for (const auto& match : matches) {
        const auto& name = index.names[match.image];
        if (arguments.json) {
            json.push_back({{"name", name}, {"image", match.image}, {"cosine", match.cosine}});
        } else {
            fmt::print("{:.6f}  {}\n", match.cosine, name);
        }
    }
    if (arguments.json)
        fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return k_ok;
}

}  // namespace

void add_embed(Program& program) {
    auto* verb = program.app.add_subcommand("embed", "embed images with a vision tower");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("images", arguments->inputs,
                     "images (.png, .jpg), folders of them, or - for a list of paths")
        ->required();
    verb->add_option("--model", arguments->model,
                     "a folder with config.json and model.safetensors, or a model's name")
        ->required();
    verb->add_option("-o,--output", arguments->output,
                     "embeddings of all images (.safetensors), or of one (.npy)")
        ->required();
    add_options(*verb, arguments->decoding);
    verb->add_option("--workers", arguments->workers, "threads; 0: as many as there are cores")
        ->capture_default_str();
    verb->add_option("--target", arguments->target, "instruction set: auto, avx512, avx2 or reference")
        ->capture_default_str();
    verb->add_flag("--resume", arguments->resume, "go on with OUT.partial of an interrupted run");
    verb->add_flag("--overwrite", arguments->overwrite, "replace an existing file");
    verb->add_flag("--json", arguments->json, "print one JSON object");
    verb->add_flag("--quiet", arguments->quiet, "print nothing but errors");
    verb->footer(
        "Examples:\n"
        "  lightmill embed pictures/ --model smolvlm-256m-instruct -o pictures.safetensors\n"
        "  find . -name '*.png' | lightmill embed - --model ./model -o list.safetensors --resume\n"
        "An image that cannot be read is named, left out and counted; the exit code is then 3.");
    verb->callback([arguments, &program] { program.exit_code = embed(*arguments); });
}

void add_search(Program& program) {
    auto* verb = program.app.add_subcommand("search", "find the images most like one");
    auto arguments = std::make_shared<SearchArguments>();
    verb->add_option("index", arguments->index, "embeddings of `lightmill embed` (.safetensors)")->required();
    verb->add_option("image", arguments->image, "what to look for (.png, .jpg)")->required();
    verb->add_option("--model", arguments->model, "the model that the embeddings were made with")->required();
    add_options(*verb, arguments->decoding);
    verb->add_option("--count", arguments->count, "how many")->capture_default_str();
    verb->add_option("--workers", arguments->workers, "threads; 0: as many as there are cores")
        ->capture_default_str();
    verb->add_option("--target", arguments->target, "instruction set: auto, avx512, avx2 or reference")
        ->capture_default_str();
    verb->add_flag("--json", arguments->json, "print one JSON list");
    verb->footer(
        "Example:\n"
        "  lightmill search pictures.safetensors cat.png --model smolvlm-256m-instruct --count 5\n"
        "Cosine of the mean vectors, exact. There are no text queries.");
    verb->callback([arguments, &program] { program.exit_code = search(*arguments); });
}

}  // namespace lightmill::app

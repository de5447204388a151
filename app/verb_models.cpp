// Models: which there are, where their files lie, and how they come here.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/model_settings.hpp"
#include "app/program.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/vision/weights/config.hpp"
#include "lightmill/vision/weights/seeded.hpp"

namespace lightmill::app {
namespace {

using Json = nlohmann::ordered_json;
using vision::Manifest;

struct Arguments {
    std::string manifests;
    std::string name;
    std::string folder;
    bool strict = false;
    bool json = false;
    bool quiet = false;
    std::string kind{vision::names(vision::SeededKind{}).front()};
    std::uint64_t seed = 0;
    bool overwrite = false;
};

std::string_view state_word(const vision::ModelState& state) {
    if (state.complete()) return "here";
    return std::ranges::any_of(state.files, &vision::ModelFile::here) ? "partly here" : "not here";
}

void list(const Arguments& arguments) {
    const auto settings = model_settings(arguments.manifests);
    auto all = Json::array();
    for (const auto& manifest : vision::read_manifests(settings.manifests)) {
        const auto state = vision::look_up(manifest, settings.store);
        all.push_back({{"name", manifest.name},
                       {"state", state_word(state)},
                       {"licence", manifest.licence},
                       {"description", manifest.description}});
    }
    if (arguments.json) {
        fmt::print("{}\n", Json{{"models", all}}.dump(2));
        return;
    }
    for (const auto& model : all)
        fmt::print("{:<30}{:<13}{:<12}{}\n", model["name"].get<std::string>(),
                   model["state"].get<std::string>(), model["licence"].get<std::string>(),
                   model["description"].get<std::string>());
}

void licences(const Arguments& arguments) {
    const auto settings = model_settings(arguments.manifests);
    for (const auto& manifest : vision::read_manifests(settings.manifests))
        fmt::print("{:<30}{:<12}{}\n", manifest.name, manifest.licence, manifest.licence_url);
}

void show(const Arguments& arguments) {
    const auto settings = model_settings(arguments.manifests);
    const auto manifests = vision::read_manifests(settings.manifests);
    const auto& manifest = vision::find_manifest(manifests, arguments.name);
    const auto state = vision::look_up(manifest, settings.store);
    Json json{{"name", manifest.name},
              {"description", manifest.description},
              {"repository", manifest.repository},
              {"revision", manifest.revision},
              {"commit", state.commit},
              {"licence", manifest.licence},
              {"licence_url", manifest.licence_url},
              {"files", Json::array()},
              {"defaults", manifest.defaults},
              {"processor", manifest.processor}};
    for (std::size_t i = 0; i < state.files.size(); ++i) {
        const auto& file = state.files[i];
        json["files"].push_back({{"name", file.name},
                                 {"here", file.here},
                                 {"path", file.path},
                                 {"trouble", file.trouble},
                                 {"bytes", file.here ? Json(file.size) : Json()},
                                 {"sha256", manifest.files[i].sha256}});
    }
    // Where each value of the configuration comes from, once config.json is here.
    json["config"] = Json::array();
    const auto config = std::ranges::find(state.files, "config.json", &vision::ModelFile::name);
    if (config != state.files.end() && config->here) {
        const auto parsed = vision::parse_config(read_file(config->path), config->path, manifest.defaults);
        for (const auto& origin : parsed.origins)
            json["config"].push_back(
                {{"key", origin.key}, {"value", origin.value}, {"source", origin.source}});
    }
    if (arguments.json) {
        fmt::print("{}\n", json.dump(2));
        return;
    }
    const auto line = [](std::string_view name, const std::string& value) {
        fmt::print("  {:<14}{}\n", name, value.empty() ? "none" : value);
    };
    fmt::print("{}\n", manifest.name);
    line("description", manifest.description);
    line("repository", manifest.repository);
    line("revision", manifest.revision);
    line("commit", state.commit);
    line("licence", fmt::format("{} {}", manifest.licence, manifest.licence_url));
    for (std::size_t i = 0; i < state.files.size(); ++i) {
        const auto& file = state.files[i];
        line(file.here ? "file" : "missing file", file.here
                                                      ? fmt::format("{}, {} bytes", file.path, file.size)
                                                      : fmt::format("{} ({})", file.path, file.trouble));
        if (!manifest.files[i].sha256.empty()) line("  sha256", manifest.files[i].sha256);
    }
    for (const auto& [key, value] : manifest.processor) line("processor", fmt::format("{} = {}", key, value));
    for (const auto& [key, value] : manifest.defaults) line("default", fmt::format("{} = {}", key, value));
    for (const auto& value : json["config"])
        line("config", fmt::format("{} = {} ({})", value["key"].get<std::string>(),
                                   value["value"].get<std::string>(), value["source"].get<std::string>()));
}

void fetch(const Arguments& arguments) {
    auto settings = model_settings(arguments.manifests);
    settings.fetch.strict = arguments.strict;
    const auto manifests = vision::read_manifests(settings.manifests);
    const auto& manifest = vision::find_manifest(manifests, arguments.name);
    const auto start = std::chrono::steady_clock::now();
    std::vector<vision::FetchedFile> files;
    {
        ProgressLine line(arguments.quiet || arguments.json);
        files = vision::fetch_model(
            manifest, settings.store, settings.fetch,
            [&](const Progress& progress) {
                const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
                line.show(progress_text("bytes", progress.done, progress.total, seconds.count()));
            },
            stop_token());
    }
    if (arguments.json) {
        auto all = Json::array();
        for (const auto& file : files)
            all.push_back({{"name", file.name},
                           {"path", file.path},
                           {"bytes", file.size},
                           {"loaded_bytes", file.loaded}});
        fmt::print("{}\n",
                   Json{{"name", manifest.name}, {"licence", manifest.licence}, {"files", all}}.dump(2));
        return;
    }
    if (arguments.quiet) return;
    for (const auto& file : files)
        fmt::print("{}: {} bytes, {}\n", file.path, file.size,
                   file.loaded > 0 ? fmt::format("{} loaded", file.loaded) : std::string("was here"));
    fmt::print("{}: verified; licence of the weights: {} {}\n", manifest.name, manifest.licence,
               manifest.licence_url);
}

// Hashes everything again, whatever stamps say.
void verify(const Arguments& arguments, int& exit_code) {
    const auto settings = model_settings(arguments.manifests);
    const auto manifests = vision::read_manifests(settings.manifests);
    const auto& manifest = vision::find_manifest(manifests, arguments.name);
    const auto state = vision::look_up(manifest, settings.store);
    auto all = Json::array();
    bool missing = false;
    for (std::size_t i = 0; i < state.files.size(); ++i) {
        const auto& file = state.files[i];
        Json entry{{"name", file.name}, {"path", file.path}};
        if (!file.here) {
            entry["result"] = "missing";
            entry["trouble"] = file.trouble;
            missing = true;
        } else {
            const auto verified = vision::verify(manifest, state, i, settings.store,
                                                 {.strict = arguments.strict, .again = true});
            const bool same = verified.matches();
            entry["result"] = same ? "same" : "differs";
            entry["sha256"] = verified.found.sha256;
            entry["expected"] =
                verified.expected.sha256.empty() ? verified.expected.git : verified.expected.sha256;
            entry["expected_from"] =
                verified.expected.source.empty() ? "first seen" : verified.expected.source;
            if (!same) exit_code = k_difference;
        }
        all.push_back(entry);
        if (arguments.json) continue;
        if (!file.here) {
            fmt::print("{}: missing, {}\n", file.path, file.trouble);
        } else {
            fmt::print("{}: {}, SHA-256 {}, expected from: {}\n", file.path,
                       entry["result"].get<std::string>(), entry["sha256"].get<std::string>(),
                       entry["expected_from"].get<std::string>());
        }
    }
    if (arguments.json) fmt::print("{}\n", Json{{"name", manifest.name}, {"files", all}}.dump(2));
    if (missing && exit_code == k_ok) exit_code = k_unavailable;
}

void import(const Arguments& arguments) {
    const auto settings = model_settings(arguments.manifests);
    const auto manifests = vision::read_manifests(settings.manifests);
    namespace fs = std::filesystem;
    auto name = arguments.name;
    if (name.empty()) name = fs::absolute(arguments.folder).lexically_normal().filename().string();
    const auto& manifest = vision::find_manifest(manifests, name);
    vision::import_model(manifest, arguments.folder, settings.store, {.strict = arguments.strict});
    for (const auto& [file, path] : vision::require_model(manifest, settings.store)) fmt::print("{}\n", path);
}

// Weights of a model's true shape without the model: to test and to time.
void make_seeded(const Arguments& arguments) {
    namespace fs = std::filesystem;
    const auto kinds = vision::names(vision::SeededKind{});
    const auto kind = std::ranges::find(kinds, arguments.kind);
    if (kind == kinds.end())
        throw OptionError("kind", arguments.kind, fmt::format("one of {}", fmt::join(kinds, ", ")));
    const auto config = vision::known_config(arguments.name);
    const auto folder =
        arguments.folder.empty() ? fmt::format("{}-{}", arguments.name, arguments.kind) : arguments.folder;
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw IoError(folder, "make folder", error.value(), io_advice(error.value()));
    const auto config_path = folder + "/config.json";
    require_writable(config_path, arguments.overwrite);
    vision::write_seeded(config, static_cast<vision::SeededKind>(kind - kinds.begin()), arguments.seed,
                         folder + "/model.safetensors", arguments.overwrite);
    write_file(config_path, vision::config_json(config));
    fmt::print("{0}/config.json\n{0}/model.safetensors\n", folder);
}

}  // namespace

void add_models(Program& program) {
    auto* models =
        program.app.add_subcommand("models", "which models there are, where they lie, how they come here");
    models->require_subcommand(1);
    auto arguments = std::make_shared<Arguments>();
    const auto add = [&](const char* name, const char* help, const char* example) {
        auto* verb = models->add_subcommand(name, help);
        verb->add_option("--manifests", arguments->manifests,
                         "folder of *.toml; left out: LIGHTMILL_MANIFESTS, or the program's own");
        verb->footer(fmt::format("Example: lightmill models {}", example));
        return verb;
    };
    const auto add_json = [&](CLI::App* verb) {
        verb->add_flag("--json", arguments->json, "print one JSON object");
    };
    const auto add_strict = [&](CLI::App* verb) {
        verb->add_flag("--strict", arguments->strict,
                       "refuse files that the manifest itself has no SHA-256 of");
    };

    auto* verb = add("list", "all models, and which of them are here", "list");
    add_json(verb);
    verb->callback([arguments] { list(*arguments); });

    verb = add("show", "a model's files, and what is assumed of it", "show siglip-base-patch16-512");
    verb->add_option("name", arguments->name, "of a model")->required();
    add_json(verb);
    verb->callback([arguments] { show(*arguments); });

    verb = add("fetch", "bring a model's files into Hugging Face's cache, verified",
               "fetch smolvlm-256m-instruct");
    verb->add_option("name", arguments->name, "of a model")->required();
    add_strict(verb);
    add_json(verb);
    verb->add_flag("--quiet", arguments->quiet, "print errors only");
    verb->callback([arguments] { fetch(*arguments); });

    verb = add("verify", "hash a model's files again", "verify smolvlm-256m-instruct");
    verb->add_option("name", arguments->name, "of a model")->required();
    add_strict(verb);
    add_json(verb);
    verb->callback([arguments, &program] { verify(*arguments, program.exit_code); });

    verb = add("import", "take a model's files from a folder into the cache",
               "import DOWNLOADS/smolvlm-256m-instruct");
    verb->add_option("folder", arguments->folder, "holds config.json, model.safetensors")->required();
    verb->add_option("--model", arguments->name, "name; left out: the folder's");
    add_strict(verb);
    verb->callback([arguments] { import(*arguments); });

    verb = models->add_subcommand("make-seeded", "write weights from a generator in a model's true shape");
    verb->add_option("name", arguments->name, "of a model; or tiny, tiny-pooling")->required();
    verb->add_option("-o,--output", arguments->folder, "folder; left out: NAME-KIND");
    verb->add_option("--kind", arguments->kind,
                     "plain, peaky (attention that picks) or outlier (channels that stand out)")
        ->capture_default_str();
    verb->add_option("--seed", arguments->seed, "of the generator")->capture_default_str();
    verb->add_flag("--overwrite", arguments->overwrite, "replace files that are there");
    verb->footer("Example: lightmill models make-seeded smolvlm-256m-instruct --kind peaky");
    verb->callback([arguments] { make_seeded(*arguments); });

    verb = add("licences", "the licences of all models' weights", "licences");
    verb->callback([arguments] { licences(*arguments); });
}

}  // namespace lightmill::app

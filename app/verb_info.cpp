#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/options_json.hpp"
#include "app/program.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/clusters/sink/pedestal_file.hpp"
#include "lightmill/clusters/sink/result_file.hpp"
#include "lightmill/frames/source.hpp"
#include "lightmill/frames/truth.hpp"

namespace lightmill::app {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
    std::vector<std::string> files;
    std::string dataset;
    bool scan = false;
    bool json = false;
};

Json shape_json(const frames::Shape& shape) {
    return {shape.rows, shape.columns};
}

Json anomalies_json(const frames::Anomalies& anomalies) {
    return {{"missing_frames", anomalies.missing_frames},
            {"repeated_frames", anomalies.repeated_frames},
            {"out_of_order_frames", anomalies.out_of_order_frames},
            {"missing", anomalies.missing},
            {"repeated", anomalies.repeated},
            {"out_of_order", anomalies.out_of_order}};
}

// Reads every frame.
void scan(frames::Source& source, Json& json) {
    const auto& d = source.description();
    const auto stop = stop_token();
    const auto bytes = static_cast<std::uint64_t>(d.shape.pixels()) * sizeof(frames::Pixel);
    const auto block_frames = std::max<std::uint64_t>(1, (8U << 20) / bytes);
    frames::Storage storage;
    std::uint64_t lost_pixels = 0, frames_with_lost = 0, first_number = 0, last_number = 0;
    for (std::uint64_t first = 0; first < d.count; first += block_frames) {
        if (stop.stop_requested()) throw Error(ErrorCode::interrupted, "interrupted", d.name);
        const auto block = source.read(first, std::min(block_frames, d.count - first), storage);
        for (const auto& info : block.infos) {
            lost_pixels += info.lost_pixels;
            frames_with_lost += info.lost_pixels > 0 ? 1 : 0;
        }
        if (first == 0) first_number = block.infos.front().number;
        last_number = block.infos.back().number;
    }
    if (d.count > 0) json["frame_numbers"] = {first_number, last_number};
    json["lost_pixels"] = lost_pixels;
    json["frames_with_lost_pixels"] = frames_with_lost;
    json["anomalies"] = anomalies_json(source.anomalies());
}

Json describe_frames(const std::string& path, const Arguments& arguments) {
    const auto source = frames::open(path, {.dataset = arguments.dataset});
    const auto& d = source->description();
    Json json{{"kind", "frames"},
              {"format", d.format},
              {"shape", shape_json(d.shape)},
              {"frames", d.count},
              {"bits", d.bits},
              {"absent_value", nullptr},
              {"gain_bits", d.gain_bits},
              {"module_rows", d.module_rows},
              {"module_columns", d.module_columns},
              {"files", d.files}};
    if (d.absent_value) json["absent_value"] = *d.absent_value;
    if (arguments.scan) scan(*source, json);
    return json;
}

Json describe_result(const std::string& path) {
    const clusters::ResultReader reader(path);
    const auto& info = reader.info();
    auto options = options_json(info.find);
    options["window"] = clusters::to_string(info.find.window);
    return {{"kind", "result"},          {"shape", shape_json(info.shape)},
            {"frames", info.frames},     {"clusters", info.clusters},
            {"complete", info.complete}, {"killed", info.killed},
            {"digest", info.digest},     {"model_digest", info.model_digest},
            {"source", info.source},     {"source_frames", info.source_frames},
            {"backend", info.backend},   {"version", info.version},
            {"options", options},        {"anomalies", anomalies_json(info.anomalies)}};
}

Json describe_pedestal(const std::string& path) {
    using clusters::PixelState;
    const auto pedestal = clusters::load_pedestal(path);
    Json json{{"kind", "pedestal"},
              {"shape", shape_json(pedestal.shape)},
              {"frames", pedestal.frames},
              {"absent_value", nullptr},
              {"gain_bits", pedestal.absent.gain_bits},
              {"used_pixels", pedestal.pixels_in(PixelState::used)},
              {"masked_pixels", pedestal.pixels_in(PixelState::masked)},
              {"unseen_pixels", pedestal.pixels_in(PixelState::unseen)},
              {"low_noise_pixels", pedestal.pixels_in(PixelState::low_noise)},
              {"model_digest", clusters::model_digest({&pedestal.model, 1})},
              {"options", options_json(pedestal.options)}};
    if (pedestal.absent.value) json["absent_value"] = *pedestal.absent.value;
    return json;
}

Json describe(const std::string& path, const Arguments& arguments) {
    if (clusters::is_result_file(path)) return describe_result(path);
    if (clusters::is_pedestal_file(path)) return describe_pedestal(path);
    if (path.ends_with(".truth.npy")) {
        const auto records = frames::read_truth(path);
        return {{"kind", "truth"},
                {"photons", records.size()},
                {"last_frame", records.empty() ? Json() : Json(records.back().frame)}};
    }
    return describe_frames(path, arguments);
}

// "name: value" lines; lists are cut.
std::string text(const std::string& path, const Json& json) {
    std::string out = path + "\n";
    const auto line = [&](const std::string& name, const std::string& value) {
        out += fmt::format("  {:<24}{}\n", name, value);
    };
    const auto value_text = [](const Json& value) -> std::string {
        if (value.is_string()) return value.get<std::string>();
        if (value.is_null()) return "none";
        if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
        return value.dump();
    };
    for (const auto& [key, value] : json.items()) {
        auto name = key;
        std::ranges::replace(name, '_', ' ');
        if (key == "shape") {
            line(name, fmt::format("{} rows × {} columns", value[0].dump(), value[1].dump()));
        } else if (value.is_array()) {
            constexpr std::size_t k_listed = 8;
            std::vector<std::string> items;
            for (std::size_t i = 0; i < std::min(value.size(), k_listed); ++i)
                items.push_back(value_text(value[i]));
            if (value.size() > k_listed) items.push_back(fmt::format("… {} in all", value.size()));
            line(name, items.empty() ? "none" : fmt::format("{}", fmt::join(items, ", ")));
        } else if (value.is_object()) {
            std::vector<std::string> items;
            for (const auto& [inner, item] : value.items())
                if (!item.is_array()) items.push_back(fmt::format("{} {}", inner, value_text(item)));
            line(name, fmt::format("{}", fmt::join(items, ", ")));
        } else {
            line(name, value_text(value));
        }
    }
    return out;
}

void info(const Arguments& arguments) {
    auto all = Json::array();
    std::exception_ptr first_error;
    for (const auto& path : arguments.files) {
        try {
            auto json = describe(path, arguments);
            if (!arguments.json) fmt::print("{}", text(path, json));
            Json entry{{"file", path}};
            entry.update(json);
            all.push_back(std::move(entry));
        } catch (const Error& error) {
            // The others are still told; the first error is the program's.
            if (error.code() == ErrorCode::interrupted) throw;
            all.push_back({{"file", path}, {"error", error.what()}});
            if (first_error) {
                fmt::print(stderr, "lightmill: {}\n", error.what());
            } else {
                first_error = std::current_exception();
            }
        }
    }
    if (arguments.json) fmt::print("{}\n", Json{{"files", all}}.dump(2));
    if (first_error) std::rethrow_exception(first_error);
}

}  // namespace

void add_info(Program& program) {
    auto* verb = program.app.add_subcommand("info", "say what a file is");
    auto arguments = std::make_shared<Arguments>();
    verb->add_option("files", arguments->files, "frames, pedestals, results, truth")->required();
    verb->add_option("--dataset", arguments->dataset,
                     "of HDF5 frames; left out: what NeXus calls the default");
    verb->add_flag("--scan", arguments->scan,
                   "read every frame: lost pixels; missing, repeated and unordered frame numbers");
    verb->add_flag("--json", arguments->json, "print one JSON object");
    verb->footer("Example: lightmill info run_master_0.json --scan");
    verb->callback([arguments] { info(*arguments); });
}

}  // namespace lightmill::app

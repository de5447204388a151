#include "app/model_settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include "lightmill/base/error.hpp"

namespace lightmill::app {
namespace {

namespace fs = std::filesystem;

// The first variable that is set and not empty.
std::string variable(std::initializer_list<const char*> names) {
    for (const auto* name : names) {
        const auto* value = std::getenv(name);
        if (value != nullptr && *value != '\0') return value;
    }
    return {};
}

bool is_true(std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

std::string cache_folder() {
    if (auto cache = variable({"XDG_CACHE_HOME"}); !cache.empty()) return cache;
    const auto home = variable({"HOME"});
    if (home.empty())
        throw Error(ErrorCode::option, "neither HF_HOME nor HOME is set: expected one, to find the models by",
                    "HOME");
    return home + "/.cache";
}

// Installed beside the program, or in the tree it was built from.
std::string manifest_folder() {
    std::error_code error;
    const auto program = fs::read_symlink("/proc/self/exe", error);
    if (!error) {
        const auto installed = program.parent_path().parent_path() / "share/lightmill/models";
        if (fs::is_directory(installed, error)) return installed.string();
    }
    return LIGHTMILL_MANIFESTS_SOURCE;
}

}  // namespace

ModelSettings model_settings(const std::string& manifests) {
    ModelSettings settings;
    settings.manifests = manifests.empty() ? variable({"LIGHTMILL_MANIFESTS"}) : manifests;
    if (settings.manifests.empty()) settings.manifests = manifest_folder();
    auto& store = settings.store;
    store.hub = variable({"HF_HUB_CACHE"});
    if (store.hub.empty()) {
        const auto home = variable({"HF_HOME"});
        store.hub = (home.empty() ? cache_folder() + "/huggingface" : home) + "/hub";
    }
    store.hub = fs::absolute(store.hub).string();
    const auto own = variable({"XDG_CACHE_HOME", "HOME"});
    store.state =
        own.empty() ? store.hub + "/.lightmill" : fs::absolute(cache_folder()).string() + "/lightmill/models";
    auto& fetch = settings.fetch;
    if (const auto endpoint = variable({"HF_ENDPOINT"}); !endpoint.empty()) fetch.endpoint = endpoint;
    fetch.token = variable({"HF_TOKEN"});
    fetch.offline = is_true(variable({"HF_HUB_OFFLINE"}));
    fetch.proxy = variable({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"});
    fetch.no_proxy = variable({"no_proxy", "NO_PROXY"});
    if (fetch.no_proxy.empty()) fetch.no_proxy = "localhost,127.0.0.1,::1";
    return settings;
}

}  // namespace lightmill::app

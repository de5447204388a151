#pragma once
// What the environment says about models: read here, by the program, and handed to the library.

#include <CLI/CLI.hpp>
#include <string>

#include "lightmill/vision/weights/cache.hpp"
#include "lightmill/vision/weights/fetch.hpp"

namespace lightmill::app {

struct ModelSettings {
    std::string manifests;  // folder of *.toml
    vision::ModelStore store;
    vision::FetchOptions fetch;
};

// From HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME; HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE; HTTPS_PROXY,
// ALL_PROXY, NO_PROXY; LIGHTMILL_MANIFESTS. manifests: what a flag said, or empty.
[[nodiscard]] ModelSettings model_settings(const std::string& manifests = {});

}  // namespace lightmill::app

#pragma once
// A model's files from Hugging Face's hub, or a server that speaks like it, into the cache.

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "lightmill/base/progress.hpp"
#include "lightmill/vision/weights/cache.hpp"
#include "lightmill/vision/weights/manifest.hpp"

namespace lightmill::vision {

struct FetchOptions {
    std::string endpoint = "https://huggingface.co";  // https, or http to this machine itself
    std::string token;     // goes to the endpoint's own origin and nowhere else; in no message, no file
    std::string proxy;     // empty: none
    std::string no_proxy;  // hosts to go to directly, as libcurl takes them
    bool offline = false;  // the network is not touched: what is missing is an error
    bool strict = false;   // only the manifest's own hashes count
    int attempts = 4;      // of a transfer that breaks off; each goes on where the last one stopped
    int pause_ms = 500;    // before another attempt, longer each time
    int silence_s = 60;    // a transfer that brings nothing for so long has broken off
};

struct FetchedFile {
    std::string name, path;
    std::int64_t size = 0;
    std::int64_t loaded = 0;  // bytes that came over the network this time
};

// Brings in what is missing; verifies all. Files appear whole or not at all; two processes that fetch the
// same load it once. Progress counts bytes of the files that are loaded. Throws Error(network),
// Error(unavailable) when offline or where access is denied, FormatError for content that is not what it must
// be, IoError, Error(interrupted): what came so far stays, and the next call goes on from it.
[[nodiscard]] std::vector<FetchedFile> fetch_model(const Manifest& manifest, const ModelStore& store,
                                                   const FetchOptions& options,
                                                   const ProgressFunction& progress = {},
                                                   std::stop_token stop = {});

// Whether an address may be spoken to: https, or http to a loopback host.
[[nodiscard]] bool is_allowed_address(const std::string& url);

}  // namespace lightmill::vision

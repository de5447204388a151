#include "lightmill/vision/weights/fetch.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "lightmill/base/error.hpp"

namespace lightmill::vision {
namespace {

namespace fs = std::filesystem;
using detail::fail;

constexpr int k_max_redirects = 5;
constexpr std::int64_t k_max_small_bytes = std::int64_t{16} << 20;  // of a JSON file

// An address taken apart.
class Url {
  public:
    explicit Url(const std::string& text) : handle_(curl_url(), curl_url_cleanup) {
        if (handle_ == nullptr) throw std::bad_alloc();
        valid_ = curl_url_set(handle_.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
    }
    // As an answer's Location says; it may be relative.
    void follow(const std::string& location) {
        valid_ = valid_ && curl_url_set(handle_.get(), CURLUPART_URL, location.c_str(), 0) == CURLUE_OK;
    }
    [[nodiscard]] bool is_allowed() const {
        if (!valid_ || !part(CURLUPART_USER).empty()) return false;
        const auto scheme = part(CURLUPART_SCHEME);
        return scheme == "https" || (scheme == "http" && is_loopback());
    }
    [[nodiscard]] bool is_https() const { return part(CURLUPART_SCHEME) == "https"; }
    [[nodiscard]] std::string host() const { return part(CURLUPART_HOST); }
    [[nodiscard]] std::string origin() const {
        return fmt::format("{}://{}:{}", part(CURLUPART_SCHEME), host(),
                           part(CURLUPART_PORT, CURLU_DEFAULT_PORT));
    }
    [[nodiscard]] std::string text() const { return part(CURLUPART_URL); }

  private:
    [[nodiscard]] std::string part(CURLUPart which, unsigned flags = 0) const {
        char* text = nullptr;
        if (!valid_ || curl_url_get(handle_.get(), which, &text, flags) != CURLUE_OK) return {};
        std::string copy(text);
        curl_free(text);
        return copy;
    }
    [[nodiscard]] bool is_loopback() const {
        const auto name = host();
        if (name == "localhost" || name == "[::1]") return true;
        return name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string::npos;
    }
    std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> handle_;
    bool valid_ = false;
};

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return text;
}

// A whole number of digits alone; −1 for anything else.
std::int64_t number_of(const std::string& text) {
    if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
        return -1;
    return std::stoll(text);
}

struct Answer {
    CURLcode result = CURLE_OK;
    long status = 0;
    std::map<std::string, std::string> headers;  // names in lower case
    [[nodiscard]] std::string header(const std::string& name) const {
        const auto found = headers.find(name);
        return found == headers.end() ? std::string() : found->second;
    }
    [[nodiscard]] bool is_redirect() const {
        return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    }
};

// Takes bytes of a body once its headers are known; false ends the transfer.
using Sink = std::function<bool(const Answer&, std::span<const std::byte>)>;

// One connection, requests one after another.
class Client {
  public:
    Client(const FetchOptions& options, std::stop_token stop)
        : options_(options),
          stop_(std::move(stop)),
          origin_(Url(options.endpoint).origin()),
          handle_(curl_easy_init(), curl_easy_cleanup) {
        if (handle_ == nullptr) throw std::bad_alloc();
    }

    // No redirect is followed here. from: first byte wanted.
    Answer request(const std::string& url, bool head, std::int64_t from, const Sink& sink) {
        auto* curl = handle_.get();
        curl_easy_reset(curl);
        Transfer transfer{.answer = {}, .sink = sink, .error = {}, .stop = stop_};
        curl_slist* list = curl_slist_append(nullptr, "Accept-Encoding: identity");
        if (!options_.token.empty() && Url(url).origin() == origin_)
            list = curl_slist_append(list, ("Authorization: Bearer " + options_.token).c_str());
        const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, curl_slist_free_all);
        const auto range = fmt::format("{}-", from);
        curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http");
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
        // Both given, so that libcurl does not look at variables.
        curl_easy_setopt(curl, CURLOPT_PROXY, options_.proxy.c_str());
        curl_easy_setopt(curl, CURLOPT_NOPROXY, options_.no_proxy.c_str());
        curl_easy_setopt(curl, CURLOPT_USERAGENT, "lightmill");
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
        curl_easy_setopt(curl, CURLOPT_NOBODY, head ? 1L : 0L);
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 20L);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.silence_s));
        if (from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
        curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &take_header);
        curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &look_at_stop);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
        transfer.answer.result = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.answer.status);
        if (transfer.error) std::rethrow_exception(transfer.error);
        if (stop_.stop_requested())
            throw Error(ErrorCode::interrupted,
                        "interrupted; what came so far is kept, the next fetch goes on from it", url);
        return std::move(transfer.answer);
    }

  private:
    struct Transfer {
        Answer answer;
        const Sink& sink;
        std::exception_ptr error;
        std::stop_token stop;
    };
    static std::size_t take_header(char* text, std::size_t, std::size_t size, void* data) {
        auto& transfer = *static_cast<Transfer*>(data);
        try {
            const std::string line(text, size);
            if (line.starts_with("HTTP/")) {
                transfer.answer.headers.clear();
                const auto space = line.find(' ');
                transfer.answer.status = space == std::string::npos ? 0 : std::atol(line.c_str() + space);
            } else if (const auto colon = line.find(':'); colon != std::string::npos) {
                const auto first = line.find_first_not_of(" \t", colon + 1);
                const auto last = line.find_last_not_of(" \t\r\n");
                if (first != std::string::npos && last >= first)
                    transfer.answer.headers[lower(line.substr(0, colon))] =
                        line.substr(first, last - first + 1);
            }
            return size;
        } catch (...) {
            transfer.error = std::current_exception();
            return 0;
        }
    }
    static std::size_t take_body(char* text, std::size_t, std::size_t size, void* data) {
        auto& transfer = *static_cast<Transfer*>(data);
        try {
            if (!transfer.sink) return size;
            return transfer.sink(transfer.answer, std::as_bytes(std::span(text, size)))
                       ? size
                       : CURL_WRITEFUNC_ERROR;
        } catch (...) {
            transfer.error = std::current_exception();
            return CURL_WRITEFUNC_ERROR;
        }
    }
    static int look_at_stop(void* data, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
        return static_cast<Transfer*>(data)->stop.stop_requested() ? 1 : 0;
    }

    const FetchOptions& options_;
    std::stop_token stop_;
    std::string origin_;
    std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle_;
};

// What the hub says of a file.
struct Remote {
    std::string commit, etag;
    std::int64_t size = -1;
};

class Fetcher {
  public:
    Fetcher(const Manifest& manifest, const ModelStore& store, const FetchOptions& options,
            const ProgressFunction& progress, std::stop_token stop)
        : manifest_(manifest),
          store_(store),
          options_(options),
          progress_(progress),
          stop_(stop),
          client_(options, std::move(stop)) {}

    std::vector<FetchedFile> run() {
        auto state = look_up(manifest_, store_);
        std::vector<FetchedFile> done;
        if (options_.offline && !state.complete()) {
            (void)require_model(manifest_, store_,
                                {.strict = options_.strict});  // says what is missing, and where
        }
        std::vector<std::size_t> missing;
        for (std::size_t i = 0; i < state.files.size(); ++i) {
            if (state.files[i].here &&
                !verify(manifest_, state, i, store_, {.strict = options_.strict}).matches()) {
                // Damaged here: the link goes, and the content with it.
                std::error_code error;
                if (options_.offline) (void)require_model(manifest_, store_, {.strict = options_.strict});
                fs::remove(fs::canonical(state.files[i].path, error), error);
                fs::remove(state.files[i].path, error);
                state.files[i].here = false;
            }
            if (!state.files[i].here) missing.push_back(i);
        }
        std::map<std::size_t, std::int64_t> loaded;
        if (!missing.empty()) {
            if (!is_allowed_address(options_.endpoint))
                throw OptionError("endpoint", options_.endpoint,
                                  "https://…, or http:// to this machine itself");
            // One commit for all files. What is here already stays with its own, if that is still the one.
            std::vector<Remote> remotes;
            std::string revision = manifest_.revision;
            for (const auto i : missing) {
                remotes.push_back(ask(manifest_.files[i], revision));
                revision = remotes.back().commit;
                total_ += remotes.back().size;
            }
            if (missing.size() != state.files.size() && revision != state.commit) {
                missing.clear();
                remotes.clear();
                total_ = 0;
                for (std::size_t i = 0; i < state.files.size(); ++i) {
                    missing.push_back(i);
                    remotes.push_back(ask(manifest_.files[i], revision));
                    total_ += remotes.back().size;
                }
            }
            require_space();
            for (std::size_t k = 0; k < missing.size(); ++k)
                loaded[missing[k]] = load(manifest_.files[missing[k]], remotes[k]);
        }
        state = look_up(manifest_, store_);
        (void)require_model(manifest_, store_, {.strict = options_.strict});
        for (std::size_t i = 0; i < state.files.size(); ++i)
            done.push_back({state.files[i].name, state.files[i].path, state.files[i].size, loaded[i]});
        return done;
    }

  private:
    [[nodiscard]] std::string address(const std::string& file, const std::string& revision) const {
        auto endpoint = options_.endpoint;
        while (endpoint.ends_with('/')) endpoint.pop_back();
        return fmt::format("{}/{}/resolve/{}/{}", endpoint, manifest_.repository, revision, file);
    }

    // Throws what an answer that is no success means. url: the one that was asked first; a redirect's may
    // hold a signature.
    [[noreturn]] void refuse(const Answer& answer, const std::string& url) const {
        if (answer.status == 401 || answer.status == 403)
            throw Error(
                ErrorCode::unavailable,
                fmt::format("{}: access denied (HTTP {}); the model asks for an accepted licence: accept it "
                            "at {} and set HF_TOKEN",
                            url, answer.status, manifest_.licence_url),
                url);
        if (answer.status == 404 || answer.status == 410)
            throw Error(
                ErrorCode::network,
                fmt::format("{}: not there (HTTP {}); check repository, revision and file name in the "
                            "manifest of {}",
                            url, answer.status, manifest_.name),
                url);
        if (answer.result != CURLE_OK)
            throw Error(
                ErrorCode::network,
                fmt::format("{}: {}; check the network, or bring the files by `lightmill models import`", url,
                            curl_easy_strerror(answer.result)),
                url);
        throw Error(ErrorCode::network,
                    fmt::format("{}: the server answered HTTP {}; try again later", url, answer.status), url);
    }

    [[nodiscard]] std::string redirected(Url to, const Answer& answer, const std::string& url) const {
        const bool was_https = to.is_https();
        to.follow(answer.header("location"));
        if (!to.is_allowed() || (was_https && !to.is_https()))
            throw Error(ErrorCode::network,
                        fmt::format("{}: the server points to an address that is not https; "
                                    "it is not followed",
                                    url),
                        url);
        return to.text();
    }

    // Headers alone, retried while the network fails.
    Answer head(const std::string& target, const std::string& url) {
        for (int attempt = 1;; ++attempt) {
            auto answer = client_.request(target, true, 0, {});
            const bool passing = answer.result != CURLE_OK || answer.status >= 500 || answer.status == 429;
            if (!passing) return answer;
            if (attempt >= options_.attempts || answer.result == CURLE_COULDNT_RESOLVE_HOST)
                refuse(answer, url);
            pause(attempt);
        }
    }

    Remote ask(const ManifestFile& file, const std::string& revision) {
        const auto url = address(file.name, revision);
        auto target = url;
        Remote remote;
        std::int64_t length = -1;
        for (int redirects = 0;; ++redirects) {
            if (redirects > k_max_redirects)
                throw Error(ErrorCode::network,
                            fmt::format("{}: more than {} redirects", url, k_max_redirects), url);
            const auto answer = head(target, url);
            const auto keep = [&](std::string& to, const std::string& value) {
                if (!value.empty()) to = value;
            };
            keep(remote.commit, answer.header("x-repo-commit"));
            keep(remote.etag, answer.header("x-linked-etag"));
            if (remote.etag.empty() && !answer.is_redirect()) keep(remote.etag, answer.header("etag"));
            if (const auto size = number_of(answer.header("x-linked-size")); size >= 0) remote.size = size;
            if (answer.is_redirect()) {
                // To another host, for the content: what is asked here is known by then.
                if (!remote.commit.empty() && !remote.etag.empty() && remote.size >= 0) break;
                target = redirected(Url(target), answer, url);
                continue;
            }
            if (answer.status != 200) refuse(answer, url);
            length = number_of(answer.header("content-length"));
            break;
        }
        if (remote.size < 0) remote.size = length;
        auto& etag = remote.etag;
        if (etag.starts_with("W/")) etag = etag.substr(2);
        std::erase(etag, '"');
        if (!is_hex(remote.commit, 40) || (!is_hex(etag, 40) && !is_hex(etag, 64)) || remote.size < 0)
            throw Error(
                ErrorCode::network,
                fmt::format(
                    "{}: expected commit, hash and size in the answer's headers, as Hugging Face's hub "
                    "gives them; is this the endpoint?",
                    url),
                url);
        if (is_hex(manifest_.revision, 40) && remote.commit != manifest_.revision)
            throw FormatError(url, -1,
                              fmt::format("found commit {}, expected {}", remote.commit, manifest_.revision));
        if (file.size >= 0 && file.size != remote.size)
            throw FormatError(url, -1,
                              fmt::format("found {} bytes, expected {} (manifest)", remote.size, file.size));
        if (!file.sha256.empty() && is_hex(etag, 64) && etag != file.sha256)
            throw FormatError(url, -1,
                              fmt::format("found SHA-256 {}, expected {} (manifest)", etag, file.sha256));
        if (file.name.ends_with(".json") && remote.size > k_max_small_bytes)
            throw FormatError(url, -1,
                              fmt::format("found {} bytes, expected at most {} of a JSON file", remote.size,
                                          k_max_small_bytes));
        return remote;
    }

    void require_space() const {
        const auto folder = detail::repository_folder(manifest_, store_);
        detail::make_folders(folder);
        struct statvfs info{};
        if (::statvfs(folder.c_str(), &info) != 0) return;
        const auto free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
        if (static_cast<std::uint64_t>(total_) > free)
            throw IoError(folder, fmt::format("make room for {} bytes ({} are free)", total_, free), ENOSPC,
                          io_advice(ENOSPC));
    }

    void pause(int attempt) const {
        // In small steps, so that a stop is heard.
        for (int waited = 0; waited < options_.pause_ms * attempt && !stop_.stop_requested(); waited += 20)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }

    // Brings one blob in and links it. Returns the bytes that were loaded.
    std::int64_t load(const ManifestFile& file, const Remote& remote) {
        const auto blobs = detail::repository_folder(manifest_, store_) + "/blobs";
        detail::make_folders(blobs);
        const auto blob = blobs + "/" + remote.etag;
        std::int64_t loaded = 0;
        {
            const detail::BlobLock lock(manifest_, remote.etag, store_);
            std::error_code error;
            if (!fs::is_regular_file(blob, error)) loaded = fill(file, remote, blob);
            detail::link_blob(manifest_, remote.commit, file.name, remote.etag, store_);
        }
        finished_ += remote.size;
        return loaded;
    }

    std::int64_t fill(const ManifestFile& file, const Remote& remote, const std::string& blob) {
        const auto incomplete = blob + ".incomplete";
        FileDescriptor out(::open(incomplete.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
        if (!out.is_open()) fail(incomplete, "create", errno);
        std::int64_t loaded = 0, most = 0;
        const auto url = address(file.name, remote.commit);
        for (int attempt = 1;; ++attempt) {
            auto have = size_bytes(out, incomplete);
            if (have > remote.size) {  // of some other content
                if (::ftruncate(out.get(), 0) != 0) fail(incomplete, "truncate", errno);
                have = 0;
            }
            if (have == remote.size) break;
            const auto came = transfer(url, remote, out, incomplete, have);
            loaded += came.bytes;
            if (size_bytes(out, incomplete) == remote.size) break;
            if (const auto now = size_bytes(out, incomplete); now > most) {  // it gets on
                most = now;
                attempt = 1;
            }
            if (attempt >= options_.attempts) {
                const auto now = size_bytes(out, incomplete);
                throw Error(
                    ErrorCode::network,
                    fmt::format(
                        "{}: the transfer broke off at {} of {} bytes ({}); run it again to go on from there",
                        url, now, remote.size, came.reason),
                    url);
            }
            pause(attempt);
        }
        if (::fsync(out.get()) != 0) fail(incomplete, "sync", errno);
        const auto hashes = hash_file(incomplete);
        const auto& found = is_hex(remote.etag, 64) ? hashes.sha256 : hashes.git;
        const bool as_manifest = file.sha256.empty() || file.sha256 == hashes.sha256;
        if (found != remote.etag || !as_manifest) {
            ::unlink(incomplete.c_str());
            throw FormatError(
                url, -1,
                fmt::format("what came has the hash {}, expected {}; it was dropped: fetch again",
                            as_manifest ? found : hashes.sha256, as_manifest ? remote.etag : file.sha256));
        }
        detail::record(manifest_, remote.commit, file.name, hashes, store_);
        if (::rename(incomplete.c_str(), blob.c_str()) != 0) fail(blob, "rename", errno);
        detail::sync_folder(fs::path(blob).parent_path().string());
        return loaded;
    }

    struct Came {
        std::int64_t bytes = 0;
        std::string reason;
    };

    // One transfer from byte `have` on, over its redirects. Returns early where it breaks off.
    Came transfer(const std::string& url, const Remote& remote, const FileDescriptor& out,
                  const std::string& path, std::int64_t have) {
        auto target = url;
        for (int redirects = 0; redirects <= k_max_redirects; ++redirects) {
            Came came;
            bool started = false;
            const auto sink = [&](const Answer& answer, std::span<const std::byte> bytes) {
                if (answer.status != 200 && answer.status != 206) return true;  // an error's text: not kept
                if (!started) {
                    started = true;
                    // A server that knows no ranges sends all of it again.
                    const auto range = answer.header("content-range");
                    if (answer.status == 206 && !range.starts_with(fmt::format("bytes {}-", have)))
                        throw Error(ErrorCode::network,
                                    fmt::format("{}: found the range \"{}\", asked for bytes from {} on", url,
                                                range, have),
                                    url);
                    if (answer.status == 200) have = 0;
                    if (::ftruncate(out.get(), have) != 0) fail(path, "truncate", errno);
                    if (::lseek(out.get(), have, SEEK_SET) < 0) fail(path, "seek", errno);
                    done_ = finished_ + have;
                }
                const auto after = have + came.bytes + static_cast<std::int64_t>(bytes.size());
                if (after > remote.size) {
                    if (::ftruncate(out.get(), 0) != 0) fail(path, "truncate", errno);
                    throw FormatError(
                        url, -1,
                        fmt::format("more than the declared {} bytes came; it was dropped", remote.size));
                }
                write_all(out, path, bytes);
                came.bytes += static_cast<std::int64_t>(bytes.size());
                report(static_cast<std::int64_t>(bytes.size()));
                return true;
            };
            const auto answer = client_.request(target, false, have, sink);
            if (answer.is_redirect()) {
                target = redirected(Url(target), answer, url);
                continue;
            }
            if (answer.result == CURLE_OK && (answer.status == 200 || answer.status == 206)) {
                came.reason = "the server ended it early";
                return came;
            }
            const bool passing = answer.status == 0 || answer.status == 200 || answer.status == 206 ||
                                 answer.status == 429 || answer.status >= 500;
            if (answer.status == 416 && have > 0) {  // what is here is of no use to this server
                if (::ftruncate(out.get(), 0) != 0) fail(path, "truncate", errno);
                return came;
            }
            if (!passing) refuse(answer, url);
            came.reason = answer.result != CURLE_OK ? curl_easy_strerror(answer.result)
                                                    : fmt::format("HTTP {}", answer.status);
            return came;
        }
        throw Error(ErrorCode::network, fmt::format("{}: more than {} redirects", url, k_max_redirects), url);
    }

    void report(std::int64_t bytes) {
        done_ += bytes;
        const auto now = std::chrono::steady_clock::now();
        if (!progress_ || now - last_report_ < std::chrono::milliseconds(200)) return;
        last_report_ = now;
        progress_({static_cast<std::uint64_t>(done_), static_cast<std::uint64_t>(total_)});
    }

    const Manifest& manifest_;
    const ModelStore& store_;
    const FetchOptions& options_;
    const ProgressFunction& progress_;
    std::stop_token stop_;
    Client client_;
    std::int64_t total_ = 0, done_ = 0, finished_ = 0;
    std::chrono::steady_clock::time_point last_report_;
};

}  // namespace

bool is_allowed_address(const std::string& url) {
    return Url(url).is_allowed();
}

std::vector<FetchedFile> fetch_model(const Manifest& manifest, const ModelStore& store,
                                     const FetchOptions& options, const ProgressFunction& progress,
                                     std::stop_token stop) {
    static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (!ready) throw Error(ErrorCode::unavailable, "libcurl does not start", "curl_global_init");
    for (const char c : options.token)
        if (c <= ' ' || c > '~')
            throw OptionError("token", "a character that no token has", "printable ASCII without blanks");
    return Fetcher(manifest, store, options, progress, std::move(stop)).run();
}

}  // namespace lightmill::vision

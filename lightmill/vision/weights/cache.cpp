#include "lightmill/vision/weights/cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hash.hpp"

namespace lightmill::vision {
namespace {

namespace fs = std::filesystem;
using detail::fail;
using Json = nlohmann::ordered_json;

constexpr std::size_t k_sha256_digits = 64, k_sha1_digits = 40;

std::string flat(const std::string& repository) {
    auto text = repository;
    const auto slash = text.find('/');
    return text.replace(slash, 1, "--");
}

std::string trimmed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    return text;
}

// The commit that the cache has for the manifest's revision; empty where it has none.
std::string commit_of(const Manifest& manifest, const ModelStore& store) {
    if (is_hex(manifest.revision, k_sha1_digits)) return manifest.revision;
    const auto path =
        fmt::format("{}/refs/{}", detail::repository_folder(manifest, store), manifest.revision);
    if (!fs::exists(path)) return {};
    const auto commit = trimmed(read_file(path, 4096));
    if (!is_hex(commit, k_sha1_digits))
        throw FormatError(path, 0,
                          "expected a commit of 40 hexadecimal digits; remove the file and fetch again");
    return commit;
}

std::string snapshot_folder(const Manifest& manifest, const std::string& commit, const ModelStore& store) {
    return fmt::format("{}/snapshots/{}", detail::repository_folder(manifest, store),
                       commit.empty() ? "<" + manifest.revision + ">" : commit);
}

// What a stamp compares: any write changes one of these.
struct Identity {
    std::int64_t size = 0, modified_ns = 0, changed_ns = 0, inode = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
};
Identity identity_of(const std::string& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) fail(path, "stat", errno);
    constexpr std::int64_t k_ns = 1'000'000'000;
    return {info.st_size, info.st_mtim.tv_sec * k_ns + info.st_mtim.tv_nsec,
            info.st_ctim.tv_sec * k_ns + info.st_ctim.tv_nsec, static_cast<std::int64_t>(info.st_ino)};
}

std::string stamp_path(const std::string& file, const ModelStore& store) {
    return fmt::format("{}/stamps/{}.json", store.state, sha256_hex(file).substr(0, 32));
}
std::string record_path(const Manifest& manifest, const std::string& commit, const std::string& file,
                        const ModelStore& store) {
    return fmt::format("{}/records/{}/{}/{}.json", store.state, flat(manifest.repository), commit, file);
}

// A small JSON object of lightmill's own; nothing where there is none or it is not understood: it is made
// again.
Json note(const std::string& path) {
    try {
        if (fs::exists(path)) return Json::parse(read_file(path, 1 << 16));
    } catch (const Json::exception&) {
    } catch (const Error&) {
    }
    return Json::object();
}

std::string text_of(const Json& json, const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>()
                                                                           : "";
}

std::optional<Hashes> stamped(const std::string& file, const Identity& now, const ModelStore& store) {
    const auto json = note(stamp_path(file, store));
    const Hashes hashes{text_of(json, "sha256"), text_of(json, "git")};
    if (!is_hex(hashes.sha256, k_sha256_digits) || !is_hex(hashes.git, k_sha1_digits)) return {};
    const auto number = [&](const char* key) {
        return json.contains(key) && json[key].is_number_integer() ? json[key].get<std::int64_t>() : -1;
    };
    if (text_of(json, "path") != file ||
        Identity{number("size"), number("modified_ns"), number("changed_ns"), number("inode")} != now)
        return {};
    return hashes;
}

void stamp(const std::string& file, const Identity& then, const Hashes& hashes, const ModelStore& store) {
    const Json json{{"path", file},
                    {"size", then.size},
                    {"modified_ns", then.modified_ns},
                    {"changed_ns", then.changed_ns},
                    {"inode", then.inode},
                    {"sha256", hashes.sha256},
                    {"git", hashes.git}};
    try {
        detail::make_folders(fs::path(stamp_path(file, store)).parent_path().string());
        detail::write_atomic(stamp_path(file, store), json.dump(1) + "\n");
    } catch (const IoError&) {
        // A stamp only saves time: where it cannot be kept, the file is hashed again.
    }
}

ExpectedHash expected_of(const ManifestFile& file, const std::string& blob, const Json& recorded) {
    if (!file.sha256.empty()) return {.sha256 = file.sha256, .git = {}, .source = "manifest"};
    if (const auto sha256 = text_of(recorded, "sha256"); is_hex(sha256, k_sha256_digits))
        return {.sha256 = sha256, .git = {}, .source = "recorded"};
    if (is_hex(blob, k_sha256_digits)) return {.sha256 = blob, .git = {}, .source = "hub"};
    if (is_hex(blob, k_sha1_digits)) return {.sha256 = {}, .git = blob, .source = "hub"};
    return {};
}

std::string mismatch(const VerifiedFile& file) {
    return file.expected.sha256.empty()
               ? fmt::format("found content of git hash {}, expected {} ({})", file.found.git,
                             file.expected.git, file.expected.source)
               : fmt::format("found content of SHA-256 {}, expected {} ({})", file.found.sha256,
                             file.expected.sha256, file.expected.source);
}

// Git names content by it.
class Sha1 {
  public:
    Sha1() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
        require(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha1(), nullptr) == 1);
    }
    void update(std::span<const std::byte> bytes) {
        require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
    }
    std::string hex() {
        std::array<unsigned char, k_sha1_digits / 2> bytes{};
        require(EVP_DigestFinal_ex(context_.get(), bytes.data(), nullptr) == 1);
        return fmt::format("{:02x}", fmt::join(bytes, ""));
    }

  private:
    static void require(bool ok) {
        if (!ok)
            throw Error(ErrorCode::unavailable, "OpenSSL has no SHA-1; git's hashes are made of it",
                        "EVP_Digest");
    }
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

void require_strict(const Manifest& manifest, const ManifestFile& file, bool strict) {
    if (strict && file.sha256.empty())
        throw OptionError("strict",
                          fmt::format("a manifest of {} without sha256 for {}", manifest.name, file.name),
                          "a sha256 for each file");
}

}  // namespace

Hashes hash_file(const std::string& path) {
    const auto file = open_for_reading(path);
    const auto size = size_bytes(file, path);
    Sha256 sha256;
    Sha1 git;
    const auto head = fmt::format("blob {}", size) + '\0';
    git.update(std::as_bytes(std::span(head)));
    // Hubs name files above some megabytes by SHA-256 alone: git's hash of those is of no use.
    constexpr std::int64_t k_git_limit = std::int64_t{64} << 20;
    std::vector<std::byte> block(1 << 20);
    for (std::int64_t at = 0; at < size;) {
        const auto part = std::span(block).first(static_cast<std::size_t>(
            std::min<std::int64_t>(size - at, static_cast<std::int64_t>(block.size()))));
        read_exact(file, path, at, part);
        sha256.update(part);
        if (size <= k_git_limit) git.update(part);
        at += static_cast<std::int64_t>(part.size());
    }
    return {sha256.hex(), size <= k_git_limit ? git.hex() : std::string(k_sha1_digits, '0')};
}

bool ModelState::complete() const noexcept {
    return std::ranges::all_of(files, &ModelFile::here);
}

bool VerifiedFile::matches() const noexcept {
    return expected.sha256.empty() ? expected.git.empty() || expected.git == found.git
                                   : expected.sha256 == found.sha256;
}

ModelState look_up(const Manifest& manifest, const ModelStore& store) {
    ModelState state;
    state.commit = commit_of(manifest, store);
    const auto folder = snapshot_folder(manifest, state.commit, store);
    for (const auto& wanted : manifest.files) {
        ModelFile file{.name = wanted.name,
                       .path = folder + "/" + wanted.name,
                       .here = false,
                       .trouble = {},
                       .blob = {}};
        std::error_code error;
        const auto link = fs::symlink_status(file.path, error);
        const auto target = fs::status(file.path, error);
        if (fs::is_symlink(link)) {
            const auto to = fs::read_symlink(file.path, error);
            file.blob = to.filename().string();
            if (!fs::exists(target))
                file.trouble = fmt::format("a link to {}, which is not there", to.string());
        }
        if (fs::is_regular_file(target)) {
            file.here = true;
            file.size = static_cast<std::int64_t>(fs::file_size(file.path, error));
            if (wanted.size >= 0 && wanted.size != file.size) {
                file.here = false;
                file.trouble = fmt::format("found {} bytes, expected {}", file.size, wanted.size);
            }
        } else if (fs::exists(target)) {
            file.trouble = "not a file";
        } else if (file.trouble.empty()) {
            const auto known_absent = fmt::format(
                "{}/.no_exist/{}/{}", detail::repository_folder(manifest, store), state.commit, wanted.name);
            file.trouble = state.commit.empty()              ? "no snapshot of this model is in the cache"
                           : fs::exists(known_absent, error) ? "the repository has no such file"
                                                             : "not in the cache";
        }
        state.files.push_back(std::move(file));
    }
    return state;
}

VerifiedFile verify(const Manifest& manifest, const ModelState& state, std::size_t index,
                    const ModelStore& store, const VerifyOptions& options) {
    const auto& wanted = manifest.files[index];
    const auto& file = state.files[index];
    require_strict(manifest, wanted, options.strict);
    VerifiedFile out{.name = wanted.name, .path = file.path, .found = {}, .expected = {}};
    std::error_code error;
    const auto content = fs::canonical(file.path, error).string();
    if (error) fail(file.path, "find", error.value());
    const auto recorded = note(record_path(manifest, state.commit, wanted.name, store));
    out.expected = expected_of(wanted, file.blob, recorded);
    const auto now = identity_of(content);
    const auto known = options.again ? std::nullopt : stamped(content, now, store);
    if (known) {
        out.found = *known;
    } else {
        out.found = hash_file(content);
        out.hashed = true;
        if (identity_of(content) == now) stamp(content, now, out.found, store);
    }
    if (out.expected.source.empty()) detail::record(manifest, state.commit, wanted.name, out.found, store);
    return out;
}

std::map<std::string, std::string> require_model(const Manifest& manifest, const ModelStore& store,
                                                 const VerifyOptions& options) {
    const auto state = look_up(manifest, store);
    std::map<std::string, std::string> paths;
    for (const auto& file : state.files) {
        if (!file.here)
            throw Error(
                ErrorCode::unavailable,
                fmt::format("{} of {} is not here: looked for {} ({}); `lightmill models fetch {}` loads "
                            "it, `lightmill models import FOLDER --model {}` takes it from a folder",
                            file.name, manifest.name, file.path, file.trouble, manifest.name, manifest.name),
                file.path);
    }
    for (std::size_t i = 0; i < state.files.size(); ++i) {
        const auto verified = verify(manifest, state, i, store, options);
        if (!verified.matches())
            throw FormatError(verified.path, -1,
                              fmt::format("{}; remove the file and run `lightmill models fetch {}`",
                                          mismatch(verified), manifest.name));
        paths.emplace(verified.name, verified.path);
    }
    return paths;
}

void import_model(const Manifest& manifest, const std::string& folder, const ModelStore& store,
                  const VerifyOptions& options) {
    // A folder has no commit. All zeros stand for one that nobody can have pushed.
    const auto commit =
        is_hex(manifest.revision, k_sha1_digits) ? manifest.revision : std::string(k_sha1_digits, '0');
    struct Source {
        std::string name, path;
        Hashes hashes;
    };
    std::vector<Source> sources;
    for (const auto& wanted : manifest.files) {
        Source source{wanted.name, folder + "/" + wanted.name, {}};
        require_strict(manifest, wanted, options.strict);
        source.hashes = hash_file(source.path);
        if (!wanted.sha256.empty() && wanted.sha256 != source.hashes.sha256)
            throw FormatError(source.path, -1,
                              fmt::format("found content of SHA-256 {}, expected {} (manifest)",
                                          source.hashes.sha256, wanted.sha256));
        sources.push_back(std::move(source));
    }
    const auto blobs = detail::repository_folder(manifest, store) + "/blobs";
    detail::make_folders(blobs);
    for (const auto& source : sources) {
        const auto blob = blobs + "/" + source.hashes.sha256;
        const detail::BlobLock lock(manifest, source.hashes.sha256, store);
        if (!fs::exists(blob)) {
            const auto incomplete = blob + ".incomplete";
            std::error_code error;
            fs::copy_file(source.path, incomplete, fs::copy_options::overwrite_existing, error);
            if (error) fail(incomplete, "copy", error.value());
            if (hash_file(incomplete).sha256 != source.hashes.sha256) {
                fs::remove(incomplete, error);
                throw FormatError(source.path, -1, "the file changed while it was copied; try again");
            }
            if (::rename(incomplete.c_str(), blob.c_str()) != 0) fail(blob, "rename", errno);
            detail::sync_folder(blobs);
        }
        detail::link_blob(manifest, commit, source.name, source.hashes.sha256, store);
        detail::record(manifest, commit, source.name, source.hashes, store);
    }
}

namespace detail {

void fail(const std::string& path, const char* call, int error_number) {
    throw IoError(path, call, error_number, io_advice(error_number));
}

std::string repository_folder(const Manifest& manifest, const ModelStore& store) {
    return fmt::format("{}/models--{}", store.hub, flat(manifest.repository));
}

void record(const Manifest& manifest, const std::string& commit, const std::string& file,
            const Hashes& hashes, const ModelStore& store) {
    const auto path = record_path(manifest, commit, file, store);
    make_folders(fs::path(path).parent_path().string());
    write_atomic(path, Json{{"sha256", hashes.sha256}}.dump(1) + "\n");
}

void link_blob(const Manifest& manifest, const std::string& commit, const std::string& file,
               const std::string& blob, const ModelStore& store) {
    const auto repository = repository_folder(manifest, store);
    const auto path = fmt::format("{}/snapshots/{}/{}", repository, commit, file);
    const auto folder = fs::path(path).parent_path().string();
    make_folders(folder);
    std::string target = "../../";  // out of snapshots/<commit>, once more for every folder in the name
    for (const char c : file)
        if (c == '/') target += "../";
    target += "blobs/" + blob;
    const auto temporary = fmt::format("{}.{}.link", path, ::getpid());
    ::unlink(temporary.c_str());
    if (::symlink(target.c_str(), temporary.c_str()) != 0) fail(temporary, "link", errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        const int error = errno;
        ::unlink(temporary.c_str());
        fail(path, "rename", error);
    }
    sync_folder(folder);
    if (manifest.revision != commit) {
        make_folders(repository + "/refs");
        write_atomic(fmt::format("{}/refs/{}", repository, manifest.revision), commit);
    }
}

BlobLock::BlobLock(const Manifest& manifest, const std::string& blob, const ModelStore& store) {
    const auto folder = fmt::format("{}/.locks/models--{}", store.hub, flat(manifest.repository));
    make_folders(folder);
    const auto path = fmt::format("{}/{}.lock", folder, blob);
    file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file_.is_open()) fail(path, "create", errno);
    while (::flock(file_.get(), LOCK_EX) != 0)
        if (errno != EINTR) fail(path, "lock", errno);
}

void make_folders(const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail(path, "make folder", error.value());
}

void write_atomic(const std::string& path, const std::string& text) {
    auto temporary = path + ".XXXXXX";  // processes may write the same file at once
    {
        const FileDescriptor file(::mkstemp(temporary.data()));
        if (!file.is_open()) fail(temporary, "create", errno);
        try {
            write_all(file, temporary, std::as_bytes(std::span(text)));
            if (::fchmod(file.get(), 0644) != 0 || ::fsync(file.get()) != 0) fail(temporary, "sync", errno);
        } catch (...) {
            ::unlink(temporary.c_str());
            throw;
        }
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        const int error = errno;
        ::unlink(temporary.c_str());
        fail(path, "rename", error);
    }
}

void sync_folder(const std::string& path) {
    const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.is_open() || ::fsync(folder.get()) != 0) fail(path, "sync", errno);
}

}  // namespace detail
}  // namespace lightmill::vision

#pragma once
// Where models lie on this machine: Hugging Face's cache, shared with its own tools, and lightmill's notes of
// what was verified. Nothing here touches the network. docs/models.md has the layout.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lightmill/base/file.hpp"
#include "lightmill/vision/weights/manifest.hpp"

namespace lightmill::vision {

// Folders, decided by the program.
struct ModelStore {
    std::string hub;    // Hugging Face's: models--owner--name folders
    std::string state;  // lightmill's own: hashes first seen, stamps of files that were verified
};

// A file of a model, here or not.
struct ModelFile {
    std::string name;
    std::string path;  // in the snapshot; where it would be, if it is not here
    bool here = false;
    std::string trouble;  // why it is not here
    std::int64_t size = 0;
    std::string blob;  // name of the content that the snapshot links to: a hash by Hugging Face's custom
};
struct ModelState {
    std::string commit;            // the snapshot; empty where none is known
    std::vector<ModelFile> files;  // in the manifest's order
    [[nodiscard]] bool complete() const noexcept;
};
// Looks; hashes nothing. Throws FormatError for a reference that is no commit.
[[nodiscard]] ModelState look_up(const Manifest& manifest, const ModelStore& store);

// What a file's content must hash to.
struct ExpectedHash {
    std::string sha256;  // either this one,
    std::string git;     // or this: SHA-1 of git's blob, how the hub names small files
    std::string source;  // "manifest", "recorded", "hub"; empty where nothing is known
};
struct Hashes {
    std::string sha256, git;
};
struct VerifiedFile {
    std::string name, path;
    Hashes found;
    ExpectedHash expected;
    bool hashed = false;  // false: a stamp said so
    [[nodiscard]] bool matches() const noexcept;
};
struct VerifyOptions {
    bool strict = false;  // only the manifest's own hashes count
    bool again = false;   // hash even where a stamp says that it was done
};
// Hashes a file that is here, or takes the stamp of an earlier time: same path, size, times and inode. A file
// of which nothing is known is recorded as first seen, so that it cannot change later. Throws IoError;
// OptionError under `strict` where the manifest has no hash.
[[nodiscard]] VerifiedFile verify(const Manifest& manifest, const ModelState& state, std::size_t file,
                                  const ModelStore& store, const VerifyOptions& options = {});

// The paths of a model's files by name, all here and verified. Throws Error(unavailable) that names what is
// missing, where it was looked for and what would fetch it; FormatError for content that is not what it must
// be.
[[nodiscard]] std::map<std::string, std::string> require_model(const Manifest& manifest,
                                                               const ModelStore& store,
                                                               const VerifyOptions& options = {});

// Puts a folder's files into the cache, verified, as the snapshot of the manifest's revision. Throws as
// above.
void import_model(const Manifest& manifest, const std::string& folder, const ModelStore& store,
                  const VerifyOptions& options = {});

// SHA-256, and SHA-1 as git counts a blob, of a file.
[[nodiscard]] Hashes hash_file(const std::string& path);

namespace detail {

// Throws IoError with what can be done about the error.
[[noreturn]] void fail(const std::string& path, const char* call, int error_number);
[[nodiscard]] std::string repository_folder(const Manifest& manifest, const ModelStore& store);
// The hash that was noted when a file was first seen.
void record(const Manifest& manifest, const std::string& commit, const std::string& file,
            const Hashes& hashes, const ModelStore& store);
// Links a blob into a snapshot, and the revision to the commit; replaces what is there in one step.
void link_blob(const Manifest& manifest, const std::string& commit, const std::string& file,
               const std::string& blob, const ModelStore& store);
// Held while one process fills a blob; others wait. Hugging Face's tools take the same lock.
class BlobLock {
  public:
    BlobLock(const Manifest& manifest, const std::string& blob, const ModelStore& store);

  private:
    FileDescriptor file_;
};
void make_folders(const std::string& path);
void write_atomic(const std::string& path, const std::string& text);
void sync_folder(const std::string& path);

}  // namespace detail
}  // namespace lightmill::vision

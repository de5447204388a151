#pragma once
// What a model is made of and where it comes from: one TOML file a model (docs/formats/manifest.md).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lightmill::vision {

struct ManifestFile {
    std::string name;        // within the repository
    std::int64_t size = -1;  // bytes; −1 where the manifest does not say
    std::string sha256;      // 64 lower-case hexadecimal digits; empty where it does not say
};

struct Manifest {
    std::string name;
    std::string description;
    std::string repository;  // "owner/name"
    std::string revision;    // a branch, a tag, or a commit of 40 hexadecimal digits
    std::string licence;     // of the weights
    std::string licence_url;
    std::vector<ManifestFile> files;
    std::map<std::string, std::string> defaults;   // what config.json leaves out, by its keys
    std::map<std::string, std::string> processor;  // how images become tiles, by the names of its options
};

// Names become paths and addresses: letters, digits, '.', '_' and '-', not beginning with '.' or '-', no
// "..". Throw FormatError naming `where`.
void require_model_name(std::string_view name, const std::string& where);  // lower case
void require_repository(std::string_view name, const std::string& where);  // two, with one '/' between
void require_revision(std::string_view name, const std::string& where);
// Any number with '/' between; the last one ends in .safetensors or .json: nothing else is ever opened.
void require_file_name(std::string_view name, const std::string& where);
// Lower-case hexadecimal digits, exactly so many.
[[nodiscard]] bool is_hex(std::string_view text, std::size_t digits) noexcept;

// Throws FormatError, with the line where there is one; a key that is not known is refused.
[[nodiscard]] Manifest parse_manifest(const std::string& text, const std::string& path);
// All *.toml of a folder, by name. Throws IoError, FormatError.
[[nodiscard]] std::vector<Manifest> read_manifests(const std::string& folder);
// Throws OptionError that lists the names there are.
[[nodiscard]] const Manifest& find_manifest(const std::vector<Manifest>& manifests, std::string_view name);

}  // namespace lightmill::vision

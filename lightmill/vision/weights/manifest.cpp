#include "lightmill/vision/weights/manifest.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"

namespace lightmill::vision {
namespace {

bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_part(std::string_view part) {
    constexpr std::size_t k_longest = 96;
    if (part.empty() || part.size() > k_longest || part.front() == '.' || part.front() == '-') return false;
    if (part.find("..") != std::string_view::npos) return false;
    return std::ranges::all_of(part, [](char c) {
        return is_lower(c) || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '_' || c == '-';
    });
}

std::vector<std::string_view> parts_of(std::string_view name) {
    std::vector<std::string_view> parts;
    for (std::size_t at = 0;;) {
        const auto slash = name.find('/', at);
        parts.push_back(name.substr(at, slash - at));
        if (slash == std::string_view::npos) return parts;
        at = slash + 1;
    }
}

[[noreturn]] void refuse(std::string_view what, std::string_view name, std::string_view expected,
                         const std::string& where) {
    throw FormatError(where, -1, fmt::format("found the {} \"{}\", expected {}", what, name, expected));
}

class Reader {
  public:
    explicit Reader(std::string path) : path_(std::move(path)) {}

    [[noreturn]] void fail(const toml::node& node, const std::string& message) const {
        throw FormatError(fmt::format("{}, line {}", path_, node.source().begin.line), -1, message);
    }
    void keys(const toml::table& table, const std::set<std::string_view>& known) const {
        for (const auto& [key, node] : table) {
            if (!known.contains(key.str()))
                fail(node,
                     fmt::format("found the key {}, expected one of {}", key.str(), fmt::join(known, ", ")));
        }
    }
    std::string text(const toml::table& table, std::string_view key, bool required) const {
        const auto* node = table.get(key);
        if (node == nullptr) {
            if (required) fail(table, fmt::format("expected the key {} with a text", key));
            return {};
        }
        if (!node->is_string()) fail(*node, fmt::format("{}: expected a text", key));
        return node->as_string()->get();
    }
    std::map<std::string, std::string> texts(const toml::table& top, std::string_view key) const {
        std::map<std::string, std::string> all;
        const auto* node = top.get(key);
        if (node == nullptr) return all;
        if (!node->is_table()) fail(*node, fmt::format("{}: expected a table", key));
        for (const auto& [name, value] : *node->as_table()) {
            if (!value.is_string()) fail(value, fmt::format("{}: expected a text, in quotes", name.str()));
            all.emplace(name.str(), value.as_string()->get());
        }
        return all;
    }
    ManifestFile file(const toml::table& table) const {
        keys(table, {"name", "size", "sha256"});
        ManifestFile out{
            .name = text(table, "name", true), .size = -1, .sha256 = text(table, "sha256", false)};
        require_file_name(out.name, path_);
        if (!out.sha256.empty() && !is_hex(out.sha256, 64))
            fail(table, fmt::format("{}: sha256 has 64 digits of 0-9a-f", out.name));
        if (const auto* size = table.get("size"); size != nullptr) {
            if (!size->is_integer() || size->as_integer()->get() < 0)
                fail(*size, "size: expected a number of bytes");
            out.size = size->as_integer()->get();
        }
        return out;
    }
    Manifest manifest(const toml::table& top) const {
        keys(top, {"name", "description", "repository", "revision", "licence", "licence_url", "files",
                   "defaults", "processor"});
        Manifest out;
        out.name = text(top, "name", true);
        out.description = text(top, "description", false);
        out.repository = text(top, "repository", true);
        out.revision = text(top, "revision", true);
        out.licence = text(top, "licence", true);
        out.licence_url = text(top, "licence_url", false);
        require_model_name(out.name, path_);
        require_repository(out.repository, path_);
        require_revision(out.revision, path_);
        out.defaults = texts(top, "defaults");
        out.processor = texts(top, "processor");
        const auto* files = top.get_as<toml::array>("files");
        if (files == nullptr || files->empty()) fail(top, "expected at least one [[files]]");
        for (const auto& node : *files) {
            if (!node.is_table()) fail(node, "files: expected tables");
            out.files.push_back(file(*node.as_table()));
            for (std::size_t i = 0; i + 1 < out.files.size(); ++i)
                if (out.files[i].name == out.files.back().name)
                    fail(node, fmt::format("the file {} is listed twice", out.files.back().name));
        }
        return out;
    }

  private:
    std::string path_;
};

}  // namespace

bool is_hex(std::string_view text, std::size_t digits) noexcept {
    return text.size() == digits &&
           std::ranges::all_of(text, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

void require_model_name(std::string_view name, const std::string& where) {
    if (!is_part(name) || !std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; }))
        refuse("model name", name, "lower-case letters, digits, '.', '_' and '-'", where);
}
void require_repository(std::string_view name, const std::string& where) {
    const auto parts = parts_of(name);
    if (parts.size() != 2 || !std::ranges::all_of(parts, is_part))
        refuse("repository", name, "\"owner/name\" of letters, digits, '.', '_' and '-'", where);
}
void require_revision(std::string_view name, const std::string& where) {
    if (!is_part(name)) refuse("revision", name, "letters, digits, '.', '_' and '-'", where);
}
void require_file_name(std::string_view name, const std::string& where) {
    if (!std::ranges::all_of(parts_of(name), is_part) ||
        (!name.ends_with(".safetensors") && !name.ends_with(".json")))
        refuse("file name", name,
               "a path of letters, digits, '.', '_' and '-' that ends in .safetensors or .json", where);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
    toml::table top;
    try {
        top = toml::parse(text, path);
    } catch (const toml::parse_error& error) {
        throw FormatError(fmt::format("{}, line {}", path, error.source().begin.line), -1,
                          fmt::format("not TOML: {}", error.description()));
    }
    return Reader(path).manifest(top);
}

std::vector<Manifest> read_manifests(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code error;
    std::vector<fs::path> paths;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (entry->path().extension() == ".toml") paths.push_back(entry->path());
    if (error) throw IoError(folder, "read the manifests", error.value(), "name the folder of the manifests");
    std::ranges::sort(paths);
    std::vector<Manifest> manifests;
    for (const auto& path : paths) {
        manifests.push_back(parse_manifest(read_file(path.string(), 1 << 20), path.string()));
        if (manifests.back().name != path.stem().string())
            throw FormatError(path.string(), -1,
                              fmt::format("found the name {}, expected {} as the file's",
                                          manifests.back().name, path.stem().string()));
    }
    return manifests;
}

const Manifest& find_manifest(const std::vector<Manifest>& manifests, std::string_view name) {
    std::vector<std::string_view> names;
    for (const auto& manifest : manifests) {
        if (manifest.name == name) return manifest;
        names.push_back(manifest.name);
    }
    throw OptionError("model", std::string(name), fmt::format("one of {}", fmt::join(names, ", ")));
}

}  // namespace lightmill::vision

// Alone in its file: the build makes a small program of it (source_digest_main.cpp).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lightmill/base/hash.hpp"
#include "lightmill/ladder/run/guards.hpp"

namespace lightmill::ladder {

std::string source_digest(const std::string& root) {
    namespace fs = std::filesystem;
    std::vector<std::string> names;
    for (const auto* folder : {"lightmill", "app", "cmake"}) {
        std::error_code error;
        for (fs::recursive_directory_iterator it(fs::path(root) / folder, error), end; it != end;
             it.increment(error)) {
            if (!it->is_regular_file() || it->path().filename().string().front() == '.') continue;
            const auto extension = it->path().extension().string();
            for (const auto* known : {".cpp", ".hpp", ".cu", ".in", ".css", ".js", ".txt", ".cmake"})
                if (extension == known) names.push_back(fs::relative(it->path(), root).generic_string());
        }
    }
    if (names.empty()) return {};
    std::sort(names.begin(), names.end());
    Sha256 sha;
    for (const auto& name : names) {
        std::ifstream file(fs::path(root) / name, std::ios::binary);
        const std::string content{std::istreambuf_iterator<char>(file), {}};
        const std::uint64_t size = content.size();
        sha.update(name.c_str(), name.size() + 1);
        sha.update(&size, sizeof size);
        sha.update(content.data(), content.size());
    }
    return sha.hex();
}

}  // namespace lightmill::ladder

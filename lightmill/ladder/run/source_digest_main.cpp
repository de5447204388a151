// source_digest ROOT FILE: writes a header with the digest of the sources, where it is not the same already.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "lightmill/ladder/run/guards.hpp"

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const std::string text = std::string(
                                 "#pragma once\nnamespace lightmill::app {\n"
                                 "inline constexpr const char* k_source_root = \"") +
                             argv[1] + "\";\ninline constexpr const char* k_source_digest = \"" +
                             lightmill::ladder::source_digest(argv[1]) +
                             "\";\n}  // namespace lightmill::app\n";
    std::ifstream old(argv[2]);
    if (std::string{std::istreambuf_iterator<char>(old), {}} == text) return 0;
    return std::ofstream(argv[2]) << text ? 0 : 1;
}

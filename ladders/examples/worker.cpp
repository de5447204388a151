// The same program in C++: g++ -O2 -o worker worker.cpp
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

int main() {
    std::FILE* replies = fdopen(3, "w");
    long size = 0;
    double answer = NAN, seconds = 0;
    for (std::string line, verb, word; std::getline(std::cin, line);) {
        std::istringstream words(line);
        if (!(words >> verb) || verb == "end") break;
        while (verb == "hello" && words >> word)  // hello 1 size=20000
            if (word.rfind("size=", 0) == 0) size = std::stol(word.substr(5));
        if (verb == "run") {
            const auto start = std::chrono::steady_clock::now();
            answer = 0;
            for (long i = 0; i < size; ++i) answer += std::sqrt(static_cast<double>(i));
            seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        }
        if (verb == "output" && words >> word) {  // output PATH, without the blanks that would come as %20
            std::ofstream file(word, std::ios::binary);
            file << "array sum f64 1\n";
            file.write(reinterpret_cast<const char*>(&answer), sizeof answer);
        }
        std::fprintf(replies, verb == "run" ? "ok wall=%.9f items=%ld count=1\n" : "ok\n", seconds, size);
        std::fflush(replies);
    }
}

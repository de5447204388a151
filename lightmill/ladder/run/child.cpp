#include "lightmill/ladder/run/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "lightmill/base/error.hpp"

namespace lightmill::ladder {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t k_longest_line = 1 << 16;
constexpr int k_reply_descriptor = 3;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
    result.push_back(nullptr);
    return result;
}

std::string shown(const std::string& text) {
    std::string result;
    for (const char c : text.substr(0, 60))
        result +=
            c >= ' ' && c < 127 ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return text.size() > 60 ? result + "…" : result;
}

}  // namespace

std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text)
        result += c == ' ' || c == '%' || c == '=' || c == '\n' || c == '\r' ? fmt::format("%{:02x}", c)
                                                                             : std::string(1, c);
    return result;
}
std::string unescaped(const std::string& text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned code = 0;
        if (text[i] == '%' && i + 2 < text.size() &&
            std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16).ptr == text.data() + i + 3) {
            result += static_cast<char>(code);
            i += 2;
        } else {
            result += text[i];
        }
    }
    return result;
}

std::string Reply::text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string() : found->second;
}
double Reply::number(const std::string& name, double otherwise) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return otherwise;
    double value = 0;
    const std::string& text = found->second;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc{} || result.ptr != text.data() + text.size())
        throw ChildFailure(fmt::format("GARBAGE: {} is '{}', expected a number", name, shown(text)));
    return value;
}

Child::Child(const Launch& launch, const std::vector<std::string>& environment, const std::string& log,
             std::stop_token stop)
    : log_(log), stop_(std::move(stop)) {
    std::array<int, 2> to{}, from{};
    // A socket, so that writing to a program that is gone is an error and not a signal.
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to.data()) != 0)
        throw IoError(launch.program, "socketpair", errno);
    requests_ = FileDescriptor(to[0]);
    const FileDescriptor input(to[1]);
    if (::pipe2(from.data(), O_CLOEXEC) != 0) throw IoError(launch.program, "pipe", errno);
    replies_ = FileDescriptor(from[0]);
    const FileDescriptor output(from[1]);
    const FileDescriptor printed(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!printed.is_open()) throw IoError(log, "open", errno, io_advice(errno));

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_adddup2(&actions, input.get(), 0);
    ::posix_spawn_file_actions_adddup2(&actions, printed.get(), 1);
    ::posix_spawn_file_actions_adddup2(&actions, printed.get(), 2);
    ::posix_spawn_file_actions_adddup2(&actions, output.get(), k_reply_descriptor);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes,
                                0);  // Ctrl-C reaches the runner only; a time-out ends the whole group
    ::posix_spawnattr_setflags(&attributes,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::vector<std::string> arguments{launch.program};
    arguments.insert(arguments.end(), launch.arguments.begin(), launch.arguments.end());
    const int error = ::posix_spawnp(&pid_, launch.program.c_str(), &actions, &attributes,
                                     pointers(arguments).data(), pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0) {
        pid_ = -1;
        throw ChildFailure(fmt::format("CRASH: {} does not start: {}", launch.program, std::strerror(error)));
    }
}

Child::~Child() {
    if (pid_ > 0) {
        ::kill(-pid_, SIGKILL);
        if (!ended_) ::waitpid(pid_, &status_, 0);
    }
    std::error_code ignored;
    if (std::filesystem::file_size(log_, ignored) == 0) std::filesystem::remove(log_, ignored);
}

std::string Child::ending(double wait_s) {
    const auto until = Clock::now() + std::chrono::duration<double>(wait_s);
    while (!ended_) {
        if (::waitpid(pid_, &status_, WNOHANG) == pid_) {
            ended_ = true;
        } else if (Clock::now() >= until) {
            return {};
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }
    if (WIFSIGNALED(status_))
        return fmt::format("ended by signal {} ({})", WTERMSIG(status_), ::strsignal(WTERMSIG(status_)));
    return fmt::format("ended with exit code {}", WEXITSTATUS(status_));
}

void Child::fail(const std::string& what) {
    throw ChildFailure(
        fmt::format("{}; what it printed is in {}", what, std::filesystem::path(log_).filename().string()));
}

std::string Child::line(double timeout_s) {
    const auto until = Clock::now() + std::chrono::duration<double>(timeout_s);
    while (true) {
        if (const auto end = pending_.find('\n'); end != std::string::npos) {
            std::string result = pending_.substr(0, end);
            pending_.erase(0, end + 1);
            return result;
        }
        if (pending_.size() > k_longest_line)
            fail(fmt::format("GARBAGE: {} bytes without the end of a line, '{}'", pending_.size(),
                             shown(pending_)));
        if (stop_.stop_requested()) throw Error(ErrorCode::interrupted, "interrupted");
        const double left = std::chrono::duration<double>(until - Clock::now()).count();
        if (left <= 0) fail(fmt::format("TIMEOUT: no answer within {} s", timeout_s));
        pollfd wanted{replies_.get(), POLLIN, 0};
        // Wakes twice a second for a stop; a rung that is timed does not notice.
        const int ready = ::poll(&wanted, 1, std::min(500, static_cast<int>(left * 1000) + 1));
        if (ready <= 0) continue;
        std::array<char, 4096> buffer{};
        const auto got = ::read(replies_.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) {
            pending_.append(buffer.data(), static_cast<std::size_t>(got));
            continue;
        }
        const std::string how = ending(1.0);
        if (how.empty())
            fail("CLOSED: it closed descriptor 3, where replies are expected, and goes on running");
        fail("CRASH: " + how);
    }
}

Reply Child::ask(const std::string& request, double timeout_s) {
    const std::string text = request + "\n";
    for (std::size_t sent = 0; sent < text.size();) {
        const auto n = ::send(requests_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            const std::string how = ending(1.0);
            if (how.empty())
                fail("CLOSED: it closed its standard input, where requests come from, and goes on running");
            fail("CRASH: " + how);
        }
        sent += static_cast<std::size_t>(n);
    }
    const std::string reply = line(timeout_s);
    if (reply.rfind("error", 0) == 0)
        fail("ERROR: " + (reply.size() > 6 ? reply.substr(6) : "it says no more"));
    if (reply != "ok" && reply.rfind("ok ", 0) != 0)
        fail(fmt::format("GARBAGE: it answered '{}' to '{}', expected 'ok …' or 'error …'", shown(reply),
                         request.substr(0, request.find(' '))));
    std::map<std::string, std::string> values;
    for (std::size_t at = 2; at < reply.size();) {
        const auto end = std::min(reply.find(' ', at), reply.size());
        const std::string word = reply.substr(at, end - at);
        at = end + 1;
        if (word.empty()) continue;
        const auto equals = word.find('=');
        if (equals == std::string::npos)
            fail(fmt::format("GARBAGE: '{}' in its answer, expected name=value", shown(word)));
        values[word.substr(0, equals)] = unescaped(word.substr(equals + 1));
    }
    return Reply(std::move(values));
}

void Child::end(double timeout_s) {
    static constexpr std::string_view k_end = "end\n";
    (void)!::send(requests_.get(), k_end.data(), k_end.size(), MSG_NOSIGNAL);
    requests_.close();
    const std::string how = ending(timeout_s);
    if (how.empty()) fail("TIMEOUT: it does not end when asked to");
    if (WIFSIGNALED(status_) || WEXITSTATUS(status_) != 0) fail("CRASH: " + how + " when asked to end");
}

}  // namespace lightmill::ladder

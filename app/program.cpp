#include "app/program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>

namespace lightmill::app {
namespace {

// Signals are taken by a thread that waits for them, so that the stop source may be used freely.
std::stop_source& source() {
    static std::stop_source the_source;
    return the_source;
}
volatile std::sig_atomic_t signal_code = 0;

sigset_t stop_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

void wait_for_signals() {
    const auto set = stop_signals();
    int signal = 0;
    if (sigwait(&set, &signal) != 0) return;
    signal_code = 128 + signal;
    source().request_stop();
    if (sigwait(&set, &signal) == 0) ::_exit(128 + signal);
}

std::string grouped(unsigned long long value) {
    auto text = std::to_string(value);
    for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > 0; i -= 3)
        text.insert(static_cast<std::size_t>(i), ",");
    return text;
}

}  // namespace

std::stop_token stop_token() {
    static const bool started = [] {
        const auto set = stop_signals();
        pthread_sigmask(SIG_BLOCK, &set, nullptr);
        std::thread(wait_for_signals).detach();
        return true;
    }();
    (void)started;
    return source().get_token();
}
int stop_signal_code() noexcept {
    return signal_code;
}

ProgressLine::ProgressLine(bool quiet) : visible_(!quiet && ::isatty(STDERR_FILENO) == 1) {}
ProgressLine::~ProgressLine() {
    if (visible_) fmt::print(stderr, "\r\x1b[K");
}
void ProgressLine::show(const std::string& text) {
    if (!visible_) return;
    fmt::print(stderr, "\r\x1b[K{}", text);
    std::fflush(stderr);
}

std::string progress_text(std::string_view what, unsigned long long done, unsigned long long total,
                          double seconds, unsigned long long before) {
    const double rate = seconds > 0 ? static_cast<double>(done - before) / seconds : 0;
    auto text = total > 0 ? fmt::format("{} / {} {}", grouped(done), grouped(total), what)
                          : fmt::format("{} {}", grouped(done), what);
    text += fmt::format("  {} {}/s", grouped(static_cast<unsigned long long>(rate)), what);
    if (total > done && rate > 0)
        text += fmt::format("  {:.0f} s left", static_cast<double>(total - done) / rate);
    return text;
}

}  // namespace lightmill::app

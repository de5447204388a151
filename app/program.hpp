#pragma once
// What the program's verbs share: how they join, how they end, how they are stopped.

#include <CLI/CLI.hpp>
#include <stop_token>
#include <string>
#include <string_view>

namespace lightmill::app {

// Exit codes, as docs/exit_codes.md lists them.
enum ExitCode : int {
    k_ok = 0,
    k_difference = 1,     // verify found one; a claim of a ladder failed
    k_usage = 2,          // an option or argument
    k_format = 3,         // a file is not what its format says
    k_io = 4,             // the operating system refused
    k_range = 5,          // a value does not fit
    k_unavailable = 6,    // not on this machine
    k_internal = 7,       // a state that should not be
    k_network = 8,        // another machine refused or could not be reached
    k_interrupted = 130,  // SIGINT; SIGTERM gives 143
    k_terminated = 143,
};

// A verb adds its subcommand, options and an example, and sets the callback that does the work. The
// callback returns by value through `exit_code` where it is not k_ok, and throws for errors.
struct Program {
    CLI::App& app;
    int exit_code = k_ok;
};

void add_simulate(Program& program);
void add_pedestal(Program& program);
void add_find(Program& program);
void add_info(Program& program);
void add_verify(Program& program);
void add_ladder(Program& program);
void add_embed(Program& program);
void add_search(Program& program);
void add_models(Program& program);

// Requested by the first SIGINT or SIGTERM; a second one ends the program at once. Long work looks
// at it.
[[nodiscard]] std::stop_token stop_token();
// The exit code of the signal that came, or 0.
[[nodiscard]] int stop_signal_code() noexcept;

// A line on standard error that redraws itself, on a terminal only.
class ProgressLine {
  public:
    explicit ProgressLine(bool quiet);
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;
    ~ProgressLine();  // clears the line
    [[nodiscard]] bool visible() const noexcept { return visible_; }
    void show(const std::string& text);

  private:
    bool visible_;
};
// "12,345 / 100,000 frames  9,120 frames/s  9 s left". `before` of `done` were there when the seconds began.
[[nodiscard]] std::string progress_text(std::string_view what, unsigned long long done,
                                        unsigned long long total, double seconds,
                                        unsigned long long before = 0);

}  // namespace lightmill::app

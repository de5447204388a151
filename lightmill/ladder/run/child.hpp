#pragma once
// A worker process and the line protocol with it: requests on its standard input, replies on its
// descriptor 3, everything it prints in a log. docs/ladder.md describes the protocol.

#include <map>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "lightmill/base/file.hpp"
#include "lightmill/ladder/plan/subject.hpp"

namespace lightmill::ladder {

// "ok name=value name=value": the values by name.
class Reply {
  public:
    explicit Reply(std::map<std::string, std::string> values) : values_(std::move(values)) {}
    [[nodiscard]] const std::map<std::string, std::string>& values() const noexcept { return values_; }
    [[nodiscard]] std::string text(const std::string& name) const;  // empty where it is missing
    // Throws ChildFailure for a value that is no number; `otherwise` where it is missing.
    [[nodiscard]] double number(const std::string& name, double otherwise) const;

  private:
    std::map<std::string, std::string> values_;
};

// A worker that crashed, hung, or answered what cannot be understood. what() begins with CRASH, TIMEOUT,
// GARBAGE, CLOSED or ERROR and says more. Becomes a row, never the end of a session.
class ChildFailure : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class Child {
  public:
    // Starts the program. Throws ChildFailure where it cannot be started.
    Child(const Launch& launch, const std::vector<std::string>& environment, const std::string& log,
          std::stop_token stop);
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child();  // ends it and all that it started

    // Sleeps until the reply is there. Throws ChildFailure; Error(interrupted) where a stop was asked for.
    Reply ask(const std::string& request, double timeout_s);
    // Asks it to end and waits.
    void end(double timeout_s);
    [[nodiscard]] int pid() const noexcept { return pid_; }

  private:
    std::string line(double timeout_s);
    [[noreturn]] void fail(const std::string& what);
    std::string ending(double wait_s);  // how it ended; empty while it runs

    int pid_ = -1;
    bool ended_ = false;
    int status_ = 0;
    FileDescriptor requests_, replies_;
    std::string pending_;
    std::string log_;
    std::stop_token stop_;
};

// Values of the protocol hold no blanks: ' ', '%', '=' and line ends travel as %20 and so on.
[[nodiscard]] std::string escaped(const std::string& text);
[[nodiscard]] std::string unescaped(const std::string& text);

}  // namespace lightmill::ladder

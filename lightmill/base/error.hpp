#pragma once
// Errors at the API are exceptions. A message says what was found, what was expected and what to do.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lightmill {

// What went wrong, coarse enough for an exit code (app/main.cpp, docs/exit_codes.md).
enum class ErrorCode {
    option,       // an option or argument has a value that is not allowed
    format,       // a file's content is not what its format says
    io,           // the operating system refused: missing file, full disk, no permission
    device,       // an accelerator call failed
    state,        // a call that the object's state does not allow
    range,        // a value does not fit where it has to go (int16 payload, 16-bit .clust frame size)
    unavailable,  // a thing that is not on this machine: backend, filter, device
    network,      // another machine refused, broke off or could not be reached
    interrupted,  // asked to stop
};
[[nodiscard]] std::string_view name(ErrorCode code) noexcept;

class Error : public std::runtime_error {
  public:
    // place: the file, option or call concerned; empty where there is none.
    Error(ErrorCode code, const std::string& message, std::string place = {});
    [[nodiscard]] ErrorCode code() const noexcept { return code_; }
    [[nodiscard]] const std::string& place() const noexcept { return place_; }

  private:
    ErrorCode code_;
    std::string place_;
};

// An option with a value outside what is allowed.
class OptionError : public Error {
  public:
    OptionError(std::string option, std::string value, std::string allowed);
    [[nodiscard]] const std::string& option() const noexcept { return place(); }
    [[nodiscard]] const std::string& value() const noexcept { return value_; }
    [[nodiscard]] const std::string& allowed() const noexcept { return allowed_; }

  private:
    std::string value_;
    std::string allowed_;
};

// A file whose content is not what its format says. byte_offset is -1 where no single byte is to blame.
class FormatError : public Error {
  public:
    FormatError(std::string file, std::int64_t byte_offset, const std::string& message);
    [[nodiscard]] const std::string& file() const noexcept { return place(); }
    [[nodiscard]] std::int64_t byte_offset() const noexcept { return byte_offset_; }

  private:
    std::int64_t byte_offset_;
};

// A call of the accelerator's runtime failed.
class DeviceError : public Error {
  public:
    // call: what was tried, as in "cudaMalloc"; number: the runtime's code; reason: its words.
    DeviceError(std::string call, int number, const std::string& reason, bool out_of_memory = false);
    [[nodiscard]] const std::string& call() const noexcept { return place(); }
    [[nodiscard]] int number() const noexcept { return number_; }
    [[nodiscard]] bool out_of_memory() const noexcept { return out_of_memory_; }

  private:
    int number_;
    bool out_of_memory_;
};

// The operating system refused a call on a file.
class IoError : public Error {
  public:
    // call: what was tried, as in "open"; error_number: errno of it.
    IoError(std::string file, const std::string& call, int error_number, const std::string& advice = {});
    [[nodiscard]] int error_number() const noexcept { return error_number_; }

  private:
    int error_number_;
};

}  // namespace lightmill

#include "lightmill/base/error.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace lightmill {
namespace {

std::string join(std::string_view a, std::string_view separator, std::string_view b) {
    return b.empty() ? std::string(a) : fmt::format("{}{}{}", a, separator, b);
}

}  // namespace

std::string_view name(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::option:
            return "option";
        case ErrorCode::format:
            return "format";
        case ErrorCode::io:
            return "io";
        case ErrorCode::device:
            return "device";
        case ErrorCode::state:
            return "state";
        case ErrorCode::range:
            return "range";
        case ErrorCode::unavailable:
            return "unavailable";
        case ErrorCode::network:
            return "network";
        case ErrorCode::interrupted:
            return "interrupted";
    }
    return "unknown";
}

Error::Error(ErrorCode code, const std::string& message, std::string place)
    : std::runtime_error(message), code_(code), place_(std::move(place)) {}

OptionError::OptionError(std::string option, std::string value, std::string allowed)
    : Error(ErrorCode::option, fmt::format("{}: found {}, expected {}", option, value, allowed), option),
      value_(std::move(value)),
      allowed_(std::move(allowed)) {}

FormatError::FormatError(std::string file, std::int64_t byte_offset, const std::string& message)
    : Error(ErrorCode::format,
            byte_offset < 0 ? fmt::format("{}: {}", file, message)
                            : fmt::format("{}, byte {}: {}", file, byte_offset, message),
            file),
      byte_offset_(byte_offset) {}

IoError::IoError(std::string file, const std::string& call, int error_number, const std::string& advice)
    : Error(ErrorCode::io,
            join(fmt::format("{}: {} failed: {}", file, call, std::generic_category().message(error_number)),
                 "; ", advice),
            file),
      error_number_(error_number) {}

DeviceError::DeviceError(std::string call, int number, const std::string& reason, bool out_of_memory)
    : Error(ErrorCode::device, fmt::format("{} failed: {} (error {})", call, reason, number), call),
      number_(number),
      out_of_memory_(out_of_memory) {}

}  // namespace lightmill

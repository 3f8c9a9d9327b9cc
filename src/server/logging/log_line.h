#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "server/logging/log.h"

namespace sluice::server {

// The line of an event, with its newline. For any bytes whatever one line of valid UTF-8, which
// shows neither control characters nor those that turn the direction of text (they are escaped as
// in JSON), nor broken UTF-8 (U+FFFD in its place). In text a value that is not plain is quoted.
std::string log_line(LogFormat format, std::chrono::system_clock::time_point at, LogLevel level,
                     std::string_view message, std::span<const LogField> fields);

// What is longer than `size` bytes cut there, or a little before so that no character is split,
// and ended with "…".
std::string cut(std::string_view text, std::size_t size);

}  // namespace sluice::server

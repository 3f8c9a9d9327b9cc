#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "server/logging/log.h"
#include "sluice/clock.h"

namespace sluice::server {

// Formats an event as one line with its newline, valid UTF-8 for any input. Control characters and
// characters that change the direction of text are escaped as in JSON; invalid UTF-8 becomes
// U+FFFD. In the text format, values that are not plain are quoted.
std::string log_line(bool json, Instant at, LogLevel level, std::string_view message,
                     std::span<const LogField> fields);

// Shortens text of more than `size` bytes at a character boundary, and appends "…" to it.
std::string cut(std::string_view text, std::size_t size);

}  // namespace sluice::server

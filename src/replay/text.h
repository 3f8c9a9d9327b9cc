#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/clock.h"

namespace sluice::replay {

// Text of any origin on its way to a person or a parser. All pure functions, safe from any thread.

// For a terminal or an error message: control characters as \xHH, what is not UTF-8 as U+FFFD.
std::string printable(std::string_view bytes);
// The same, of at most `columns` characters, the last an ellipsis where it was longer.
std::string printable(std::string_view bytes, std::size_t columns);
// A JSON string with its quotes; what is not UTF-8 as U+FFFD.
std::string json_string(std::string_view bytes);
// For HTML text and quoted attributes; what is not UTF-8 as U+FFFD.
std::string html_text(std::string_view bytes);

// Characters of UTF-8 text, which for what is printed here are columns.
std::size_t columns_of(std::string_view text);
std::string pad_left(std::string_view text, std::size_t columns);
std::string pad_right(std::string_view text, std::size_t columns);

// 1234567 → "1,234,567"
std::string grouped(std::uint64_t number);
// 0.1234 → "12.3 %"; tiny shares that are not zero "< 0.1 %", and nothing of nothing "–".
std::string percent(std::uint64_t part, std::uint64_t whole);
// "1.5 KB", "36.2 MB": decimal units.
std::string bytes_text(std::uint64_t bytes);
// "2016-02-20T05:00:45Z", and with a space and no Z for people.
std::string iso_time(Instant at);
std::string plain_time(Instant at);
// "45 s", "1 min 30 s", "1 s 500 ms": exact.
std::string duration_text(Duration duration);
// The two or so largest units, for spans: "149 d 11 h".
std::string rough_duration_text(Duration duration);

}  // namespace sluice::replay

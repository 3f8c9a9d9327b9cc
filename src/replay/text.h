#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.h"

namespace sluice::replay {

// Formats text of any origin for people and parsers. Pure functions, thread-safe.

// The width of reports.
inline constexpr std::size_t kLeastColumns = 40;
inline constexpr std::size_t kUsualColumns = 100;

// For a terminal or an error message: control characters become \xHH, invalid UTF-8 becomes U+FFFD.
std::string printable(std::string_view bytes);
// The same with at most `columns` characters. Longer text ends with an ellipsis.
std::string printable(std::string_view bytes, std::size_t columns);
// For HTML text and quoted attributes. Invalid UTF-8 becomes U+FFFD.
std::string html_text(std::string_view bytes);

// Returns the number of characters of UTF-8 text, each of which is one column here.
std::size_t columns_of(std::string_view text);
std::string pad_left(std::string_view text, std::size_t columns);
std::string pad_right(std::string_view text, std::size_t columns);

// 1234567 → "1,234,567"
std::string grouped(std::uint64_t number);
// "1 line", "1,234 lines"
std::string plural(std::uint64_t count, std::string_view word);
// The number with that many digits after the point: 1.25 with one → "1.2".
std::string decimal(double number, int digits);
// 0.1234 → "12.3 %". Small shares above zero are "< 0.1 %". If `whole` is 0, the result is "–".
std::string percent(std::uint64_t part, std::uint64_t whole);
// Returns the rows as lines of columns with two spaces between them; the first `left` columns are
// aligned to the left, the others to the right. All rows have as many cells.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t left);
// "1.5 KB", "36.2 MB": decimal units.
std::string bytes_text(std::uint64_t bytes);
// "2016-02-20 05:00:45"
std::string plain_time(Instant at);
// "45 s", "1 min 30 s", "1 s 500 ms": exact.
std::string duration_text(Duration duration);
// Rounded to its largest units: "149 d 11 h".
std::string rough_duration_text(Duration duration);
// "2016-02-20 05:00:45 to 2016-07-18 16:42:10 UTC, 149 d 11 h"
std::string span_text(Instant first, Instant last);

}  // namespace sluice::replay

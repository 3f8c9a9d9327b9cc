#include "replay/text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/civil_time.h"
#include "base/quoted.h"

namespace sluice::replay {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Calls `put(character)` for every character, each well-formed UTF-8.
template <typename Put>
void for_each_character(std::string_view bytes, Put put) {
  while (!bytes.empty()) {
    const std::size_t length = base::character_length(bytes);
    put(length == 0 ? kReplacement : bytes.substr(0, length));
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

// Appends a character, or the escape of a control character: \x1b, \u202e.
void append_visible(std::string& text, std::string_view character) {
  const std::size_t length = base::control_length(character);
  if (length == 0) {
    text += character;
  } else if (character[0] == '\xD8') {
    text += "\\u061c";
  } else if (length == 3) {
    base::append_lower_hex(text += "\\u20",
                           static_cast<char>((character[1] & 3) << 6 | (character[2] & 63)));
  } else {
    base::append_lower_hex(text += "\\x", character.back());
  }
}

}  // namespace

std::string printable(std::string_view bytes) {
  std::string text;
  for_each_character(bytes, [&](std::string_view character) { append_visible(text, character); });
  return text;
}

std::string printable(std::string_view bytes, std::size_t columns) {
  std::string whole = printable(bytes.substr(0, columns * 4 + 4));
  if (columns_of(whole) <= columns) return whole;
  std::string text;
  std::size_t used = 0;
  for_each_character(whole, [&](std::string_view character) {
    if (++used < columns) text += character;
  });
  return text + "…";
}

std::string html_text(std::string_view bytes) {
  std::string text;
  for_each_character(bytes, [&](std::string_view character) {
    switch (character[0]) {
      case '&': text += "&amp;"; break;
      case '<': text += "&lt;"; break;
      case '>': text += "&gt;"; break;
      case '"': text += "&quot;"; break;
      case '\'': text += "&#39;"; break;
      default: append_visible(text, character);
    }
  });
  return text;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string pad_left(std::string_view text, std::size_t columns) {
  const std::size_t used = columns_of(text);
  return std::string(columns > used ? columns - used : 0, ' ') + std::string(text);
}

std::string pad_right(std::string_view text, std::size_t columns) {
  const std::size_t used = columns_of(text);
  return std::string(text) + std::string(columns > used ? columns - used : 0, ' ');
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string plural(std::uint64_t count, std::string_view word) {
  return grouped(count).append(" ").append(word).append(count == 1 ? "" : "s");
}

std::string decimal(double number, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return text.data();
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "–";
  const double share = static_cast<double>(part) * 100 / static_cast<double>(whole);
  if (part > 0 && share < 0.05) return "< 0.1 %";
  if (part < whole && share > 99.95) return "> 99.9 %";
  return decimal(share, 1) + " %";
}

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t left) {
  std::vector<std::size_t> widths(rows.empty() ? 0 : rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += (i == 0 ? "" : "  ") +
              (i < left ? pad_right(row[i], widths[i]) : pad_left(row[i], widths[i]));
    }
    text += '\n';
  }
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KB", "MB", "GB", "TB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (amount >= 999.95 && unit + 1 < kUnits.size()) {
    amount /= 1000;
    ++unit;
  }
  return decimal(amount, 1) + " " + kUnits[unit];
}

std::string plain_time(Instant at) {
  std::string text;
  base::append_civil(text, at);
  text[text.find('T')] = ' ';
  return text;
}

std::string duration_text(Duration duration) {
  constexpr std::array<std::pair<std::int64_t, const char*>, 6> kUnits = {{{86'400'000'000, " d"},
                                                                           {3'600'000'000, " h"},
                                                                           {60'000'000, " min"},
                                                                           {1'000'000, " s"},
                                                                           {1'000, " ms"},
                                                                           {1, " µs"}}};
  std::int64_t left = duration.count();
  std::string text;
  for (const auto& [microseconds, name] : kUnits) {
    const std::int64_t count = left / microseconds;
    left %= microseconds;
    if (count == 0) continue;
    if (!text.empty()) text += ' ';
    text += std::to_string(count);
    text += name;
  }
  return text.empty() ? "0 s" : text;
}

std::string rough_duration_text(Duration duration) {
  using std::chrono::floor;
  if (duration >= std::chrono::days{1}) return duration_text(floor<std::chrono::hours>(duration));
  if (duration >= std::chrono::hours{1}) {
    return duration_text(floor<std::chrono::minutes>(duration));
  }
  return duration_text(floor<std::chrono::seconds>(duration));
}

std::string span_text(Instant first, Instant last) {
  return plain_time(first) + " to " + plain_time(last) + " UTC, " +
         rough_duration_text(last - first);
}

}  // namespace sluice::replay

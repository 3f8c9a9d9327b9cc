#include "limiter/service_answer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace sluice {
namespace {

constexpr std::int64_t kMostSeconds = 1'000'000'000;

std::string_view trimmed(std::string_view text) noexcept {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Returns a number of digits only, at most kMostSeconds.
std::optional<std::int64_t> number(std::string_view text) noexcept {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return {};
  std::int64_t value = 0;
  const auto [_, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::min(value, kMostSeconds) : kMostSeconds;
}

// Removes and returns the text before the next separator outside of quotes.
std::string_view next_part(std::string_view& text, char separator) noexcept {
  bool quoted = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (text[at] == separator && !quoted) {
      break;
    }
  }
  at = std::min(at, text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return trimmed(part);
}

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<Instant> read_date(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (text.size() != 29 || text.substr(3, 2) != ", " || text.substr(25) != " GMT") return {};
  const auto* const month = std::find(kMonths.begin(), kMonths.end(), text.substr(8, 3));
  const auto day = number(text.substr(5, 2)), year = number(text.substr(12, 4));
  const auto hour = number(text.substr(17, 2)), minute = number(text.substr(20, 2));
  const auto second = number(text.substr(23, 2));
  if (month == kMonths.end() || !day || !year || !hour || !minute || !second) return {};
  const std::chrono::year_month_day date{
      std::chrono::year(static_cast<int>(*year)),
      std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
      std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return {};
  return Instant{std::chrono::sys_days(date)} + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

// The numbers of a policy, as far as they are known.
struct Policy {
  std::optional<std::int64_t> remaining;
  std::optional<std::int64_t> reset;

  // Reads "r=0" or "remaining=0", and "t=7" or "reset=7".
  void read(std::string_view parameter) noexcept {
    const std::size_t equals = parameter.find('=');
    if (equals == parameter.npos) return;
    const std::string_view name = trimmed(parameter.substr(0, equals));
    const auto value = number(trimmed(parameter.substr(equals + 1)));
    if (name == "r" || name == "remaining") remaining = value;
    if (name == "t" || name == "reset") reset = value;
  }
  std::int64_t wait() const noexcept { return remaining == 0 ? reset.value_or(0) : 0; }
};

}  // namespace

std::optional<Duration> read_retry_after(std::string_view field, Instant now) noexcept {
  const std::string_view text = trimmed(field);
  if (const auto seconds = number(text)) return std::chrono::seconds(*seconds);
  const auto date = read_date(text);
  if (!date) return {};
  return std::clamp<Duration>(*date - now, Duration{0}, std::chrono::seconds(kMostSeconds));
}

Duration read_rate_limit(std::string_view field) noexcept {
  std::int64_t longest = 0;
  Policy older;  // older drafts have one policy, whose numbers are members of the list
  while (!field.empty()) {
    std::string_view member = next_part(field, ',');
    older.read(member);
    Policy policy;
    next_part(member, ';');  // the name
    while (!member.empty()) policy.read(next_part(member, ';'));
    longest = std::max(longest, policy.wait());
  }
  return std::chrono::seconds(std::max(longest, older.wait()));
}

}  // namespace sluice

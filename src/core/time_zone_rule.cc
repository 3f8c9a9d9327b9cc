#include "core/time_zone_rule.h"

#include <charconv>

namespace sluice::core {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kDay = 24 * kHour;

constexpr bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Reads a rule from the left. After a mistake it is not `ok`, and reads nothing more.
class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : rest_(text) {}

  bool ok() const noexcept { return ok_; }
  bool is_at_end() const noexcept { return rest_.empty(); }

  bool is_at(char c) const noexcept { return rest_.starts_with(c); }
  bool skip(char c) noexcept {
    if (!is_at(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) noexcept { ok_ = skip(c) && ok_; }

  int number(int least, int most) noexcept {
    int value = -1;
    const char* const end = rest_.data() + rest_.size();
    const auto [at, error] = std::from_chars(rest_.data(), end, value);
    ok_ = ok_ && error == std::errc() && value >= least && value <= most;
    rest_.remove_prefix(static_cast<std::size_t>(at - rest_.data()));
    return ok_ ? value : least;
  }

  // "EST", or "<+0530>".
  void name() noexcept {
    const bool is_quoted = skip('<');
    std::size_t size = 0;
    const auto belongs = [&](char c) { return is_quoted ? c != '>' : is_letter(c); };
    while (size < rest_.size() && belongs(rest_[size])) ++size;
    ok_ = ok_ && size >= 3;
    rest_.remove_prefix(size);
    if (is_quoted) expect('>');
  }

  // "-5", "5:45" or "167:59:59".
  std::int64_t time(int most_hours) noexcept {
    const bool is_negative = skip('-');
    if (!is_negative) skip('+');
    std::int64_t seconds = number(0, most_hours) * kHour;
    if (skip(':')) {
      seconds += std::int64_t{number(0, 59)} * 60;
      if (skip(':')) seconds += number(0, 59);
    }
    return is_negative ? -seconds : seconds;
  }

  YearlyChange change() noexcept {
    YearlyChange change;
    expect(',');
    if (skip('M')) {
      change.kind = YearlyChange::Kind::kWeekday;
      change.month = number(1, 12);
      expect('.');
      change.week = number(1, 5);
      expect('.');
      change.day = number(0, 6);
    } else if (skip('J')) {
      change.kind = YearlyChange::Kind::kDayWithout29February;
      change.day = number(1, 365);
    } else {
      change.day = number(0, 365);
    }
    change.time = skip('/') ? time(167) : 2 * kHour;
    return change;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

std::int64_t days(std::chrono::sys_days day) noexcept { return day.time_since_epoch().count(); }

}  // namespace

std::int64_t YearlyChange::in_year(std::chrono::year year, std::int64_t offset) const noexcept {
  const std::chrono::sys_days first = year / std::chrono::January / 1;
  std::int64_t date = 0;
  switch (kind) {
    case Kind::kDayOfYear: date = days(first) + day; break;
    case Kind::kDayWithout29February:
      date = days(first) + day - 1 + (year.is_leap() && day > 59 ? 1 : 0);
      break;
    case Kind::kWeekday: {
      const auto in_month = year / std::chrono::month(static_cast<unsigned>(month));
      const std::chrono::weekday wanted(static_cast<unsigned>(day));
      date = week == 5 ? days(in_month / wanted[std::chrono::last])
                       : days(in_month / wanted[static_cast<unsigned>(week)]);
      break;
    }
  }
  return date * kDay + time - offset;
}

std::optional<TimeZoneRule> TimeZoneRule::parse(std::string_view text) {
  TimeZoneRule rule;
  RuleReader in(text);
  in.name();
  rule.standard = -in.time(24);  // POSIX counts offsets to the west
  if (in.ok() && in.is_at_end()) return rule;
  in.name();
  rule.has_daylight = true;
  rule.daylight = rule.standard + kHour;
  if (!in.is_at(',')) rule.daylight = -in.time(24);
  rule.begins = in.change();
  rule.ends = in.change();
  if (!in.ok() || !in.is_at_end()) return std::nullopt;
  return rule;
}

}  // namespace sluice::core

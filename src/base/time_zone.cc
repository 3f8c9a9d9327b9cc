#include "base/time_zone.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/quoted.h"

namespace sluice::base {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kDay = 24 * kHour;

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
      change.month = number(1, 12);
      expect('.');
      change.week = number(1, 5);
      expect('.');
      change.day = number(0, 6);
    } else if (skip('J')) {
      change.counts_29_february = false;
      change.day = number(1, 365) - 1;
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
  std::int64_t date = days(first) + day;
  if (month > 0) {
    const auto in_month = year / std::chrono::month(static_cast<unsigned>(month));
    const std::chrono::weekday wanted(static_cast<unsigned>(day));
    date = week == 5 ? days(in_month / wanted[std::chrono::last])
                     : days(in_month / wanted[static_cast<unsigned>(week)]);
  } else if (!counts_29_february && year.is_leap() && day >= 59) {
    ++date;
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

namespace {

constexpr std::size_t kHeaderSize = 44;
constexpr std::int64_t kMostOffset = std::int64_t{26} * 3600;  // RFC 8536 allows less

std::int64_t big_endian(std::string_view bytes) noexcept {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  if (bytes.size() == 4) return static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
  return static_cast<std::int64_t>(value);
}

// The numbers of records in one of the two blocks of a file.
struct Counts {
  std::uint64_t ut_flags, standard_flags, leaps, times, types, chars;

  std::uint64_t bytes_after_types(std::uint64_t bytes_of_time) const noexcept {
    return chars + leaps * (bytes_of_time + 4) + standard_flags + ut_flags;
  }
};

std::optional<Counts> read_header(std::string_view header) noexcept {
  if (!header.starts_with("TZif") || header[4] < '2') return std::nullopt;
  std::array<std::uint64_t, 6> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t count = big_endian(header.substr(20 + 4 * i, 4));
    if (count < 0) return std::nullopt;
    counts[i] = static_cast<std::uint64_t>(count);
  }
  return Counts{counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]};
}

}  // namespace

std::optional<TimeZone> TimeZone::parse(std::string_view file) {
  const auto take = [&file](std::uint64_t size) {  // all parts are empty after the end of the file
    const std::string_view taken = size <= file.size() ? file.substr(0, size) : std::string_view();
    file = size <= file.size() ? file.substr(size) : std::string_view();
    return taken;
  };
  const auto old = read_header(take(kHeaderSize));  // of a block with times of 32 bits
  if (!old) return std::nullopt;
  take(old->times * 5 + old->types * 6 + old->bytes_after_types(4));
  const auto counts = read_header(take(kHeaderSize));
  if (!counts || counts->types == 0 || counts->leaps != 0) return std::nullopt;
  const std::string_view times = take(counts->times * 8);
  const std::string_view types_of_times = take(counts->times);
  const std::string_view types = take(counts->types * 6);
  take(counts->bytes_after_types(8));
  const std::string_view footer = file;
  if (footer.size() < 2 || footer.front() != '\n') return std::nullopt;
  const std::size_t end = footer.find('\n', 1);
  if (end == footer.npos) return std::nullopt;

  TimeZone zone;
  const auto offset_of = [&](std::uint64_t type) { return big_endian(types.substr(type * 6, 4)); };
  zone.first_offset_ = offset_of(0);
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (std::uint64_t i = 0; i < counts->times; ++i) {
    const auto type = static_cast<unsigned char>(types_of_times[i]);
    const std::int64_t at = big_endian(times.substr(i * 8, 8));
    if (type >= counts->types || (i > 0 && at <= last)) return std::nullopt;
    zone.periods_.push_back({at, offset_of(type)});
    last = at;
  }
  const auto is_wrong = [](std::int64_t offset) {
    return offset < -kMostOffset || offset > kMostOffset;
  };
  if (is_wrong(zone.first_offset_) ||
      std::any_of(zone.periods_.begin(), zone.periods_.end(),
                  [&](const Period& period) { return is_wrong(period.offset); })) {
    return std::nullopt;
  }
  if (end == 1) return zone;  // no rule: the last offset stays
  const auto rule = TimeZoneRule::parse(footer.substr(1, end - 1));
  if (!rule) return std::nullopt;
  zone.follow(*rule);
  return zone;
}

// Adds the changes of the rule after the last one that is known, or from 1970 on.
void TimeZone::follow(const TimeZoneRule& rule) {
  const std::int64_t after = periods_.empty() ? 0 : periods_.back().at;
  if (!rule.has_daylight) {
    if (periods_.empty()) first_offset_ = rule.standard;
    return;
  }
  const auto add = [&](const Period& change) {
    if (change.at > after) periods_.push_back(change);
  };
  for (int year = 1970; year <= kLastYear; ++year) {
    add({rule.begins.in_year(std::chrono::year(year), rule.standard), rule.daylight});
    add({rule.ends.in_year(std::chrono::year(year), rule.daylight), rule.standard});
  }
  // A time of up to a week can put a change into another year.
  std::stable_sort(periods_.begin(), periods_.end(),
                   [](const Period& one, const Period& other) { return one.at < other.at; });
}

// Returns the first period that begins after the instant.
std::vector<TimeZone::Period>::const_iterator TimeZone::after(std::int64_t instant) const noexcept {
  return std::upper_bound(periods_.begin(), periods_.end(), instant,
                          [](std::int64_t at, const Period& period) { return at < period.at; });
}

std::int64_t TimeZone::offset_at(std::int64_t instant) const noexcept {
  const auto next = after(instant);
  return next == periods_.begin() ? first_offset_ : (next - 1)->offset;
}

std::int64_t TimeZone::first_at(std::int64_t local) const noexcept {
  constexpr std::int64_t kEarlier = 2 * kMostOffset;
  auto next = after(local - kEarlier);  // before this period no clock shows `local`
  std::int64_t offset = next == periods_.begin() ? first_offset_ : (next - 1)->offset;
  for (; next != periods_.end() && local - offset >= next->at; ++next) {
    offset = next->offset;
    if (next->at + offset >= local) return next->at;  // clocks skip `local`
  }
  return local - offset;
}

namespace {

constexpr std::size_t kMostFileBytes = 64 << 10;

constexpr std::array<const char*, 3> kFolders{"/usr/share/zoneinfo", "/usr/lib/zoneinfo",
                                              "/etc/zoneinfo"};

// Returns the folder of the system's time zones; absent if it has none.
std::optional<std::string> folder_of_zones() {
  std::error_code error;
  const char* const chosen = std::getenv("TZDIR");  // NOLINT: nobody sets it meanwhile
  if (chosen != nullptr && *chosen != '\0') {
    if (std::filesystem::is_directory(chosen, error)) return chosen;
    return std::nullopt;
  }
  for (const char* const folder : kFolders) {
    if (std::filesystem::is_directory(folder, error)) return folder;
  }
  return std::nullopt;
}

// Whether the text can be a name such as America/Argentina/Buenos_Aires: no other path.
bool is_name(std::string_view zone) noexcept {
  constexpr std::size_t kLongest = 64;
  char before = '/';
  for (const char c : zone) {
    if (!is_letter_or("_+-", c) && (c != '/' || before == '/')) return false;
    before = c;
  }
  return !zone.empty() && zone.size() <= kLongest && before != '/';
}

std::optional<TimeZone> read_zone(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string content(kMostFileBytes, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return TimeZone::parse(content);
}

}  // namespace

Expected<TimeZone> TimeZone::read(std::string_view name) {
  if (name == "UTC") return utc();
  const auto folder = folder_of_zones();
  if (!folder) {
    const char* const chosen = std::getenv("TZDIR");  // NOLINT: as above
    return Unexpected{"the time zone " + in_quotes(name) + " is unknown: there is no folder " +
                      (chosen != nullptr && *chosen != '\0' ? chosen : kFolders[0]) +
                      "; expected the system's package tzdata, or the zone UTC"};
  }
  std::optional<TimeZone> zone;
  if (is_name(name)) zone = read_zone(*folder + "/" + std::string(name));
  if (zone) return *std::move(zone);
  return Unexpected{"there is no time zone " + in_quotes(name) + " in " + *folder +
                    "; expected a name of the IANA time zone database, such as Asia/Shanghai"};
}

}  // namespace sluice::base

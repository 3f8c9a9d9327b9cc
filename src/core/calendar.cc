#include "sluice/calendar.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "core/calendar_text.h"
#include "core/quoted.h"
#include "core/time_zone.h"

namespace sluice {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

constexpr std::int64_t kSecond = 1'000'000;
// The tables of all calendars together, and those up to which clients may ask for more.
constexpr std::size_t kMostBytes = 256 << 20;
constexpr std::size_t kMostBytesForClients = kMostBytes / 4;
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
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_other = (c >= '0' && c <= '9') || c == '_' || c == '+' || c == '-';
    if (!is_letter && !is_other && (c != '/' || before == '/')) return false;
    before = c;
  }
  return !zone.empty() && zone.size() <= kLongest && before != '/';
}

std::optional<core::TimeZone> read_zone(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string content(kMostFileBytes, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return core::TimeZone::parse(content);
}

Expected<core::TimeZone> find_zone(std::string_view name) {
  if (name == "UTC") return core::TimeZone::utc();
  const auto folder = folder_of_zones();
  if (!folder) {
    const char* const chosen = std::getenv("TZDIR");  // NOLINT: as above
    return Unexpected{"the time zone " + core::in_quotes(name) +
                      " is unknown: there is no folder " +
                      (chosen != nullptr && *chosen != '\0' ? chosen : kFolders[0]) +
                      "; expected the system's package tzdata, or the zone UTC"};
  }
  std::optional<core::TimeZone> zone;
  if (is_name(name)) zone = read_zone(*folder + "/" + std::string(name));
  if (zone) return *std::move(zone);
  return Unexpected{"there is no time zone " + core::in_quotes(name) + " in " + *folder +
                    "; expected a name of the IANA time zone database, such as Asia/Shanghai"};
}

// --- the first days of windows ---

sys_days day_in(std::chrono::year year, unsigned month, unsigned day) noexcept {
  const auto last = year / std::chrono::month(month) / std::chrono::last;
  return sys_days(year / std::chrono::month(month) / std::min(std::chrono::day(day), last.day()));
}

// Calls use(day) for the first day of each window, from a day in 1968 on, until it returns false.
template <typename Use>
void for_each_first_day(const CalendarSpec& spec, const Use& use) {
  constexpr std::chrono::year kYear{1968};
  if (spec.unit == CalendarUnit::kDay || spec.unit == CalendarUnit::kWeek) {
    const bool is_week = spec.unit == CalendarUnit::kWeek;
    sys_days day = kYear / std::chrono::January / 1;
    if (is_week) day += std::chrono::weekday(spec.day) - std::chrono::weekday(day);
    while (use(day)) day += days{is_week ? 7 : 1};
    return;
  }
  const bool is_year = spec.unit == CalendarUnit::kYear;
  for (std::chrono::year year = kYear;; ++year) {
    for (unsigned month = is_year ? spec.month : 1; month <= (is_year ? spec.month : 12); ++month) {
      if (!use(day_in(year, month, spec.day))) return;
    }
  }
}

// Returns the starts of the windows from that of kFirstInstant to the one after kLastInstant.
std::vector<std::int64_t> starts_of_windows(const CalendarSpec& spec, const core::TimeZone& zone) {
  std::vector<std::int64_t> starts{0};
  for_each_first_day(spec, [&](sys_days day) {
    const std::int64_t local = day.time_since_epoch() / std::chrono::seconds{1};
    const std::int64_t at = zone.first_at(local) * kSecond;
    // Clocks skip a day now and then: it has no window.
    if (at > starts.back()) starts.push_back(at);
    return at <= kLastInstant.time_since_epoch().count();
  });
  starts.shrink_to_fit();
  return starts;
}

std::string key_of(const CalendarSpec& spec) {
  return std::string(core::name_of(spec.unit))
      .append("/")
      .append(core::starts_of(spec))
      .append("/")
      .append(spec.zone);
}

// FNV-1a: the same in all processes and versions.
std::uint64_t checksum_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// All calendars of the program. Limits refer to them until it ends, so they are not deleted.
struct Calendars {
  std::shared_mutex mutex;
  std::map<std::string, std::unique_ptr<const Calendar>> of;
  std::size_t bytes = 0;

  const Calendar* find(const std::string& key) {
    const std::shared_lock lock(mutex);
    const auto found = of.find(key);
    return found == of.end() ? nullptr : found->second.get();
  }

  // Returns the error of a calendar of that many bytes that does not fit in.
  std::optional<std::string> refuse(std::size_t added, std::size_t most) {
    const std::shared_lock lock(mutex);
    if (bytes + added <= most) return std::nullopt;
    return "the calendars of this process would need over " + std::to_string(most >> 20) +
           " MB; expected fewer different zones and first days";
  }

  static Calendars& all() {
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): guarded by its lock
    static auto* const calendars = new Calendars;
    return *calendars;
  }
};

}  // namespace

Calendar::Calendar(const CalendarSpec& spec, std::vector<std::int64_t> starts, std::uint32_t number)
    : spec_(spec),
      zone_(spec.zone),
      starts_(std::move(starts)),
      scale_(((starts_.size() - 1) << 40) / (static_cast<std::uint64_t>(starts_.back()) >> 20)),
      number_(number),
      checksum_(checksum_of(key_of(spec))) {
  spec_.zone = zone_;
}

Expected<const Calendar*> Calendar::make(const CalendarSpec& spec) {
  if (const auto error = core::find_error(spec)) return Unexpected{*error};
  Calendars& all = Calendars::all();
  std::string key = key_of(spec);
  if (const Calendar* const known = all.find(key)) return known;
  const auto zone = find_zone(spec.zone);
  if (!zone) return Unexpected{zone.error()};
  std::vector<std::int64_t> starts = starts_of_windows(spec, *zone);
  const std::size_t bytes = starts.size() * sizeof(starts[0]);
  if (auto error = all.refuse(bytes, kMostBytes)) return Unexpected{*std::move(error)};
  const std::lock_guard lock(all.mutex);
  auto& calendar = all.of[std::move(key)];
  if (calendar == nullptr) {  // else another thread has made it meanwhile
    const auto number = static_cast<std::uint32_t>(all.of.size());
    calendar.reset(new Calendar(spec, std::move(starts), number));
    all.bytes += bytes;
  }
  return calendar.get();
}

Duration Calendar::period() const noexcept {
  switch (spec_.unit) {
    case CalendarUnit::kDay: return days{1};
    case CalendarUnit::kWeek: return days{7};
    case CalendarUnit::kMonth: return days{31};
    case CalendarUnit::kYear: break;
  }
  return days{366};
}

Expected<const Calendar*> core::make_calendar_for_client(const CalendarSpec& spec) {
  if (const auto error = core::find_error(spec)) return Unexpected{*error};
  Calendars& all = Calendars::all();
  if (const Calendar* const known = all.find(key_of(spec))) return known;
  constexpr std::array<std::size_t, 4> kUsualDays{1, 7, 31, 366};
  const auto windows = std::chrono::duration_cast<days>(kLastInstant - kFirstInstant).count() /
                       kUsualDays[static_cast<std::size_t>(spec.unit)];
  const std::size_t bytes = static_cast<std::size_t>(windows) * sizeof(std::int64_t);
  if (auto error = all.refuse(bytes, kMostBytesForClients)) return Unexpected{*std::move(error)};
  return Calendar::make(spec);
}

}  // namespace sluice

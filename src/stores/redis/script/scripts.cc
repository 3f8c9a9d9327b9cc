#include "stores/redis/script/scripts.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <string>
#include <vector>

#include "core/limit.h"
#include "core/state.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/lua.h"

namespace sluice::redis {
namespace {

// Lua that several families may need. The bits of Family::shared.
enum Shared : std::uint8_t {
  kWide = 1 << 0,
  kSliced = 1 << 1,
  kAnyLog = 1 << 2,
  kSummaries = 1 << 3,
  kShortLog = 1 << 4,
  kEvery = 0xFF,  // needed even by a family without shared text
};

struct SharedText {
  Shared needed_for;
  std::string_view text;
};

// A script creates its functions at each call. The many functions for logs are inside another
// function, so they are created only when it is called.
constexpr std::string_view kAnyLogBegins = "local function any_log(key, arg, now, verb, state)\n";
constexpr std::string_view kAnyLogEnds =
    "return window_log(key, arg, now, verb, state)\n"
    "end\n";

// Each text uses only those before it.
constexpr SharedText kSharedTexts[] = {
    {kEvery, lua::kWithConstants<lua::kForeign>},
    {kWide, lua::kWithConstants<lua::kWide>},
    {kSliced, lua::kWithConstants<lua::kSlices>},
    {kAnyLog, kAnyLogBegins},
    {kAnyLog, lua::kWithConstants<lua::kLogEntries>},
    {kSummaries, lua::kWithConstants<lua::kLogSummaries>},
    {kAnyLog, lua::kWithConstants<lua::kLogOpen>},
    {kAnyLog, lua::kWithConstants<lua::kLogWrite>},
    {kAnyLog, lua::kWithConstants<lua::kLogChanges>},
    {kAnyLog, lua::kWithConstants<lua::kLogDecide>},
    {kAnyLog, kAnyLogEnds},
    {kShortLog, lua::kWithConstants<lua::kLogShortTake>},
};

// The place of a row decides the order of the functions in a script, so a change of the order makes
// other scripts.
constexpr Family kFamilies[] = {
    {.name = "bucket",
     .function = "bucket",
     .text = lua::kWithConstants<lua::kBucket>,
     .shared = kWide,
     .can_reserve_ahead = true,
     .short_single = lua::kWithConstants<lua::kBucketSingle>,
     .short_request = lua::kWithConstants<lua::kBucketRequest>},
    {.name = "interval",
     .function = "interval",
     .text = lua::kWithConstants<lua::kInterval>,
     .shared = 0,
     .can_reserve_ahead = true},
    {.name = "fixed_window",
     .function = "fixed_window",
     .text = lua::kWithConstants<lua::kFixedWindow>,
     .shared = 0},
    {.name = "sliding_window_counter",
     .function = "sliding_window_counter",
     .text = lua::kWithConstants<lua::kSlidingWindowCounter>,
     .shared = kWide | kSliced},
    {.name = "sliding_window_log",
     .function = "short_log",
     .text = {},
     .shared = kAnyLog | kShortLog},
    {.name = "sliding_window_hybrid",
     .function = "short_hybrid",
     .text = lua::kWithConstants<lua::kHybridShortTake>,
     .shared = kWide | kSliced | kAnyLog | kSummaries},
    {.name = "concurrency",
     .function = "concurrency",
     .text = lua::kWithConstants<lua::kConcurrency>,
     .shared = 0},
    {.name = "calendar",
     .function = "calendar_window",
     .text = lua::kWithConstants<lua::kCalendarWindow>,
     .shared = 0},
};
static_assert(std::size(kFamilies) <= 8, "a FamilySet has a bit for each");

constexpr FamilySet kBucket = 1 << 0;
constexpr FamilySet kInterval = 1 << 1;
constexpr FamilySet kFixedWindow = 1 << 2;
constexpr FamilySet kSlices = 1 << 3;
constexpr FamilySet kLog = 1 << 4;
constexpr FamilySet kHybrid = 1 << 5;
constexpr FamilySet kPermits = 1 << 6;
constexpr FamilySet kCalendar = 1 << 7;

FamilySet family_bit(const Limit& limit) noexcept {
  switch (limit.state_kind()) {
    case StateKind::kBucket: return limit.refill() == Refill::kInterval ? kInterval : kBucket;
    case StateKind::kWindow: return limit.calendar() != nullptr ? kCalendar : kFixedWindow;
    case StateKind::kSlices: return kSlices;
    case StateKind::kLog: return kLog;
    case StateKind::kLogAndSummaries: return kHybrid;
    case StateKind::kPermits: return kPermits;
  }
  return 0;
}

bool contains(FamilySet set, const Family& family) noexcept { return (set & bit_of(family)) != 0; }

}  // namespace

std::span<const Family> families() noexcept { return kFamilies; }

const Family& family_of(const Limit& limit) noexcept {
  return kFamilies[std::countr_zero(family_bit(limit))];
}

void append_numbers(const Limit& limit, std::uint64_t cost, std::string& out) {
  const core::Rate rate = core::LimitAccess::rate(limit);
  const bool has_slices = limit.state_kind() != StateKind::kLog;
  const format::Argument argument{
      .cost = cost,
      .capacity = limit.capacity(),
      .rate_units = rate.units,
      .rate_ticks = rate.ticks,
      .limit = limit.limit(),
      .period = static_cast<std::uint64_t>(limit.period().count()),
      .checksum = core::tag_of(limit),
      .by_clock = limit.align() == Align::kClock ? std::uint64_t{1} : 0,
      .slices = has_slices ? limit.slices() : std::uint64_t{0},
      .oldest_whole = limit.weighting() == Weighting::kNone ? std::uint64_t{1} : 0};
  switch (family_bit(limit)) {
    case kBucket: return format::kBucketArgument.append(argument, out);
    case kInterval: return format::kIntervalArgument.append(argument, out);
    case kFixedWindow: return format::kFixedWindowArgument.append(argument, out);
    case kCalendar: return format::kCalendarArgument.append(argument, out);
    case kSlices: return format::kSlicesArgument.append(argument, out);
    case kLog:
    case kHybrid: return format::kLogArgument.append(argument, out);
    case kPermits: return format::kPermitsArgument.append(argument, out);
    default: return;
  }
}

FamilySet bit_of(const Family& family) noexcept {
  return static_cast<FamilySet>(1u << (&family - kFamilies));
}

int number_of(const Family& family, FamilySet set) noexcept {
  const unsigned below = bit_of(family) - 1u;
  return std::popcount(set & below) + 1;
}

bool can_reserve_ahead(FamilySet set) noexcept {
  return std::any_of(std::begin(kFamilies), std::end(kFamilies), [set](const Family& family) {
    return family.can_reserve_ahead && contains(set, family);
  });
}

void append_functions(FamilySet set, std::string& out) {
  unsigned shared = 0;
  for (const Family& family : kFamilies) {
    if (contains(set, family)) shared |= family.shared;
  }
  for (const SharedText& piece : kSharedTexts) {
    if (piece.needed_for == kEvery || (piece.needed_for & shared) != 0) {
      out.append(piece.text).append("\n");
    }
  }
  std::string functions;
  for (const Family& family : kFamilies) {
    if (!contains(set, family)) continue;
    if (!family.text.empty()) out.append(family.text).append("\n");
    functions.append(family.function).append(", ");
  }
  out.append("local decide = {").append(functions).append("}\nlocal reads_whole = ");
  out.append((shared & kAnyLog) == 0 ? "true\n" : "false\n");
}

namespace {

// The number of sets, the empty one included.
std::size_t set_count() noexcept { return std::size_t{1} << families().size(); }

std::string list_of(FamilySet set) {
  std::string list;
  for (const Family& family : families()) {
    if ((set & bit_of(family)) == 0) continue;
    list.append(list.empty() ? "" : "+").append(family.name);
  }
  return list;
}

std::string sha1_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

// Scripts with one frame. Each is composed at its first use.
class Table {
 public:
  Table(std::string_view name, std::string_view Family::* short_way, std::string_view frame)
      : name_(name), short_way_(short_way), frame_(frame) {}

  const Script& operator[](FamilySet set) {
    Entry& entry = entries_[set];
    std::call_once(entry.once, [&] {
      for (const Family& family : families()) {
        if (set == bit_of(family)) entry.text = family.*short_way_;
      }
      append_functions(set, entry.text);
      entry.text += frame_;
      entry.sha1 = sha1_of(entry.text);
      entry.name = std::string(name_) + ":" + list_of(set);
      entry.script = {.name = entry.name, .text = entry.text, .sha1 = entry.sha1};
    });
    return entry.script;
  }

 private:
  struct Entry {
    std::once_flag once;
    std::string name;
    std::string text;
    std::string sha1;
    Script script;
  };
  std::string_view name_;
  std::string_view Family::* short_way_;
  std::string_view frame_;
  std::vector<Entry> entries_{set_count()};
};

}  // namespace

const Script& script_for_one(const Family& family) {
  static Table table("single", &Family::short_single, lua::kWithConstants<lua::kSingle>);
  return table[bit_of(family)];
}

const Script& script_for(FamilySet set) {
  static Table table("request", &Family::short_request, lua::kWithConstants<lua::kRequest>);
  return table[set];
}

std::span<const Script> scripts() {
  static const std::vector<Script> all = [] {
    std::vector<Script> made;
    made.reserve(families().size() + set_count() - 1);
    for (const Family& family : families()) made.push_back(script_for_one(family));
    for (std::size_t set = 1; set < set_count(); ++set) {
      made.push_back(script_for(static_cast<FamilySet>(set)));
    }
    return made;
  }();
  return all;
}

}  // namespace sluice::redis

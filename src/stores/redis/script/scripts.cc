// Composes the scripts from parts of the .lua files.

#include "stores/redis/script/plan.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "core/limit.h"
#include "core/state.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/lua.h"

namespace sluice::redis {
namespace {

// --- constants of the .lua files ---

struct Constant {
  constexpr Constant(std::string_view its_name, std::uint64_t its_number)
      : name(its_name), number(its_number) {}
  template <typename T, std::size_t N>
  constexpr Constant(std::string_view its_name, const Layout<T, N>& layout)
      : name(its_name), number(layout.size()), format(layout.format()) {}

  std::string_view name;
  std::uint64_t number;
  // Of a record, for struct.pack() and struct.unpack(). Its size is the constant NAMESize.
  std::string_view format = {};
};

constexpr std::uint64_t of(core::IdKind kind) noexcept { return static_cast<std::uint64_t>(kind); }

constexpr Constant kConstants[] = {
    // Calls.
    {"kTake", format::kTake},
    {"kPeek", format::kPeek},
    {"kRefund", format::kRefund},
    {"kReset", format::kReset},
    {"kGiveBack", format::kGiveBack},
    {"kCharge", format::kCharge},
    {"kReserve", format::kReserve},
    {"kTakeAtMost", format::kTakeAtMost},
    {"kTakeAtMostOfAll", format::kTakeAtMostOfAll},
    {"kRelease", format::kRelease},
    {"kExtend", format::kExtend},
    {"kServerTime", format::kServerTime},
    {"kRequest", format::kRequest},
    {"kMustExist", format::kMustExist},
    {"kGivesBack", format::kGivesBack},
    {"kAlternative", format::kAlternative},
    {"kBucketArgument", format::kBucketArgument},
    {"kIntervalArgument", format::kIntervalArgument},
    {"kFixedWindowArgument", format::kFixedWindowArgument},
    {"kCalendarArgument", format::kCalendarArgument},
    {"kWindows", format::kWindows},
    {"kSlicesArgument", format::kSlicesArgument},
    {"kLogArgument", format::kLogArgument},
    {"kPermitsArgument", format::kPermitsArgument},
    {"kWithoutId", format::kWithoutId},
    {"kTakesOnce", format::kTakesOnce},
    {"kHolds", format::kHolds},
    {"kSettles", format::kSettles},
    {"kCancels", format::kCancels},
    {"kExtends", format::kExtends},
    {"kBudgetWindows", format::kBudgetWindows},
    {"kBudgetUndo", format::kBudgetUndo},
    {"kLedgerArgument", format::kLedgerArgument},
    {"kWithBlocks", format::kWithBlocks},
    {"kWithRows", format::kWithRows},
    {"kKeyBlockArgument", format::kKeyBlockArgument},
    {"kDeniesIfBlocked", format::kDeniesIfBlocked},
    {"kCountsDenials", format::kCountsDenials},
    {"kBlocksByHand", format::kBlocksByHand},
    {"kUnblocksByHand", format::kUnblocksByHand},
    {"kInstant", format::kInstant},
    {"kCost", format::kCost},
    // Replies.
    {"kAdmits", format::kAdmits},
    {"kLogReply", format::kLogReply},
    {"kPermitsReply", format::kPermitsReply},
    {"kBudgetReply", format::kBudgetReply},
    // Stored values.
    {"kEndOfInstants", format::kEndOfInstants},
    {"kEndOfSpans", format::kEndOfSpans},
    {"kMaxWait", static_cast<std::uint64_t>(kMaxWait.count())},
    {"kMinPeriod", static_cast<std::uint64_t>(kMinPeriod.count())},
    {"kMaxSlices", kMaxSlices},
    {"kMaxUnits", kMaxUnits},
    {"kExact", format::kExact},
    {"kForgottenUnit", format::kForgottenUnit},
    {"kNeverForgotten", format::kNeverForgotten},
    {"kBucketKind", format::kBucketKind},
    {"kFixedWindowKind", format::kFixedWindowKind},
    {"kFixedState", format::kFixedState},
    {"kSlicesKind", format::kSlicesKind},
    {"kSlicesHead", format::kSlicesHead},
    {"kSliceCountSize", format::kSliceCount.size()},
    {"kKeyBlockKind", format::kKeyBlockKind},
    {"kKeyBlockHead", format::kKeyBlockHead},
    {"kPermitsKind", format::kPermitsKind},
    {"kPermitsHead", format::kPermitsHead},
    {"kPermitHead", format::kPermit},
    {"kPermitIdSize", format::kPermitIdSize},
    {"kPermitSize", format::kPermitSize},
    {"kBudgetKind", format::kBudgetKind},
    {"kBudgetHead", format::kBudgetHead},
    {"kIdNumbers", format::kIdNumbers},
    {"kAmountHigh", format::kAmountHigh},
    {"kHoldIdSize", format::kHoldIdSize},
    {"kIdRecordSize", format::kIdRecordSize},
    {"kCellRecords", format::kCellRecords},
    {"kMaxAmount", kMaxAmount},
    {"kNeverEnds", static_cast<std::uint64_t>(kNeverEnds.count())},
    {"kMostArguments", format::kMostArguments},
    {"kMostHolds", kMaxHolds},
    {"kMostMoved", format::kMostMoved},
    {"kMostPastCounts", format::kMostPastCounts},
    {"kPastCount", format::kPastCount},
    {"kOpen", of(core::IdKind::kOpen)},
    {"kSettled", of(core::IdKind::kSettled)},
    {"kCharged", of(core::IdKind::kCharged)},
    {"kReleased", of(core::IdKind::kReleased)},
    {"kCancelled", of(core::IdKind::kCancelled)},
    {"kAnyCost", core::budget::kAnyCost},
    {"kCheckModulus", core::budget::kCheckModulus},
    {"kWasOver", core::budget::kWasOver},
    {"kLogKind", format::kLogKind},
    {"kHybridKind", format::kHybridKind},
    {"kLogHead", format::kLogHead},
    {"kLogEntry", format::kLogEntry},
    {"kSummary", format::kSummary},
    {"kInstantModulus", format::kInstantModulus},
    {"kSumModulus", format::kSumModulus},
    {"kBlockEntries", format::kBlockEntries},
    {"kBlocksSize", format::kBlocksSize},
    {"kFrontBlock", format::kFrontBlock},
    {"kLongHeadSize", format::kLongHeadSize},
    {"kWholeLogSize", format::kWholeLogSize},
    {"kWholeLogUnits", format::kWholeLogUnits},
};

// Returns the constants by name, in Lua syntax.
std::map<std::string, std::string> constants_in_lua() {
  std::map<std::string, std::string> all;
  const auto quoted = [](const auto&... texts) {
    std::string text = "'";
    (text.append(texts), ...);
    return text + "'";
  };
  for (const Constant& constant : kConstants) {
    const std::string name(constant.name);
    const std::string number = std::to_string(constant.number);
    if (constant.format.empty()) {
      all[name] = number;
    } else {
      all[name] = quoted(constant.format);
      all[name + "Size"] = number;
    }
  }
  // What follows another record has no byte order of its own.
  const auto rest_of = [](const auto& layout) { return layout.format().substr(1); };
  // The name of the id follows.
  all["kBudgetCall"] =
      quoted(format::kBudgetArgument.format(), "c", std::to_string(format::kHoldIdSize));
  all["kBudgetCallSize"] = std::to_string(format::kBudgetArgument.size() + format::kHoldIdSize);
  all["kSliceCount"] = quoted(rest_of(format::kSliceCount));
  all["kBucketOfRequest"] = quoted("<I1", rest_of(format::kBucketArgument));
  all["kSingleReply"] = quoted(format::kInstant.format(), "c0");
  all["kCounterReply"] = quoted(rest_of(format::kValueSize), "c0");
  // What a reply says of a counter without a value, and the size before such a value.
  all["kNoState"] = quoted("\\0\\0");
  all["kFoundState"] = quoted("\\", std::to_string(format::kFixedState.size()), "\\0");
  // A head, bytes, and an entry.
  all["kLogBeforeAnEntry"] = quoted(format::kLogHead.format(), "c0", rest_of(format::kLogEntry));
  all["kLongHeadEnd"] = quoted(std::to_string(format::kLongHeadSize - 1));
  all["kWholeLogEnd"] = quoted(std::to_string(format::kWholeLogSize - 1));
  return all;
}

bool is_word(char c) noexcept { return base::is_letter_or("_", c); }

// Returns NAME if the line is "WORD 'NAME'"; else an empty text.
std::string name_after(std::string_view word, std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with(word) || !line.substr(word.size()).starts_with(" '")) return {};
  line.remove_prefix(word.size() + 2);
  return std::string(line.substr(0, line.find('\'')));
}

std::map<std::string, std::string> parts_of_files(bool has_ledger) {
  std::map<std::string, std::string> parts;
  std::string* part = nullptr;
  for (std::string_view text : lua::kTexts) {
    while (!text.empty()) {
      const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
      text.remove_prefix(line.size());
      if (const std::string name = name_after("part", line); !name.empty()) {
        part = &parts[name];
      } else if (const std::string included = name_after("include", line); !included.empty()) {
        part->append(parts.at(included));
      } else if (const std::string of_ledger = name_after("with_ledger", line);
                 !of_ledger.empty()) {
        if (has_ledger) part->append(parts.at(of_ledger));
      } else {
        part->append(with_constants(line));
      }
    }
  }
  return parts;
}

// --- families ---

// The place of a row decides the order of the functions in a script, so a change of the order makes
// other scripts.
constexpr Family kFamilies[] = {
    {"bucket", "bucket"},
    {"interval", "interval"},
    {"fixed_window", "fixed_window"},
    {"sliding_window_counter", "sliding_window_counter"},
    {"sliding_window_log", "short_log"},
    {"sliding_window_hybrid", "short_hybrid"},
    {"concurrency", "concurrency"},
    {"calendar", "calendar_window"},
    {"budget", "budget"},
};
static_assert(kWithLedger == 1 << std::size(kFamilies), "a FamilySet has a bit for each");

constexpr FamilySet kBucket = 1 << 0;
constexpr FamilySet kInterval = 1 << 1;
constexpr FamilySet kFixedWindow = 1 << 2;
constexpr FamilySet kSlices = 1 << 3;
constexpr FamilySet kLog = 1 << 4;
constexpr FamilySet kHybrid = 1 << 5;
constexpr FamilySet kPermits = 1 << 6;
constexpr FamilySet kCalendar = 1 << 7;
constexpr FamilySet kBudget = 1 << 8;

// The names of parts, and which families need them. Each uses only those before it.
constexpr std::pair<std::string_view, FamilySet> kParts[] = {
    {"ledger", kWithLedger},
    {"foreign", kAllFamilies},
    {"wide", kBucket | kSlices | kHybrid},
    {"slice_of", kSlices | kHybrid},
    {"log_entries", kLog | kHybrid},
    {"hybrid_summaries", kHybrid},
    {"log", kLog | kHybrid},
    {"log_short", kLog},
    {"hybrid_short", kHybrid},
    {"bucket", kBucket},
    {"interval", kInterval},
    {"fixed_window", kFixedWindow},
    {"calendar_window", kCalendar},
    {"sliding_window_counter", kSlices},
    {"concurrency", kPermits},
    {"budget_records", kBudget},
    {"budget", kBudget},
};

FamilySet family_bit(const Limit& limit) noexcept {
  switch (limit.state_kind()) {
    case StateKind::kBucket: return limit.refill() == Refill::kInterval ? kInterval : kBucket;
    case StateKind::kWindow: return limit.calendar() != nullptr ? kCalendar : kFixedWindow;
    case StateKind::kSlices: return kSlices;
    case StateKind::kLog: return kLog;
    case StateKind::kLogAndSummaries: return kHybrid;
    case StateKind::kPermits: return kPermits;
    case StateKind::kBudget: return kBudget;
  }
  return 0;
}

}  // namespace

std::string with_constants(std::string_view lua) {
  static const std::map<std::string, std::string> constants = constants_in_lua();
  std::string out;
  while (!lua.empty()) {
    std::size_t size = 1;
    while (size < lua.size() && is_word(lua[size]) == is_word(lua[0])) ++size;
    const std::string word(lua.substr(0, size));
    const bool is_constant = size > 1 && word[0] == 'k' && base::is_upper(word[1]);
    out += is_constant ? constants.at(word) : word;
    lua.remove_prefix(size);
  }
  return out;
}

const std::string& lua_part(std::string_view name, bool has_ledger) {
  static const std::array parts{parts_of_files(false), parts_of_files(true)};
  return parts[has_ledger ? 1 : 0].at(std::string(name));
}

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

bool can_reserve_ahead(FamilySet set) noexcept { return (set & (kBucket | kInterval)) != 0; }

void append_functions(FamilySet set, std::string& out) {
  for (const auto& [name, needed_by] : kParts) {
    if ((needed_by & set) == 0) continue;
    out.append(lua_part(name, (set & kWithLedger) != 0)).append("\n");
  }
  out.append("local decide = {");
  for (const Family& family : kFamilies) {
    if ((set & bit_of(family)) != 0) out.append(family.function).append(", ");
  }
  out.append("}\nlocal reads_whole = ");
  out.append((set & (kLog | kHybrid)) == 0 ? "true\n" : "false\n");
}

namespace {

std::string list_of(FamilySet set) {
  std::string list;
  for (const Family& family : families()) {
    if ((set & bit_of(family)) == 0) continue;
    list.append(list.empty() ? "" : "+").append(family.name);
  }
  return (set & kWithLedger) != 0 ? list + "+ledger" : list;
}

std::string sha1_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) base::append_lower_hex(hex, static_cast<char>(digest[i]));
  return hex;
}

// A script that ends with one of two parts, "single" or "request". Composed at its first use.
struct Composed {
  std::once_flag once;
  std::string name;
  std::string text;
  std::string sha1;
  Script script;
};

const Script& script_of(FamilySet set, bool is_single) {
  constexpr std::size_t kSets = std::size_t{2} * kWithLedger;
  static std::vector<Composed> all(2 * kSets);
  Composed& made = all[is_single ? kSets + set : set];
  std::call_once(made.once, [&] {
    const std::string frame = is_single ? "single" : "request";
    // Most requests ask buckets only, which have a short way before the functions.
    if (set == kBucket) made.text = lua_part("bucket_" + frame);
    append_functions(set, made.text);
    made.text += lua_part(frame, (set & kWithLedger) != 0);
    made.sha1 = sha1_of(made.text);
    made.name = frame + ":" + list_of(set);
    made.script = {.name = made.name, .text = made.text, .sha1 = made.sha1};
  });
  return made.script;
}

}  // namespace

const Script& script_for_one(const Family& family, FamilySet with) {
  return script_of(static_cast<FamilySet>(bit_of(family) | with), true);
}

const Script& script_for(FamilySet set) { return script_of(set, false); }

}  // namespace sluice::redis

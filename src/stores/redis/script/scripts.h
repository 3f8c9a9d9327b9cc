#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sluice/limit.h"
#include "stores/redis/client/command.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {

// Algorithms that one function of a script decides. A script contains the functions that the
// families of its charges need. The table in scripts.cc has a row for each family.
struct Family {
  std::string_view name;
  std::string_view function;  // its name in Lua
  std::string_view text;      // defines the function; empty if `shared` does
  std::uint8_t shared;        // bit i: the function needs the shared text i
  bool can_reserve_ahead = false;
  // The short ways of a script with no other family: before its functions, and without one.
  std::string_view short_single = {};
  std::string_view short_request = {};
};

std::span<const Family> families() noexcept;
const Family& family_of(const Limit& limit) noexcept;

// Appends the numbers of a charge on the limit, as the function of the limit's family reads them.
void append_numbers(const Limit& limit, std::uint64_t cost, std::string& out);

// A set of families: bit i for row i.
using FamilySet = std::uint8_t;
// In it each family has its number in requests for the module.
inline constexpr FamilySet kAllFamilies = 0xFF;
FamilySet bit_of(const Family& family) noexcept;
// The number of a family in a script for `set`, from 1.
int number_of(const Family& family, FamilySet set) noexcept;
// Whether counters of one of them can be reserved ahead.
bool can_reserve_ahead(FamilySet set) noexcept;

// Appends the Lua that defines the functions of these families and, as the last statements, the
// list `decide` of the functions and the constant `reads_whole`.
void append_functions(FamilySet set, std::string& out);

}  // namespace sluice::redis

// The .lua files use constants of format.h by their names. The compiler replaces each name by its
// value; a name that is not in kConstants does not compile.
namespace sluice::redis::lua {

// A number or a quoted text in Lua syntax.
class Literal {
 public:
  constexpr explicit Literal(std::uint64_t number) {
    std::uint64_t unit = 1;
    while (number / unit >= 10) unit *= 10;
    for (; unit > 0; unit /= 10) append(static_cast<char>('0' + number / unit % 10));
  }
  constexpr Literal(std::initializer_list<std::string_view> parts) {
    append('\'');
    for (const std::string_view part : parts) {
      for (const char c : part) append(c);
    }
    append('\'');
  }
  constexpr std::string_view text() const noexcept { return {chars_.data(), size_}; }

 private:
  constexpr void append(char c) { chars_[size_++] = c; }

  std::array<char, 48> chars_{};
  std::size_t size_ = 0;
};

struct Constant {
  constexpr Constant(std::string_view its_name, std::uint64_t number)
      : name(its_name), literal(number) {}
  constexpr Constant(std::string_view its_name, Literal its_literal)
      : name(its_name), literal(its_literal) {}
  // A record's format, for struct.pack() and struct.unpack().
  template <typename T, std::size_t N>
  constexpr Constant(std::string_view its_name, const Layout<T, N>& layout)
      : name(its_name), literal({layout.format()}) {}

  std::string_view name;
  Literal literal;
};

inline constexpr Constant kConstants[] = {
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
    {"kBucketArgument", format::kBucketArgument},
    {"kBucketArgumentSize", format::kBucketArgument.size()},
    {"kBucketOfRequest", Literal({"<I1", format::kBucketArgument.format().substr(1)})},
    {"kIntervalArgument", format::kIntervalArgument},
    {"kIntervalArgumentSize", format::kIntervalArgument.size()},
    {"kFixedWindowArgument", format::kFixedWindowArgument},
    {"kCalendarArgument", format::kCalendarArgument},
    {"kCalendarArgumentSize", format::kCalendarArgument.size()},
    {"kWindows", format::kWindows},
    {"kSlicesArgument", format::kSlicesArgument},
    {"kSlicesArgumentSize", format::kSlicesArgument.size()},
    {"kLogArgument", format::kLogArgument},
    {"kLogArgumentSize", format::kLogArgument.size()},
    {"kPermitsArgument", format::kPermitsArgument},
    {"kPermitsArgumentSize", format::kPermitsArgument.size()},
    {"kWithBlocks", format::kWithBlocks},
    {"kKeyBlockArgument", format::kKeyBlockArgument},
    {"kKeyBlockArgumentSize", format::kKeyBlockArgument.size()},
    {"kDeniesIfBlocked", format::kDeniesIfBlocked},
    {"kCountsDenials", format::kCountsDenials},
    {"kBlocksByHand", format::kBlocksByHand},
    {"kUnblocksByHand", format::kUnblocksByHand},
    {"kInstant", format::kInstant},
    {"kInstantSize", format::kInstant.size()},
    {"kCost", format::kCost},
    {"kCostSize", format::kCost.size()},
    // Replies.
    {"kAdmits", format::kAdmits},
    {"kLogReply", format::kLogReply},
    {"kPermitsReply", format::kPermitsReply},
    {"kSingleReply", Literal({format::kInstant.format(), "c0"})},
    {"kCounterReply", Literal({format::kValueSize.format().substr(1), "c0"})},
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
    {"kFixedStateSize", format::kFixedState.size()},
    // What a reply says of a counter without a value, and the size before such a value.
    {"kNoState", Literal({"\\0\\0"})},
    {"kFoundState", Literal({"\\", Literal(format::kFixedState.size()).text(), "\\0"})},
    {"kSlicesKind", format::kSlicesKind},
    {"kSlicesHead", format::kSlicesHead},
    {"kSlicesHeadSize", format::kSlicesHead.size()},
    {"kSliceCount", Literal({format::kSliceCount.format().substr(1)})},
    {"kSliceCountSize", format::kSliceCount.size()},
    {"kKeyBlockKind", format::kKeyBlockKind},
    {"kKeyBlockHead", format::kKeyBlockHead},
    {"kKeyBlockHeadSize", format::kKeyBlockHead.size()},
    // Permits.
    {"kPermitsKind", format::kPermitsKind},
    {"kPermitsHead", format::kPermitsHead},
    {"kPermitsHeadSize", format::kPermitsHead.size()},
    {"kPermit", format::kPermit},
    {"kPermitSize", format::kPermitSize},
    {"kPermitIdSize", format::kPermitIdSize},
    // Logs and hybrids.
    {"kLogKind", format::kLogKind},
    {"kHybridKind", format::kHybridKind},
    {"kLogHead", format::kLogHead},
    {"kLogHeadSize", format::kLogHead.size()},
    {"kLogEntry", format::kLogEntry},
    {"kLogEntrySize", format::kLogEntry.size()},
    // A head, bytes, and an entry.
    {"kLogBeforeAnEntry",
     Literal({format::kLogHead.format(), "c0", format::kLogEntry.format().substr(1)})},
    {"kSummary", format::kSummary},
    {"kSummarySize", format::kSummary.size()},
    {"kInstantModulus", format::kInstantModulus},
    {"kSumModulus", format::kSumModulus},
    {"kBlockEntries", format::kBlockEntries},
    {"kBlocksSize", format::kBlocksSize},
    {"kFrontBlock", format::kFrontBlock},
    {"kLongHeadSize", format::kLongHeadSize},
    {"kLongHeadEnd", Literal({Literal(format::kLongHeadSize - 1).text()})},
    {"kWholeLogSize", format::kWholeLogSize},
    {"kWholeLogEnd", Literal({Literal(format::kWholeLogSize - 1).text()})},
    {"kWholeLogUnits", format::kWholeLogUnits},
};

constexpr bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The constants' names, and nothing else in the .lua files, begin with a k and a capital letter.
constexpr std::string_view value_of(std::string_view word) {
  if (word.size() < 2 || word[0] != 'k' || word[1] < 'A' || word[1] > 'Z') return word;
  for (const Constant& constant : kConstants) {
    if (constant.name == word) return constant.literal.text();
  }
  throw std::invalid_argument("no constant of this name");
}

// Calls use(part) for each part of the text with the values of its constants.
template <typename Use>
constexpr void replace_constants(std::string_view text, const Use& use) {
  while (!text.empty()) {
    std::size_t size = 1;
    while (size < text.size() && is_word(text[size]) == is_word(text[0])) ++size;
    use(value_of(text.substr(0, size)));
    text.remove_prefix(size);
  }
}

template <const std::string_view& Text>
inline constexpr std::size_t kSizeWithConstants = [] {
  std::size_t size = 0;
  replace_constants(Text, [&](std::string_view part) { size += part.size(); });
  return size;
}();

template <const std::string_view& Text>
inline constexpr auto kCharsWithConstants = [] {
  std::array<char, kSizeWithConstants<Text>> chars{};
  std::size_t size = 0;
  replace_constants(Text, [&](std::string_view part) {
    for (const char c : part) chars[size++] = c;
  });
  return chars;
}();

// The text of a .lua file with the values of its constants.
template <const std::string_view& Text>
inline constexpr std::string_view kWithConstants{kCharsWithConstants<Text>.data(),
                                                 kCharsWithConstants<Text>.size()};

}  // namespace sluice::redis::lua

namespace sluice::redis {

// Return the script for a take of one charge at the server's time, and the script for any request.
// The first call composes a script, which is kept until the program ends. Thread-safe.
const Script& script_for_one(const Family& family);
const Script& script_for(FamilySet set);

// Returns all scripts, for loading them in advance.
std::span<const Script> scripts();

}  // namespace sluice::redis

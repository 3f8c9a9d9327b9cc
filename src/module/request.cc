#include "module/request.h"

#include <algorithm>
#include <array>

#include "core/limit.h"
#include "sluice/store.h"
#include "stores/redis/script/format.h"

namespace sluice::redis_module {
namespace {

namespace format = redis::format;
using Numbers = core::LimitAccess::Numbers;

constexpr auto kLongest = static_cast<std::uint64_t>(kMaxPeriod.count());
constexpr auto kShortest = static_cast<std::uint64_t>(kMinPeriod.count());
constexpr auto kLongestWait = static_cast<std::uint64_t>(kMaxWait.count());

bool is_period(std::uint64_t ticks) noexcept { return ticks >= kShortest && ticks <= kLongest; }

// Takes a record from the beginning of the rest.
template <typename T, std::size_t N>
std::optional<T> take(std::string_view& rest, const redis::Layout<T, N>& layout) noexcept {
  if (rest.size() < layout.size()) return std::nullopt;
  return layout.take(rest);
}

// Takes an id of this size, which may be a part of its name.
bool take_id(std::string_view& rest, std::size_t size, PermitId& id) noexcept {
  if (rest.size() < size) return false;
  PermitId::Bytes name{};
  std::copy_n(rest.begin(), size, name.begin());
  rest.remove_prefix(size);
  id = PermitId(name);
  return true;
}

std::optional<Limit> read_bucket(std::string_view& rest, Asked& asked) noexcept {
  const auto read = take(rest, format::kBucketArgument);
  if (!read) return std::nullopt;
  asked.cost = read->cost;
  const core::Rate rate{static_cast<std::uint32_t>(read->rate_units), read->rate_ticks};
  if (rate.ticks < 1 || rate.ticks > kLongest || (read->checksum & 1) != 0) return std::nullopt;
  const bool bans = rate.units == 0;
  const core::Wide to_drain = core::Wide{read->capacity} * rate.ticks;
  if (bans != (read->capacity == 0) ||
      to_drain > core::Wide{kLongestWait} * (bans ? 1 : rate.units)) {
    return std::nullopt;
  }
  return core::LimitAccess::restored({.algorithm = Algorithm::kTokenBucket,
                                      .limit = rate.units,
                                      .capacity = read->capacity,
                                      .rate = rate,
                                      .tag = read->checksum >> 1});
}

std::optional<Limit> read_interval(std::string_view& rest, Asked& asked) noexcept {
  const auto read = take(rest, format::kIntervalArgument);
  if (!read || !is_period(read->period) || (read->checksum & 1) == 0) return std::nullopt;
  asked.cost = read->cost;
  if ((read->limit == 0) != (read->capacity == 0)) return std::nullopt;
  if (read->limit > 0 &&
      core::ceil_div(read->capacity, read->limit) > kLongestWait / read->period) {
    return std::nullopt;
  }
  return core::LimitAccess::restored({.algorithm = Algorithm::kTokenBucket,
                                      .limit = read->limit,
                                      .capacity = read->capacity,
                                      .period = read->period,
                                      .tag = read->checksum >> 1,
                                      .refill = Refill::kInterval});
}

std::optional<Limit> read_window(std::string_view& rest, Asked& asked) noexcept {
  const auto read = take(rest, format::kFixedWindowArgument);
  if (!read || !is_period(read->period)) return std::nullopt;
  asked.cost = read->cost;
  return core::LimitAccess::restored(
      {.algorithm = Algorithm::kFixedWindow,
       .limit = read->capacity,
       .capacity = read->capacity,
       .period = read->period,
       .tag = read->checksum >> 1,
       .align = read->by_clock == 1 ? Align::kClock : Align::kFirstRequest});
}

std::optional<Limit> read_calendar(std::string_view& rest, Asked& asked) noexcept {
  const auto read = take(rest, format::kCalendarArgument);
  const auto windows = read ? take(rest, format::kWindows) : std::nullopt;
  if (!windows) return std::nullopt;
  asked.cost = read->cost;
  // A year has less than 2^45 ticks. The last window of all has no next one.
  if (windows->open >= windows->close || windows->close > windows->second ||
      windows->second - windows->open >= 2 * format::kEndOfSpans ||
      windows->open >= format::kEndOfInstants) {
    return std::nullopt;
  }
  asked.windows = *windows;
  return core::LimitAccess::restored({.algorithm = Algorithm::kFixedWindow,
                                      .limit = read->capacity,
                                      .capacity = read->capacity,
                                      .tag = read->checksum >> 1,
                                      .align = Align::kClock});
}

std::optional<Limit> read_slices(std::string_view& rest, Asked& asked) noexcept {
  const auto read = take(rest, format::kSlicesArgument);
  if (!read || !is_period(read->period)) return std::nullopt;
  if (read->slices < 1 || read->slices > kMaxSlices) return std::nullopt;
  asked.cost = read->cost;
  return core::LimitAccess::restored(
      {.algorithm = Algorithm::kSlidingWindowCounter,
       .limit = read->capacity,
       .capacity = read->capacity,
       .period = read->period,
       .slices = read->slices,
       .weighting = read->oldest_whole == 1 ? Weighting::kNone : Weighting::kLinear});
}

std::optional<Limit> read_log(std::string_view& rest, Asked& asked) noexcept {
  const auto read = take(rest, format::kLogArgument);
  if (!read || !is_period(read->period) || read->slices > kMaxSlices) return std::nullopt;
  asked.cost = read->cost;
  return core::LimitAccess::restored({.algorithm = read->slices == 0
                                                       ? Algorithm::kSlidingWindowLog
                                                       : Algorithm::kSlidingWindowHybrid,
                                      .limit = read->capacity,
                                      .capacity = read->capacity,
                                      .period = read->period,
                                      .slices = std::max<std::uint64_t>(read->slices, 1)});
}

std::optional<Limit> read_permits(std::string_view& rest, Asked& asked) noexcept {
  const auto read = take(rest, format::kPermitsArgument);
  if (!read || !is_period(read->period) || read->capacity > kMaxPermitUnits ||
      !take_id(rest, format::kPermitIdSize, asked.permit)) {
    return std::nullopt;
  }
  asked.cost = read->cost;
  return core::LimitAccess::restored({.algorithm = Algorithm::kConcurrency,
                                      .limit = read->capacity,
                                      .capacity = read->capacity,
                                      .period = read->period});
}

// Takes windows of the calendar that follow each other, or are the last one of all.
std::optional<format::Windows> take_budget_windows(std::string_view& rest) noexcept {
  const auto read = take(rest, format::kBudgetWindows);
  const bool is_right = read && read->open < read->close && read->close <= read->second &&
                        read->second <= read->third && read->third <= read->fourth &&
                        read->fourth < 2 * format::kEndOfInstants;
  return is_right ? read : std::nullopt;
}

// What a charge does with its id, by its number.
constexpr std::array<Verb, 6> kDoes = {Verb::kPeek,   Verb::kTake,   Verb::kHold,
                                       Verb::kSettle, Verb::kCancel, Verb::kExtend};
static_assert(kDoes[format::kTakesOnce] == Verb::kTake && kDoes[format::kHolds] == Verb::kHold &&
              kDoes[format::kSettles] == Verb::kSettle &&
              kDoes[format::kCancels] == Verb::kCancel && kDoes[format::kExtends] == Verb::kExtend);

std::optional<Limit> read_budget(std::string_view& rest, Asked& asked) noexcept {
  constexpr auto kNever = static_cast<std::uint64_t>(kNeverEnds.count());
  const auto read = take(rest, format::kBudgetArgument);
  if (!read || !take_id(rest, format::kHoldIdSize, asked.permit)) return std::nullopt;
  const Duration remember{static_cast<core::Ticks>(read->remember)};
  const Duration ttl{static_cast<core::Ticks>(read->ttl)};
  if (read->capacity > kMaxAmount || read->does >= kDoes.size() || read->holds < 1 ||
      remember < kMinRemember || remember > kMaxRemember ||
      remember % std::chrono::milliseconds{1} != Duration{0}) {
    return std::nullopt;
  }
  asked.cost = std::min(read->cost + read->cost_high * format::kAmountHigh, kMaxAmount + 1);
  if (read->does != format::kWithoutId) asked.with_id = Action(kDoes[read->does], ttl);
  const bool has_time = read->does == format::kHolds || read->does == format::kExtends;
  if (has_time && (ttl < kMinHold || ttl > kMaxHold)) return std::nullopt;
  if (read->period == 0) {
    asked.windows = take_budget_windows(rest);
    if (!asked.windows) return std::nullopt;
  } else if (!is_period(read->period) && read->period != kNever) {
    return std::nullopt;
  }
  return core::LimitAccess::restored(
      {.algorithm = Algorithm::kBudget,
       .limit = 0,  // which is the capacity
       .capacity = read->capacity,
       .period = std::max<std::uint64_t>(read->period, 1),
       .slices = read->holds,
       .on_expiry = read->releases == 1 ? OnExpiry::kRelease : OnExpiry::kCharge,
       .remember_ms = read->remember / 1000});
}

// In the order of the numbers of the families.
using ReadLimit = std::optional<Limit> (*)(std::string_view& rest, Asked& asked) noexcept;
constexpr std::array<ReadLimit, 9> kReaders = {read_bucket,  read_interval, read_window,
                                               read_slices,  read_log,      read_log,
                                               read_permits, read_calendar, read_budget};

// Whether a counter and what it does with an id are right for the verb of the request.
bool fits_verb(Verb verb, Asked& asked) noexcept {
  const StateKind kind = asked.limit.state_kind();
  if (!asked.with_id) return !changes_permit(verb) || kind == StateKind::kPermits;
  switch (asked.with_id->verb) {
    case Verb::kTake:
      if (verb == Verb::kPeek) asked.with_id = Verb::kPeek;
      return verb == Verb::kTake || verb == Verb::kPeek;
    case Verb::kHold: return verb == Verb::kTake;
    case Verb::kExtend: return verb == Verb::kExtend;
    default: return verb == Verb::kCharge && !asked.gives_back;
  }
}

// The number that follows the records of some verbs.
bool read_number_of_verb(std::string_view& rest, Request& request, Asked& asked) noexcept {
  if (request.shares_units) {
    const auto charges = take(rest, format::kInstant);
    if (!charges || charges->value < 1 || charges->value > kMaxCharges) return false;
    asked.charges = charges->value;
  } else if (request.action.verb == Verb::kReserve) {
    const auto wait = take(rest, format::kInstant);
    if (!wait || wait->value > kLongestWait) return false;
    request.action.max_wait = Duration{static_cast<core::Ticks>(wait->value)};
  }
  return true;
}

bool read_counter(std::string_view& rest, Request& request) {
  if (rest.empty()) return false;
  const auto number = static_cast<unsigned char>(rest.front());
  rest.remove_prefix(1);
  const std::size_t family = number & (format::kAlternative - 1);
  const bool gives_back = (number & format::kGivesBack) != 0;
  if (family < 1 || family > kReaders.size()) return false;
  if (gives_back && request.action.verb != Verb::kCharge) return false;
  Asked asked{.limit = core::LimitAccess::restored(
                  {.algorithm = Algorithm::kTokenBucket, .limit = 0, .capacity = 0}),
              .must_exist = (number & format::kMustExist) != 0,
              .gives_back = gives_back,
              .is_alternative = (number & format::kAlternative) != 0};
  const auto limit = kReaders[family - 1](rest, asked);
  if (!limit) return false;
  asked.limit = *limit;
  if (!fits_verb(request.action.verb, asked)) return false;
  if (asked.is_alternative && (!request.has_rows || request.counters.empty())) return false;
  if (!read_number_of_verb(rest, request, asked)) return false;
  request.counters.push_back(asked);
  return true;
}

bool read_block(std::string_view& rest, Request& request) {
  const auto read = take(rest, format::kKeyBlockArgument);
  if (!read || read->counter < 1 || read->counter > request.counters.size()) return false;
  const auto ticks = [](std::uint64_t time) { return Duration{static_cast<core::Ticks>(time)}; };
  // By hand the length is not that of the block.
  const bool is_by_hand = read->flags == format::kBlocksByHand;
  const auto block = Block::make({.after = read->after,
                                  .within = ticks(read->within),
                                  .time = is_by_hand ? kMinPeriod : ticks(read->time),
                                  .growth = read->growth,
                                  .at_most = ticks(read->at_most)});
  if (!block || !is_period(read->time)) return false;
  request.blocks.push_back({.counter = read->counter - 1,
                            .flags = read->flags,
                            .block = *block,
                            .time = ticks(read->time)});
  return true;
}

// Takes a text after its size.
std::optional<std::string_view> take_text(std::string_view& rest) noexcept {
  if (rest.empty()) return std::nullopt;
  const std::size_t size = static_cast<unsigned char>(rest.front());
  if (rest.size() <= size) return std::nullopt;
  const std::string_view text = rest.substr(1, size);
  rest.remove_prefix(1 + size);
  return text;
}

bool read_ledgers(std::string_view& rest, Request& request) noexcept {
  const auto kept = take(rest, format::kLedgerArgument);
  if (!kept) return false;
  request.kept = *kept;
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    Asked& asked = request.counters[i];
    if (!is_budget(asked)) continue;
    const auto index = take(rest, format::kFamily);
    const auto kind = take_text(rest);
    const auto id = take_text(rest);
    auto windows = take_text(rest);
    if (!index || index->value != i + 1 || !windows) return false;
    asked.ledger = id;
    if (!windows->empty()) {
      asked.past = take_budget_windows(*windows);
      if (!asked.past || !windows->empty()) return false;
    }
    // Without a hold both do the same.
    const bool is_charge = *kind == kLedgerKinds[static_cast<std::size_t>(LedgerKind::kCharge)];
    const bool settles = asked.with_id && asked.with_id->verb == Verb::kSettle;
    if (is_charge && settles) asked.with_id = Verb::kCharge;
  }
  return true;
}

// Reads the first record. The flags of the verb remain in `flags`.
bool read_head(std::string_view& rest, Request& request, std::uint64_t& flags) noexcept {
  const auto head = take(rest, format::kRequest);
  if (!head) return false;
  constexpr std::uint64_t kFlags = format::kWithBlocks | format::kWithRows | format::kWithLedgers;
  flags = head->verb & kFlags;
  request.has_rows = (flags & format::kWithRows) != 0;
  const std::uint64_t number = head->verb & ~kFlags;
  if (number >= format::kVerbs.size() || !format::kVerbs[number]) return false;
  request.action = *format::kVerbs[number];
  request.shares_units = number == format::kTakeAtMostOfAll;
  request.at.reset();
  request.explicit_expiry_ms = head->expiry_ms;
  if (head->instant == format::kServerTime) return true;
  request.at = static_cast<core::Ticks>(head->instant);
  return head->instant < format::kEndOfInstants && head->expiry_ms > 0 &&
         head->expiry_ms < format::kEndOfSpans;
}

}  // namespace

bool read_request(std::string_view bytes, std::size_t keys, Request& request) {
  request.counters.clear();
  request.blocks.clear();
  request.ledgers = 0;
  std::uint64_t flags = 0;
  if (!read_head(bytes, request, flags) || bytes.empty()) return false;
  const std::size_t counters = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  if (counters < 1 || counters > kMaxCharges || counters > keys) return false;
  for (std::size_t i = 0; i < counters; ++i) {
    if (!read_counter(bytes, request)) return false;
  }
  const bool has_ledgers = (flags & format::kWithLedgers) != 0;
  if (has_ledgers) {
    request.ledgers = static_cast<std::size_t>(
        std::count_if(request.counters.begin(), request.counters.end(), is_budget));
  }
  if (keys < counters + request.ledgers) return false;
  const std::size_t blocks = keys - counters - request.ledgers;
  if (blocks > counters || (blocks > 0) != ((flags & format::kWithBlocks) != 0)) return false;
  for (std::size_t i = 0; i < blocks; ++i) {
    if (!read_block(bytes, request)) return false;
  }
  return (!has_ledgers || read_ledgers(bytes, request)) && bytes.empty();
}

}  // namespace sluice::redis_module

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
  if (windows->open >= windows->close || windows->close > windows->next_close ||
      windows->next_close - windows->open >= 2 * format::kEndOfSpans ||
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
  if (!read || !is_period(read->period) || rest.size() < format::kPermitIdSize) return std::nullopt;
  if (read->capacity > kMaxPermitUnits) return std::nullopt;
  asked.cost = read->cost;
  PermitId::Bytes name;
  std::copy_n(rest.begin(), name.size(), name.begin());
  rest.remove_prefix(name.size());
  asked.permit = PermitId(name);
  return core::LimitAccess::restored({.algorithm = Algorithm::kConcurrency,
                                      .limit = read->capacity,
                                      .capacity = read->capacity,
                                      .period = read->period});
}

// In the order of the numbers of the families.
using ReadLimit = std::optional<Limit> (*)(std::string_view& rest, Asked& asked) noexcept;
constexpr std::array<ReadLimit, 8> kReaders = {read_bucket,  read_interval, read_window,
                                               read_slices,  read_log,      read_log,
                                               read_permits, read_calendar};

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
  const std::size_t family = number & (format::kGivesBack - 1);
  const bool gives_back = (number & format::kGivesBack) != 0;
  if (family < 1 || family > kReaders.size()) return false;
  if (gives_back && request.action.verb != Verb::kCharge) return false;
  Asked asked{.limit = core::LimitAccess::restored(
                  {.algorithm = Algorithm::kTokenBucket, .limit = 0, .capacity = 0}),
              .must_exist = (number & format::kMustExist) != 0,
              .gives_back = gives_back};
  const auto limit = kReaders[family - 1](rest, asked);
  if (!limit) return false;
  asked.limit = *limit;
  const bool has_permits = asked.limit.state_kind() == StateKind::kPermits;
  if (changes_permit(request.action.verb) && !has_permits) return false;
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

bool read_head(std::string_view& rest, Request& request, bool& has_blocks) noexcept {
  const auto head = take(rest, format::kRequest);
  if (!head) return false;
  has_blocks = (head->verb & format::kWithBlocks) != 0;
  const std::uint64_t number = head->verb & ~format::kWithBlocks;
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
  bool has_blocks = false;
  if (!read_head(bytes, request, has_blocks) || bytes.empty()) return false;
  const std::size_t counters = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  if (counters < 1 || counters > kMaxCharges || counters > keys) return false;
  if (keys > 2 * counters || has_blocks != (keys > counters)) return false;
  for (std::size_t i = 0; i < counters; ++i) {
    if (!read_counter(bytes, request)) return false;
  }
  for (std::size_t i = counters; i < keys; ++i) {
    if (!read_block(bytes, request)) return false;
  }
  return bytes.empty();
}

}  // namespace sluice::redis_module

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "limiter/reason_report.h"
#include "server/api/resp/arguments.h"
#include "server/api/resp/command_handler.h"

// CL.THROTTLE, compatible with redis-cell.
namespace sluice::server::resp::commands {
namespace {

constexpr std::int64_t kMostCount = static_cast<std::int64_t>(kMaxUnits);
constexpr std::int64_t kMostSeconds =
    std::chrono::duration_cast<std::chrono::seconds>(kMaxPeriod).count();
constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

constexpr NumberArgument kBurst{"max_burst", 0, kMostCount - 1};
constexpr NumberArgument kCount{"count", 1, kMostCount};
constexpr NumberArgument kPeriod{"period_seconds", 1, kMostSeconds};
constexpr NumberArgument kQuantity{"quantity", -kAnyNumber, kAnyNumber};

// Rounded up, so that a limited client never reads 0.
std::int64_t seconds(Duration duration) noexcept {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

// Returns the limit with these numbers, or null if the reply has become an error.
const Limit* limit_of(CommandHandler& handler, const Call& call) {
  const auto burst = read_number(call.arguments[2], kBurst, call.reply);
  if (!burst) return nullptr;
  const auto count = read_number(call.arguments[3], kCount, call.reply);
  if (!count) return nullptr;
  const auto period = read_number(call.arguments[4], kPeriod, call.reply);
  if (!period) return nullptr;
  const LimitCache::Numbers numbers{static_cast<std::uint64_t>(*burst),
                                    static_cast<std::uint64_t>(*count),
                                    static_cast<std::uint64_t>(*period)};
  if (const Limit* known = handler.limits.find(numbers)) return known;
  const auto limit = Limit::make({.algorithm = Algorithm::kGcra,
                                  .limit = numbers.count,
                                  .per = std::chrono::seconds(*period),
                                  .burst = numbers.burst});
  if (limit) return &handler.limits.keep(numbers, *limit);
  call.reply.error("ERR count and period_seconds with this max_burst: " + limit.error());
  return nullptr;
}

// A negative quantity is a refund and 0 is a peek. No limit holds more than kMaxUnits.
Decision decide(Session& session, std::string_view key, const Limit& limit, std::int64_t quantity) {
  if (quantity < 0) {
    const std::uint64_t units = 0 - static_cast<std::uint64_t>(quantity);
    return session.decide({key, limit, std::min(units, kMaxUnits)}, Verb::kRefund);
  }
  const auto units = std::min(static_cast<std::uint64_t>(quantity), kMaxUnits + 1);
  return session.decide({key, limit, units}, units == 0 ? Verb::kPeek : Verb::kTake);
}

}  // namespace

void throttle(CommandHandler& handler, const Call& call) {
  const Limit* const limit = limit_of(handler, call);
  if (limit == nullptr) return;
  std::int64_t quantity = 1;
  if (call.arguments.size() > 5) {
    const auto read = read_number(call.arguments[5], kQuantity, call.reply);
    if (!read) return;
    quantity = *read;
  }
  if (quantity < 0 && call.client.role < Role::kOperate) {
    return call.reply.error("NOPERM this user may not refund: quantity is negative");
  }
  if (quantity > 1 && !handler.may_take(call, static_cast<std::uint64_t>(quantity))) return;
  const Decision decision = decide(handler.session, call.arguments[1], *limit, quantity);
  handler.outcome = decision.outcome;
  const std::string_view error = report_of(decision.reason).resp_error;
  if (!error.empty()) return call.reply.error(error);
  Reply& reply = call.reply;
  reply.array(5);
  reply.integer(decision.allowed() ? 0 : 1);
  reply.integer(limit->capacity());
  reply.integer(decision.remaining);
  const bool waits = !decision.allowed() && decision.retry_after;
  reply.integer(waits ? seconds(*decision.retry_after) : -1);
  reply.integer(seconds(decision.reset_after));
}

}  // namespace sluice::server::resp::commands

#include <string>

#include "limiter/limit_arguments.h"
#include "limiter/reason_report.h"
#include "server/api/resp/command_handler.h"

// CL.THROTTLE, compatible with redis-cell, and the same decision under other names.
namespace sluice::server::resp::commands {
namespace {

// Returns the limit with these numbers, or null if the reply has become an error.
const Limit* limit_of(CommandHandler& handler, const Call& call, const ThrottleArguments& asked) {
  const LimitCache::Numbers numbers{asked.burst, asked.count,
                                    static_cast<std::uint64_t>(asked.period.count())};
  if (const Limit* known = handler.limits.find(numbers)) return known;
  const auto limit = asked.limit();
  if (limit) return &handler.limits.keep(numbers, *limit);
  call.reply.error("ERR count and period_seconds with this max_burst: " + limit.error());
  return nullptr;
}

void run(CommandHandler& handler, const Call& call, ThrottleForm form) {
  const auto asked = parse_throttle(form, call.arguments.subspan(2));
  if (!asked) return call.reply.error("ERR " + asked.error());
  const Limit* const limit = limit_of(handler, call, *asked);
  if (limit == nullptr) return;
  if (asked->quantity < 0 && call.client.role < Role::kOperate) {
    return call.reply.error("NOPERM this user may not refund: quantity is negative");
  }
  if (asked->quantity > 1 && !handler.may_take(call, static_cast<std::uint64_t>(asked->quantity))) {
    return;
  }
  const Decision decision =
      handler.session.decide({call.arguments[1], *limit, asked->cost()}, asked->verb());
  handler.outcome = decision.outcome;
  const std::string_view error = report_of(decision.reason).resp_error;
  if (!error.empty()) return call.reply.error(error);
  const auto numbers = throttle_reply(form, *asked, *limit, decision);
  call.reply.array(numbers.size());
  for (const std::int64_t number : numbers) call.reply.integer(number);
}

}  // namespace

void throttle(CommandHandler& handler, const Call& call) {
  run(handler, call, ThrottleForm::kCell);
}
void throttle_like_crab(CommandHandler& handler, const Call& call) {
  run(handler, call, ThrottleForm::kCrab);
}
void gcra(CommandHandler& handler, const Call& call) { run(handler, call, ThrottleForm::kGcra); }

}  // namespace sluice::server::resp::commands

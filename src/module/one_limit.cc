#include "limiter/answer.h"
#include "module/commands.h"
#include "stores/redis/script/windows.h"

namespace sluice::redis_module {
namespace {

CalendarWindows windows_at(const Calendar& calendar, core::Ticks now) {
  const redis::format::Windows windows = redis::windows_of(calendar, now, 0);
  const auto ticks = [](std::uint64_t instant) { return static_cast<core::Ticks>(instant); };
  return {0, ticks(windows.open), ticks(windows.close), ticks(windows.next_close)};
}

// `near`: an instant of the window of the calendar; the time of the server if absent.
Decider::Result decide_near(Decider& decider, Request& request, std::optional<core::Ticks> near) {
  Asked& asked = request.counters[0];
  const Calendar* const calendar = asked.limit.calendar();
  if (calendar != nullptr) {
    asked.windows = windows_at(*calendar, near ? *near : Decider::server_time());
  }
  return decider.decide(request);
}

int reply_foreign(RedisModuleCtx* context, const Key& key) {
  if (key.is_string()) return reply_error(context, foreign_value_error(key));
  return abi().ReplyWithError(context,
                              "WRONGTYPE Operation against a key holding the wrong kind of value");
}

}  // namespace

int reply_error(RedisModuleCtx* context, const std::string& why) {
  return abi().ReplyWithError(context, ("ERR " + why).c_str());
}

std::optional<Decision> decide_by_limit(Workspace& workspace, const CommandCall& call,
                                        std::size_t at, Verb verb, const Asked& asked) {
  Request& request = workspace.request;
  Decider& decider = workspace.decider;
  request.action = verb;
  request.shares_units = false;
  request.at.reset();
  request.blocks.clear();
  request.counters.assign(1, asked);
  decider.open(call.context, call.words.subspan(at, 1));
  Decider::Result result = decide_near(decider, request, std::nullopt);
  // The counter may be in a later window.
  if (result == Decider::Result::kWindow) {
    result = decide_near(decider, request, decider.outcome(0).at);
  }
  if (result != Decider::Result::kDecided) {
    reply_foreign(call.context, decider.key(0));
    return std::nullopt;
  }
  Decision decision;
  core::write(asked.limit, decider.outcome(0).answer, decision);
  decider.write(request);
  return decision;
}

}  // namespace sluice::redis_module

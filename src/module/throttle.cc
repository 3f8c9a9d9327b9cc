#include <array>
#include <string>
#include <string_view>

#include "limiter/answer.h"
#include "limiter/throttle_arguments.h"
#include "module/commands.h"

// CL.THROTTLE and the same decision under other names. The key is the first argument, as it is.
namespace sluice::redis_module {
namespace {

int reply_error(RedisModuleCtx* context, const std::string& why) {
  return abi().ReplyWithError(context, ("ERR " + why).c_str());
}

int reply_foreign(RedisModuleCtx* context, const Key& key) {
  if (key.is_string()) return reply_error(context, foreign_value_error(key));
  return abi().ReplyWithError(context,
                              "WRONGTYPE Operation against a key holding the wrong kind of value");
}

int decide_throttle(Workspace& workspace, const CommandCall& call, const ThrottleArguments& asked,
                    ThrottleForm form) {
  const auto limit = asked.limit();
  if (!limit) return reply_error(call.context, limit.error());
  Request& request = workspace.request;
  Decider& decider = workspace.decider;
  request.action = asked.verb();
  request.shares_units = false;
  request.at.reset();
  request.blocks.clear();
  request.counters.assign(1, {.limit = *limit, .cost = asked.cost()});
  decider.open(call.context, call.words.subspan(1, 1));
  if (decider.decide(request) != Decider::Result::kDecided) {
    return reply_foreign(call.context, decider.key(0));
  }
  Decision decision;
  core::write(*limit, decider.outcome(0).answer, decision);
  decider.write(request);
  abi().ReplyWithArray(call.context, 5);
  for (const std::int64_t number : throttle_reply(form, *limit, decision)) {
    abi().ReplyWithLongLong(call.context, number);
  }
  return kOk;
}

int run_throttle(Workspace& workspace, const CommandCall& call, ThrottleForm form) {
  std::array<std::string_view, 5> words;
  const std::size_t count = call.words.size() - 2;
  for (std::size_t i = 0; i < count; ++i) words[i] = bytes_of(call.words[i + 2]);
  const auto asked = parse_throttle(form, {words.data(), count});
  if (!asked) return reply_error(call.context, asked.error());
  return decide_throttle(workspace, call, *asked, form);
}

}  // namespace

int throttle_like_cell(Workspace& workspace, const CommandCall& call) {
  return run_throttle(workspace, call, ThrottleForm::kCell);
}
int throttle_like_crab(Workspace& workspace, const CommandCall& call) {
  return run_throttle(workspace, call, ThrottleForm::kCrab);
}
int gcra(Workspace& workspace, const CommandCall& call) {
  return run_throttle(workspace, call, ThrottleForm::kGcra);
}

}  // namespace sluice::redis_module

#include <array>
#include <string_view>

#include "limiter/limit_arguments.h"
#include "module/commands.h"

// CL.THROTTLE and the same decision under other names. The key is the first argument, as it is.
namespace sluice::redis_module {
namespace {

int run_throttle(Workspace& workspace, const CommandCall& call, ThrottleForm form) {
  std::array<std::string_view, 5> words;
  const std::size_t count = call.words.size() - 2;
  for (std::size_t i = 0; i < count; ++i) words[i] = bytes_of(call.words[i + 2]);
  const auto asked = parse_throttle(form, {words.data(), count});
  if (!asked) return reply_error(call.context, asked.error());
  const auto limit = asked->limit();
  if (!limit) return reply_error(call.context, limit.error());
  const auto decision =
      decide_by_limit(workspace, call, 1, asked->verb(), {.limit = *limit, .cost = asked->cost()});
  if (!decision) return kOk;
  abi().ReplyWithArray(call.context, 5);
  for (const std::int64_t number : throttle_reply(form, *asked, *limit, *decision)) {
    abi().ReplyWithLongLong(call.context, number);
  }
  return kOk;
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

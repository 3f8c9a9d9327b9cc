#include <algorithm>
#include <string>
#include <vector>

#include "limiter/limit_arguments.h"
#include "module/commands.h"

// RL.LIMIT, RL.PEEK, RL.REFUND and RL.RESET: any limit in the arguments. The key is an argument, as
// it is.
namespace sluice::redis_module {
namespace {

// More words than these contain an option twice, or an unknown one.
constexpr std::size_t kMostWords = 3 + 32;

void reply_field(RedisModuleCtx* context, const DecisionField& field) {
  abi().ReplyWithStringBuffer(context, field.name.data(), field.name.size());
  if (field.number) {
    abi().ReplyWithLongLong(context, *field.number);
  } else if (field.text.empty()) {
    abi().ReplyWithNull(context);
  } else {
    abi().ReplyWithStringBuffer(context, field.text.data(), field.text.size());
  }
}

// `at` is the index of the key in the words.
int run_limit(Workspace& workspace, const CommandCall& call, Verb verb, std::size_t at) {
  const auto after_key = call.words.subspan(at + 1);
  std::vector<std::string_view> words;
  words.reserve(kMostWords);
  for (std::size_t i = 0; i < std::min(after_key.size(), kMostWords); ++i) {
    words.push_back(bytes_of(after_key[i]));
  }
  const auto asked = parse_limit({verb}, words);
  if (!asked) return reply_error(call.context, asked.error());
  if (holds_permits(asked->limit.algorithm())) {
    return reply_error(call.context, "algorithm: the module has no permits; sluice serve has");
  }
  const auto decision =
      decide_by_limit(workspace, call, at, verb, {.limit = asked->limit, .cost = asked->cost});
  if (!decision) return kOk;
  const auto fields = decision_fields(*decision, has_numbers(*decision));
  if (abi().ReplyWithMap != nullptr) {
    abi().ReplyWithMap(call.context, static_cast<long>(fields.size()));
  } else {
    abi().ReplyWithArray(call.context, static_cast<long>(2 * fields.size()));
  }
  for (const DecisionField& field : fields) reply_field(call.context, field);
  return kOk;
}

// The command has a form for rules in sluice serve.
int run_part(Workspace& workspace, const CommandCall& call, Verb verb) {
  if (!same_word(bytes_of(call.words[1]), "LIMIT")) {
    return reply_error(call.context, "there are no rules in the module; expected LIMIT");
  }
  return run_limit(workspace, call, verb, 2);
}

}  // namespace

int limit(Workspace& workspace, const CommandCall& call) {
  return run_limit(workspace, call, Verb::kTake, 1);
}
int peek(Workspace& workspace, const CommandCall& call) {
  return run_part(workspace, call, Verb::kPeek);
}
int refund(Workspace& workspace, const CommandCall& call) {
  return run_part(workspace, call, Verb::kRefund);
}
int reset(Workspace& workspace, const CommandCall& call) {
  return run_part(workspace, call, Verb::kReset);
}

}  // namespace sluice::redis_module

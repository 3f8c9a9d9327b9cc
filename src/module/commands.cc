#include "module/commands.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "limiter/answer.h"
#include "limiter/limit_arguments.h"
#include "module/decider.h"
#include "sluice/store.h"
#include "stores/redis/script/format.h"

// SLUICE.APPLY key... request: the request of a RedisStore, which gets the reply of the scripts.
namespace sluice::redis_module {
namespace {

namespace format = redis::format;

// The reply must be written before the change, which may overwrite the values that were found.
void append_found(std::string_view found, std::string& out) {
  format::kValueSize.append({found.size()}, out);
  out.append(found);
}

void append_reply(const Decider& decider, const Request& request, std::string& out) {
  out.clear();
  const auto now = static_cast<std::uint64_t>(decider.now());
  format::kInstant.append({decider.admits() ? now + format::kAdmits : now}, out);
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    const Outcome& outcome = decider.outcome(i);
    append_found(outcome.replaces_found ? outcome.reply : decider.key(i).value(), out);
  }
  for (std::size_t j = 0; j < request.blocks.size(); ++j) {
    const std::string_view found = decider.key(request.counters.size() + j).value();
    format::kValueSize.append({found.size() + 1}, out);
    out += '\1';  // it was written if it had to be
    out.append(found);
  }
}

int reply_window(RedisModuleCtx* context, const Decider& decider, const Request& request) {
  const Asked& asked = request.counters[decider.failed()];
  const std::string text = "WINDOW " + std::to_string(asked.windows->number) + " " +
                           std::to_string(decider.outcome(decider.failed()).at) + " " +
                           std::to_string(decider.now());
  return abi().ReplyWithSimpleString(context, text.c_str());
}

int reply_full(RedisModuleCtx* context, const Decider& decider) {
  std::string text = "STOREFULL";
  for (const std::size_t i : decider.new_counters()) text.append(" ").append(std::to_string(i + 1));
  return abi().ReplyWithSimpleString(context, text.c_str());
}

}  // namespace

std::string foreign_value_error(const Key& key) {
  constexpr std::size_t kShown = 64;
  std::string shown(key.name().substr(0, kShown));
  for (char& c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  if (key.name().size() > kShown) shown += "...";
  const bool is_string = key.is_string();
  return "FOREIGNVALUE " + shown + " holds " +
         (is_string ? "a value of another kind or version" : "another type");
}

int apply(Workspace& workspace, const CommandCall& call) {
  const auto keys = call.words.subspan(1, call.words.size() - 2);
  Request& request = workspace.request;
  Decider& decider = workspace.decider;
  if (keys.size() > 2 * kMaxCharges ||
      !read_request(bytes_of(call.words.back()), keys.size(), request)) {
    return abi().ReplyWithError(call.context,
                                "ERR the request is malformed, or of a later version");
  }
  if (!decider.open(call.context, keys)) {
    return abi().ReplyWithError(call.context, "ERR a key is given twice");
  }
  switch (decider.decide(request)) {
    case Decider::Result::kDecided: break;
    case Decider::Result::kForeign:
      return abi().ReplyWithError(call.context,
                                  foreign_value_error(decider.key(decider.failed())).c_str());
    case Decider::Result::kWindow: return reply_window(call.context, decider, request);
    case Decider::Result::kStoreFull: return reply_full(call.context, decider);
  }
  append_reply(decider, request, workspace.text);
  decider.write(request);
  return abi().ReplyWithStringBuffer(call.context, workspace.text.data(), workspace.text.size());
}

}  // namespace sluice::redis_module

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

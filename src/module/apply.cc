#include <algorithm>
#include <string>

#include "module/commands.h"
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

#pragma once

#include <optional>
#include <span>
#include <string>

#include "module/decider.h"
#include "sluice/decision.h"

namespace sluice::redis_module {

// What commands reuse from one call to the next. The server runs one command at a time.
struct Workspace {
  Request request;
  Decider decider;
  std::string text;
};

struct CommandCall {
  RedisModuleCtx* context;
  std::span<RedisModuleString*> words;  // the first is the name of the command
};

// A command. It may throw: the module answers with an error. Nothing may throw after a change.
using RunCommand = int (*)(Workspace& workspace, const CommandCall& call);

int apply(Workspace& workspace, const CommandCall& call);
int throttle_like_cell(Workspace& workspace, const CommandCall& call);
int throttle_like_crab(Workspace& workspace, const CommandCall& call);
int gcra(Workspace& workspace, const CommandCall& call);
int limit(Workspace& workspace, const CommandCall& call);
int peek(Workspace& workspace, const CommandCall& call);
int refund(Workspace& workspace, const CommandCall& call);
int reset(Workspace& workspace, const CommandCall& call);

// Decides by one limit at the time of the server, and writes the change. `at` is the index of the
// key in the words. Returns nothing if the reply has become an error.
std::optional<Decision> decide_by_limit(Workspace& workspace, const CommandCall& call,
                                        std::size_t at, Verb verb, const Asked& asked);

// Replies "ERR " and why.
int reply_error(RedisModuleCtx* context, const std::string& why);

// Returns the error of a key that holds something else.
std::string foreign_value_error(const Key& key);

}  // namespace sluice::redis_module

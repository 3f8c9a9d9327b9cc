#pragma once

#include <span>
#include <string>

#include "module/decider.h"

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

// Returns the error of a key that holds something else.
std::string foreign_value_error(const Key& key);

}  // namespace sluice::redis_module

#include <array>
#include <exception>

#include "module/abi.h"
#include "module/commands.h"

// The entry of the module: its commands, and what no exception may pass.
namespace sluice::redis_module {
namespace {

constexpr int kVersion = 1;

struct CommandRow {
  const char* name;
  RunCommand run;
  std::size_t least;  // words, with the name
  std::size_t most;   // 0: any number
  int first_key = 1;
  int last_key = 1;
};

constexpr std::array kCommands = {
    CommandRow{"sluice.apply", apply, 3, 0, 1, -2},
    CommandRow{"cl.throttle", throttle_like_cell, 5, 6},
    CommandRow{"rl.throttle", throttle_like_cell, 5, 6},
    CommandRow{"throttle", throttle_like_crab, 5, 6},
    CommandRow{"gcra", gcra, 5, 7},
    CommandRow{"rl.limit", limit, 5, 0},
    CommandRow{"rl.peek", peek, 6, 0, 2, 2},
    CommandRow{"rl.refund", refund, 6, 0, 2, 2},
    CommandRow{"rl.reset", reset, 6, 0, 2, 2},
};

// The server stays up whatever happens here: without memory the command fails, and has changed
// nothing.
int run(const CommandRow& command, RedisModuleCtx* context, RedisModuleString** words,
        int count) noexcept try {
  static Workspace workspace;
  const auto size = static_cast<std::size_t>(count);
  if (size < command.least || (command.most > 0 && size > command.most)) {
    return abi().WrongArity(context);
  }
  struct CloseKeys {
    ~CloseKeys() { workspace.decider.close(); }
  } close_keys;
  return command.run(workspace, {context, {words, size}});
} catch (const std::exception& error) {
  return abi().ReplyWithError(context, "ERR sluice has no memory for this command");
}

template <std::size_t I>
int command(RedisModuleCtx* context, RedisModuleString** words, int count) {
  return run(kCommands[I], context, words, count);
}

template <std::size_t I = 0>
bool create_commands(RedisModuleCtx* context) {
  if constexpr (I < kCommands.size()) {
    const CommandRow& row = kCommands[I];
    constexpr const char* kFlags = "write deny-oom fast";
    // A server may have its own command of that name, such as GCRA, or another module's.
    const bool is_made = abi().CreateCommand(context, row.name, command<I>, kFlags, row.first_key,
                                             row.last_key, 1) == kOk;
    if (!is_made && I == 0) return false;
    if (is_made && abi().GetCommand != nullptr && abi().SetCommandACLCategories != nullptr) {
      RedisModuleCommand* const made = abi().GetCommand(context, row.name);
      if (made != nullptr) abi().SetCommandACLCategories(made, "sluice write fast");
    }
    return create_commands<I + 1>(context);
  }
  return true;
}

int on_load(RedisModuleCtx* context) {
  if (!load_abi(context) || abi().IsModuleNameBusy("sluice") != 0) return kError;
  abi().SetModuleAttribs(context, "sluice", kVersion, kAbiVersion);
  if (abi().SetModuleOptions != nullptr && abi().SignalModifiedKey != nullptr) {
    abi().SetModuleOptions(context, kSignalsChanges);
  }
  if (abi().AddACLCategory != nullptr) abi().AddACLCategory(context, "sluice");
  return create_commands(context) ? kOk : kError;
}

}  // namespace

// The functions that the server finds by their names.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" [[gnu::visibility("default")]] int RedisModule_OnLoad(RedisModuleCtx* context,
                                                                 RedisModuleString** /*words*/,
                                                                 int /*count*/) {
  return on_load(context);
}

// Refuses. Redis 8 keeps the last command of each client, and would call it after MODULE UNLOAD.
extern "C" [[gnu::visibility("default")]] int RedisModule_OnUnload(RedisModuleCtx* /*context*/) {
  return kError;
}
// NOLINTEND(readability-identifier-naming)

}  // namespace sluice::redis_module

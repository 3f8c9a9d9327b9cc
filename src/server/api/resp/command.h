#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "limiter/limit_arguments.h"
#include "server/protocol/resp/client.h"
#include "server/protocol/resp/reply.h"

namespace sluice::server::resp {

class CommandHandler;

// A request that is being answered. Its first argument is the command's name.
struct Call {
  std::span<const std::string_view> arguments;
  Client& client;
  Reply& reply;
};

// A command, or a part of one. COMMAND and docs/commands.md report these values.
struct Command {
  using Handle = void (*)(CommandHandler& handler, const Call& call);

  std::string_view name;      // lower case
  std::size_t least;          // arguments, including the name (and the part's name)
  std::size_t most;           // 0: any number
  Role role;                  // the least role that may call it
  std::string_view synopsis;  // the arguments after the name
  std::string_view summary;   // one sentence
  std::string_view group;
  Handle handle;  // null: only its parts can be called
  std::span<const Command> parts = {};
  bool has_key = false;        // the first argument after the name
  bool writes = false;         // may change a counter
  std::string_view text = {};  // more text for docs/commands.md
};

// Returns all commands in the order of their reference.
std::span<const Command> all_commands() noexcept;

// The command that a request names.
struct Found {
  const Command* command = nullptr;  // null: there is no command of that name
  const Command* part = nullptr;     // null: the command itself
  bool no_such_part = false;
};
Found find_command(std::span<const std::string_view> arguments) noexcept;
// Finds a command by its name, or by "client|setname".
Found find_command(std::string_view name) noexcept;

// Returns "client|setname".
std::string full_name(const Found& found);
// Returns the number of arguments as Redis reports it: exact, or, if negative, the minimum.
std::int64_t arity(const Command& command) noexcept;

// Returns the text of docs/commands.md.
std::string commands_page();

}  // namespace sluice::server::resp

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "server/protocol/resp/client.h"
#include "server/protocol/resp/reply.h"

namespace sluice::server::resp {

class CommandHandler;

// A request that is being answered. The first argument is the command's name.
struct Call {
  std::span<const std::string_view> arguments;
  Client& client;
  Reply& reply;
};

// A command, or a part of one: what is said of it here is what COMMAND and docs/commands.md say.
struct Command {
  using Handle = void (*)(CommandHandler& handler, const Call& call);

  std::string_view name;      // lower case
  std::size_t least;          // arguments, the name (and the part's) among them
  std::size_t most;           // 0: any number
  Role role;                  // the least that may
  std::string_view synopsis;  // what follows the name
  std::string_view summary;   // a sentence
  std::string_view group;
  Handle handle;  // null: only its parts can be asked for
  std::span<const Command> parts = {};
  bool has_key = false;        // the first argument behind the name
  bool writes = false;         // may change a counter
  std::string_view text = {};  // more of it, for docs/commands.md
};

// All commands, in the order of their reference.
std::span<const Command> all_commands() noexcept;

// What a request asks for.
struct Found {
  const Command* command = nullptr;  // null: there is none of that name
  const Command* part = nullptr;     // null: the command itself
  bool no_such_part = false;
};
Found find_command(std::span<const std::string_view> arguments) noexcept;
// Of a command's name, or "client|setname".
Found find_command(std::string_view name) noexcept;

// Whether two words are the same: ASCII letters count in either case.
bool same_word(std::string_view a, std::string_view b) noexcept;

// "client|setname".
std::string full_name(const Found& found);
// The number of arguments as Redis tells it: exactly that, or if negative, at least that.
std::int64_t arity(const Command& command) noexcept;

// docs/commands.md.
std::string commands_page();

}  // namespace sluice::server::resp

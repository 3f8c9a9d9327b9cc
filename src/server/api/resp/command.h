#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limiter/limit_arguments.h"
#include "server/protocol/resp/client.h"
#include "server/protocol/resp/reply.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/limit.h"

namespace sluice::server::resp {

// Returns the number. If it is invalid, writes an error that names the argument and returns
// nothing.
std::optional<std::int64_t> read_number(std::string_view text, const NumberArgument& argument,
                                        Reply& reply);

// Returns an argument as errors show it: in quotes and truncated.
std::string shown(std::string_view argument);

// The number of pairs that put_decision() writes into a map: see decision_fields().
inline constexpr std::size_t kDecisionPairs = 7;
void put_decision(Reply& reply, const Limit& limit, const Decision& decision);
void put_decision(Reply& reply, const Decision& decision, bool numbers, bool is_ever_full);

// One argument of a synopsis.
struct SynopsisPart {
  std::string_view name;
  std::string_view token;  // the word before it, if there is one: COST
  bool optional = false;
  bool multiple = false;
};

// Reads the synopsis of a command's arguments: `name`, `[name]`, `[TOKEN name]`, each followed by
// `...` if it may be repeated.
std::vector<SynopsisPart> read_synopsis(std::string_view synopsis);

class CommandHandler;

struct Command;

// A request that is being answered. Its first argument is the command's name.
struct Call {
  const Command& command;
  std::span<const std::string_view> arguments;
  std::size_t first;  // the argument after the name of the command, or of its part
  Client& client;
  Reply& reply;
};

// Answers a request for a command.
using Run = void(CommandHandler& handler, const Call& call);

// A command, or a part of one. COMMAND and docs/reference/commands.md report these values.
struct Command {
  std::string_view name = {};      // lower case
  std::size_t least = 0;           // arguments, including the name (and the part's name)
  std::size_t most = 0;            // 0: any number
  Role role = Role::kCheck;        // the least role that may call it
  std::string_view synopsis = {};  // the arguments after the name
  std::string_view summary = {};   // one sentence
  std::string_view group = {};
  Run* handle = nullptr;  // null: only its parts can be called
  std::span<const Command> parts = {};
  bool is_part = false;
  bool has_key = false;   // the first argument after the name
  bool writes = false;    // may change a counter
  CounterVerb verb = {};  // of a command that decides
};

// Returns all commands in the order of their reference.
std::span<const Command> all_commands() noexcept;

// Returns the command that a request names, or the part of one. Null: there is none. If a command
// has no such part, returns the command.
const Command* find_command(std::span<const std::string_view> arguments) noexcept;
// Finds a command by its name, or a part by "client|setname".
const Command* find_command(std::string_view name) noexcept;

// Returns "client|setname".
std::string full_name(const Command& command);
// Returns the number of arguments as Redis reports it: exact, or, if negative, the minimum.
std::int64_t arity(const Command& command) noexcept;

// Returns the heading, the syntax, the summary and the role of a command in Markdown, as they stand
// in docs/reference/commands.md, and those of all commands.
std::string reference(const Command& command);
std::string commands_reference();

}  // namespace sluice::server::resp

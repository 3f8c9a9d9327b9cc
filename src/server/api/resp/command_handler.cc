#include "server/api/resp/command_handler.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/quoted.h"
#include "core/decision.h"
#include "server/api/resp/command.h"
#include "server/logging/log_line.h"
#include "sluice/clock.h"

namespace sluice::server::resp {
namespace {

constexpr std::size_t kLongestName = 64;

std::string name_of(std::span<const std::string_view> request) {
  const Command* const found = find_command(request);
  return found != nullptr ? full_name(*found) : cut(request[0], kLongestName);
}

// Returns the first word of an error.
std::string_view status_of(std::string_view reply) {
  if (!reply.starts_with('-')) return "ok";
  return reply.substr(1, reply.find_first_of(" \r") - 1);
}

// Returns the address without its port, as the other front ends log it. Returns an empty text for a
// Unix socket.
std::string_view host_of(std::string_view peer) {
  std::string_view host = peer.substr(0, peer.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host.find_first_of("/@") == host.npos ? host : std::string_view();
}

}  // namespace

void log_access(Log& log, const Client& client, std::span<const std::string_view> request,
                std::string_view reply, std::optional<Outcome> outcome,
                std::chrono::nanoseconds took) noexcept {
  try {
    const std::string name = name_of(request);
    std::vector<LogField> fields;
    fields.emplace_back("command", name);
    fields.emplace_back("status", status_of(reply));
    if (outcome) fields.emplace_back("outcome", core::wire_outcome(*outcome));
    fields.emplace_back("peer", host_of(client.peer));
    if (client.user != nullptr) fields.emplace_back("user", std::string_view(client.user->name));
    fields.emplace_back("duration_us", std::chrono::floor<Duration>(took).count());
    fields.emplace_back("front_end", std::string_view("resp"));
    log.write_all(LogLevel::kInfo, "request", fields);
  } catch (...) {  // out of memory: the line is lost
  }
}

namespace {

// The most bytes of an unknown word that an error repeats, as in Redis.
constexpr std::size_t kMostShown = 128;

// Returns a word as printf() would print it, up to a NUL byte.
std::string_view shown_part(std::string_view word, std::size_t most = kMostShown) {
  return word.substr(0, std::min(word.find('\0'), most));
}

void refuse_unknown(std::span<const std::string_view> request, Reply& reply) {
  std::string words;
  for (const std::string_view word : request.subspan(1)) {
    if (words.size() >= kMostShown) break;
    const std::string_view shown = shown_part(word, kMostShown - words.size());
    words.append("'").append(shown).append("' ");
  }
  reply.error("ERR unknown command '" + std::string(shown_part(request[0])) +
              "', with args beginning with: " + words);
}

void put_help(const Command& command, Reply& reply) {
  const std::string name = base::upper_case(command.name);
  reply.array(3 + 2 * command.parts.size());
  reply.simple(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const Command& part : command.parts) {
    std::string line = base::upper_case(part.name);
    if (!part.synopsis.empty()) line.append(" ").append(part.synopsis);
    reply.simple(line);
    reply.simple("    " + std::string(part.summary));
  }
  reply.simple("HELP");
  reply.simple("    Prints this help.");
}

void refuse_part(const Command& command, std::span<const std::string_view> request, Reply& reply) {
  const std::string name = base::upper_case(command.name);
  reply.error("ERR unknown subcommand '" + std::string(shown_part(request[1])) + "'. Try " + name +
              " HELP.");
}

// Returns whether the request may be executed. If not, the reply has the reason.
bool may_pass(const Command& command, std::span<const std::string_view> request,
              const Client& client, Reply& reply) {
  const std::size_t count = request.size();
  const bool fits = count >= command.least && (command.most == 0 || count <= command.most);
  if (!fits || command.handle == nullptr) {
    reply.error("ERR wrong number of arguments for '" + full_name(command) + "' command");
    return false;
  }
  if (client.role >= command.role) return true;
  if (client.role == Role::kNobody) {
    reply.error("NOAUTH Authentication required.");
  } else {
    reply.error("NOPERM this user has no permissions to run the '" + full_name(command) +
                "' command");
  }
  return false;
}

}  // namespace

bool CommandHandler::may_take(const Call& call, std::uint64_t units) const {
  if (units <= 1 || !parts.on_network || call.client.role >= Role::kOperate) return true;
  call.reply.error(
      "NOPERM this user may take only one unit at a time, because other machines reach this "
      "listener; expected a user with the role operate");
  return false;
}

bool CommandHandler::waits() const noexcept {
  return parts.run_elsewhere && request.size() > 1 && same_word(request[0], "rl.override") &&
         !same_word(request[1], "get");
}

void CommandHandler::answer(Client& client) {
  if (parts.access_log == nullptr) return run_command(client);
  const std::size_t begin = output.size();
  const net::SteadyTime begun = parts.clock.now();
  outcome.reset();
  run_command(client);
  log_access(*parts.access_log, client, request, output.view().substr(begin), outcome,
             parts.clock.now() - begun);
}

// Most requests repeat the command of the one before.
const Command* CommandHandler::find() {
  if (request[0] == last_name_) return last_;
  const Command* const found = find_command(request);
  if (found != nullptr && found->parts.empty() && !found->is_part) {
    last_name_ = request[0];
    last_ = found;
  }
  return found;
}

void CommandHandler::run_command(Client& client) {
  Reply reply(output, client.protocol);
  const Command* const command = find();
  if (command == nullptr) return refuse_unknown(request, reply);
  if (!command->parts.empty() && request.size() > 1) {  // it has no such part
    const bool help = request.size() == 2 && same_word(request[1], "help");
    if (help && client.role != Role::kNobody) return put_help(*command, reply);
    return refuse_part(*command, request, reply);
  }
  if (!may_pass(*command, request, client, reply)) return;
  command->handle(*this, {*command, request, command->is_part ? 2U : 1U, client, reply});
}

}  // namespace sluice::server::resp

#include "server/api/resp/access_line.h"

#include <string>
#include <vector>

#include "core/decision.h"
#include "server/api/resp/command.h"
#include "server/logging/log_line.h"
#include "sluice/clock.h"

namespace sluice::server::resp {
namespace {

constexpr std::size_t kLongestName = 64;

std::string name_of(std::span<const std::string_view> request) {
  const Found found = find_command(request);
  return found.command != nullptr ? full_name(found) : cut(request[0], kLongestName);
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

void log_access(Log& log, const Answered& answered) noexcept {
  try {
    const std::string name = name_of(answered.request);
    const Client& client = answered.client;
    std::vector<LogField> fields;
    fields.emplace_back("command", name);
    fields.emplace_back("status", status_of(answered.reply));
    if (answered.outcome) fields.emplace_back("outcome", core::wire_outcome(*answered.outcome));
    fields.emplace_back("peer", host_of(client.peer));
    if (client.user != nullptr) fields.emplace_back("user", std::string_view(client.user->name));
    fields.emplace_back("duration_us", std::chrono::floor<Duration>(answered.took).count());
    fields.emplace_back("front_end", std::string_view("resp"));
    log.write_all(LogLevel::kInfo, "request", fields);
  } catch (...) {  // out of memory: the line is lost
  }
}

}  // namespace sluice::server::resp

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "insight/top_keys.h"
#include "limiter/limit_arguments.h"
#include "server/api/resp/command.h"
#include "server/decide/named_attributes.h"
#include "server/decide/session.h"
#include "server/logging/log.h"
#include "server/net/loop_clock.h"
#include "server/protocol/resp/client.h"
#include "server/protocol/resp/connection.h"
#include "server/rules/server_overrides.h"
#include "sluice/decision.h"
#include "sluice/limit.h"

namespace sluice::server::resp {

// Writes a line "request" about an answered request, with these fields: command (with its part, if
// it has parts; for an unknown command, the client's word); status, which is "ok" or the first word
// of the error; outcome, if there was a decision; peer, unless it is a Unix socket; user;
// duration_us; front_end. Does not write arguments, which may be passwords. Only the denial log has
// keys.
void log_access(Log& log, const Client& client, std::span<const std::string_view> request,
                std::string_view reply, std::optional<Outcome> outcome,
                std::chrono::nanoseconds took) noexcept;

// The Redis version whose protocol and errors the front end follows, as HELLO and INFO report it.
// Some clients choose their commands by it.
inline constexpr std::string_view kRedisVersion = "7.0.15";

// Answers requests: finds the command, checks that the client may use it, and calls its function.
//
// There is one for each event loop. If the store may wait, there is one for each client that is
// being answered. Ownership: borrows all parts. Cost: allocates nothing once its buffers have
// grown, unless a request is refused.
class CommandHandler final : public Handler {
 public:
  // What the commands use.
  struct Parts {
    Session::Parts session;
    const Users& users;
    const net::LoopClock& clock;
    // INFO and HELLO report these. `connections`: open, of this front end, in all loops.
    std::string_view version;
    net::SteadyTime started;
    const std::atomic<std::size_t>& connections;
    Log* access_log = nullptr;                   // if each request is logged
    bool on_network = false;                     // other machines reach the listener
    ServerOverrides* overrides = nullptr;        // null: there are none
    std::function<redis::Client*()> redis = {};  // of the loop; empty: no Redis
    const insight::TopKeys* top_keys = nullptr;  // null: keys are not counted
    // Runs work that blocks in another thread, while the fiber waits; empty: changes of overrides
    // do not block.
    std::function<void(const std::function<void()>&)> run_elsewhere = {};
  };
  explicit CommandHandler(const Parts& given) : parts(given), session(given.session) {}
  CommandHandler(const CommandHandler&) = delete;
  CommandHandler& operator=(const CommandHandler&) = delete;

  void answer(Client& client) override;
  bool waits() const noexcept override;
  void follow_rules() override { session.follow_rules(); }

  // Returns whether the client may take that many units at once. If not, replies with the reason.
  bool may_take(const Call& call, std::uint64_t units) const;

  std::optional<Outcome> outcome;  // of the current request's decision

  // The members below are for the commands.
  const Parts parts;
  Session session;
  // The latest limits of CL.THROTTLE. The place of one follows from its numbers.
  std::array<std::optional<std::pair<ThrottleArguments, Limit>>, 64> limits;
  NamedAttributes attributes;           // of RL.CHECK
  std::vector<LimitCost> costs;         // of RL.CHECK
  std::vector<LimitCost> actual_costs;  // of RL.SETTLE
  std::string text;                     // names of attributes whose spelling changes

 private:
  const Command* find();
  void run_command(Client& client);

  std::string last_name_;          // as the client wrote it
  const Command* last_ = nullptr;  // the command of that name; it has no parts
};

// The functions of the commands, by group.
namespace commands {

Run throttle, throttle_like_crab, gcra;
Run check, limit;  // by rules and by a limit in the arguments, with the verb of the command
Run release, extend;
Run set_override, unset_override, get_override;
Run block, unblock;
Run top;
// Reads "attribute value [attribute value]..." into the handler's attributes. Returns false if the
// reply has become an error.
bool read_attributes(std::span<const std::string_view> words, CommandHandler& handler,
                     Reply& reply);

Run hello, auth, ping, echo, select, reset, quit;
Run client_getname, client_id, client_info, client_setinfo, client_setname;
Run client_switch;  // NO-EVICT and NO-TOUCH
Run command, command_count, command_docs, command_info;
Run info;

}  // namespace commands

}  // namespace sluice::server::resp

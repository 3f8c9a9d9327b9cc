#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "server/config/config.h"
#include "sluice/expected.h"

namespace sluice::server {

// How the file descriptors of the process are divided.
struct DescriptorPlan {
  struct Needs {
    std::size_t limit;  // of the process
    std::size_t open;   // before the first connection
    std::size_t loops;
    bool redis;               // the loops connect to Redis
    std::size_t connections;  // the sum of the listeners' maximums
    bool chosen = false;      // the maximums were configured
  };
  std::size_t connections;  // that the descriptors suffice for
  std::size_t reserve;      // the part of them that is for administration only
  // If the listeners together may need more than few connections, or than were asked for; or empty.
  std::string warning;
};
DescriptorPlan plan_descriptors(const DescriptorPlan::Needs& needs);

// Raises the soft limit of open files to the hard limit. Returns the limit.
std::size_t raise_descriptor_limit() noexcept;
// Returns how many descriptors are open, or 0 if /proc is not mounted.
std::size_t count_open_descriptors();

inline constexpr int kLostAtEnd = 1;
// A service manager must not start it again (RestartPreventExitStatus in sluice.service): it would
// take over from its successor, which would lose its counters as well, and so on.
inline constexpr int kLostAtHandover = 3;

// `sluice serve`: the listeners, their event loops, the rules and their reloading, and the
// shutdown. Reads the rules, listens, calls `on_ready`, and serves until a signal ends the server.
// Returns the exit status: 0; or if counters, the ledger or overrides were not saved, which the log
// explains, kLostAtEnd, or kLostAtHandover if another server has taken over. Errors: why it did not
// start, one line for each problem.
//
// `ready_line` is "ready http=127.0.0.1:8080 grpc=off resp=off admin=127.0.0.1:6070". `hint` is
// what to know and to try if no rules were given; else an empty text.
//
// SIGTERM, SIGINT and SIGPWR start draining: the server accepts no new connections and answers the
// requests that it has accepted. A second signal ends the server at once. SIGHUP reads the rules,
// the token and the certificates again. SIGUSR1, SIGUSR2, SIGALRM, SIGIO, SIGPROF, SIGVTALRM and
// the real-time signals are logged and have no effect; SIGXFSZ is ignored, so that a write to a
// file that is as long as it may be fails. Call it once at a time, because it handles the process's
// signals.
Expected<int> serve(
    const Config& config,
    const std::function<void(const std::string& ready_line, const std::string& hint)>& on_ready);

}  // namespace sluice::server

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/clock.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"

namespace sluice::server {

// The blocks of rules that hold now, or some of them, in no order.
struct HeldBlocks {
  std::vector<BlockedKey> blocks;
  bool more = false;  // whether there may be others
};

// An outage that is over. A plain value.
struct PastOutage {
  Instant from{}, to{};
  std::string why = {};
};

// What GET /v1/status reports about the store.
struct StoreStatus {
  std::string kind = {};     // "memory" or "redis"
  std::string address = {};  // its URL without passwords; empty for memory
  std::vector<std::pair<std::string, std::uint64_t>> numbers = {};  // {"keys", 12}, ...
  // Set while it cannot decide; then the policies of the rules do. And why, with the address.
  std::optional<Instant> failing_since = {};
  std::string why_failing = {};
  // Set while it decides, but slowly: see SlowRequests.
  std::optional<Instant> slow_since = {};
  std::string why_slow = {};
  std::string warning = {};                    // empty: none
  std::optional<Instant> full_since = {};      // set while it takes no new counters
  std::optional<PastOutage> last_outage = {};  // since the start of the server
};

}  // namespace sluice::server

namespace sluice::redis {
class Client;
}

namespace sluice::server {

// The stores of one event loop that wait for something outside the process. Their apply() suspends
// the fiber that calls it (net::FiberWait), so that the loop can serve other requests meanwhile.
// The store's deadline ends each wait.
//
// Thread-safety: the loop's thread only, except for construction and destruction.
class LoopStores {
 public:
  virtual ~LoopStores() = default;
  // Decides for rules.
  virtual Limiter& limiter() = 0;
  // Decides for shadow rules, and for `on_store_error: local`; see RuleStores.
  virtual Store* shadow() = 0;
  virtual Store* local() = 0;
  // The connection to Redis for other commands; null if there is none. After stop(), they fail.
  virtual redis::Client* redis() { return nullptr; }
  // Asks a store that failed whether it works again, if it is time to; does not wait. Call it
  // often.
  virtual void probe() noexcept {}
  // Ends every wait before it returns. From then on nothing waits: every request fails at once.
  virtual void stop() = 0;
};

}  // namespace sluice::server

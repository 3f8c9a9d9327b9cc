#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sluice/expected.h"
#include "sluice/store.h"
#include "sluice/store_events.h"

namespace sluice {

// How a Redis or Valkey server is reached and used.
struct RedisOptions {
  // redis://[user:password@]host[:port][/db]         TCP
  // rediss://...                                     TLS
  // redis+unix://[user:password@]/path/to.sock[?db=n]
  // redis+sentinel://[user:password@]host:port,host:port,.../master[/db]
  // redis+cluster://[user:password@]host:port,host:port,...
  // Sentinel and cluster over TLS: rediss+sentinel://, rediss+cluster://.
  std::string url = "redis://127.0.0.1:6379";
  // Set: in the place of the URL's, so that a URL may be shown to anybody.
  std::string username = {};
  std::string password = {};
  std::string sentinel_username = {};  // of the Sentinels themselves
  std::string sentinel_password = {};

  std::string tls_ca_file = {};    // empty: the system's authorities
  std::string tls_cert_file = {};  // of this client, PEM; with tls_key_file
  std::string tls_key_file = {};
  std::string tls_server_name = {};  // for SNI and verification; empty: the host's name
  bool tls_verify = true;            // off: any certificate will do, and anybody can listen in

  // Before every key. Programs that share it share their counters.
  std::string prefix = "sluice:";
  // The longest that a request waits for its answer, connecting included.
  std::chrono::milliseconds deadline{50};
  std::chrono::milliseconds connect_timeout{1'000};
  // Between attempts to connect: from the first to the second, doubling, each drawn at random from
  // half of it to all of it.
  std::chrono::milliseconds first_backoff{20};
  std::chrono::milliseconds longest_backoff{2'000};
  // Requests that may be under way on one connection; one more is refused at once.
  std::size_t max_pending = 16'384;
  // 3, or 2 for servers and proxies that speak nothing newer; 0: 3 where the server does.
  int protocol = 0;
  // False: no scripts (see docs/state-format.md for what that gives up). Only fixed windows that
  // are aligned to the clock and sliding window counters; others are `Reason::kInvalid`.
  bool scripting = true;
  // How long a counter is kept that is decided at a stated instant: it must not expire by the
  // server's clock.
  std::chrono::milliseconds stated_expiry = std::chrono::hours{24};
};

struct RedisStoreStats {
  std::uint64_t requests = 0;      // asked of the server
  std::uint64_t timeouts = 0;      // without an answer by the deadline
  std::uint64_t errors = 0;        // refused, unreachable, or answered with an error
  std::uint64_t connects = 0;      // connections made
  std::uint64_t scripts_sent = 0;  // scripts that the server did not know
  std::uint64_t redirects = 0;     // MOVED and ASK
  // Requests asked slot by slot (docs/operations.md), or without scripts, that were undone.
  std::uint64_t gave_back = 0;
  std::size_t connected = 0;  // connections that are ready now
  std::size_t pending = 0;    // requests under way
};

// Counters in Redis or Valkey, shared by all that use the same server and prefix.
//
// Every request is one script call, one round trip: all of its limits are checked, then all are
// taken, at the server's time. On a Redis Cluster that holds for the limits that share a slot (see
// Charge::tag); others are asked slot by slot, and given back where one denies.
// A request without an answer by the deadline is `kStoreTimeout`: it may have been counted, and is
// never repeated. One that could not be asked, or was answered with an error, is `kStoreError`, and
// one on a key that holds something else `kForeignValue`: nothing was counted. Put a
// FailurePolicyStore around it to answer for these.
//
// Thread-safety: any member from any thread. Requests of many threads leave in one write.
// Ownership: borrows the observer; has a thread of its own. Cost: a round trip; the caller sleeps
// meanwhile. Reconnects by itself, with jittered backoff. Needs Redis 6 or newer, or Valkey.
// Destroying it ends what is under way: those who wait in it are answered first, with kStoreError
// or kStoreTimeout.
class RedisStore final : public Store {
 public:
  // Errors: a URL or an option that is wrong, with what would be right; files that cannot be read.
  // A server that is not there is no error: it is connected to when it is.
  static Expected<std::unique_ptr<RedisStore>> open(const RedisOptions& options,
                                                    StoreObserver* observer = nullptr);
  ~RedisStore() override;
  RedisStore(const RedisStore&) = delete;
  RedisStore& operator=(const RedisStore&) = delete;

  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;

  // Waits until the server can be asked. Errors: why not, as far as is known.
  Expected<bool> wait_until_ready(std::chrono::milliseconds at_most);

  RedisStoreStats stats() const;

 private:
  class Impl;
  explicit RedisStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

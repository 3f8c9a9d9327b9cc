#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sluice/expected.h"
#include "sluice/store.h"

namespace sluice {

// Whether a store uses Sluice's module (sluice.so). kAuto: where the server has it, and scripts
// elsewhere. Both use the same counters, so programs may differ.
enum class ModuleUse : std::uint8_t { kAuto, kOff };

// How to reach and use a Redis or Valkey server.
struct RedisOptions {
  // redis://[user:password@]host[:port][/db]         TCP
  // rediss://...                                     TLS
  // redis+unix://[user:password@]/path/to.sock[?db=n]
  // redis+sentinel://[user:password@]host:port,host:port,.../master[/db]
  // redis+cluster://[user:password@]host:port,host:port,...
  // Sentinel and cluster over TLS: rediss+sentinel://, rediss+cluster://.
  std::string url = "redis://127.0.0.1:6379";
  // If set, these are used instead of the URL's, so that the URL contains no secret.
  std::string username = {};
  std::string password = {};
  std::string sentinel_username = {};  // for the Sentinels themselves
  std::string sentinel_password = {};

  std::string tls_ca_file = {};    // empty: the system's certificate authorities
  std::string tls_cert_file = {};  // the client's certificate, PEM; together with tls_key_file
  std::string tls_key_file = {};
  std::string tls_server_name = {};  // for SNI and verification; empty: the host name
  bool tls_verify = true;            // false: accepts any certificate, so that others can listen in

  // The beginning of every key. Programs with the same prefix share their counters.
  std::string prefix = "sluice:";
  // The maximum time that a request waits for its answer, including the time to connect.
  std::chrono::milliseconds deadline{50};
  // The maximum time to connect, with TLS and the handshake.
  std::chrono::milliseconds connect_timeout{1'000};
  // The wait after a failed attempt to connect. It doubles from `first_backoff` to
  // `longest_backoff`; the client waits a random time between half of it and all of it.
  std::chrono::milliseconds first_backoff{20};
  std::chrono::milliseconds longest_backoff{2'000};
  // The maximum number of requests under way on one connection. One more is refused at once.
  std::size_t max_pending = 16'384;
  // The version of RESP: 3, 2 for servers and proxies that speak nothing newer, or 0 for 3 if the
  // server speaks it.
  int protocol = 0;
  // False: the store uses no scripts (docs/reference/state-format.md describes what is lost). It
  // then supports fixed windows aligned to the clock and sliding window counters; others are
  // `Reason::kInvalid`.
  bool scripting = true;
  // Whether requests are commands of Sluice's module, which take less of the server's time. Without
  // `scripting` the module is not used either.
  ModuleUse module = ModuleUse::kAuto;
  // How long to keep a counter that is decided at an explicit timestamp: it must not expire by the
  // server's clock.
  std::chrono::milliseconds explicit_timestamp_expiry = std::chrono::hours{24};
  // Budgets: about how many changes of each key its ledger keeps (docs/reference/state-format.md),
  // at most 2^32 - 1; 0: there is no ledger. Only with `scripting`.
  std::uint64_t ledger_keep = 0;
};

// Counts of a RedisStore since it was opened, and its state now.
struct RedisStoreStats {
  std::uint64_t requests = 0;      // commands sent to the server
  std::uint64_t timeouts = 0;      // commands without an answer by the deadline
  std::uint64_t errors = 0;        // commands refused, unreachable, or answered with an error
  std::uint64_t connects = 0;      // connections made
  std::uint64_t scripts_sent = 0;  // scripts that the server did not know
  std::uint64_t redirects = 0;     // MOVED and ASK
  // Requests slot by slot (docs/operations.md) or without scripts that were undone.
  std::uint64_t gave_back = 0;
  std::size_t connected = 0;  // connections that are ready now
  std::size_t pending = 0;    // commands under way now
};

// Counters in Redis or Valkey, shared by all programs that use the same server and prefix.
//
// Each request is one script call and one round trip: the script checks all limits, then charges
// all of them, at the server's time. On a Redis Cluster this holds for limits that share a slot
// (see Charge::tag). Other limits are asked slot by slot, or key by key while their slot moves, and
// units are given back if one denies.
//
// A request without an answer by the deadline is `kStoreTimeout`: it may have been counted, and is
// never repeated. A request that could not be sent, or was answered with an error, is
// `kStoreError`; one on a key that contains something else is `kForeignValue`; one that needs a new
// counter while the server's memory is full (`maxmemory`), or needs several keys of budgets whose
// slot moves, is `kStoreFull`. In these cases nothing was counted. RedisChain (redis_chain.h) adds
// a failure policy for these.
//
// apply() sleeps until the answer arrives. async_apply() returns at once, so that a few threads can
// have thousands of requests under way: `done()` is called in the store's thread, or before
// async_apply() returns if the request is kInvalid. Both use the same connection.
//
// Thread-safety: any member from any thread; requests of several threads leave in one write.
// Ownership: owns a thread; borrows the observer. Cost: a round trip, during which the caller
// sleeps. It reconnects with a random backoff. Needs Redis 6 or newer, or Valkey. The destructor
// ends the requests that are under way with kStoreError or kStoreTimeout, and waits for their
// callers and completions. A process that was forked off after open() gets kStoreError for each
// request: it must open a store of its own.
class RedisStore final : public Store, public AsyncStore {
 public:
  // Does not wait for the server: the store connects when it can. Errors: a URL or an option that
  // is wrong, with what would be right, or a file that cannot be read.
  static Expected<std::unique_ptr<RedisStore>> open(const RedisOptions& options,
                                                    StoreObserver* observer = nullptr);
  ~RedisStore() override;
  RedisStore(const RedisStore&) = delete;
  RedisStore& operator=(const RedisStore&) = delete;

  // See Store.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  // See AsyncStore.
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override;

  // Waits until the server can be asked. Errors: why it cannot, as far as is known.
  Status wait_until_ready(std::chrono::milliseconds at_most);

  // Returns the counts now.
  RedisStoreStats stats() const;

 private:
  class Impl;
  explicit RedisStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

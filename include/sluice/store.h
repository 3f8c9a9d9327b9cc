#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/verb.h"

namespace sluice {

class Block;
class NewKeyLimit;
class PermitId;

// Separates the counters of rules from those of all other callers: whatever key a caller chooses,
// it does not name a counter of a rule.
enum class Keyspace : std::uint8_t {
  kCallers,  // the request brings its own limit: library calls, guards, RL.LIMIT, CL.THROTTLE
  kRules,    // the limit is that of a rule, or of Envoy's configuration
};

// What rules add to a charge of theirs. A plain value that borrows `new_keys`.
struct RuleCharge {
  Keyspace keyspace = Keyspace::kCallers;
  // Names the limit that the counter belongs to, as far as 32 bits can; not a part of the counter's
  // name. A store at its bound evicts a counter of the limit that has most. 0: limits with other
  // numbers are other limits.
  std::uint32_t limit_id = 0;
  // Bounds the counters that takes and charges (kCharge) may create. Without its permission, a
  // charge that needs a new counter is answered as by a full store. Null: no bound. A store may
  // ignore it.
  NewKeyLimit* new_keys = nullptr;
};

// What a request asks of one counter: a key, a limit and a cost. A counter is named by its
// keyspace, its tag, its key and the limit's algorithm.
//
// A plain value that borrows the bytes of key and tag. They may be any bytes, NUL included, of any
// length, also none. To make a key of several parts, use KeyBuilder.
struct Charge {
  std::string_view key;
  Limit limit;
  std::uint64_t cost = 1;  // units; 0 takes nothing and is never denied
  // For stores that spread counters over several servers, such as a Redis Cluster: counters with
  // the same tag are stored together, so that a request on them is one atomic step. Empty: the key
  // alone chooses the server.
  std::string_view tag = {};
  // kCharge: gives the cost back instead, as kRefund does, so that one request can settle some
  // counters up and others down. Other verbs are kInvalid.
  bool gives_back = false;
  // concurrency: the permit that a take gives to its caller, and that a release ends. A take, a
  // release and an extension without one are kInvalid. Others ignore it.
  const PermitId* permit = nullptr;
  // budget: the id itself, of which `permit` is the name, for a ledger; empty: it is not known.
  std::string_view id_text = {};
  // Blocks the key after repeated denials (kLimited) of takes: a second counter, stored next to
  // the charge's own and decided with it. Null: none. docs/reference/algorithms.md, Blocks.
  const Block* block = nullptr;
  // budget: an alternative to the charge before it. That one and the alternatives after it are
  // budgets in a row, of which a request charges one: see Store::apply(). The first charge of a
  // request is never one.
  bool alternative = false;
  // For the rules of Sluice: programs leave it as it is.
  RuleCharge rule = {};
};

// Whether both charges name the same counter.
inline bool is_same_counter(const Charge& a, const Charge& b) noexcept {
  return a.limit.algorithm() == b.limit.algorithm() && a.rule.keyspace == b.rule.keyspace &&
         a.key == b.key && a.tag == b.tag;
}

// What answers if a store cannot decide.
enum class FailurePolicy : std::uint8_t {
  kAllow,  // allow the request
  kDeny,   // deny the request
  kLocal,  // decide in this process's memory, with each limit at its share of 1/nodes
};

// The most charges that one request may carry.
inline constexpr std::size_t kMaxCharges = 64;

// Stores counters and makes one request on them atomic. Derive from it to store counters elsewhere;
// sluice/testing/store_conformance.h checks a store of your own.
//
// Thread-safety: apply() may be called from any thread. Ownership: borrows its arguments for the
// call. Cost: that of the store. apply() does not throw.
class Store {
 public:
  virtual ~Store() = default;

  // Decides a request of 1 to kMaxCharges charges at `now` (absent: at the store's own time), all
  // or nothing. Writes the decision on charge i to `each[i]` and returns that on the request:
  // denied if any limit denies; kNever if any says so; the longest `retry_after` and `delay`; the
  // numbers of the tightest limit (the least remaining, of those that deny if any does).
  //
  // `each` must have one element for every charge. Two charges on one counter count together.
  // A store without room for a new counter returns kStoreFull and changes nothing. Then `each` is
  // kStoreFull for the charges that need one, and kOk for the others: the store can decide a
  // request of these alone.
  //
  // Of budgets in a row (Charge::alternative) one answers: the one that knows the id of the
  // request, by an open or an ended hold; else, if the verb asks for units, the first that admits
  // all of the cost; else the first. If none admits, it waits as long as the least of them. The
  // others answer Decision::passed_over and change nothing. Without an id, a charge or a refund is
  // of each by its own cost, and so is a reset.
  //
  // Returns kInvalid, and changes nothing, if the number of charges is wrong, if `now` is outside
  // kFirstInstant..kLastInstant, or if two charges name one counter with different numbers, if a
  // take of `concurrency` has no permit or a charge counts it (kCharge), if a release or an
  // extension is of another algorithm, if a budget has no id for a verb that needs one, or has one
  // for a refund, a reset, a reservation or a take of at most the cost, if a charge lacks the block
  // that the verb changes, if one gives back and the verb is not kCharge, or if budgets in a row
  // are of another algorithm, have a block, share a counter with a charge that is not of the same
  // row once more, are in different slots of a cluster, some with an id and some without, or the
  // verb is kTakeAtMost. Returns kFailed if the store cannot decide.
  virtual Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                         std::span<Decision> each) noexcept = 0;

  // As apply() of one charge, without `each`. Most requests have one; a store may be faster here.
  virtual Decision apply_one(Action action, const Charge& charge,
                             std::optional<Instant> now) noexcept;
};

// An event of a store outside of this process.
enum class StoreEventKind : std::uint8_t {
  kConnected,        // a connection is ready
  kConnectionLost,   // a connection that was ready has ended
  kConnectFailed,    // no connection could be made; the store tries again
  kTopologyChanged,  // another master, or another map of slots
  kRequestFailed,    // the server answered a request with an error
  kScriptLoaded,     // a script was sent again, because the server did not know it
  kBreakerOpened,    // from now on requests do not go to the store
  kBreakerProbing,   // one request goes to the store as a probe
  kBreakerClosed,    // requests go to the store again
};
inline constexpr std::size_t kStoreEventKinds = 9;

// "connected", "connection_lost", ...
std::string_view to_string(StoreEventKind kind) noexcept;

// What happened, where and why. A plain value that borrows its texts.
struct StoreEvent {
  StoreEventKind kind = StoreEventKind::kConnected;
  std::string_view endpoint;  // "127.0.0.1:6379", "/run/redis.sock"; empty if there is none
  std::string_view why;       // the reason, for the log; empty if there is none
  Duration lasted{};          // kBreakerOpened: since the first of the failures that opened it
};

// Receives the events of stores, for logs and metrics.
//
// Thread-safety: on() is called from any thread, even from several at the same time, and must not
// block. Ownership: stores borrow their observer.
class StoreObserver {
 public:
  virtual ~StoreObserver() = default;
  // Called for each event. The texts of the event are valid during the call.
  virtual void on(const StoreEvent& event) noexcept = 0;
};

// A store that answers later, for programs whose threads must not sleep. RedisStore is one, with a
// thread of its own; AsyncRedisStore is one on an event loop of the program.
//
// Thread-safety: as the store says. Ownership: borrows all arguments of async_apply(), also the
// bytes of keys and tags, until it calls done(). Deadline: every request ends at the store's
// deadline at the latest (RedisOptions::deadline). A request cannot be taken back, because the
// server may have counted it: if its caller is no longer interested, it keeps the arguments until
// done(). AsyncLimiter (sluice/asio.h) does that, copies keys, and can be cancelled.
class AsyncStore {
 public:
  // Receives the answer to one request.
  //
  // Ownership: the caller's; it must not move before done().
  class Completion {
   public:
    // Called exactly once, perhaps before async_apply() returns, in the thread that the store
    // names. The decisions on the charges are in `each`. It may destroy the completion and start
    // other requests, and must not block.
    virtual void done(const Decision& decision) noexcept = 0;

   protected:
    ~Completion() = default;
  };

  virtual ~AsyncStore() = default;

  // Decides as Store::apply() does, and then calls `completion.done()`.
  virtual void async_apply(Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each,
                           Completion& completion) noexcept = 0;
};

}  // namespace sluice

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sluice/circuit_breaker.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"

namespace sluice {

// How a LocalShareStore divides limits, and the memory for its counters.
struct LocalShareOptions {
  // The number of processes that share the limits: each admits 1/nodes. 0 counts as 1.
  std::uint32_t nodes = 1;
  MemoryStoreOptions memory = {};
};

// One process's share of limits, in its memory: each limit at limit/nodes and capacity/nodes,
// rounded down, but at least 1 if it was above 0.
//
// `nodes` processes together admit no more than the limit, or one unit each if the limit is smaller
// than `nodes`. A cost beyond the share is denied even if the whole limit could hold it. Counters
// have the same names as in other stores; answers contain the numbers of the share.
//
// Thread-safety and ownership: as MemoryStore. Cost: as MemoryStore, and about 20 ns per charge.
class LocalShareStore final : public Store {
 public:
  // Borrows the clock.
  explicit LocalShareStore(const LocalShareOptions& options = {},
                           const Clock& clock = SystemClock::instance());

  // See Store.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;

  // Returns the counts of the memory store.
  MemoryStoreStats stats() const { return store_.stats(); }

 private:
  std::uint32_t nodes_;
  MemoryStore store_;
};

// Returns the share of 1/nodes of a limit.
Limit share_of(const Limit& limit, std::uint32_t nodes) noexcept;

// What a FailurePolicyStore answers if its store fails.
struct FailurePolicyOptions {
  // The answer to requests that the store could not decide. Absent: Outcome::kFailed with the
  // store's reason (rules then apply their own `on_store_error`).
  std::optional<FailurePolicy> fallback = {};
  // For kLocal: the number of processes that share the limits; see LocalShareOptions.
  std::uint32_t nodes = 1;
  // For kLocal: used instead of a LocalShareStore of its own. Pass the same one to all stores of a
  // process that share limits; otherwise each admits the whole share. Borrowed.
  Store* local = nullptr;
};

// A store that answers at once, by a policy, if another store cannot decide.
//
//   auto redis = RedisStore::open({.url = "redis://10.0.0.5"}).value();
//   CircuitBreaker breaker;
//   FailurePolicyStore store(*redis, breaker, {.fallback = FailurePolicy::kLocal, .nodes = 4});
//   Limiter limiter(store);
//
// RedisChain (redis_chain.h) opens and owns all of these.
//
// A request goes to the store if the breaker lets it pass. If the breaker does not, or the store
// answers kStoreTimeout, kStoreError, kForeignValue or kStoreFull, takes and peeks get the reason
// kFallback:
//   kAllow, kDeny  with the capacity, without remaining units or waits, because nobody knows them
//   kLocal         with the answer of the local share, which the request is charged to
// If the store is full, only the charges that need a new counter get the policy's answer; the store
// decides the others. A request that is kInvalid stays so. The policy never answers refunds and
// resets: one that was not executed fails with the store's reason, or with kStoreError if the store
// was not asked. With kLocal it is also executed in the local share. A request that timed out may
// have been counted by the store: units are then counted once more than they were admitted, never
// less.
//
// Thread-safety: any member from any thread. Ownership: borrows the store, the breaker and
// `local`. Cost: a load while the breaker is closed; about 30 ns while it is open, with kLocal in
// addition that of its store.
class FailurePolicyStore final : public Store {
 public:
  // Puts the breaker and the policy in front of the store.
  FailurePolicyStore(Store& store, CircuitBreaker& breaker,
                     const FailurePolicyOptions& options = {});

  // See Store.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;

 private:
  friend class AsyncFailurePolicyStore;

  // Only answers for a store, and asks none.
  FailurePolicyStore(CircuitBreaker& breaker, const FailurePolicyOptions& options);
  Decision without_new(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                       std::span<Decision> each, const Decision& said) noexcept;
  Decision fall_back(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                     std::span<Decision> each, Reason failed) noexcept;

  Store* store_;
  CircuitBreaker* breaker_;
  std::optional<FailurePolicy> fallback_;
  std::unique_ptr<Store> own_local_;
  Store* local_;
};

}  // namespace sluice

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sluice/circuit_breaker.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"

namespace sluice {

struct LocalShareOptions {
  // Processes that share the limits. More: each admits less. 0 counts as 1.
  std::uint32_t nodes = 1;
  MemoryStoreOptions memory = {};
};

// One process's share of limits, in its memory: each limit at limit/nodes and capacity/nodes,
// rounded down, but at least 1 where it was above 0.
//
// So `nodes` processes together admit no more than the limit does, or than one unit each where the
// limit is smaller than `nodes`. A cost beyond the share is denied, also where the limit could hold
// it. Counters go by the same names as elsewhere; answers tell the numbers of the share.
//
// Thread-safety, ownership, cost: as MemoryStore, and some 20 ns for each charge.
class LocalShareStore final : public Store {
 public:
  explicit LocalShareStore(const LocalShareOptions& options = {},
                           const Clock& clock = SystemClock::instance());

  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Verb verb, const Charge& charge, std::optional<Instant> now) noexcept override;

  MemoryStoreStats stats() const { return store_.stats(); }

 private:
  std::uint32_t nodes_;
  MemoryStore store_;
};

// The share of 1/nodes of a limit.
Limit share_of(const Limit& limit, std::uint32_t nodes) noexcept;

struct FailurePolicyOptions {
  // What answers for the store; absent: its own reason does (rules then answer, each by its
  // `on_store_error`).
  std::optional<FailurePolicy> fallback = {};
  // For kLocal: the processes that share the limits; see LocalShareOptions.
  std::uint32_t nodes = 1;
  // For kLocal: asked in the place of a LocalShareStore of its own. Give one and the same to all
  // stores of a process that share limits, or each admits the whole share. Borrowed.
  Store* local = nullptr;
};

// A store that answers at once, by policy, where another one cannot decide.
//
//   auto redis = RedisStore::open({.url = "redis://10.0.0.5"}).value();
//   CircuitBreaker breaker;
//   FailurePolicyStore store(*redis, breaker, {.fallback = FailurePolicy::kLocal, .nodes = 4});
//   Limiter limiter(store);
//
// RedisChain (redis_chain.h) opens and owns all of these.
//
// A request is asked of the store if the breaker lets it pass. Where it does not, or the answer is
// kStoreTimeout, kStoreError or kForeignValue, takes and peeks are answered with kFallback:
//   kAllow, kDeny  with `limit`, and no other number: nobody knows them
//   kLocal         with the answer of the local share, taken there
// A request that is kInvalid stays so. Refunds and resets are never answered by policy: one that
// was not carried out is denied with the store's reason, or kStoreError where it was not asked;
// with kLocal they are carried out locally as well. What timed out may have been counted by the
// store all the same: it then counts once more than it was admitted, never less.
//
// Thread-safety: any member from any thread. Ownership: borrows the store, the breaker, and
// `local`. Cost: while closed, a load; open, some 30 ns, with kLocal those of its store as well.
class FailurePolicyStore final : public Store {
 public:
  FailurePolicyStore(Store& store, CircuitBreaker& breaker,
                     const FailurePolicyOptions& options = {});

  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Verb verb, const Charge& charge, std::optional<Instant> now) noexcept override;

 private:
  Decision stand_in(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                    std::span<Decision> each, Reason failed) noexcept;

  Store* store_;
  CircuitBreaker* breaker_;
  std::optional<FailurePolicy> fallback_;
  std::unique_ptr<Store> own_local_;
  Store* local_;
};

}  // namespace sluice

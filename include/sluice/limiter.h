#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice {

// Asks a store for decisions: what a program calls before it does the thing that is limited.
//
//   sluice::MemoryStore store;
//   sluice::Limiter limiter(store);
//   constexpr auto kPerUser = sluice::token_bucket(100).per(1s).burst(200);
//   if (auto decision = limiter.try_acquire("user:42", kPerUser); !decision) {
//     return retry_later(*decision.retry_after);
//   }
//
// Thread-safety: any member from any thread. Ownership: borrows the store, which outlives it.
// Cost: the store's. Nothing here throws or allocates. Every verb takes an instant to decide at;
// without one it is decided at the store's own time. Costs are units, and what a verb does with
// them is said at Verb (store.h).
class Limiter {
 public:
  explicit Limiter(Store& store) noexcept : store_(&store) {}

  [[nodiscard]] Decision try_acquire(std::string_view key, const Limit& limit,
                                     std::uint64_t cost = 1,
                                     std::optional<Instant> now = {}) noexcept {
    return one(Verb::kTake, key, limit, cost, now);
  }
  // What try_acquire would answer, without taking.
  [[nodiscard]] Decision peek(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                              std::optional<Instant> now = {}) noexcept {
    return one(Verb::kPeek, key, limit, cost, now);
  }
  // Gives back the newest `cost` units; what was not taken is not given.
  Decision refund(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                  std::optional<Instant> now = {}) noexcept {
    return one(Verb::kRefund, key, limit, cost, now);
  }
  // Forgets the counter.
  Decision reset(std::string_view key, const Limit& limit) noexcept {
    return one(Verb::kReset, key, limit, 0, {});
  }

  // Many limits as one request: all admit, or nothing is taken. `each`, if given, has one element
  // for every charge and receives its answer; where it has fewer, the request is `kInvalid`.
  [[nodiscard]] Decision check(std::span<const Charge> charges, std::span<Decision> each = {},
                               std::optional<Instant> now = {}) noexcept {
    return apply(Verb::kTake, charges, each, now);
  }
  // Any verb on many charges.
  Decision apply(Verb verb, std::span<const Charge> charges, std::span<Decision> each = {},
                 std::optional<Instant> now = {}) noexcept;

  Store& store() const noexcept { return *store_; }

 private:
  Decision one(Verb verb, std::string_view key, const Limit& limit, std::uint64_t cost,
               std::optional<Instant> now) noexcept {
    return store_->apply_one(verb, Charge{key, limit, cost}, now);
  }

  Store* store_;
};

}  // namespace sluice

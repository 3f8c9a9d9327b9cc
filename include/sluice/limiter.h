#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice {

class Hold;
class Permit;
class Reservation;

// Asks a store for decisions: what a program calls before it does the thing that is limited.
//
//   sluice::MemoryStore store;
//   sluice::Limiter limiter(store);
//   constexpr sluice::Limit kPerUser = sluice::token_bucket(100).per(1s).burst(200);
//   const sluice::Decision decision = limiter.try_acquire("user:42", kPerUser);
//   if (decision) return serve();
//   if (decision.retry_after) return retry_later(*decision.retry_after);
//   return decision.outcome == sluice::Outcome::kFailed ? unavailable() : never_allowed();
//
// `retry_after` is absent if the request can never pass, and if the store failed.
//
// Thread-safety: any member from any thread. Ownership: borrows the store, which must outlive the
// limiter. Cost: the store's; nothing here throws or allocates. A cost is in units, 0 to kMaxUnits
// (for budget to kMaxAmount);
// Verb says what each verb does with it. Every verb takes an optional timestamp, from
// kFirstInstant to kLastInstant; without one the store decides at its own time. A request that is
// itself wrong is denied with Reason::kInvalid.
class Limiter {
 public:
  // A limiter that asks `store`.
  explicit Limiter(Store& store) noexcept : store_(&store) {}

  // Takes `cost` units of the counter of this key, or denies and takes nothing.
  [[nodiscard]] Decision try_acquire(std::string_view key, const Limit& limit,
                                     std::uint64_t cost = 1,
                                     std::optional<Instant> now = {}) noexcept {
    return one(Verb::kTake, key, limit, cost, now);
  }
  // Returns what try_acquire would return, and takes nothing. A cost of 0 shows the numbers.
  [[nodiscard]] Decision peek(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                              std::optional<Instant> now = {}) noexcept {
    return one(Verb::kPeek, key, limit, cost, now);
  }
  // Gives back the newest `cost` units, and never more than was taken. kFailed: perhaps nothing was
  // given back.
  Decision refund(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                  std::optional<Instant> now = {}) noexcept {
    return one(Verb::kRefund, key, limit, cost, now);
  }
  // Counts `cost` units of work that is already done, whatever the limit says. Always allowed, with
  // Reason::kOver if the counter is now beyond its limit; later takes wait until it is not.
  Decision charge(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                  std::optional<Instant> now = {}) noexcept {
    return one(Verb::kCharge, key, limit, cost, now);
  }
  // Takes as many units as are left, at most `cost`: Decision::taken. Denied if none is left.
  [[nodiscard]] Decision take_at_most(std::string_view key, const Limit& limit, std::uint64_t cost,
                                      std::optional<Instant> now = {}) noexcept {
    return one(Verb::kTakeAtMost, key, limit, cost, now);
  }
  // Takes `cost` units that the counter will have within `max_wait`: the caller acts after
  // Reservation::delay(). Callers are served in the order in which they asked, on every machine.
  // Only token_bucket, leaky_bucket and gcra can be reserved ahead; with the others it is a take.
  // Include sluice/reservation.h. Copies the key; throws std::bad_alloc before anything is taken.
  [[nodiscard]] Reservation reserve(std::string_view key, const Limit& limit, std::uint64_t cost,
                                    Duration max_wait, std::optional<Instant> now = {});
  // Reserves every charge, or denies the request and takes nothing. Copies the keys and tags.
  [[nodiscard]] Reservation reserve(std::span<const Charge> charges, Duration max_wait,
                                    std::optional<Instant> now = {});
  // Takes `cost` units, and blocks the thread until it may act. With token_bucket, leaky_bucket and
  // gcra the store reserves them in one question, also between machines; with the other algorithms
  // the threads of a key queue in this process in order of arrival, and only the first asks.
  // The deadline is an instant of std::chrono::steady_clock, or the time until then: `5s`. Denied
  // at once if it cannot be met, and with kTooManyWaiters if 65,536 requests wait.
  [[nodiscard]] Decision acquire(std::string_view key, const Limit& limit, std::uint64_t cost,
                                 Deadline deadline) noexcept;
  // Takes every charge when all limits admit them, as acquire() and check() do.
  [[nodiscard]] Decision acquire(std::span<const Charge> charges, std::span<Decision> each,
                                 Deadline deadline) noexcept;
  // Takes a permit of a `concurrency` limit, which holds `cost` units until it is destroyed, or
  // until the end of its lease. Include sluice/permit.h. Copies the key; throws before anything is
  // taken.
  [[nodiscard]] Permit hold(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                            std::optional<Instant> now = {});
  // As above, but blocks the thread until the permit is taken, or until the deadline. Threads queue
  // as in acquire(). A release that this process asks the same Store for calls the first one at
  // once; it sees any other within 250 ms.
  [[nodiscard]] Permit hold(std::string_view key, const Limit& limit, std::uint64_t cost,
                            Deadline deadline);
  // Takes every charge, or denies the request; one permit holds the units of all `concurrency`
  // limits among them.
  [[nodiscard]] Permit hold(std::span<const Charge> charges, std::optional<Instant> now = {});
  // Keeps `cost` units of a budget under an id for `ttl`, to settle them with what was used.
  // Include sluice/hold.h, which says what an id and a ttl may be. Copies the key; throws before
  // anything is held.
  [[nodiscard]] Hold hold(std::string_view id, std::string_view key, const Limit& limit,
                          std::uint64_t cost, Duration ttl, std::optional<Instant> now = {});
  // Holds every charge of a budget, and takes the others, or denies the request.
  [[nodiscard]] Hold hold(std::string_view id, std::span<const Charge> charges, Duration ttl,
                          std::optional<Instant> now = {});
  // Releases or extends a permit by its text (Permit::text()). kGone if it has ended, kInvalid if
  // the text is not that of a permit.
  Decision release(std::string_view permit, std::optional<Instant> now = {});
  Decision extend(std::string_view permit, std::optional<Instant> now = {});
  // Forgets the counter, so that the key is untouched again.
  Decision reset(std::string_view key, const Limit& limit) noexcept {
    return one(Verb::kReset, key, limit, 0, {});
  }

  // Takes every charge, or denies the request and takes nothing. `each`, if given, must have an
  // element for every charge and receives its decision; with fewer the request is kInvalid.
  [[nodiscard]] Decision check(std::span<const Charge> charges, std::span<Decision> each = {},
                               std::optional<Instant> now = {}) noexcept {
    return apply(Verb::kTake, charges, each, now);
  }
  // Applies any action to 1 to kMaxCharges charges, as check() does for kTake.
  Decision apply(Action action, std::span<const Charge> charges, std::span<Decision> each = {},
                 std::optional<Instant> now = {}) noexcept;

  // The store that it asks.
  Store& store() const noexcept { return *store_; }

 private:
  Decision one(Action action, std::string_view key, const Limit& limit, std::uint64_t cost,
               std::optional<Instant> now) noexcept {
    return store_->apply_one(action, Charge{key, limit, cost}, now);
  }

  Store* store_;
};

}  // namespace sluice

#pragma once

#include <memory>
#include <optional>
#include <span>

#include "sluice/leases.h"
#include "sluice/store.h"

namespace sluice {

// How a LeasedStore gives back units that were not used.
enum class LeaseReturns : std::uint8_t {
  kByThread,  // a thread of its own does when leases end
  kByCaller,  // the program calls give_back()
};

// A store that admits requests from units that it has taken ahead from another store, in memory and
// without asking that store. For busy counters in Redis (docs/leases.md).
//
//   Leases leases({.nodes = 4});
//   LeasedStore store(*redis, leases);
//   Limiter limiter(store);
//   constexpr Limit kApi = token_bucket(100'000).per(1s).leased(100ms);
//
// Only takes at the store's own time of up to 8 charges use leases, and only their charges with a
// lease (LimitBuilder::leased). Such a charge is answered with reason kLease; its numbers are those
// that the store returned with the batch, less what was used since. A request on several limits is
// all or nothing: if the store denies one limit, the leases of the others get their units back. All
// other verbs go to the store, which counts the units of leases as taken. A reset or a block
// through this store ends the leases of its counters.
//
// Thread-safety: any member from any thread. Ownership: borrows the store and the leases; owns a
// thread. Cost of an admission from a lease: a hash, a clock reading and a lock, about 100 ns. No
// lock is held during a request to the store.
class LeasedStore final : public Store {
 public:
  // Puts the leases in front of the store. Throws std::system_error if there is no thread.
  LeasedStore(Store& store, Leases& leases, LeaseReturns returns = LeaseReturns::kByThread);
  // With kByThread, ends all leases and gives back their units. No call of apply() may be under
  // way.
  ~LeasedStore() override;
  LeasedStore(const LeasedStore&) = delete;
  LeasedStore& operator=(const LeasedStore&) = delete;

  // See Store.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;

  // Gives back the units of leases that have ended, or ends all, in requests of up to 64 counters.
  // If that fails, they stay taken.
  void give_back(LeaseEnd which = LeaseEnd::kDue) noexcept;

 private:
  class Thread;

  Store& store_;
  Leases& leases_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace sluice

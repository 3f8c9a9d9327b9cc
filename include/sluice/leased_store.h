#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "sluice/clock.h"
#include "sluice/store.h"

namespace sluice {

// How many units Leases take ahead, and for how many counters.
struct LeaseOptions {
  // The number of processes that share the limits. 0 counts as 1.
  std::uint32_t nodes = 1;
  // The largest batch as a share of a limit's capacity, above 0 to 1; 0: 1 / (4 * nodes). Larger:
  // fewer requests to the store; the fleet admits up to `nodes` batches more within one lease.
  double share = 0;
  // The maximum number of leased counters that are tracked, rounded up to whole groups of 8, about
  // 170 bytes each. Of further counters, each request asks the store.
  std::size_t max_keys = 16'384;
};

// Which leases give back their units.
enum class LeaseEnd : std::uint8_t {
  kDue,  // those that have ended
  kAll,  // all; they end now, as when the program stops
};

// What Leases have done since they were made, and their state now.
struct LeaseStats {
  std::uint64_t local = 0;       // requests that were admitted without asking the store
  std::uint64_t batches = 0;     // batches that were taken from the store
  std::uint64_t taken = 0;       // units of these batches
  std::uint64_t given_back = 0;  // units that were not used, and that the store took back
  std::size_t held = 0;          // counters with a lease now
};

// The units that this process has taken ahead of requests, by counter (docs/operations.md).
//
// A counter of a limit with a lease (`token_bucket(10'000).per(1s).leased(100ms)`) that is busy is
// asked for a batch: as many units as its requests took within the last lease. The first request
// of a counter, and every request of a counter that is not busy or near its limit, asks for exactly
// its cost. Units of a batch are used within one lease from when they were asked for. Then the rest
// is given back. No unit is admitted that the store has not counted, whatever fails.
//
// Thread-safety: any member from any thread; share one object between the stores of a process that
// ask one server with one prefix. Ownership: borrows the clock, which should be steady; outlives
// its stores. Cost: see LeaseOptions::max_keys; allocated at the start.
class Leases {
 public:
  // Throws std::bad_alloc, and std::system_error if the system provides no random bytes.
  explicit Leases(const LeaseOptions& options = {}, const Clock& clock = SteadyClock::instance());
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // Returns the counts now.
  LeaseStats stats() const noexcept;

  // When the next lease ends, by the clock; absent: nothing is held.
  std::optional<Instant> next_end() const noexcept;

  // For the stores of this library.
  class Impl;
  Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// How a LeasedStore gives back units that were not used.
enum class LeaseReturns : std::uint8_t {
  kByThread,  // a thread of its own does when leases end
  kByCaller,  // the program calls give_back()
};

// A store that admits requests from units that it has taken ahead from another store, in memory and
// without asking that store. For busy counters in Redis (docs/operations.md).
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
  Store& store_;
  Leases& leases_;
  bool stops_ = false;  // under a lock of the leases
  std::thread thread_;  // gives back when leases end
};

}  // namespace sluice

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sluice/clock.h"
#include "sluice/store.h"

namespace sluice {

// How many denials a DenyCache remembers, and for how long.
struct DenyCacheOptions {
  // The maximum number of denied counters, rounded up to whole groups of 7, 512 bytes each. Beyond
  // it the cache drops the denial that ends first. Raise it if many keys exceed their limits at
  // the same time.
  std::size_t max_keys = 65'536;
  // The maximum time for which a denial is reused. Longer: fewer requests to the store. Shorter:
  // refunds and resets by other machines take effect sooner, as does emptying the store. 0: off.
  Duration longest = std::chrono::seconds{1};
};

// Remembers which counters a store has denied, and until when.
//
// Thread-safety: any member from any thread; share one cache between the stores of a process that
// ask one server with one prefix. Ownership: borrows the clock, which should be steady. Cost: 73
// bytes per key, allocated at the start; the cache never grows. It identifies counters by a 128-bit
// hash with a random key per process.
class DenyCache {
 public:
  // Throws std::bad_alloc, and std::system_error if the system provides no random bytes.
  explicit DenyCache(const DenyCacheOptions& options = {},
                     const Clock& clock = SteadyClock::instance());
  ~DenyCache();
  DenyCache(const DenyCache&) = delete;
  DenyCache& operator=(const DenyCache&) = delete;

  // Returns the number of requests that it denied.
  std::uint64_t hits() const noexcept;

 private:
  friend class AsyncDenyCacheStore;
  friend class DenyCacheStore;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A store that repeats recent denials of another store without asking it.
//
// After a denial with `kLimited` it denies requests on that counter until its `retry_after`, at
// most for `longest`, for the same limit (all numbers equal) and the same or a larger cost, with
// reason `kDenyCache`. The store would do the same, unless another machine resets the counter or
// refunds units. `retry_after` is the rest of the wait (of the smaller cost that was denied, so at
// most that of a larger one); `capacity` and `remaining` are those of the denial. A request of
// several charges is denied if any charge is. The other charges are then allowed with reason
// `kDenyCache` and their capacity, without remaining units or waits, because nobody
// looked at their counters.
//
// Of a charge with a block (Charge::block) it repeats denials with `kBlocked` only, with that
// reason. Until then a request with such a charge goes to the store, even if it has denied another
// charge, because the store counts denials for the block.
//
// This holds for takes at the store's own time. Peeks, explicit timestamps, costs beyond the
// capacity and requests with two charges on one counter always go to the store. A refund or a
// reset through any store on this cache removes the denial, even if it fails. So does an admitted
// take that may make room (under another limit; of a sliding_window_hybrid).
//
// Thread-safety: any member from any thread. Ownership: borrows the store and the cache. Cost of a
// hit: a hash, a clock reading and two cache lines, no lock. No lock is held during a request to
// the store.
class DenyCacheStore final : public Store {
 public:
  // Puts the cache in front of the store.
  DenyCacheStore(Store& store, DenyCache& cache) noexcept;

  // See Store.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;

 private:
  Store* store_;
  DenyCache::Impl* cache_;
};

}  // namespace sluice

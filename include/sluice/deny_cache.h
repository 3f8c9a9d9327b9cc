#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sluice/clock.h"
#include "sluice/store.h"

namespace sluice {

struct DenyCacheOptions {
  // The most denied counters remembered; rounded up to whole groups of 7, 512 bytes each. Past it
  // the one that ends soonest is forgotten. Raise it while many keys are over their limits at once.
  std::size_t max_keys = 65'536;
  // The longest that a denial is believed without asking again. Longer: fewer questions; shorter:
  // what other machines give back or reset, and a store that was emptied, are seen sooner. 0: off.
  Duration longest = std::chrono::seconds{1};
};

// Remembers which counters a store has denied, and until when.
//
// Thread-safety: any member from any thread; share one between the stores of a process that ask one
// server with one prefix. Ownership: borrows the clock, which should be a steady one. Cost: 73
// bytes a key, all of it at the start; counters go by a 128-bit hash keyed afresh in each process.
// Bounded: it never grows.
class DenyCache {
 public:
  // Throws std::bad_alloc, and std::system_error if the system has no randomness to give.
  explicit DenyCache(const DenyCacheOptions& options = {},
                     const Clock& clock = SteadyClock::instance());
  ~DenyCache();
  DenyCache(const DenyCache&) = delete;
  DenyCache& operator=(const DenyCache&) = delete;

  // Requests that were denied from it.
  std::uint64_t hits() const noexcept;

 private:
  friend class DenyCacheStore;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A store that answers what was denied a moment ago by itself, and asks another one for the rest.
//
// A counter that was denied with `kLimited` is denied here until its `retry_after`, at most for
// `longest`, for the same limit (all numbers equal) and the same or a larger cost, with reason
// `kDenyCache`: what the store would say, if nobody elsewhere resets the counter or gives units
// back. `retry_after` is what is left of the wait (of the smaller cost that was denied, so at most
// that of a larger one), `limit` and `remaining` are as told then. A request of many charges is
// denied if any of them is; the charges that were not asked are then allowed, with reason
// `kDenyCache`, `limit` the capacity, and no other numbers: not looked at.
//
// Only for takes at the store's own time. Peeks, stated instants, costs beyond the capacity and
// requests with two charges on one counter are always asked. A refund or a reset through any store
// on this cache forgets the counter, also when it fails, as does an admitted take that may make
// room (under other numbers; of a sliding_window_hybrid).
//
// Thread-safety: any member from any thread. Ownership: borrows the store and the cache. Cost of a
// hit: a hash, the clock and two cache lines, no lock. No lock is held while the store is asked.
class DenyCacheStore final : public Store {
 public:
  DenyCacheStore(Store& store, DenyCache& cache) noexcept;

  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Verb verb, const Charge& charge, std::optional<Instant> now) noexcept override;

 private:
  Store* store_;
  DenyCache::Impl* cache_;
};

}  // namespace sluice

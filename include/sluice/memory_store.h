#pragma once

#include <cstddef>
#include <memory>

#include "sluice/store.h"

namespace sluice {

struct MemoryStoreOptions {
  // The most counters kept; past it an untouched one is dropped, else one near to it is evicted
  // and counted. Raise it until evictions stay at zero; each costs about 60 bytes. At least 128.
  std::size_t max_keys = std::size_t{1} << 20;
  // The most bytes kept for window logs and slices, which have no fixed size (the three sliding
  // windows); past it others are evicted. Each log entry is 12 bytes. At least 4096.
  std::size_t max_log_bytes = std::size_t{256} << 20;
  // Shards, each with its own lock; rounded up to a power of two, at most 1024. 0: by the number
  // of processors and max_keys. More: less contention, a little more memory.
  std::size_t shards = 0;
};

// What a memory store holds at about this moment.
struct MemoryStoreStats {
  std::size_t shards = 0;
  std::size_t keys = 0;
  std::size_t log_bytes = 0;
  std::uint64_t evictions = 0;  // live counters lost to a bound since the start
  std::uint64_t swept = 0;      // untouched counters dropped since the start
};

// Counters in the memory of this process, lost with it.
//
// Thread-safety: any member from any thread; exact under concurrency. Ownership: borrows the clock.
// Cost: one lock and one hash look-up for each counter of a request; about 60 bytes a key (fixed
// window and buckets), and beyond them 12 bytes for each log entry or 4 for each slice. Keys are
// remembered by a 128-bit hash keyed afresh in each process: nobody can aim keys at one another.
// Bounded: it never grows past its options, and has no thread of its own.
class MemoryStore final : public Store {
 public:
  // The options' bounds are raised to their minima. Throws std::bad_alloc only here.
  explicit MemoryStore(const MemoryStoreOptions& options = {},
                       const Clock& clock = SystemClock::instance());
  ~MemoryStore() override;
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  // See Store::apply. Answers kStoreError, and changes nothing, where memory is exhausted, or a
  // window's state does not fit into max_log_bytes, while it grows together with what it had
  // before.
  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Verb verb, const Charge& charge, std::optional<Instant> now) noexcept override;

  MemoryStoreStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/store.h"

namespace sluice {

class Ledger;

// The bounds of a memory store. A plain value with defaults for about a million keys.
struct MemoryStoreOptions {
  // The most counters that it holds, at least 128; each takes about 60 bytes. Beyond it the store
  // drops an untouched counter, or else evicts another one and counts that. It evicts from the
  // limit that has most counters, so a flood of keys of one limit does not free the keys that
  // another limit denies. Raise it until evictions stay at zero.
  std::size_t max_keys = std::size_t{1} << 20;
  // The most bytes for the logs and slices of the three sliding windows, at least 4096; a log entry
  // takes 12. Beyond it the store evicts other counters with logs, of the limit whose logs take
  // most bytes. A large log that cannot grow is merged into slices: stricter than exact, never
  // looser. Raise it for many large logs. Blocks (Charge::block) take up to an eighth of it, too;
  // beyond that the store drops entries of the limit whose blocks and denials take most, and blocks
  // by hand for other blocks by hand only.
  std::size_t max_log_bytes = std::size_t{256} << 20;
  // Shards, each with its own lock for new keys, logs and blocks; a request on known keys locks
  // only its counters. Rounded up to a power of two, at most 1024. 0, the default: the store
  // chooses by the processors and both bounds. More shards cause less contention and take a little
  // more memory.
  std::size_t shards = 0;
  // Receives every change of a budget (sluice/ledger.h); must outlive the store. Null: none. A
  // request on a budget then takes the locks of its shards.
  Ledger* ledger = nullptr;
};

// What a memory store holds. A plain value; its fields are read at slightly different times.
struct MemoryStoreStats {
  std::size_t shards = 0;
  std::size_t keys = 0;       // counters
  std::size_t log_bytes = 0;  // bytes of logs and slices
  std::size_t blocks = 0;     // keys with denials that count for a block, or with one
  std::uint64_t freed_keys =
      0;                        // blocked keys that were freed because of the bound since the start
  std::uint64_t evictions = 0;  // live counters lost to a bound since the start
  std::uint64_t swept = 0;      // untouched counters dropped since the start
  // Times that a log was merged into slices since the start, because its bytes did not suffice. The
  // limit is then stricter than exact, by at most a slice.
  std::uint64_t merged_logs = 0;
};

// A key that is blocked (Charge::block), as its charges name it. A plain value.
struct BlockedKey {
  std::string key;
  std::string tag;
  Keyspace keyspace = Keyspace::kCallers;
  Instant until;
};

// What a snapshot of a memory store contains. A plain value.
struct MemorySnapshot {
  std::uint64_t counters = 0;
  std::uint64_t blocks = 0;   // keys with denials that count for a block, or with one
  std::uint64_t dropped = 0;  // by load(): the number for which there was no room
  std::uint64_t bytes = 0;    // of the file
  Instant saved;              // when save() began
};

// Counters in the memory of this process. They are lost when it ends, unless it saves them.
//
// Thread-safety: any member from any thread; exact under concurrency. Ownership: borrows the clock,
// which must outlive it. Cost: one lock and one hash look-up for each counter of a request; about
// 60 bytes a key, and 12 for each log entry or 4 for each slice. It never grows beyond its options,
// and grows in small steps, so that no request waits for a larger table. It has no thread of its
// own. It stores a 128-bit hash of each key, with a random secret of the store, so that nobody can
// choose keys that share a shard. Only blocked keys are stored as text.
class MemoryStore final : public Store {
 public:
  // A bound below its minimum is raised to it. Errors: throws std::bad_alloc, and only here.
  explicit MemoryStore(const MemoryStoreOptions& options = {},
                       const Clock& clock = CounterClock::instance());
  ~MemoryStore() override;
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  // See Store::apply. Returns kStoreError, and changes nothing, if memory is exhausted, or if
  // max_log_bytes is too small for the slices or new logs of the request.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;

  // Writes the counters and blocks to a file that only this user can read, and which replaces
  // another one at once when it is complete. A counter that is untouched at `now` (absent: now) is
  // left out. Other threads may use the store: each counter is then saved as it is at some instant
  // of the call, by itself. The file contains the secret of the hashes. Only one store may write a
  // path at a time. Errors: what failed and why; another file at the path is unchanged, unless only
  // the flush of its folder has failed. Cost: about 48 bytes a key and 12 a log entry; each shard
  // is locked for a fraction of a millisecond at a time, or some milliseconds with very long logs.
  Expected<MemorySnapshot> save(const std::string& path, std::optional<Instant> now = {}) const;
  // Replaces the contents of the store with a snapshot from save(). The options of the two stores
  // may differ. For a new store: what it holds takes a part of its bounds until it is replaced.
  // Every decision is then as if the store had continued, so the clock must have continued too.
  // What exceeds the bounds is dropped by the rules of eviction. Call it before other threads use
  // the store. Errors: where the file is wrong; the store is unchanged. Any bytes are safe to read.
  Expected<MemorySnapshot> load(const std::string& path, std::optional<Instant> now = {});

  // What it holds now. Cost: locks each shard in turn.
  MemoryStoreStats stats() const;
  // At most `most` of the keys that are blocked at `now` (absent: now), in no order; without keys
  // that have more than 2048 bytes with their tag. Cost: locks each shard in turn, until there are
  // as many.
  std::vector<BlockedKey> blocked(std::size_t most, std::optional<Instant> now = {}) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

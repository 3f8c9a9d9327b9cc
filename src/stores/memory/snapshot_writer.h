#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "limiter/replacement_file.h"
#include "stores/memory/shard.h"
#include "stores/memory/snapshot_format.h"

namespace sluice::memory {

// Writes the shards of a store to a file. Copies a small part of a shard at a time under its lock,
// and writes it to the file without the lock.
//
// Not thread-safe. Members throw std::system_error and std::bad_alloc.
class SnapshotWriter {
 public:
  // Counters and blocks that are forgotten at `now` are left out.
  SnapshotWriter(detail::ReplacementFile& file, const FingerprintMaker::Secret& secret,
                 std::uint64_t counters, core::Ticks now);

  void add(Shard& shard);
  void end();

  std::uint64_t counters() const noexcept { return end_.counters; }
  std::uint64_t blocks() const noexcept { return end_.blocks; }

 private:
  void put_counter(const Slot& slot, std::uint32_t expiry, LimitUsage::Index index,
                   const LimitUsage& usage);
  void put_limit(LimitUsage::Index index, const LimitUsage& usage);
  void put_slices(SliceBlob& blob);
  void put_log(core::LogBuffer& log);
  void put_permits(core::PermitBuffer& permits);
  void put_block(const Fingerprint& key, const Blocks::Known& known);
  void put(const void* bytes, std::size_t size);
  template <typename Record>
  void put(const Record& record) {
    put(&record, sizeof(record));
  }
  void write_out();
  void write_frame(std::span<const std::byte> bytes);

  detail::ReplacementFile& file_;
  const core::Ticks now_;
  std::vector<std::byte> pending_;  // records that are not in a frame yet
  std::uint32_t frames_ = 0;
  // By the index of a limit in the shard, the id that was written last; 0: none.
  std::vector<std::uint64_t> written_ids_;
  snapshot::End end_{};
};

}  // namespace sluice::memory

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "limiter/replacement_file.h"
#include "stores/memory/shard.h"
#include "stores/memory/snapshot_format.h"

namespace sluice::memory {

// The bytes of the frames of a file. Each frame is checked before its first byte is read.
class FrameReader {
 public:
  // Opens the file. Throws std::system_error.
  explicit FrameReader(const std::string& path);

  // Throw std::runtime_error, which says where and what is wrong, and std::system_error.
  void read(void* to, std::size_t size) {
    if (size <= frame_.size() - at_) [[likely]] {
      copy(to, size);
    } else {
      read_across(static_cast<std::byte*>(to), size);
    }
  }
  void skip(std::uint64_t size);
  // Throws std::runtime_error if there is more.
  void expect_end();
  [[noreturn]] void fail(const std::string& what) const;

  std::uint64_t bytes() const noexcept { return bytes_; }  // of the file, as it says itself

 private:
  void copy(void* to, std::size_t size) noexcept;
  void read_across(std::byte* to, std::size_t size);
  void next_frame();
  std::size_t read_file(void* to, std::size_t size);

  const detail::FileDescriptor file_;
  std::uint64_t bytes_ = 0;
  std::uint64_t offset_ = 0;  // in the file, of the frame
  std::uint32_t frames_ = 0;
  std::vector<std::byte> frame_;
  std::size_t at_ = 0;
};

// Reads a snapshot into the empty shards of a store. Accepts any bytes: what is wrong is an error,
// and what there is no room for is dropped by the rules of eviction.
//
// Not thread-safe. Members throw std::runtime_error, which says where and what is wrong,
// std::system_error and std::bad_alloc.
class SnapshotReader {
 public:
  // Opens the file and reads its start.
  explicit SnapshotReader(const std::string& path);
  const snapshot::Start& start() const noexcept { return start_; }
  // Counters that are forgotten at `now` are left out. There are 2^n shards.
  void read(std::span<const std::unique_ptr<Shard>> shards, core::Ticks now);

  const snapshot::End& end() const noexcept { return end_; }
  std::uint64_t dropped() const noexcept { return dropped_; }  // for which there was no memory
  std::uint64_t bytes() const noexcept { return in_.bytes(); }

 private:
  struct KnownLimit {
    std::uint64_t id;
    Limit limit;
  };

  template <typename Record>
  Record get() {
    Record record;
    in_.read(&record, sizeof(record));
    return record;
  }
  void read_limit(const snapshot::RecordHead& head);
  void read_counter(const snapshot::RecordHead& head, Shard& shard);
  // Return false, with their bytes skipped, if there is no memory for the counter's window.
  bool read_state(snapshot::Kind kind, Shard& shard, Slot& slot);
  void read_fixed(Slot& slot);
  bool read_slices(Shard& shard, Slot& slot);
  bool read_log(Shard& shard, Slot& slot);
  void read_summaries(core::LogBuffer& log);
  void read_entries(core::LogBuffer& log);
  bool read_permits(Shard& shard, Slot& slot);
  void read_block(const snapshot::RecordHead& head, Shard& shard);
  void read_end();
  core::Ticks check(std::int64_t instant) const;
  core::Ticks check_last(std::int64_t instant) const;  // of the change of a counter
  void require(bool holds, const char* what) const;

  FrameReader in_;
  snapshot::Start start_{};
  snapshot::End end_{};
  std::vector<std::optional<KnownLimit>> limits_;  // by index
  std::vector<core::Ticks> denials_;
  std::string name_;
  core::Ticks now_ = 0;
  core::Ticks untouched_from_ = 0;  // of the counter that is read
  std::uint64_t dropped_ = 0;
};

}  // namespace sluice::memory

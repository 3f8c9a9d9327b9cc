#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "limiter/replacement_file.h"
#include "stores/memory/fingerprint.h"
#include "stores/memory/shard.h"

// The file of a snapshot: a FileHead, then frames, which together contain records: kStart, the
// others in any order except that kLimit precedes the counters of its limit, kEnd. Integers are
// little-endian. A program refuses a file of another version.
namespace sluice::memory::snapshot {

inline constexpr char kMagic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'S', 'N'};
inline constexpr std::uint64_t kVersion = 1;

struct FileHead {
  char magic[8];
  std::uint64_t version;
};
static_assert(sizeof(FileHead) == 16);

// The records are cut into frames, all but the last of this size, so that each byte is checked
// before it is read.
inline constexpr std::size_t kFrameBytes = std::size_t{1} << 20;

struct FrameHead {
  std::uint32_t bytes;     // of the frame, which follow
  std::uint32_t number;    // from 0
  std::uint64_t checksum;  // XXH3 of these bytes, with the number as its seed
};
static_assert(sizeof(FrameHead) == 16);

enum class RecordKind : std::uint16_t {
  kStart = 1,  // the first record
  kLimit,      // what `limit` means in the records that follow
  kFixed,      // counters, by the memory of their states
  kSlices,
  kLog,
  kPermits,
  kBlock,
  kEnd,     // the last record
  kBudget,  // a counter of a budget
};

// Begins each record.
struct RecordHead {
  RecordKind kind;
  std::uint16_t limit;  // of a counter and of kLimit; kBlock: 1 if it is by hand; otherwise 0
  // Of a counter: PackedState::expiry; kBlock: the limit (Blocks::Known); otherwise 0.
  std::uint32_t expiry;
  Fingerprint key;  // of a counter and of kBlock; kLimit: the id in `low`; otherwise 0
};
static_assert(sizeof(RecordHead) == 24);

struct StartBody {
  FingerprintMaker::Secret secret;
  std::int64_t saved;      // the instant
  std::uint64_t counters;  // about
  std::uint64_t unused[6];
};
static_assert(sizeof(StartBody) == 384);

struct LimitBody {
  std::uint64_t limit, per;
  std::uint64_t options[6];  // by core::LimitOption, of the first ones; kAbsent: not set
  std::uint64_t algorithm;

  static constexpr std::uint64_t kAbsent = ~std::uint64_t{0};
};
static_assert(sizeof(LimitBody) == 72);

struct FixedBody {
  std::uint64_t a, b;  // PackedState
  std::uint64_t units;
};
static_assert(sizeof(FixedBody) == 24);

struct SlicesBody {
  std::int64_t last;
  std::uint64_t period;
  std::uint64_t slices;  // slices + 1 counts of 32 bits follow, the newest first
};
static_assert(sizeof(SlicesBody) == 24);

struct LogBody {
  std::int64_t last;
  std::uint32_t summaries;      // the number of core::Summary that follow
  std::uint32_t entries;        // then this number of core::LogEntry
  std::uint64_t has_summaries;  // whether the log may have any: 0 or 1
};
static_assert(sizeof(LogBody) == 24);

struct PermitsBody {
  std::int64_t last;
  std::uint64_t count;  // the number of core::PermitEntry that follow
};
static_assert(sizeof(PermitsBody) == 16);

struct BudgetBody {
  std::int64_t last, latest;
  std::uint64_t spent;
  std::uint32_t known;
  std::uint32_t records;  // the number of core::IdRecord that follow; of open holds with their end
};
static_assert(sizeof(BudgetBody) == 32);

struct BlockBody {
  std::int64_t last, end, grown, forgotten;
  std::uint32_t denials;    // the number of instants of 64 bits that follow
  std::uint32_t key_bytes;  // then the name
  std::uint32_t tag_bytes;
  std::uint16_t keyspace;
  std::uint16_t has_name;
};
static_assert(sizeof(BlockBody) == 48);

struct EndBody {
  std::uint64_t counters, blocks;  // records of each
};
static_assert(sizeof(EndBody) == 16);

}  // namespace sluice::memory::snapshot

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
  const snapshot::StartBody& start() const noexcept { return start_; }
  // Counters that are forgotten at `now` are left out. There are 2^n shards.
  void read(std::span<const std::unique_ptr<Shard>> shards, core::Ticks now);

  const snapshot::EndBody& end() const noexcept { return end_; }
  std::uint64_t dropped() const noexcept { return dropped_; }  // for which there was no memory
  std::uint64_t bytes() const noexcept { return in_.bytes(); }

 private:
  template <typename Record>
  Record get() {
    Record record;
    in_.read(&record, sizeof(record));
    return record;
  }
  void read_limit(const snapshot::RecordHead& head);
  void read_counter(const snapshot::RecordHead& head, Shard& shard);
  // Return false, with their bytes skipped, if there is no memory for the counter's window.
  bool read_state(snapshot::RecordKind kind, Shard& shard, Slot& slot);
  void read_fixed(Slot& slot);
  bool read_slices(Shard& shard, Slot& slot);
  bool read_log(Shard& shard, Slot& slot);
  void read_summaries(core::LogBuffer& log);
  void read_entries(core::LogBuffer& log);
  bool read_permits(Shard& shard, Slot& slot);
  bool read_budget(Shard& shard, Slot& slot);
  void read_block(const snapshot::RecordHead& head, Shard& shard);
  void read_end();
  core::Ticks check(std::int64_t instant) const;
  core::Ticks check_last(std::int64_t instant) const;  // of the change of a counter
  void require(bool holds, const char* what) const;

  FrameReader in_;
  snapshot::StartBody start_{};
  snapshot::EndBody end_{};
  std::vector<std::optional<std::pair<std::uint64_t, Limit>>> limits_;  // ids and limits, by index
  std::vector<core::Ticks> denials_;
  std::vector<core::IdRecord> ids_;
  std::string name_;
  core::Ticks now_ = 0;
  core::Ticks untouched_from_ = 0;  // of the counter that is read
  std::uint64_t dropped_ = 0;
};

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
  void put_budget(core::BudgetBuffer& budget);
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
  snapshot::EndBody end_{};
};

}  // namespace sluice::memory

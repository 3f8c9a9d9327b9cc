#pragma once

#include <cstddef>
#include <cstdint>

#include "stores/memory/fingerprint.h"

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

enum class Kind : std::uint16_t {
  kStart = 1,  // the first record
  kLimit,      // what `limit` means in the records that follow
  kFixed,      // counters, by the memory of their states
  kSlices,
  kLog,
  kPermits,
  kBlock,
  kEnd,  // the last record
};

// Begins each record.
struct RecordHead {
  Kind kind;
  std::uint16_t limit;  // of a counter and of kLimit; kBlock: 1 if it is by hand; otherwise 0
  // Of a counter: PackedState::expiry; kBlock: the limit (Blocks::Known); otherwise 0.
  std::uint32_t expiry;
  Fingerprint key;  // of a counter and of kBlock; kLimit: the id in `low`; otherwise 0
};
static_assert(sizeof(RecordHead) == 24);

struct Start {
  FingerprintMaker::Secret secret;
  std::int64_t saved;      // the instant
  std::uint64_t counters;  // about
  std::uint64_t unused[6];
};
static_assert(sizeof(Start) == 384);

struct LimitBody {
  std::uint64_t limit, per;
  std::uint64_t options[6];  // by core::LimitOption; kAbsent: not set
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
  std::uint32_t summaries;      // so many SummaryBody follow
  std::uint32_t entries;        // then so many core::LogEntry
  std::uint64_t has_summaries;  // whether the log may have any: 0 or 1
};
static_assert(sizeof(LogBody) == 24);

struct SummaryBody {
  std::int64_t first, last;
  std::uint64_t units;
};
static_assert(sizeof(SummaryBody) == 24);

struct PermitsBody {
  std::int64_t last;
  std::uint64_t count;  // so many core::PermitEntry follow
};
static_assert(sizeof(PermitsBody) == 16);

struct BlockBody {
  std::int64_t last, end, grown, forgotten;
  std::uint32_t denials;    // so many instants of 64 bits follow
  std::uint32_t key_bytes;  // then the name
  std::uint32_t tag_bytes;
  std::uint16_t keyspace;
  std::uint16_t has_name;
};
static_assert(sizeof(BlockBody) == 48);

struct End {
  std::uint64_t counters, blocks;  // records of each
};
static_assert(sizeof(End) == 16);

}  // namespace sluice::memory::snapshot

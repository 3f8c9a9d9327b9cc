#include "stores/memory/snapshot_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>

#include "core/limit.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memory {
namespace {

using snapshot::Kind;
using snapshot::RecordHead;

// What is copied under one lock: the groups of a table, which are about a thousand counters, and
// the bytes of their logs. A longer log is copied as a whole.
constexpr std::size_t kGroupsAtOnce = 64;
constexpr std::size_t kBytesAtOnce = std::size_t{256} << 10;

// Returns the binary logarithm of the number of parts in which a shard is copied.
int parts_of(Shard& shard) {
  const std::lock_guard lock(shard.mutex);
  return static_cast<int>(std::bit_width(
      std::max(shard.group_count() / kGroupsAtOnce, shard.blob_bytes() / kBytesAtOnce)));
}

}  // namespace

SnapshotWriter::SnapshotWriter(detail::ReplacementFile& file,
                               const FingerprintMaker::Secret& secret, std::uint64_t counters,
                               core::Ticks now)
    : file_(file), now_(now) {
  snapshot::FileHead head{{}, snapshot::kVersion};
  std::copy(std::begin(snapshot::kMagic), std::end(snapshot::kMagic), head.magic);
  file_.write(std::as_bytes(std::span(&head, 1)));
  put(RecordHead{Kind::kStart, 0, 0, {}});
  put(snapshot::Start{secret, now, counters, {}});
}

void SnapshotWriter::add(Shard& shard) {
  written_ids_.clear();
  const int bits = parts_of(shard);
  const std::uint64_t last_offset = ~std::uint64_t{0} >> bits;
  for (std::uint64_t part = 0; part < std::uint64_t{1} << bits; ++part) {
    const std::uint64_t first = part == 0 ? 0 : part << (64 - bits);
    {
      const std::lock_guard lock(shard.mutex);
      shard.for_each_between(first, first + last_offset,
                             [&](const Slot& slot, std::uint32_t expiry, LimitUsage::Index index) {
                               put_counter(slot, expiry, index, shard.usage());
                             });
    }
    write_out();
  }
  for (std::size_t part = 0; part < shard.blocks.parts(); ++part) {
    {
      const std::lock_guard lock(shard.mutex);
      shard.blocks.for_each_in(part, [this](const Fingerprint& key, const Blocks::Known& known) {
        put_block(key, known);
      });
    }
    write_out();
  }
}

void SnapshotWriter::end() {
  put(RecordHead{Kind::kEnd, 0, 0, {}});
  put(end_);
  write_out();
  if (!pending_.empty()) write_frame(pending_);
  pending_.clear();
}

void SnapshotWriter::put_counter(const Slot& slot, std::uint32_t expiry, LimitUsage::Index index,
                                 const LimitUsage& usage) {
  if (PackedState::forgotten_of(expiry).is_past(now_)) return;
  put_limit(index, usage);
  ++end_.counters;
  RecordHead head{Kind::kFixed, index, expiry, slot.key};
  const PackedState& state = slot.state;
  if (SliceBlob* const slices = state.slices()) {
    head.kind = Kind::kSlices;
    put(head);
    put_slices(*slices);
  } else if (core::LogBuffer* const log = state.log()) {
    head.kind = Kind::kLog;
    put(head);
    put_log(*log);
  } else if (core::PermitBuffer* const permits = state.permits()) {
    head.kind = Kind::kPermits;
    put(head);
    put_permits(*permits);
  } else {
    put(head);
    put(snapshot::FixedBody{state.a, state.b, state.units});
  }
}

// Says what the index means, if that has changed.
void SnapshotWriter::put_limit(LimitUsage::Index index, const LimitUsage& usage) {
  if (index >= written_ids_.size()) written_ids_.resize(index + std::size_t{1});
  const std::uint64_t id = usage.id(index);
  if (written_ids_[index] == id && id != 0) return;
  written_ids_[index] = id;
  const LimitSpec spec = core::spec_of(usage.limit(index));
  snapshot::LimitBody body{};
  body.limit = spec.limit;
  body.per = static_cast<std::uint64_t>(usage.limit(index).period().count());
  body.algorithm = static_cast<std::uint64_t>(spec.algorithm);
  for (const core::OptionInfo& row : core::kLimitOptions) {
    const auto value = core::value_of(spec, row.option);
    body.options[static_cast<std::size_t>(row.option)] =
        value.value_or(snapshot::LimitBody::kAbsent);
  }
  put(RecordHead{Kind::kLimit, index, 0, {.low = id}});
  put(body);
}

void SnapshotWriter::put_slices(SliceBlob& blob) {
  put(snapshot::SlicesBody{blob.last, blob.period, blob.slices});
  put(blob.counts().data(), blob.counts().size_bytes());
}

void SnapshotWriter::put_log(core::LogBuffer& log) {
  const core::Log view = log.view();
  put(snapshot::LogBody{log.last, log.summaries, log.entries, log.summary_room > 0});
  for (const core::Summary& one : view.older) {
    put(snapshot::SummaryBody{one.first, one.last, one.units});
  }
  put(view.entries.data(), view.entries.size_bytes());
}

void SnapshotWriter::put_permits(core::PermitBuffer& permits) {
  put(snapshot::PermitsBody{permits.last, permits.count});
  put(permits.begin(), permits.count * sizeof(core::PermitEntry));
}

void SnapshotWriter::put_block(const Fingerprint& key, const Blocks::Known& known) {
  const core::BlockState& state = known.state;
  if (state.forgotten <= now_) return;
  ++end_.blocks;
  put(RecordHead{Kind::kBlock, static_cast<std::uint16_t>(known.by_hand), known.limit, key});
  put(snapshot::BlockBody{state.last, state.end, state.grown, state.forgotten,
                          static_cast<std::uint32_t>(state.denials.size()),
                          static_cast<std::uint32_t>(known.key.size()),
                          static_cast<std::uint32_t>(known.tag.size()),
                          static_cast<std::uint16_t>(known.keyspace), known.has_name});
  put(state.denials.data(), state.denials.size_bytes());
  put(known.key.data(), known.key.size());
  put(known.tag.data(), known.tag.size());
}

void SnapshotWriter::put(const void* bytes, std::size_t size) {
  if (size == 0) return;
  const auto* const begin = static_cast<const std::byte*>(bytes);
  pending_.insert(pending_.end(), begin, begin + size);
}

// Writes what fills whole frames.
void SnapshotWriter::write_out() {
  std::size_t written = 0;
  while (pending_.size() - written >= snapshot::kFrameBytes) {
    write_frame(std::span(pending_).subspan(written, snapshot::kFrameBytes));
    written += snapshot::kFrameBytes;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(written));
}

void SnapshotWriter::write_frame(std::span<const std::byte> bytes) {
  const snapshot::FrameHead head{static_cast<std::uint32_t>(bytes.size()), frames_,
                                 XXH3_64bits_withSeed(bytes.data(), bytes.size(), frames_)};
  ++frames_;
  file_.write(std::as_bytes(std::span(&head, 1)));
  file_.write(bytes);
}

}  // namespace sluice::memory

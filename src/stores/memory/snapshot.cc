// Snapshots of the memory store in a file. The writer copies about a thousand counters at a time
// under the lock of their shard, and writes them without it. The reader accepts any bytes: it
// checks lengths and values before it uses them, and drops what exceeds the bounds of the store.

#define XXH_INLINE_ALL
#include "stores/memory/snapshot.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>

#include "core/limit.h"

namespace sluice::memory {
namespace {

using snapshot::RecordHead;
using snapshot::RecordKind;

constexpr core::Ticks kLastTick = kLastInstant.time_since_epoch().count();
constexpr core::Ticks kLastEnd = kLastTick * 4;  // of leases and blocks, with time to spare

// Returns the options of a limit that are in a snapshot.
auto kept_options() {
  return std::span(core::kLimitOptions).first(std::size(snapshot::LimitBody{}.options));
}

// Returns the spec of a limit for evictions, which need no calendar.
LimitSpec spec_from(const snapshot::LimitBody& body) {
  LimitSpec spec;
  spec.algorithm = static_cast<Algorithm>(body.algorithm);
  spec.limit = body.limit;
  const auto too_long = static_cast<std::uint64_t>(kMaxPeriod.count()) + 1;
  const bool never_ends = Duration{static_cast<std::int64_t>(body.per)} == kNeverEnds;
  spec.per =
      never_ends ? kNeverEnds : Duration{static_cast<std::int64_t>(std::min(body.per, too_long))};
  for (const core::OptionInfo& row : kept_options()) {
    const std::uint64_t value = body.options[static_cast<std::size_t>(row.option)];
    if (value == snapshot::LimitBody::kAbsent) continue;
    const bool is_word = !row.words.empty();
    core::set_value(spec, row.option, is_word ? value % row.words.size() : value);
  }
  return spec;
}

}  // namespace

FrameReader::FrameReader(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (file_.get() < 0) throw std::system_error(errno, std::generic_category(), "cannot open it");
  snapshot::FileHead head{};
  const bool is_whole = read_file(&head, sizeof(head)) == sizeof(head);
  if (!is_whole || !std::equal(std::begin(head.magic), std::end(head.magic), snapshot::kMagic)) {
    fail("it is not a snapshot; expected a file that Sluice has written");
  }
  if (head.version != snapshot::kVersion) {
    fail("the format has version " + std::to_string(head.version) + "; expected " +
         std::to_string(snapshot::kVersion));
  }
}

void FrameReader::fail(const std::string& what) const {
  throw std::runtime_error("at byte " + std::to_string(offset_) + ": " + what);
}

std::size_t FrameReader::read_file(void* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file_.get(), static_cast<std::byte*>(to) + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::system_error(errno, std::generic_category(), "cannot read it");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes_ += done;
  return done;
}

void FrameReader::next_frame() {
  offset_ = bytes_;
  snapshot::FrameHead head{};
  if (read_file(&head, sizeof(head)) < sizeof(head)) fail("the file ends too early");
  if (head.bytes == 0 || head.bytes > snapshot::kFrameBytes || head.number != frames_) {
    fail("this is not the head of frame " + std::to_string(frames_));
  }
  frame_.resize(head.bytes);
  at_ = 0;
  if (read_file(frame_.data(), head.bytes) < head.bytes) fail("the file ends too early");
  if (XXH3_64bits_withSeed(frame_.data(), head.bytes, head.number) != head.checksum) {
    fail("the checksum of frame " + std::to_string(frames_) + " is wrong");
  }
  ++frames_;
}

void FrameReader::copy(void* to, std::size_t size) noexcept {
  if (size > 0) std::memcpy(to, frame_.data() + at_, size);
  at_ += size;
}

void FrameReader::read_across(std::byte* to, std::size_t size) {
  while (size > 0) {
    if (at_ == frame_.size()) next_frame();
    const std::size_t part = std::min(size, frame_.size() - at_);
    copy(to, part);
    to += part;
    size -= part;
  }
}

void FrameReader::skip(std::uint64_t size) {
  while (size > 0) {
    if (at_ == frame_.size()) next_frame();
    const auto part = std::min<std::uint64_t>(size, frame_.size() - at_);
    at_ += part;
    size -= part;
  }
}

void FrameReader::expect_end() {
  std::byte more{};
  if (at_ < frame_.size() || read_file(&more, 1) > 0) fail("there is more after the last record");
}

SnapshotReader::SnapshotReader(const std::string& path) : in_(path) {
  require(get<RecordHead>().kind == RecordKind::kStart, "the first record is another one");
  start_ = get<snapshot::StartBody>();
  check(start_.saved);
}

void SnapshotReader::require(bool holds, const char* what) const {
  if (!holds) in_.fail(what);
}

core::Ticks SnapshotReader::check(std::int64_t instant) const {
  require(instant >= 0 && instant <= kLastTick, "an instant is out of range");
  return instant;
}

core::Ticks SnapshotReader::check_last(std::int64_t instant) const {
  require(check(instant) <= untouched_from_, "a counter is untouched before its last change");
  return instant;
}

void SnapshotReader::read(std::span<const std::unique_ptr<Shard>> shards, core::Ticks now) {
  now_ = now;
  const std::uint64_t share = start_.counters / shards.size();
  for (const auto& shard : shards) shard->expect(share + share / 64 + Tags::kSlots);
  while (true) {
    const auto head = get<RecordHead>();
    Shard& shard = *shards[head.key.high & (shards.size() - 1)];
    switch (head.kind) {
      case RecordKind::kLimit: read_limit(head); break;
      case RecordKind::kFixed:
      case RecordKind::kSlices:
      case RecordKind::kLog:
      case RecordKind::kPermits:
      case RecordKind::kBudget: read_counter(head, shard); break;
      case RecordKind::kBlock: read_block(head, shard); break;
      case RecordKind::kEnd: return read_end();
      case RecordKind::kStart:
      default: in_.fail("a record has an unknown kind");
    }
  }
}

void SnapshotReader::read_end() {
  const auto end = get<snapshot::EndBody>();
  require(end.counters == end_.counters && end.blocks == end_.blocks, "records are missing");
  in_.expect_end();
}

void SnapshotReader::read_limit(const RecordHead& head) {
  const auto body = get<snapshot::LimitBody>();
  require(body.algorithm < kAlgorithms.size(), "an algorithm is unknown");
  const auto limit = Limit::make(spec_from(body));
  if (!limit) in_.fail("a limit is wrong: " + limit.error());
  if (head.limit >= limits_.size()) limits_.resize(head.limit + std::size_t{1});
  limits_[head.limit] = {head.key.low, *limit};
}

void SnapshotReader::read_counter(const RecordHead& head, Shard& shard) {
  require(head.key.low != 0 && !PackedState::is_mark(head.expiry), "a counter is wrong");
  require(head.limit < limits_.size() && limits_[head.limit], "a counter has an unknown limit");
  const auto& [id, limit] = *limits_[head.limit];
  ++end_.counters;
  const core::Forgotten forgotten = PackedState::forgotten_of(head.expiry);
  untouched_from_ = forgotten.from();
  Slot* const slot = shard.restore(head.key, id, limit, now_);
  require(slot != nullptr, "a counter is there twice");
  const bool has_room = read_state(head.kind, shard, *slot);
  if (has_room && !forgotten.is_past(now_)) return slot->state.leave(head.expiry);
  shard.erase(*slot);
  dropped_ += !forgotten.is_past(now_);
}

bool SnapshotReader::read_state(RecordKind kind, Shard& shard, Slot& slot) {
  switch (kind) {
    case RecordKind::kSlices: return read_slices(shard, slot);
    case RecordKind::kLog: return read_log(shard, slot);
    case RecordKind::kPermits: return read_permits(shard, slot);
    case RecordKind::kBudget: return read_budget(shard, slot);
    default: read_fixed(slot); return true;
  }
}

void SnapshotReader::read_fixed(Slot& slot) {
  const auto body = get<snapshot::FixedBody>();
  require(body.b >> 62 == 0 && body.units <= kMaxUnits, "the state of a counter is wrong");
  PackedState state;
  state.a = body.a;
  state.b = body.b;
  state.units = static_cast<std::uint32_t>(body.units);
  check_last(state.state().last);
  slot.state.set_rest(state);
}

bool SnapshotReader::read_slices(Shard& shard, Slot& slot) {
  const auto body = get<snapshot::SlicesBody>();
  const auto least = static_cast<std::uint64_t>(kMinPeriod.count());
  const auto most = static_cast<std::uint64_t>(kMaxPeriod.count());
  require(
      body.slices >= 1 && body.slices <= kMaxSlices && body.period >= least && body.period <= most,
      "the slices of a counter are wrong");
  const std::size_t bytes = (body.slices + 1) * sizeof(std::uint32_t);
  void* const memory = shard.allocate_for(slot, SliceBlob::bytes_for(body.slices), now_);
  if (memory == nullptr) {
    in_.skip(bytes);
    return false;
  }
  auto* const blob = new (memory) SliceBlob;
  blob->slices = static_cast<std::uint32_t>(body.slices);
  blob->period = body.period;
  slot.state.set(blob);
  blob->last = check_last(body.last);
  in_.read(blob->counts().data(), bytes);
  return true;
}

bool SnapshotReader::read_log(Shard& shard, Slot& slot) {
  const auto body = get<snapshot::LogBody>();
  require(body.has_summaries <= 1 && body.has_summaries >= (body.summaries > 0),
          "the log of a counter is wrong");
  // A merge of the log needs room for two of each.
  const std::size_t summary_room =
      body.has_summaries == 0 ? 0 : std::max<std::size_t>(body.summaries, 2);
  const std::size_t entry_room = std::max<std::size_t>(body.entries, 2);
  void* const memory =
      shard.allocate_for(slot, core::LogBuffer::bytes_for(summary_room, entry_room), now_);
  if (memory == nullptr) {
    in_.skip(body.summaries * sizeof(core::Summary));
    in_.skip(body.entries * sizeof(core::LogEntry));
    return false;
  }
  auto* const log = new (memory) core::LogBuffer;
  log->summary_room = static_cast<std::uint32_t>(summary_room);
  log->entry_room = static_cast<std::uint32_t>(entry_room);
  slot.state.set(log);
  log->summaries = body.summaries;
  log->entries = body.entries;
  log->last = check_last(body.last);
  read_summaries(*log);
  read_entries(*log);
  return true;
}

void SnapshotReader::read_summaries(core::LogBuffer& log) {
  const std::span<const core::Summary> older = log.view().older;
  in_.read(log.summary_begin(), older.size_bytes());
  core::Ticks before = 0;
  for (const core::Summary& one : older) {
    require(before <= one.first && one.first <= one.last && one.last <= log.last &&
                one.units <= kMaxUnits,
            "the log of a counter is wrong");
    before = one.last;
  }
}

void SnapshotReader::read_entries(core::LogBuffer& log) {
  const core::Log view = log.view();
  in_.read(log.entry_begin(), view.entries.size_bytes());
  core::Ticks before = view.older.empty() ? -1 : view.older.back().last - 1;
  for (const core::LogEntry& entry : view.entries) {
    require(before < entry.at() && entry.at() <= log.last, "the log of a counter is wrong");
    before = entry.at();
    log.log_units += entry.units();
  }
  require(log.log_units <= kMaxUnits, "the log of a counter is wrong");
}

bool SnapshotReader::read_permits(Shard& shard, Slot& slot) {
  const auto body = get<snapshot::PermitsBody>();
  require(body.count <= kMaxUnits, "the permits of a counter are wrong");
  const std::size_t room = std::max<std::size_t>(body.count, 1);
  const std::size_t bytes = body.count * sizeof(core::PermitEntry);
  void* const memory = shard.allocate_for(slot, core::PermitBuffer::bytes_for(room), now_);
  if (memory == nullptr) {
    in_.skip(bytes);
    return false;
  }
  auto* const permits = new (memory) core::PermitBuffer;
  permits->room = static_cast<std::uint32_t>(room);
  slot.state.set(permits);
  permits->last = check_last(body.last);
  std::uint64_t units = 0;
  for (std::uint64_t i = 0; i < body.count; ++i) {
    const auto entry = get<core::PermitEntry>();
    units += entry.units;
    require(entry.end >= 0 && entry.end <= kLastEnd && units <= kMaxUnits,
            "the permits of a counter are wrong");
    permits->begin()[i] = entry;
    permits->first_end = i == 0 ? entry.end : std::min(permits->first_end, entry.end);
    permits->last_end = std::max(permits->last_end, entry.end);
  }
  permits->count = static_cast<std::uint32_t>(body.count);
  permits->units = static_cast<std::uint32_t>(units);
  return true;
}

bool SnapshotReader::read_budget(Shard& shard, Slot& slot) {
  constexpr const char* kWrong = "the budget of a counter is wrong";
  const auto body = get<snapshot::BudgetBody>();
  require(body.spent <= kMaxAmount && body.latest >= 0 && body.latest <= kLastEnd, kWrong);
  // The list grows with the bytes that the file really has.
  ids_.clear();
  std::uint32_t open = 0;
  for (std::uint32_t i = 0; i < body.records; ++i) {
    const auto& record = ids_.emplace_back(get<core::IdRecord>());
    require(record.kind() >= core::IdKind::kOpen && record.kind() <= core::IdKind::kCancelled,
            kWrong);
    open += record.kind() == core::IdKind::kOpen ? 1 : 0;
  }
  const std::size_t room = core::BudgetBuffer::room_for(body.records);
  void* const memory = shard.allocate_budget(core::BudgetBuffer::bytes_for(room, open), now_);
  if (memory == nullptr) return false;
  auto* const budget = new (memory) core::BudgetBuffer;
  budget->record_room = static_cast<std::uint32_t>(room);
  budget->hold_room = open;
  std::fill_n(budget->record_begin(), room, core::IdRecord{});
  slot.state.set(budget);
  budget->last = check_last(body.last);
  budget->spent = body.spent;
  budget->latest = body.latest;
  budget->known = body.known;
  for (const core::IdRecord& record : ids_) {
    const bool is_open = record.kind() == core::IdKind::kOpen;
    const auto end = static_cast<core::Ticks>(record.rest());
    require(!budget->contains(record.name()) && (!is_open || end <= body.latest), kWrong);
    budget->held += is_open ? record.amount() : 0;
    require(budget->held <= kMaxAmount, kWrong);
    budget->add(record, is_open ? end : 0);
  }
  return true;
}

void SnapshotReader::read_block(const RecordHead& head, Shard& shard) {
  const auto body = get<snapshot::BlockBody>();
  const auto is_end = [](std::int64_t at) { return at >= 0 && at <= kLastEnd; };
  require(
      is_end(body.last) && is_end(body.end) && is_end(body.grown) && is_end(body.forgotten) &&
          body.denials <= kMaxBlockDenials && body.keyspace <= 1 && body.has_name <= 1 &&
          head.limit <= 1 &&
          std::uint64_t{body.key_bytes} + body.tag_bytes <= body.has_name * Blocks::kLongestName,
      "a block is wrong");
  ++end_.blocks;
  denials_.resize(body.denials);
  in_.read(denials_.data(), body.denials * sizeof(core::Ticks));
  require(std::all_of(denials_.begin(), denials_.end(), is_end), "a denial is out of range");
  name_.resize(body.key_bytes + body.tag_bytes);
  in_.read(name_.data(), name_.size());
  if (body.forgotten <= now_) return;
  const std::string_view name = name_;
  const Blocks::Known known{{body.last, body.end, body.grown, body.forgotten, denials_},
                            head.expiry,
                            head.limit == 1,
                            name.substr(0, body.key_bytes),
                            name.substr(body.key_bytes),
                            static_cast<Keyspace>(body.keyspace),
                            body.has_name != 0};
  require(shard.blocks.restore(head.key, known, now_), "a block is there twice");
}

namespace {

using snapshot::RecordHead;
using snapshot::RecordKind;

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
  put(RecordHead{RecordKind::kStart, 0, 0, {}});
  put(snapshot::StartBody{secret, now, counters, {}});
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
  put(RecordHead{RecordKind::kEnd, 0, 0, {}});
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
  RecordHead head{RecordKind::kFixed, index, expiry, slot.key};
  const PackedState& state = slot.state;
  if (SliceBlob* const slices = state.slices()) {
    head.kind = RecordKind::kSlices;
    put(head);
    put_slices(*slices);
  } else if (core::LogBuffer* const log = state.log()) {
    head.kind = RecordKind::kLog;
    put(head);
    put_log(*log);
  } else if (core::PermitBuffer* const permits = state.permits()) {
    head.kind = RecordKind::kPermits;
    put(head);
    put_permits(*permits);
  } else if (core::BudgetBuffer* const budget = state.budget()) {
    head.kind = RecordKind::kBudget;
    put(head);
    put_budget(*budget);
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
  for (const core::OptionInfo& row : kept_options()) {
    const auto value = core::value_of(spec, row.option);
    body.options[static_cast<std::size_t>(row.option)] =
        value.value_or(snapshot::LimitBody::kAbsent);
  }
  put(RecordHead{RecordKind::kLimit, index, 0, {.low = id}});
  put(body);
}

void SnapshotWriter::put_slices(SliceBlob& blob) {
  put(snapshot::SlicesBody{blob.last, blob.period, blob.slices});
  put(blob.counts().data(), blob.counts().size_bytes());
}

void SnapshotWriter::put_log(core::LogBuffer& log) {
  const core::Log view = log.view();
  put(snapshot::LogBody{log.last, log.summaries, log.entries, log.summary_room > 0});
  put(view.older.data(), view.older.size_bytes());
  put(view.entries.data(), view.entries.size_bytes());
}

void SnapshotWriter::put_permits(core::PermitBuffer& permits) {
  put(snapshot::PermitsBody{permits.last, permits.count});
  put(permits.begin(), permits.count * sizeof(core::PermitEntry));
}

void SnapshotWriter::put_budget(core::BudgetBuffer& budget) {
  put(snapshot::BudgetBody{budget.last, budget.latest, budget.spent, budget.known, budget.records});
  for (const core::IdRecord& record : std::span(budget.record_begin(), budget.record_room)) {
    if (record.kind() == core::IdKind::kUnknown) continue;
    if (record.kind() != core::IdKind::kOpen) {
      put(record);
      continue;
    }
    const core::OpenHold& hold = budget.hold_begin()[record.rest()];
    put(core::IdRecord(record.name(), record.kind(), record.amount(),
                       static_cast<std::uint64_t>(hold.end)));
  }
}

void SnapshotWriter::put_block(const Fingerprint& key, const Blocks::Known& known) {
  const core::BlockState& state = known.state;
  if (state.forgotten <= now_) return;
  ++end_.blocks;
  put(RecordHead{RecordKind::kBlock, static_cast<std::uint16_t>(known.by_hand), known.limit, key});
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

// A part of the memory store: the table of its counters, their logs and permits, and the blocked
// keys. A shard counts what each limit uses. When it is full it evicts from the limit that uses the
// most, so that a flood of keys of one limit does not release the keys of another.

#include "stores/memory/shard.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "core/algorithms.h"

namespace sluice::memory {
namespace {

// The places that a limit can have.
constexpr std::size_t kWays = 8;
constexpr std::size_t kCountersPerPlace = 64;
constexpr std::size_t kMostPlaces = 4096;

std::size_t places_for(std::size_t max_keys) noexcept {
  return std::clamp(std::bit_ceil(max_keys / kCountersPerPlace + 1), 4 * kWays, kMostPlaces);
}

}  // namespace

std::uint64_t limit_id_of(const Charge& charge) noexcept {
  const Limit& limit = charge.limit;
  const auto kind = static_cast<std::uint64_t>(limit.algorithm()) << 1 |
                    std::uint64_t{charge.rule.keyspace == Keyspace::kRules};
  const std::uint64_t id = detail::mix(kind, charge.rule.limit_id);
  if (charge.rule.limit_id != 0) return id;
  const auto period = static_cast<std::uint64_t>(limit.period().count());
  const std::uint64_t numbers =
      detail::mix(detail::mix(detail::mix(id, limit.limit()), period), limit.capacity());
  return limit.calendar() == nullptr ? numbers : detail::mix(numbers, limit.calendar()->number());
}

LimitUsage::LimitUsage(std::size_t max_keys)
    : places_(1 + places_for(max_keys), Place{.limit = token_bucket(1).per(std::chrono::days{1})}) {
}

// Returns the place of a limit, or a free one, or else one that it shares.
std::size_t LimitUsage::place_for(std::uint64_t id) const noexcept {
  const std::size_t sets = (places_.size() - 1) / kWays;
  const std::size_t set = 1 + id % sets * kWays;
  std::size_t place = set + (id >> 32) % kWays;
  for (std::size_t i = set; i < set + kWays; ++i) {
    if (places_[i].counters == 0) {
      place = i;
    } else if (places_[i].id == id) {
      return i;
    }
  }
  return place;
}

LimitUsage::Index LimitUsage::add_counter(const Charge& charge) noexcept {
  return add_counter(limit_id_of(charge), charge.limit);
}

LimitUsage::Index LimitUsage::add_counter(std::uint64_t id, const Limit& limit) noexcept {
  const auto index = static_cast<Index>(place_for(id));
  Place& place = at(index);
  if (place.counters == 0) place.id = id;
  if (place.id == id) place.limit = limit;
  ++place.counters;
  note_largest(index, Resource::kCounters);
  return index;
}

void LimitUsage::add_bytes(Index index, std::size_t bytes) noexcept {
  at(index).bytes += bytes;
  note_largest(index, Resource::kBytes);
}

void LimitUsage::note_largest(Index index, Resource resource) noexcept {
  if (used(index, resource) > used(largest(resource), resource)) {
    largest_[number_of(resource)] = index;
  }
}

namespace {

constexpr std::size_t kEntriesToSweep = 2;
constexpr std::size_t kEntriesToCompare = 8;
// The maximum number of pools. The first two are for the limits that have no other pool: one for
// blocks after denials, one for blocks by hand.
constexpr std::size_t kMostPools = 2048;
constexpr std::size_t kSharedPools = 2;

// Names the limit of a charge.
std::uint32_t limit_of(const Charge& charge) noexcept {
  const std::uint64_t id = limit_id_of(charge);
  return static_cast<std::uint32_t>(id ^ id >> 32);
}

}  // namespace

Blocks::Blocks(std::size_t max_bytes)
    : parts_(std::bit_ceil(max_bytes / kPartBytes + 1)),
      pools_(kSharedPools),
      max_bytes_(max_bytes) {
  pools_[1].by_hand = true;
}

core::BlockAnswer Blocks::look(const Fingerprint& key, core::Ticks now) const noexcept {
  if (size_ == 0) return {};
  const Entries& part = part_of(key);
  const auto found = part.find(key);
  if (found == part.end()) return {};
  return core::look(found->second.state().at(now), now);
}

core::BlockAnswer Blocks::deny(const Fingerprint& key, const Charge& charge,
                               core::Ticks now) noexcept try {
  const std::uint32_t pool = pool_of(limit_of(charge), false);
  Node* const node = node_of(key, pool, now);
  if (node == nullptr) return {};
  const core::NextBlock next = core::deny(*charge.block, node->second.state().at(now), now);
  write(*node, charge, next, pool);
  return next.answer;
} catch (const std::bad_alloc&) {
  return {};
}

bool Blocks::block(const Fingerprint& key, const Charge& charge, core::Ticks time,
                   core::Ticks now) noexcept try {
  const std::uint32_t pool = pool_of(limit_of(charge), true);
  Node* const node = node_of(key, pool, now);
  if (node == nullptr) return false;
  const core::BlockState held = node->second.state().at(now);
  write(*node, charge, core::block_for(*charge.block, held, now, time), pool);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void Blocks::erase(const Fingerprint& key) noexcept {
  Entries& part = part_of(key);
  const auto found = part.find(key);
  if (found != part.end()) drop(*found);
}

// Returns the entry of a key; if it has none, a new one in the pool, or null if there is no room.
Blocks::Node* Blocks::node_of(const Fingerprint& key, std::uint32_t pool, core::Ticks now) {
  Entries& part = part_of(key);
  const auto found = part.find(key);
  if (found != part.end()) {
    Entry& entry = found->second;
    if (entry.forgotten <= now) entry.denials.clear();
    return &*found;
  }
  drop_forgotten(now);
  while (size_ > 0 && bytes_ + kEntryBytes > max_bytes_) {
    if (!make_room(pools_[pool].by_hand, now)) return nullptr;
  }
  Node& node = *part.try_emplace(key).first;
  try {
    enter(node, pool);
  } catch (const std::bad_alloc&) {
    part.erase(key);
    throw;
  }
  ++size_;
  return &node;
}

void Blocks::list(std::size_t part, core::Ticks now, std::size_t most,
                  std::vector<BlockedKey>& out) const {
  for (const auto& [key, entry] : parts_[part]) {
    if (out.size() >= most) return;
    if (!entry.name || core::look(entry.state().at(now), now).left == 0) continue;
    out.push_back(
        {entry.name->key, entry.name->tag, entry.name->keyspace, Instant{Duration{entry.end}}});
  }
}

bool Blocks::restore(const Fingerprint& key, const Known& known, core::Ticks now) {
  if (contains(key)) return false;
  std::vector<core::Ticks> denials(known.state.denials.begin(), known.state.denials.end());
  std::unique_ptr<const Name> name;
  if (known.has_name) {
    name = std::make_unique<const Name>(
        Name{std::string(known.key), std::string(known.tag), known.keyspace});
  }
  Node* const node = node_of(key, pool_of(known.limit, known.by_hand), now);
  if (node == nullptr) {
    note_lost(known.state.end, known.state.forgotten, now);
    return true;
  }
  Entry& entry = node->second;
  uncount(entry);
  entry.last = known.state.last;
  entry.end = known.state.end;
  entry.grown = known.state.grown;
  entry.forgotten = known.state.forgotten;
  entry.denials = std::move(denials);
  entry.name = std::move(name);
  count(entry);
  return true;
}

void Blocks::keep_name(Entry& entry, const Charge& charge) {
  if (entry.name || charge.key.size() + charge.tag.size() > kLongestName) return;
  entry.name = std::make_unique<const Name>(
      Name{std::string(charge.key), std::string(charge.tag), charge.rule.keyspace});
}

void Blocks::write(Node& node, const Charge& charge, const core::NextBlock& next,
                   std::uint32_t pool) {
  Entry& entry = node.second;
  if (entry.pool != pool) enter(node, pool);
  std::vector<core::Ticks>& denials = entry.denials;
  uncount(entry);
  denials.erase(denials.begin(), denials.begin() + static_cast<std::ptrdiff_t>(
                                                       std::min(next.expired, denials.size())));
  if (denials.empty() && !next.adds) denials.shrink_to_fit();
  try {
    if (next.adds) denials.push_back(next.state.last);
    if (next.state.end > next.state.last) keep_name(entry, charge);
  } catch (const std::bad_alloc&) {
    count(entry);
    throw;
  }
  count(entry);
  entry.last = next.state.last;
  entry.end = next.state.end;
  entry.grown = next.state.grown;
  entry.forgotten = next.state.forgotten;
}

// Returns the pool of a limit, or a free one, or else one that all other limits share.
std::uint32_t Blocks::pool_of(std::uint32_t limit, bool by_hand) {
  std::size_t place = pools_.size();
  for (std::size_t i = kSharedPools; i < pools_.size(); ++i) {
    if (pools_[i].entries.empty()) {
      place = i;
    } else if (pools_[i].limit == limit && pools_[i].by_hand == by_hand) {
      return static_cast<std::uint32_t>(i);
    }
  }
  if (place == kMostPools) return by_hand ? 1 : 0;
  if (place == pools_.size()) pools_.emplace_back();
  pools_[place].limit = limit;
  pools_[place].by_hand = by_hand;
  return static_cast<std::uint32_t>(place);
}

// Puts a new entry, or one of another pool, into the pool.
void Blocks::enter(Node& node, std::uint32_t pool) {
  std::vector<Node*>& entries = pools_[pool].entries;
  entries.push_back(&node);
  Entry& entry = node.second;
  if (entry.pool != kNoPool) leave(entry);
  entry.pool = pool;
  entry.at = static_cast<std::uint32_t>(entries.size() - 1);
  count(entry);
}

void Blocks::leave(Entry& entry) noexcept {
  uncount(entry);
  std::vector<Node*>& entries = pools_[entry.pool].entries;
  entries[entry.at] = entries.back();
  entries[entry.at]->second.at = entry.at;
  entries.pop_back();
  if (entries.empty()) entries.shrink_to_fit();
}

void Blocks::count(const Entry& entry) noexcept {
  bytes_ += entry.bytes();
  pools_[entry.pool].bytes += entry.bytes();
}

void Blocks::uncount(const Entry& entry) noexcept {
  bytes_ -= entry.bytes();
  pools_[entry.pool].bytes -= entry.bytes();
}

// Looks at a few entries and drops those that are forgotten, so that it finds all in time.
void Blocks::drop_forgotten(core::Ticks now) noexcept {
  for (std::size_t i = 0; i < kEntriesToSweep && size_ > 0; ++i) {
    while (swept_at_ >= pools_[swept_pool_].entries.size()) {
      swept_at_ = 0;
      swept_pool_ = swept_pool_ + 1 == pools_.size() ? 0 : swept_pool_ + 1;
    }
    Node& node = *pools_[swept_pool_].entries[swept_at_];
    if (node.second.forgotten <= now) {
      drop(node);  // another entry is in its place then
    } else {
      ++swept_at_;
    }
  }
}

// Drops the first forgotten entry of a few, else the one whose loss matters least. Returns false if
// there are only blocks by hand, which are dropped for others of them only.
bool Blocks::make_room(bool by_hand, core::Ticks now) noexcept {
  Pool* from = &pools_.front();
  for (Pool& pool : pools_) {
    if (pool.entries.empty()) continue;
    const bool is_larger = pool.by_hand == from->by_hand ? pool.bytes > from->bytes : from->by_hand;
    if (from->entries.empty() || is_larger) from = &pool;
  }
  if (from->by_hand && !by_hand) return false;
  Node* victim = nullptr;
  for (std::size_t i = 0; i < std::min(kEntriesToCompare, from->entries.size()); ++i) {
    from->hand = from->hand + 1 >= from->entries.size() ? 0 : from->hand + 1;
    Node* const node = from->entries[from->hand];
    const auto worth = [](const Node& one) {
      return std::pair(one.second.end, one.second.forgotten);
    };
    if (victim == nullptr || worth(*node) < worth(*victim)) victim = node;
  }
  note_lost(victim->second.end, victim->second.forgotten, now);
  drop(*victim);
  return true;
}

// Counts an entry for which there is no room.
void Blocks::note_lost(core::Ticks end, core::Ticks forgotten, core::Ticks now) noexcept {
  evictions_ += forgotten > now ? 1 : 0;
  freed_ += end > now ? 1 : 0;
}

void Blocks::drop(Node& node) noexcept {
  leave(node.second);
  const Fingerprint key = node.first;
  part_of(key).erase(key);
  --size_;
}

namespace {

constexpr std::size_t kFirstChunk = 4096;
constexpr std::size_t kLargestChunk = std::size_t{4} << 20;

}  // namespace

void* Cells::take() {
  if (free_ != nullptr) {
    void* const cell = free_;
    std::memcpy(static_cast<void*>(&free_), cell, sizeof(free_));
    return cell;
  }
  if (fresh_bytes_ == 0) {
    // Half as much as there is, so that at most a third of the memory is unused.
    const std::size_t wanted = std::clamp(total_bytes_ / 2, kFirstChunk, kLargestChunk);
    const std::size_t bytes = wanted / kBytes * kBytes;
    chunks_.emplace_back(bytes);
    fresh_ = chunks_.back().data();
    fresh_bytes_ = bytes;
    total_bytes_ += bytes;
  }
  fresh_bytes_ -= kBytes;
  return fresh_ + fresh_bytes_;
}

void Cells::give(void* cell) noexcept {
  std::memcpy(cell, static_cast<const void*>(&free_), sizeof(free_));
  free_ = cell;
}

namespace {

// Every counter of this many groups is looked at. Then more groups are searched for counters of the
// limit that uses the most, until this many of them have been compared.
constexpr std::size_t kGroupsLookedAt = 2;
constexpr std::size_t kGroupsSearched = 64;
constexpr std::size_t kCompared = 24;

std::uint64_t units_of(const core::Log& log) noexcept {
  std::uint64_t units = log.units;
  for (const core::Summary& older : log.older) units += older.units;
  return units;
}

// Returns the units that a counter of a limit has remaining; those of a log, of permits or of a
// budget as of its last change, because there may be many. Returns 0 if the counter is not of the
// limit's kind.
std::uint64_t remaining(const PackedState& state, core::Forgotten forgotten, const Limit& limit,
                        core::Ticks now) noexcept {
  const auto peek = [&](const auto& held) {
    return core::step(Verb::kPeek, limit, core::Kept{held, forgotten}, now, 0).answer.remaining;
  };
  if (SliceBlob* const slices = state.slices()) {
    if (limit.state_kind() != StateKind::kSlices) return 0;
    std::uint32_t converted = 0;
    return peek(core::sliding_window_counter::on_grid(limit, slices->view(), converted));
  }
  if (core::LogBuffer* const log = state.log()) {
    return limit.capacity() - std::min<std::uint64_t>(limit.capacity(), units_of(log->view()));
  }
  if (core::PermitBuffer* const permits = state.permits()) {
    return limit.capacity() - std::min<std::uint64_t>(limit.capacity(), permits->units);
  }
  if (core::BudgetBuffer* const budget = state.budget()) {
    return limit.capacity() - std::min(limit.capacity(), budget->spent + budget->held);
  }
  return core::has_fixed_size(limit) ? peek(state.state()) : 0;
}

std::span<std::byte> blob_of(const PackedState& state) noexcept {
  const auto whole = [](auto* blob) {
    return std::span(reinterpret_cast<std::byte*>(blob), blob->bytes());
  };
  if (SliceBlob* const slices = state.slices()) return whole(slices);
  if (core::LogBuffer* const log = state.log()) return whole(log);
  if (core::PermitBuffer* const permits = state.permits()) return whole(permits);
  if (core::BudgetBuffer* const budget = state.budget()) return whole(budget);
  return {};
}

bool owns_blob(const Slot& slot) noexcept { return !blob_of(slot.state).empty(); }

// Calls visit(slot, expiry) with the counter pinned, unless a thread holds it or has pinned it. If
// it waits, another thread's hold ends first. If visit() returns true, it has erased the counter.
template <typename Visit>
void visit_pinned(Slot& slot, bool waits, Visit visit) {
  const std::uint32_t expiry = waits ? slot.state.pin() : slot.state.try_mark(PackedState::kPinned);
  if (!PackedState::is_mark(expiry) && !visit(slot, expiry)) slot.state.leave(expiry);
}

}  // namespace

// Replaces the victim by a counter if that one is to be evicted instead.
void Shard::consider(Slot& slot, std::uint32_t expiry, Resource resource, core::Ticks now,
                     Victim& victim) noexcept {
  const bool is_other = !owns_blob(slot) || slot.state.budget() != nullptr;
  if (resource == Resource::kBytes && is_other) return;
  const LimitUsage::Index limit = table_.owner_of(slot);
  const std::uint64_t left =
      remaining(slot.state, PackedState::forgotten_of(expiry), usage_.limit(limit), now);
  if (limit != victim.limit) {
    usage_.note_largest(limit, resource);
    if (usage_.used(limit, resource) > usage_.used(victim.limit, resource)) {
      victim = {&slot, limit, left, expiry, 1};
    }
    return;
  }
  ++victim.compared;
  if (left < victim.remaining) return;
  if (left > victim.remaining || expiry < victim.expiry) {
    victim.slot = &slot;
    victim.remaining = left;
    victim.expiry = expiry;
  }
}

// Evicts a counter of the limit that uses the most, or `found` if the next groups have none.
void Shard::evict_from_largest(const Victim& found, Resource resource, core::Ticks now) noexcept {
  const LimitUsage::Index largest = usage_.largest(resource);
  Victim victim = found.limit == largest ? found : Victim{};
  const auto compare = [&](Slot& slot, std::uint32_t expiry) {
    consider(slot, expiry, resource, now, victim);
    return false;
  };
  for (std::size_t i = 0; i < kGroupsSearched && victim.compared < kCompared; ++i) {
    table_.for_each_in(hand_, largest, [&](Slot& slot) { visit_pinned(slot, false, compare); });
    advance_hand();
  }
  Slot& evicted = victim.slot != nullptr ? *victim.slot : *found.slot;
  evicted.state.pin();
  erase(evicted);
  ++evictions_;
}

// Drops the untouched counters of the next groups, or evicts one if there are none; for kBytes only
// counters that own blobs. Continues while all counters that it finds are in use; from the second
// round on, it waits for other threads. Returns false if no counter but those of this request owns
// a blob.
bool Shard::evict(Resource resource, core::Ticks now) noexcept {
  const std::uint64_t swept_before = swept_;
  const bool needs_blob = resource == Resource::kBytes;
  Victim victim;
  const auto visit = [&](Slot& slot, std::uint32_t expiry) {
    const bool is_dropped =
        (!needs_blob || owns_blob(slot)) && PackedState::forgotten_of(expiry).is_past(now);
    if (is_dropped) {
      erase(slot);
      ++swept_;
    } else {
      consider(slot, expiry, resource, now, victim);
    }
    return is_dropped;
  };
  for (std::size_t looked = 0; looked < kGroupsLookedAt || victim.slot == nullptr; ++looked) {
    if (needs_blob && looked >= 2 * table_.group_count()) return false;
    const bool waits = looked >= table_.group_count();
    table_.for_each_in(hand_, [&](Slot& slot) { visit_pinned(slot, waits, visit); });
    advance_hand();
    if (swept_ != swept_before) return true;
  }
  evict_from_largest(victim, resource, now);
  return true;
}

namespace {

constexpr std::size_t kFirstGroups = 4;
constexpr std::size_t kSampledGroups = 64;
// Logs of up to this part of a shard's own bytes may grow by evicting others.
constexpr std::size_t kLogsToEvictFor = 4;
// One budget has at most this part of the bytes that shards share.
constexpr std::size_t kBudgetShare = 2;
// The size up to which the numbers of a blob's header are large enough.
constexpr std::size_t kMaxBlobBytes = std::size_t{8} << 30;

std::size_t entry_room_for(const Limit& limit, const core::LogBuffer* old) noexcept {
  const std::size_t held = old == nullptr ? 0 : old->entries;
  const std::size_t grown = held + std::max<std::size_t>(held / 2, 4);
  // A log of so few units has no more entries, except from before its numbers changed.
  const std::size_t most = std::max<std::size_t>(limit.capacity(), held + 1);
  return std::min(grown, most + most / 3 + 1);
}

std::size_t summary_room_for(const Limit& limit, const core::LogBuffer* old) noexcept {
  if (limit.state_kind() != StateKind::kLogAndSummaries) return old ? old->summaries : 0;
  const std::size_t held = old == nullptr ? 0 : old->summaries;
  return std::max<std::size_t>({2, held + 1, std::min<std::size_t>(held * 2, limit.slices() + 1)});
}

// The first piece is a cell.
std::size_t permit_room_for(const Limit& limit, const core::PermitBuffer* old) noexcept {
  if (old == nullptr) return 1;
  const std::size_t grown = old->count + std::max<std::size_t>(old->count / 2, 4);
  return std::clamp<std::size_t>(limit.capacity(), old->count + 1, grown);
}

// A large budget grows by little, because it may have much of the memory. Each growth copies all
// ids: if small budgets grew by a tenth, too, that would take a tenth of the time of their holds.
std::size_t grown(std::size_t count) noexcept {
  return count + std::max<std::size_t>({count / 10, std::min<std::size_t>(count / 2, 100), 2});
}

}  // namespace

bool SharedBytes::take(std::size_t bytes) noexcept {
  std::size_t left = left_.load(std::memory_order_relaxed);
  while (left >= bytes) {
    if (left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed)) return true;
  }
  return false;
}

Shard::~Shard() {
  table_.for_each([this](Slot& slot) { free_blob(slot); });
}

Slot& Shard::find_or_insert(const Fingerprint& key, const Charge& charge, core::Ticks now,
                            std::uint32_t expiry) {
  if (Slot* const slot = table_.find(key)) return *slot;
  Slot& slot = insert(key, expiry, now);
  table_.owner_of(slot) = usage_.add_counter(charge);
  return slot;
}

Slot* Shard::restore(const Fingerprint& key, std::uint64_t limit_id, const Limit& limit,
                     core::Ticks now) {
  if (table_.find(key) != nullptr) return nullptr;
  Slot& slot = insert(key, PackedState::kPinned, now);
  table_.owner_of(slot) = usage_.add_counter(limit_id, limit);
  return &slot;
}

void Shard::expect(std::size_t counters) {
  const std::size_t groups = Table::groups_for(std::min(counters, max_keys_));
  if (groups < GrowingTable::kFewGroups) return;
  table_.rebuild(groups, [](const Slot&, core::Forgotten) { return true; });
}

// Makes room for an absent key and inserts it.
Slot& Shard::insert(const Fingerprint& key, std::uint32_t expiry, core::Ticks now) {
  if (table_.is_moving()) {
    table_.move_some(
        [&](Slot& moved, core::Forgotten forgotten) { return keep_moved(moved, forgotten, now); });
  }
  if (table_.size() >= max_keys_) {
    evict(Resource::kCounters, now);
  } else if (table_.is_full()) {
    make_room(now);
  }
  return table_.insert(key, expiry);
}

void Shard::erase(Slot& slot) noexcept {
  free_blob(slot);
  usage_.remove_counter(table_.owner_of(slot));
  table_.erase(slot);
}

// Returns whether a counter is still needed when the table moves, or frees what it owns.
bool Shard::keep_moved(Slot& slot, core::Forgotten forgotten, core::Ticks now) noexcept {
  if (!forgotten.is_past(now)) return true;
  free_blob(slot);
  usage_.remove_counter(table_.owner_of(slot));
  ++swept_;
  return false;
}

// Drops a counter if it is untouched and not in use.
void Shard::drop_untouched(Slot& slot, core::Ticks now) noexcept {
  visit_pinned(slot, false, [&](Slot& pinned, std::uint32_t expiry) {
    if (!PackedState::forgotten_of(expiry).is_past(now)) return false;
    erase(pinned);
    ++swept_;
    return true;
  });
}

void Shard::sweep(core::Ticks now) noexcept {
  table_.for_each([&](Slot& slot) { drop_untouched(slot, now); });
}

// Looks at the next groups only.
void Shard::sweep_some(core::Ticks now) noexcept {
  for (std::size_t i = 0; i < std::min(kGroupsSearched, table_.group_count()); ++i) {
    table_.for_each_in(hand_, [&](Slot& slot) { drop_untouched(slot, now); });
    advance_hand();
  }
}

// Gives the full table a size that is a quarter larger than its counters need, without untouched
// ones. Counts those of a large table in a sample of its groups.
void Shard::make_room(core::Ticks now) {
  const std::size_t groups = table_.group_count();
  const bool is_small = groups < GrowingTable::kFewGroups;
  // Before they are counted: what is untouched may be in use again when the table is rebuilt.
  if (is_small) sweep(now);
  std::size_t looked = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < groups; i += is_small ? 1 : groups / kSampledGroups) {
    table_.for_each_in(i, [&](Slot& slot) {
      ++looked;
      kept += !slot.state.is_forgotten(now);
    });
  }
  kept = is_small || looked == 0 ? table_.size() : kept * table_.size() / looked;
  const std::size_t wanted = std::min(kept + kept / 4 + Tags::kSlots, max_keys_);
  const std::size_t next_groups = std::max(kFirstGroups, Table::groups_for(wanted));
  hand_ = 0;
  if (is_small) {
    return table_.rebuild(next_groups, [](const Slot&, core::Forgotten) { return true; });
  }
  table_.begin_move(std::max(next_groups, GrowingTable::kFewGroups));
}

bool Shard::reserve(std::size_t bytes) noexcept {
  const std::size_t more = beyond_own(blob_bytes_ + bytes) - beyond_own(blob_bytes_);
  if (more > 0 && !shared_.take(more)) return false;
  blob_bytes_ += bytes;
  return true;
}

void Shard::release(std::size_t bytes) noexcept {
  shared_.give(beyond_own(blob_bytes_) - beyond_own(blob_bytes_ - bytes));
  blob_bytes_ -= bytes;
}

// Whether there is room for `bytes` if all is evicted that can be, and for `kept`, which cannot be.
bool Shard::can_make_room(std::size_t bytes, std::size_t kept) const noexcept {
  return beyond_own(budget_bytes_ + kept + bytes) <= beyond_own(blob_bytes_) + shared_.left();
}

// Returns a piece of memory, or null if the bytes are exhausted. If no eviction can make enough
// room, nothing is evicted.
void* Shard::take_piece(std::size_t bytes, std::size_t kept, core::Ticks now, bool may_evict) {
  if (budget_bytes_ > 0 && !can_make_room(bytes, kept)) sweep_some(now);
  if (!can_make_room(bytes, kept)) return nullptr;
  while (!reserve(bytes)) {
    if (!may_evict || !evict(Resource::kBytes, now)) return nullptr;
  }
  try {
    return bytes <= Cells::kBytes ? cells_.take() : ::operator new(bytes);
  } catch (const std::bad_alloc&) {
    release(bytes);
    throw;
  }
}

// `kept` is the size of the counter's present piece, which the new one replaces later.
void* Shard::allocate(LimitUsage::Index limit, std::size_t bytes, std::size_t kept, core::Ticks now,
                      bool may_evict) {
  if (bytes > kMaxBlobBytes) return nullptr;
  bytes = std::max(bytes, Cells::kBytes);  // a small one takes a whole cell
  void* const piece = take_piece(bytes, kept, now, may_evict);
  if (piece != nullptr) usage_.add_bytes(limit, bytes);
  return piece;
}

void* Shard::allocate_budget(std::size_t bytes, core::Ticks now) {
  const std::size_t most = std::max(own_bytes_, shared_.total()) / kBudgetShare;
  bytes = std::max(bytes, Cells::kBytes);
  if (bytes > std::clamp(most, Cells::kBytes, kMaxBlobBytes)) return nullptr;
  void* const piece = take_piece(bytes, 0, now, true);
  if (piece != nullptr) budget_bytes_ += bytes;
  return piece;
}

void Shard::free_blob(Slot& slot) noexcept {
  const std::span<std::byte> blob = blob_of(slot.state);
  if (blob.empty()) return;
  const std::size_t bytes = std::max(blob.size(), Cells::kBytes);
  if (slot.state.budget() != nullptr) {
    budget_bytes_ -= bytes;
  } else {
    usage_.remove_bytes(table_.owner_of(slot), bytes);
  }
  release(bytes);
  if (bytes <= Cells::kBytes) {
    cells_.give(blob.data());
  } else {
    ::operator delete(blob.data());
  }
}

SliceBlob* Shard::make_slices(Slot& slot, const Limit& limit, core::Ticks now) {
  const SliceBlob* const old = slot.state.slices();
  const std::size_t bytes = SliceBlob::bytes_for(limit.slices());
  void* const memory = allocate(table_.owner_of(slot), bytes, old ? old->bytes() : 0, now);
  if (memory == nullptr) return nullptr;
  auto* const blob = new (memory) SliceBlob;
  blob->last = now;
  blob->period = static_cast<std::uint64_t>(limit.period().count());
  blob->slices = limit.slices();
  std::fill(blob->counts().begin(), blob->counts().end(), 0);
  free_blob(slot);
  slot.state.set(blob);
  return blob;
}

core::LogBuffer* Shard::make_room_in_log(Slot& slot, const Limit& limit, core::Ticks now) {
  core::LogBuffer* const old = slot.state.log();
  const std::size_t summary_room = summary_room_for(limit, old);
  const std::size_t entry_room = entry_room_for(limit, old);
  const std::size_t bytes = core::LogBuffer::bytes_for(summary_room, entry_room);
  // A large log is merged instead of taking the place of many other counters.
  const bool may_evict = old == nullptr || bytes <= own_bytes_ / kLogsToEvictFor;
  void* const memory =
      allocate(table_.owner_of(slot), bytes, old ? old->bytes() : 0, now, may_evict);
  if (memory == nullptr) return nullptr;
  auto* const blob = new (memory) core::LogBuffer;
  blob->last = now;
  blob->summary_room = static_cast<std::uint32_t>(summary_room);
  blob->entry_room = static_cast<std::uint32_t>(entry_room);
  if (old != nullptr) blob->copy(*old);
  free_blob(slot);
  slot.state.set(blob);
  return blob;
}

core::PermitBuffer* Shard::make_room_for_permit(Slot& slot, const Limit& limit, core::Ticks now) {
  core::PermitBuffer* const old = slot.state.permits();
  const std::size_t room = permit_room_for(limit, old);
  void* const memory = allocate(table_.owner_of(slot), core::PermitBuffer::bytes_for(room),
                                old ? old->bytes() : 0, now);
  if (memory == nullptr) return nullptr;
  auto* const blob = new (memory) core::PermitBuffer;
  blob->last = now;
  blob->room = static_cast<std::uint32_t>(room);
  if (old != nullptr) blob->copy(*old);
  free_blob(slot);
  slot.state.set(blob);
  return blob;
}

core::BudgetBuffer* Shard::make_room_in_budget(Slot& slot, const Limit& limit,
                                               const core::NextBudget& next, core::Ticks now) {
  core::BudgetBuffer* const old = slot.state.budget();
  using Change = core::NextBudget::Change;
  if (old != nullptr) old->forget(limit, now);
  const std::size_t known = old ? old->records : 0;
  const bool has_room = old != nullptr && old->has_room(next);
  // Not for a few free places, or it would look at all ids again soon.
  if (has_room && core::BudgetBuffer::room_for(grown(known)) <= old->record_room) return old;
  const std::size_t records =
      core::BudgetBuffer::room_for(next.change == Change::kNumbers ? known : grown(known));
  const std::size_t open = old ? old->holds : 0;
  const std::size_t holds = next.change == Change::kOpen ? grown(open) : open;
  void* const memory = allocate_budget(core::BudgetBuffer::bytes_for(records, holds), now);
  if (memory == nullptr) return has_room ? old : nullptr;
  auto* const blob = new (memory) core::BudgetBuffer;
  blob->last = now;
  blob->record_room = static_cast<std::uint32_t>(records);
  blob->hold_room = static_cast<std::uint32_t>(holds);
  std::fill_n(blob->record_begin(), records, core::IdRecord{});
  if (old != nullptr) blob->copy(*old);
  free_blob(slot);
  slot.state.set(blob);
  return blob;
}

void Shard::merge_log(Slot& slot, const core::NextLog& next, const Limit& limit) noexcept {
  slot.state.log()->merge(next, limit);
  ++merged_logs_;
}

}  // namespace sluice::memory

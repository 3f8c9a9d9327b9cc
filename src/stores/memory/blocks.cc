#include "stores/memory/blocks.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "stores/memory/limit_usage.h"

namespace sluice::memory {
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
    ++evictions_;
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
      Name{std::string(charge.key), std::string(charge.tag), charge.keyspace});
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
  evictions_ += victim->second.forgotten > now ? 1 : 0;
  freed_ += victim->second.end > now ? 1 : 0;
  drop(*victim);
  return true;
}

void Blocks::drop(Node& node) noexcept {
  leave(node.second);
  const Fingerprint key = node.first;
  part_of(key).erase(key);
  --size_;
}

}  // namespace sluice::memory

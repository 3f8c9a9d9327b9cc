#include "stores/memory/blocks.h"

#include <algorithm>
#include <new>
#include <utility>

namespace sluice::memory {
namespace {

constexpr std::size_t kBucketsToSweep = 2;
constexpr std::size_t kEntriesToCompare = 8;

}  // namespace

core::BlockAnswer Blocks::look(const Fingerprint& key, core::Ticks now) const noexcept {
  if (entries_.empty()) return {};
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  return core::look(found->second.state().at(now), now);
}

core::BlockAnswer Blocks::deny(const Fingerprint& key, const Charge& charge,
                               core::Ticks now) noexcept try {
  Entry& entry = entry_of(key, now);
  const core::NextBlock next = core::deny(*charge.block, entry.state().at(now), now);
  write(entry, charge, next);
  return next.answer;
} catch (const std::bad_alloc&) {
  return {};
}

bool Blocks::block(const Fingerprint& key, const Charge& charge, core::Ticks time,
                   core::Ticks now) noexcept try {
  Entry& entry = entry_of(key, now);
  write(entry, charge, core::block_for(*charge.block, entry.state().at(now), now, time));
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void Blocks::erase(const Fingerprint& key) noexcept {
  const auto found = entries_.find(key);
  if (found != entries_.end()) drop(found);
}

Blocks::Entry& Blocks::entry_of(const Fingerprint& key, core::Ticks now) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    Entry& entry = found->second;
    if (entry.forgotten <= now) entry.denials.clear();
    return entry;
  }
  drop_forgotten(now);
  while (!entries_.empty() && bytes_ + kEntryBytes > max_bytes_) make_room(now);
  Entry& entry = entries_[key];
  bytes_ += entry.bytes();
  return entry;
}

void Blocks::list(core::Ticks now, std::size_t most, std::vector<BlockedKey>& out) const {
  for (const auto& [key, entry] : entries_) {
    if (out.size() >= most) return;
    if (!entry.name || core::look(entry.state().at(now), now).left == 0) continue;
    out.push_back(
        {entry.name->key, entry.name->tag, entry.name->keyspace, Instant{Duration{entry.end}}});
  }
}

bool Blocks::restore(const Fingerprint& key, const Known& known, core::Ticks now) {
  if (contains(key)) return false;
  Entry made{known.state.last, known.state.end, known.state.grown, known.state.forgotten, {}, {}};
  made.denials.assign(known.state.denials.begin(), known.state.denials.end());
  if (known.has_name) {
    made.name = std::make_unique<const Name>(
        Name{std::string(known.key), std::string(known.tag), known.keyspace});
  }
  Entry& entry = entry_of(key, now);
  bytes_ -= entry.bytes();
  entry = std::move(made);
  bytes_ += entry.bytes();
  return true;
}

void Blocks::keep_name(Entry& entry, const Charge& charge) {
  if (entry.name || charge.key.size() + charge.tag.size() > kLongestName) return;
  entry.name = std::make_unique<const Name>(
      Name{std::string(charge.key), std::string(charge.tag), charge.keyspace});
}

void Blocks::write(Entry& entry, const Charge& charge, const core::NextBlock& next) {
  std::vector<core::Ticks>& denials = entry.denials;
  bytes_ -= entry.bytes();
  denials.erase(denials.begin(), denials.begin() + static_cast<std::ptrdiff_t>(
                                                       std::min(next.expired, denials.size())));
  if (denials.empty() && !next.adds) denials.shrink_to_fit();
  try {
    if (next.adds) denials.push_back(next.state.last);
    if (next.state.end > next.state.last) keep_name(entry, charge);
  } catch (const std::bad_alloc&) {
    bytes_ += entry.bytes();
    throw;
  }
  bytes_ += entry.bytes();
  entry.last = next.state.last;
  entry.end = next.state.end;
  entry.grown = next.state.grown;
  entry.forgotten = next.state.forgotten;
}

// Drops the forgotten entries of a few buckets, so that all are found in the course of time.
void Blocks::drop_forgotten(core::Ticks now) noexcept {
  for (std::size_t i = 0; i < kBucketsToSweep && !entries_.empty(); ++i) {
    hand_ = (hand_ + 1) % entries_.bucket_count();
    for (auto at = entries_.begin(hand_); at != entries_.end(hand_);) {
      const auto current = at++;
      if (current->second.forgotten <= now) drop(entries_.find(current->first));
    }
  }
}

// Drops the first forgotten entry of a few, else the one whose loss matters least.
void Blocks::make_room(core::Ticks now) noexcept {
  auto victim = entries_.cend();
  for (std::size_t compared = 0; compared < std::min(kEntriesToCompare, entries_.size());) {
    hand_ = (hand_ + 1) % entries_.bucket_count();
    for (auto at = entries_.begin(hand_); at != entries_.end(hand_); ++at, ++compared) {
      const bool is_better =
          victim == entries_.cend() || at->second.end < victim->second.end ||
          (at->second.end == victim->second.end && at->second.forgotten < victim->second.forgotten);
      if (is_better) victim = entries_.find(at->first);
    }
  }
  evictions_ += victim->second.forgotten > now ? 1 : 0;
  drop(victim);
}

void Blocks::drop(Entries::const_iterator at) noexcept {
  bytes_ -= at->second.bytes();
  entries_.erase(at);
}

}  // namespace sluice::memory

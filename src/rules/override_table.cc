#include "rules/override_table.h"

#include <algorithm>

#include "rules/packed_override.h"

namespace sluice::rules {
namespace {

// The size of "domain|rule|limit". Names contain no '|' (counter_key.h).
std::size_t prefix_size(std::string_view counter) {
  std::size_t at = 0;
  for (int bars = 0; at < counter.size(); ++at) {
    if (counter[at] == '|' && ++bars == 3) break;
  }
  return at;
}

// Makes room for one more in steps of a quarter, so that little is unused.
void grow(auto& of, std::size_t by) {
  if (of.size() + by > of.capacity()) of.reserve(of.size() + by + of.size() / 4);
}

}  // namespace

std::string_view OverrideTable::key_of(const Entry& entry) const {
  return {records_.data() + entry.at + entry.size - entry.key_size, entry.key_size};
}

bool OverrideTable::is(const Entry& entry, std::string_view counter) const {
  const std::string& group = *groups_[entry.group];
  return counter.size() == group.size() + entry.key_size && counter.starts_with(group) &&
         counter.substr(group.size()) == key_of(entry);
}

Override OverrideTable::read(const Entry& entry) const {
  std::string_view record(records_.data() + entry.at, entry.size);
  return unpack(record);
}

std::optional<std::size_t> OverrideTable::slot_of(std::string_view counter,
                                                  std::uint32_t hash) const {
  if (slots_.empty()) return std::nullopt;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask; slots_[slot] != kEmpty; slot = (slot + 1) & mask) {
    if (slots_[slot] == kRemoved || tag_of(slots_[slot]) != tag_of(hash)) continue;
    const Entry& entry = entries_[entry_of(slots_[slot])];
    if (entry.hash == hash && is(entry, counter)) return slot;
  }
  return std::nullopt;
}

std::optional<Override> OverrideTable::find(std::string_view counter, std::uint32_t hash) const {
  const auto slot = slot_of(counter, hash);
  if (!slot) return std::nullopt;
  return read(entries_[entry_of(slots_[*slot])]);
}

bool OverrideTable::set(std::string_view counter, std::uint32_t hash, const Override& given) {
  if (given.until) soonest_ = std::min(soonest_, *given.until);
  const std::string_view key = counter.substr(prefix_size(counter));
  if (const auto slot = slot_of(counter, hash)) {
    Entry& entry = entries_[entry_of(slots_[*slot])];
    waste_ += entry.size;
    write(entry, key, given);
    drop_waste();
    return false;
  }
  if ((used_slots_ + 1) * 4 > slots_.size() * 3) grow_index();
  const std::uint32_t number = new_entry();
  Entry& entry = entries_[number];
  entry.group = group_of(counter.substr(0, counter.size() - key.size()));
  entry.hash = hash;
  write(entry, key, given);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  while (slots_[slot] != kEmpty) slot = (slot + 1) & mask;
  slots_[slot] = tag_of(hash) | (number + 1);
  ++used_slots_;
  return true;
}

void OverrideTable::write(Entry& entry, std::string_view key, const Override& given) {
  std::string packed;
  pack(given, packed);
  grow(records_, packed.size() + key.size());
  entry.at = static_cast<std::uint32_t>(records_.size());
  entry.size = static_cast<std::uint16_t>(packed.size() + key.size());
  entry.key_size = static_cast<std::uint16_t>(key.size());
  records_.insert(records_.end(), packed.begin(), packed.end());
  records_.insert(records_.end(), key.begin(), key.end());
}

std::uint32_t OverrideTable::group_of(std::string_view prefix) {
  const auto known = group_numbers_.find(prefix);
  if (known != group_numbers_.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(groups_.size());
  groups_.push_back(&group_numbers_.emplace(prefix, number).first->first);
  return number;
}

std::uint32_t OverrideTable::new_entry() {
  if (!free_.empty()) {
    const std::uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  grow(entries_, 1);
  entries_.emplace_back();
  return static_cast<std::uint32_t>(entries_.size() - 1);
}

bool OverrideTable::unset(std::string_view counter, std::uint32_t hash) {
  const auto slot = slot_of(counter, hash);
  if (!slot) return false;
  remove(*slot);
  drop_waste();
  return true;
}

void OverrideTable::remove(std::size_t slot) {
  const auto number = static_cast<std::uint32_t>(entry_of(slots_[slot]));
  waste_ += entries_[number].size;
  entries_[number].size = 0;
  free_.push_back(number);
  slots_[slot] = kRemoved;
}

// Makes an index with room for the entries and one more, without the slots of removed ones.
void OverrideTable::grow_index() {
  const std::size_t needed = entries_.size() - free_.size() + 1;
  std::size_t size = 8;
  while (needed * 4 > size * 3) size *= 2;
  slots_.assign(size, kEmpty);
  used_slots_ = 0;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].size == 0) continue;
    std::size_t slot = entries_[i].hash & (size - 1);
    while (slots_[slot] != kEmpty) slot = (slot + 1) & (size - 1);
    slots_[slot] = tag_of(entries_[i].hash) | (i + 1);
    ++used_slots_;
  }
}

void OverrideTable::drop_waste() {
  constexpr std::size_t kLeast = 1024;
  if (waste_ < kLeast || waste_ < records_.size() / 4) return;
  std::vector<char> kept;
  kept.reserve(records_.size() - waste_);
  for (Entry& entry : entries_) {
    if (entry.size == 0) continue;
    const std::size_t at = kept.size();
    const auto begin = records_.begin() + entry.at;
    kept.insert(kept.end(), begin, begin + entry.size);
    entry.at = static_cast<std::uint32_t>(at);
  }
  records_ = std::move(kept);
  waste_ = 0;
}

std::size_t OverrideTable::drop_ended(Instant now) {
  if (now < soonest_) return 0;
  soonest_ = Instant::max();
  std::size_t dropped = 0;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == kEmpty || slots_[slot] == kRemoved) continue;
    const auto until = read(entries_[entry_of(slots_[slot])]).until;
    if (!until) continue;
    if (*until <= now) {
      remove(slot);
      ++dropped;
    } else {
      soonest_ = std::min(soonest_, *until);
    }
  }
  drop_waste();
  return dropped;
}

std::uint32_t OverrideTable::list(std::uint32_t at, std::size_t most, std::string_view prefix,
                                  std::vector<Overrides::Page::Entry>& out) const {
  for (; at < entries_.size(); ++at) {
    if (entries_[at].size == 0) continue;
    if (out.size() >= most) return at;
    std::string counter = *groups_[entries_[at].group];
    counter += key_of(entries_[at]);
    if (counter.starts_with(prefix)) out.push_back({std::move(counter), read(entries_[at])});
  }
  return 0;
}

std::size_t OverrideTable::bytes() const noexcept {
  std::size_t names = 0;
  for (const std::string* group : groups_) names += group->size() + 64;
  return records_.capacity() + entries_.capacity() * sizeof(Entry) +
         (slots_.capacity() + free_.capacity()) * sizeof(std::uint32_t) + names;
}

}  // namespace sluice::rules

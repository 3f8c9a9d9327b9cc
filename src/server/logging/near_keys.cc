#include "server/logging/near_keys.h"

#include <algorithm>
#include <span>

namespace sluice::server {

NearKeys::Entry* NearKeys::entries() {
  std::call_once(allocated_, [this] { entries_ = std::make_unique<Entry[]>(kMost); });
  return entries_.get();
}

bool NearKeys::add(std::uint64_t hash, Instant now, Duration window) {
  const std::size_t set = hash % kSets;
  const std::span<Entry> places(entries() + set * kSetSize, kSetSize);
  const std::lock_guard lock(locks_[set % kLocks]);
  const auto is_same = [&](const Entry& entry) { return entry.hash == hash && entry.until > now; };
  if (std::any_of(places.begin(), places.end(), is_same)) return false;
  const auto ends_first = [](const Entry& a, const Entry& b) { return a.until < b.until; };
  *std::min_element(places.begin(), places.end(), ends_first) = {hash, now + window};
  return true;
}

}  // namespace sluice::server

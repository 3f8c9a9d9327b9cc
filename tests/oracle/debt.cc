#include "tests/oracle/debt.h"

#include <algorithm>
#include <vector>

namespace sluice_oracle {
namespace {

// Of a bucket, a window or a log: all units that count.
template <typename State>
Rational stored_in(const State&, const Counter& counter, std::int64_t instant) {
  return consumed(counter, instant);
}

// Holds are not stored as spent.
Rational stored_in(const Budget&, const Counter& counter, std::int64_t instant) {
  return spent(counter, instant);
}

Rational stored_in(const Slices& state, const Counter& counter, std::int64_t instant) {
  const Integer now = slice_index(counter.spec, instant);
  Integer sum = 0;
  for (const auto& [index, count] : state.counts) {
    if (index >= now - slices(counter.spec) && index <= now) sum += count;
  }
  return sum;
}

Rational stored_in(const Hybrid& state, const Counter& counter, std::int64_t instant) {
  const std::int64_t horizon = instant - counter.spec.per_us;
  Integer sum = 0;
  for (const Summary& summary : state.older) {
    if (summary.last > horizon) sum += summary.count;
  }
  for (const Entry& entry : state.entries) {
    if (entry.instant > horizon) sum += entry.cost;
  }
  return sum;
}

// Returns the entries to which `instant` would add one; null if it would not add to any.
std::vector<Entry>* open_entries(Counter& counter, std::int64_t instant) {
  if (Log* const log = std::get_if<Log>(&counter.state)) return &log->entries;
  Hybrid* const hybrid = std::get_if<Hybrid>(&counter.state);
  if (hybrid == nullptr || hybrid->entries.empty()) return nullptr;
  const std::int64_t newest = hybrid->entries.back().instant;
  const bool is_same_slice =
      slice_index(counter.spec, newest) == slice_index(counter.spec, instant);
  return is_same_slice ? &hybrid->entries : nullptr;
}

// With 2·L live entries or more, moves the newest to `instant`, where the units will join it.
void bound_entries(Counter& counter, std::int64_t instant) {
  std::vector<Entry>* const entries = open_entries(counter, instant);
  if (entries == nullptr) return;
  const std::int64_t horizon = instant - counter.spec.per_us;
  const auto live = std::count_if(entries->begin(), entries->end(),
                                  [=](const Entry& entry) { return entry.instant > horizon; });
  if (static_cast<std::uint64_t>(live) < 2 * counter.spec.limit) return;
  entries->back().instant = instant;
}

}  // namespace

Rational stored(const Counter& counter, std::int64_t instant) {
  return std::visit([&](const auto& state) { return stored_in(state, counter, instant); },
                    counter.state);
}

Charged charge(Counter& counter, std::int64_t instant, const Integer& cost) {
  const Rational room = most_stored(counter.spec) - stored(counter, instant);
  if (room <= 0) return Charged::kNone;
  bound_entries(counter, instant);
  if (cost <= room) {
    take(counter, instant, cost);
    return Charged::kAll;
  }
  take(counter, instant, round_up(room));
  Bucket* const bucket = std::get_if<Bucket>(&counter.state);
  if (bucket != nullptr) bucket->level = most_stored(counter.spec);
  return Charged::kSome;
}

}  // namespace sluice_oracle

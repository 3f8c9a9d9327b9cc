#pragma once

#include <cstdint>
#include <map>
#include <variant>
#include <vector>

#include "tests/oracle/exact.h"
#include "tests/oracle/spec.h"

namespace sluice_oracle {

// What was consumed of a bucket at the last change, and for a bucket that refills at intervals the
// last instant at or before that change at which it was refilled.
struct Bucket {
  Rational level;
  std::int64_t refilled = 0;
};

// When a fixed window opened, and what was used in it.
struct Window {
  std::int64_t start = 0;
  Integer used;
};

struct Entry {
  std::int64_t instant = 0;
  Integer cost;
};

// Every charge that was taken, oldest first.
struct Log {
  std::vector<Entry> entries;
};

// What was taken in each slice of the clock.
struct Slices {
  std::map<Integer, Integer> counts;
};

// What was taken between two instants, both included.
struct Summary {
  std::int64_t first = 0;
  std::int64_t last = 0;
  Integer count;
};

// The charges of the newest slice that has any, and a summary of each older one, oldest first.
struct Hybrid {
  std::vector<Summary> older;
  std::vector<Entry> entries;
};

using State = std::variant<Bucket, Window, Log, Slices, Hybrid>;

// One counter: its state as it was at its last change, and the limit it was last written under.
// Every function below takes an instant that is not before the last change.
struct Counter {
  Spec spec;
  std::int64_t last_change = 0;
  State state;
};

// A counter of which nothing was ever taken.
Counter fresh_counter(const Spec& spec, std::int64_t instant);

// What counts as consumed at `instant` if nothing happens until then. Falls with time, never rises.
Rational consumed(const Counter& counter, std::int64_t instant);

// The counter as another limit reads it: converted at the instant of its last change.
Counter read_under(const Counter& counter, const Spec& spec);

// Takes `cost` > 0 units at `instant`, whether they fit or not.
void take(Counter& counter, std::int64_t instant, const Integer& cost);

// Gives back the newest units, up to `cost` of them. Returns how much that was.
Rational refund(Counter& counter, std::int64_t instant, const Integer& cost);

}  // namespace sluice_oracle

#pragma once

#include <cstdint>
#include <map>
#include <variant>
#include <vector>

#include "tests/oracle/budgets.h"
#include "tests/oracle/exact.h"
#include "tests/oracle/permits.h"
#include "tests/oracle/spec.h"

namespace sluice_oracle {

// The units consumed from a bucket at the last change. For a bucket that refills at intervals, also
// the last refill at or before that change.
struct Bucket {
  Rational level;
  std::int64_t refilled = 0;
};

// The start of a fixed window, and the units used in it.
struct Window {
  std::int64_t start = 0;
  Integer used;
};

struct Entry {
  std::int64_t instant = 0;
  Integer cost;
};

// Every charge taken, oldest first. Charges at one instant share an entry.
struct Log {
  std::vector<Entry> entries;
};

// The units taken in each slice of the clock.
struct Slices {
  std::map<Integer, Integer> counts;
};

// The units taken between two instants, both included.
struct Summary {
  std::int64_t first = 0;
  std::int64_t last = 0;
  Integer count;
};

// The charges of the newest non-empty slice, and a summary of each older slice, oldest first.
struct Hybrid {
  std::vector<Summary> older;
  std::vector<Entry> entries;
};

using State = std::variant<Bucket, Window, Log, Slices, Hybrid, Permits, Budget>;

// One counter: its state at its last change, and the limit of that change. The functions below take
// an instant that is not before the last change.
struct Counter {
  Spec spec;
  std::int64_t last_change = 0;
  State state;
};

// Returns a counter from which nothing was ever taken.
Counter fresh_counter(const Spec& spec, std::int64_t instant);

// Returns the units that count at `instant` if nothing else happens. Never increases with time.
Rational consumed(const Counter& counter, std::int64_t instant);

// Returns the counter as another limit reads it: converted at the instant of its last change.
Counter read_under(const Counter& counter, const Spec& spec);

// Returns the index of the slice of the clock that contains `instant`.
Integer slice_index(const Spec& spec, std::int64_t instant);

// Returns the most units that a counter stores beyond its limit: 2^32 - 1, for a bucket at most the
// whole units that come back in 142 years, and for a budget 2^53 - 1.
Integer most_stored(const Spec& spec);

// Takes units at `instant` without checking whether they fit.
void take(Counter& counter, std::int64_t instant, const Integer& cost);

// Gives back the newest units, at most `cost`. Returns the units given back.
Rational refund(Counter& counter, std::int64_t instant, const Integer& cost);

}  // namespace sluice_oracle

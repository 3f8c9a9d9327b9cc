#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.h"
#include "sluice/limit.h"

namespace sluice::redis {

// Whose counter a key of Redis is. Bytes as the caller of the store gave them.
struct CounterName {
  Algorithm algorithm = Algorithm::kTokenBucket;
  std::string tag;
  std::string key;

  friend bool operator==(const CounterName&, const CounterName&) = default;
};

// Reads a key of Redis, without the prefix. Absent: it names no counter of ours.
std::optional<CounterName> read_counter_name(std::string_view redis_key);

// What a counter's value says. It knows what was counted, but not the limit, so it cannot say how
// much is left.
struct CounterState {
  Instant changed;                        // the last change
  std::optional<Instant> forgotten_from;  // from then on it is as never seen; absent: never
  // One line: "12 units spent and a part of one", "34 units in 5 entries of the last 1m".
  std::string summary;
  // The rest, a line each; long lists are cut, and say so.
  std::vector<std::string> details;
};

// Reads a value, as it lies under a key of this algorithm (docs/state-format.md). Absent: it is not
// a state of ours, and the scripts refuse it. Cost: linear in its size.
std::optional<CounterState> read_counter_state(Algorithm algorithm, std::string_view value);

// "2026-03-01T12:00:00.123456Z", as states are shown.
std::string to_text(Instant instant);

}  // namespace sluice::redis

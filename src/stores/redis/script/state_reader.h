#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice::redis {

// The counter of a Redis key. The bytes are those given by the caller of the store.
struct CounterName {
  Algorithm algorithm = Algorithm::kTokenBucket;
  std::string tag;
  std::string key;
  Keyspace keyspace = Keyspace::kCallers;

  friend bool operator==(const CounterName&, const CounterName&) = default;
};

// Removes the letter that begins the keys of rules, and returns the keyspace of the key.
Keyspace take_keyspace(std::string_view& redis_key) noexcept;

// Reads a Redis key without the prefix. Returns nothing if it is not the key of a counter.
std::optional<CounterName> read_counter_name(std::string_view redis_key);

// As above, for the key of a block, and of a ledger: returns the name of its counter.
std::optional<CounterName> read_block_name(std::string_view redis_key);
std::optional<CounterName> read_ledger_name(std::string_view redis_key);

// The content of a counter's value. It contains the consumed units but not the limit, so the
// remaining units are unknown.
struct CounterState {
  Instant changed;                        // the last change
  std::optional<Instant> forgotten_from;  // has no effect from then on; absent: never
  // One line: "12 units spent and a part of one", "34 units in 5 entries of the last 1m".
  std::string summary;
  // Further lines. Long lists are shortened and end with a note.
  std::vector<std::string> details;
};

// The field of a budget, which is a hash, with the value for read_counter_state().
inline constexpr std::string_view kHeadOfBudget = "h";

// Reads the value of a key of this algorithm (docs/reference/state-format.md). Returns nothing if
// it is not a valid state, which the scripts refuse too. Cost: linear in its size.
std::optional<CounterState> read_counter_state(Algorithm algorithm, std::string_view value);

// As above, for the block of a counter.
std::optional<CounterState> read_block_state(std::string_view value);
// Returns when the latest block ends or ended; nothing if there was none, or for another value.
std::optional<Instant> read_block_end(std::string_view value);

}  // namespace sluice::redis

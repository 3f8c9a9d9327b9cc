#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/redis_session.h"
#include "sluice/expected.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice::cli {

// The value of a key that begins with the prefix of the counters.
struct FoundKey {
  std::string redis_key;
  // Empty if the value is not a counter; `summary` then describes it.
  std::optional<Algorithm> algorithm;
  bool is_of_rule = false;
  std::string tag;
  std::string key;      // as written in rules
  std::string summary;  // "12 units spent"
  std::vector<std::string> details;
  std::string changed;       // a date, or empty
  std::string forgotten;     // a date, or empty
  std::int64_t ttl_ms = -1;  // time until it expires; below 0: never
};

// The parts of the key of one slice of a window, for counters without scripts.
struct SliceName {
  Keyspace keyspace;
  Algorithm algorithm;
  std::string tag;
  std::string key;
  std::string period_us;
  std::string slices;
  std::string slice;
};
// Parses a key without the prefix: "F{key}!:60000000/1:29384". Returns nothing for other keys.
std::optional<SliceName> read_slice_name(std::string_view redis_key);

struct KeyQuery {
  std::string prefix;
  std::optional<std::string> pattern;  // a pattern for the keys of counters
  std::string except;                  // a key in Redis that is not a counter: the rules
  std::size_t most = 1000;
};

// Scans all servers and reports each key. Returns false if there are more than `most` keys. It may
// miss keys that are created or deleted during the scan.
Expected<bool> find_keys(RedisSession& session, const KeyQuery& query,
                         const std::function<void(const FoundKey&)>& found);

// Returns whether a pattern in the syntax of Redis matches the whole text: `*`, `?`, `[a-z]`,
// `[^a]`, and
// `\` before a literal character. Compares bytes. Cost: at worst the product of both lengths.
bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

// Returns whether the pattern matches only one text.
bool is_literal(std::string_view pattern) noexcept;

// Returns the pattern that matches only this text.
std::string as_glob(std::string_view text);

}  // namespace sluice::cli

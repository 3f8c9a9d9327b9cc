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

namespace sluice::cli {

// What lies under a key that begins with the prefix of the counters.
struct FoundKey {
  std::string redis_key;
  // Empty: what lies there is none of ours; then `summary` says what it is.
  std::optional<Algorithm> algorithm;
  std::string tag;
  std::string key;      // as the rules spell it
  std::string summary;  // "12 units spent"
  std::vector<std::string> details;
  std::string changed;       // a date, or empty
  std::string forgotten;     // likewise
  std::int64_t ttl_ms = -1;  // until it expires; below 0: never
};

// The name in a key of a counter without scripts: of one slice of its window.
struct SliceName {
  Algorithm algorithm;
  std::string tag;
  std::string key;
  std::string period_us;
  std::string slices;
  std::string slice;
};
// From a key without the prefix: "F{key}!:60000000/1:29384". Absent: it is no such key.
std::optional<SliceName> read_slice_name(std::string_view redis_key);

struct KeyQuery {
  std::string prefix;
  std::optional<std::string> pattern;  // of counters' keys
  std::string except;                  // a key of Redis that is none of the counters: the rules
  std::size_t most = 1000;
};

// Goes through all servers with SCAN and tells each key that was found. Answers whether it saw all
// that there are; false: there are more than `most`. Keys that come and go meanwhile may be missed.
Expected<bool> find_keys(RedisSession& session, const KeyQuery& query,
                         const std::function<void(const FoundKey&)>& found);

}  // namespace sluice::cli

#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "replay/time_series.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice::replay {

// A key that a limit denied.
struct DeniedKey {
  std::string label;  // the readable key, its first kLongestLabel bytes
  std::uint64_t requests = 0;
  std::uint64_t denied = 0;
  Instant first{};  // denial
  Instant last{};
};

// Counts the requests and denials of each key of one limit.
//
// Not thread-safe. Stores a 128-bit hash per key (about 60 bytes), and the label of denied keys. At
// `most_keys` it ignores new keys and sets overflowed().
class KeyTally {
 public:
  static constexpr std::size_t kLongestLabel = 1024;

  explicit KeyTally(std::size_t most_keys) : most_keys_(most_keys) {}
  KeyTally(KeyTally&&) = default;
  KeyTally& operator=(KeyTally&&) = default;

  void count(const LimitAnswer& answer, Instant at);

  std::uint64_t keys() const noexcept { return keys_.size(); }
  std::uint64_t keys_denied() const noexcept { return denied_.size(); }
  // Returns whether keys were ignored, so that the numbers of keys are lower bounds.
  bool overflowed() const noexcept { return overflowed_; }
  // Returns the keys with the most denials, ordered by denials and then by label.
  std::vector<DeniedKey> most_denied(std::size_t count) const;

 private:
  struct Hash {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    friend bool operator==(const Hash&, const Hash&) = default;
  };
  struct LowBits {
    using is_avalanching = void;
    std::size_t operator()(const Hash& hash) const noexcept { return hash.low; }
  };
  struct Entry {
    std::uint64_t requests = 0;
    std::uint32_t denied_index = kNeverDenied;
  };
  static constexpr std::uint32_t kNeverDenied = 0xFFFFFFFFu;

  Entry* entry_of(std::string_view counter);
  void count_denial(Entry& entry, const LimitAnswer& answer, Instant at);

  std::size_t most_keys_;
  bool overflowed_ = false;
  boost::unordered_flat_map<Hash, Entry, LowBits> keys_;
  std::vector<DeniedKey> denied_;  // `requests` is filled in by most_denied()
  std::vector<Hash> denied_hashes_;
  std::string last_counter_;  // consecutive requests often share a counter
  Entry* last_entry_ = nullptr;
};

struct LimitTally {
  const RuleLimit* limit = nullptr;
  std::uint64_t requests = 0;  // to which the limit applied
  std::uint64_t denied = 0;    // by this limit
  KeyTally keys;
};

struct RuleTally {
  const Rule* rule = nullptr;
  std::uint64_t matched = 0;
  std::uint64_t denied = 0;  // by this rule; in shadow mode: would have been denied
  std::vector<LimitTally> limits;
};

// All counts of a replay. Not thread-safe; borrows the rules.
class Tally {
 public:
  // The channels of series(): all requests, denied requests, and for rule i at rule_channel(i) the
  // matched requests, followed by the denied ones.
  static constexpr std::size_t kRequests = 0;
  static constexpr std::size_t kDenied = 1;
  static constexpr std::size_t rule_channel(std::size_t rule) { return 2 + 2 * rule; }

  Tally(const RuleSet& rules, std::size_t most_keys);

  // Counts a request that was decided at `at`. Times never go back.
  void count(const RuleAnswer& answer, Instant at);
  // Returns whether a limit ignored keys.
  bool overflowed() const noexcept;

  std::uint64_t requests = 0;
  std::uint64_t denied = 0;     // by enforced rules
  std::uint64_t unmatched = 0;  // no rule matched; allowed
  std::uint64_t undecided = 0;  // the store could not decide; the failure policy did
  std::vector<RuleTally> rules;

  const TimeSeries& series() const noexcept { return series_; }

 private:
  std::span<const Rule> file_order_;
  TimeSeries series_;
};

}  // namespace sluice::replay

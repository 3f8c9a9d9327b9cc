#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replay/demand.h"
#include "replay/log_input.h"
#include "sluice/algorithm.h"
#include "sluice/rule_set.h"

namespace sluice::replay {

// Which requests count, and how.
struct SuggestOptions : LogInput {
  std::string key = "{ip}";                                // a key template
  std::vector<std::pair<std::string, std::string>> match;  // attributes and their patterns
  std::vector<Duration> periods;                           // at least one
  std::uint32_t rate = 10;                                 // that token buckets refill per period
};

// How many keys and requests each limit would have denied.
class DemandCurve {
 public:
  DemandCurve() : keys_(kPeakCodes), requests_(kPeakCodes) {}

  void add_key(PeakCode peak) { ++keys_[peak]; }
  void add_request(PeakCode need) { ++requests_[need]; }

  // Keys that a limit denies at least once. Exact.
  std::uint64_t keys_over(std::uint64_t limit) const { return over(keys_, limit); }
  // Requests that a limit denies. Exact for fixed windows with requests of one unit; for others not
  // more than this number, because a denied request consumes nothing.
  std::uint64_t requests_over(std::uint64_t limit) const { return over(requests_, limit); }
  // The smallest limit, at least 1, that denies at most `most` keys.
  std::uint64_t smallest(std::uint64_t most) const;
  // The largest peak of a key.
  std::uint64_t largest() const { return smallest(0); }

 private:
  static std::uint64_t over(const std::vector<std::uint64_t>& counts, std::uint64_t limit);

  std::vector<std::uint64_t> keys_;  // by PeakCode
  std::vector<std::uint64_t> requests_;
};

// The curve of an algorithm and a period.
struct SuggestedCurve {
  Algorithm algorithm;
  Duration period;
  DemandCurve curve;
};

// The demand in the logs.
struct SuggestReport : LogTotals {
  SuggestOptions options;
  std::uint64_t requests = 0;   // that match and have a key
  std::uint64_t unmatched = 0;  // that do not match
  std::uint64_t keyless = 0;    // without an attribute of the key
  std::uint64_t keys = 0;
  std::size_t key_bytes = 0;  // memory for the keys
  std::optional<Instant> first, last;
  std::chrono::milliseconds elapsed{0};
  std::vector<SuggestedCurve> curves;  // by period, and by algorithm
};

// A limit that denies few enough keys.
struct Suggestion {
  const SuggestedCurve* curve = nullptr;
  std::uint64_t limit = 0;  // for token buckets the burst
  std::uint64_t keys_denied = 0;
  std::uint64_t requests_denied = 0;
};

// Returns a rules file with the requests of the options in shadow mode: one rule for each
// suggestion. Without suggestions it has one limit of any numbers.
std::string suggested_rules(const SuggestOptions& options,
                            const std::vector<Suggestion>& suggestions);

// Returns the smallest limits that deny at most this share of the keys.
std::vector<Suggestion> suggestions(const SuggestReport& report, double harm);

// Measures the demand in the logs. `rules` is suggested_rules() without suggestions. A second
// thread reads and parses. Memory depends only on the number of keys: see Peaks and Demand.
SuggestReport suggest(const RuleSet& rules, const SuggestOptions& options);

// Reports as text, JSON and HTML. Pure functions.
std::string suggest_text(const SuggestReport& report, double harm);
std::string suggest_json(const SuggestReport& report, double harm);
std::string suggest_html(const SuggestReport& report, double harm);

}  // namespace sluice::replay

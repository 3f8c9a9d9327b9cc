#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "replay/log_reader.h"
#include "sluice/algorithm.h"
#include "sluice/clock.h"
#include "sluice/rule_set.h"

namespace sluice::replay {

// A number of units in 16 bits: exact up to 4096, above rounded up by less than 0.05 %.
using PeakCode = std::uint16_t;
inline constexpr std::size_t kPeakCodes = 4096 + 21 * 2048 + 1;
inline constexpr std::uint64_t kMostUnits = 0xFFFFFFFF;

// Units beyond kMostUnits count as kMostUnits. Larger units never have a smaller code.
PeakCode peak_code(std::uint64_t units) noexcept;
// Returns the largest number with this code.
std::uint64_t units_of(PeakCode code) noexcept;

// The peaks of each key: one PeakCode for each of a fixed number of measures. A key is known by a
// hash of 64 bits.
//
// Not thread-safe. Cost: 8 bytes for a key and 2 for each of its peaks, and 5 to 8 for its place in
// the index.
class Peaks {
 public:
  explicit Peaks(std::size_t measures);

  // Returns the number of a key. A new key gets the next one, and peaks of 0.
  std::uint32_t number_of(std::uint64_t hash);
  // The peaks of the key with this number.
  std::span<PeakCode> of(std::uint32_t key) const noexcept {
    return {entry(key) + kHashCodes, stride_ - kHashCodes};
  }
  std::size_t keys() const noexcept { return keys_; }
  // The memory in use.
  std::size_t bytes() const noexcept;

 private:
  static constexpr std::size_t kPerChunk = 4096;
  static constexpr std::uint32_t kNoKey = 0xFFFFFFFF;
  static constexpr std::size_t kHashCodes = sizeof(std::uint64_t) / sizeof(PeakCode);

  PeakCode* entry(std::size_t key) const noexcept {
    return chunks_[key / kPerChunk].get() + key % kPerChunk * stride_;
  }
  std::uint64_t hash_of(std::size_t key) const noexcept;
  std::size_t place_of(std::uint64_t hash) const noexcept;
  void grow();

  std::size_t stride_;  // of an entry, in codes: the hash and the peaks
  std::size_t keys_ = 0;
  std::vector<std::unique_ptr<PeakCode[]>> chunks_;  // so that a growing table copies nothing
  std::vector<std::uint32_t> index_;                 // open addressing
};

// The algorithms of the measures of a period. A measure is the smallest limit (of a bucket: burst)
// that would admit a request if it had admitted everything before.
inline constexpr std::array<Algorithm, 3> kMeasures = {
    Algorithm::kFixedWindow, Algorithm::kSlidingWindowCounter, Algorithm::kTokenBucket};

// What a request needs, by measure.
using Need = std::array<std::uint64_t, kMeasures.size()>;

// Measures the demand of keys in one period, at times that never go back: windows that are aligned
// to the clock, a sliding window counter of one slice, and a token bucket that refills `rate` units
// per period. In exact integers, as the algorithms count.
//
// Not thread-safe. Remembers only the keys of the current and of the previous window, and those
// whose bucket is not full.
class Demand {
 public:
  static constexpr std::uint32_t kMostRate = 1000;

  // `rate` is at most kMostRate.
  Demand(Duration period, std::uint32_t rate) noexcept
      : period_(static_cast<std::uint64_t>(period.count())), rate_(rate) {}

  // Adds a request of the key with this number.
  Need add(std::uint32_t key, std::uint64_t units, Instant at);

 private:
  template <typename Value>
  using ByKey = boost::unordered_flat_map<std::uint32_t, Value>;

  void advance(std::uint64_t window);
  std::uint64_t fill_bucket(std::uint32_t key, std::uint64_t units, std::uint64_t at);
  void drop_full_buckets(std::uint64_t drained);

  std::uint64_t period_;
  std::uint64_t rate_;
  std::uint64_t window_ = 0;  // the number of the current window since 1970
  ByKey<std::uint32_t> current_;
  ByKey<std::uint32_t> previous_;
  // The level of a bucket in units of 1/period, plus what has drained since the first request.
  ByKey<std::uint64_t> levels_;
  std::uint64_t first_ = 0;  // the time of the first request
  bool began_ = false;
  std::size_t most_levels_ = 1024;  // before full buckets are dropped
};

// Which requests count, and how.
struct SuggestOptions : LogInput {
  std::string key = "{ip}";                                // a key template
  std::vector<std::pair<std::string, std::string>> match;  // attributes and their patterns
  std::vector<Duration> periods;                           // at least one
  std::uint32_t rate = 10;                                 // that token buckets refill per period
};

// How many keys and requests each limit of an algorithm and a period would have denied.
class DemandCurve {
 public:
  explicit DemandCurve(Algorithm of = Algorithm::kFixedWindow, Duration per = Duration{1})
      : algorithm(of), period(per), keys_(kPeakCodes), requests_(kPeakCodes) {}

  Algorithm algorithm;
  Duration period;

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
  std::vector<DemandCurve> curves;  // by period, and by algorithm
};

// A limit that denies few enough keys.
struct Suggestion {
  const DemandCurve* curve = nullptr;
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

#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_attributes.h"
#include "replay/log_reader.h"
#include "replay/text.h"
#include "replay/traits.h"
#include "sluice/clock.h"
#include "sluice/overrides.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice::replay {

// Counts over time in several channels, in constant memory. The buckets have equal, common widths
// (1 s, 5 s, 15 s, ... 1 h, ... 1 d, ...) and are aligned to them in UTC. The width is one second
// at first and grows if the time span needs more than kMostBuckets buckets.
//
// Not thread-safe. Cost: one addition if the bucket is the same as before.
class TimeSeries {
 public:
  static constexpr std::size_t kMostBuckets = 1024;

  explicit TimeSeries(std::size_t channels) : channels_(channels) {}

  // Selects the bucket of `at` for add(). Times never go back.
  void advance(Instant at) {
    if (at >= current_end_ || counts_.empty()) move_to(at);
  }
  // Adds one to a channel in the selected bucket.
  void add(std::size_t channel) noexcept { ++counts_[current_ * channels_ + channel]; }

  std::size_t channels() const noexcept { return channels_; }
  std::size_t buckets() const noexcept { return counts_.size() / channels_; }
  Duration width() const noexcept { return width_; }
  // The start of the first bucket.
  Instant start() const noexcept { return start_; }
  std::uint64_t at(std::size_t bucket, std::size_t channel) const noexcept {
    return counts_[bucket * channels_ + channel];
  }
  // The buckets of one channel, in order.
  std::vector<std::uint64_t> channel(std::size_t channel) const;

  // Returns the same counts in at most `columns` wider buckets, for a chart.
  TimeSeries in_columns(std::size_t columns) const;

 private:
  void move_to(Instant at);
  void widen(Duration width);

  std::size_t channels_;
  std::vector<std::uint64_t> counts_;  // in the order of buckets
  Duration width_{std::chrono::seconds{1}};
  Instant start_{};
  std::size_t current_ = 0;
  Instant current_end_{};
};

// A key that a limit denied.
struct DeniedKey {
  std::string label;  // the readable key, its first kLongestLabel bytes
  std::uint64_t requests = 0;
  std::uint64_t denied = 0;
  Instant first{};  // denial
  Instant last{};
  const Traits* traits = nullptr;  // of the denied requests; null: see TraitsByKey
};

// Counts the requests and denials of each key of one limit.
//
// Not thread-safe. Stores a 64-bit hash per key (about 40 bytes), the label of denied keys, and the
// traits of the most denied ones. At `most_keys` it ignores new keys and sets overflowed().
class KeyTally {
 public:
  static constexpr std::size_t kLongestLabel = 1024;

  explicit KeyTally(std::size_t most_keys) : most_keys_(most_keys) {}
  KeyTally(KeyTally&&) = default;
  KeyTally& operator=(KeyTally&&) = default;

  void count(const LimitAnswer& answer, const LogLine& line, Instant at);

  std::uint64_t keys() const noexcept { return keys_.size(); }
  std::uint64_t keys_denied() const noexcept { return denied_.size(); }
  // Returns whether keys were ignored, so that the numbers of keys are lower bounds.
  bool overflowed() const noexcept { return overflowed_; }
  // Returns the keys with the most denials, ordered by denials and then by label. Borrows their
  // traits until the next count().
  std::vector<DeniedKey> most_denied(std::size_t count) const;

 private:
  struct Entry {
    std::uint64_t requests = 0;  // before the first denial
    std::uint32_t denied_index = kNeverDenied;
  };
  static constexpr std::uint32_t kNeverDenied = 0xFFFFFFFFu;

  Entry* entry_of(std::string_view counter);
  void count_denial(Entry& entry, const LimitAnswer& answer, const LogLine& line, Instant at);

  std::size_t most_keys_;
  bool overflowed_ = false;
  boost::unordered_flat_map<std::uint64_t, Entry> keys_;  // by hash
  std::vector<DeniedKey> denied_;
  TraitsByKey traits_;        // by the index in denied_
  std::string last_counter_;  // consecutive requests often share a counter
  Entry* last_entry_ = nullptr;
};

struct LimitTally {
  const RuleLimit* limit = nullptr;
  std::uint64_t requests = 0;  // to which the limit applied
  std::uint64_t denied = 0;    // by this limit
  KeyTally keys;
  std::uint64_t blocked = 0;       // of `denied`: the key was blocked
  std::uint64_t invalid = 0;       // requests whose cost for this limit is none; not in `requests`
  std::uint64_t passed_over = 0;   // requests that another budget of the row answered
  std::uint64_t units = 0;         // that `requests` asked for
  std::uint64_t denied_units = 0;  // of those that this limit denied
  std::vector<std::string> cost_from = {};  // the attributes that its cost reads
  // The cost of the limit is that of the request or of attributes, and no request had any of these.
  bool lacks_cost = false;
  // The parts of its key that have attributes, and which of these the requests of the rule lack.
  std::vector<KeyPart> key_from = {};
  // The limit has no `cost`, and took the cost that the log gives, else 1 unit, of a request of
  // which this limit of this rule took a cost of its own. One of the two is more than 1. Null:
  // there is none.
  const Rule* costly_rule = nullptr;
  const RuleLimit* costly_limit = nullptr;

  // Whether the cost is that of the request or of attributes.
  bool reads_cost() const { return limit->cost == "request" || !cost_from.empty(); }
};

struct RuleTally {
  const Rule* rule = nullptr;
  std::uint64_t matched = 0;
  std::uint64_t denied = 0;  // by this rule; in shadow mode: would have been denied
  std::vector<LimitTally> limits;
  // The addresses of the requests. Null: the rule has no `action: deny`.
  std::optional<KeyTally> clients = {};
};

// All counts of a replay. Not thread-safe; borrows the rules.
class Tally {
 public:
  // The channels of series(): all requests, denied requests, those that rules in shadow mode would
  // deny, and for rule i at rule_channel(i) the matched requests, followed by the denied ones.
  static constexpr std::size_t kRequests = 0;
  static constexpr std::size_t kDenied = 1;
  static constexpr std::size_t kWouldDeny = 2;
  static constexpr std::size_t rule_channel(std::size_t rule) { return 3 + 2 * rule; }

  Tally(const RuleSet& rules, std::size_t most_keys);

  // Counts the request of a line that was decided at `at`. Times never go back.
  void count(const RuleAnswer& answer, const LogLine& line, Instant at);
  // Finds the limits whose costs the request has, and the attributes of keys. Cheap when each of
  // them has been found.
  void look_for_attributes(const RuleAnswer& answer, const LogLine& line, const RequestCosts& costs,
                           const AttributeSource& attributes);
  // Returns whether a limit ignored keys.
  bool overflowed() const noexcept;
  std::uint64_t allowed() const noexcept { return requests - denied - invalid; }

  std::uint64_t requests = 0;
  std::uint64_t denied = 0;      // by enforced rules
  std::uint64_t would_deny = 0;  // allowed requests that rules in shadow mode would deny
  std::uint64_t invalid = 0;     // that a server refuses with 400, such as for a wrong cost
  std::string mistake;           // of the first of them
  std::uint64_t unmatched = 0;   // no rule matched; allowed
  std::uint64_t undecided = 0;   // the store could not decide; the failure policy did
  // The costs of requests for all limits, 1 each if the log has none: of all but the invalid ones,
  // of the denied ones, and of those of would_deny.
  std::uint64_t units = 0, denied_units = 0, would_deny_units = 0;
  using ByHour = std::array<std::uint64_t, 24>;  // of the day, UTC
  ByHour denied_by_hour{}, would_deny_by_hour{};
  std::vector<RuleTally> rules;

  const TimeSeries& series() const noexcept { return series_; }

 private:
  LimitTally& tally_of(const LimitAnswer& answer);
  void look_for_keys(const RuleAnswer& answer, const AttributeSource& attributes);
  void look_for_missing_costs(const RuleAnswer& answer, const LogLine& line,
                              const RequestCosts& costs);

  std::span<const Rule> file_order_;
  TimeSeries series_;
  std::size_t lack_costs_ = 0;    // limits
  std::size_t lack_keys_ = 0;     // parts of keys whose first attribute no request has had
  std::size_t without_cost_ = 0;  // limits without `cost` that may need one
};

struct ReplayOptions : LogInput {
  // The maximum number of counters, and of keys per limit. Beyond it the results are approximate,
  // and the report says so. About 120 bytes per key.
  std::size_t max_keys = std::size_t{4} << 20;
  // Rules to compare with: they decide the same requests, with counters of their own. Null: none.
  const RuleSet* against = nullptr;
  // What the report calls the two: the names of their files.
  std::string rules_name = "the first rules";
  std::string against_name = "the second rules";
  // What single keys have instead of the numbers of their limits. Null: nothing.
  const Overrides* overrides = nullptr;
};

// How the decisions of two sets of rules differ. Borrows the rules.
struct ReplayComparison {
  // The channels of `series`: all requests, and those that only one of the two denies.
  static constexpr std::size_t kRequests = 0;
  static constexpr std::size_t kOnlyRules = 1;
  static constexpr std::size_t kOnlyAgainst = 2;

  ReplayComparison(const RuleSet& rules, const RuleSet& against, std::size_t most_keys)
      : tally(against, most_keys), only_rules(rules, most_keys), only_against(against, most_keys) {}

  Tally tally;                    // of the rules to compare with
  Tally only_rules;               // the requests that only the first rules deny
  Tally only_against;             // the requests that only the rules to compare with deny
  std::uint64_t denied_both = 0;  // requests that both deny
  TimeSeries series{3};
};

// The result of a replay. Borrows the rules.
struct ReplayReport : LogTotals {
  ReplayReport(const RuleSet& rules, const ReplayOptions& options)
      : rules_name(options.rules_name),
        against_name(options.against_name),
        tally(rules, options.max_keys) {
    if (options.against != nullptr) comparison.emplace(rules, *options.against, options.max_keys);
  }

  std::string rules_name;
  std::string against_name;
  std::optional<Instant> first;  // the earliest timestamp
  std::optional<Instant> last;   // the latest
  std::uint64_t evictions = 0;   // counters evicted because of max_keys
  std::chrono::milliseconds elapsed{0};
  Tally tally;
  std::optional<ReplayComparison> comparison;

  bool approximate() const noexcept;
};

// Decides every request of the logs by the rules, and by those to compare with in the same pass, at
// the times in the logs, in their order. The clock never goes back: an out-of-order line of a log
// is decided at the latest time before it.
//
// A second thread reads, parses and matches the rules; the calling thread decides. Memory depends
// only on the number of keys. Lines that are not access log lines are counted, and unreadable logs
// are skipped.
ReplayReport replay(const RuleSet& rules, const ReplayOptions& options);

// A report as text, JSON and HTML. Pure functions of the report.

// Returns a summary. `has_colours`: with ANSI escapes. `columns`: the width of the terminal, at
// least kLeastColumns, which only requests and agents of keys use.
std::string text_report(const ReplayReport& report, bool has_colours,
                        std::size_t columns = kUsualColumns);

// Returns one JSON object on one line, with times in UTC. Denied keys are truncated to
// KeyTally::kLongestLabel bytes, and bytes that are not UTF-8 become U+FFFD.
std::string json_report(const ReplayReport& report);

// Returns a self-contained page: it needs no other file and no network, and is readable without its
// script.
std::string html_report(const ReplayReport& report);

// A chart of requests over time as HTML: allowed requests with denied requests stacked on top,
// axes, the numbers in the title of each column, and a description.
struct Chart {
  const TimeSeries& series;
  std::size_t requests = 0;  // the channels of all requests and of denied requests
  std::size_t denied = 0;
  std::string id;     // unique in the page
  std::string title;  // plain text
  std::string denied_name = "denied";
  std::string denied_style = "denied";         // "trial": by a rule in shadow mode
  std::optional<std::size_t> would_deny = {};  // a channel, stacked on denied requests
  bool denied_only = false;  // omits allowed requests, for a scale that shows few denials
  bool low = false;          // a lower chart than usual
  std::uint64_t scale = 0;   // the axis ends at this number or above
};
std::string chart_html(const Chart& chart);

// Describes a limit: "token_bucket, 10 per 1 s, burst 20".
std::string limit_text(const Limit& limit);
// Describes a limit of a rule; of a limit with plans the numbers of each: "token_bucket, free: 10
// per 1 s; pro: 20 per 1 s".
std::string limit_text(const Rule& rule, const RuleLimit& limit);

// Says how many of the units that requests asked for are allowed and denied. Empty: one each.
std::string units_text(const Tally& tally);
// Returns "3,000 of 12,000 units" that a limit denied. Empty: requests have one each.
std::string denied_units_text(const LimitTally& limit);
// Returns "3 blocked, 2 limited": the denials of a limit with `block`. Empty: it has none.
std::string blocked_text(const LimitTally& limit);

// Says how many requests are invalid, and why the first one is.
std::string invalid_text(const Tally& tally);
// Says that another budget of the row (`overflow`) answered each request to which the limit could
// apply. Empty: the limit answered one, or there was none.
std::string spared_text(const LimitTally& limit);
// Says which limit has the denials of the row, if the limit is a later budget of it. Empty: it is
// none, or the row denied nothing.
std::string row_text(const LimitTally& limit);
// Says that requests have a wrong cost for the limit.
std::string wrong_costs(const LimitTally& limit);

// Says what is wrong with logs, which rules and limits applied to no request, which limits lack
// the costs of requests or a cost of their own, and what was not counted, one sentence each: "rule
// a matched no request". With those of the rules to compare with.
std::vector<std::string> warnings_of(const ReplayReport& report);

// Names the formats of the logs: "JSON lines, CSV".
std::string format_titles(const ReplayReport& report);

}  // namespace sluice::replay

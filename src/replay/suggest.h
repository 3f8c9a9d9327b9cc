#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "replay/log_reader.h"
#include "replay/text.h"
#include "replay/traits.h"
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
  std::uint64_t hash_of(std::size_t key) const noexcept;
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
  std::size_t place_of(std::uint64_t hash) const noexcept;
  void grow();

  std::size_t stride_;  // of an entry, in codes: the hash and the peaks
  std::size_t keys_ = 0;
  std::uint64_t last_hash_ = 0;  // of the last number_of(): many requests have the same key
  std::uint32_t last_number_ = 0;
  std::vector<std::unique_ptr<PeakCode[]>> chunks_;  // so that a growing table copies nothing
  std::vector<std::uint32_t> index_;                 // open addressing
};

// How many keys and requests each limit of an algorithm and a period would have denied.
class DemandCurve {
 public:
  explicit DemandCurve(Algorithm of = Algorithm::kFixedWindow, Duration time = Duration{1},
                       std::uint64_t units = 0)
      : algorithm(of), period(time), rate(units) {}

  Algorithm algorithm;
  Duration period;
  std::uint64_t rate;  // of a token bucket, whose burst is the limit: units per period

  void add_key(PeakCode peak) { ++at(keys_, peak); }
  void add_request(PeakCode need) { ++at(requests_, need); }

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
  using Counts = std::vector<std::uint64_t>;  // by PeakCode, up to the largest

  static std::uint64_t& at(Counts& counts, PeakCode code) {
    if (code >= counts.size()) counts.resize(code + std::size_t{1});
    return counts[code];
  }
  static std::uint64_t over(const Counts& counts, std::uint64_t limit);

  Counts keys_;
  Counts requests_;
};

// Measures the demand of keys, at times that never go back. A measure is the smallest limit (of a
// bucket: burst) that would admit a request if it had admitted everything before: of windows that
// are aligned to the clock and of a sliding window counter of one slice for each period, and of a
// token bucket for each rate. In exact integers, as the algorithms count.
//
// Instead of windows it can measure the units of a key in the last hour: exact if times are whole
// seconds; else with the units of less than one second before it.
//
// Not thread-safe. Cost: for each key its Peaks and 8 bytes, and 8 more for its busiest hour. A key
// that was active in the current or in the previous window or in the last hour, or has a bucket
// that is not full, takes 40 bytes, 16 for each period, 8 for each rate, and 12 for each second of
// the last hour in which it has requests.
class Demand {
 public:
  static constexpr std::uint32_t kMostRate = 1000;

  // The curves to measure: a fixed window and a sliding window counter for each period, or a
  // sliding window log for the busiest hour; then token buckets, the slowest first.
  explicit Demand(std::vector<DemandCurve> curves);

  // Adds a request of the key with this hash, and returns the number of the key.
  std::uint32_t add(std::uint64_t hash, std::uint64_t units, Instant at);
  // The burst that the last request needs of the slowest bucket.
  std::uint64_t last_need() const noexcept { return last_need_; }
  // Adds the keys to the curves, after the last request.
  void finish();

  // Notes how many requests the bucket of this curve denied with this burst.
  void set_denied(std::size_t curve, std::uint64_t burst, std::uint64_t requests);
  // Returns what set_denied() has noted for this bucket; nothing if it was another one.
  std::optional<std::uint64_t> denied(std::size_t curve, std::uint64_t burst) const;
  std::uint64_t requests() const noexcept { return requests_; }
  std::size_t keys() const noexcept { return peaks_.keys(); }
  std::uint32_t requests_of(std::uint32_t key) const { return keys_[key].requests; }
  std::uint64_t hash_of(std::uint32_t key) const noexcept { return peaks_.hash_of(key); }
  // The number of a key that has a request.
  std::uint32_t number_of(std::uint64_t hash) { return peaks_.number_of(hash); }
  // The largest measure of the key for the curve with this index.
  std::uint64_t peak_of(std::uint32_t key, std::size_t curve) const {
    return units_of(peaks_.of(key)[curve]);
  }
  // The memory for keys in use, without the active ones.
  std::size_t bytes() const noexcept {
    return peaks_.bytes() + keys_.size() * sizeof(Key) + busiest_.size() * sizeof(busiest_[0]);
  }
  // The most units of the key in an hour, if busiest hours are measured.
  std::uint64_t busiest_hour_of(std::uint32_t key) const { return busiest_[key]; }
  const std::vector<DemandCurve>& curves() const noexcept { return curves_; }
  std::size_t first_bucket() const noexcept { return first_bucket_; }

 private:
  static constexpr std::uint32_t kInactive = 0xFFFFFFFF;
  struct Key {
    std::uint32_t active = kInactive;  // its place in active_
    std::uint32_t requests = 0;
  };
  struct Active {
    std::uint32_t key = kInactive;  // free
    std::uint32_t filled = 0;       // the number of buckets, from the slowest, that have a level
    std::uint64_t last_units = 0;   // the level of the others at the last request
    std::uint64_t last = 0;         // when that was
    std::uint64_t hour_units = 0;   // of the last hour
    std::uint64_t second = 0;       // the number of its latest second, since the first of all
  };
  struct Window {
    std::uint64_t number = 0;  // since 1970
    std::uint32_t used = 0;
    std::uint32_t previous = 0;  // in the window before it
  };
  struct Period {
    std::uint64_t length = 0;
    std::uint64_t window = 0;  // the number of the current window
    std::uint64_t start = 0;   // of it
  };
  // The units of a key in a second, with its end.
  struct Second {
    std::uint32_t place = 0;  // in active_
    std::uint32_t end = 0;    // seconds after base_
    std::uint32_t units = 0;
  };

  bool has_hour() const noexcept { return periods_.empty() && first_bucket_ == 1; }
  std::size_t buckets() const noexcept { return curves_.size() - first_bucket_; }
  void advance(std::uint64_t now);
  std::uint32_t activate(std::uint32_t key, std::uint64_t now);
  void drop_inactive(std::uint64_t now);
  bool is_active(std::uint32_t place, std::uint64_t now) const;
  void add_to_windows(std::uint32_t place, std::uint64_t units, std::uint64_t now,
                      std::span<PeakCode> peaks);
  std::uint64_t add_to_hour(std::uint32_t place, std::uint64_t units, std::uint64_t now);
  std::uint64_t add_to_buckets(std::uint32_t place, std::uint64_t units, std::uint64_t now,
                               std::span<PeakCode> peaks);
  void note(std::size_t curve, std::uint64_t need, std::span<PeakCode> peaks);

  std::vector<DemandCurve> curves_;
  std::size_t first_bucket_;
  std::vector<Period> periods_;
  Peaks peaks_;
  std::deque<Key> keys_;
  std::uint64_t requests_ = 0;
  std::uint64_t last_need_ = 0;
  std::vector<Active> active_;
  std::vector<Window> windows_;        // of active_, for each period
  std::vector<std::uint64_t> levels_;  // of active_, for each bucket, in units of 1/per
  std::vector<std::uint32_t> free_;    // places in active_
  std::size_t counted_ = 0;            // the curve of set_denied(), or 0
  std::uint64_t burst_ = 0, denied_ = 0;
  std::size_t most_active_ = 1024;     // before the inactive ones are dropped
  std::deque<Second> seconds_;         // those of the last hour
  std::uint64_t forgotten_ = 0;        // the number of those before them
  std::uint64_t base_ = 0;             // a time in seconds
  std::deque<std::uint64_t> busiest_;  // of keys_: the most units in an hour
};

// Which requests count, and how.
struct SuggestOptions : LogInput {
  std::string key = "{ip}";  // a key template
  // Attributes and their patterns. Requests count if each attribute of `match` matches one of its
  // patterns, and none of `exclude` matches.
  std::vector<std::pair<std::string, std::string>> match, exclude;
  std::vector<Duration> periods;  // at least one
  // The share of keys for which advise() says exactly what its limits deny.
  double harm = 0;
  // What token buckets refill per period, for suggestions(). 0: no token buckets.
  std::uint32_t rate = 0;
  // Count exactly what the suggestions() for `harm` deny, as a replay does.
  bool counts_suggestions = false;
  // Requests that are kept to count what limits deny, 16 bytes each. With more, the logs are read
  // again.
  std::size_t most_kept = std::size_t{4} << 20;

  // What limits count: the field of the cost if it is a simple name, else "units". Empty: requests.
  std::string unit() const;
};

// The map of a rule's `match`, whose patterns are written as in YAML.
class MatchMap {
 public:
  void add(std::string_view attribute, std::string pattern) {
    add_to(matches_, attribute, std::move(pattern));
  }
  // The rule does not match requests whose attribute matches the pattern.
  void exclude(std::string_view attribute, std::string pattern) {
    add_to(excludes_, attribute, std::move(pattern));
  }
  // Returns "method: [POST], not: { path: [/login] }". Empty: all requests.
  std::string text() const;

 private:
  using Patterns = std::vector<std::pair<std::string, std::vector<std::string>>>;
  static void add_to(Patterns& all, std::string_view attribute, std::string pattern);

  Patterns matches_, excludes_;
};

// The routes that sluice finds by itself: a request belongs to the first that it matches, and one
// to a login below an API to both. Each is what a rule with match() matches.
enum class RouteKind : std::uint8_t {
  kLogin,   // writes to paths that look like a login, or where clients guess
  kApi,     // below /api, /v1 and the like
  kWrites,  // POST, PUT, PATCH, DELETE
  kStatic,  // files with the extension of an image, a style sheet and the like
  kPages,   // all others
};
inline constexpr std::size_t kRoutes = 5;
// Whether many clients of the route can be robots, so that its limit is made for the others.
constexpr bool is_of_writes(RouteKind kind) {
  return kind == RouteKind::kLogin || kind == RouteKind::kWrites;
}

// What is known of the routes before the logs are read.
struct RouteChoice {
  std::vector<std::string> logins;  // paths that are logins besides those that look like one
  // By RouteKind: their requests belong to the next route that matches. That of writes only with
  // that of logins.
  std::array<bool, kRoutes> left_out{};

  bool operator==(const RouteChoice&) const = default;
};

// Finds the routes of requests, in constant memory.
//
// Not thread-safe.
class RouteFinder {
 public:
  explicit RouteFinder(const RouteChoice& choice = {})
      : left_out_(choice.left_out), logins_(choice.logins) {}

  RouteKind find(const LogLine& line);
  // Whether the last request is below the folder of an API.
  bool is_in_api() const noexcept { return is_in_api_; }
  // The other routes do not exclude the requests of this one from now on.
  void leave_out(RouteKind kind);
  // The map of a rule for what has been found so far.
  MatchMap match(RouteKind kind) const;
  // Whether the path is one of the logins that have been found.
  bool is_known_login(std::string_view path) const;
  // Whether a request writes.
  static bool is_write(const LogLine& line);
  // Whether a request had a path.
  bool has_paths() const noexcept { return has_paths_; }

  static constexpr std::size_t kMostPaths = 32;  // of logins

 private:
  RouteKind look(const LogLine& line);
  bool is_login(std::string_view path);

  bool has(RouteKind kind) const noexcept { return !left_out_[static_cast<std::size_t>(kind)]; }

  std::array<bool, kRoutes> left_out_;
  bool has_paths_ = false;
  bool is_in_api_ = false;
  std::uint32_t methods_ = 0;  // of writes, by their index, and so on
  std::uint32_t extensions_ = 0;
  std::vector<std::string> api_, logins_;  // folders and paths
  std::string last_;                       // the last path of a write, and whether it is a login
  bool last_is_login_ = false;
  std::string last_path_, last_method_;  // of the last request, and its route
  RouteKind last_kind_ = RouteKind::kPages;
};

// Finds the paths where clients guess, from the requests that write. A client guesses at the path
// that it writes to most often, at least kRepeats times, if most of these requests get a status of
// 4xx, or if it requests hardly anything else. Clients guess at a path if at least kClients do, and
// if most requests that write to it are theirs. Requests with status 404, 405 or 410 do not count:
// nothing is there.
//
// Not thread-safe. Cost: 4 bytes for a client, 24 more for one that writes, and up to 4 MB.
class GuessFinder {
 public:
  static constexpr std::uint32_t kRepeats = 10;
  static constexpr std::uint32_t kClients = 3;

  static bool is_missing(std::string_view status) noexcept {
    return status == "404" || status == "405" || status == "410";
  }
  // Whether a client writes this often, and requests hardly anything else.
  static bool repeats(std::uint64_t writes, std::uint64_t elsewhere) noexcept {
    return writes >= kRepeats && elsewhere * kRepeats <= writes;
  }
  // Whether a client guesses where it writes this often.
  static bool guesses(std::uint64_t writes, std::uint64_t failed,
                      std::uint64_t elsewhere) noexcept {
    return repeats(writes, elsewhere) || (writes >= kRepeats && failed * 2 > writes);
  }
  // Adds a request of a client. The numbers of clients begin with 0. `requests`: of the client,
  // with this one.
  void add(std::uint32_t client, std::uint32_t requests, const LogLine& line, RouteKind kind);
  // Returns the paths with most such requests first, at most RouteFinder::kMostPaths.
  std::vector<std::string> paths() const;
  std::size_t bytes() const noexcept;

 private:
  static constexpr std::size_t kMostPaths = 16'384;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Writer {
    std::uint32_t path = kNone;  // that it writes to most often
    std::uint32_t writes = 0;    // to this path
    std::uint32_t failed = 0;    // of them
    std::uint32_t others = 0;    // requests that write to other paths, less than `writes`
    std::uint32_t reads = 0;     // other requests of this path
    std::uint32_t requests = 0;  // of the client
  };
  static bool guesses(const Writer& writer) noexcept;
  std::uint32_t number_of(std::string_view path);

  std::vector<std::uint32_t> writer_of_;  // by client: its place in writers_
  std::vector<Writer> writers_;
  std::deque<std::string> paths_;
  std::vector<std::uint64_t> writes_;  // by path
  boost::unordered_flat_map<std::string_view, std::uint32_t> numbers_;
};

// What distinguishes clients of a route that writes from robots, by the number of the key there.
struct Behaviour {
  std::uint32_t client = 0;  // its number among all keys
  std::uint32_t failed = 0;  // requests with a status of 4xx
  // Requests of other routes or that do not match, except for those of the login's paths.
  std::uint32_t elsewhere = 0;
};

// The demand of a route.
struct RouteDemand {
  std::string name;
  RouteKind kind = RouteKind::kPages;
  std::string match;  // the text of a MatchMap
  Demand demand;
  TraitsByKey traits;                // by the number of the key
  std::vector<Behaviour> behaviour;  // of login and writes, and with --match
  std::uint64_t writes = 0;          // requests that write, to paths that exist
  bool is_alone = false;  // clients that do their work also send requests that are not of the route
};

// The demand in the logs.
struct SuggestReport : LogTotals {
  SuggestOptions options;
  std::uint64_t requests = 0;   // that match and have a key
  std::uint64_t unmatched = 0;  // that do not match
  std::uint64_t keyless = 0;    // without an attribute of the key
  std::uint64_t keys = 0;
  std::size_t key_bytes = 0;  // memory for the keys
  // With the key {ip}: the most IPv6 addresses of one network of 64 bits.
  std::uint64_t network_keys = 0;
  // What is wrong with conditions that no request met, with a key whose first choice no request
  // has, and with several sources of the cost.
  std::vector<std::string> unmet;
  // LogTotals::expected_source() of the attribute of the key that no request has; else empty.
  std::string key_source;
  std::optional<Instant> first, last;
  std::chrono::milliseconds elapsed{0};
  std::vector<DemandCurve> curves;  // of all requests, by period, and by algorithm
  std::deque<RouteDemand> routes;   // in the order of RouteKind; each has requests
  // The requests that the suggestions() for the share of the options deny, in their order. Empty:
  // not counted.
  std::vector<std::uint64_t> replayed;

  // The time between the first and the last request, at least a second.
  std::chrono::seconds covered() const;
  // The same, from a minute to an hour: of less, a log says nothing of a rate.
  std::chrono::seconds rate_span() const;
};

// A client that a limit denies, the one that needed most of the others (if it needed more than all
// of these), or one that has a large share of the requests.
struct AdvisedClient {
  std::string label;  // the readable key; empty without traits
  std::uint64_t requests = 0;
  std::uint64_t burst_needed = 0;
  bool denied = false;
  bool needs_most = false;         // no other that is admitted needed so large a burst
  const Traits* traits = nullptr;  // null: there is no sample
};

// The limit to take for a route: a token bucket.
struct Advice {
  const RouteDemand* route = nullptr;
  const DemandCurve* curve = nullptr;  // of its rate
  std::uint64_t burst = 0;
  std::uint64_t keys_denied = 0;      // exact
  std::uint64_t requests_denied = 0;  // at most, unless is_exact
  bool is_exact = false;
  // What the keys needed that it admits, for writes without those that do not look legitimate:
  // units in the busiest hour of one (of a shorter log, all units), and a burst with this rate. At
  // least 1.
  std::uint64_t keys_measured = 0;
  std::uint64_t busiest_hour = 0;
  std::uint64_t burst_needed = 0;
  // The needs that the limit is made for, without those that it may deny: the burst is `headroom`
  // times `burst_needed`, rounded up, and at least Advice::kLeastBurst. The rate is at least
  // `headroom` times `busiest_hour`, if there is one. `headroom` is 0 if the limit is what one
  // person needs.
  struct Basis {
    double headroom = 0;
    std::uint64_t keys = 0;  // of all_keys, which have these needs at most
    std::uint64_t all_keys = 0;
    std::uint64_t busiest_hour = 0;
    std::uint64_t burst_needed = 0;
  };
  Basis basis;
  static constexpr std::uint64_t kLeastBurst = 5;  // people click twice, and repeat what failed
  // The index of the curve.
  std::size_t bucket() const {
    return static_cast<std::size_t>(curve - route->demand.curves().data());
  }
  std::string note;                    // what is uncertain about the limit
  std::vector<AdvisedClient> clients;  // those with most requests, at most kMostClients
  static constexpr std::size_t kMostClients = 10;
};

// Whether advise() has a limit for the route.
bool has_advice(const SuggestReport& report, const RouteDemand& route);

// Returns the limits to take: first that of the route to begin with, then those of others that have
// enough requests, in their order. `harm` is the share of the keys that each is made for and may
// deny. Borrows the report.
std::vector<Advice> advise(const SuggestReport& report, double harm);

// A limit that denies few enough keys.
struct Suggestion {
  const DemandCurve* curve = nullptr;
  std::uint64_t limit = 0;  // for token buckets the burst
  std::uint64_t keys_denied = 0;
  std::uint64_t requests_denied = 0;  // at most, unless is_exact
  bool is_exact = false;
};

// Returns the comment of a rules file on where costs come from. Empty: limits count requests.
std::string cost_comment(const SuggestOptions& options);

// Returns a rules file with the requests of the options in shadow mode: one rule for each
// suggestion. Without suggestions it has one limit of any numbers, and a rule for each condition.
std::string suggested_rules(const SuggestOptions& options,
                            const std::vector<Suggestion>& suggestions);

// Returns how many of the keys this share is, rounded down.
std::uint64_t share_of(std::uint64_t keys, double share);

// Returns the smallest limits that deny at most this share of the keys.
std::vector<Suggestion> suggestions(const SuggestReport& report, double harm);

// Returns "denies 8 of 8,799 requests, of 3 of 260 clients".
std::string denial_text(const SuggestReport& report, const Advice& advice);

// Returns a rules file with the advice: the first limit in shadow mode, the others as comments.
std::string advised_rules(const SuggestReport& report, const std::vector<Advice>& advice);

// Measures the demand in the logs. `rules` is suggested_rules() without suggestions. A second
// thread reads and parses. Memory depends only on the number of keys, besides the requests that are
// kept: see Peaks, Demand and SuggestOptions::most_kept. Reads files again if clients guess at
// paths that do not look like a login, if routes are too small for a rule, and to count what limits
// deny of more requests than are kept.
SuggestReport suggest(const RuleSet& rules, const SuggestOptions& options);

// Reports as text, JSON and HTML. Pure functions. `all`: with the limits of all algorithms.
// `columns`: the width of the terminal, at least kLeastColumns.
std::string suggest_text(const SuggestReport& report, double harm, bool all,
                         std::size_t columns = kUsualColumns);
std::string suggest_json(const SuggestReport& report, double harm);
std::string suggest_html(const SuggestReport& report, double harm);

}  // namespace sluice::replay

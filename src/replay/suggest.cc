#define XXH_INLINE_ALL
#include "replay/suggest.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "base/json_writer.h"
#include "base/quoted.h"
#include "core/algorithms.h"
#include "core/period.h"
#include "replay/log_attributes.h"
#include "replay/replay.h"
#include "rules/networks.h"
#include "rules/rule_set.h"

namespace sluice::replay {
namespace {

constexpr std::uint64_t kExact = 4096;
constexpr std::uint64_t kMantissas = 2048;

}  // namespace

PeakCode peak_code(std::uint64_t units) noexcept {
  if (units <= kExact) return static_cast<PeakCode>(units);
  units = std::min(units, kMostUnits);
  const auto shift = static_cast<unsigned>(std::bit_width(units - 1)) - 12;
  const std::uint64_t mantissa = (units + (std::uint64_t{1} << shift) - 1) >> shift;
  return static_cast<PeakCode>(kExact + (shift - 1) * kMantissas + (mantissa - kMantissas));
}

std::uint64_t units_of(PeakCode code) noexcept {
  if (code <= kExact) return code;
  const std::uint64_t above = code - kExact - 1;
  const std::uint64_t mantissa = above % kMantissas + kMantissas + 1;
  return std::min(mantissa << (above / kMantissas + 1), kMostUnits);
}

Peaks::Peaks(std::size_t measures) : stride_(kHashCodes + measures), index_(1024, kNoKey) {}

std::uint32_t Peaks::number_of(std::uint64_t hash) {
  if (hash == last_hash_ && keys_ > 0) return last_number_;
  std::size_t place = place_of(hash);
  if (index_[place] == kNoKey) {
    if ((keys_ + 1) * 5 > index_.size() * 4) {
      grow();
      place = place_of(hash);
    }
    if (keys_ % kPerChunk == 0) {
      chunks_.push_back(std::make_unique<PeakCode[]>(kPerChunk * stride_));
    }
    index_[place] = static_cast<std::uint32_t>(keys_++);
    std::memcpy(entry(keys_ - 1), &hash, sizeof(hash));
  }
  last_hash_ = hash;
  return last_number_ = index_[place];
}

std::size_t Peaks::bytes() const noexcept {
  return chunks_.size() * kPerChunk * stride_ * sizeof(PeakCode) +
         index_.capacity() * sizeof(std::uint32_t);
}

std::uint64_t Peaks::hash_of(std::size_t key) const noexcept {
  std::uint64_t hash = 0;
  std::memcpy(&hash, entry(key), sizeof(hash));
  return hash;
}

// Returns the place of the key in the index, or where it belongs.
std::size_t Peaks::place_of(std::uint64_t hash) const noexcept {
  const auto scaled = (hash >> 32) * index_.size();  // fewer than 2^32 places
  std::size_t place = scaled >> 32;
  while (index_[place] != kNoKey && hash_of(index_[place]) != hash) {
    if (++place == index_.size()) place = 0;
  }
  return place;
}

void Peaks::grow() {
  index_.assign(0, 0);
  index_.shrink_to_fit();  // before the larger one is allocated
  index_.assign(std::max<std::size_t>(1024, keys_ + keys_ / 4 * 3), kNoKey);
  for (std::size_t key = 0; key < keys_; ++key) {
    index_[place_of(hash_of(key))] = static_cast<std::uint32_t>(key);
  }
}

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kSecond = 1'000'000;
constexpr std::uint64_t kMinute = 60 * kSecond;

// Rounds up. Most periods of buckets are a minute, which needs no division.
std::uint64_t units_in(std::uint64_t level, std::uint64_t per) noexcept {
  return per == kMinute ? (level + kMinute - 1) / kMinute : (level + per - 1) / per;
}

std::uint64_t length_of(Duration duration) noexcept {
  return static_cast<std::uint64_t>(duration.count());
}

}  // namespace

Demand::Demand(std::vector<DemandCurve> curves)
    : curves_(std::move(curves)),
      first_bucket_(static_cast<std::size_t>(
          std::ranges::find(curves_, Algorithm::kTokenBucket, &DemandCurve::algorithm) -
          curves_.begin())),
      peaks_(curves_.size()) {
  for (const DemandCurve& curve : curves_) {
    if (curve.algorithm == Algorithm::kFixedWindow) periods_.push_back({length_of(curve.period)});
  }
}

inline void Demand::note(std::size_t curve, std::uint64_t need, std::span<PeakCode> peaks) {
  const PeakCode code = need <= kExact ? static_cast<PeakCode>(need) : peak_code(need);
  peaks[curve] = std::max(peaks[curve], code);
  curves_[curve].add_request(code);
}

std::uint32_t Demand::add(std::uint64_t hash, std::uint64_t units, Instant at) {
  const auto now = static_cast<std::uint64_t>(at.time_since_epoch().count());
  units = std::min(units, kMostUnits);
  ++requests_;
  advance(now);
  const std::uint32_t key = peaks_.number_of(hash);
  if (key == keys_.size()) keys_.emplace_back();
  Key& entry = keys_[key];
  if (entry.active == kInactive) entry.active = activate(key, now);
  entry.requests += entry.requests < 0xFFFFFFFF ? 1 : 0;
  const auto peaks = peaks_.of(key);
  add_to_windows(entry.active, units, now, peaks);
  if (has_hour()) {
    if (key == busiest_.size()) busiest_.push_back(0);
    const std::uint64_t last_hour = add_to_hour(entry.active, units, now);
    std::uint64_t& busiest = busiest_[key];
    busiest = std::max(busiest, last_hour);
    note(0, last_hour, peaks);
  }
  last_need_ = add_to_buckets(entry.active, units, now, peaks);
  return key;
}

void Demand::advance(std::uint64_t now) {
  constexpr std::uint64_t kHour = 3600;
  while (!seconds_.empty() && now / kSecond >= base_ + seconds_.front().end + kHour) {
    active_[seconds_.front().place].hour_units -= seconds_.front().units;
    seconds_.pop_front();
    ++forgotten_;
  }
  for (Period& period : periods_) {
    if (now - period.start < period.length) continue;
    period.window = now / period.length;
    period.start = period.window * period.length;
  }
}

std::uint32_t Demand::activate(std::uint32_t key, std::uint64_t now) {
  if (free_.empty() && active_.size() >= most_active_) drop_inactive(now);
  std::uint32_t place = 0;
  if (free_.empty()) {
    place = static_cast<std::uint32_t>(active_.size());
    active_.emplace_back();
    windows_.resize(windows_.size() + periods_.size());
    levels_.resize(levels_.size() + buckets());
  } else {
    place = free_.back();
    free_.pop_back();
    std::fill_n(windows_.begin() + static_cast<std::ptrdiff_t>(place * periods_.size()),
                periods_.size(), Window{});
  }
  active_[place] = {.key = key, .last = now};
  return place;
}

void Demand::drop_inactive(std::uint64_t now) {
  for (std::uint32_t place = 0; place < active_.size(); ++place) {
    Active& each = active_[place];
    if (each.key == kInactive || is_active(place, now)) continue;
    keys_[each.key].active = kInactive;
    each.key = kInactive;
    free_.push_back(place);
  }
  const std::size_t used = active_.size() - free_.size();
  most_active_ = std::max(active_.size(), used + used / 2);
}

// Whether a request of the key would need more than the units that it takes.
bool Demand::is_active(std::uint32_t place, std::uint64_t now) const {
  for (std::size_t i = 0; i < periods_.size(); ++i) {
    if (windows_[place * periods_.size() + i].number + 1 >= periods_[i].window) return true;
  }
  const Active& active = active_[place];
  if (active.hour_units > 0) return true;
  if (buckets() == 0) return false;
  const DemandCurve& slowest = curves_[first_bucket_];
  const std::uint64_t level = active.filled > 0 ? levels_[place * buckets()]
                                                : active.last_units * length_of(slowest.period);
  return Wide{now - active.last} * slowest.rate < level;
}

void Demand::add_to_windows(std::uint32_t place, std::uint64_t units, std::uint64_t now,
                            std::span<PeakCode> peaks) {
  Window* window = windows_.data() + place * periods_.size();
  for (std::size_t i = 0; i < periods_.size(); ++i, ++window) {
    const Period& period = periods_[i];
    if (window->number != period.window) {
      window->previous = window->number + 1 == period.window ? window->used : 0;
      window->used = 0;
      window->number = period.window;
    }
    window->used = static_cast<std::uint32_t>(std::min(window->used + units, kMostUnits));
    std::uint64_t sliding = window->used;
    if (window->previous > 0) {
      // The share of the previous window that is still inside the sliding one, rounded up.
      const Wide inside = Wide{window->previous} * (period.start + period.length - now);
      sliding += inside >> 64 == 0 ? (static_cast<std::uint64_t>(inside) - 1) / period.length + 1
                                   : static_cast<std::uint64_t>((inside - 1) / period.length) + 1;
    }
    note(2 * i, window->used, peaks);
    note(2 * i + 1, sliding, peaks);
  }
}

// Returns the units of the key in the last hour.
std::uint64_t Demand::add_to_hour(std::uint32_t place, std::uint64_t units, std::uint64_t now) {
  const std::uint64_t end = (now + kSecond - 1) / kSecond;
  if (seconds_.empty()) base_ = end;
  Active& active = active_[place];
  active.hour_units += units;
  if (active.second >= forgotten_ && active.second - forgotten_ < seconds_.size()) {
    Second& second = seconds_[active.second - forgotten_];
    const bool is_same = second.place == place && base_ + second.end == end;
    if (is_same && second.units + units <= kMostUnits) {
      second.units += static_cast<std::uint32_t>(units);
      return active.hour_units;
    }
  }
  active.second = forgotten_ + seconds_.size();
  seconds_.push_back(
      {place, static_cast<std::uint32_t>(end - base_), static_cast<std::uint32_t>(units)});
  return active.hour_units;
}

// Returns the burst that the request needs of the slowest bucket.
std::uint64_t Demand::add_to_buckets(std::uint32_t place, std::uint64_t units, std::uint64_t now,
                                     std::span<PeakCode> peaks) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  Active& active = active_[place];
  const std::uint64_t elapsed = now - active.last;
  const std::size_t count = buckets();
  std::uint64_t* const levels = levels_.data() + place * count;
  std::uint64_t slowest = units;
  std::uint32_t i = 0;
  for (; i < count; ++i) {
    const DemandCurve& bucket = curves_[first_bucket_ + i];
    const std::uint64_t per = length_of(bucket.period);
    const std::uint64_t before = i < active.filled ? levels[i] : active.last_units * per;
    std::uint64_t drained = 0;
    const bool is_much = __builtin_mul_overflow(elapsed, bucket.rate, &drained);
    if (is_much || drained >= before) break;  // it is full again, and so are the faster ones
    levels[i] = std::min(before - drained + units * per, kMost);
    const std::uint64_t need = units_in(levels[i], per);
    if (i == 0) slowest = need;
    note(first_bucket_ + i, need, peaks);
  }
  active.filled = i;
  active.last = now;
  active.last_units = units;
  // One unit is less than each burst, so nothing is to be noted.
  if (units > 1) {
    for (; i < count; ++i) note(first_bucket_ + i, units, peaks);
  }
  return slowest;
}

void Demand::set_denied(std::size_t curve, std::uint64_t burst, std::uint64_t requests) {
  counted_ = curve;
  burst_ = burst;
  denied_ = requests;
}

std::optional<std::uint64_t> Demand::denied(std::size_t curve, std::uint64_t burst) const {
  return curve == counted_ && burst == burst_ ? std::optional(denied_) : std::nullopt;
}

void Demand::finish() {
  for (std::uint32_t key = 0; key < peaks_.keys(); ++key) {
    const auto peaks = peaks_.of(key);
    for (std::size_t i = 0; i < curves_.size(); ++i) curves_[i].add_key(peaks[i]);
  }
}

namespace {

// Returns the numbers of a limit as keys of a rules file.
std::string limit_fields(const Suggestion& suggestion) {
  const DemandCurve& curve = *suggestion.curve;
  const bool bucket = curve.algorithm == Algorithm::kTokenBucket;
  const std::uint64_t limit = bucket ? curve.rate : suggestion.limit;
  std::string text = "algorithm: " + std::string(to_string(curve.algorithm)) +
                     ", limit: " + std::to_string(limit) +
                     ", per: " + core::format_period(curve.period);
  if (bucket) text += ", burst: " + std::to_string(suggestion.limit);
  if (curve.algorithm == Algorithm::kFixedWindow) text += ", align: clock";
  if (curve.algorithm == Algorithm::kSlidingWindowCounter) text += ", slices: 1";
  return text;
}

}  // namespace

std::uint64_t DemandCurve::over(const Counts& counts, std::uint64_t limit) {
  std::uint64_t sum = 0;
  for (std::size_t code = counts.size(); code-- > 0;) {
    if (counts[code] > 0 && units_of(static_cast<PeakCode>(code)) <= limit) break;
    sum += counts[code];
  }
  return sum;
}

std::uint64_t DemandCurve::smallest(std::uint64_t most) const {
  std::uint64_t denied = 0;
  for (std::size_t code = keys_.size(); code-- > 0;) {
    if (denied + keys_[code] > most) {
      return std::max<std::uint64_t>(1, units_of(static_cast<PeakCode>(code)));
    }
    denied += keys_[code];
  }
  return 1;
}

std::uint64_t share_of(std::uint64_t keys, double share) {
  // 0.7 / 100 is less than 0.007. The tolerance is that of a quotient and a product.
  constexpr double kTolerance = 4 * std::numeric_limits<double>::epsilon();
  return static_cast<std::uint64_t>(static_cast<double>(keys) * share * (1 + kTolerance));
}

std::vector<Suggestion> suggestions(const SuggestReport& report, double harm) {
  const std::uint64_t most = share_of(report.keys, harm);
  std::vector<Suggestion> all;
  all.reserve(report.curves.size());
  for (const DemandCurve& each : report.curves) {
    const std::uint64_t limit = each.smallest(most);
    all.push_back({&each, limit, each.keys_over(limit), each.requests_over(limit)});
  }
  if (report.replayed.empty() || harm != report.options.harm) return all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].requests_denied = report.replayed[i];
    all[i].is_exact = true;
  }
  return all;
}

namespace {

// Adds the conditions of the options to a map.
void add_conditions(const SuggestOptions& options, MatchMap& map) {
  for (const auto& [name, pattern] : options.match) map.add(name, base::json_string(pattern));
  for (const auto& [name, pattern] : options.exclude) map.exclude(name, base::json_string(pattern));
}

}  // namespace

std::string SuggestOptions::unit() const {
  constexpr std::size_t kLongest = 32;
  const auto cost = std::find_if(fields.begin(), fields.end(),
                                 [](const FieldMapping& each) { return each.name == "cost"; });
  if (cost == fields.end()) return "";
  const std::string name = cost->source.substr(cost->source.rfind('.') + 1);
  const bool is_simple =
      !name.empty() && name.size() <= kLongest &&
      std::ranges::all_of(name, [](char c) { return base::is_letter_or("_", c); });
  return is_simple ? name : "units";
}

std::string cost_comment(const SuggestOptions& options) {
  if (options.unit().empty()) return "";
  return "# cost: request: a request takes the number that it gives, in this log the cost of "
         "--field. At a\n# gateway, a trusted proxy sends it in the header X-Sluice-Cost.\n";
}

std::string suggested_rules(const SuggestOptions& options, const std::vector<Suggestion>& all) {
  MatchMap map;
  add_conditions(options, map);
  const std::string match = map.text();
  std::string yaml = (all.empty() ? "" : cost_comment(options)) + "version: 1\nrules:\n";
  const auto add = [&](const std::string& name, const std::string& fields) {
    yaml += "  - name: " + name + "\n    mode: shadow  # denies nothing; delete this to enforce\n";
    if (!match.empty()) yaml += "    match: { " + match + " }\n";
    yaml += "    continue: true\n    limits:\n      - { name: " + name +
            ", key: " + base::json_string(options.key) + ", " + fields + " }\n";
  };
  for (const Suggestion& each : all) {
    add(std::string(to_string(each.curve->algorithm)) + "-per-" +
            core::format_period(each.curve->period),
        limit_fields(each) + (options.unit().empty() ? "" : ", cost: request"));
  }
  if (!all.empty()) return yaml;
  // A request without the key does not count, so no warning says that a client avoids the limit.
  add("any", "algorithm: fixed_window, limit: 1, per: 1s, on_missing: deny");
  std::size_t number = 0;
  for (const auto* const conditions : {&options.match, &options.exclude}) {
    for (const auto& [name, pattern] : *conditions) {
      yaml += "  - name: condition-" + std::to_string(number++) + "\n    match: { " + name + ": " +
              base::json_string(pattern) + " }\n    continue: true\n" +
              "    limits: [ { algorithm: fixed_window, limit: 1, per: 1s } ]\n";
    }
  }
  return yaml;
}

namespace {

// The rates of the advice, per minute. Where requests take many units, all are larger by a power of
// ten.
constexpr std::array<std::uint64_t, 13> kRates = {1,   3,   6,    12,   30,    60,   120,
                                                  300, 600, 1200, 3000, 12000, 60000};

// Returns the curves of a route: the busiest hour, and buckets for these requests.
std::vector<DemandCurve> curves_for(const LogBatch& batch) {
  double units = 0;
  for (const LogLine& line : batch.lines) units += static_cast<double>(line.units);
  units /= static_cast<double>(std::max<std::size_t>(1, batch.lines.size()));
  std::uint64_t scale = 1;
  while (static_cast<double>(scale) * 10 <= units && scale < 10'000) scale *= 10;
  std::vector<DemandCurve> curves;
  curves.emplace_back(Algorithm::kSlidingWindowLog, std::chrono::hours{1});
  for (const std::uint64_t rate : kRates) {
    curves.emplace_back(Algorithm::kTokenBucket, std::chrono::minutes{1}, rate * scale);
  }
  return curves;
}

// Returns the curves of the table of all algorithms.
std::vector<DemandCurve> curves_of(const SuggestOptions& options) {
  std::vector<DemandCurve> curves;
  for (const Duration period : options.periods) {
    curves.emplace_back(Algorithm::kFixedWindow, period);
    curves.emplace_back(Algorithm::kSlidingWindowCounter, period);
  }
  if (options.rate == 0) return curves;
  std::vector<Duration> slowest_first = options.periods;
  std::ranges::sort(slowest_first, std::greater());
  for (const Duration period : slowest_first) {
    curves.emplace_back(Algorithm::kTokenBucket, period, options.rate);
  }
  return curves;
}

// A request that has been measured.
struct MeasuredRequest {
  std::uint64_t at : 56;     // microseconds since 1970
  std::uint64_t routes : 8;  // a bit for each RouteKind
  std::uint32_t client = 0;  // the number of its key
  std::uint32_t units = 0;
};
constexpr std::uint64_t kTimeBits = (std::uint64_t{1} << 56) - 1;
constexpr unsigned bit_of(RouteKind kind) { return 1U << static_cast<unsigned>(kind); }
// Of `routes`: every request; and one that costs more than any limit has.
constexpr unsigned kAnyRoute = 1U << kRoutes;
constexpr unsigned kTooLarge = kAnyRoute << 1;
static_assert(kTooLarge < 1U << 8, "MeasuredRequest::routes has a bit for each");

// Counts the requests that a limit denies, exactly. Only a key that needs more than the limit has
// is ever denied, so it decides the requests of these keys alone.
class Denials {
 public:
  // `routes`: the bits of MeasuredRequest::routes, one of which the requests have. With kTooLarge
  // it denies such requests of all keys; else they cost kMostUnits.
  Denials(const Limit& limit, unsigned routes)
      : limit_(limit), routes_(static_cast<std::uint8_t>(routes)) {}

  void watch(std::uint32_t client) { counters_.try_emplace(client); }
  void add(const MeasuredRequest& request) {
    const unsigned common = request.routes & routes_;
    if (common == 0) return;
    if ((common & kTooLarge) != 0) return static_cast<void>(++denied_);
    const auto found = counters_.find(request.client);
    if (found != counters_.end() && !is_admitted(found->second, request)) ++denied_;
  }
  std::uint64_t denied() const noexcept { return denied_; }
  // Sets the clients that are watched.
  void mark_watched(std::vector<bool>& clients) const {
    for (const auto& [client, counter] : counters_) clients[client] = true;
  }

 private:
  struct Counter {
    core::State state;  // else, for a sliding window counter:
    std::array<std::uint32_t, 2> slices{};
    core::Ticks last = 0;
  };
  bool is_admitted(Counter& counter, const MeasuredRequest& request) const;

  Limit limit_;
  std::uint8_t routes_;
  std::uint64_t denied_ = 0;
  boost::unordered_flat_map<std::uint32_t, Counter> counters_;  // by client
};

bool Denials::is_admitted(Counter& counter, const MeasuredRequest& request) const {
  constexpr core::Forgotten kNever{core::Forgotten::kNever};
  const auto now = static_cast<core::Ticks>(request.at);
  if (core::has_fixed_size(limit_)) {
    const auto step =
        core::step(Verb::kTake, limit_, core::Kept{counter.state, kNever}, now, request.units);
    if (step.change == core::Change::kWrite) counter.state = step.next;
    return step.answer.admitted;
  }
  const core::Slices slices{counter.slices, counter.last, core::SliceGrid(limit_)};
  const auto step = core::step(Verb::kTake, limit_, core::Kept{slices, kNever}, now, request.units);
  if (step.change == core::Change::kWrite) {
    step.next.write(counter.slices);
    counter.last = step.at;
  }
  return step.answer.admitted;
}

// Measures the requests of the logs, in the order of their times.
class Measurement {
 public:
  // `counting`: counts the denials of these. Null: keeps the requests for that.
  Measurement(const RuleSet& rules, const SuggestOptions& options, const RouteChoice& choice,
              std::vector<Denials>* counting)
      : options_(options),
        set_(rules.impl()),
        rule_(set_.compiled[0]),
        is_met_(set_.compiled.size()),
        all_(curves_of(options)),
        counting_(counting),
        choice_(choice),
        finder_(choice),
        last_values_(set_.attributes.names().size()) {}

  void add(const LogBatch& batch, const LogLine& line, Instant at);
  void finish(SuggestReport& report);
  // Returns what is known of the routes after finish(), for another measurement.
  RouteChoice choice() const { return choice_; }
  // After finish():
  // Returns the limits of advice and of suggestions, watching the keys that they deny.
  std::vector<Denials> limits_of(const std::vector<Advice>& advice);
  std::vector<Denials> limits_of(const std::vector<Suggestion>& suggestions) const;
  // Counts the denials by the requests that were kept. Returns false if these are not all.
  bool count(std::vector<Denials>& limits) const;

 private:
  // Requests until the traits of a key are counted for every kSample-th request only.
  static constexpr std::uint32_t kEach = 64;
  static constexpr std::uint32_t kSample = 16;

  void add_to_route(const LogLine& line, RouteKind kind, std::uint32_t client,
                    std::string_view label);
  bool find_key();
  void keep(const LogLine& line, std::uint32_t client, unsigned routes);

  const SuggestOptions& options_;
  const RuleSet::Impl& set_;
  const rules::CompiledRule& rule_;  // finds the keys of requests
  std::vector<bool> is_met_;         // of the other rules: a request matched
  Demand all_;
  void choose_routes(const SuggestReport& report);
  void add_unmet(SuggestReport& report) const;
  void add_unmatched(const LogLine& line);
  static bool is_guessed(const RouteDemand& route);

  std::vector<std::size_t> curves_;  // of all_: those of the report, in its order
  std::vector<Denials>* const counting_;
  std::deque<MeasuredRequest> kept_;
  std::uint64_t measured_ = 0;  // requests; kept_ has the first of them
  RouteChoice choice_;
  RouteFinder finder_;
  GuessFinder guesses_;
  std::vector<std::uint32_t> login_reads_;  // of the paths of logins, by client
  // With options_.match: requests that do not match, by the hash of the key, except for those of
  // paths that match.
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> elsewhere_;
  std::set<std::string, std::less<>> matched_;  // the first paths that match
  // With the key {ip}: IPv6 addresses, by their first 64 bits.
  boost::unordered_flat_map<std::uint64_t, std::uint64_t> networks_;
  std::uint64_t network_keys_ = 0;
  std::array<std::optional<RouteDemand>, kRoutes> routes_;
  std::vector<DemandCurve> of_routes_;  // empty, for a new route
  std::vector<KeyPart> key_from_ = parts_of_key(options_.key);
  LogAttributes attributes_;
  rules::AttributeValues values_;
  // The key of the last request, and the attributes that made it, by their numbers.
  std::string text_, scratch_;
  std::size_t label_at_ = 0;
  std::uint64_t hash_ = 0;
  bool has_key_ = false;
  std::vector<std::optional<std::string>> last_values_;
  Instant clock_ = kFirstInstant;
  std::optional<Instant> first_;
  std::uint64_t unmatched_ = 0, keyless_ = 0;
  std::uint64_t logins_ = 0;  // requests of logins, with options_.match
};

void Measurement::add(const LogBatch& batch, const LogLine& line, Instant at) {
  if (of_routes_.empty()) of_routes_ = curves_for(batch);
  clock_ = at;
  attributes_.show(line, batch.fields(line));
  values_.begin(set_.attributes, attributes_);
  for (std::size_t i = 1; i < is_met_.size(); ++i) {
    if (!is_met_[i]) is_met_[i] = set_.compiled[i].matches(values_);
  }
  if (!rule_.matches(values_)) return add_unmatched(line);
  for (KeyPart& part : key_from_) {
    part.look_for(attributes_);
  }
  if (!find_key()) return static_cast<void>(++keyless_);
  if (!first_) first_ = clock_;
  const std::uint32_t client = all_.add(hash_, line.units, clock_);
  const std::uint32_t requests = all_.requests_of(client);
  RouteKind kind = finder_.find(line);
  const bool is_of_login = kind == RouteKind::kLogin || finder_.is_known_login(line.path);
  if (options_.match.empty()) {
    guesses_.add(client, requests, line, kind);
  } else {
    kind = RouteKind::kPages;  // the only route
    logins_ += is_of_login ? 1 : 0;
    if (matched_.size() < RouteFinder::kMostPaths && !matched_.contains(line.path)) {
      matched_.emplace(line.path);
    }
  }
  const std::string_view readable = std::string_view(text_).substr(label_at_);
  if (requests == 1 && options_.key == "{ip}" && readable.find(':') != readable.npos) {
    const auto address = rules::parse_address(readable);
    if (address && !rules::is_v4(*address)) {
      network_keys_ =
          std::max(network_keys_, ++networks_[static_cast<std::uint64_t>(*address >> 64)]);
    }
  }
  add_to_route(line, kind, client, readable);
  const bool is_api_too = kind == RouteKind::kLogin && finder_.is_in_api();
  if (is_api_too) add_to_route(line, RouteKind::kApi, client, readable);
  keep(line, client, bit_of(kind) | (is_api_too ? bit_of(RouteKind::kApi) : 0));
  if (kind != RouteKind::kLogin && kind != RouteKind::kWrites && is_of_login &&
      options_.match.empty()) {
    if (client >= login_reads_.size()) login_reads_.resize(client + std::size_t{1});
    ++login_reads_[client];
  }
}

void Measurement::add_unmatched(const LogLine& line) {
  ++unmatched_;
  if (options_.match.empty() || matched_.contains(line.path)) return;
  if (find_key()) ++elsewhere_[hash_];
}

// Returns false if the request has no key. Most have that of the last one.
bool Measurement::find_key() {
  const rules::KeyTemplate& key = rule_.limits[0].key;
  bool is_same = has_key_;
  for (std::uint32_t i = 0; i < last_values_.size(); ++i) {
    if (!key.reads(i)) continue;
    const auto& value = values_.get(i);
    if (value == last_values_[i]) continue;
    is_same = false;
    last_values_[i] = value;
  }
  if (is_same) return true;
  text_.clear();
  std::size_t end = 0;
  const auto label = key.fill(values_, text_, end, scratch_);
  has_key_ = label.has_value();
  label_at_ = label.value_or(0);
  hash_ = XXH3_64bits(text_.data(), end);
  return has_key_;
}

void Measurement::keep(const LogLine& line, std::uint32_t client, unsigned routes) {
  const std::uint64_t units = std::min(line.units, kMostUnits);
  const MeasuredRequest request{
      .at = static_cast<std::uint64_t>(clock_.time_since_epoch().count()) & kTimeBits,
      .routes =
          static_cast<std::uint8_t>(routes | kAnyRoute | (units < line.units ? kTooLarge : 0U)),
      .client = client,
      .units = static_cast<std::uint32_t>(units)};
  ++measured_;
  if (counting_ != nullptr) {
    for (Denials& each : *counting_) each.add(request);
  } else if (kept_.size() < options_.most_kept) {
    kept_.push_back(request);
  }
}

void Measurement::add_to_route(const LogLine& line, RouteKind kind, std::uint32_t client,
                               std::string_view label) {
  std::optional<RouteDemand>& route = routes_[static_cast<std::size_t>(kind)];
  if (!route) {
    route.emplace(RouteDemand{{}, kind, {}, Demand(of_routes_), TraitsByKey(), {}, 0, false});
  }
  const std::uint32_t key = route->demand.add(hash_, line.units, clock_);
  if (kind == RouteKind::kLogin || kind == RouteKind::kWrites || !options_.match.empty()) {
    if (RouteFinder::is_write(line) && !GuessFinder::is_missing(line.status)) ++route->writes;
    if (key == route->behaviour.size()) route->behaviour.push_back({client});
    route->behaviour[key].failed += line.status.starts_with('4') ? 1U : 0U;
  }
  const std::uint32_t requests = route->demand.requests_of(key);
  if (requests > kEach && requests % kSample != 0) return;
  const std::uint64_t weight = route->demand.last_need() + requests / kSample;
  if (Traits* const traits = route->traits.add(key, weight, line)) {
    if (traits->label.empty()) traits->label = label.substr(0, FrequentValues::kLongest);
  }
}

void Measurement::finish(SuggestReport& report) {
  all_.finish();
  report.requests = all_.requests();
  report.unmatched = unmatched_;
  report.keyless = keyless_;
  report.keys = all_.keys();
  report.network_keys = network_keys_;
  report.key_bytes = all_.bytes() + guesses_.bytes() +
                     elsewhere_.size() * (sizeof(std::uint64_t) + 4) +
                     networks_.size() * 2 * sizeof(std::uint64_t);
  add_unmet(report);
  report.first = first_;
  if (first_) report.last = clock_;
  for (const Duration period : options_.periods) {
    for (std::size_t i = 0; i < all_.curves().size(); ++i) {
      if (all_.curves()[i].period != period) continue;
      report.curves.push_back(all_.curves()[i]);
      curves_.push_back(i);
    }
  }
  constexpr std::array<const char*, kRoutes> kRouteNames = {"login", "api", "writes", "static",
                                                            "pages"};
  for (std::optional<RouteDemand>& route : routes_) {
    if (!route) continue;
    route->demand.finish();
    report.key_bytes += route->demand.bytes() + route->behaviour.size() * sizeof(Behaviour);
    for (std::uint32_t key = 0; key < route->behaviour.size(); ++key) {
      Behaviour& each = route->behaviour[key];
      const std::uint32_t reads = each.client < login_reads_.size() ? login_reads_[each.client] : 0;
      each.elsewhere = all_.requests_of(each.client) - route->demand.requests_of(key) - reads;
      const auto unmatched = elsewhere_.find(all_.hash_of(each.client));
      if (unmatched != elsewhere_.end()) each.elsewhere += unmatched->second;
    }
    route->is_alone = route->kind == RouteKind::kWrites || matched_.size() == 1;
    const bool is_login =
        logins_ * 2 > all_.requests() || (matched_.size() == 1 && is_guessed(*route));
    if (is_login) route->kind = RouteKind::kLogin;
    route->name = kRouteNames[static_cast<std::size_t>(route->kind)];
    const bool is_one = !finder_.has_paths() || !options_.match.empty();
    if (is_one && !is_login) route->name = "requests";
    report.routes.push_back(*std::move(route));
  }
  choose_routes(report);
  for (RouteDemand& route : report.routes) {
    MatchMap map = options_.match.empty() ? finder_.match(route.kind) : MatchMap{};
    add_conditions(options_, map);
    route.match = map.text();
    if (route.name == "requests" && !options_.unit().empty()) route.name = options_.unit();
  }
}

void Measurement::add_unmet(SuggestReport& report) const {
  if (report.requests + report.unmatched + report.keyless == 0) return;
  if (const KeyPart* const part = lacking_part(key_from_)) {
    report.key_source = report.expected_source(part->names[0]);
    if (report.requests > 0) {
      report.unmet.push_back(lack_text(*part, report.requests, false) + report.key_source);
    }
  }
  std::string sources;
  std::size_t costs = 0;
  for (const FieldMapping& field : options_.fields) {
    if (field.name == "cost") sources += (costs++ == 0 ? "" : ", ") + field.source;
  }
  if (costs > 1) {
    report.unmet.push_back("--field cost has several sources, " + sources +
                           ": the first in a line that has a value counts, not their sum; expected "
                           "one source, such as a column with the sum");
  }
  std::size_t rule = 1;
  for (const auto* const conditions : {&options_.match, &options_.exclude}) {
    for (const auto& [name, pattern] : *conditions) {
      if (is_met_[rule++]) continue;
      std::string option = conditions == &options_.match ? "--match " : "--exclude ";
      option.append(name).append("=");
      std::string text = option + pattern + " matches no request";
      const bool is_part = pattern.find_first_of("*~/:") == pattern.npos &&
                           (name.starts_with("header.") || name == "host");
      if (is_part) {
        text.append("; a pattern matches the whole value: did you mean '").append(option);
        text.append("*").append(pattern).append("*'?");
      }
      report.unmet.push_back(std::move(text));
    }
  }
}

// Whether clients guess in the only route, as GuessFinder says of a path.
bool Measurement::is_guessed(const RouteDemand& route) {
  std::uint64_t clients = 0, requests = 0;
  for (std::uint32_t key = 0; key < route.behaviour.size(); ++key) {
    const std::uint64_t writes = route.demand.requests_of(key);
    const Behaviour& each = route.behaviour[key];
    if (!GuessFinder::guesses(writes, each.failed, each.elsewhere)) continue;
    ++clients;
    requests += writes;
  }
  return clients >= GuessFinder::kClients && requests * 2 > route.demand.requests() &&
         route.writes * 2 > route.demand.requests();
}

// Routes that are too small for a rule belong to others. Paths where clients guess are logins.
void Measurement::choose_routes(const SuggestReport& report) {
  RouteChoice next = choice_;
  const auto left_out = [&](RouteKind kind) -> bool& {
    return next.left_out[static_cast<std::size_t>(kind)];
  };
  bool has_logins = false;
  for (const RouteDemand& route : report.routes) {
    const bool has_rule = has_advice(report, route);
    if (route.kind == RouteKind::kLogin) has_logins = has_rule;
    if (route.kind != RouteKind::kPages && !has_rule) left_out(route.kind) = true;
  }
  if (has_logins) left_out(RouteKind::kWrites) = false;
  for (std::size_t i = 0; i < kRoutes; ++i) {
    if (next.left_out[i]) finder_.leave_out(static_cast<RouteKind>(i));
  }
  const bool is_first = choice_ == RouteChoice{};
  choice_ = std::move(next);
  if (!is_first) return;
  auto guessed = guesses_.paths();
  if (!guessed.empty()) choice_ = {std::move(guessed), {}};
}

// Returns a limit of this curve; of a token bucket this is the burst.
Expected<Limit> limit_of(const DemandCurve& curve, std::uint64_t limit) {
  LimitSpec spec{.algorithm = curve.algorithm, .limit = limit, .per = curve.period};
  if (curve.algorithm == Algorithm::kTokenBucket) spec.limit = curve.rate, spec.burst = limit;
  if (curve.algorithm == Algorithm::kFixedWindow) spec.align = Align::kClock;
  if (curve.algorithm == Algorithm::kSlidingWindowCounter) spec.slices = 1;
  return Limit::make(spec);
}

bool can_be_read_again(const SuggestOptions& options) {
  return std::all_of(options.logs.begin(), options.logs.end(), [](const std::string& log) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(log, ignored);
  });
}

std::vector<Denials> Measurement::limits_of(const std::vector<Advice>& advice) {
  std::vector<Denials> limits;
  for (const Advice& each : advice) {
    const RouteKind kind = options_.match.empty() ? each.route->kind : RouteKind::kPages;
    Denials& limit = limits.emplace_back(*limit_of(*each.curve, each.burst), bit_of(kind));
    const Demand& demand = each.route->demand;
    for (std::uint32_t key = 0; key < demand.keys(); ++key) {
      if (demand.peak_of(key, each.bucket()) <= each.burst) continue;
      limit.watch(all_.number_of(demand.hash_of(key)));
    }
  }
  return limits;
}

std::vector<Denials> Measurement::limits_of(const std::vector<Suggestion>& suggestions) const {
  std::vector<Denials> limits;
  for (std::size_t i = 0; i < suggestions.size(); ++i) {
    const auto made = limit_of(*suggestions[i].curve, suggestions[i].limit);
    if (!made) return {};
    Denials& limit = limits.emplace_back(*made, kAnyRoute | kTooLarge);
    for (std::uint32_t key = 0; key < all_.keys(); ++key) {
      if (all_.peak_of(key, curves_[i]) > suggestions[i].limit) limit.watch(key);
    }
  }
  return limits;
}

bool Measurement::count(std::vector<Denials>& limits) const {
  if (kept_.size() < measured_) return false;
  std::vector<bool> is_watched(all_.keys());
  for (const Denials& each : limits) each.mark_watched(is_watched);
  for (const MeasuredRequest& request : kept_) {
    if (!is_watched[request.client] && (request.routes & kTooLarge) == 0) continue;
    for (Denials& each : limits) each.add(request);
  }
  return true;
}

// Reads the logs once.
std::unique_ptr<Measurement> measure(const RuleSet& rules, const SuggestOptions& options,
                                     const RouteChoice& choice, SuggestReport& report,
                                     std::vector<Denials>* counting = nullptr) {
  report = {};
  report.options = options;
  auto measurement = std::make_unique<Measurement>(rules, options, choice, counting);
  read_logs(options, report, [&](const LogBatch& batch, std::size_t i, Instant at) {
    measurement->add(batch, batch.lines[i], at);
  });
  measurement->finish(report);
  return measurement;
}

// Returns the limits of the suggestions for the share of the options. Nothing if a replay of all of
// them would need too many counters.
std::vector<Denials> suggested_limits(const Measurement& measurement, const SuggestReport& report) {
  const std::vector<Suggestion> all = suggestions(report, report.options.harm);
  if (all.empty() || report.requests == 0) return {};
  if (report.keys > ReplayOptions{}.max_keys / all.size()) return {};
  return measurement.limits_of(all);
}

// Counts what the limits of the advice and the suggestions for the share of the options deny.
// `count_again` reads the logs for that.
void count_denials(Measurement& measurement, SuggestReport& report,
                   const std::function<void(std::vector<Denials>&)>& count_again) {
  std::vector<Advice> advice = advise(report, report.options.harm);
  std::erase_if(advice, [](const Advice& each) {
    return each.keys_denied == 0 || !limit_of(*each.curve, each.burst);
  });
  std::vector<Denials> limits = measurement.limits_of(advice);
  if (report.options.counts_suggestions) {
    std::vector<Denials> more = suggested_limits(measurement, report);
    std::move(more.begin(), more.end(), std::back_inserter(limits));
  }
  if (!limits.empty() && !measurement.count(limits)) count_again(limits);
  for (std::size_t i = 0; i < advice.size(); ++i) {
    const auto route =
        std::find_if(report.routes.begin(), report.routes.end(),
                     [&](const RouteDemand& each) { return &each == advice[i].route; });
    route->demand.set_denied(advice[i].bucket(), advice[i].burst, limits[i].denied());
  }
  for (std::size_t i = advice.size(); i < limits.size(); ++i) {
    report.replayed.push_back(limits[i].denied());
  }
}

}  // namespace

SuggestReport suggest(const RuleSet& rules, const SuggestOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  SuggestReport report;
  RouteChoice choice;
  auto measurement = measure(rules, options, choice, report);
  RouteChoice next = measurement->choice();
  SuggestOptions again = options;
  again.complain = [](std::string_view) {};  // of lines for the second time
  // Paths where clients guess, then routes that are too small for a rule.
  constexpr int kMostReads = 3;
  const bool can_read = can_be_read_again(options);
  for (int read = 1; can_read && read < kMostReads && next != choice; ++read) {
    choice = next;
    measurement = measure(rules, again, choice, report);
    next = measurement->choice();
  }
  if (can_read) {
    count_denials(*measurement, report, [&](std::vector<Denials>& limits) {
      SuggestReport same;
      measure(rules, again, choice, same, &limits);
    });
  }
  if (!can_read && next != choice && options.complain) {
    options.complain(
        (next.logins.empty()
             ? "a route is too small for a rule, and the rules of others match its "
               "requests, which their numbers leave out"
             : "clients guess at " + next.logins[0] + ", which is in the route `writes`") +
        std::string(": standard input cannot be read twice; name a file"));
  }
  const auto elapsed = std::chrono::steady_clock::now() - start;
  report.elapsed = std::chrono::round<std::chrono::milliseconds>(elapsed);
  return report;
}

}  // namespace sluice::replay

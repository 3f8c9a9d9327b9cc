#define XXH_INLINE_ALL
#include "replay/suggest.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/json_writer.h"
#include "core/period.h"
#include "replay/log_attributes.h"
#include "replay/text.h"
#include "rules/rule_set.h"

namespace sluice::replay {
namespace {

constexpr std::uint64_t kExact = 4096;
constexpr std::uint64_t kMantissas = 2048;

}  // namespace

PeakCode peak_code(std::uint64_t units) noexcept {
  units = std::min(units, kMostUnits);
  if (units <= kExact) return static_cast<PeakCode>(units);
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
  return index_[place];
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

}  // namespace

Need Demand::add(std::uint32_t key, std::uint64_t units, Instant at) {
  const auto now = static_cast<std::uint64_t>(at.time_since_epoch().count());
  if (const std::uint64_t window = now / period_; window != window_) advance(window);
  std::uint32_t& used = current_[key];
  used = static_cast<std::uint32_t>(std::min<std::uint64_t>(used + units, kMostUnits));
  std::uint64_t sliding = used;
  if (const auto before = previous_.find(key); before != previous_.end()) {
    // The share of the previous window that is still inside the sliding one, rounded up.
    const Wide inside = Wide{before->second} * (period_ - now % period_);
    sliding += static_cast<std::uint64_t>((inside + period_ - 1) / period_);
  }
  return {used, sliding, fill_bucket(key, units, now)};
}

void Demand::advance(std::uint64_t window) {
  if (window == window_ + 1) {
    std::swap(previous_, current_);
  } else {
    previous_.clear();
  }
  current_.clear();
  window_ = window;
}

// Returns the burst that the request needs.
std::uint64_t Demand::fill_bucket(std::uint32_t key, std::uint64_t units, std::uint64_t at) {
  if (!std::exchange(began_, true)) first_ = at;
  const std::uint64_t drained = (at - first_) * rate_;
  if (levels_.size() >= most_levels_) drop_full_buckets(drained);
  std::uint64_t& level = levels_[key];
  constexpr Wide kMost = Wide{1} << 62;  // what has drained is below 2^63
  const std::uint64_t before = std::max(level, drained) - drained;
  const Wide after = std::min(before + Wide{std::min(units, kMostUnits)} * period_, kMost);
  level = drained + static_cast<std::uint64_t>(after);
  return static_cast<std::uint64_t>((after + period_ - 1) / period_);
}

void Demand::drop_full_buckets(std::uint64_t drained) {
  boost::unordered::erase_if(levels_,
                             [drained](const auto& bucket) { return bucket.second <= drained; });
  most_levels_ = std::max<std::size_t>(1024, levels_.size() + levels_.size() / 2);
}

namespace {

// Returns the numbers of a limit as keys of a rules file.
std::string limit_fields(const Suggestion& suggestion, std::uint32_t rate) {
  const Algorithm algorithm = suggestion.curve->algorithm;
  const bool bucket = algorithm == Algorithm::kTokenBucket;
  const std::uint64_t limit = bucket ? rate : suggestion.limit;
  std::string text = "algorithm: " + std::string(to_string(algorithm)) +
                     ", limit: " + std::to_string(limit) +
                     ", per: " + core::format_period(suggestion.curve->period);
  if (bucket) text += ", burst: " + std::to_string(suggestion.limit);
  if (algorithm == Algorithm::kFixedWindow) text += ", align: clock";
  if (algorithm == Algorithm::kSlidingWindowCounter) text += ", slices: 1";
  return text;
}

}  // namespace

std::uint64_t DemandCurve::over(const std::vector<std::uint64_t>& counts, std::uint64_t limit) {
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

std::vector<Suggestion> suggestions(const SuggestReport& report, double harm) {
  const auto most = static_cast<std::uint64_t>(std::floor(static_cast<double>(report.keys) * harm));
  std::vector<Suggestion> all;
  all.reserve(report.curves.size());
  for (const DemandCurve& each : report.curves) {
    const std::uint64_t limit = each.smallest(most);
    all.push_back({&each, limit, each.keys_over(limit), each.requests_over(limit)});
  }
  return all;
}

std::string suggested_rules(const SuggestOptions& options, const std::vector<Suggestion>& all) {
  std::string match;
  for (const auto& [name, pattern] : options.match) {
    match +=
        (match.empty() ? "" : ", ") + base::json_string(name) + ": " + base::json_string(pattern);
  }
  std::string yaml = "version: 1\nrules:\n";
  const auto add = [&](const std::string& name, const std::string& fields) {
    yaml += "  - name: " + name + "\n    mode: shadow  # denies nothing; delete this to enforce\n";
    if (!match.empty()) yaml += "    match: { " + match + " }\n";
    yaml += "    continue: true\n    limits:\n      - { name: " + name +
            ", key: " + base::json_string(options.key) + ", " + fields + " }\n";
  };
  for (const Suggestion& each : all) {
    add(std::string(to_string(each.curve->algorithm)) + "-" +
            core::format_period(each.curve->period),
        limit_fields(each, options.rate));
  }
  if (all.empty()) add("any", "algorithm: fixed_window, limit: 1, per: 1s");
  return yaml;
}

SuggestReport suggest(const RuleSet& rules, const SuggestOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const RuleSet::Impl& set = rules::Access::impl(rules);
  const rules::CompiledRule& rule = set.compiled[0];  // finds the keys of requests
  SuggestReport report;
  std::vector<Demand> demands;
  for (const Duration period : options.periods) {
    demands.emplace_back(period, options.rate);
    for (const Algorithm algorithm : kMeasures) report.curves.emplace_back(algorithm, period);
  }
  Peaks peaks(report.curves.size());
  LogAttributes attributes;
  rules::AttributeValues values;
  std::string text, scratch;
  Instant clock = kFirstInstant;
  const auto add = [&](const LogBatch& batch, const LogLine& line) {
    clock = std::max(clock, line.at);
    attributes.show(line, batch.fields(line));
    values.begin(set.attributes, attributes);
    text.clear();
    std::size_t end = 0;
    if (!rule.matches(values)) return static_cast<void>(++report.unmatched);
    if (!rule.limits[0].key.fill(values, text, end, scratch)) {
      return static_cast<void>(++report.keyless);
    }
    ++report.requests;
    if (!report.first) report.first = clock;
    report.last = clock;
    const std::uint32_t key = peaks.number_of(XXH3_64bits(text.data(), end));
    const auto of_key = peaks.of(key);
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const Need need = demands[i].add(key, line.units, clock);
      for (std::size_t measure = 0; measure < need.size(); ++measure) {
        const std::size_t curve = i * need.size() + measure;
        const PeakCode code = peak_code(need[measure]);
        of_key[curve] = std::max(of_key[curve], code);
        report.curves[curve].add_request(code);
      }
    }
  };
  read_logs(options, report, [&](const LogBatch& batch) {
    for (const LogLine& line : batch.lines) add(batch, line);
  });
  for (std::uint32_t key = 0; key < peaks.keys(); ++key) {
    const auto of_key = peaks.of(key);
    for (std::size_t i = 0; i < of_key.size(); ++i) report.curves[i].add_key(of_key[i]);
  }
  report.options = options;
  report.keys = peaks.keys();
  report.key_bytes = peaks.bytes();
  const auto elapsed = std::chrono::steady_clock::now() - start;
  report.elapsed = std::chrono::round<std::chrono::milliseconds>(elapsed);
  return report;
}

}  // namespace sluice::replay

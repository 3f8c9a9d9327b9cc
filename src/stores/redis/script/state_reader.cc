#include "stores/redis/script/state_reader.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "base/civil_time.h"
#include "core/period.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {
namespace {

std::string time_text(Instant at) { return base::to_rfc3339(at, 6); }

constexpr std::size_t kMostDetails = 100;

std::string count_of(std::uint64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string duration_text(std::uint64_t ticks) {
  return core::format_period(Duration{static_cast<std::int64_t>(ticks)});
}

Instant instant_of(std::uint64_t ticks) {
  return Instant{Duration{static_cast<std::int64_t>(ticks)}};
}

// Returns false if `changed` is after the last instant of a state.
bool set_times(CounterState& state, std::uint64_t changed, std::uint64_t forgotten) {
  state.changed = instant_of(changed);
  if (forgotten < format::kNeverForgotten) {
    state.forgotten_from = instant_of(forgotten * format::kForgottenUnit);
  }
  return state.changed <= kLastInstant;
}

void add_detail(CounterState& state, std::size_t index, std::size_t count, std::string text) {
  if (index < kMostDetails) state.details.push_back(std::move(text));
  if (index == kMostDetails) {
    state.details.push_back("and " + std::to_string(count - kMostDetails) + " more");
  }
}

// --- a reader for each layout ---

using FixedState = format::FixedState;

std::optional<FixedState> read_fixed_state(std::string_view value, CounterState& state) {
  if (value.size() != format::kFixedState.size()) return std::nullopt;
  const FixedState fixed = format::kFixedState.read(value);
  if (!set_times(state, fixed.changed, fixed.forgotten)) return std::nullopt;
  return fixed.aux < format::kEndOfSpans ? std::optional(fixed) : std::nullopt;
}

std::optional<CounterState> read_bucket(std::string_view value) {
  CounterState state;
  const std::optional<FixedState> bucket = read_fixed_state(value, state);
  if (!bucket) return std::nullopt;
  const bool by_interval = (bucket->checksum & 1) != 0;
  state.summary = count_of(bucket->units, "unit") + " spent";
  if (by_interval) {
    if (bucket->units > 0) {
      state.details.push_back(duration_text(bucket->aux) + " since the last refill");
    }
  } else if (bucket->aux > 0) {
    state.summary += " and a part of one";
  }
  return state;
}

std::optional<CounterState> read_window(std::string_view value) {
  CounterState state;
  const std::optional<FixedState> window = read_fixed_state(value, state);
  if (!window) return std::nullopt;
  state.summary = count_of(window->units, "unit") + " used";
  if (window->units > 0 && window->aux <= window->changed) {
    state.summary += " in the window since " + time_text(instant_of(window->changed - window->aux));
  }
  return state;
}

std::optional<CounterState> read_slices(std::string_view value) {
  constexpr std::size_t kHead = format::kSlicesHead.size();
  constexpr std::size_t kCount = format::kSliceCount.size();
  if (value.size() < kHead || (value.size() - kHead) % kCount != 0) return std::nullopt;
  const format::SlicesHead head = format::kSlicesHead.take(value);
  const std::size_t held = value.size() / kCount;
  CounterState state;
  const bool is_ours = head.slices >= 1 && head.slices <= kMaxSlices &&
                       head.period >= static_cast<std::uint64_t>(kMinPeriod.count()) &&
                       head.period < format::kEndOfSpans && held <= head.slices + 1;
  if (!set_times(state, head.changed, head.forgotten) || !is_ours) return std::nullopt;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < held; ++i) {
    const std::uint64_t units = format::kSliceCount.take(value).value;
    sum += units;
    const std::string age = i == 0 ? "newest slice" : count_of(i, "slice") + " before";
    add_detail(state, i, held, age + ": " + count_of(units, "unit"));
  }
  state.summary = count_of(sum, "unit") + " in the " + count_of(head.slices, "slice") + " of " +
                  duration_text(head.period) + ", and the one before them";
  return state;
}

// The parts of a log's value, whose layout format::LogHead describes.
class LogParts {
 public:
  explicit LogParts(std::string_view value) : value_(value), head_(format::kLogHead.read(value)) {}

  const format::LogHead& head() const noexcept { return head_; }
  bool fit() const noexcept {
    return head_.summaries <= head_.space && head_.blocks <= 1 &&
           head_.back <= format::kBlockEntries * head_.blocks && head_.back <= head_.count &&
           head_.count - head_.back <= head_.room && head_.head <= head_.room &&
           value_.size() == ring() + head_.room * kEntry;
  }
  // Returns entry i. Entry 0 is the oldest.
  format::LogEntry entry(std::uint64_t i) const noexcept {
    const std::uint64_t in_ring = head_.count - head_.back;
    const std::size_t at = i < in_ring ? ring() + (head_.head + i) % head_.room * kEntry
                                       : format::kLogHead.size() + (i - in_ring) * kEntry;
    return format::kLogEntry.read(value_.substr(at));
  }
  format::Summary summary(std::uint64_t i) const noexcept {
    return format::kSummary.read(value_.substr(summaries() + i * format::kSummary.size()));
  }
  // Returns an instant by its low bits. No instant of a log is a modulus or more before the last
  // change.
  Instant instant(std::uint64_t low) const {
    return instant_of(head_.changed - (head_.changed - low) % format::kInstantModulus);
  }
  static std::uint64_t difference(std::uint64_t after, std::uint64_t before) noexcept {
    return (after - before) % format::kSumModulus;
  }

 private:
  static constexpr std::size_t kEntry = format::kLogEntry.size();

  std::size_t summaries() const noexcept {
    return format::kLogHead.size() + head_.blocks * format::kBlocksSize;
  }
  std::size_t ring() const noexcept { return summaries() + head_.space * format::kSummary.size(); }

  std::string_view value_;
  format::LogHead head_;
};

std::uint64_t read_summaries(const LogParts& log, CounterState& state) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < log.head().summaries; ++i) {
    const format::Summary summary = log.summary(i);
    sum += summary.units;
    add_detail(state, i, log.head().summaries,
               time_text(log.instant(summary.first)) + " to " +
                   time_text(log.instant(summary.last)) + ": " + count_of(summary.units, "unit"));
  }
  return sum;
}

void read_entries(const LogParts& log, CounterState& state) {
  std::uint64_t before = log.head().before;
  for (std::size_t i = 0; i < log.head().count; ++i) {
    const format::LogEntry entry = log.entry(i);
    const std::uint64_t units = LogParts::difference(entry.sum, before);
    before = entry.sum;
    add_detail(state, i, log.head().count,
               time_text(log.instant(entry.instant)) + ": " + count_of(units, "unit"));
  }
}

std::optional<CounterState> read_log(std::string_view value) {
  if (value.size() < format::kLogHead.size()) return std::nullopt;
  const LogParts log(value);
  const format::LogHead& head = log.head();
  CounterState state;
  if (!set_times(state, head.changed, head.forgotten) || !log.fit()) return std::nullopt;
  const std::uint64_t older = read_summaries(log, state);
  read_entries(log, state);
  const std::uint64_t units = LogParts::difference(head.after, head.before) + older;
  state.summary = count_of(units, "unit") + " in " + std::to_string(head.count) +
                  (head.count == 1 ? " entry" : " entries");
  if (head.summaries > 0) {
    state.summary += " and " + std::to_string(head.summaries) + " older " +
                     (head.summaries == 1 ? "slice" : "slices");
  }
  return state;
}

std::optional<CounterState> read_permits(std::string_view value) {
  constexpr std::size_t kHead = format::kPermitsHead.size();
  if (value.size() < kHead || (value.size() - kHead) % format::kPermitSize != 0)
    return std::nullopt;
  const format::PermitsHead head = format::kPermitsHead.take(value);
  CounterState state;
  if (!set_times(state, head.changed, format::kNeverForgotten)) return std::nullopt;
  const std::size_t count = value.size() / format::kPermitSize;
  state.forgotten_from = instant_of(std::max(head.last_end, head.changed));
  for (std::size_t i = 0; i < count; ++i) {
    const format::Permit permit = format::kPermit.take(value);
    value.remove_prefix(format::kPermitIdSize);
    add_detail(state, i, count,
               count_of(permit.units, "unit") + " until " + time_text(instant_of(permit.end)));
  }
  state.summary = count_of(head.units, "unit") + " in " + count_of(count, "permit");
  return state;
}

std::optional<std::string> decoded_tag(std::string_view text) {
  std::string tag;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      tag += text[i];
    } else if (text.substr(i, 3) == "%25") {
      tag += '%';
      i += 2;
    } else if (text.substr(i, 3) == "%7D") {
      tag += '}';
      i += 2;
    } else {
      return std::nullopt;
    }
  }
  return tag;
}

std::optional<Algorithm> algorithm_of(char letter) {
  for (const AlgorithmInfo& row : kAlgorithms) {
    if (row.letter == letter) return row.algorithm;
  }
  return std::nullopt;
}

std::uint64_t kind_number(StateKind kind) {
  switch (kind) {
    case StateKind::kBucket: return format::kBucketKind;
    case StateKind::kWindow: return format::kFixedWindowKind;
    case StateKind::kLog: return format::kLogKind;
    case StateKind::kSlices: return format::kSlicesKind;
    case StateKind::kLogAndSummaries: return format::kHybridKind;
    case StateKind::kPermits: return format::kPermitsKind;
  }
  return 0;
}

}  // namespace

Keyspace take_keyspace(std::string_view& redis_key) noexcept {
  if (!redis_key.starts_with(format::kOfRules)) return Keyspace::kCallers;
  redis_key.remove_prefix(1);
  return Keyspace::kRules;
}

std::optional<CounterName> read_counter_name(std::string_view redis_key) {
  const Keyspace keyspace = take_keyspace(redis_key);
  if (redis_key.size() < 3 || redis_key[1] != '{') return std::nullopt;
  const std::optional<Algorithm> algorithm = algorithm_of(redis_key[0]);
  const std::size_t end = redis_key.find('}');
  if (!algorithm || end == redis_key.npos) return std::nullopt;
  std::optional<std::string> tag = decoded_tag(redis_key.substr(2, end - 2));
  if (!tag) return std::nullopt;
  return CounterName{*algorithm, std::move(*tag), std::string(redis_key.substr(end + 1)), keyspace};
}

std::optional<CounterState> read_counter_state(Algorithm algorithm, std::string_view value) {
  const StateKind kind = info(algorithm).state;
  if (value.size() < format::kKind.size()) return std::nullopt;
  if (format::kKind.read(value).value != kind_number(kind)) return std::nullopt;
  switch (kind) {
    case StateKind::kBucket: return read_bucket(value);
    case StateKind::kWindow: return read_window(value);
    case StateKind::kSlices: return read_slices(value);
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return read_log(value);
    case StateKind::kPermits: return read_permits(value);
  }
  return std::nullopt;
}

std::optional<CounterName> read_block_name(std::string_view redis_key) {
  if (!redis_key.starts_with(format::kOfBlocks)) return std::nullopt;
  redis_key.remove_prefix(1);
  if (redis_key.starts_with('{')) {  // the number that is in the counter's slot
    const std::size_t end = redis_key.find('}');
    if (end == redis_key.npos) return std::nullopt;
    redis_key.remove_prefix(end + 1);
  }
  return read_counter_name(redis_key);
}

std::optional<CounterState> read_block_state(std::string_view value) {
  if (value.size() < format::kKeyBlockHead.size()) return std::nullopt;
  const format::KeyBlockHead head = format::kKeyBlockHead.take(value);
  if (head.kind != format::kKeyBlockKind || value.size() % format::kInstant.size() != 0) {
    return std::nullopt;
  }
  CounterState state;
  if (!set_times(state, head.changed, format::kNeverForgotten)) return std::nullopt;
  state.forgotten_from = instant_of(head.forgotten);
  const std::size_t denials = value.size() / format::kInstant.size();
  for (std::size_t i = 0; i < denials; ++i) {
    add_detail(state, i, denials,
               time_text(instant_of(format::kInstant.take(value).value)) + ": a denial");
  }
  state.summary = count_of(denials, "denial");
  if (head.end > 0) state.summary = "blocked until " + time_text(instant_of(head.end));
  if (head.end > 0 && denials > 0)
    state.summary += ", and " + count_of(denials, "denial") + " since";
  return state;
}

std::optional<Instant> read_block_end(std::string_view value) {
  if (value.size() < format::kKeyBlockHead.size()) return std::nullopt;
  const format::KeyBlockHead head = format::kKeyBlockHead.take(value);
  if (head.kind != format::kKeyBlockKind || head.end == 0) return std::nullopt;
  return instant_of(head.end);
}

}  // namespace sluice::redis

#include "stores/redis/script/state_reader.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "base/civil_time.h"
#include "core/period.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"

namespace sluice::redis {
namespace {

constexpr std::size_t kMostDetails = 100;

std::string count_of(std::uint64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

using core::Ticks;

Instant instant_of(Ticks ticks) { return Instant{Duration{ticks}}; }
std::string time_of(Ticks ticks) { return base::to_rfc3339(instant_of(ticks), 6); }

CounterState state_at(Ticks changed, core::Forgotten forgotten) {
  CounterState state{};
  state.changed = instant_of(changed);
  if (forgotten.multiple() < format::kNeverForgotten) {
    state.forgotten_from = instant_of(forgotten.from());
  }
  return state;
}

void add_detail(CounterState& state, std::size_t index, std::size_t count, std::string text) {
  if (index < kMostDetails) state.details.push_back(std::move(text));
  if (index == kMostDetails) {
    state.details.push_back("and " + std::to_string(count - kMostDetails) + " more");
  }
}

// --- a reader for each layout ---

std::optional<CounterState> show_bucket(std::string_view value) {
  const auto bucket = read_state(StateKind::kBucket, value);
  if (!bucket) return std::nullopt;
  CounterState state = state_at(bucket->state.last, bucket->forgotten);
  const bool by_interval = (bucket->state.tag & 1) != 0;
  state.summary = count_of(bucket->state.units, "unit") + " spent";
  if (!by_interval && bucket->state.aux > 0) state.summary += " and a part of one";
  if (by_interval && bucket->state.units > 0) {
    const auto since = static_cast<Ticks>(bucket->state.aux);
    state.details.push_back(core::format_period(Duration{since}) + " since the last refill");
  }
  return state;
}

std::optional<CounterState> show_window(std::string_view value) {
  const auto window = read_state(StateKind::kWindow, value);
  if (!window) return std::nullopt;
  CounterState state = state_at(window->state.last, window->forgotten);
  state.summary = count_of(window->state.units, "unit") + " used";
  const auto open = window->state.last - static_cast<Ticks>(window->state.aux);
  if (window->state.units > 0 && open >= 0) {
    state.summary += " in the window since " + time_of(open);
  }
  return state;
}

std::optional<CounterState> show_slices(std::string_view value) {
  std::vector<std::uint32_t> counts;
  const auto slices = read_slices(value, counts);
  if (!slices) return std::nullopt;
  CounterState state = state_at(slices->state.last, slices->forgotten);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i];
    const std::string age = i == 0 ? "newest slice" : count_of(i, "slice") + " before";
    add_detail(state, i, counts.size(), age + ": " + count_of(counts[i], "unit"));
  }
  const core::SliceGrid& grid = slices->state.grid;
  state.summary = count_of(sum, "unit") + " in the " + count_of(grid.slices, "slice") + " of " +
                  core::format_period(Duration{grid.period}) + ", and the one before them";
  return state;
}

std::optional<CounterState> show_log(StateKind kind, std::string_view value) {
  const auto log = LogValue::open(kind, value);
  if (!log) return std::nullopt;
  CounterState state = state_at(log->last(), log->forgotten());
  const std::size_t summaries = log->head().summaries;
  std::uint64_t units = log->after() - log->before();
  for (std::size_t i = 0; i < summaries; ++i) {
    const core::Summary summary = log->summary(i);
    units += summary.units;
    add_detail(state, i, summaries,
               time_of(summary.first) + " to " + time_of(summary.last) + ": " +
                   count_of(summary.units, "unit"));
  }
  std::uint32_t before = log->before();
  for (std::size_t i = 0; i < log->count(); ++i) {
    const LogValue::Entry entry = log->entry(i);
    add_detail(state, i, log->count(),
               time_of(entry.at) + ": " + count_of(entry.sum - before, "unit"));
    before = entry.sum;
  }
  state.summary = count_of(units, "unit") + " in " + std::to_string(log->count()) +
                  (log->count() == 1 ? " entry" : " entries");
  if (summaries > 0) {
    state.summary +=
        " and " + std::to_string(summaries) + " older " + (summaries == 1 ? "slice" : "slices");
  }
  return state;
}

std::optional<CounterState> show_permits(std::string_view value) {
  std::vector<std::uint64_t> memory;
  core::PermitBuffer* const stored = read_permits(value, memory);
  if (value.empty() || stored == nullptr) return std::nullopt;
  const core::Permits permits = stored->view();
  CounterState state = state_at(permits.last, core::Forgotten());
  state.forgotten_from = instant_of(std::max(permits.last_end, permits.last));
  const std::size_t count = permits.entries.size();
  for (std::size_t i = 0; i < count; ++i) {
    const core::PermitEntry& permit = permits.entries[i];
    add_detail(state, i, count, count_of(permit.units, "unit") + " until " + time_of(permit.end));
  }
  state.summary = count_of(permits.units, "unit") + " in " + count_of(count, "permit");
  return state;
}

// The value is the head of the hash.
std::optional<CounterState> show_budget(std::string_view value) {
  const auto head = read_budget_head(value);
  if (!head) return std::nullopt;
  CounterState state = state_at(static_cast<Ticks>(head->changed),
                                core::Forgotten(static_cast<std::uint32_t>(head->forgotten)));
  state.summary = count_of(head->spent, "unit") + " spent";
  if (head->open > 0) {
    state.summary += ", " + std::to_string(head->held) + " held by " + count_of(head->open, "hold");
  }
  const std::uint64_t ended = head->past + head->ended;
  if (ended > 0) state.summary += ", " + count_of(ended, "settled call");
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
  switch (kind) {
    case StateKind::kBucket: return show_bucket(value);
    case StateKind::kWindow: return show_window(value);
    case StateKind::kSlices: return show_slices(value);
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return show_log(kind, value);
    case StateKind::kPermits: return show_permits(value);
    case StateKind::kBudget: return show_budget(value);
  }
  return std::nullopt;
}

namespace {

// Reads the key of what belongs to a counter.
std::optional<CounterName> read_name_beside(char letter, std::string_view redis_key) {
  if (!redis_key.starts_with(letter)) return std::nullopt;
  redis_key.remove_prefix(1);
  if (redis_key.starts_with('{')) {  // the number that is in the counter's slot
    const std::size_t end = redis_key.find('}');
    if (end == redis_key.npos) return std::nullopt;
    redis_key.remove_prefix(end + 1);
  }
  return read_counter_name(redis_key);
}

}  // namespace

std::optional<CounterName> read_block_name(std::string_view redis_key) {
  return read_name_beside(format::kOfBlocks, redis_key);
}

std::optional<CounterName> read_ledger_name(std::string_view redis_key) {
  return read_name_beside(format::kOfLedgers, redis_key);
}

std::optional<CounterState> read_block_state(std::string_view value) {
  std::vector<Ticks> denials;
  const auto block = read_block(value, denials);
  if (!block) return std::nullopt;
  CounterState state = state_at(block->last, core::Forgotten());
  state.forgotten_from = instant_of(block->forgotten);
  for (std::size_t i = 0; i < denials.size(); ++i) {
    add_detail(state, i, denials.size(), time_of(denials[i]) + ": a denial");
  }
  state.summary = count_of(denials.size(), "denial");
  if (block->end > 0) state.summary = "blocked until " + time_of(block->end);
  if (block->end > 0 && !denials.empty())
    state.summary += ", and " + count_of(denials.size(), "denial") + " since";
  return state;
}

std::optional<Instant> read_block_end(std::string_view value) {
  std::vector<Ticks> denials;
  const auto block = read_block(value, denials);
  return block && block->end > 0 ? std::optional(instant_of(block->end)) : std::nullopt;
}

}  // namespace sluice::redis

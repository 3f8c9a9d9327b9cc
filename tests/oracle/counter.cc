#include "tests/oracle/counter.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace sluice_oracle {
namespace {

Rational slice_length(const Spec& spec) { return Rational(spec.per_us) / slices(spec); }

std::int64_t window_start(const Spec& spec, std::int64_t instant) {
  if (spec.calendar) return window_start(*spec.calendar, instant);
  return instant / spec.per_us * spec.per_us;
}

// --- consumed units ---

Rational consumed_of(const Bucket& bucket, const Counter& counter, std::int64_t instant) {
  const Spec& spec = counter.spec;
  const Rational periods = at_intervals(spec)
                               ? Rational((instant - bucket.refilled) / spec.per_us)
                               : Rational(instant - counter.last_change) / spec.per_us;
  const Rational left = bucket.level - periods * spec.limit;
  return left > 0 ? left : Rational(0);
}

Rational consumed_of(const Window& window, const Counter& counter, std::int64_t instant) {
  const Spec& spec = counter.spec;
  const bool open = aligned_to_clock(spec)
                        ? window_start(spec, instant) == window_start(spec, counter.last_change)
                        : instant - window.start < spec.per_us;
  return open ? Rational(window.used) : Rational(0);
}

Rational consumed_of(const Log& log, const Counter& counter, std::int64_t instant) {
  Integer sum = 0;
  for (const Entry& entry : log.entries) {
    if (instant - entry.instant < counter.spec.per_us) sum += entry.cost;
  }
  return sum;
}

Rational consumed_of(const Slices& state, const Counter& counter, std::int64_t instant) {
  const Spec& spec = counter.spec;
  const Rational position = Rational(instant) / slice_length(spec);
  const Integer now = round_down(position);
  const Integer oldest = now - slices(spec);
  const Rational share = spec.weighting == Weighting::kNone ? Rational(1) : 1 - (position - now);
  Integer sum = 0;
  for (const auto& [index, count] : state.counts) {
    if (index > oldest && index <= now) sum += count;
    if (index == oldest) sum += round_up(share * count);
  }
  return sum;
}

Integer still_inside(const Summary& summary, std::int64_t horizon) {
  if (horizon < summary.first) return summary.count;
  if (horizon >= summary.last) return 0;
  const Rational share = Rational(summary.last - horizon) / (summary.last - summary.first);
  return round_up(share * summary.count);
}

Rational consumed_of(const Hybrid& state, const Counter& counter, std::int64_t instant) {
  const std::int64_t horizon = instant - counter.spec.per_us;
  Integer sum = 0;
  for (const Summary& summary : state.older) sum += still_inside(summary, horizon);
  for (const Entry& entry : state.entries) {
    if (entry.instant > horizon) sum += entry.cost;
  }
  return sum;
}

// --- expiry of entries that are one period old ---

void forget_old(std::vector<Entry>& entries, std::int64_t horizon) {
  std::erase_if(entries, [=](const Entry& entry) { return entry.instant <= horizon; });
}

void forget_old(std::vector<Summary>& older, std::int64_t horizon) {
  std::erase_if(older, [=](const Summary& summary) { return summary.last <= horizon; });
}

// --- taking; counter.last_change is still the previous change ---

void take_from(Bucket& bucket, const Counter& counter, std::int64_t instant, const Integer& cost) {
  const Rational before = consumed(counter, instant);
  const std::int64_t per = counter.spec.per_us;
  if (before == 0) {
    bucket.refilled = instant;
  } else {
    bucket.refilled += (instant - bucket.refilled) / per * per;
  }
  bucket.level = before + cost;
}

void take_from(Window& window, const Counter& counter, std::int64_t instant, const Integer& cost) {
  const Integer before = round_up(consumed(counter, instant));
  if (aligned_to_clock(counter.spec)) {
    window.start = window_start(counter.spec, instant);
  } else if (before == 0) {
    window.start = instant;
  }
  window.used = before + cost;
}

void add(std::vector<Entry>& entries, std::int64_t instant, const Integer& cost) {
  if (cost == 0) return;
  if (entries.empty() || entries.back().instant < instant) entries.push_back({instant, 0});
  entries.back().cost += cost;
}

void take_from(Log& log, const Counter& counter, std::int64_t instant, const Integer& cost) {
  forget_old(log.entries, instant - counter.spec.per_us);
  add(log.entries, instant, cost);
}

void take_from(Slices& state, const Counter& counter, std::int64_t instant, const Integer& cost) {
  state.counts[slice_index(counter.spec, instant)] += cost;
}

void take_from(Hybrid& state, const Counter& counter, std::int64_t instant, const Integer& cost) {
  const Spec& spec = counter.spec;
  forget_old(state.older, instant - spec.per_us);
  forget_old(state.entries, instant - spec.per_us);
  if (!state.entries.empty() &&
      slice_index(spec, instant) > slice_index(spec, state.entries.back().instant)) {
    Summary summary{state.entries.front().instant, state.entries.back().instant, 0};
    for (const Entry& entry : state.entries) summary.count += entry.cost;
    state.older.push_back(summary);
    state.entries.clear();
  }
  add(state.entries, instant, cost);
}

// --- giving back ---

// Moves up to `wanted` units out of `held`, and reduces both by that amount.
void move_out(Integer& held, Integer& wanted) {
  const Integer moved = std::min(held, wanted);
  held -= moved;
  wanted -= moved;
}

void refund_newest(std::vector<Entry>& entries, Integer& wanted) {
  for (Entry& entry : std::views::reverse(entries)) move_out(entry.cost, wanted);
  std::erase_if(entries, [](const Entry& entry) { return entry.cost == 0; });
}

Rational refund_to(Bucket& bucket, const Counter& counter, std::int64_t instant,
                   const Integer& cost) {
  const Rational before = consumed(counter, instant);
  Rational given = std::min(before, Rational(cost));
  bucket.level = before - given;
  bucket.refilled += (instant - bucket.refilled) / counter.spec.per_us * counter.spec.per_us;
  return given;
}

Rational refund_to(Window& window, const Counter& counter, std::int64_t instant,
                   const Integer& cost) {
  Integer left = cost;
  window.used = round_up(consumed(counter, instant));
  if (aligned_to_clock(counter.spec)) window.start = window_start(counter.spec, instant);
  move_out(window.used, left);
  return cost - left;
}

Rational refund_to(Log& log, const Counter& counter, std::int64_t instant, const Integer& cost) {
  Integer left = cost;
  forget_old(log.entries, instant - counter.spec.per_us);
  refund_newest(log.entries, left);
  return cost - left;
}

Rational refund_to(Slices& state, const Counter& counter, std::int64_t instant,
                   const Integer& cost) {
  Integer left = cost;
  const Integer now = slice_index(counter.spec, instant);
  const Integer oldest = now - slices(counter.spec);
  for (auto& [slice, count] : std::views::reverse(state.counts)) {
    if (slice >= oldest && slice <= now) move_out(count, left);
  }
  return cost - left;
}

Rational refund_to(Hybrid& state, const Counter& counter, std::int64_t instant,
                   const Integer& cost) {
  Integer left = cost;
  forget_old(state.older, instant - counter.spec.per_us);
  forget_old(state.entries, instant - counter.spec.per_us);
  refund_newest(state.entries, left);
  for (Summary& summary : std::views::reverse(state.older)) move_out(summary.count, left);
  std::erase_if(state.older, [](const Summary& summary) { return summary.count == 0; });
  return cost - left;
}

// --- reading under another limit ---

Bucket convert(const Bucket& bucket, const Counter& counter, const Spec& spec) {
  if (same_numbers(counter.spec, spec)) return bucket;
  Bucket converted;
  converted.level = std::min(round_up(bucket.level), most_stored(spec));
  const std::int64_t phase = at_intervals(counter.spec) ? counter.last_change - bucket.refilled : 0;
  converted.refilled = counter.last_change - (phase < spec.per_us ? phase : 0);
  return converted;
}

Window convert(const Window& window, const Counter& counter, const Spec& spec) {
  Window converted = window;
  if (!aligned_to_clock(spec) && counter.last_change - window.start >= spec.per_us) {
    converted.start = counter.last_change;
  }
  return converted;
}

Slices convert(const Slices& state, const Counter& counter, const Spec& spec) {
  if (counter.spec.per_us == spec.per_us && slices(counter.spec) == slices(spec)) return state;
  Counter as_before = counter;
  as_before.spec.weighting = spec.weighting;
  Slices converted;
  converted.counts[slice_index(spec, counter.last_change)] =
      std::min<Integer>(round_up(consumed(as_before, counter.last_change)), kMaxUnits);
  return converted;
}

Log convert(const Log& log, const Counter&, const Spec&) { return log; }
Hybrid convert(const Hybrid& state, const Counter&, const Spec&) { return state; }
Permits convert(const Permits& permits, const Counter&, const Spec&) { return permits; }
Budget convert(const Budget& budget, const Counter&, const Spec&) { return budget; }

State fresh_state(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kFixedWindow: return Window{};
    case Algorithm::kSlidingWindowLog: return Log{};
    case Algorithm::kSlidingWindowCounter: return Slices{};
    case Algorithm::kSlidingWindowHybrid: return Hybrid{};
    case Algorithm::kConcurrency: return Permits{};
    case Algorithm::kBudget: return Budget{};
    default: return Bucket{};
  }
}

}  // namespace

Integer slice_index(const Spec& spec, std::int64_t instant) {
  return round_down(Rational(instant) / slice_length(spec));
}

Integer most_stored(const Spec& spec) {
  if (is_budget(spec)) return kMaxAmount;
  if (!is_bucket(spec.algorithm)) return kMaxUnits;
  const Rational periods = Rational(kLongestWait) / spec.per_us;
  const Integer back =
      at_intervals(spec) ? round_down(periods) * spec.limit : round_down(periods * spec.limit);
  return std::min<Integer>(back, kMaxUnits);
}

Counter fresh_counter(const Spec& spec, std::int64_t instant) {
  return Counter{spec, instant, fresh_state(spec.algorithm)};
}

Rational consumed(const Counter& counter, std::int64_t instant) {
  return std::visit([&](const auto& state) { return consumed_of(state, counter, instant); },
                    counter.state);
}

Counter read_under(const Counter& counter, const Spec& spec) {
  return std::visit(
      [&](const auto& state) {
        return Counter{spec, counter.last_change, convert(state, counter, spec)};
      },
      counter.state);
}

void take(Counter& counter, std::int64_t instant, const Integer& cost) {
  Counter next = counter;
  std::visit([&](auto& state) { take_from(state, counter, instant, cost); }, next.state);
  next.last_change = instant;
  counter = std::move(next);
}

Rational refund(Counter& counter, std::int64_t instant, const Integer& cost) {
  Counter next = counter;
  Rational given =
      std::visit([&](auto& state) { return refund_to(state, counter, instant, cost); }, next.state);
  next.last_change = instant;
  if (given > 0) counter = std::move(next);
  return given;
}

}  // namespace sluice_oracle

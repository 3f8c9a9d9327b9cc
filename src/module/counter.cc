#include "module/counter.h"

#include <algorithm>
#include <optional>
#include <span>

#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"

namespace sluice::redis_module {
namespace {

namespace format = redis::format;
using core::Change;
using core::Forgotten;
using core::Kept;
using core::State;
using core::Ticks;

void keep(Forgotten forgotten, Outcome& outcome) noexcept {
  outcome.keep_until = static_cast<Ticks>(forgotten.multiple() * format::kForgottenUnit);
}

// --- buckets and windows ---

// Returns the most units that a state under the limit's own numbers can have.
std::uint32_t most_units(const Limit& limit) noexcept {
  if (limit.algorithm() == Algorithm::kFixedWindow) return static_cast<std::uint32_t>(kMaxUnits);
  return limit.refill() == Refill::kInterval ? core::token_bucket::interval::most_units(limit)
                                             : core::bucket::most_units(limit);
}

// Returns the state at an instant, of which an absent or a forgotten one has spent nothing; nothing
// if the value is something else.
std::optional<Kept<State>> state_at(const Limit& limit, std::string_view bytes, Ticks now) {
  const Kept untouched{State{.last = now}, Forgotten()};
  if (bytes.empty()) return untouched;
  auto kept = redis::read_state(limit.state_kind(), bytes);
  if (!kept) return std::nullopt;
  if (kept->forgotten.is_past(now)) return untouched;
  // Only a damaged value has more.
  const bool is_own = kept->state.tag == core::tag_of(limit) && limit.limit() > 0;
  if (is_own) kept->state.units = std::min(kept->state.units, most_units(limit));
  return kept;
}

void write_state(const Limit& limit, const State& next, Forgotten forgotten, Outcome& outcome) {
  redis::append_state(limit.state_kind(), next, forgotten, outcome.value);
  keep(forgotten, outcome);
}

void decide_state(Action action, const Limit& limit, std::uint64_t cost, std::string_view found,
                  Ticks now, Outcome& outcome) {
  const auto kept = state_at(limit, found, now);
  if (!kept) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  const auto step = core::step(action, limit, *kept, now, cost);
  outcome.answer = step.answer;
  outcome.at = step.at;
  outcome.change = step.change;
  if (step.change == Change::kWrite) write_state(limit, step.next, step.forgotten(), outcome);
}

// Decides in ticks since the window opened: then it is a window of the clock.
void decide_calendar(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
                     Ticks now, Outcome& outcome) {
  auto kept = state_at(asked.limit, found, now);
  if (!kept) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  const CalendarWindows& windows = *asked.windows;
  const Ticks at = core::effective(now, kept->state.last);
  outcome.at = at;
  const bool is_next = at >= windows.close;
  const Ticks open = is_next ? windows.close : windows.open;
  const Ticks close = is_next ? windows.next_close : windows.close;
  if (at < open || at >= close) {
    outcome.kind = Outcome::Kind::kWindow;
    return;
  }
  const Limit limit =
      core::LimitAccess::restored({.algorithm = Algorithm::kFixedWindow,
                                   .limit = asked.limit.limit(),
                                   .capacity = asked.limit.capacity(),
                                   .period = static_cast<std::uint64_t>(close - open),
                                   .tag = core::LimitAccess::tag(asked.limit),
                                   .align = Align::kClock});
  if (kept->state.last < open) kept->state.units = 0;
  kept->state.last = std::max<Ticks>(kept->state.last - open, 0);
  kept->state.tag = core::tag_of(limit);
  auto step = core::step(action, limit, *kept, at - open, cost);
  outcome.answer = step.answer;
  outcome.change = step.change;
  if (step.change != Change::kWrite) return;
  step.next.last = at;
  write_state(limit, step.next, Forgotten::after(at + step.answer.reset_after), outcome);
}

// --- sliding counts ---

void write_slices(const Limit& limit, const core::Step<core::NextSlices>& step, Outcome& outcome) {
  std::vector<std::uint32_t> counts(limit.slices() + 1);
  step.next.write(counts);
  redis::append_slices({counts, step.at, core::SliceGrid(limit)}, step.forgotten(), outcome.value);
  keep(step.forgotten(), outcome);
}

void decide_slices(Action action, const Limit& limit, std::uint64_t cost, std::string_view found,
                   Ticks now, Outcome& outcome) {
  std::vector<std::uint32_t> counts;
  Kept<core::Slices> kept{{{}, now, core::SliceGrid(limit)}, Forgotten()};
  if (!found.empty()) {
    const auto read = redis::read_slices(found, counts);
    if (!read) {
      outcome.kind = Outcome::Kind::kForeign;
      return;
    }
    if (!read->forgotten.is_past(now)) kept = *read;
  }
  std::uint32_t converted = 0;
  kept.state = core::sliding_window_counter::on_grid(limit, kept.state, converted);
  const auto step = core::step(action, limit, kept, now, cost);
  outcome.answer = step.answer;
  outcome.at = step.at;
  outcome.change = step.change;
  if (step.change == Change::kWrite) write_slices(limit, step, outcome);
}

// --- permits ---

// Returns whether the head does not say of the permits what they are. Asks only where a script
// looks at all permits, so that both decide alike.
bool is_damaged(const core::Permits& permits, const Action& action, const core::Answer& answer,
                Ticks at, std::uint64_t needed) noexcept {
  const bool denies = asks(action.verb) && !answer.admitted && !answer.never;
  const bool is_read = changes_permit(action.verb) || action.verb == Verb::kRefund ||
                       permits.first_end <= at || (denies && needed > 1);
  if (permits.entries.empty() || !is_read) return false;
  std::uint64_t units = 0;
  Ticks first_end = permits.entries.front().end;
  Ticks last_end = 0;
  for (const core::PermitEntry& entry : permits.entries) {
    if (entry.units == 0) return true;
    units += entry.units;
    first_end = std::min(first_end, entry.end);
    last_end = std::max(last_end, entry.end);
  }
  return units != permits.units || first_end != permits.first_end || last_end != permits.last_end;
}

void decide_permits(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
                    Ticks now, Outcome& outcome) {
  const Limit& limit = asked.limit;
  outcome.replaces_found = true;
  redis::StoredPermits held;
  if (!held.read(found)) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  core::PermitBuffer& buffer = held.buffer();
  // A limit of 0 reads no permits, except to change one that was taken before.
  const bool is_read = limit.capacity() > 0 || changes_permit(action.verb);
  core::Permits permits = is_read ? buffer.view() : core::Permits{};
  permits.asked = &asked.permit;
  const core::concurrency::Live live = core::concurrency::advance(permits, now);
  const auto step = core::step(action, limit, Kept{permits, Forgotten()}, now, cost);
  const std::uint64_t asked_units =
      action.verb == Verb::kTakeAtMost ? core::units_at_most(limit, live.units, cost) : cost;
  if (is_damaged(permits, action, step.answer, live.at,
                 live.units + asked_units - limit.capacity())) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  outcome.answer = step.answer;
  outcome.at = live.at;
  outcome.change = step.change;
  format::PermitsReply reply{.at = static_cast<std::uint64_t>(live.at),
                             .units = live.units,
                             .last_end = static_cast<std::uint64_t>(live.last_end),
                             .wait = static_cast<std::uint64_t>(step.answer.wait),
                             .units_after = live.units,
                             .last_after = static_cast<std::uint64_t>(live.last_end),
                             .gone = step.answer.gone ? std::uint64_t{1} : 0};
  if (step.change == Change::kWrite) {
    buffer.write(step.next, step.at);
    redis::append_permits(buffer.view(), outcome.value);
    outcome.keep_until = buffer.last_end;
    reply.units_after = buffer.units;
    reply.last_after = static_cast<std::uint64_t>(buffer.last_end);
  } else if (step.next.change == Verb::kTake) {  // a peek
    reply.units_after += step.next.units;
    reply.last_after = static_cast<std::uint64_t>(std::max(live.last_end, step.next.end));
  }
  if (!found.empty() && is_read) format::kPermitsReply.append(reply, outcome.reply);
}

}  // namespace

void Outcome::clear() noexcept {
  kind = Kind::kDecided;
  answer = {};
  at = 0;
  reply.clear();
  replaces_found = false;
  change = Change::kNone;
  value.clear();
  pieces.clear();
  keep_until = 0;
  is_kept = false;
}

void decide(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
            Ticks now, Outcome& outcome) {
  outcome.clear();
  const Limit& limit = asked.limit;
  switch (limit.state_kind()) {
    case StateKind::kBucket: return decide_state(action, limit, cost, found, now, outcome);
    case StateKind::kWindow:
      return asked.windows ? decide_calendar(action, asked, cost, found, now, outcome)
                           : decide_state(action, limit, cost, found, now, outcome);
    case StateKind::kSlices: return decide_slices(action, limit, cost, found, now, outcome);
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return decide_log(action, limit, cost, found, now, outcome);
    case StateKind::kPermits: return decide_permits(action, asked, cost, found, now, outcome);
  }
}

}  // namespace sluice::redis_module

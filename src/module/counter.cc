#include "module/request.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "core/log.h"
#include "core/sliding_window_hybrid.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"

namespace sluice::redis_module {
namespace {

namespace format = redis::format;
namespace hybrid = core::sliding_window_hybrid;
using core::Change;
using core::Forgotten;
using core::Kept;
using core::State;
using core::Summary;
using core::Ticks;
using redis::LogValue;
using redis::low_bits;

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
    outcome.result = Result::kForeign;
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
    outcome.result = Result::kForeign;
    return;
  }
  const format::Windows& windows = *asked.windows;
  const Ticks at = core::effective(now, kept->state.last);
  outcome.at = at;
  const bool is_next = static_cast<std::uint64_t>(at) >= windows.close;
  const auto open = static_cast<Ticks>(is_next ? windows.close : windows.open);
  const auto close = static_cast<Ticks>(is_next ? windows.second : windows.close);
  if (at < open || at >= close) {
    outcome.result = Result::kWindow;
    return;
  }
  const Limit limit =
      core::LimitAccess::restored({.algorithm = Algorithm::kFixedWindow,
                                   .limit = asked.limit.limit(),
                                   .capacity = asked.limit.capacity(),
                                   .period = static_cast<std::uint64_t>(close - open),
                                   .tag = core::LimitAccess::tag(asked.limit),
                                   .align = Align::kClock});
  const bool has_another_limit =
      kept->state.tag != core::tag_of(asked.limit) && !kept->forgotten.is_past(now);
  if (kept->state.last < open) kept->state.units = 0;
  kept->state.last = std::max<Ticks>(kept->state.last - open, 0);
  kept->state.tag = core::tag_of(limit);
  auto step = core::step(action, limit, *kept, at - open, cost);
  outcome.answer = step.answer;
  outcome.change = step.change;
  if (step.change != Change::kWrite) {
    // As core does, which has other ticks here than those of `forgotten`.
    const bool is_taken = action.verb == Verb::kPeek && step.answer.admitted && cost > 0;
    if (has_another_limit && !is_taken) kept->forgotten.end(at, outcome.answer);
    return;
  }
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
      outcome.result = Result::kForeign;
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

// Returns what is left of the lease of the permit that is asked for, which is live.
Ticks left_of_lease(const core::Permits& permits, Ticks at) noexcept {
  Ticks end = at;
  for (const core::PermitEntry& entry : permits.entries) {
    if (entry.id == *permits.asked) end = std::max(end, entry.end);
  }
  return end - at;
}

void decide_permits(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
                    Ticks now, Outcome& outcome) {
  const Limit& limit = asked.limit;
  outcome.replaces_found = true;
  std::vector<std::uint64_t> memory;
  core::PermitBuffer* const buffer = redis::read_permits(found, memory);
  if (buffer == nullptr) {
    outcome.result = Result::kForeign;
    return;
  }
  // A limit of 0 reads no permits, except to change one that was taken before.
  const bool is_read = limit.capacity() > 0 || changes_permit(action.verb);
  core::Permits permits = is_read ? buffer->view() : core::Permits{};
  permits.asked = &asked.permit;
  const core::concurrency::Live live = core::concurrency::advance(permits, now);
  const auto step = core::step(action, limit, Kept{permits, Forgotten()}, now, cost);
  const std::uint64_t asked_units =
      action.verb == Verb::kTakeAtMost ? core::units_at_most(limit, live.units, cost) : cost;
  if (is_damaged(permits, action, step.answer, live.at,
                 live.units + asked_units - limit.capacity())) {
    outcome.result = Result::kForeign;
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
  // So that the extension can be taken back.
  if (step.next.change == Verb::kExtend) {
    reply.wait = static_cast<std::uint64_t>(left_of_lease(permits, live.at));
  }
  if (step.change == Change::kWrite) {
    buffer->write(step.next, step.at);
    redis::append_permits(buffer->view(), outcome.value);
    outcome.keep_until = buffer->last_end;
    reply.units_after = buffer->units;
    reply.last_after = static_cast<std::uint64_t>(buffer->last_end);
  } else if (step.next.change == Verb::kTake) {  // a peek
    reply.units_after += step.next.units;
    reply.last_after = static_cast<std::uint64_t>(std::max(live.last_end, step.next.end));
  }
  if (!found.empty() && is_read) format::kPermitsReply.append(reply, outcome.reply);
}

// --- logs ---

// The size up to which the scripts read and write a log as a whole.
std::size_t most_whole(const Limit& limit) noexcept {
  const bool is_large =
      limit.state_kind() == StateKind::kLog && limit.capacity() > format::kWholeLogUnits;
  return is_large ? format::kLongHeadSize : format::kWholeLogSize;
}

// What counts of a log at the instant of a decision.
struct LiveLog {
  const LogValue& log;
  bool is_known = false;
  Ticks at = 0;
  Ticks horizon = 0;
  std::size_t expired = 0;   // entries
  std::uint32_t before = 0;  // the running sum before those that count
  std::uint64_t units = 0;   // of the entries that count
  std::vector<Summary> older;

  std::size_t count() const noexcept { return log.count() - expired; }
};

// The functions of core that ask a log of another form for them.
std::uint64_t stored_units(const LiveLog& live) noexcept {
  std::uint64_t units = live.units;
  for (const Summary& summary : live.older) units += summary.units;
  return units;
}

bool moves_newest(const Limit& limit, const LiveLog& live, Ticks at) noexcept {
  return live.count() >= 2 * std::uint64_t{limit.capacity()} && live.log.newest().at != at;
}

// Adds the summaries that count. Returns false if one is damaged.
bool add_summaries(LiveLog& live) {
  std::uint64_t units = 0;
  for (std::size_t i = 0; i < live.log.head().summaries; ++i) {
    const Summary summary = live.log.summary(i);
    units += summary.units;
    if (summary.first > summary.last) return false;
    if (summary.last > live.horizon) live.older.push_back(summary);
  }
  return units <= 2 * kMaxUnits;
}

// Returns nothing if the value is damaged.
std::optional<LiveLog> live_at(const Limit& limit, const LogValue& log, bool is_known, Ticks now) {
  LiveLog live{.log = log, .is_known = is_known, .older = {}};
  live.at = core::effective(now, log.last());
  live.horizon = live.at - limit.period().count();
  if (log.contradicts_ends()) return std::nullopt;
  const bool any_expired = log.count() > 0 && log.oldest().at <= live.horizon;
  live.expired = any_expired ? log.first_after(1, live.horizon) : 0;
  live.before = live.expired == 0 ? log.before() : log.entry(live.expired - 1).sum;
  live.units = log.after() - live.before;
  if ((live.count() == 0) != (live.units == 0)) return std::nullopt;
  if (live.count() > 0 && log.newest().at <= live.horizon) return std::nullopt;
  if (!add_summaries(live)) return std::nullopt;
  return live;
}

// In a damaged log there may be no newest instant.
core::LogDigest digest_without(const LiveLog& live, std::uint64_t units) noexcept {
  core::LogDigest digest{.at = live.at, .units = live.units - std::min(live.units, units)};
  if (digest.units > 0 && units == 0) {
    digest.newest = live.log.newest().at;
  } else if (digest.units > 0) {
    const std::size_t newest = live.log.first_with(live.expired, live.before, digest.units);
    if (newest < live.log.count()) digest.newest = live.log.entry(newest).at;
  }
  units -= std::min(live.units, units);
  for (std::size_t i = live.older.size(); i-- > 0;) {
    Summary left = live.older[i];
    const auto given = static_cast<std::uint32_t>(std::min<std::uint64_t>(left.units, units));
    left.units -= given;
    units -= given;
    if (left.units == 0) continue;
    if (digest.units == 0) digest.newest = left.last;
    digest.units += hybrid::live_units(left, live.horizon);
  }
  return digest;
}

Ticks time_to_expire(const LiveLog& live, std::uint64_t units) noexcept {
  for (const Summary& summary : live.older) {
    const std::uint64_t counting = hybrid::live_units(summary, live.horizon);
    if (units <= counting) return hybrid::horizon_with(summary, counting - units) - live.horizon;
    units -= counting;
  }
  const std::size_t i = live.log.first_with(live.expired, live.before, units);
  return i < live.log.count() ? live.log.entry(i).at - live.horizon : 0;
}

bool begins_slice(const Limit& limit, const LiveLog& live) noexcept {
  if (limit.state_kind() != StateKind::kLogAndSummaries || live.count() == 0) return false;
  const core::SliceGrid grid(limit);
  return grid.slice_of(live.at) != grid.slice_of(live.log.newest().at);
}

// --- the next value ---

// The log after a change: entries of the old one from `first` on, then `added`.
class NextLogValue {
 public:
  // As the old one: what counts of it.
  NextLogValue(const Limit& limit, const LiveLog& live)
      : limit_(limit),
        live_(live),
        first_(live.expired),
        kept_(live.count()),
        before_(live.before),
        older_(live.older) {}

  void give_back(std::uint64_t units) {
    if (units >= live_.units) {
      kept_ = 0;
      return give_back_older(units - live_.units);
    }
    const std::size_t newest = live_.log.first_with(first_, before_, live_.units - units);
    kept_ = newest - first_;
    added_ = {live_.log.entry(newest).at, live_.log.after() - static_cast<std::uint32_t>(units)};
  }

  void add(const core::NextLog& change) {
    added_ = {live_.at, live_.log.after() + change.added};
    if (change.summarizes) {
      older_.push_back({live_.log.entry(first_).at, live_.log.newest().at,
                        static_cast<std::uint32_t>(live_.units)});
      kept_ = 0;
      before_ = live_.log.after();
    } else if (kept_ > 0 && (change.moves_newest || live_.log.newest().at == live_.at)) {
      --kept_;  // charges of one instant share an entry
    }
  }

  void write(core::Forgotten forgotten, Ticks now, Outcome& outcome) {
    const auto ends = static_cast<Ticks>(forgotten.multiple() * format::kForgottenUnit);
    head_.kind = limit_.state_kind() == StateKind::kLog ? format::kLogKind : format::kHybridKind;
    head_.changed = static_cast<std::uint64_t>(live_.at);
    head_.forgotten = forgotten.multiple();
    head_.count = kept_ + (added_ ? 1 : 0);
    head_.summaries = older_.size();
    head_.before = before_;
    set_ends();
    fits_in_place() ? write_in_place(ends, now, outcome) : write_anew(ends, outcome);
  }

 private:
  void give_back_older(std::uint64_t units) {
    while (units > 0 && !older_.empty()) {
      Summary& newest = older_.back();
      const auto given = static_cast<std::uint32_t>(std::min<std::uint64_t>(newest.units, units));
      newest.units -= given;
      units -= given;
      if (newest.units == 0) older_.pop_back();
    }
  }
  LogValue::Entry entry(std::size_t i) const noexcept {
    return i < kept_ ? live_.log.entry(first_ + i) : *added_;
  }
  void set_ends() noexcept {
    head_.after = head_.before;
    if (head_.count == 0) return;
    const LogValue::Entry oldest = entry(0);
    const LogValue::Entry newest = entry(head_.count - 1);
    head_.oldest = low_bits(oldest.at);
    head_.first_sum = oldest.sum;
    head_.newest = low_bits(newest.at);
    head_.after = newest.sum;
  }

  bool fits_in_place() const noexcept {
    const format::LogHead& held = live_.log.head();
    return live_.is_known && live_.log.value().size() > most_whole(limit_) && held.room > 0 &&
           head_.count <= held.room && held.room <= head_.count * 4 + 100 &&
           head_.summaries <= held.space;
  }

  void append_summaries(std::string& out) const {
    for (const Summary& summary : older_) {
      format::kSummary.append({low_bits(summary.first), low_bits(summary.last), summary.units},
                              out);
    }
  }
  void append_entry(std::size_t i, std::string& out) const {
    const LogValue::Entry written = entry(i);
    format::kLogEntry.append({low_bits(written.at), written.sum}, out);
  }

  void write_in_place(Ticks ends, Ticks now, Outcome& outcome) {
    const format::LogHead& held = live_.log.head();
    const std::size_t in_ring = held.count - held.back;
    head_.space = held.space;
    head_.room = held.room;
    head_.blocks = held.blocks;
    head_.head = (held.head + std::min(first_, in_ring)) % held.room;
    outcome.is_kept = static_cast<Ticks>(held.kept_until) >= ends;
    // An eighth longer, so that the next requests need not set it.
    const Ticks longer = ends + std::max<Ticks>(ends - now, 0) / 8;
    head_.kept_until = outcome.is_kept ? held.kept_until : static_cast<std::uint64_t>(longer);
    outcome.keep_until = static_cast<Ticks>(head_.kept_until);
    auto& [_, head] = outcome.pieces.emplace_back();
    format::kLogHead.append(head_, head);
    append_summaries(head);
    // The entries of the ring that stay are in their places.
    std::size_t i = std::min(kept_, in_ring - std::min(first_, in_ring));
    while (i < head_.count) {
      const std::size_t slot = (head_.head + i) % head_.room;
      auto& [at, bytes] = outcome.pieces.emplace_back();
      at = live_.log.base() + slot * format::kLogEntry.size();
      const std::size_t end = std::min(head_.count, i + (head_.room - slot));
      for (; i < end; ++i) append_entry(i, bytes);
    }
  }

  void write_anew(Ticks ends, Outcome& outcome) {
    head_.space = head_.summaries;
    head_.room = head_.count;
    const std::size_t whole = format::kLogHead.size() + head_.summaries * format::kSummary.size() +
                              head_.count * format::kLogEntry.size();
    if (whole > most_whole(limit_)) {
      head_.room += head_.count / 5 + 8;
      const std::uint64_t capacity = limit_.capacity();
      if (head_.room > capacity && head_.count <= capacity) head_.room = capacity;
      head_.blocks = limit_.state_kind() == StateKind::kLog ? 1 : 0;
    }
    head_.kept_until = static_cast<std::uint64_t>(ends);
    outcome.keep_until = ends;
    format::kLogHead.append(head_, outcome.value);
    outcome.value.append(head_.blocks * format::kBlocksSize, '\0');
    append_summaries(outcome.value);
    for (std::size_t i = 0; i < head_.count; ++i) append_entry(i, outcome.value);
    outcome.value.append((head_.room - head_.count) * format::kLogEntry.size(), '\0');
  }

  const Limit& limit_;
  const LiveLog& live_;
  std::size_t first_;
  std::size_t kept_;
  std::optional<LogValue::Entry> added_ = {};
  std::uint32_t before_;
  std::vector<Summary> older_;
  format::LogHead head_{};
};

// --- the decision ---

void append_log_reply(const core::LogDigest& digest, core::Forgotten forgotten, std::uint64_t wait,
                      bool has_changed, std::string& out) {
  format::kLogReply.append({.at = static_cast<std::uint64_t>(digest.at),
                            .units = digest.units,
                            .newest = static_cast<std::uint64_t>(digest.newest),
                            .forgotten = forgotten.multiple(),
                            .wait = wait,
                            .changed = has_changed ? std::uint64_t{1} : 0},
                           out);
}

void decide_log(Action action, const Limit& limit, std::uint64_t cost, std::string_view found,
                Ticks now, Outcome& outcome) {
  outcome.replaces_found = true;
  LogValue log(now);
  bool is_known = false;
  if (!found.empty()) {
    const auto opened = LogValue::open(limit.state_kind(), found, most_whole(limit));
    if (!opened) {
      outcome.result = Result::kForeign;
      return;
    }
    is_known = !opened->forgotten().is_past(now);
    if (is_known) log = *opened;
  }
  const auto live = live_at(limit, log, is_known, now);
  outcome.result = Result::kForeign;
  if (!live) return;
  const core::Kept<core::Log> kept{{}, log.forgotten()};
  const core::LogFacts facts{*live, [&] { return begins_slice(limit, *live); },
                             [&](std::uint64_t units) { return digest_without(*live, units); },
                             [&](std::uint64_t units) { return time_to_expire(*live, units); }};
  const auto step =
      core::step_of_log(action, limit, kept, is_known, cost,
                        {.expired_entries = live->expired, .units = live->units}, facts);
  const bool has_to_wait = !step.answer.admitted && !step.answer.never;
  const bool is_refunded = step.next.given_back > 0;
  const core::LogDigest digest = digest_without(*live, is_refunded ? cost : 0);
  // Only a damaged log denies without a wait, or has a newest entry that has expired.
  if (has_to_wait && step.answer.wait <= 0) return;
  if (digest.units > 0 && digest.newest <= live->horizon) return;
  outcome.result = Result::kDecided;
  outcome.answer = step.answer;
  outcome.at = step.at;
  outcome.change = step.change;
  if (step.change == core::Change::kWrite) {
    NextLogValue next(limit, *live);
    is_refunded ? next.give_back(cost) : next.add(step.next);
    next.write(step.forgotten(), now, outcome);
  }
  if (!is_known) return;
  const std::uint64_t stored = action.verb == Verb::kCharge && cost > 0 ? stored_units(*live) : 0;
  const std::uint64_t wait =
      step.answer.admitted ? stored : static_cast<std::uint64_t>(step.answer.wait);
  append_log_reply(digest, is_refunded ? step.forgotten() : log.forgotten(), wait, is_refunded,
                   outcome.reply);
}

}  // namespace

void Outcome::clear() noexcept {
  result = Result::kDecided;
  answer = {};
  at = 0;
  reply.clear();
  replaces_found = false;
  change = Change::kNone;
  value.clear();
  pieces.clear();
  keep_until = 0;
  is_kept = false;
  fields.clear();
  replaces_fields = false;
  knows_id = false;
  follows = false;
  entries.clear();
  unknown_end = 0;
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
    case StateKind::kBudget: return;  // decide_budget()
  }
}

}  // namespace sluice::redis_module

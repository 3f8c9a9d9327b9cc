#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/log.h"
#include "core/sliding_window_hybrid.h"
#include "module/counter.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"

namespace sluice::redis_module {
namespace {

namespace format = redis::format;
namespace hybrid = core::sliding_window_hybrid;
using core::Summary;
using core::Ticks;
using redis::LogValue;
using redis::low_bits;

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
struct NextValue {
  std::size_t first = 0;
  std::size_t kept = 0;
  std::optional<LogValue::Entry> added = {};
  std::uint32_t before = 0;
  std::vector<Summary> older;

  std::size_t count() const noexcept { return kept + (added ? 1 : 0); }
};

void give_back(std::vector<Summary>& older, std::uint64_t units) {
  while (units > 0 && !older.empty()) {
    const auto given =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(older.back().units, units));
    older.back().units -= given;
    units -= given;
    if (older.back().units == 0) older.pop_back();
  }
}

NextValue without(const LiveLog& live, std::uint64_t units) {
  NextValue next{.first = live.expired, .before = live.before, .older = live.older};
  if (units >= live.units) {
    give_back(next.older, units - live.units);
    return next;
  }
  const std::size_t newest = live.log.first_with(live.expired, live.before, live.units - units);
  next.kept = newest - live.expired;
  next.added = {live.log.entry(newest).at, live.log.after() - static_cast<std::uint32_t>(units)};
  return next;
}

NextValue with(const LiveLog& live, const core::NextLog& change) {
  NextValue next{
      .first = live.expired, .kept = live.count(), .before = live.before, .older = live.older};
  next.added = {live.at, live.log.after() + change.added};
  if (change.summarizes) {
    next.older.push_back({live.log.entry(live.expired).at, live.log.newest().at,
                          static_cast<std::uint32_t>(live.units)});
    next.kept = 0;
    next.before = live.log.after();
  } else if (next.kept > 0 && (change.moves_newest || live.log.newest().at == live.at)) {
    --next.kept;  // charges of one instant share an entry
  }
  return next;
}

class LogWriter {
 public:
  LogWriter(const Limit& limit, const LiveLog& live, const NextValue& next, Ticks now,
            Outcome& outcome)
      : limit_(limit), live_(live), next_(next), now_(now), outcome_(outcome) {}

  void write(core::Forgotten forgotten) {
    const auto ends = static_cast<Ticks>(forgotten.multiple() * format::kForgottenUnit);
    head_.kind = limit_.state_kind() == StateKind::kLog ? format::kLogKind : format::kHybridKind;
    head_.changed = static_cast<std::uint64_t>(live_.at);
    head_.forgotten = forgotten.multiple();
    head_.count = next_.count();
    head_.summaries = next_.older.size();
    head_.before = next_.before;
    set_ends();
    fits_in_place() ? write_in_place(ends) : write_anew(ends);
  }

 private:
  LogValue::Entry entry(std::size_t i) const noexcept {
    return i < next_.kept ? live_.log.entry(next_.first + i) : *next_.added;
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
    for (const Summary& summary : next_.older) {
      format::kSummary.append({low_bits(summary.first), low_bits(summary.last), summary.units},
                              out);
    }
  }
  void append_entry(std::size_t i, std::string& out) const {
    const LogValue::Entry written = entry(i);
    format::kLogEntry.append({low_bits(written.at), written.sum}, out);
  }

  void write_in_place(Ticks ends) {
    const format::LogHead& held = live_.log.head();
    const std::size_t in_ring = held.count - held.back;
    head_.space = held.space;
    head_.room = held.room;
    head_.blocks = held.blocks;
    head_.head = (held.head + std::min(next_.first, in_ring)) % held.room;
    outcome_.is_kept = static_cast<Ticks>(held.kept_until) >= ends;
    // An eighth longer, so that the next requests need not set it.
    const Ticks longer = ends + std::max<Ticks>(ends - now_, 0) / 8;
    head_.kept_until = outcome_.is_kept ? held.kept_until : static_cast<std::uint64_t>(longer);
    outcome_.keep_until = static_cast<Ticks>(head_.kept_until);
    Piece& head = outcome_.pieces.emplace_back();
    format::kLogHead.append(head_, head.bytes);
    append_summaries(head.bytes);
    // The entries of the ring that stay are in their places.
    std::size_t i = std::min(next_.kept, in_ring - std::min(next_.first, in_ring));
    while (i < head_.count) {
      const std::size_t slot = (head_.head + i) % head_.room;
      Piece& piece = outcome_.pieces.emplace_back();
      piece.at = live_.log.base() + slot * format::kLogEntry.size();
      const std::size_t end = std::min(head_.count, i + (head_.room - slot));
      for (; i < end; ++i) append_entry(i, piece.bytes);
    }
  }

  void write_anew(Ticks ends) {
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
    outcome_.keep_until = ends;
    format::kLogHead.append(head_, outcome_.value);
    outcome_.value.append(head_.blocks * format::kBlocksSize, '\0');
    append_summaries(outcome_.value);
    for (std::size_t i = 0; i < head_.count; ++i) append_entry(i, outcome_.value);
    outcome_.value.append((head_.room - head_.count) * format::kLogEntry.size(), '\0');
  }

  const Limit& limit_;
  const LiveLog& live_;
  const NextValue& next_;
  Ticks now_;
  Outcome& outcome_;
  format::LogHead head_{};
};

// --- the decision ---

// As core::LogFacts, of a log in its stored form.
template <typename BeginsSlice, typename DigestWithout, typename TimeToExpire>
struct Facts {
  const LiveLog& live;
  BeginsSlice begins_slice;
  DigestWithout digest_without;
  TimeToExpire time_to_expire;
};
template <typename BeginsSlice, typename DigestWithout, typename TimeToExpire>
Facts(const LiveLog&, BeginsSlice, DigestWithout, TimeToExpire)
    -> Facts<BeginsSlice, DigestWithout, TimeToExpire>;

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

}  // namespace

void decide_log(Action action, const Limit& limit, std::uint64_t cost, std::string_view found,
                Ticks now, Outcome& outcome) {
  outcome.replaces_found = true;
  LogValue log(now);
  bool is_known = false;
  if (!found.empty()) {
    const auto opened = LogValue::open(limit.state_kind(), found, most_whole(limit));
    if (!opened) {
      outcome.kind = Outcome::Kind::kForeign;
      return;
    }
    is_known = !opened->forgotten().is_past(now);
    if (is_known) log = *opened;
  }
  const auto live = live_at(limit, log, is_known, now);
  outcome.kind = Outcome::Kind::kForeign;
  if (!live) return;
  const core::Kept<core::Log> kept{{}, log.forgotten()};
  const Facts facts{*live, [&] { return begins_slice(limit, *live); },
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
  outcome.kind = Outcome::Kind::kDecided;
  outcome.answer = step.answer;
  outcome.at = step.at;
  outcome.change = step.change;
  if (step.change == core::Change::kWrite) {
    const NextValue next = is_refunded ? without(*live, cost) : with(*live, step.next);
    LogWriter(limit, *live, next, now, outcome).write(step.forgotten());
  }
  if (!is_known) return;
  const std::uint64_t stored = action.verb == Verb::kCharge && cost > 0 ? stored_units(*live) : 0;
  const std::uint64_t wait =
      step.answer.admitted ? stored : static_cast<std::uint64_t>(step.answer.wait);
  append_log_reply(digest, is_refunded ? step.forgotten() : log.forgotten(), wait, is_refunded,
                   outcome.reply);
}

}  // namespace sluice::redis_module

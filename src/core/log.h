#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/step.h"

namespace sluice::core {

// Units admitted at one instant: 12 bytes, so that a log of 100 entries takes 1.2 kB.
class LogEntry {
 public:
  constexpr LogEntry() = default;
  constexpr LogEntry(Ticks at, std::uint32_t units) noexcept
      : low_(static_cast<std::uint32_t>(at)),
        high_(static_cast<std::uint32_t>(static_cast<std::uint64_t>(at) >> 32)),
        units_(units) {}

  constexpr Ticks at() const noexcept {
    return static_cast<Ticks>(std::uint64_t{high_} << 32 | low_);
  }
  constexpr std::uint32_t units() const noexcept { return units_; }

 private:
  std::uint32_t low_ = 0;
  std::uint32_t high_ = 0;
  std::uint32_t units_ = 0;
};

// An older slice of a log: a number of units, at most kMaxUnits, between two instants. Its bytes
// are those of a snapshot.
struct Summary {
  Ticks first = 0;
  Ticks last = 0;
  std::uint64_t units = 0;
};
static_assert(sizeof(Summary) == 24);

// A view of a log in the caller's memory, oldest first. A plain log has no summaries.
struct Log {
  std::span<const Summary> older;
  std::span<const LogEntry> entries;  // at increasing instants, after the summaries
  std::uint64_t units = 0;            // of all entries
  Ticks last = 0;                     // of the last change: at or after the newest entry
};

// The next log, in the order in which LogBuffer::write() makes it.
struct NextLog {
  std::size_t expired_summaries = 0;  // to drop
  std::size_t expired_entries = 0;
  std::uint64_t units = 0;       // of the entries that are left
  bool summarizes = false;       // the entries that are left become a summary
  std::uint32_t added = 0;       // units of a new entry, or of the newest at the same instant
  bool moves_newest = false;     // the newest entry moves to the instant of `added`
  std::uint64_t given_back = 0;  // units, the newest first
};

// The facts about a log that a verdict depends on, except for the wait.
struct LogDigest {
  Ticks at = 0;             // the instant of the decision
  std::uint64_t units = 0;  // that count
  Ticks newest = 0;         // the newest instant that counts; ignored if no units count
};

// What of a log still counts at `at`: entries[expired...], with `units` in all; of a hybrid also
// older[expired_older...], as far as it is after `horizon`.
struct LogView {
  Ticks at = 0;
  Ticks horizon = 0;
  std::size_t expired = 0;
  std::size_t expired_older = 0;
  std::uint64_t units = 0;
};

// Describes a log with a number of units, the newest of that instant.
constexpr Numbers numbers_of(const Limit& limit, std::uint64_t used, Ticks newest,
                             Ticks at) noexcept {
  const std::uint64_t capacity = limit.capacity();
  Numbers numbers{static_cast<std::uint32_t>(used < capacity ? capacity - used : 0), 0};
  if (used > 0 && capacity > 0) numbers.reset_after = newest + limit.period().count() - at;
  return numbers;
}

// Returns the verdict on a log. `time_to_expire(n)` returns the time until n units have left.
template <typename TimeToExpire>
constexpr Answer answer_from(const Limit& limit, const LogDigest& log, std::uint64_t cost,
                             TimeToExpire time_to_expire) noexcept {
  const std::uint64_t capacity = limit.capacity();
  Answer quote = admitted();
  if (cost > capacity) {
    quote = never();
  } else if (cost > 0 && log.units + cost > capacity) {
    quote = denied_for(static_cast<std::uint64_t>(time_to_expire(log.units + cost - capacity)));
  }
  const std::uint64_t taken = quote.admitted ? cost : 0;
  return {quote, numbers_of(limit, log.units + taken, taken > 0 ? log.at : log.newest, log.at)};
}

// Returns the answer of a log to a verb that may add units, and sets `added` to how many it adds.
// `stored` are the units of all entries and summaries, also where only a share of them counts.
template <typename TimeToExpire>
constexpr Answer answer_and_add(Verb verb, const Limit& limit, const LogDigest& log,
                                std::uint64_t stored, std::uint64_t cost,
                                TimeToExpire time_to_expire, std::uint64_t& added) noexcept {
  if (verb == Verb::kCharge) {
    const std::uint64_t room = limit.capacity() > 0 && stored < kMaxUnits ? kMaxUnits - stored : 0;
    added = std::min(cost, room);
    const std::uint64_t used = log.units + added;
    Answer answer{admitted(), numbers_of(limit, used, added > 0 ? log.at : log.newest, log.at)};
    answer.over = added < cost || exceeds(limit, used);
    return answer;
  }
  if (verb == Verb::kTakeAtMost) cost = units_at_most(limit, log.units, cost);
  Answer answer = answer_from(limit, log, cost, time_to_expire);
  added = answer.admitted ? cost : 0;
  if (answer.admitted && verb == Verb::kTakeAtMost) {
    answer.taken = static_cast<std::uint32_t>(cost);
  }
  if (answer.admitted && verb == Verb::kReserve) answer.delay = 0;
  return answer;
}

// The facts about a log at the instant of the decision, some of them functions.
template <typename Live, typename BeginsSlice, typename DigestWithout, typename TimeToExpire>
struct LogFacts {
  const Live& live;          // a Log, or what another owner of a log has; without what has expired
  BeginsSlice begins_slice;  // (): whether a new entry begins a slice
  DigestWithout digest_without;  // (n): the digest after a refund of n units
  TimeToExpire time_to_expire;   // (n): the time until n units have left
};
template <typename Live, typename BeginsSlice, typename DigestWithout, typename TimeToExpire>
LogFacts(const Live&, BeginsSlice, DigestWithout, TimeToExpire)
    -> LogFacts<Live, BeginsSlice, DigestWithout, TimeToExpire>;

constexpr std::uint64_t stored_units(const Log& log) noexcept {
  std::uint64_t units = log.units;
  for (const Summary& summary : log.older) units += summary.units;
  return units;
}

// Whether a charge moves the newest entry to its own instant instead of adding one. This bounds a
// log that charges have taken beyond its limit; the units of that entry count for longer.
constexpr bool moves_newest(const Limit& limit, const Log& live, Ticks at) noexcept {
  return live.entries.size() >= 2 * std::uint64_t{limit.capacity()} &&
         live.entries.back().at() != at;
}

// The step of a log. `next` is the log without its expired entries.
template <typename Facts>
constexpr Step<NextLog> step_of_log(Action action, const Limit& limit, const Kept<Log>& kept,
                                    bool is_known, std::uint64_t cost, NextLog next,
                                    const Facts& facts) noexcept {
  const Verb verb = action.verb;
  const LogDigest digest = facts.digest_without(0);
  if (verb == Verb::kReset) return {untouched(limit), Change::kErase, digest.at, next};
  if (verb == Verb::kRefund) {
    if (cost > 0 && limit.capacity() > 0 && digest.units > 0) {
      next.given_back = cost;
      const Answer answer = answer_from(limit, facts.digest_without(cost), 0, facts.time_to_expire);
      return {answer, Change::kWrite, digest.at, next};
    }
    cost = 0;
  }
  const std::uint64_t stored = verb == Verb::kCharge ? stored_units(facts.live) : 0;
  std::uint64_t added = 0;
  Step<NextLog> step{answer_and_add(verb, limit, digest, stored, cost, facts.time_to_expire, added),
                     Change::kNone, digest.at, next};
  if (added > 0) {
    step.next.added = static_cast<std::uint32_t>(added);
    step.next.summarizes = facts.begins_slice();
    step.next.moves_newest = verb == Verb::kCharge && !step.next.summarizes &&
                             moves_newest(limit, facts.live, digest.at);
    if (verb != Verb::kPeek) step.change = Change::kWrite;
  } else if (is_known) {
    kept.forgotten.end(digest.at, step.answer);
  }
  return step;
}

// What the owner of a log elsewhere reports of it, after the verb.
struct LogReport {
  LogDigest digest;
  Ticks wait = 0;            // if the cost is denied
  bool refunded = false;     // whether a refund has changed the log
  std::uint64_t stored = 0;  // units before a charge: see answer_and_add()
};

// Answers from a report. The owner makes the change.
constexpr Step<LogReport> step(Action action, const Limit& limit, const Kept<LogReport>& kept,
                               Ticks now, std::uint64_t cost) noexcept {
  if (action.verb == Verb::kReset) return {untouched(limit), Change::kErase, now, {}};
  const bool is_known = !kept.forgotten.is_past(now);
  const LogReport report = is_known ? kept.state : LogReport{.digest = {.at = now}};
  if (action.verb == Verb::kRefund) cost = 0;
  const auto wait = [&](std::uint64_t) { return report.wait; };
  std::uint64_t added = 0;
  Step<LogReport> step{
      answer_and_add(action.verb, limit, report.digest, report.stored, cost, wait, added),
      Change::kNone, report.digest.at, report};
  const bool is_changed = report.refunded || added > 0;
  if (is_known && !is_changed) kept.forgotten.end(report.digest.at, step.answer);
  return step;
}
static_assert(StepFunction<decltype(step), LogReport, LogReport>);

// A log in one piece of the caller's memory: this header, then room for summaries, then room for
// entries. Entries start at `head`, so that old ones leave without a move. Plain memory without a
// destructor.
struct LogBuffer {
  Ticks last = 0;               // instant of the last change
  std::uint64_t log_units = 0;  // of all entries
  std::uint32_t summary_room = 0;
  std::uint32_t summaries = 0;
  std::uint32_t entry_room = 0;
  std::uint32_t entries = 0;
  std::uint32_t head = 0;

  static std::size_t bytes_for(std::size_t summary_count, std::size_t entry_count) noexcept {
    return sizeof(LogBuffer) + summary_count * sizeof(Summary) + entry_count * sizeof(LogEntry);
  }
  std::size_t bytes() const noexcept { return bytes_for(summary_room, entry_room); }

  Summary* summary_begin() noexcept { return reinterpret_cast<Summary*>(this + 1); }
  LogEntry* entry_begin() noexcept {
    return reinterpret_cast<LogEntry*>(summary_begin() + summary_room);
  }
  Log view() noexcept {
    return {{summary_begin(), summaries}, {entry_begin() + head, entries}, log_units, last};
  }

  // Copies a log that fits.
  void copy(LogBuffer& from) noexcept;
  // Whether write() has room. If the entries reach the end of their room, write() moves them to the
  // front only if a quarter is free there, so that its cost is O(1) on average.
  bool has_room(const NextLog& next) const noexcept;
  // Makes the next log, which was decided at `at`. There must be room for it.
  void write(const NextLog& next, Ticks at) noexcept;
  // Whether merge() makes room for `next`: there is room for two entries, or two summaries.
  bool can_merge(const NextLog& next) const noexcept {
    return (next.summarizes ? summary_room : entry_room) >= 2;
  }
  // Makes room for `next` without more memory: drops what has expired, and merges the entries (or
  // summaries) of a slice of time into one at the newest instant of the slice
  // (docs/reference/algorithms.md). The log must be decided again, because `next` is about the
  // entries before.
  void merge(const NextLog& next, const Limit& limit) noexcept;

 private:
  void merge_entries(std::uint64_t slice_ticks) noexcept;
  void merge_summaries(std::uint64_t slice_ticks) noexcept;
  void drop_expired(const NextLog& next) noexcept;
  void summarize() noexcept;
  void add(Ticks at, const NextLog& next) noexcept;
  void give_back(std::uint64_t units) noexcept;
};
static_assert(sizeof(LogBuffer) == 40);

// Returns the bytes that the log of one counter can take in memory: an entry for each unit, room to
// grow, and the log before its last growth. 0 if the limit has no log.
std::size_t most_log_bytes(const Limit& limit) noexcept;

}  // namespace sluice::core

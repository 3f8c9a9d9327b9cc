#include "stores/memory/request.h"

#include <algorithm>
#include <new>

namespace sluice::memory {
namespace {

bool all_admit(std::span<const Counter> counters) noexcept {
  return std::all_of(counters.begin(), counters.end(), [](const Counter& c) { return c.admits(); });
}

bool all_ready(std::span<const Counter> counters) noexcept {
  return std::all_of(counters.begin(), counters.end(),
                     [](const Counter& c) { return c.is_ready(); });
}

bool refuse_new(std::span<Counter> counters) noexcept {
  bool any = false;
  for (Counter& c : counters) any |= c.refuse_new();
  return any;
}

// Ensures that no write can fail. If that is impossible, throws or returns false.
bool prepare_writes(std::span<Counter> counters) {
  for (Counter& c : counters) {
    if (c.writes() && !c.is_found()) c.insert();
  }
  for (Counter& c : counters) c.find_again();
  for (Counter& c : counters) {
    if (c.writes() && !c.make_room()) return false;
  }
  return true;
}

// Like prepare_writes(), but if that is impossible, changes nothing and returns false.
bool prepare_or_undo(std::span<Counter> counters) noexcept {
  try {
    if (prepare_writes(counters)) return true;
  } catch (const std::bad_alloc&) {
    // The result reports it.
  }
  for (Counter& c : counters) c.undo();
  return false;
}

// Returns the units that every charge of the counters can have.
std::uint64_t units_for_each(std::span<Counter> counters) noexcept {
  std::uint64_t units = kMaxUnits;
  for (Counter& c : counters) {
    c.find();
    c.take_for_each(0);
    c.look(Verb::kPeek);
    units = std::min(units, c.most_for_each());
  }
  return units;
}

// Answers a request that is denied. Its denials count for blocks, unless a block denies it.
void deny(Verb verb, std::span<Counter> counters) noexcept {
  const bool is_blocked = std::any_of(counters.begin(), counters.end(),
                                      [](const Counter& c) { return c.is_blocked(); });
  if (takes(verb) && !is_blocked) {
    for (Counter& c : counters) c.deny();
  }
  for (Counter& c : counters) c.leave_untaken();
}

Reason decide(Action action, std::span<Counter> counters) noexcept {
  for (Counter& c : counters) {
    c.find();
    c.look(action);
  }
  if (asks(action.verb)) {
    for (Counter& c : counters) c.look_at_block();
  }
  // A release ends the permit in those counters in which it is live.
  if (action.verb != Verb::kRelease && !all_admit(counters)) {
    deny(action.verb, counters);
    return Reason::kOk;
  }
  if (refuse_new(counters)) return Reason::kStoreFull;
  if (!all_ready(counters)) {
    if (!prepare_or_undo(counters)) return Reason::kStoreError;
    // A hybrid whose summaries were merged may count more units than before.
    if (!all_admit(counters)) {
      for (Counter& c : counters) c.undo();
      deny(action.verb, counters);
      return Reason::kOk;
    }
  }
  for (Counter& c : counters) c.write();
  return Reason::kOk;
}

// Takes the same number of units for every charge: as many as all can have.
Reason take_at_most(std::span<Counter> counters) noexcept {
  const bool asks_for_nothing = std::any_of(counters.begin(), counters.end(),
                                            [](const Counter& c) { return c.asks_for_nothing(); });
  const std::uint64_t units = asks_for_nothing ? 0 : units_for_each(counters);
  for (Counter& c : counters)
    c.take_for_each(asks_for_nothing ? 0 : std::max<std::uint64_t>(units, 1));
  const Reason failed = decide(Verb::kTake, counters);
  if (failed == Reason::kOk && all_admit(counters)) {
    for (Counter& c : counters) c.note_taken(static_cast<std::uint32_t>(units));
  }
  return failed;
}

}  // namespace

Reason carry_out(Action action, std::span<Counter> counters) noexcept {
  const Reason failed =
      action.verb == Verb::kTakeAtMost ? take_at_most(counters) : decide(action, counters);
  for (Counter& c : counters) c.leave();
  return failed;
}

}  // namespace sluice::memory

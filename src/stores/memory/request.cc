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
                     [](const Counter& c) { return !c.is_charged() || c.is_ready(); });
}

// Makes every write certain; throws or answers false where one is not.
bool prepare_writes(std::span<Counter> counters) {
  for (Counter& c : counters) {
    if (c.is_charged() && c.is_found()) c.pin();
  }
  for (Counter& c : counters) {
    if (c.is_charged() && !c.is_found()) c.insert();
  }
  for (Counter& c : counters) {
    if (c.is_charged() && !c.make_window()) return false;
  }
  return true;
}

// As prepare_writes(), or leaves everything as it was and answers false.
bool prepare_or_undo(std::span<Counter> counters) noexcept {
  try {
    if (prepare_writes(counters)) return true;
  } catch (const std::bad_alloc&) {
    // Told by the answer.
  }
  for (Counter& c : counters) c.unpin();
  return false;
}

bool take_all(std::span<Counter> counters) noexcept {
  if (!all_admit(counters)) {
    for (Counter& c : counters) c.describe_untaken();
    return true;
  }
  if (!all_ready(counters) && !prepare_or_undo(counters)) return false;
  for (Counter& c : counters) {
    if (c.is_charged()) c.write();
  }
  return true;
}

// Makes every refund certain, or answers false.
bool prepare_refunds(std::span<Counter> counters) noexcept {
  for (Counter& c : counters) {
    c.find();
    if (c.gives_back()) c.pin();
  }
  bool is_certain = true;
  try {
    for (Counter& c : counters) is_certain = is_certain && (!c.is_pinned() || c.make_grid());
  } catch (const std::bad_alloc&) {
    is_certain = false;
  }
  for (Counter& c : counters) c.unpin();
  return is_certain;
}

void begin(Verb verb, Counter& c) noexcept {
  c.find();
  switch (verb) {
    case Verb::kTake:
    case Verb::kPeek: return c.look();
    case Verb::kRefund: return c.give_back();
    case Verb::kReset: return c.forget();
  }
}

}  // namespace

bool carry_out(Verb verb, std::span<Counter> counters) noexcept {
  if (verb == Verb::kRefund && !prepare_refunds(counters)) return false;
  for (Counter& c : counters) begin(verb, c);
  if (verb == Verb::kTake) return take_all(counters);
  if (verb == Verb::kPeek && !all_admit(counters)) {
    for (Counter& c : counters) c.describe_untaken();
  }
  return true;
}

}  // namespace sluice::memory

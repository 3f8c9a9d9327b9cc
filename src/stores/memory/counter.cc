#include "stores/memory/counter.h"

#include <algorithm>
#include <limits>
#include <new>

namespace sluice::memory {

namespace counter = core::sliding_window_counter;
namespace hybrid_log = core::sliding_window_hybrid;
namespace plain_log = core::sliding_window_log;

namespace {
constexpr core::Ticks kFarAway = std::numeric_limits<core::Ticks>::max();
}

void Counter::find() noexcept {
  slot = shard->find(key);
  forgotten_from = slot ? slot->state.forgotten_from() : kFarAway;
  is_forgotten = slot && slot->state.is_forgotten(now);
  if (!is_forgotten) return;
  forgotten_from = kFarAway;
  if (core::has_fixed_size(limit->algorithm())) return;  // its slot serves the next state
  shard->erase(*slot);
  slot = nullptr;
}

void Counter::look() noexcept {
  read();
  if (quote.admitted && cost > 0) return;
  // What the numbers say of the state as it stands ends where the state does. That is before its
  // time only under other numbers than it was written under.
  quote.wait = std::min(quote.wait, forgotten_from - now);
  numbers.reset_after = std::min(numbers.reset_after, forgotten_from - now);
}

void Counter::read() noexcept {
  if (core::has_fixed_size(limit->algorithm())) return look_at_state();
  return is_log() ? look_at_log() : look_at_slices();
}

void Counter::look_at_state() noexcept {
  const bool is_known = slot != nullptr && !is_forgotten;
  at = core::advance(*limit, is_known ? slot->state.state() : core::State{.last = now}, now);
  now = at.last;
  quote = core::quote(*limit, at, cost);
  numbers = core::describe(*limit, quote.admitted ? core::take(at, cost) : at);
  if (core::is_queue(*limit) && quote.admitted) {
    delay = Duration{core::leaky_bucket::delay(*limit, at)};
  }
}

counter::View Counter::slices_view() noexcept {
  const counter::Grid grid(*limit);
  SliceBlob* const blob = slot ? slot->state.slices() : nullptr;
  if (blob == nullptr) return counter::advance(grid, {{}, now}, now);
  if (blob->grid() == grid) return counter::advance(grid, {blob->counts(), blob->last}, now);
  // Under a new grid, all that counted at the last change counts in the slice of that change.
  const counter::Grid old = blob->grid();
  const counter::View then = counter::advance(old, {blob->counts(), blob->last}, blob->last);
  converted = static_cast<std::uint32_t>(
      std::min(counter::used(old, limit->weighting(), then), kMaxUnits));
  return counter::advance(grid, {{&converted, 1}, blob->last}, now);
}

void Counter::look_at_slices() noexcept {
  const counter::View view = slices_view();
  now = view.at;
  quote = cost == 0 ? core::admitted() : counter::quote(*limit, view, cost);
  numbers = counter::describe(*limit, view, quote.admitted ? cost : 0);
}

core::Hybrid Counter::hybrid() noexcept {
  LogBlob* const blob = slot ? slot->state.log() : nullptr;
  return blob ? blob->view() : core::Hybrid{{}, {{}, 0, now}};
}

void Counter::look_at_log() noexcept {
  const core::Hybrid held = hybrid();
  const hybrid_log::View view = hybrid_log::advance(*limit, held, now);
  now = view.at();
  if (cost == 0) {
    quote = core::admitted();
  } else {
    quote = is_hybrid() ? hybrid_log::quote(*limit, held, view, cost)
                        : plain_log::quote(*limit, held.log, view.log, cost);
  }
  const std::uint64_t taken = quote.admitted ? cost : 0;
  numbers = is_hybrid() ? hybrid_log::describe(*limit, held, view, taken)
                        : plain_log::describe(*limit, held.log, view.log, taken);
}

void Counter::describe_untaken() noexcept {
  delay.reset();
  if (!quote.admitted || cost == 0) return;
  const core::Quote quoted = quote;
  cost = 0;
  look();
  delay.reset();
  quote = quoted;
}

void Counter::pin() noexcept {
  saved_expiry = slot->state.expiry;
  slot->state.expiry = PackedState::kPinned;
  is_pinned = true;
}

void Counter::insert() {
  slot = &shard->find_or_insert(key, now);
  is_new = true;
  pin();
}

void Counter::unpin() noexcept {
  if (!is_pinned) return;
  find();
  if (is_new) return shard->erase(*slot);
  slot->state.expiry = saved_expiry;
}

bool Counter::make_window() {
  if (core::has_fixed_size(limit->algorithm())) return true;
  return is_log() ? make_log() : make_slices();
}

bool Counter::make_slices() {
  SliceBlob* const old = slot->state.slices();
  if (old != nullptr && old->grid() == counter::Grid(*limit)) return true;
  const core::Ticks last = old ? old->last : now;
  const std::uint32_t carried = converted;
  SliceBlob* const blob = shard->make_slices(*slot, *limit, last);
  if (blob == nullptr) return false;
  blob->counts()[0] = carried;
  return true;
}

bool Counter::make_log() {
  LogBlob* const blob = slot->state.log();
  const core::Hybrid held = hybrid();
  const bool for_summary =
      is_hybrid() && hybrid_log::begins_slice(*limit, held, hybrid_log::advance(*limit, held, now));
  if (blob != nullptr && blob->has_room(for_summary)) return true;
  return shard->make_room_in_log(*slot, *limit, now) != nullptr;
}

void Counter::store(const core::State& state, core::Ticks reset_after) noexcept {
  slot->state.set_state(state);
  slot->state.set_expiry(now + reset_after);
}

void Counter::write() noexcept {
  if (core::has_fixed_size(limit->algorithm())) {
    return store(core::take(at, cost), numbers.reset_after);
  }
  slot->state.set_expiry(now + numbers.reset_after);
  if (!is_log()) {
    SliceBlob* const blob = slot->state.slices();
    counter::take(slices_view(), cost, blob->counts());
    blob->last = now;
    return;
  }
  LogBlob* const blob = slot->state.log();
  const core::Hybrid held = blob->view();
  const hybrid_log::View view = hybrid_log::advance(*limit, held, now);
  const bool begins_slice = is_hybrid() && hybrid_log::begins_slice(*limit, held, view);
  blob->drop_expired(view);
  if (begins_slice) {
    const core::Hybrid live = blob->view();
    blob->push_summary(hybrid_log::summarize(live, hybrid_log::advance(*limit, live, now)));
  }
  blob->push_units(now, static_cast<std::uint32_t>(cost));
}

void Counter::give_back() {
  const std::uint64_t units = cost;
  cost = 0;
  look();
  delay.reset();
  if (slot == nullptr || is_forgotten || units == 0) return;
  bool has_changed = false;
  if (core::has_fixed_size(limit->algorithm())) {
    has_changed = give_back_state(units);
  } else {
    has_changed = is_log() ? give_back_log(units) : give_back_slices(units);
  }
  if (!has_changed) return;
  forgotten_from = kFarAway;
  look();
  delay.reset();
  slot->state.set_expiry(now + numbers.reset_after);
}

bool Counter::give_back_state(std::uint64_t units) noexcept {
  if (!core::holds_anything(*limit, at)) return false;
  slot->state.set_state(core::give_back(*limit, at, units));
  return true;
}

bool Counter::give_back_slices(std::uint64_t units) {
  const counter::View view = slices_view();
  if (counter::used(counter::Grid(*limit), limit->weighting(), view) == 0) return false;
  // Counts on another grid are carried over first, and need another piece of memory.
  if (slot->state.slices()->grid() != counter::Grid(*limit)) {
    pin();
    const bool made = make_slices();
    slot->state.expiry = saved_expiry;
    if (!made) throw std::bad_alloc();
  }
  SliceBlob* const blob = slot->state.slices();
  counter::take(slices_view(), 0, blob->counts());
  counter::give_back(blob->counts(), units);
  blob->last = now;
  return true;
}

bool Counter::give_back_log(std::uint64_t units) noexcept {
  LogBlob* const blob = slot->state.log();
  const hybrid_log::View view = hybrid_log::advance(*limit, blob->view(), now);
  if (view.units == 0) return false;
  blob->drop_expired(view);
  blob->give_back(now, units);
  return true;
}

void Counter::forget() noexcept {
  if (slot != nullptr) shard->erase(*slot);
  numbers = {.remaining = limit->capacity(), .reset_after = 0};
  quote = core::admitted();
}

Decision Counter::decision() const noexcept {
  Decision d{.limit = limit->capacity(),
             .remaining = numbers.remaining,
             .reset_after = Duration{numbers.reset_after},
             .delay = delay};
  if (quote.admitted) return d;
  d.outcome = Outcome::kDenied;
  d.reason = quote.never ? Reason::kNever : Reason::kLimited;
  if (!quote.never) d.retry_after = Duration{quote.wait};
  return d;
}

}  // namespace sluice::memory

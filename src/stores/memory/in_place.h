#pragma once

#include "stores/memory/counter.h"

namespace sluice::memory {

// A counter that is known already and has room for what comes, taken from where it is: Counter in
// short, for the requests of which there are most. All algorithms but the two that keep a log.
//
// Its members have no values before begin() and look(). Those are inlined by force: a request of
// one charge then keeps them in registers.
struct InPlace {
  Fingerprint key;
  Shard* shard;
  Slot* slot;
  core::State at;                           // fixed size: the state at the instant
  core::sliding_window_counter::View view;  // sliding counter: likewise
  core::Quote quote;
  bool is_ending;  // whether what the slot holds ends early, as it is of other numbers

  static bool serves(Algorithm algorithm) noexcept {
    return core::has_fixed_size(algorithm) || algorithm == Algorithm::kSlidingWindowCounter;
  }

  void begin(Fingerprint fingerprint, Shard& home) noexcept {
    key = fingerprint;
    shard = &home;
  }

  // Whether the cost fits at `now` is in `quote`. False where there is more to do than that.
  [[gnu::always_inline]] bool look(const Charge& charge, core::Ticks now) noexcept {
    slot = shard->find(key);
    if (slot == nullptr) return false;
    if (!core::has_fixed_size(charge.limit.algorithm())) return look_at_slices(charge, now);
    core::State stored = slot->state.state();
    // What is forgotten is untouched by its own numbers, and needs no look at the time under them;
    // that would be a branch as good as random, on memory that has just been fetched.
    is_ending = stored.tag != core::tag_of(charge.limit);
    if (is_ending && slot->state.is_forgotten(now)) {
      is_ending = false;
      stored = core::State{.last = now};
    }
    at = core::advance(charge.limit, stored, now);
    quote = core::quote(charge.limit, at, charge.cost);
    return true;
  }

  // Takes the cost, if the request is `admitted`, and answers.
  [[gnu::always_inline]] void finish(const Charge& charge, bool admitted,
                                     Decision& decision) noexcept {
    const bool is_state = core::has_fixed_size(charge.limit.algorithm());
    const bool takes = admitted && charge.cost > 0;
    const core::Numbers numbers =
        is_state ? finish_state(charge, takes) : finish_slices(charge, takes);
    answer(charge.limit, quote, numbers, decision);
    if (admitted && core::is_queue(charge.limit)) {
      decision.delay = Duration{core::leaky_bucket::delay(charge.limit, at)};
    }
  }

 private:
  bool look_at_slices(const Charge& charge, core::Ticks now) noexcept {
    namespace counter = core::sliding_window_counter;
    const counter::Grid grid(charge.limit);
    SliceBlob* const blob = slot->state.slices();
    if (blob == nullptr || blob->grid() != grid || slot->state.is_forgotten(now)) return false;
    is_ending = true;  // its limit may have been another
    view = counter::advance(grid, charge.limit.weighting(), {blob->counts(), blob->last}, now);
    quote = charge.cost == 0 ? core::admitted() : counter::quote(charge.limit, view, charge.cost);
    return true;
  }

  [[gnu::always_inline]] core::Numbers finish_state(const Charge& charge, bool takes) noexcept {
    if (!takes) return unchanged(core::describe(charge.limit, at), at.last);
    const core::State next = core::take(at, charge.cost);
    const core::Numbers numbers = core::describe(charge.limit, next);
    slot->state.set_state(next);
    slot->state.set_expiry(next.last + numbers.reset_after);
    return numbers;
  }

  core::Numbers finish_slices(const Charge& charge, bool takes) noexcept {
    namespace counter = core::sliding_window_counter;
    if (!takes) return unchanged(counter::describe(charge.limit, view, 0), view.at);
    const core::Numbers numbers = counter::describe(charge.limit, view, charge.cost);
    SliceBlob* const blob = slot->state.slices();
    counter::take(view, charge.cost, blob->counts());
    blob->last = view.at;
    slot->state.set_expiry(view.at + numbers.reset_after);
    return numbers;
  }

  core::Numbers unchanged(core::Numbers numbers, core::Ticks now) noexcept {
    if (is_ending) slot->state.forgotten().end(now, quote, numbers);
    return numbers;
  }
};

}  // namespace sluice::memory

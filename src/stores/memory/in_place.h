#pragma once

#include "stores/memory/counter.h"

namespace sluice::memory {

// A counter that exists and has room for a take. Most requests have only such counters; they are
// decided and written where they are. Logs are left to Counter.
//
// The members have no values before begin() and look(). Both are inlined by force: a request of one
// charge then keeps the members in registers.
struct InPlace {
  Fingerprint key;
  Shard* shard;
  Slot* slot;
  core::Change change;
  core::Ticks at;  // slices: the instant of the next counts
  union {
    core::Answer answer;
  };
  union {
    core::State next_state;
    core::NextSlices next_slices;
  };

  InPlace() noexcept {}

  static bool serves(const Limit& limit) noexcept { return !core::has_log(limit); }

  void begin(Fingerprint fingerprint, Shard& home) noexcept {
    key = fingerprint;
    shard = &home;
  }

  // Decides a take. Returns false if the counter is missing or needs memory.
  [[gnu::always_inline]] bool look(const Charge& charge, core::Ticks now) noexcept {
    slot = shard->find(key);
    if (slot == nullptr) return false;
    if (core::has_fixed_size(charge.limit)) {
      keep(core::step(Verb::kTake, charge.limit, kept_state(), now, charge.cost), next_state);
      return true;
    }
    SliceBlob* const blob = slot->state.slices();
    if (blob == nullptr || blob->grid() != core::SliceGrid(charge.limit)) return false;
    keep(core::step(Verb::kTake, charge.limit, kept_slices(), now, charge.cost), next_slices);
    return true;
  }

  // Writes the next state if the whole request is `admitted`, and the answer.
  [[gnu::always_inline]] void finish(const Charge& charge, core::Ticks now, bool admitted,
                                     Decision& decision) noexcept {
    if (!admitted && answer.admitted) {
      answer = core::has_fixed_size(charge.limit) ? core::untaken(charge.limit, kept_state(), now)
                                                  : core::untaken(charge.limit, kept_slices(), now);
    } else if (change == core::Change::kWrite) {
      write(charge.limit);
    }
    core::write(charge.limit, answer, decision);
  }

 private:
  core::Kept<core::State> kept_state() const noexcept {
    return {slot->state.state(), slot->state.forgotten()};
  }
  core::Kept<core::Slices> kept_slices() const noexcept {
    return {slot->state.slices()->view(), slot->state.forgotten()};
  }

  template <typename Next>
  [[gnu::always_inline]] void keep(const core::Step<Next>& step, Next& next) noexcept {
    answer = step.answer;
    change = step.change;
    at = step.at;
    next = step.next;
  }

  [[gnu::always_inline]] void write(const Limit& limit) noexcept {
    slot->state.set_forgotten(core::Forgotten::after(at + answer.reset_after));
    if (core::has_fixed_size(limit)) return slot->state.set_state(next_state);
    SliceBlob* const blob = slot->state.slices();
    next_slices.write(blob->counts());
    blob->last = at;
  }
};

}  // namespace sluice::memory

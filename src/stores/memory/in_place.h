#pragma once

#include <type_traits>

#include "stores/memory/counter.h"

namespace sluice::memory {

// A counter that exists and has room for a take. Most requests have only such counters; they are
// decided and written in their slots, without the lock of the shard. Counter decides logs and
// permits.
//
// The members have no values before begin() and look(). Both are inlined by force: a request of one
// charge then keeps the members in registers.
struct InPlace {
  Fingerprint key;
  Shard* shard;
  Slot* slot;
  std::uint32_t expiry;  // of the slot, from look() to finish() or leave()
  union {
    core::Step<core::State> step;
    core::Step<core::NextSlices> slices_step;
  };

  InPlace() noexcept {}  // NOLINT(modernize-use-equals-default): a union cannot have a default

  bool admits() const noexcept { return step.answer.admitted; }

  static bool serves(const Limit& limit) noexcept {
    return core::has_fixed_size(limit) || limit.state_kind() == StateKind::kSlices;
  }
  // Whether the charge's block matters: the key has one, or this may be a denial that counts. Under
  // the lock of the shard.
  bool needs_block(const Charge& charge) const noexcept {
    return charge.block != nullptr && (!admits() || shard->blocks.contains(key));
  }

  // Decides what takes or counts units, except for several takes of at most so many. Returns false
  // if the counter is missing or needs memory; or, if it `gives_up`, because another thread holds
  // it.
  [[gnu::always_inline]] bool look(Action action, const Charge& charge, core::Ticks now,
                                   bool gives_up = false) noexcept {
    slot = shard->take(key, gives_up, expiry);
    if (slot == nullptr) return false;
    if (core::has_fixed_size(charge.limit)) {
      if (!core::take_quickly(action.verb, charge.limit, slot->state.state(), now, charge.cost,
                              step)) {
        look_in_full(action, charge, now);
      }
      return true;
    }
    SliceBlob* const blob = slot->state.slices();
    if (blob == nullptr || blob->grid() != core::SliceGrid(charge.limit)) {
      leave();
      return false;
    }
    slices_step = core::step(action, charge.limit, kept_slices(), now, charge.cost);
    return true;
  }

  // Writes the next state, if there is one, and the answer.
  [[gnu::always_inline]] void finish(const Charge& charge, Decision& decision) noexcept {
    if (step.change == core::Change::kWrite) write(charge.limit);
    leave();
    core::write(charge.limit, step.answer, decision);
  }
  // As above, if another counter denies the request.
  void finish_untaken(const Charge& charge, core::Ticks now, Decision& decision) noexcept {
    if (admits()) {
      step.answer = core::has_fixed_size(charge.limit)
                        ? core::untaken(charge.limit, kept_state(), now, step, charge.cost)
                        : core::untaken(charge.limit, kept_slices(), now);
    }
    leave();
    core::write(charge.limit, step.answer, decision);
  }

  void leave() noexcept { slot->state.leave(expiry); }

 private:
  [[gnu::noinline]] void look_in_full(Action action, const Charge& charge,
                                      core::Ticks now) noexcept {
    step = core::step(action, charge.limit, kept_state(), now, charge.cost);
  }
  core::Kept<core::State> kept_state() const noexcept {
    return {slot->state.state(), PackedState::forgotten_of(expiry)};
  }
  core::Kept<core::Slices> kept_slices() const noexcept {
    return {slot->state.slices()->view(), PackedState::forgotten_of(expiry)};
  }

  [[gnu::always_inline]] void write(const Limit& limit) noexcept {
    expiry = PackedState::expiry_of(step.forgotten());
    if (core::has_fixed_size(limit)) return slot->state.set_state(step.next);
    SliceBlob* const blob = slot->state.slices();
    slices_step.next.write(blob->counts());
    blob->last = slices_step.at;
  }
};
// Writes the answer to a request whose charges are all admitted: combine(), without reading what
// was just written.
inline void combine_admitted(std::span<const Charge> charges, std::span<const InPlace> counters,
                             Decision& all) noexcept {
  std::size_t tightest = 0;
  core::Answer answer = counters.front().step.answer;
  for (std::size_t i = 1; i < counters.size(); ++i) {
    const core::Answer& one = counters[i].step.answer;
    answer.over |= one.over;
    answer.delay = std::max(answer.delay, one.delay);
    if (one.remaining >= answer.remaining) continue;
    tightest = i;
    answer.remaining = one.remaining;
    answer.reset_after = one.reset_after;
    answer.taken = one.taken;
  }
  core::write(charges[tightest].limit, answer, all);
}

// So the members before `next` can be read for every kind of step.
static_assert(std::is_standard_layout_v<core::Step<core::State>>);
static_assert(std::is_standard_layout_v<core::Step<core::NextSlices>>);

// Writes the step of a counter of fixed size that this thread holds, and its answer, and ends that.
[[gnu::always_inline]] inline void finish(Slot& slot, std::uint32_t expiry,
                                          const core::Step<core::State>& step, const Limit& limit,
                                          Decision& decision) noexcept {
  if (step.change == core::Change::kWrite) {
    expiry = PackedState::expiry_of(step.forgotten());
    slot.state.set_state(step.next);
  }
  slot.state.leave(expiry);
  core::write(limit, step.answer, decision);
}

[[gnu::noinline]] inline void apply_in_full(Slot& slot, std::uint32_t expiry, Action action,
                                            const Charge& charge, core::Ticks now,
                                            Decision& decision) noexcept {
  const core::Kept kept{slot.state.state(), PackedState::forgotten_of(expiry)};
  finish(slot, expiry, core::step(action, charge.limit, kept, now, charge.cost), charge.limit,
         decision);
}

// Applies what takes or counts units to the only counter of a request, which has a fixed size and
// is held by this thread.
[[gnu::always_inline]] inline void apply(Slot& slot, std::uint32_t expiry, Action action,
                                         const Charge& charge, core::Ticks now,
                                         Decision& decision) noexcept {
  core::Step<core::State> step;
  if (core::take_quickly(action.verb, charge.limit, slot.state.state(), now, charge.cost, step))
      [[likely]] {
    return finish(slot, expiry, step, charge.limit, decision);
  }
  apply_in_full(slot, expiry, action, charge, now, decision);
}

// Makes a take, a release or an extension of one permit where its counter is. Returns false, with
// nothing changed, if the counter is missing or has no room.
inline bool change_permit(Shard& shard, const Fingerprint& key, Action action, const Charge& charge,
                          core::Ticks now, Decision& decision) noexcept {
  std::uint32_t expiry = 0;
  Slot* const slot = shard.take(key, false, expiry);
  if (slot == nullptr) return false;
  core::PermitBuffer* const blob = slot->state.permits();
  bool has_room = blob != nullptr;
  if (has_room) {
    core::Permits permits = blob->view();
    permits.asked = charge.permit;
    const core::Step<core::NextPermits> step =
        core::step(action, charge.limit, core::Kept{permits, PackedState::forgotten_of(expiry)},
                   now, charge.cost);
    if (step.change == core::Change::kWrite) {
      has_room = blob->has_room(step.next);
      if (has_room) {
        blob->write(step.next, step.at);
        expiry = PackedState::expiry_of(step.forgotten());
      }
    }
    if (has_room) core::write(charge.limit, step.answer, decision);
  }
  slot->state.leave(expiry);
  return has_room;
}

}  // namespace sluice::memory

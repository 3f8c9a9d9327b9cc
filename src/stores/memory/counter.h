#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>

#include "core/algorithms.h"
#include "limiter/answer.h"
#include "sluice/store.h"
#include "stores/memory/shard.h"

namespace sluice::memory {

// One counter of a request: the sum of all charges on it, and the answer of core. The steps, under
// the lock of the shard:
//   find()   finds the slot and pins it, so that no other thread uses or drops it
//   look()   asks core for the answer and the next state; changes nothing
//   insert(), find_again(), make_room()  ensure that a write cannot fail
//   write()  stores the next state, if every counter of the request admits
//   leave()  ends the pin
//
// The members have no values before begin(): a request has up to 64 counters, and most have few.
class Counter {
 public:
  Counter() noexcept {}  // NOLINT(modernize-use-equals-default): a union cannot have a default

  void begin(Fingerprint fingerprint, Shard& home, const Charge& charge, core::Ticks now) noexcept;

  const Fingerprint& key() const noexcept { return key_; }
  const Limit& limit() const noexcept { return charge_->limit; }
  // Whether another charge on the counter may be of the same request.
  bool agrees_with(const Charge& other) const noexcept;
  Shard* shard() const noexcept { return shard_; }
  bool admits() const noexcept { return answer_.admitted && !is_blocked(); }
  // Whether write() needs the slot and memory.
  bool writes() const noexcept { return change_ == core::Change::kWrite; }
  bool is_found() const noexcept { return slot_ != nullptr; }
  // Refuses a charge that must not create the counter, and says so from then on.
  bool refuse_new() noexcept;
  bool is_refused() const noexcept { return is_refused_; }
  // Whether write() has all the memory that it needs.
  bool is_ready() const noexcept;
  // Adds another charge on the counter. A sum beyond all limits stays beyond them.
  void add(const Charge& charge) noexcept;
  // kTakeAtMost: the most units that each of the charges can have, after a peek of nothing; how
  // many each takes; and that they have been taken.
  bool asks_for_nothing() const noexcept { return least_cost_ == 0; }
  std::uint64_t most_for_each() const noexcept;
  void take_for_each(std::uint64_t units) noexcept { cost_ = units * charges_; }
  void note_taken(std::uint32_t units) noexcept { answer_.taken = units; }

  // Drops a window that is forgotten at the instant. Does nothing if the slot has been found.
  void find() noexcept;
  void look(Action action) noexcept;
  // Answers without taking units, because another limit denies the request. Nothing is written.
  void leave_untaken() noexcept;

  // Looks whether the key is blocked; counts a denial, which may block it; blocks or unblocks it by
  // hand, and returns false if memory is exhausted.
  void look_at_block() noexcept;
  void deny() noexcept;
  bool change_block(Action action) noexcept;
  // Whether its block denies the request.
  bool is_blocked() const noexcept { return block_.left > 0 && asked_ > 0; }

  // Makes the slot if it is missing, which may move other slots; finds the slot where it is then;
  // makes room for the write. The first and the last throw std::bad_alloc; make_room() returns
  // false if the bytes for windows do not suffice for a new one. A log that cannot grow is merged,
  // and the answer may change. undo() undoes all three, except for that.
  void insert();
  void find_again() noexcept;
  bool make_room();
  void undo() noexcept;

  void write() noexcept;
  // After write(), or instead of it. Does nothing more the second time.
  void leave() noexcept;

  void answer(Decision& decision) const noexcept {
    core::write(limit(), answer_, decision);
    core::write(block_, asked_, decision);
  }

 private:
  core::Forgotten forgotten() const noexcept;
  template <typename Next>
  void keep(const core::Step<Next>& step, Next& next) noexcept;
  core::Slices slices() noexcept;
  core::Permits permits() const noexcept;
  void write_next() noexcept;

  Fingerprint key_;
  Shard* shard_;
  const Charge* charge_;
  std::uint64_t cost_;
  bool gives_back_;           // the cost
  std::uint64_t least_cost_;  // of its charges
  std::uint32_t charges_;
  core::Ticks now_;  // of the request
  Duration max_wait_;
  Slot* slot_;  // null: the counter is untouched
  Verb verb_;
  core::Change change_;
  bool is_new_;  // by insert()
  bool is_refused_;
  std::uint32_t converted_;  // slices: all units that count, if the grid has changed
  std::uint32_t expiry_;     // of the slot
  core::Answer answer_;
  core::BlockAnswer block_;
  std::uint64_t asked_;  // the cost for which the block was looked at
  core::Forgotten next_forgotten_;
  core::Ticks at_;  // the instant of the next state
  union {
    // NOLINTBEGIN(readability-identifier-naming): clang-tidy takes them for public
    core::State next_state_;
    core::NextSlices next_slices_;
    core::NextLog next_log_;
    core::NextPermits next_permits_;
    // NOLINTEND(readability-identifier-naming)
  };
};

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

  // Decides what takes or counts units, except for several partial takes. Returns false
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

// Applies an action to all counters of one request or to none, under the locks of their shards.
// Returns kOk; or kStoreError if the store has no memory, or kStoreFull if a counter must not be
// created (Counter::is_refused()): then nothing was taken or given back.
Reason carry_out(Action action, std::span<Counter> counters) noexcept;

// Locks the shards of one request, each once and in their order, so that two requests never wait
// for each other. `shard_of` returns the shard of an element, or null for none.
template <std::size_t N>
class Locks {
 public:
  template <typename Elements, typename ShardOf>
  Locks(const Elements& elements, ShardOf shard_of) noexcept {
    for (const auto& element : elements) add(shard_of(element));
    for (std::size_t i = 0; i < count_; ++i) shards_[i]->mutex.lock();
  }
  ~Locks() {
    for (std::size_t i = count_; i > 0; --i) shards_[i - 1]->mutex.unlock();
  }
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

 private:
  // Inserts a shard in order, unless it is there already. Most requests have two or three.
  void add(Shard* shard) noexcept {
    if (shard == nullptr) return;
    if constexpr (N == 1) {
      shards_[count_++] = shard;
      return;
    }
    std::size_t at = count_;
    while (at > 0 && std::less<>{}(shard, shards_[at - 1])) --at;
    if (at > 0 && shards_[at - 1] == shard) return;
    for (std::size_t i = count_; i > at; --i) shards_[i] = shards_[i - 1];
    shards_[at] = shard;
    ++count_;
  }

  std::array<Shard*, N> shards_;
  std::size_t count_ = 0;
};

}  // namespace sluice::memory

#pragma once

#include <cstddef>
#include <cstdint>
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
class Counter {
 public:
  Counter(Fingerprint fingerprint, Shard& home, const Charge& charge, core::Ticks now) noexcept
      : key_(fingerprint),
        shard_(&home),
        charge_(&charge),
        cost_(charge.cost),
        gives_back_(charge.gives_back),
        least_cost_(charge.cost),
        now_(now) {}

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
  void note_taken(std::uint64_t units) noexcept { answer_.taken = units; }

  // Drops a window that is forgotten at the instant. Does nothing if the slot has been found.
  void find() noexcept;
  void look(Action action) noexcept;
  // Answers without taking units, because another limit denies the request. Nothing is written.
  void leave_untaken() noexcept;

  // Of budgets in a row, after look(): see choose_in_row().
  bool is_alternative() const noexcept { return charge_->alternative; }
  bool chooses(Verb verb) const noexcept { return sluice::chooses(verb, *charge_); }
  bool is_alone() const noexcept { return charges_ == 1; }
  bool knows_id() const noexcept { return next_budget_.knows_id; }
  void pass_over() noexcept;
  void wait_less(const Counter& other) noexcept { core::wait_less(other.answer_, answer_); }

  // Looks whether the key is blocked; counts a denial, which may block it; blocks or unblocks it by
  // hand, takes nothing from then on, and returns false if memory is exhausted.
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
    decision.passed_over = is_passed_over_;
  }

 private:
  core::Forgotten forgotten() const noexcept;
  template <typename Next>
  void keep(const core::Step<Next>& step, Next& next) noexcept;
  core::Slices slices() noexcept;
  core::Permits permits() const noexcept;
  core::Budget budget() const noexcept;
  void record() const noexcept;
  void write_next() noexcept;

  Fingerprint key_;
  Shard* shard_;
  const Charge* charge_;
  std::uint64_t cost_;
  bool gives_back_;           // the cost
  std::uint64_t least_cost_;  // of its charges
  std::uint32_t charges_ = 1;
  core::Ticks now_;  // of the request
  Duration max_wait_{};
  Slot* slot_ = nullptr;  // null: the counter is untouched
  Verb verb_{};
  core::Change change_ = core::Change::kNone;
  bool is_new_ = false;  // by insert()
  bool is_refused_ = false;
  bool is_passed_over_ = false;
  std::uint32_t converted_ = 0;  // slices: all units that count, if the grid has changed
  std::uint32_t expiry_ = 0;     // of the slot
  core::Answer answer_;
  core::BlockAnswer block_;
  std::uint64_t asked_ = 0;  // the cost for which the block was looked at
  core::Forgotten next_forgotten_;
  core::Ticks at_ = 0;  // the instant of the next state
  union {
    // NOLINTBEGIN(readability-identifier-naming): clang-tidy takes them for public
    core::State next_state_ = {};
    core::NextSlices next_slices_;
    core::NextLog next_log_;
    core::NextPermits next_permits_;
    core::NextBudget next_budget_;
    // NOLINTEND(readability-identifier-naming)
  };
};

// A counter that exists and needs no more memory. Most requests have only such counters; they are
// decided and written in their slots, without the lock of the shard. Counter decides all else:
// logs, charges with a block, and verbs that neither take nor count units.
//
// `slot` and `expiry` have values from find() on, the other members from look() on.
struct InPlace {
  Fingerprint key;
  Slot* slot;
  std::uint32_t expiry;  // of the slot, from find() to finish() or leave()
  union {
    core::Step<core::State> step;
    core::Step<core::NextSlices> slices_step;
    core::Step<core::NextPermits> permits_step;
    core::Step<core::NextBudget> budget_step;
  };

  InPlace() noexcept {}  // NOLINT(modernize-use-equals-default): a union cannot have a default

  static bool serves(Action action, const Charge& charge) noexcept {
    const Verb verb = action.verb;
    if (charge.block != nullptr || charge.gives_back) return false;
    switch (charge.limit.state_kind()) {
      case StateKind::kBucket:
      case StateKind::kWindow:
      case StateKind::kSlices: return takes(verb) || verb == Verb::kCharge;
      case StateKind::kPermits:
        return charge.permit != nullptr && (takes(verb) || changes_permit(verb));
      case StateKind::kBudget:
        return verb_fits(action, charge) &&
               (takes(verb) || counts_work(verb) || verb == Verb::kExtend);
      case StateKind::kLog:
      case StateKind::kLogAndSummaries: break;
    }
    return false;
  }

  // Decides a take from the counts of a sliding counter that is held, and leaves it; `step` has the
  // answer. Returns false if it needs other memory, or nothing is asked; the counter stays held.
  [[gnu::always_inline]] static bool take_slices(Slot& slot, std::uint32_t expiry,
                                                 const Charge& charge, core::Ticks now,
                                                 core::Step<core::NextSlices>& step) noexcept {
    SliceBlob* const blob = slot.state.slices();
    const core::Forgotten forgotten = PackedState::forgotten_of(expiry);
    if (blob == nullptr || !(blob->grid() == core::SliceGrid(charge.limit)) ||
        forgotten.is_past(now) || charge.cost == 0) {
      return false;
    }
    core::sliding_window_counter::make_take(charge.limit, {blob->view(), forgotten}, now,
                                            charge.cost, step);
    if (step.change == core::Change::kWrite) {
      step.next.write(blob->counts());
      blob->last = step.at;
      expiry = PackedState::expiry_of(step.forgotten());
    }
    slot.state.leave(expiry);
    return true;
  }
  // Finds the counter and holds it. Returns false if it is missing or, if it `gives_up`, because
  // another thread holds it.
  [[gnu::always_inline]] bool find(Shard& shard, bool gives_up = false) noexcept {
    slot = shard.take(key, gives_up, expiry);
    return slot != nullptr;
  }
  // Decides what takes or counts units, except for several partial takes. Returns false if the
  // counter needs memory or its memory is of another kind; it stays held.
  [[gnu::always_inline]] bool look(Action action, const Charge& charge, core::Ticks now) noexcept {
    if (!core::has_fixed_size(charge.limit)) {
      const StateKind kind = charge.limit.state_kind();
      if (kind == StateKind::kSlices) return look_at_slices(action, charge, now);
      return kind == StateKind::kPermits ? look_at_permits(action, charge, now)
                                         : look_at_budget(action, charge, now);
    }
    if (!core::take_quickly(action.verb, charge.limit, slot->state.state(), now, charge.cost,
                            step)) {
      look_in_full(action, charge, now);
    }
    return true;
  }
  bool admits() const noexcept { return step.answer.admitted; }

  // Takes nothing, because another counter denies the request. Not for permits and budgets.
  void untake(const Charge& charge, core::Ticks now) noexcept {
    if (admits()) {
      step.answer =
          core::has_fixed_size(charge.limit)
              ? core::untaken(charge.limit, kept(slot->state.state()), now, step, charge.cost)
              : core::untaken(charge.limit, kept(slot->state.slices()->view()), now);
    }
    step.change = core::Change::kNone;
  }
  // Writes the next state, if there is one, and the answer.
  Decision finish(const Charge& charge) noexcept {
    if (step.change == core::Change::kWrite) write(charge.limit);
    leave();
    return core::decision_of(charge.limit, step.answer);
  }
  void leave() noexcept { slot->state.leave(expiry); }

  // Decides the counter of most requests, the only one of its request: of fixed size, and held.
  // Keeps all in registers.
  [[gnu::always_inline]] static Decision take(Slot& slot, std::uint32_t expiry, Action action,
                                              const Charge& charge, core::Ticks now) noexcept {
    core::Step<core::State> step;
    if (!core::take_quickly(action.verb, charge.limit, slot.state.state(), now, charge.cost, step))
        [[unlikely]] {
      return take_in_full(slot, expiry, action, charge, now);
    }
    if (step.change == core::Change::kWrite) {
      expiry = PackedState::expiry_of(step.forgotten());
      slot.state.set_state(step.next);
    }
    slot.state.leave(expiry);
    return core::decision_of(charge.limit, step.answer);
  }

 private:
  template <typename State>
  core::Kept<State> kept(const State& state) const noexcept {
    return {state, PackedState::forgotten_of(expiry)};
  }
  // Has the step made where it is kept. An assignment would copy fields just written.
  template <typename Step, typename State>
  [[gnu::always_inline]] void make(Step& made, Action action, const Charge& charge,
                                   const State& state, core::Ticks now) const noexcept {
    ::new (static_cast<void*>(&made))
        Step(core::step(action, charge.limit, kept(state), now, charge.cost));
  }

  [[gnu::noinline]] static Decision take_in_full(Slot& slot, std::uint32_t expiry, Action action,
                                                 const Charge& charge, core::Ticks now) noexcept {
    InPlace counter;
    counter.slot = &slot;
    counter.expiry = expiry;
    counter.look_in_full(action, charge, now);
    return counter.finish(charge);
  }
  [[gnu::noinline]] void look_in_full(Action action, const Charge& charge,
                                      core::Ticks now) noexcept {
    make(step, action, charge, slot->state.state(), now);
  }
  // The blob may be of another kind than the limit: a snapshot can contain any.
  bool look_at_slices(Action action, const Charge& charge, core::Ticks now) noexcept {
    SliceBlob* const blob = slot->state.slices();
    const bool serves = blob != nullptr && blob->grid() == core::SliceGrid(charge.limit);
    if (serves) {
      core::sliding_window_counter::make_step(action, charge.limit, kept(blob->view()), now,
                                              charge.cost, slices_step);
    }
    return serves;
  }
  [[gnu::noinline]] bool look_at_permits(Action action, const Charge& charge,
                                         core::Ticks now) noexcept {
    core::PermitBuffer* const blob = slot->state.permits();
    bool has_room = blob != nullptr;
    if (has_room) {
      core::Permits view = blob->view();
      view.asked = charge.permit;
      make(permits_step, action, charge, view, now);
      has_room = permits_step.change != core::Change::kWrite || blob->has_room(permits_step.next);
    }
    return has_room;
  }
  // A counter that is forgotten is made again elsewhere.
  [[gnu::noinline]] bool look_at_budget(Action action, const Charge& charge,
                                        core::Ticks now) noexcept {
    core::BudgetBuffer* const blob = slot->state.budget();
    if (blob == nullptr || PackedState::forgotten_of(expiry).is_past(now)) return false;
    make(budget_step, action, charge, blob->view(charge.permit), now);
    if (budget_step.change == core::Change::kErase) return false;
    return budget_step.change != core::Change::kWrite || blob->has_room(budget_step.next);
  }

  void write(const Limit& limit) noexcept {
    expiry = PackedState::expiry_of(step.forgotten());
    if (core::has_fixed_size(limit)) return slot->state.set_state(step.next);
    if (core::BudgetBuffer* const blob = slot->state.budget()) {
      expiry = PackedState::expiry_of(budget_step.forgotten());
      return blob->write(budget_step.next, budget_step.at);
    }
    if (SliceBlob* const blob = slot->state.slices()) {
      slices_step.next.write(blob->counts());
      blob->last = slices_step.at;
    } else {
      slot->state.permits()->write(permits_step.next, permits_step.at);
    }
  }
};

// So the members before `next` can be read for every kind of step.
static_assert(std::is_standard_layout_v<core::Step<core::State>>);
static_assert(std::is_standard_layout_v<core::Step<core::NextSlices>>);
static_assert(std::is_standard_layout_v<core::Step<core::NextPermits>>);
static_assert(std::is_standard_layout_v<core::Step<core::NextBudget>>);

// Applies an action to all counters of one request or to none, under the locks of their shards.
// Returns kOk; or kStoreError if the store has no memory, or kStoreFull if a counter must not be
// created (Counter::is_refused()): then nothing was taken or given back.
Reason carry_out(Action action, std::span<Counter> counters) noexcept;

}  // namespace sluice::memory

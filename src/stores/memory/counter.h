#pragma once

#include <cstdint>

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

}  // namespace sluice::memory

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <ostream>
#include <utility>
#include <vector>

#include "core/algorithms.h"

// For tests: single counters that take core's steps as a store does, but are never forgotten.
namespace sluice::core {

inline std::ostream& operator<<(std::ostream& out, const Answer& a) {
  out << (a.over       ? "over"
          : a.admitted ? "ok"
          : a.never    ? "never"
          : a.gone     ? "gone"
          : a.conflict ? "conflict"
          : a.too_many ? "too many, wait " + std::to_string(a.wait)
                       : "wait " + std::to_string(a.wait));
  out << ", remaining " << a.remaining << ", reset after " << a.reset_after;
  if (a.taken > 0) out << ", taken " << a.taken;
  if (a.repeated) out << ", repeated";
  if (a.late) out << ", late";
  if (a.ends_after > 0) out << ", ends after " << a.ends_after;
  return a.delay == Answer::kNoDelay ? out : out << ", delay " << a.delay;
}

constexpr Answer ok(std::uint64_t remaining, Ticks reset_after) {
  return {admitted(), {remaining, reset_after}};
}
constexpr Answer wait(std::uint64_t wait, std::uint64_t remaining, Ticks reset_after) {
  return {denied_for(wait), {remaining, reset_after}};
}
constexpr Answer over(Ticks reset_after) {
  Answer answer = ok(0, reset_after);
  answer.over = true;
  return answer;
}
constexpr Answer taken(std::uint64_t units, std::uint64_t remaining, Ticks reset_after) {
  Answer answer = ok(remaining, reset_after);
  answer.taken = units;
  return answer;
}
constexpr Answer delayed(Ticks delay, std::uint64_t remaining, Ticks reset_after) {
  Answer answer = ok(remaining, reset_after);
  answer.delay = delay;
  return answer;
}
constexpr Answer refused(std::uint64_t remaining, Ticks reset_after) {
  return {never(), {remaining, reset_after}};
}

inline constexpr Forgotten kNeverForgotten{Forgotten::kNever};

class FixedSize {
 public:
  constexpr explicit FixedSize(const Limit& limit) : limit_(limit) {}

  constexpr Answer take(Ticks now, std::uint64_t cost = 1) { return apply(Verb::kTake, now, cost); }
  constexpr Answer refund(Ticks now, std::uint64_t cost) { return apply(Verb::kRefund, now, cost); }
  Answer charge(Ticks now, std::uint64_t cost) { return apply(Verb::kCharge, now, cost); }
  Answer take_at_most(Ticks now, std::uint64_t cost) { return apply(Verb::kTakeAtMost, now, cost); }
  Answer reserve(Ticks now, std::uint64_t cost, Ticks max_wait) {
    return apply({Verb::kReserve, Duration{max_wait}}, now, cost);
  }
  constexpr Answer peek(Ticks now, std::uint64_t cost = 0) const {
    return step(Verb::kPeek, limit_, {state_, kNeverForgotten}, now, cost).answer;
  }
  // Changes the numbers of the limit; the consumed units stay.
  constexpr void become(const Limit& limit) { limit_ = limit; }
  constexpr const State& state() const { return state_; }

 private:
  constexpr Answer apply(Action action, Ticks now, std::uint64_t cost) {
    const Step<State> step = core::step(action, limit_, {state_, kNeverForgotten}, now, cost);
    if (step.change == Change::kWrite) state_ = step.next;
    return step.answer;
  }

  Limit limit_;
  State state_;
};

// Counts by slice in a vector.
class SliceCounter {
 public:
  explicit SliceCounter(const Limit& limit) : limit_(limit), counts_(limit.slices() + 1) {}

  Answer take(Ticks now, std::uint64_t cost = 1) { return apply(Verb::kTake, now, cost); }
  Answer refund(Ticks now, std::uint64_t cost) { return apply(Verb::kRefund, now, cost); }
  Answer charge(Ticks now, std::uint64_t cost) { return apply(Verb::kCharge, now, cost); }
  Answer take_at_most(Ticks now, std::uint64_t cost) { return apply(Verb::kTakeAtMost, now, cost); }
  Answer reserve(Ticks now, std::uint64_t cost, Ticks max_wait) {
    return apply({Verb::kReserve, Duration{max_wait}}, now, cost);
  }
  Answer peek(Ticks now, std::uint64_t cost = 0) const {
    return step(Verb::kPeek, limit_, kept(), now, cost).answer;
  }
  // For a limit with the same slices.
  void become(const Limit& limit) { limit_ = limit; }
  const std::vector<std::uint32_t>& counts() const { return counts_; }

 private:
  Kept<Slices> kept() const { return {{counts_, last_, SliceGrid(limit_)}, kNeverForgotten}; }
  Answer apply(Action action, Ticks now, std::uint64_t cost) {
    const Step<NextSlices> step = core::step(action, limit_, kept(), now, cost);
    if (step.change == Change::kWrite) {
      step.next.write(counts_);
      last_ = step.at;
    }
    return step.answer;
  }

  Limit limit_;
  std::vector<std::uint32_t> counts_;
  Ticks last_ = 0;
};

// A log in a buffer with room for 100 summaries and 10,000 entries.
class LogCounter {
 public:
  explicit LogCounter(const Limit& limit)
      : limit_(limit),
        memory_(LogBuffer::bytes_for(kSummaries, kEntries) / sizeof(std::max_align_t) + 1),
        buffer_(new(memory_.data()) LogBuffer) {
    buffer_->summary_room = kSummaries;
    buffer_->entry_room = kEntries;
  }

  Answer take(Ticks now, std::uint64_t cost = 1) { return apply(Verb::kTake, now, cost); }
  Answer refund(Ticks now, std::uint64_t cost) { return apply(Verb::kRefund, now, cost); }
  Answer charge(Ticks now, std::uint64_t cost) { return apply(Verb::kCharge, now, cost); }
  Answer take_at_most(Ticks now, std::uint64_t cost) { return apply(Verb::kTakeAtMost, now, cost); }
  Answer reserve(Ticks now, std::uint64_t cost, Ticks max_wait) {
    return apply({Verb::kReserve, Duration{max_wait}}, now, cost);
  }
  Answer peek(Ticks now, std::uint64_t cost = 0) const {
    return step(Verb::kPeek, limit_, {buffer_->view(), kNeverForgotten}, now, cost).answer;
  }
  void become(const Limit& limit) { limit_ = limit; }
  std::span<const Summary> older() const { return buffer_->view().older; }
  std::size_t entries() const { return buffer_->entries; }

 private:
  static constexpr std::uint32_t kSummaries = 100;
  static constexpr std::uint32_t kEntries = 10000;

  Answer apply(Action action, Ticks now, std::uint64_t cost) {
    const Step<NextLog> step =
        core::step(action, limit_, {buffer_->view(), kNeverForgotten}, now, cost);
    if (step.change == Change::kWrite) buffer_->write(step.next, step.at);
    return step.answer;
  }

  Limit limit_;
  std::vector<std::max_align_t> memory_;
  LogBuffer* buffer_;
};

// Permits in a buffer with room for 1000. The id of a permit is its number.
class PermitCounter {
 public:
  explicit PermitCounter(const Limit& limit)
      : limit_(limit),
        memory_(PermitBuffer::bytes_for(kPermits) / sizeof(std::max_align_t) + 1),
        buffer_(new(memory_.data()) PermitBuffer) {
    buffer_->room = kPermits;
  }

  static PermitId id_of(std::uint8_t permit) { return PermitId(PermitId::Bytes{permit}); }
  Answer take(Ticks now, std::uint8_t permit, std::uint64_t cost = 1) {
    return apply(Verb::kTake, now, permit, cost);
  }
  Answer take_at_most(Ticks now, std::uint8_t permit, std::uint64_t cost) {
    return apply(Verb::kTakeAtMost, now, permit, cost);
  }
  Answer reserve(Ticks now, std::uint8_t permit, std::uint64_t cost) {
    return apply({Verb::kReserve, kMaxWait}, now, permit, cost);
  }
  Answer release(Ticks now, std::uint8_t permit) { return apply(Verb::kRelease, now, permit, 1); }
  Answer extend(Ticks now, std::uint8_t permit) { return apply(Verb::kExtend, now, permit, 1); }
  Answer refund(Ticks now, std::uint64_t cost) { return apply(Verb::kRefund, now, 0, cost); }
  Answer peek(Ticks now, std::uint64_t cost = 0) const {
    return step(Verb::kPeek, limit_, Kept{buffer_->view(), kNeverForgotten}, now, cost).answer;
  }
  void become(const Limit& limit) { limit_ = limit; }
  std::span<const PermitEntry> entries() const { return buffer_->view().entries; }

 private:
  static constexpr std::uint32_t kPermits = 1000;

  Answer apply(Action action, Ticks now, std::uint8_t permit, std::uint64_t cost) {
    const PermitId id = id_of(permit);
    Permits permits = buffer_->view();
    permits.asked = &id;
    const Step<NextPermits> step =
        core::step(action, limit_, Kept{permits, kNeverForgotten}, now, cost);
    if (step.change == Change::kWrite) buffer_->write(step.next, step.at);
    return step.answer;
  }

  Limit limit_;
  std::vector<std::max_align_t> memory_;
  PermitBuffer* buffer_;
};

constexpr Answer gone(std::uint64_t remaining, Ticks reset_after) {
  Answer answer{{}, {remaining, reset_after}};
  answer.gone = true;
  return answer;
}

// A budget in a buffer that grows by one id at a time. The id of a hold is its number.
class BudgetCounter {
 public:
  explicit BudgetCounter(const Limit& limit) : limit_(limit) { grow(0, 0); }

  static PermitId id_of(std::uint8_t id) {
    return PermitId(PermitId::Bytes{1, 0, 0, 0, 0, 0, 0, id});
  }
  Answer take(Ticks now, std::uint64_t cost) { return apply(Verb::kTake, now, 0, cost); }
  Answer take(Ticks now, std::uint8_t id, std::uint64_t cost) {
    return apply(Verb::kTake, now, id, cost);
  }
  Answer hold(Ticks now, std::uint8_t id, std::uint64_t cost, Ticks ttl) {
    return apply({Verb::kHold, Duration{ttl}}, now, id, cost);
  }
  Answer settle(Ticks now, std::uint8_t id, std::uint64_t actual) {
    return apply(Verb::kSettle, now, id, actual);
  }
  Answer cancel(Ticks now, std::uint8_t id) { return apply(Verb::kCancel, now, id, 1); }
  Answer extend(Ticks now, std::uint8_t id, Ticks ttl) {
    return apply({Verb::kExtend, Duration{ttl}}, now, id, 1);
  }
  Answer charge(Ticks now, std::uint64_t cost, std::uint8_t id = 0) {
    return apply(Verb::kCharge, now, id, cost);
  }
  Answer refund(Ticks now, std::uint64_t cost) { return apply(Verb::kRefund, now, 0, cost); }
  Answer take_at_most(Ticks now, std::uint64_t cost) {
    return apply(Verb::kTakeAtMost, now, 0, cost);
  }
  Answer reserve(Ticks now, std::uint64_t cost) {
    return apply({Verb::kReserve, kMaxWait}, now, 0, cost);
  }
  Answer peek(Ticks now, std::uint64_t cost = 0) const { return without_units(look(now, cost)); }
  // Also says what is spent and held, which the other answers leave out.
  Answer look(Ticks now, std::uint64_t cost = 0) const {
    return step(Verb::kPeek, limit_, Kept{buffer_->view(nullptr), forgotten_}, now, cost).answer;
  }
  void become(const Limit& limit) { limit_ = limit; }
  Forgotten forgotten() const { return forgotten_; }
  std::size_t open() const { return buffer_->holds; }
  Ticks first() const { return buffer_->first; }

 private:
  static Answer without_units(Answer answer) {
    answer.spent = answer.held = 0;
    return answer;
  }
  Answer apply(Action action, Ticks now, std::uint8_t number, std::uint64_t cost) {
    const PermitId id = id_of(number);
    const PermitId* const asked = number > 0 ? &id : nullptr;
    Step<NextBudget> step =
        core::step(action, limit_, Kept{buffer_->view(asked), forgotten_}, now, cost);
    if (step.change != Change::kWrite) return without_units(step.answer);
    if (!buffer_->has_room(step.next)) {
      buffer_->forget(limit_, step.at);
      grow(buffer_->records + std::size_t{1}, buffer_->holds + std::size_t{1});
      step.next.place = nullptr;
    }
    buffer_->write(step.next, step.at);
    forgotten_ = step.forgotten();
    return without_units(step.answer);
  }
  void grow(std::size_t records, std::size_t holds) {
    const std::size_t room = BudgetBuffer::room_for(records);
    std::vector<std::max_align_t> memory(
        BudgetBuffer::bytes_for(room, holds) / sizeof(std::max_align_t) + 1);
    auto* const next = new (memory.data()) BudgetBuffer;
    next->record_room = static_cast<std::uint32_t>(room);
    next->hold_room = static_cast<std::uint32_t>(holds);
    std::fill_n(next->record_begin(), room, IdRecord{});
    if (buffer_ != nullptr) next->copy(*buffer_);
    memory_ = std::move(memory);
    buffer_ = next;
  }

  Limit limit_;
  std::vector<std::max_align_t> memory_;
  BudgetBuffer* buffer_ = nullptr;
  Forgotten forgotten_{Forgotten::kNever};
};

// Asserts that a cost is denied one tick before its wait has passed, and admitted then.
template <typename Counter>
void expect_exact_wait(const Counter& counter, Ticks now, std::uint64_t cost) {
  const Answer denied = counter.peek(now, cost);
  ASSERT_FALSE(denied.admitted || denied.never) << now << " " << cost;
  EXPECT_GT(denied.wait, 0);
  EXPECT_FALSE(counter.peek(now + denied.wait - 1, cost).admitted) << now << " " << cost;
  EXPECT_TRUE(counter.peek(now + denied.wait, cost).admitted) << now << " " << cost;
}

}  // namespace sluice::core

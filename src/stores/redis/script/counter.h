#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/algorithms.h"
#include "sluice/permit_id.h"
#include "sluice/store.h"
#include "stores/redis/script/families.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {

// One counter of a request: the charges on it, the argument for the script, and the decision that
// follows from the reply.
//
// A script returns the state that it found, and this class computes the decision from it with
// core, like every other store. For a log, which may be long, a script returns a few numbers.
class Counter {
 public:
  void begin(const Charge& charge);
  bool is_same(const Charge& charge) const noexcept;
  // Whether a charge on the same counter has the same limit, and the same permit if it needs one.
  bool agrees_with(const Charge& charge) const noexcept;
  // Adds the cost of another charge. A sum beyond all limits stays beyond them.
  void add(const Charge& charge) noexcept;

  const Limit& limit() const noexcept { return charge_->limit; }
  NewKeyLimit* new_keys() const noexcept { return charge_->new_keys; }
  const Family& family() const noexcept { return family_of(limit()); }
  std::uint64_t cost() const noexcept { return cost_; }  // of all charges
  bool gives_back() const noexcept { return gives_back_; }

  // kTakeAtMost: the least cost of a charge; how many charges there are; after decide({kPeek}, 0)
  // the most units that each can have; how many each takes; and that they have been taken.
  std::uint64_t least_cost() const noexcept { return least_cost_; }
  std::uint64_t charges() const noexcept { return charges_; }
  std::uint64_t most_for_each() const noexcept;
  void take_for_each(std::uint64_t units) noexcept { cost_ = units * charges_; }
  void note_taken(std::uint64_t units) noexcept;

  // Appends the argument for a script in which the family has this number.
  void append_argument(int number, std::uint64_t cost, std::string& out) const;
  // A limit with a calendar: appends the rest of the argument, which is the window of an instant
  // and the next one. `index` names the counter if the script needs others.
  void append_windows(std::size_t index, core::Ticks of, std::string& out) const;
  // The instant of the counter, after decide().
  core::Ticks at() const noexcept { return at_; }

  // Reads the counter's part of a reply to a request at `now`. Returns false if it is malformed.
  bool read(std::string_view bytes, core::Ticks now) noexcept;

  // Call this after read(). Makes the decision that the script has made, or another about what it
  // has found.
  void decide(Action action) noexcept {
    decide(gives_back_ ? Action(Verb::kRefund) : action, cost_);
  }
  void decide(Action action, std::uint64_t cost) noexcept;
  // Answers without taking units, because another limit denies the request.
  void leave_untaken() noexcept;

  // Returns whether the script has found nothing, so that a take has created the counter.
  bool is_new() const noexcept { return is_new_; }
  bool admits() const noexcept { return answer_.admitted; }
  // Whether it denies the charge now, and would admit it later.
  bool is_limited() const noexcept { return !answer_.admitted && !answer_.never && !answer_.gone; }
  void answer(Decision& decision) const noexcept;

 private:
  bool read_state(std::string_view bytes) noexcept;
  bool read_slices(std::string_view bytes) noexcept;
  bool read_log(std::string_view bytes) noexcept;
  bool read_permits(std::string_view bytes) noexcept;
  core::Answer decide_permits(Verb verb, std::uint64_t cost) const noexcept;

  const Charge* charge_ = nullptr;
  bool is_new_ = false;
  std::uint64_t cost_ = 0;
  bool gives_back_ = false;
  std::uint64_t least_cost_ = 0;
  std::uint64_t charges_ = 0;
  core::Ticks now_ = 0;  // of the request
  core::Ticks at_ = 0;
  PermitId permit_;
  // What the script has found. Only one of the four has a value, by the limit's kind.
  core::Forgotten forgotten_;
  core::State state_;
  std::vector<std::uint32_t> counts_;  // of `slices_`
  core::Slices slices_;
  core::LogReport log_;
  format::PermitsReply permits_;
  core::Answer answer_;
};

}  // namespace sluice::redis

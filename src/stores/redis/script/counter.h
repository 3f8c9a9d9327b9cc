#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fixed_size.h"
#include "core/sliding_window_counter.h"
#include "limiter/forgotten.h"
#include "sluice/store.h"
#include "stores/redis/script/scripts.h"

namespace sluice::redis {

// One counter of a request: the sum of the charges on it, the argument for the script, and the
// decision that follows from the reply.
//
// A script returns the state that it found, and this class computes the decision from it with
// core/, as every other store does. For a log, which may be long, it returns a few numbers.
class Counter {
 public:
  void begin(const Charge& charge);
  bool is_same(const Charge& charge) const noexcept;
  // A further charge on the counter. A sum beyond all limits stays beyond them.
  void add(std::uint64_t cost) noexcept;

  const Limit& limit() const noexcept { return charge_->limit; }
  Family family() const noexcept { return family_of(limit()); }
  std::uint64_t cost() const noexcept { return cost_; }

  // Appends the counter's argument for a script that knows its family by `number`.
  void append_argument(int number, std::string& out) const;
  // As above, to give back what the take took whose reply was read.
  void append_undo_argument(int number, std::string& out) const;

  // Reads the counter's part of a reply made at `now`. Returns false if it is malformed.
  bool read(std::string_view said, core::Ticks now) noexcept;

  // After read(): what a verb answers. look() is for kTake and kPeek.
  void look() noexcept;
  // As the limit stands without the cost, which some other limit denied.
  void describe_untaken() noexcept;
  void refund() noexcept;
  void reset() noexcept;

  bool admits() const noexcept { return quote_.admitted; }
  void answer(Decision& decision) const noexcept;

 private:
  bool is_log() const noexcept {
    return family() == Family::kSlidingWindowLog || family() == Family::kSlidingWindowHybrid;
  }
  bool read_state(std::string_view said) noexcept;
  bool read_slices(std::string_view said) noexcept;
  bool read_log(std::string_view said) noexcept;
  // All numbers, for that cost.
  void look_for(std::uint64_t cost) noexcept;
  void look_at_state(std::uint64_t cost) noexcept;
  void look_at_slices(std::uint64_t cost) noexcept;
  void look_at_log(std::uint64_t cost) noexcept;
  core::sliding_window_counter::View slices_view() noexcept;
  bool give_back() noexcept;
  bool give_back_slices() noexcept;

  const Charge* charge_ = nullptr;
  std::uint64_t cost_ = 0;
  core::Ticks now_ = 0;  // of the request
  core::Ticks at_ = 0;   // of the counter, after look()
  // What was known of it.
  bool is_known_ = false;
  Forgotten forgotten_{0};
  core::State state_;     // of fixed size
  core::Ticks last_ = 0;  // slices: of the last change
  core::sliding_window_counter::Grid grid_{1, 1};
  std::vector<std::uint32_t> counts_;  // slices, the newest first
  std::uint32_t converted_ = 0;
  std::uint64_t log_units_ = 0;  // a log: that count, the newest instant, the wait if denied
  core::Ticks log_newest_ = 0;
  core::Ticks log_wait_ = 0;
  bool has_changed_ = false;  // a log: by a refund, which is what the above says
  // What that means.
  core::State at_state_;
  core::Quote quote_;
  core::Numbers numbers_;
  bool has_delay_ = false;
  core::Ticks delay_ = 0;
};

}  // namespace sluice::redis

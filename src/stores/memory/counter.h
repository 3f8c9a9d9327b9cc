#pragma once

#include <cstdint>
#include <optional>

#include "core/fixed_size.h"
#include "stores/memory/shard.h"

namespace sluice::memory {

// One counter of a request while it is decided: what all charges on it ask together, and what the
// limit answers. The steps, under the shard's lock:
//   look()   reads the state at the instant and says whether the cost fits; changes nothing
//   pin(), insert(), make_window()  make sure that a write cannot fail
//   write()  takes the cost, where every counter of the request admitted it
// and in their place give_back() or forget(). What other counters do to the shard in between may
// move `slot`: find() it again.
struct Counter {
  Fingerprint key;
  Shard* shard = nullptr;
  const Limit* limit = nullptr;
  std::uint64_t cost = 0;

  Slot* slot = nullptr;  // null where nothing is known of the counter
  core::State at;        // fixed size: the state at the instant
  core::Ticks now = 0;   // the instant of the request, and after look() of the counter
  bool is_forgotten = false;            // what the slot holds does not count any more
  core::Ticks forgotten_from = 0;       // where it does: until when
  std::uint32_t converted = 0;     // sliding counter: all that counts, where its grid has changed
  std::uint32_t saved_expiry = 0;  // while pinned
  bool is_pinned = false;
  bool is_new = false;  // by insert()

  core::Quote quote;
  core::Numbers numbers;  // with the cost where it is admitted, else as it is
  std::optional<Duration> delay;

  // Finds what is known of the counter, if it is not to be forgotten at `now`.
  void find() noexcept;
  void look() noexcept;
  // As the limit stands without the cost, which some other limit denied.
  void describe_untaken() noexcept;
  // Keeps what is there from being dropped; then makes what is not there, at the risk of moving
  // other slots; then makes room for the write. The last two throw std::bad_alloc, the last answers
  // false where the bytes for windows are exhausted; unpin() undoes whatever was done.
  void pin() noexcept;
  void insert();
  bool make_window();
  void unpin() noexcept;
  void write() noexcept;
  // Throws std::bad_alloc, and has changed nothing then.
  void give_back();
  void forget() noexcept;

  Decision decision() const noexcept;

 private:
  bool is_log() const noexcept {
    return limit->algorithm() == Algorithm::kSlidingWindowLog ||
           limit->algorithm() == Algorithm::kSlidingWindowHybrid;
  }
  bool is_hybrid() const noexcept { return limit->algorithm() == Algorithm::kSlidingWindowHybrid; }

  void read() noexcept;
  void look_at_state() noexcept;
  void look_at_slices() noexcept;
  void look_at_log() noexcept;
  core::sliding_window_counter::View slices_view() noexcept;
  core::Hybrid hybrid() noexcept;
  bool make_slices();
  bool make_log();
  void store(const core::State& state, core::Ticks reset_after) noexcept;
  // Whether anything was there to give back.
  bool give_back_state(std::uint64_t units) noexcept;
  bool give_back_slices(std::uint64_t units);
  bool give_back_log(std::uint64_t units) noexcept;
};

}  // namespace sluice::memory

#pragma once

#include <algorithm>
#include <cstdint>

#include "core/fixed_size.h"
#include "limiter/answer.h"
#include "sluice/store.h"
#include "stores/memory/shard.h"

namespace sluice::memory {

// One counter of a request while it is decided: what all charges on it ask together, and what the
// limit answers. The steps, under the shard's lock:
//   find()   finds what is known of it
//   look()   reads the state at the instant and says whether the cost fits; changes nothing
//   pin(), insert(), make_window()  make sure that a write cannot fail
//   write()  takes the cost, where every counter of the request admitted it
// and in the place of the last three give_back() or forget(). What other counters do to the shard
// in between may move `slot`: find() it again.
//
// Its members have no values before begin(): a request has up to 64, and most have few.
class Counter {
 public:
  void begin(Fingerprint fingerprint, Shard& home, const Charge& charge,
             core::Ticks instant) noexcept;

  const Fingerprint& key() const noexcept { return key_; }
  const Limit& limit() const noexcept { return *limit_; }
  Shard* shard() const noexcept { return shard_; }
  bool admits() const noexcept { return quote_.admitted; }
  // Whether an admitted request has something to write here.
  bool is_charged() const noexcept { return cost_ > 0; }
  bool is_found() const noexcept { return slot_ != nullptr; }
  bool is_pinned() const noexcept { return is_pinned_; }
  // Whether a write needs nothing that is not there.
  bool is_ready() const noexcept {
    return slot_ != nullptr && (core::has_fixed_size(limit_->algorithm()) || window_has_room());
  }
  // A further charge on the counter. A sum beyond all limits stays beyond them.
  void add(std::uint64_t cost) noexcept;

  // Drops a window that is to be forgotten at the instant.
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
  // Whether a refund may change anything. Where it may: pin(), then bring counts of slices onto the
  // limit's grid (as make_window(), at the same risk), then unpin(), and give_back() cannot fail.
  bool gives_back() const noexcept;
  bool make_grid();
  void give_back() noexcept;
  void forget() noexcept;

  void answer(Decision& decision) const noexcept;

 private:
  bool is_log() const noexcept {
    return limit_->algorithm() == Algorithm::kSlidingWindowLog || is_hybrid();
  }
  bool is_hybrid() const noexcept { return limit_->algorithm() == Algorithm::kSlidingWindowHybrid; }

  void read() noexcept;
  void read_state() noexcept;
  void read_slices() noexcept;
  void read_log() noexcept;
  core::sliding_window_counter::View slices_view() noexcept;
  core::Hybrid hybrid() const noexcept;
  bool is_on_grid(const SliceBlob& blob) const noexcept;
  bool window_has_room() const noexcept;
  void write_slices() noexcept;
  void write_log() noexcept;
  // Whether anything was there to give back.
  bool give_back_state(std::uint64_t units) noexcept;
  bool give_back_slices(std::uint64_t units) noexcept;
  bool give_back_log(std::uint64_t units) noexcept;

  Fingerprint key_;
  Shard* shard_;
  const Limit* limit_;
  std::uint64_t cost_;
  core::Ticks now_;  // the instant of the request, and after look() that of the counter
  Slot* slot_;       // null where nothing is known of the counter
  bool is_known_;    // whether what the slot holds still counts
  bool is_pinned_;
  bool is_new_;  // by insert()
  bool has_delay_;
  std::uint32_t converted_;  // sliding counter: all that counts, where its grid has changed
  std::uint32_t saved_expiry_;
  core::State at_;                           // fixed size: the state at the instant
  core::sliding_window_counter::View view_;  // sliding counter: likewise
  core::Quote quote_;
  core::Numbers numbers_;  // with the cost where it is admitted, else as it is
  core::Ticks delay_;
};

}  // namespace sluice::memory

#include "stores/memory/counter.h"

namespace sluice::memory {

namespace counter = core::sliding_window_counter;
namespace hybrid_log = core::sliding_window_hybrid;
namespace plain_log = core::sliding_window_log;

void Counter::begin(Fingerprint fingerprint, Shard& home, const Charge& charge,
                    core::Ticks instant) noexcept {
  key_ = fingerprint;
  shard_ = &home;
  limit_ = &charge.limit;
  cost_ = charge.cost;
  now_ = instant;
  slot_ = nullptr;
  is_known_ = is_pinned_ = is_new_ = has_delay_ = false;
  converted_ = 0;
}

void Counter::add(std::uint64_t cost) noexcept {
  if (__builtin_add_overflow(cost_, cost, &cost_)) cost_ = ~std::uint64_t{0};
}

void Counter::find() noexcept {
  slot_ = shard_->find(key_);
  is_known_ = slot_ != nullptr && !slot_->state.is_forgotten(now_);
  if (slot_ == nullptr || is_known_ || core::has_fixed_size(limit_->algorithm())) return;
  shard_->erase(*slot_);  // one of fixed size serves the next state
  slot_ = nullptr;
}

void Counter::look() noexcept {
  read();
  if (is_known_ && (!quote_.admitted || cost_ == 0))
    slot_->state.forgotten().end(now_, quote_, numbers_);
}

void Counter::read() noexcept {
  if (core::has_fixed_size(limit_->algorithm())) return read_state();
  return is_log() ? read_log() : read_slices();
}

void Counter::read_state() noexcept {
  at_ = core::advance(*limit_, is_known_ ? slot_->state.state() : core::State{.last = now_}, now_);
  now_ = at_.last;
  quote_ = core::quote(*limit_, at_, cost_);
  numbers_ = core::describe(*limit_, quote_.admitted ? core::take(at_, cost_) : at_);
  has_delay_ = core::is_queue(*limit_) && quote_.admitted;
  if (has_delay_) delay_ = core::leaky_bucket::delay(*limit_, at_);
}

bool Counter::is_on_grid(const SliceBlob& blob) const noexcept {
  return blob.grid() == counter::Grid(*limit_);
}

counter::View Counter::slices_view() noexcept {
  const counter::Grid grid(*limit_);
  const Weighting weighting = limit_->weighting();
  SliceBlob* const blob = slot_ ? slot_->state.slices() : nullptr;
  if (blob == nullptr) return counter::advance(grid, weighting, {{}, now_}, now_);
  const core::Slices held{blob->counts(), blob->last};
  if (is_on_grid(*blob)) return counter::advance(grid, weighting, held, now_);
  // Under a new grid, all that counted at the last change counts in the slice of that change.
  const counter::View then = counter::advance(blob->grid(), weighting, held, blob->last);
  converted_ = static_cast<std::uint32_t>(std::min(then.used, kMaxUnits));
  return counter::advance(grid, weighting, {{&converted_, 1}, blob->last}, now_);
}

void Counter::read_slices() noexcept {
  view_ = slices_view();
  now_ = view_.at;
  quote_ = cost_ == 0 ? core::admitted() : counter::quote(*limit_, view_, cost_);
  numbers_ = counter::describe(*limit_, view_, quote_.admitted ? cost_ : 0);
}

core::Hybrid Counter::hybrid() const noexcept {
  LogBlob* const blob = slot_ ? slot_->state.log() : nullptr;
  return blob ? blob->view() : core::Hybrid{{}, {{}, 0, now_}};
}

void Counter::read_log() noexcept {
  const core::Hybrid held = hybrid();
  const hybrid_log::View view = hybrid_log::advance(*limit_, held, now_);
  now_ = view.at();
  if (cost_ == 0) {
    quote_ = core::admitted();
  } else {
    quote_ = is_hybrid() ? hybrid_log::quote(*limit_, held, view, cost_)
                         : plain_log::quote(*limit_, held.log, view.log, cost_);
  }
  const std::uint64_t taken = quote_.admitted ? cost_ : 0;
  numbers_ = is_hybrid() ? hybrid_log::describe(*limit_, held, view, taken)
                         : plain_log::describe(*limit_, held.log, view.log, taken);
}

void Counter::describe_untaken() noexcept {
  if (quote_.admitted && cost_ > 0) {
    cost_ = 0;
    look();
  }
  has_delay_ = false;
}

void Counter::pin() noexcept {
  saved_expiry_ = slot_->state.expiry;
  slot_->state.expiry = PackedState::kPinned;
  is_pinned_ = true;
}

void Counter::insert() {
  slot_ = &shard_->find_or_insert(key_, now_);
  is_new_ = true;
  pin();
}

void Counter::unpin() noexcept {
  if (!is_pinned_) return;
  is_pinned_ = false;
  slot_ = shard_->find(key_);
  if (is_new_) return shard_->erase(*slot_);
  slot_->state.expiry = saved_expiry_;
}

bool Counter::window_has_room() const noexcept {
  if (!is_log()) {
    SliceBlob* const blob = slot_->state.slices();
    return blob != nullptr && is_on_grid(*blob);
  }
  LogBlob* const blob = slot_->state.log();
  if (blob == nullptr) return false;
  const core::Hybrid held = blob->view();
  const hybrid_log::View view = hybrid_log::advance(*limit_, held, now_);
  const bool for_summary = is_hybrid() && hybrid_log::begins_slice(*limit_, held, view);
  return blob->has_room(view, for_summary);
}

bool Counter::make_window() {
  slot_ = shard_->find(key_);  // others were inserted since
  if (core::has_fixed_size(limit_->algorithm()) || window_has_room()) return true;
  if (is_log()) return shard_->make_room_in_log(*slot_, *limit_, now_) != nullptr;
  SliceBlob* const old = slot_->state.slices();
  SliceBlob* const blob = shard_->make_slices(*slot_, *limit_, old ? old->last : now_);
  if (blob == nullptr) return false;
  blob->counts()[0] = converted_;
  view_ = slices_view();
  return true;
}

void Counter::write() noexcept {
  slot_->state.set_expiry(now_ + numbers_.reset_after);
  if (core::has_fixed_size(limit_->algorithm())) {
    slot_->state.set_state(core::take(at_, cost_));
  } else if (is_log()) {
    write_log();
  } else {
    write_slices();
  }
}

void Counter::write_slices() noexcept {
  SliceBlob* const blob = slot_->state.slices();
  counter::take(view_, cost_, blob->counts());
  blob->last = now_;
}

void Counter::write_log() noexcept {
  LogBlob* const blob = slot_->state.log();
  const core::Hybrid held = blob->view();
  const hybrid_log::View view = hybrid_log::advance(*limit_, held, now_);
  const bool begins_slice = is_hybrid() && hybrid_log::begins_slice(*limit_, held, view);
  blob->drop_expired(view);
  if (begins_slice) {
    const core::Hybrid live = blob->view();
    blob->push_summary(hybrid_log::summarize(live, hybrid_log::advance(*limit_, live, now_)));
  }
  blob->push_units(now_, static_cast<std::uint32_t>(cost_));
}

bool Counter::gives_back() const noexcept {
  return is_known_ && cost_ > 0 && limit_->capacity() > 0;
}

bool Counter::make_grid() {
  if (core::has_fixed_size(limit_->algorithm()) || is_log()) return true;
  view_ = slices_view();
  return view_.used == 0 || make_window();  // what gives nothing back changes nothing
}

void Counter::give_back() noexcept {
  const bool has_any = gives_back();
  const std::uint64_t units = cost_;
  cost_ = 0;
  look();
  has_delay_ = false;
  if (!has_any) return;
  bool has_changed = false;
  if (core::has_fixed_size(limit_->algorithm())) {
    has_changed = give_back_state(units);
  } else {
    has_changed = is_log() ? give_back_log(units) : give_back_slices(units);
  }
  if (!has_changed) return;
  read();
  has_delay_ = false;
  slot_->state.set_expiry(now_ + numbers_.reset_after);
}

bool Counter::give_back_state(std::uint64_t units) noexcept {
  if (!core::holds_anything(*limit_, at_)) return false;
  slot_->state.set_state(core::give_back(*limit_, at_, units));
  return true;
}

bool Counter::give_back_slices(std::uint64_t units) noexcept {
  if (view_.used == 0) return false;
  SliceBlob* const blob = slot_->state.slices();
  counter::take(view_, 0, blob->counts());
  counter::give_back(blob->counts(), units);
  blob->last = now_;
  return true;
}

bool Counter::give_back_log(std::uint64_t units) noexcept {
  LogBlob* const blob = slot_->state.log();
  const hybrid_log::View view = hybrid_log::advance(*limit_, blob->view(), now_);
  if (view.units == 0) return false;
  blob->drop_expired(view);
  blob->give_back(now_, units);
  return true;
}

void Counter::forget() noexcept {
  if (slot_ != nullptr) shard_->erase(*slot_);
  numbers_ = {.remaining = limit_->capacity(), .reset_after = 0};
  quote_ = core::admitted();
}

void Counter::answer(Decision& decision) const noexcept {
  core::answer(*limit_, quote_, numbers_, decision);
  if (has_delay_) decision.delay = Duration{delay_};
}

}  // namespace sluice::memory

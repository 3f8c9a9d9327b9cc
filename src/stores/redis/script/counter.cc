#include "stores/redis/script/counter.h"

#include <algorithm>

#include "limiter/answer.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {

namespace slices = core::sliding_window_counter;

void Counter::begin(const Charge& charge) {
  charge_ = &charge;
  cost_ = charge.cost;
  counts_.clear();
}

bool Counter::is_same(const Charge& charge) const noexcept {
  return charge_->limit.algorithm() == charge.limit.algorithm() && charge_->key == charge.key &&
         charge_->tag == charge.tag;
}

void Counter::add(std::uint64_t cost) noexcept {
  if (__builtin_add_overflow(cost_, cost, &cost_)) cost_ = ~std::uint64_t{0};
}

// --- what a script is sent ---

void Counter::append_argument(int number, std::string& out) const {
  const Limit& l = limit();
  const std::uint64_t cost = std::min(cost_, format::kCostBeyondAll);
  const std::uint64_t capacity = l.capacity();
  const auto period = static_cast<std::uint64_t>(l.period().count());
  format::kFamily.append({static_cast<std::uint64_t>(number)}, out);
  switch (family()) {
    case Family::kBucket:
      format::kBucketArgument.append(
          {cost, capacity, l.rate_units(), l.rate_ticks(), core::tag_of(l)}, out);
      break;
    case Family::kInterval:
      format::kIntervalArgument.append({cost, capacity, l.limit(), period, core::tag_of(l)}, out);
      break;
    case Family::kFixedWindow:
      format::kFixedWindowArgument.append(
          {cost, capacity, period, core::tag_of(l), l.align() == Align::kClock}, out);
      break;
    case Family::kSlidingWindowCounter:
      format::kSlicesArgument.append(
          {cost, capacity, period, l.slices(), l.weighting() == Weighting::kNone}, out);
      break;
    case Family::kSlidingWindowLog:
      format::kLogArgument.append({cost, capacity, period, 0}, out);
      break;
    case Family::kSlidingWindowHybrid:
      format::kLogArgument.append({cost, capacity, period, l.slices()}, out);
      break;
  }
}

void Counter::append_undo_argument(int number, std::string& out) const {
  append_argument(number, out);
  format::kInstant.append({static_cast<std::uint64_t>(at_)}, out);
}

// --- what it returns ---

bool Counter::read(std::string_view said, core::Ticks now) noexcept {
  now_ = at_ = now;
  is_known_ = has_changed_ = has_delay_ = false;
  converted_ = 0;
  log_units_ = 0;
  log_newest_ = log_wait_ = 0;
  if (said.empty()) return true;
  if (is_log()) return read_log(said);
  if (!(family() == Family::kSlidingWindowCounter ? read_slices(said) : read_state(said))) {
    return false;
  }
  is_known_ = !forgotten_.is_past(now);
  return true;
}

bool Counter::read_state(std::string_view said) noexcept {
  if (said.size() != format::kFixedState.size()) return false;
  const format::FixedState state = format::kFixedState.read(said);
  const bool is_window = family() == Family::kFixedWindow;
  state_.last = static_cast<core::Ticks>(state.changed);
  state_.aux = state.aux;
  state_.units = static_cast<std::uint32_t>(state.units);
  state_.tag = static_cast<std::uint32_t>(state.checksum);
  forgotten_ = Forgotten(static_cast<std::uint32_t>(state.forgotten));
  return state.kind == (is_window ? format::kFixedWindowKind : format::kBucketKind) &&
         state.changed < format::kEndOfInstants && state.aux < format::kEndOfSpans &&
         state_.last <= forgotten_.from();
}

bool Counter::read_slices(std::string_view said) noexcept {
  constexpr std::size_t kHead = format::kSlicesHead.size();
  constexpr std::size_t kCount = format::kSliceCount.size();
  if (said.size() < kHead || (said.size() - kHead) % kCount != 0) return false;
  const format::SlicesHead head = format::kSlicesHead.take(said);
  const std::size_t held = said.size() / kCount;
  if (head.kind != format::kSlicesKind || head.changed >= format::kEndOfInstants ||
      head.period >= format::kEndOfSpans || Duration{head.period} < kMinPeriod || head.slices < 1 ||
      head.slices > kMaxSlices || held > head.slices + 1) {
    return false;
  }
  forgotten_ = Forgotten(static_cast<std::uint32_t>(head.forgotten));
  last_ = static_cast<core::Ticks>(head.changed);
  if (last_ > forgotten_.from()) return false;
  grid_ = slices::Grid(head.period, head.slices);
  counts_.resize(held);
  for (std::uint32_t& count : counts_) {
    count = static_cast<std::uint32_t>(format::kSliceCount.take(said).value);
  }
  return true;
}

bool Counter::read_log(std::string_view said) noexcept {
  if (said.size() != format::kLogReply.size()) return false;
  const format::LogReply reply = format::kLogReply.read(said);
  log_units_ = reply.units;
  forgotten_ = Forgotten(static_cast<std::uint32_t>(reply.forgotten));
  has_changed_ = (reply.changed & 1) != 0;
  is_known_ = true;
  at_ = static_cast<core::Ticks>(reply.at);
  log_newest_ = static_cast<core::Ticks>(reply.newest);
  log_wait_ = static_cast<core::Ticks>(reply.wait);
  const auto period = static_cast<std::uint64_t>(limit().period().count());
  const bool is_live = reply.newest <= reply.at && reply.at - reply.newest < period;
  return reply.at < format::kEndOfInstants && at_ >= now_ && (log_units_ == 0 || is_live);
}

// --- what it means ---

void Counter::look() noexcept { look_for(cost_); }

void Counter::look_for(std::uint64_t cost) noexcept {
  has_delay_ = false;
  if (is_log()) {
    look_at_log(cost);
  } else if (family() == Family::kSlidingWindowCounter) {
    look_at_slices(cost);
  } else {
    look_at_state(cost);
  }
  if (is_known_ && (!quote_.admitted || cost == 0)) forgotten_.end(at_, quote_, numbers_);
}

void Counter::look_at_state(std::uint64_t cost) noexcept {
  const core::State stored = is_known_ ? state_ : core::State{.last = now_};
  at_state_ = core::advance(limit(), stored, now_);
  at_ = at_state_.last;
  quote_ = core::quote(limit(), at_state_, cost);
  numbers_ = core::describe(limit(), quote_.admitted ? core::take(at_state_, cost) : at_state_);
  has_delay_ = core::is_queue(limit()) && quote_.admitted;
  if (has_delay_) delay_ = core::leaky_bucket::delay(limit(), at_state_);
}

slices::View Counter::slices_view() noexcept {
  const slices::Grid grid(limit());
  const Weighting weighting = limit().weighting();
  if (!is_known_) return slices::advance(grid, weighting, {{}, now_}, now_);
  const core::Slices held{counts_, last_};
  if (grid_ == grid) return slices::advance(grid, weighting, held, now_);
  // Under a new grid, all that counted at the last change counts in the slice of that change.
  const slices::View then = slices::advance(grid_, weighting, held, last_);
  converted_ = static_cast<std::uint32_t>(std::min(then.used, kMaxUnits));
  return slices::advance(grid, weighting, {{&converted_, 1}, last_}, now_);
}

void Counter::look_at_slices(std::uint64_t cost) noexcept {
  const slices::View view = slices_view();
  at_ = view.at;
  quote_ = cost == 0 ? core::admitted() : slices::quote(limit(), view, cost);
  numbers_ = slices::describe(limit(), view, quote_.admitted ? cost : 0);
}

void Counter::look_at_log(std::uint64_t cost) noexcept {
  const std::uint64_t capacity = limit().capacity();
  if (cost > capacity) {
    quote_ = core::never();
  } else if (cost == 0 || log_units_ + cost <= capacity) {
    quote_ = core::admitted();
  } else {
    quote_ = core::denied_for(static_cast<std::uint64_t>(log_wait_));
  }
  const std::uint64_t taken = quote_.admitted ? cost : 0;
  const std::uint64_t used = log_units_ + taken;
  numbers_ = {static_cast<std::uint32_t>(used < capacity ? capacity - used : 0), 0};
  if (used == 0 || capacity == 0) return;
  const core::Ticks newest = taken > 0 ? at_ : log_newest_;
  numbers_.reset_after = newest + limit().period().count() - at_;
}

void Counter::describe_untaken() noexcept {
  if (quote_.admitted && cost_ > 0) look_for(0);
  has_delay_ = false;
}

void Counter::refund() noexcept {
  look_for(0);
  has_delay_ = false;
  if (!is_known_ || cost_ == 0 || limit().capacity() == 0) return;
  if (!give_back()) return;
  is_known_ = false;  // and what is said now is of a state just written
  has_delay_ = false;
}

// Whether anything was there to give back; then the numbers are those after it.
bool Counter::give_back() noexcept {
  if (is_log()) {
    if (has_changed_) look_at_log(0);
    return has_changed_;
  }
  if (family() == Family::kSlidingWindowCounter) return give_back_slices();
  if (!core::holds_anything(limit(), at_state_)) return false;
  numbers_ = core::describe(limit(), core::give_back(limit(), at_state_, cost_));
  return true;
}

bool Counter::give_back_slices() noexcept {
  const slices::View view = slices_view();
  if (view.used == 0) return false;
  std::vector<std::uint32_t> counts(limit().slices() + std::size_t{1});
  slices::take(view, 0, counts);
  slices::give_back(counts, cost_);
  const slices::Grid grid(limit());
  const slices::View after = slices::advance(grid, limit().weighting(), {counts, view.at}, view.at);
  numbers_ = slices::describe(limit(), after, 0);
  return true;
}

void Counter::reset() noexcept {
  numbers_ = {.remaining = limit().capacity(), .reset_after = 0};
  quote_ = core::admitted();
  has_delay_ = false;
}

void Counter::answer(Decision& decision) const noexcept {
  core::answer(limit(), quote_, numbers_, decision);
  if (has_delay_) decision.delay = Duration{delay_};
}

}  // namespace sluice::redis

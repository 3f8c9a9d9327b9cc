#include "stores/redis/script/counter.h"

#include <algorithm>

#include "limiter/answer.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {

void Counter::begin(const Charge& charge) {
  charge_ = &charge;
  cost_ = least_cost_ = charge.cost;
  charges_ = 1;
  counts_.clear();
}

bool Counter::is_same(const Charge& charge) const noexcept {
  return is_same_counter(*charge_, charge);
}

void Counter::add(std::uint64_t cost) noexcept {
  if (__builtin_add_overflow(cost_, cost, &cost_)) cost_ = ~std::uint64_t{0};
  least_cost_ = std::min(least_cost_, cost);
  ++charges_;
}

std::uint64_t Counter::most_for_each() const noexcept {
  return std::min(least_cost_, answer_.remaining / charges_);
}

void Counter::note_taken(std::uint64_t units) noexcept {
  answer_.taken = static_cast<std::uint32_t>(units);
}

// --- arguments of a script ---

void Counter::append_argument(int number, std::uint64_t cost, std::string& out) const {
  format::kFamily.append({static_cast<std::uint64_t>(number)}, out);
  family().append_argument(limit(), std::min(cost, format::kCostBeyondAll), out);
}

// --- replies ---

bool Counter::read(std::string_view bytes, core::Ticks now) noexcept {
  now_ = at_ = now;
  forgotten_ = {};
  state_ = {};
  slices_ = {{}, now, core::SliceGrid(limit())};
  is_new_ = bytes.empty();
  if (is_new_) return true;
  switch (limit().state_kind()) {
    case StateKind::kBucket:
    case StateKind::kWindow: return read_state(bytes);
    case StateKind::kSlices: return read_slices(bytes);
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return read_log(bytes);
    case StateKind::kPermits: break;
  }
  return false;
}

bool Counter::read_state(std::string_view bytes) noexcept {
  if (bytes.size() != format::kFixedState.size()) return false;
  const format::FixedState state = format::kFixedState.read(bytes);
  const bool is_window = limit().state_kind() == StateKind::kWindow;
  state_.last = static_cast<core::Ticks>(state.changed);
  state_.aux = state.aux;
  state_.units = static_cast<std::uint32_t>(state.units);
  state_.tag = static_cast<std::uint32_t>(state.checksum);
  forgotten_ = core::Forgotten(static_cast<std::uint32_t>(state.forgotten));
  return state.kind == (is_window ? format::kFixedWindowKind : format::kBucketKind) &&
         state.changed < format::kEndOfInstants && state.aux < format::kEndOfSpans &&
         state_.last <= forgotten_.from();
}

bool Counter::read_slices(std::string_view bytes) noexcept {
  constexpr std::size_t kHead = format::kSlicesHead.size();
  constexpr std::size_t kCount = format::kSliceCount.size();
  if (bytes.size() < kHead || (bytes.size() - kHead) % kCount != 0) return false;
  const format::SlicesHead head = format::kSlicesHead.take(bytes);
  const std::size_t held = bytes.size() / kCount;
  if (head.kind != format::kSlicesKind || head.changed >= format::kEndOfInstants ||
      head.period >= format::kEndOfSpans || Duration{head.period} < kMinPeriod || head.slices < 1 ||
      head.slices > kMaxSlices || held > head.slices + 1) {
    return false;
  }
  forgotten_ = core::Forgotten(static_cast<std::uint32_t>(head.forgotten));
  const auto last = static_cast<core::Ticks>(head.changed);
  if (last > forgotten_.from()) return false;
  counts_.resize(held);
  for (std::uint32_t& count : counts_) {
    count = static_cast<std::uint32_t>(format::kSliceCount.take(bytes).value);
  }
  slices_ = {counts_, last, core::SliceGrid(head.period, head.slices)};
  return true;
}

bool Counter::read_log(std::string_view bytes) noexcept {
  if (bytes.size() != format::kLogReply.size()) return false;
  const format::LogReply reply = format::kLogReply.read(bytes);
  const auto at = static_cast<core::Ticks>(reply.at);
  forgotten_ = core::Forgotten(static_cast<std::uint32_t>(reply.forgotten));
  log_ = {.digest = {at, reply.units, static_cast<core::Ticks>(reply.newest)},
          .wait = static_cast<core::Ticks>(reply.wait),
          .refunded = (reply.changed & 1) != 0,
          .stored = reply.wait};
  const auto period = static_cast<std::uint64_t>(limit().period().count());
  const bool is_live = reply.newest <= reply.at && reply.at - reply.newest < period;
  return reply.at < format::kEndOfInstants && at >= now_ && (reply.units == 0 || is_live);
}

// --- decisions ---

void Counter::decide(Action action, std::uint64_t cost) noexcept {
  const auto take = [&](const auto& step) {
    answer_ = step.answer;
    at_ = step.at;
  };
  switch (limit().state_kind()) {
    case StateKind::kBucket:
    case StateKind::kWindow: {
      // A forgotten state is untouched, and core relies on this. In a damaged value it may have
      // units.
      const bool is_known = !forgotten_.is_past(now_);
      const core::State state = is_known ? state_ : core::State{};
      const auto step = core::step(action, limit(), core::Kept{state, forgotten_}, now_, cost);
      take(step);
      const bool is_taken = step.answer.admitted && cost > 0;
      if (is_known && !is_taken && step.change == core::Change::kNone) {
        forgotten_.end(at_, answer_);
      }
      return;
    }
    case StateKind::kSlices: {
      std::uint32_t converted = 0;
      const core::Slices slices =
          core::sliding_window_counter::on_grid(limit(), slices_, converted);
      return take(core::step(action, limit(), core::Kept{slices, forgotten_}, now_, cost));
    }
    case StateKind::kLog:
    case StateKind::kLogAndSummaries:
      return take(core::step(action, limit(), core::Kept{log_, forgotten_}, now_, cost));
    case StateKind::kPermits: return;
  }
}

void Counter::leave_untaken() noexcept {
  if (answer_.admitted && cost_ > 0) decide(Verb::kPeek, 0);
  answer_.delay = core::Answer::kNoDelay;
}

void Counter::answer(Decision& decision) const noexcept { core::write(limit(), answer_, decision); }

}  // namespace sluice::redis

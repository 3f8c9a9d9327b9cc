#include "stores/redis/script/counter.h"

#include <algorithm>

#include "limiter/answer.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/windows.h"

namespace sluice::redis {

void Counter::begin(const Charge& charge) {
  charge_ = &charge;
  cost_ = least_cost_ = charge.cost;
  gives_back_ = charge.gives_back;
  charges_ = 1;
  permit_ = charge.permit != nullptr ? *charge.permit : PermitId();
  counts_.clear();
}

bool Counter::agrees_with(const Charge& charge) const noexcept {
  if (charge.limit != limit() || !same_block(*charge_, charge)) return false;
  if (!holds_permits(limit().algorithm())) return true;
  return (charge.permit != nullptr ? *charge.permit : PermitId()) == permit_;
}

bool Counter::is_same(const Charge& charge) const noexcept {
  return is_same_counter(*charge_, charge);
}

void Counter::add(const Charge& charge) noexcept {
  add_charge(charge, cost_, gives_back_);
  least_cost_ = std::min(least_cost_, charge.cost);
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
  if (!holds_permits(limit().algorithm())) return;
  for (const std::uint8_t byte : permit_.bytes()) out += static_cast<char>(byte);
}

void Counter::append_windows(std::size_t index, core::Ticks of, std::string& out) const {
  format::kWindows.append(windows_of(*limit().calendar(), of, index), out);
}

// --- replies ---

bool Counter::read(std::string_view bytes, core::Ticks now) noexcept {
  now_ = at_ = now;
  forgotten_ = {};
  state_ = {};
  slices_ = {{}, now, core::SliceGrid(limit())};
  permits_ = {};
  permits_.at = static_cast<std::uint64_t>(now);
  permits_.gone = 1;
  is_new_ = bytes.empty();
  if (is_new_) return true;
  switch (limit().state_kind()) {
    case StateKind::kBucket:
    case StateKind::kWindow: return read_state(bytes);
    case StateKind::kSlices: return read_slices(bytes);
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return read_log(bytes);
    case StateKind::kPermits: return read_permits(bytes);
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

bool Counter::read_permits(std::string_view bytes) noexcept {
  if (bytes.size() != format::kPermitsReply.size()) return false;
  permits_ = format::kPermitsReply.read(bytes);
  const auto is_end = [this](std::uint64_t end) {
    return end == 0 || (end > permits_.at && end < format::kEndOfInstants * 2);
  };
  return permits_.at < format::kEndOfInstants && static_cast<core::Ticks>(permits_.at) >= now_ &&
         is_end(permits_.last_end) && is_end(permits_.last_after);
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
    case StateKind::kPermits:
      answer_ = decide_permits(action.verb, cost);
      at_ = static_cast<core::Ticks>(permits_.at);
      return;
  }
}

// As core/concurrency.h, from what the script has found.
core::Answer Counter::decide_permits(Verb verb, std::uint64_t cost) const noexcept {
  const std::uint64_t capacity = limit().capacity();
  const auto described = [&](std::uint64_t units, std::uint64_t end) -> core::Numbers {
    return {static_cast<std::uint32_t>(units < capacity ? capacity - units : 0),
            end > permits_.at ? static_cast<core::Ticks>(end - permits_.at) : 0};
  };
  const core::Numbers before = described(permits_.units, permits_.last_end);
  if (verb == Verb::kReset) return core::untouched(limit());
  if (verb == Verb::kRefund || changes_permit(verb)) {
    core::Answer answer{core::admitted(), described(permits_.units_after, permits_.last_after)};
    if (verb == Verb::kRefund || permits_.gone == 0) return answer;
    answer = {{}, before};
    answer.gone = true;
    return answer;
  }
  core::Answer answer{core::admitted(), before};
  if (cost > capacity) {
    answer = {core::never(), before};
  } else if (cost > 0 && permits_.units + cost > capacity) {
    answer = {core::denied_for(permits_.wait), before};
  } else if (cost > 0) {
    const std::uint64_t end = permits_.at + static_cast<std::uint64_t>(limit().period().count());
    answer = {core::admitted(), described(permits_.units + cost, std::max(permits_.last_end, end))};
  }
  if (answer.admitted && verb == Verb::kReserve) answer.delay = 0;
  return answer;
}

void Counter::leave_untaken() noexcept {
  const bool has_permits = holds_permits(limit().algorithm());
  if (answer_.admitted && (cost_ > 0 || has_permits)) decide(Verb::kPeek, 0);
  answer_.delay = core::Answer::kNoDelay;
}

void Counter::answer(Decision& decision) const noexcept { core::write(limit(), answer_, decision); }

}  // namespace sluice::redis

#include "module/counter.h"

#include <algorithm>
#include <optional>
#include <span>

#include "stores/redis/script/format.h"

namespace sluice::redis_module {
namespace {

namespace format = redis::format;
using core::Change;
using core::Forgotten;
using core::Kept;
using core::State;
using core::Ticks;

Forgotten forgotten_of(std::uint64_t multiple) noexcept {
  return Forgotten(static_cast<std::uint32_t>(multiple));
}

void keep(Forgotten forgotten, Outcome& outcome) noexcept {
  outcome.keep_until = static_cast<Ticks>(forgotten.multiple() * format::kForgottenUnit);
}

// --- buckets and windows ---

// Returns the most units that a state under the limit's own numbers can have.
std::uint32_t most_units(const Limit& limit) noexcept {
  if (limit.algorithm() == Algorithm::kFixedWindow) return static_cast<std::uint32_t>(kMaxUnits);
  return limit.refill() == Refill::kInterval ? core::token_bucket::interval::most_units(limit)
                                             : core::bucket::most_units(limit);
}

std::optional<Kept<State>> read_state(const Limit& limit, std::string_view bytes, Ticks now) {
  if (bytes.empty()) return Kept{State{.last = now}, Forgotten()};
  if (bytes.size() != format::kFixedState.size()) return std::nullopt;
  const format::FixedState read = format::kFixedState.read(bytes);
  const bool is_window = limit.state_kind() == StateKind::kWindow;
  Kept<State> kept{{.last = static_cast<Ticks>(read.changed),
                    .aux = read.aux,
                    .units = static_cast<std::uint32_t>(read.units),
                    .tag = static_cast<std::uint32_t>(read.checksum)},
                   forgotten_of(read.forgotten)};
  if (read.kind != (is_window ? format::kFixedWindowKind : format::kBucketKind) ||
      read.changed >= format::kEndOfInstants || read.aux >= format::kEndOfSpans ||
      kept.state.last > kept.forgotten.from()) {
    return std::nullopt;
  }
  if (kept.forgotten.is_past(now)) return Kept{State{.last = now}, Forgotten()};
  // Only a damaged value has more.
  const bool is_own = kept.state.tag == core::tag_of(limit) && limit.limit() > 0;
  if (is_own) kept.state.units = std::min(kept.state.units, most_units(limit));
  return kept;
}

void write_state(const Limit& limit, const State& next, Forgotten forgotten, Outcome& outcome) {
  const bool is_window = limit.state_kind() == StateKind::kWindow;
  format::kFixedState.append({.kind = is_window ? format::kFixedWindowKind : format::kBucketKind,
                              .changed = static_cast<std::uint64_t>(next.last),
                              .aux = next.aux,
                              .units = next.units,
                              .checksum = next.tag,
                              .forgotten = forgotten.multiple()},
                             outcome.value);
  keep(forgotten, outcome);
}

void decide_state(Action action, const Limit& limit, std::uint64_t cost, std::string_view found,
                  Ticks now, Outcome& outcome) {
  const auto kept = read_state(limit, found, now);
  if (!kept) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  const auto step = core::step(action, limit, *kept, now, cost);
  outcome.answer = step.answer;
  outcome.at = step.at;
  outcome.change = step.change;
  if (step.change == Change::kWrite) write_state(limit, step.next, step.forgotten(), outcome);
}

// Decides in ticks since the window opened: then it is a window of the clock.
void decide_calendar(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
                     Ticks now, Outcome& outcome) {
  auto kept = read_state(asked.limit, found, now);
  if (!kept) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  const CalendarWindows& windows = *asked.windows;
  const Ticks at = core::effective(now, kept->state.last);
  outcome.at = at;
  const bool is_next = at >= windows.close;
  const Ticks open = is_next ? windows.close : windows.open;
  const Ticks close = is_next ? windows.next_close : windows.close;
  if (at < open || at >= close) {
    outcome.kind = Outcome::Kind::kWindow;
    return;
  }
  const Limit limit =
      core::LimitAccess::restored({.algorithm = Algorithm::kFixedWindow,
                                   .limit = asked.limit.limit(),
                                   .capacity = asked.limit.capacity(),
                                   .period = static_cast<std::uint64_t>(close - open),
                                   .tag = core::LimitAccess::tag(asked.limit),
                                   .align = Align::kClock});
  if (kept->state.last < open) kept->state.units = 0;
  kept->state.last = std::max<Ticks>(kept->state.last - open, 0);
  kept->state.tag = core::tag_of(limit);
  auto step = core::step(action, limit, *kept, at - open, cost);
  outcome.answer = step.answer;
  outcome.change = step.change;
  if (step.change != Change::kWrite) return;
  step.next.last = at;
  write_state(limit, step.next, Forgotten::after(at + step.answer.reset_after), outcome);
}

// --- sliding counts ---

struct ReadSlices {
  std::vector<std::uint32_t> counts;
  Kept<core::Slices> kept{{}, Forgotten()};
};

bool read_slices(const Limit& limit, std::string_view bytes, Ticks now, ReadSlices& read) {
  read.kept = {{{}, now, core::SliceGrid(limit)}, Forgotten()};
  if (bytes.empty()) return true;
  constexpr std::size_t kCount = format::kSliceCount.size();
  if (bytes.size() < format::kSlicesHead.size()) return false;
  const format::SlicesHead head = format::kSlicesHead.take(bytes);
  const std::size_t held = bytes.size() / kCount;
  if (bytes.size() % kCount != 0 || head.kind != format::kSlicesKind ||
      head.changed >= format::kEndOfInstants || head.period >= format::kEndOfSpans ||
      Duration{static_cast<Ticks>(head.period)} < kMinPeriod || head.slices < 1 ||
      head.slices > kMaxSlices || held > head.slices + 1) {
    return false;
  }
  const Forgotten forgotten = forgotten_of(head.forgotten);
  const auto last = static_cast<Ticks>(head.changed);
  if (last > forgotten.from()) return false;
  if (forgotten.is_past(now)) return true;
  read.counts.resize(held);
  for (std::uint32_t& count : read.counts) {
    count = static_cast<std::uint32_t>(format::kSliceCount.take(bytes).value);
  }
  read.kept = {{read.counts, last, core::SliceGrid(head.period, head.slices)}, forgotten};
  return true;
}

void write_slices(const Limit& limit, const core::Step<core::NextSlices>& step, Outcome& outcome) {
  std::vector<std::uint32_t> counts(limit.slices() + 1);
  step.next.write(counts);
  while (!counts.empty() && counts.back() == 0) counts.pop_back();
  const Forgotten forgotten = step.forgotten();
  format::kSlicesHead.append({.kind = format::kSlicesKind,
                              .changed = static_cast<std::uint64_t>(step.at),
                              .period = static_cast<std::uint64_t>(limit.period().count()),
                              .slices = limit.slices(),
                              .forgotten = forgotten.multiple()},
                             outcome.value);
  for (const std::uint32_t count : counts) format::kSliceCount.append({count}, outcome.value);
  keep(forgotten, outcome);
}

void decide_slices(Action action, const Limit& limit, std::uint64_t cost, std::string_view found,
                   Ticks now, Outcome& outcome) {
  ReadSlices read;
  if (!read_slices(limit, found, now, read)) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  std::uint32_t converted = 0;
  const Kept<core::Slices> kept{
      core::sliding_window_counter::on_grid(limit, read.kept.state, converted),
      read.kept.forgotten};
  const auto step = core::step(action, limit, kept, now, cost);
  outcome.answer = step.answer;
  outcome.at = step.at;
  outcome.change = step.change;
  if (step.change == Change::kWrite) write_slices(limit, step, outcome);
}

// --- permits ---

// Permits of a value, with room for one more.
class HeldPermits {
 public:
  explicit HeldPermits(std::size_t count) : memory_(words_for(count + 1)) {
    buffer().room = static_cast<std::uint32_t>(count + 1);
  }
  core::PermitBuffer& buffer() noexcept {
    return *reinterpret_cast<core::PermitBuffer*>(memory_.data());
  }

 private:
  static std::size_t words_for(std::size_t permits) noexcept {
    return core::ceil_div(core::PermitBuffer::bytes_for(permits), sizeof(std::uint64_t));
  }
  std::vector<std::uint64_t> memory_;
};

std::size_t permits_in(std::string_view bytes) noexcept {
  const std::size_t head = format::kPermitsHead.size();
  return bytes.size() < head ? 0 : (bytes.size() - head) / format::kPermitSize;
}

bool read_permits(std::string_view bytes, core::PermitBuffer& out) noexcept {
  if (bytes.size() < format::kPermitsHead.size()) return false;
  const format::PermitsHead head = format::kPermitsHead.take(bytes);
  if (bytes.size() % format::kPermitSize != 0 || head.kind != format::kPermitsKind ||
      head.changed >= format::kEndOfInstants || bytes.empty() != (head.units == 0) ||
      head.last_end < head.first_end || head.last_end >= format::kEndOfInstants * 2) {
    return false;
  }
  out.last = static_cast<Ticks>(head.changed);
  out.first_end = static_cast<Ticks>(head.first_end);
  out.last_end = static_cast<Ticks>(head.last_end);
  out.units = static_cast<std::uint32_t>(head.units);
  while (!bytes.empty()) {
    const format::Permit permit = format::kPermit.take(bytes);
    PermitId::Bytes name;
    std::copy_n(bytes.begin(), name.size(), name.begin());
    bytes.remove_prefix(name.size());
    out.begin()[out.count++] = {static_cast<Ticks>(permit.end), PermitId(name),
                                static_cast<std::uint32_t>(permit.units)};
  }
  return true;
}

// Returns whether the head does not say of the permits what they are. Asks only where a script
// looks at all permits, so that both decide alike.
bool is_damaged(const core::Permits& permits, const Action& action, const core::Answer& answer,
                Ticks at, std::uint64_t needed) noexcept {
  const bool denies = asks(action.verb) && !answer.admitted && !answer.never;
  const bool is_read = changes_permit(action.verb) || action.verb == Verb::kRefund ||
                       permits.first_end <= at || (denies && needed > 1);
  if (permits.entries.empty() || !is_read) return false;
  std::uint64_t units = 0;
  Ticks first_end = permits.entries.front().end;
  Ticks last_end = 0;
  for (const core::PermitEntry& entry : permits.entries) {
    if (entry.units == 0) return true;
    units += entry.units;
    first_end = std::min(first_end, entry.end);
    last_end = std::max(last_end, entry.end);
  }
  return units != permits.units || first_end != permits.first_end || last_end != permits.last_end;
}

void write_permits(core::PermitBuffer& permits, Outcome& outcome) {
  format::kPermitsHead.append({.kind = format::kPermitsKind,
                               .changed = static_cast<std::uint64_t>(permits.last),
                               .first_end = static_cast<std::uint64_t>(permits.first_end),
                               .last_end = static_cast<std::uint64_t>(permits.last_end),
                               .units = permits.units},
                              outcome.value);
  for (const core::PermitEntry& entry : permits.view().entries) {
    format::kPermit.append({static_cast<std::uint64_t>(entry.end), entry.units}, outcome.value);
    for (const std::uint8_t byte : entry.id.bytes()) outcome.value += static_cast<char>(byte);
  }
}

struct LiveUnits {
  std::uint64_t units = 0;
  Ticks last_end = 0;
};

void append_permits_reply(Ticks at, const core::Answer& answer, const LiveUnits& before,
                          const LiveUnits& after, std::string& out) {
  format::kPermitsReply.append({.at = static_cast<std::uint64_t>(at),
                                .units = before.units,
                                .last_end = static_cast<std::uint64_t>(before.last_end),
                                .wait = static_cast<std::uint64_t>(answer.wait),
                                .units_after = after.units,
                                .last_after = static_cast<std::uint64_t>(after.last_end),
                                .gone = answer.gone ? std::uint64_t{1} : 0},
                               out);
}

void decide_permits(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
                    Ticks now, Outcome& outcome) {
  const Limit& limit = asked.limit;
  outcome.replaces_found = true;
  const std::size_t count = permits_in(found);
  // Only a damaged value has more.
  const bool is_possible = count <= kMaxPermitUnits;
  HeldPermits held(is_possible ? count : 0);
  core::PermitBuffer& buffer = held.buffer();
  if (!is_possible || (!found.empty() && !read_permits(found, buffer))) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  // A limit of 0 reads no permits, except to change one that was taken before.
  const bool is_read = limit.capacity() > 0 || changes_permit(action.verb);
  core::Permits permits = is_read ? buffer.view() : core::Permits{};
  permits.asked = &asked.permit;
  const core::concurrency::Live live = core::concurrency::advance(permits, now);
  const auto step = core::step(action, limit, Kept{permits, Forgotten()}, now, cost);
  const std::uint64_t asked_units =
      action.verb == Verb::kTakeAtMost ? core::units_at_most(limit, live.units, cost) : cost;
  if (is_damaged(permits, action, step.answer, live.at,
                 live.units + asked_units - limit.capacity())) {
    outcome.kind = Outcome::Kind::kForeign;
    return;
  }
  outcome.answer = step.answer;
  outcome.at = live.at;
  outcome.change = step.change;
  LiveUnits after{live.units, live.last_end};
  if (step.change == Change::kWrite) {
    buffer.write(step.next, step.at);
    after = {buffer.units, buffer.last_end};
    write_permits(buffer, outcome);
    outcome.keep_until = buffer.last_end;
  } else if (step.next.change == Verb::kTake) {  // a peek
    after = {live.units + step.next.units, std::max(live.last_end, step.next.end)};
  }
  if (found.empty() || !is_read) return;
  append_permits_reply(live.at, step.answer, {live.units, live.last_end}, after, outcome.reply);
}

}  // namespace

void Outcome::clear() noexcept {
  kind = Kind::kDecided;
  answer = {};
  at = 0;
  reply.clear();
  replaces_found = false;
  change = Change::kNone;
  value.clear();
  pieces.clear();
  keep_until = 0;
  is_kept = false;
}

void decide(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
            Ticks now, Outcome& outcome) {
  outcome.clear();
  const Limit& limit = asked.limit;
  switch (limit.state_kind()) {
    case StateKind::kBucket: return decide_state(action, limit, cost, found, now, outcome);
    case StateKind::kWindow:
      return asked.windows ? decide_calendar(action, asked, cost, found, now, outcome)
                           : decide_state(action, limit, cost, found, now, outcome);
    case StateKind::kSlices: return decide_slices(action, limit, cost, found, now, outcome);
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return decide_log(action, limit, cost, found, now, outcome);
    case StateKind::kPermits: return decide_permits(action, asked, cost, found, now, outcome);
  }
}

}  // namespace sluice::redis_module

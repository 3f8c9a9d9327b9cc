// The requests that wait for a counter that cannot be reserved, in their order. Only the first asks
// the store: at the instant that the store named and, for a permit, at each release and every 250
// ms. The queue has no clock, lock or timer, so that threads, fibers and Boost.Asio share it.
#include "limiter/wait_queue.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace sluice::detail {

struct WaitLine {
  WaitLine(const Charge& named, const Limit& limit)
      : bytes(std::string(named.tag).append(named.key)), charge(named) {
    charge.limit = limit;
    charge.tag = std::string_view(bytes).substr(0, named.tag.size());
    charge.key = std::string_view(bytes).substr(named.tag.size());
    charge.permit = nullptr;  // that of one request
  }

  const std::string bytes;
  Charge charge;  // names the counter
  Waiter* first = nullptr;
  Waiter* last = nullptr;
  std::uint64_t units = 0;                  // of all waiters
  bool is_asking = false;                   // a question is under way
  Instant at = {};                          // of the next question
  bool opens_window = false;                // at that instant a window begins, unless it is now
  std::uint64_t room = 0;                   // units that the next question may ask for
  Instant least_deadline = Instant::max();  // no waiter has an earlier one
  // Of permits: the latest denial, when a lease ends that it waits for, and whether one was
  // released while the store decided.
  Decision said = {};
  Instant ends_at = {};
  bool was_released = false;
};

Decision refusal(Reason reason, const Limit& limit) noexcept {
  return {.outcome = Outcome::kDenied, .reason = reason, .capacity = limit.capacity()};
}

namespace {

// Appends to a list of waiters that have finished.
void append(Waiter& waiter, const Decision& decision, Waiter**& last) noexcept {
  waiter.decision = decision;
  waiter.next = nullptr;
  *last = &waiter;
  last = &waiter.next;
}

// Returns what a waiter gets whose deadline is before `wait` has passed.
Decision too_late(const Decision& said, Duration wait) noexcept {
  Decision decision = said;
  decision.outcome = Outcome::kDenied;
  decision.reason = Reason::kLimited;
  decision.reset_after = std::max(said.reset_after, wait);
  decision.retry_after = wait;
  decision.delay.reset();
  return decision;
}

// Returns the end of `windows` windows from `from` on; of at most 1000, which is not later.
Instant end_of(const Calendar& calendar, std::uint64_t windows, Instant from) noexcept {
  Instant end = from;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(windows, 1000); ++i) {
    if (end > kLastInstant) break;
    end = calendar.window_at(end).end;
  }
  return end;
}

// Returns the earliest instant at which the last of these units can pass if the first one cannot
// before `from`. `is_fresh`: no window that is open then began earlier. `ahead`: see join().
Instant earliest(const Limit& limit, std::uint64_t units, Instant from, bool is_fresh,
                 Duration ahead) noexcept {
  if (holds_amounts(limit.algorithm())) return from;  // holds can be cancelled at any time
  const std::uint64_t capacity = std::max<std::uint64_t>(limit.capacity(), 1);
  const auto after = [&](std::uint64_t periods) {
    const auto most = static_cast<std::uint64_t>((kLastInstant - kFirstInstant) / limit.period());
    return from + limit.period() * static_cast<Duration::rep>(std::min(periods, most));
  };
  if (limit.state_kind() == StateKind::kBucket) {  // whose block ends
    const std::uint64_t more = units - std::min(units, capacity);
    return after(more / std::max<std::uint64_t>(limit.limit(), 1));
  }
  std::uint64_t windows = units == 0 ? 0 : (units - 1) / capacity;
  const bool is_exact = limit.algorithm() == Algorithm::kSlidingWindowLog ||
                        (limit.algorithm() == Algorithm::kFixedWindow && is_fresh);
  if (!is_exact && windows > 0) --windows;  // a window that is open may have room for as many
  if (limit.calendar() != nullptr) return end_of(*limit.calendar(), windows, from + ahead) - ahead;
  return after(windows);
}

bool waits_for_permits(const Limit& limit) noexcept { return holds_permits(limit.algorithm()); }

// Whether `reset_after` of an admitted question is the time until the counter admits again.
bool frees_at_once(const Charge& question, const Decision& said) noexcept {
  if (question.limit.algorithm() == Algorithm::kFixedWindow) return true;
  return question.limit.algorithm() == Algorithm::kSlidingWindowLog &&
         question.cost == said.capacity;
}

}  // namespace

WaitQueue::WaitQueue(std::size_t most, bool merges) : most_(most), merges_(merges) {}
WaitQueue::~WaitQueue() = default;

WaitQueue::Next WaitQueue::join(Waiter& waiter, const Charge& charge, Instant now, Duration ahead,
                                const Decision* said) noexcept try {
  if (!charge.alternative && waiter.cost > waiter.limit.capacity()) {
    waiter.decision = refusal(Reason::kNever, waiter.limit);
    return Next::kEnded;
  }
  if (size_ >= most_) {
    waiter.decision = refusal(Reason::kTooManyWaiters, waiter.limit);
    return Next::kEnded;
  }
  const auto found = lines_.find(name_of(charge, waiter.limit));
  if (found == lines_.end()) {
    auto line = std::make_unique<WaitLine>(charge, waiter.limit);
    line->at = now;
    if (said != nullptr) {
      line->said = *said;
      line->ends_at = now + said->retry_after.value_or(Duration{0});
    }
    const Name name = name_of(line->charge, waiter.limit);
    push(*lines_.emplace(name, std::move(line)).first->second, waiter);
    return Next::kAsks;
  }
  WaitLine& line = *found->second;
  if (waits_for_permits(waiter.limit)) {
    push(line, waiter);
    return Next::kWaits;
  }
  const bool is_later = !line.is_asking && line.at > now;
  const Instant soonest = earliest(waiter.limit, line.units + waiter.cost, is_later ? line.at : now,
                                   is_later && line.opens_window, ahead);
  if (waiter.deadline < soonest) {
    waiter.decision = too_late(refusal(Reason::kLimited, waiter.limit), soonest - now);
    return Next::kEnded;
  }
  push(line, waiter);
  return Next::kWaits;
} catch (const std::bad_alloc&) {
  waiter.decision = Decision::refused(Reason::kStoreError);
  return Next::kEnded;
}

Charge WaitQueue::ask(Waiter& first) noexcept {
  WaitLine& line = *first.line;
  line.is_asking = true;
  line.charge.limit = first.limit;
  line.charge.cost = first.cost;
  first.is_asked_for = true;
  if (!merges_ || waits_for_permits(first.limit)) return line.charge;
  for (Waiter* w = first.next; w != nullptr && w->limit == first.limit; w = w->next) {
    if (line.charge.cost + w->cost > line.room) break;
    line.charge.cost += w->cost;
    w->is_asked_for = true;
  }
  return line.charge;
}

Waiter* WaitQueue::answer(Waiter& first, const Decision& said, Instant now,
                          Waiter*& finished) noexcept {
  finished = nullptr;
  Waiter** last_finished = &finished;
  WaitLine& line = *first.line;
  line.is_asking = false;
  line.at = now;
  line.room = 0;
  line.opens_window = said.reason != Reason::kBlocked;  // a block ends within a window
  const bool was_alone = first.next == nullptr || !first.next->is_asked_for;
  const bool will_pass = !said.allowed() && said.retry_after.has_value();
  if (will_pass) {
    for (Waiter* w = line.first; w != nullptr && w->is_asked_for; w = w->next) {
      w->is_asked_for = false;
    }
    // If others took units meanwhile, the first waiter asks for itself.
    if (was_alone) line.at = now + *said.retry_after;
    if (waits_for_permits(first.limit)) {
      line.said = said;
      line.ends_at = line.at;
      line.at =
          std::exchange(line.was_released, false) ? now : std::min(line.at, now + kReleaseCheck);
      return next_of(line);
    }
  } else {
    const bool has_failed = said.outcome == Outcome::kFailed;  // it would fail for the others too
    while (line.first != nullptr && (line.first->is_asked_for || has_failed)) {
      Waiter& waiter = *line.first;
      const bool was_asked_for = waiter.is_asked_for;
      remove(waiter);
      append(waiter, was_asked_for ? said : Decision::refused(Reason::kStoreError), last_finished);
    }
  }
  if (said.allowed() && line.first != nullptr && has_numbers(said) &&
      line.first->limit == line.charge.limit) {
    line.room = said.remaining;
    const bool is_full = line.first->cost > said.remaining;
    if (is_full && frees_at_once(line.charge, said)) line.at = now + said.reset_after;
  }
  if (!waits_for_permits(line.charge.limit)) refuse_late(line, said, now, last_finished);
  return next_of(line);
}

// Refuses the waiters that cannot be admitted by their deadlines.
void WaitQueue::refuse_late(WaitLine& line, const Decision& said, Instant now,
                            Waiter**& last_finished) noexcept {
  if (line.at <= line.least_deadline) return;
  const Decision refused = too_late(said, line.at - now);
  line.least_deadline = Instant::max();
  for (Waiter* w = line.first; w != nullptr;) {
    Waiter& waiter = *w;
    w = w->next;
    if (waiter.deadline >= line.at) {
      line.least_deadline = std::min(line.least_deadline, waiter.deadline);
      continue;
    }
    const bool was_first = line.first == &waiter;
    remove(waiter);
    append(waiter, refused, last_finished);
    // The next one may pass earlier if it costs less.
    if (was_first && w != nullptr && w->cost < waiter.cost) line.at = now;
  }
}

Waiter* WaitQueue::next_of(WaitLine& line) noexcept {
  if (line.first == nullptr) {
    lines_.erase(name_of(line.charge, line.charge.limit));
    return nullptr;
  }
  if (line.is_asking) return nullptr;
  line.first->turn = line.at;
  return line.first;
}

bool WaitQueue::leave(Waiter& waiter, Instant now, Waiter*& next) noexcept {
  if (waiter.is_asked_for) return false;
  WaitLine& line = *waiter.line;
  const bool was_first = line.first == &waiter;
  const Instant passes_at = waits_for_permits(waiter.limit) ? line.ends_at : line.at;
  Decision said = line.said;  // some time ago
  const Duration age = now - (line.ends_at - said.retry_after.value_or(Duration{0}));
  said.reset_after -= std::min(said.reset_after, age);
  said.capacity = waiter.limit.capacity();
  waiter.decision = too_late(said, std::max(passes_at - now, Duration{1}));
  remove(waiter);
  if (was_first && line.first != nullptr && line.first->cost < waiter.cost) line.at = now;
  next = next_of(line);
  return true;
}

Waiter* WaitQueue::released(const Charge& charge, Instant now) noexcept {
  const auto found = lines_.find(name_of(charge, charge.limit));
  if (found == lines_.end()) return nullptr;
  WaitLine& line = *found->second;
  line.was_released = line.is_asking;
  if (!line.is_asking) line.at = now;
  return next_of(line);
}

void WaitQueue::clear(Waiter*& left, bool with_asked_for) noexcept {
  left = nullptr;
  Waiter** last = &left;
  for (auto entry = lines_.begin(); entry != lines_.end();) {
    WaitLine& line = *(entry++)->second;
    for (Waiter* w = line.first; w != nullptr;) {
      Waiter& waiter = *w;
      w = w->next;
      if (waiter.is_asked_for && !with_asked_for) continue;
      remove(waiter);
      append(waiter, waiter.decision, last);
    }
    next_of(line);
  }
}

bool WaitQueue::has_waiters(const Charge& charge) const noexcept {
  return size_ > 0 && lines_.contains(name_of(charge, charge.limit));
}

void WaitQueue::push(WaitLine& line, Waiter& waiter) noexcept {
  waiter.line = &line;
  waiter.next = nullptr;
  waiter.before = line.last;
  waiter.is_asked_for = false;
  (line.last == nullptr ? line.first : line.last->next) = &waiter;
  line.last = &waiter;
  line.units += waiter.cost;
  line.least_deadline = std::min(line.least_deadline, waiter.deadline);
  ++size_;
}

void WaitQueue::remove(Waiter& waiter) noexcept {
  WaitLine& line = *waiter.line;
  (waiter.before == nullptr ? line.first : waiter.before->next) = waiter.next;
  (waiter.next == nullptr ? line.last : waiter.next->before) = waiter.before;
  line.units -= waiter.cost;
  waiter.line = nullptr;
  waiter.is_asked_for = false;
  --size_;
}

}  // namespace sluice::detail

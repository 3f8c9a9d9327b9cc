#include "limiter/waits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>

namespace sluice::detail {

namespace {

constexpr std::size_t kNone = kMaxCharges;

// Returns the charge whose units come last: the request waits in the queue of its counter. A bucket
// has denied a reservation until the deadline, unless it is blocked for less than `at_most`.
std::size_t last_to_admit(std::span<const Charge> charges, std::span<const Decision> each,
                          Duration at_most) noexcept {
  std::size_t last = kNone;
  for (std::size_t i = 0; i < each.size(); ++i) {
    const auto& wait = each[i].retry_after;
    if (each[i].allowed()) continue;
    const bool may_pass = wait && (!is_reservable(charges[i].limit) ||
                                   (each[i].reason == Reason::kBlocked && *wait <= at_most));
    if (!may_pass) return kNone;  // never in time
    if (last == kNone || *wait > *each[last].retry_after) last = i;
  }
  return last;
}

// Returns the answer to a caller that may act now.
Decision without_delay(Decision decision) noexcept {
  decision.delay.reset();
  return decision;
}

Decision refused(const Decision& said, Reason reason,
                 std::optional<Duration> retry_after = {}) noexcept {
  Decision decision = without_delay(said);
  decision.outcome = Outcome::kDenied;
  decision.reason = reason;
  decision.retry_after = retry_after;
  return decision;
}

// The request is denied without the store: its decision is on the charge for which it waits.
void answer_each(WaitingCall& call, bool has_asked) noexcept {
  const auto charges = call.charges();
  const auto each = call.each();
  std::size_t waits_for = call.charge;
  const bool sleeps = has_asked && each[waits_for].allowed();
  for (std::size_t i = 0; sleeps && i < each.size(); ++i) {
    if (each[i].delay > each[waits_for].delay) waits_for = i;
  }
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (i == waits_for) {
      each[i] = sleeps ? refused(each[i], call.decision.reason, call.decision.retry_after)
                       : call.decision;
    } else if (!has_asked) {
      each[i] = {.capacity = charges[i].limit.capacity()};
    }
  }
}

}  // namespace

Action Waits::reservation(Instant deadline, const Clock& clock) noexcept {
  return {Verb::kReserve,
          std::clamp(deadline - clock.now(), Duration{0}, kLastInstant - kFirstInstant)};
}

// --- a request on its own thread or fiber -------------------------------------------------------

Decision Waits::acquire(WaitingCall& call, Instant deadline, const Decision* said) noexcept {
  call.deadline = deadline;
  Instant until = {};
  Next next = Next::kAsks;
  bool has_asked = false;
  bool is_told = false;  // the store has denied it, and not the queue
  if (said == nullptr && waiting() > 0) next = join_others(call, call.charges(), until);
  for (;;) {
    if (next == Next::kAsks) {
      const Decision answered =
          said != nullptr ? *std::exchange(said, nullptr) : call.ask(reservation(deadline, clock_));
      if (call.line == nullptr && !must_wait(answered)) return without_delay(answered);
      const auto charges = call.charges();
      const auto each = call.each();
      const bool has_left = answered.allowed() && call.has_left();
      const Lock lock(mutex_);
      if (has_left) cancel(call);
      next = settle(call, answer(call, answered, charges, each), until);
      has_asked = true;
      is_told = next == Next::kEnded && !call.gives_back;
    } else if (next == Next::kWaits) {
      const bool waits = call.park(until);
      const Lock lock(mutex_);
      next = settle(call, waits ? go_on(call) : cancel(call), until);
    } else {
      if (call.gives_back) call.give_back();
      if (!is_told && !call.decision.allowed()) answer_each(call, has_asked);
      return without_delay(call.decision);
    }
  }
}

// Waits behind others if they are ahead of it. Only the store knows which of budgets in a row
// answers.
Waits::Next Waits::join_others(WaitingCall& call, std::span<const Charge> charges,
                               Instant& until) noexcept {
  if (std::any_of(charges.begin(), charges.end(), std::mem_fn(&Charge::alternative))) {
    return Next::kAsks;
  }
  const Lock lock(mutex_);
  const auto found = std::find_if(charges.begin(), charges.end(), [this](const Charge& charge) {
    return charge.cost > 0 && queue_.has_waiters(charge);
  });
  if (found == charges.end()) return Next::kAsks;
  call.charge = static_cast<std::uint8_t>(found - charges.begin());
  return settle(call, join(call, *found, nullptr), until);
}

// What its thread needs without the lock.
Waits::Next Waits::settle(WaitingCall& call, Next next, Instant& until) noexcept {
  if (next == Next::kAsks) static_cast<void>(queue_.ask(call));
  until = wakes_at(call);
  count();
  return next;
}

void Waits::released(std::span<const Charge> charges) noexcept {
  if (waiting() == 0) return;
  const Lock lock(mutex_);
  for (const Charge& charge : charges) call(queue_.released(charge, clock_.now()), nullptr);
}

// --- the steps of a request ---------------------------------------------------------------------

Waits::Next Waits::answer(Waiter& one, const Decision& said, std::span<const Charge> charges,
                          std::span<const Decision> each) noexcept {
  const bool may_pass = !said.allowed() && said.retry_after.has_value();
  const std::size_t last =
      may_pass ? last_to_admit(charges, each, one.deadline - clock_.now()) : kNone;
  if (one.line != nullptr) {
    if (last == one.charge) return take(one, each[last]);
    // It leaves the queue: with its units, for the queue of another counter, or without hope.
    const bool is_whole = said.outcome == Outcome::kFailed || each.size() <= one.charge;
    Decision leaves = is_whole ? said : each[one.charge];
    if (leaves.outcome == Outcome::kDenied) leaves.retry_after.reset();
    tell(one, leaves);
  }
  if (one.is_cancelled) return end(one, said);
  if (said.allowed() && must_wait(said)) return sleep(one, said, charges);
  if (last == kNone) return end(one, said);
  one.charge = static_cast<std::uint8_t>(last);
  Charge charge = charges[last];
  charge.alternative |= last + 1 < charges.size() && charges[last + 1].alternative;
  return join(one, charge, &each[last]);
}

Waits::Next Waits::join(Waiter& one, const Charge& charge, const Decision* said) noexcept {
  one.limit = charge.limit;
  one.cost = charge.cost;
  one.decision = {};
  one.state = State::kQueued;
  one.turn = Instant::max();
  const Instant now = clock_.now();
  // A steady clock has no date.
  const bool is_dated = &clock_ != &SteadyClock::instance() || charge.limit.calendar() == nullptr;
  const Duration ahead = is_dated ? Duration{0} : SystemClock::instance().now() - now;
  const Next next = queue_.join(one, charge, now, ahead, said);
  if (next == Next::kEnded) return end(one, one.decision);
  if (next == Next::kWaits) return Next::kWaits;
  // A permit may have been released since the store has answered: nobody was here to be called.
  if (said == nullptr || holds_permits(one.limit.algorithm())) return Next::kAsks;
  static_cast<void>(queue_.ask(one));
  return take(one, *said);
}

// Takes the store's answer to the first of a queue, which stays there if it can be admitted later.
Waits::Next Waits::take(Waiter& one, const Decision& said) noexcept {
  tell(one, said);
  return one.line == nullptr ? end(one, one.decision) : go_on(one);
}

// Waits until the reservation comes due.
Waits::Next Waits::sleep(Waiter& one, const Decision& said,
                         std::span<const Charge> charges) noexcept {
  const Duration delay = *said.delay;
  one.turn = clock_.now() + delay;
  const bool outlives_a_lease = std::any_of(charges.begin(), charges.end(), [&](const Charge& c) {
    return holds_permits(c.limit.algorithm()) && c.cost > 0 && delay >= c.limit.period();
  });
  if (is_closed_) {
    one.is_cancelled = true;
    return end(one, said);
  }
  one.gives_back = true;
  one.is_fallback = said.reason == Reason::kFallback;
  if (outlives_a_lease) return end(one, refused(said, Reason::kLimited, delay));
  // A leaky bucket in queue mode has a delay of its own.
  if (one.turn > one.deadline) {
    return end(one, refused(said, Reason::kLimited, one.turn - one.deadline));
  }
  if (!one.is_counted && is_full()) return end(one, refused(said, Reason::kTooManyWaiters));
  one.gives_back = false;
  one.decision = after(said, delay);
  one.state = State::kSleeps;
  count_in(one);
  return Next::kWaits;
}

Waits::Next Waits::go_on(Waiter& one) noexcept {
  if (one.state == State::kEnded) return Next::kEnded;
  const Instant now = clock_.now();
  if (one.turn <= now) {
    if (one.state == State::kSleeps) return end(one, one.decision);
    one.turn = Instant::max();
    return Next::kAsks;
  }
  if (wakes_at(one) > now) return Next::kWaits;
  Waiter* next = nullptr;  // its deadline has passed
  if (!queue_.leave(one, now, next)) return Next::kWaits;
  call(next, &one);
  return end(one, one.decision);
}

Waits::Next Waits::cancel(Waiter& one) noexcept {
  if (one.state == State::kEnded) return Next::kEnded;
  one.is_cancelled = true;
  if (one.state == State::kSleeps) {
    one.decision.delay = std::max(one.turn - clock_.now(), Duration{1});
    return end(one, one.decision);
  }
  if (one.state == State::kAsks) return Next::kWaits;
  Waiter* next = nullptr;
  if (!queue_.leave(one, clock_.now(), next)) {
    ++cancelled_;
    return Next::kWaits;
  }
  call(next, &one);
  return end(one, one.decision);
}

Waits::Next Waits::end(Waiter& one, const Decision& said) noexcept {
  if (std::exchange(one.is_counted, false)) --counted_;
  one.state = State::kEnded;
  one.decision = said;
  if (!one.is_cancelled) return Next::kEnded;
  if (said.allowed()) {
    one.gives_back = true;
    one.is_fallback = said.reason == Reason::kFallback;
  }
  // What comes back is there for the next request; a sleeping one takes it when it is due.
  const auto wait = said.allowed() ? said.delay.value_or(Duration{1}) : said.retry_after;
  one.decision = refused(said, Reason::kLimited, wait);
  return Next::kEnded;
}

// A request for a permit also wakes at its deadline, because nobody knows when one is released.
Instant Waits::wakes_at(const Waiter& one) noexcept {
  const bool expires =
      one.line != nullptr && !one.is_asked_for && holds_permits(one.limit.algorithm());
  return expires ? std::min(one.turn, one.deadline) : one.turn;
}

void Waits::count_in(Waiter& one) noexcept {
  if (!std::exchange(one.is_counted, true)) ++counted_;
}

// --- the queues ---------------------------------------------------------------------------------

// The first request of a queue has asked the store. Ends others for which it has asked.
void Waits::tell(Waiter& one, const Decision& said) noexcept {
  const Instant now = clock_.now();
  Waiter* finished = nullptr;
  Waiter* next = queue_.answer(one, said, now, finished);
  while (finished != nullptr) {
    Waiter& other = *std::exchange(finished, finished->next);
    if (other.is_cancelled) --cancelled_;
    if (&other == &one) continue;
    end(other, other.decision);
    changed(other);
  }
  if (cancelled_ > 0 || is_closed_) drop_cancelled(next, one, now);
  call(next, &one);
}

// Ends the requests that were cancelled while the store decided, and that it has not admitted.
void Waits::drop_cancelled(Waiter*& next, const Waiter& one, Instant now) noexcept {
  for (Waiter* waiter = next; waiter != nullptr;) {
    Waiter& other = *std::exchange(waiter, waiter->next);
    if (!other.is_cancelled && !is_closed_) continue;
    if (std::exchange(other.is_cancelled, true)) --cancelled_;
    queue_.leave(other, now, next);
    if (&other == &one) continue;
    end(other, other.decision);
    changed(other);
  }
}

void Waits::call(Waiter* next, const Waiter* but) noexcept {
  if (next != nullptr && next != but) changed(*next);
}

// --- the threads of this process ----------------------------------------------------------------

bool WaitingThread::park(Instant until) noexcept {
  std::unique_lock lock(mutex_);
  const auto is_woken = [this] { return is_woken_; };
  if (until == Instant::max()) {
    woken_.wait(lock, is_woken);
  } else {
    woken_.wait_until(lock, std::chrono::steady_clock::time_point(until.time_since_epoch()),
                      is_woken);
  }
  is_woken_ = false;
  return true;
}

void WaitingThread::wake() noexcept {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  woken_.notify_one();
}

namespace {

// The waits of all stores for which a thread waits.
struct Registry {
  std::mutex mutex;
  std::map<const Store*, std::shared_ptr<Waits>> stores;
  std::atomic<std::size_t> users{0};  // of all stores

  static Registry& instance() {
    // Never destroyed, because threads may wait while the process ends; and not allocated, because
    // a wait must not throw.
    alignas(Registry) static std::array<std::byte, sizeof(Registry)> bytes;
    static Registry* const one = new (&bytes) Registry;
    return *one;
  }
};

std::shared_ptr<Waits> enter(const Store& store) {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  std::shared_ptr<Waits> waits;
  if (const auto found = registry.stores.find(&store); found != registry.stores.end()) {
    waits = found->second;
  } else {
    waits = std::make_shared<Waits>();
    registry.stores.emplace(&store, waits);
  }
  ++registry.users;
  return waits;
}

void leave(const Store& store, std::shared_ptr<Waits>&& waits) noexcept {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  --registry.users;
  waits.reset();
  const auto found = registry.stores.find(&store);
  if (found->second.use_count() == 1) registry.stores.erase(found);  // this was the last user
}

}  // namespace

Decision acquire(const Store& store, WaitingThread& call, Instant deadline) noexcept {
  Decision said;
  bool is_known = false;
  if (Registry::instance().users == 0) {  // probably it does not have to wait
    said = call.ask(Waits::reservation(deadline, SteadyClock::instance()));
    if (!Waits::must_wait(said)) return without_delay(said);
    is_known = true;
  }
  try {
    std::shared_ptr<Waits> waits = enter(store);
    const Decision answer = waits->acquire(call, deadline, is_known ? &said : nullptr);
    leave(store, std::move(waits));
    return answer;
  } catch (const std::bad_alloc&) {
    if (is_known && said.allowed()) call.give_back();
    return Decision::refused(Reason::kStoreError);
  }
}

void released(const Store& store, std::span<const Charge> charges) noexcept {
  Registry& registry = Registry::instance();
  if (registry.users == 0) return;
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.stores.find(&store);
  if (found != registry.stores.end()) found->second->released(charges);
}

}  // namespace sluice::detail

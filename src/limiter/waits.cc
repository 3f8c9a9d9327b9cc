#include "limiter/waits.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <utility>

namespace sluice::detail {

// The place of a request in the queue of a counter.
struct Waits::Place : WaitQueue::Waiter {
  Place(WaitingCall& waits, const Charge& counter, Instant until)
      : Waiter{.limit = counter.limit, .cost = counter.cost, .deadline = until}, call(waits) {}

  WaitingCall& call;
  Instant turn = Instant::max();  // when it asks the store
  bool has_left = false;          // `decision` is its answer
};

namespace {

constexpr std::size_t kNone = kMaxCharges;

bool is_reservable(const Limit& limit) noexcept { return limit.state_kind() == StateKind::kBucket; }

// Returns the charge whose units come last: the request waits in the queue of its counter.
std::size_t last_to_admit(std::span<const Charge> charges,
                          std::span<const Decision> each) noexcept {
  std::size_t last = kNone;
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (each[i].allowed()) continue;
    if (!each[i].retry_after || is_reservable(charges[i].limit)) return kNone;  // never in time
    if (last == kNone || *each[i].retry_after > *each[last].retry_after) last = i;
  }
  return last;
}

// Returns the answer to a caller that may act now.
Decision without_delay(Decision decision) noexcept {
  decision.delay.reset();
  return decision;
}

Decision refused(const Decision& said, Reason reason) noexcept {
  Decision decision = without_delay(said);
  decision.outcome = Outcome::kDenied;
  decision.reason = reason;
  decision.retry_after.reset();
  return decision;
}

}  // namespace

Action Waits::reservation(Instant deadline, const Clock& clock) noexcept {
  return {Verb::kReserve,
          std::clamp(deadline - clock.now(), Duration{0}, kLastInstant - kFirstInstant)};
}

Decision Waits::acquire(WaitingCall& call, Instant deadline) noexcept {
  if (waiting() > 0) {  // others may be ahead of it
    const std::size_t line = line_of(call.charges());
    if (line != kNone) return queue(call, line, deadline, false);
  }
  return acquire(call, deadline, call.ask(reservation(deadline, *options_.clock)));
}

Decision Waits::acquire(WaitingCall& call, Instant deadline, const Decision& said) noexcept {
  if (!must_wait(said)) return without_delay(said);
  if (said.allowed()) return sleep(call, deadline, said);
  const std::size_t last = last_to_admit(call.charges(), call.each());
  if (last == kNone) return said;
  return queue(call, last, deadline, true);
}

// Waits until the reservation comes due.
Decision Waits::sleep(WaitingCall& call, Instant deadline, const Decision& said) noexcept {
  const Instant now = options_.clock->now();
  const Instant turn = now + *said.delay;
  Decision decision = said;
  const auto charges = call.charges();
  const bool outlives_a_lease = std::any_of(charges.begin(), charges.end(), [&](const Charge& c) {
    return holds_permits(c.limit.algorithm()) && c.cost > 0 && *said.delay >= c.limit.period();
  });
  {
    const Lock lock(mutex_);
    if (outlives_a_lease) {  // its permit is taken already
      decision = refused(said, Reason::kLimited);
      decision.retry_after = said.delay;
    } else if (turn > deadline) {  // a leaky bucket in queue mode has a delay of its own
      decision = refused(said, Reason::kLimited);
      decision.retry_after = turn - deadline;
    } else if (queue_.size() + sleeping_ >= options_.most) {
      decision = refused(said, Reason::kTooManyWaiters);
    } else {
      ++sleeping_;
      count();
    }
  }
  if (decision.allowed()) {
    bool waits = true;
    while (waits && options_.clock->now() < turn) waits = call.park(turn);
    const Lock lock(mutex_);
    --sleeping_;
    count();
    if (!waits) decision = refused(said, Reason::kLimited);
  }
  if (!decision.allowed()) call.give_back();
  return without_delay(decision);
}

void Waits::released(std::span<const Charge> charges) noexcept {
  if (waiting() == 0) return;
  const Lock lock(mutex_);
  for (const Charge& charge : charges) {
    call_next(queue_.released(charge, options_.clock->now()));
  }
}

// Waits in the queues of counters that cannot be reserved, first in that of charge `at`.
// `is_known`: the store has denied that charge a moment ago.
Decision Waits::queue(WaitingCall& call, std::size_t at, Instant deadline, bool is_known) noexcept {
  for (;;) {
    Place place(call, call.charges()[at], deadline);
    Lock lock(mutex_);
    const auto joined = queue_.join(place, call.charges()[at], options_.clock->now());
    count();
    if (joined == WaitQueue::Joined::kRefused) return place.decision;
    if (joined == WaitQueue::Joined::kAsks) {
      place.turn = kFirstInstant;
      if (is_known) {
        static_cast<void>(queue_.ask(place));
        answer(place, call.each()[at]);
      }
    }
    for (;;) {
      if (!await_turn(call, place, lock)) return refused(place.decision, Reason::kLimited);
      if (place.has_left) return place.decision;
      place.turn = Instant::max();
      static_cast<void>(queue_.ask(place));
      lock.unlock();
      const Decision said = call.ask(reservation(deadline, *options_.clock));
      const auto charges = call.charges();
      const std::size_t last = said.allowed() ? kNone : last_to_admit(charges, call.each());
      lock.lock();
      if (last != kNone && charges.size() > at && last == at) {
        answer(place, call.each()[at]);
        continue;
      }
      // It leaves the queue: with its units, for the queue of another counter, or without hope.
      Decision leaves =
          said.outcome == Outcome::kFailed || call.each().size() <= at ? said : call.each()[at];
      if (leaves.outcome == Outcome::kDenied) leaves.retry_after.reset();
      answer(place, leaves);
      lock.unlock();
      if (said.allowed()) return acquire(call, deadline, said);
      if (last == kNone) return said;
      at = last;
      is_known = true;
      break;
    }
  }
}

// Blocks until the request may ask the store or has left the queue, as it does at its deadline if
// it waits for a permit. Returns false if its caller has given up.
bool Waits::await_turn(WaitingCall& call, Place& place, Lock& lock) noexcept {
  const bool expires = holds_permits(place.limit.algorithm());
  while (!place.has_left && place.turn > options_.clock->now()) {
    const Instant until = expires ? std::min(place.turn, place.deadline) : place.turn;
    lock.unlock();
    const bool waits = call.park(until);
    lock.lock();
    const Instant now = options_.clock->now();
    const bool is_late = expires && place.deadline <= now && place.turn > now;
    if (place.has_left || (waits && !is_late)) continue;
    WaitQueue::Next next;
    place.has_left = waits ? queue_.expire(place, now, next) : queue_.leave(place, now, next);
    call_next(next);
    count();
    return waits;
  }
  return true;
}

// Returns the first charge for whose counter others wait.
std::size_t Waits::line_of(std::span<const Charge> charges) noexcept {
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < charges.size(); ++i) {
    if (queue_.has_waiters(charges[i])) return i;
  }
  return kNone;
}

// The first request of a queue has asked the store.
void Waits::answer(Place& place, const Decision& said) noexcept {
  WaitQueue::Waiter* finished = nullptr;
  const WaitQueue::Next next = queue_.answer(place, said, options_.clock->now(), finished);
  while (finished != nullptr) {
    auto& one = static_cast<Place&>(*std::exchange(finished, finished->next));
    one.has_left = true;
    if (&one != &place) one.call.wake();
  }
  call_next(next);
  count();
}

void Waits::call_next(const WaitQueue::Next& next) noexcept {
  if (next.waiter == nullptr) return;
  auto& place = static_cast<Place&>(*next.waiter);
  place.turn = next.at;
  place.call.wake();
}

void Waits::count() noexcept {
  waiting_.store(queue_.size() + sleeping_, std::memory_order_relaxed);
}

// --- the threads of this process
// -------------------------------------------------------------------

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
  struct Entry {
    Waits waits;
    std::size_t users = 0;
  };
  std::mutex mutex;
  std::map<const Store*, Entry> stores;
  std::atomic<std::size_t> users{0};  // of all stores

  static Registry& instance() {
    static Registry* const one = new Registry;  // threads may wait while the process ends
    return *one;
  }
};

class SharedWaits {
 public:
  explicit SharedWaits(const Store& store) : store_(&store) {
    const std::lock_guard lock(registry_.mutex);
    // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): under the lock
    entry_ = &registry_.stores[store_];
    ++entry_->users;
    ++registry_.users;
  }
  ~SharedWaits() {
    const std::lock_guard lock(registry_.mutex);
    --registry_.users;
    if (--entry_->users == 0) registry_.stores.erase(store_);
  }
  SharedWaits(const SharedWaits&) = delete;
  SharedWaits& operator=(const SharedWaits&) = delete;

  Waits* operator->() const noexcept { return &entry_->waits; }

 private:
  Registry& registry_ = Registry::instance();
  const Store* store_;
  Registry::Entry* entry_;
};

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
    SharedWaits waits(store);
    return is_known ? waits->acquire(call, deadline, said) : waits->acquire(call, deadline);
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
  if (found != registry.stores.end()) found->second.waits.released(charges);
}

}  // namespace sluice::detail

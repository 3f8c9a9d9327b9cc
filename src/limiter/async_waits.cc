#include "sluice/detail/async_waits.h"

#include <algorithm>
#include <new>
#include <utility>

namespace sluice::detail {

// Requests that have ended, in order. Their callers learn it when the lock is released.
class AsyncWaits::Ended {
 public:
  void add(WaitingRequest& request) noexcept {
    request.state_ = State::kEnded;
    request.next = nullptr;
    *last_ = &request;
    last_ = &request.next;
  }
  void add_all(WaitQueue::Waiter* first) noexcept {
    while (first != nullptr) {
      add(static_cast<WaitingRequest&>(*std::exchange(first, first->next)));
    }
  }
  void cancel(WaitingRequest& request) noexcept {
    request.is_cancelled = true;
    request.decision.outcome = Outcome::kDenied;  // it has taken nothing
    add(request);
  }
  WaitingRequest* take() noexcept {
    last_ = &first_;
    return static_cast<WaitingRequest*>(std::exchange(first_, nullptr));
  }

 private:
  WaitQueue::Waiter* first_ = nullptr;
  WaitQueue::Waiter** last_ = &first_;
};

// A question to the asynchronous store, and those that follow from its answer.
class AsyncWaits::Question final : public AsyncStore::Completion {
 public:
  Question(std::shared_ptr<AsyncWaits> of, WaitingRequest& asked_by) noexcept
      : request(&asked_by), charge(asked_by.charge()), waits_(std::move(of)) {}

  // Asks until somebody has to wait, then deletes itself.
  void ask() noexcept {
    for (;;) {
      step_.store(Step::kAsked, std::memory_order_relaxed);
      waits_->options_.async->async_apply(action, {&charge, 1}, {}, {&each_, 1}, *this);
      // An answer before the return is handled here: a chain of them must not fill the stack.
      if (step_.exchange(Step::kReturned, std::memory_order_acq_rel) != Step::kAnswered) return;
      if (!waits_->take_answer(*this)) return delete this;
    }
  }
  void done(const Decision& decision) noexcept override {
    const Visit visit(waits_);
    said = decision;
    if (step_.exchange(Step::kAnswered, std::memory_order_acq_rel) != Step::kReturned) return;
    if (waits_->take_answer(*this)) return ask();
    delete this;
  }

  WaitingRequest* request;
  Action action = Verb::kTake;
  Charge charge;
  Decision said;

 private:
  enum class Step : std::uint8_t { kAsked, kAnswered, kReturned };

  const std::shared_ptr<AsyncWaits> waits_;
  std::atomic<Step> step_{Step::kAsked};
  Decision each_;
};

// Gives back what a cancelled request has taken from an asynchronous store.
class AsyncWaits::Refund final : public AsyncStore::Completion {
 public:
  explicit Refund(const WaitingRequest& request) : key_(request.key), charge_(request.charge()) {
    charge_.key = key_;
  }
  void ask(AsyncStore& store) noexcept {
    store.async_apply(Verb::kRefund, {&charge_, 1}, {}, {&each_, 1}, *this);
  }
  void done(const Decision&) noexcept override { delete this; }

 private:
  const std::string key_;
  Charge charge_;
  Decision each_;
};

AsyncWaits::AsyncWaits(const Options& options, Alarm& alarm)
    : options_(options), clock_(*options.clock), alarm_(&alarm), queue_({.most = options.most}) {}
AsyncWaits::~AsyncWaits() = default;

// --- a store that answers at once ------------------------------------------------------------

AsyncWaits::Verdict AsyncWaits::decide(const Charge& charge, Instant deadline,
                                       Decision& decision) noexcept {
  if (is_reservable(charge.limit)) return decide_bucket(charge, deadline, decision);
  if (waiting() > 0) {
    const Lock lock(mutex_);
    if (queue_.has_waiters(charge)) return Verdict::kQueues;
  }
  decision = options_.store->apply_one(Verb::kTake, charge, {});
  const bool waits = !decision.allowed() && decision.retry_after.has_value();
  return waits ? Verdict::kWaits : Verdict::kEnded;
}

AsyncWaits::Verdict AsyncWaits::decide_bucket(const Charge& charge, Instant deadline,
                                              Decision& decision) noexcept {
  const auto verdict = [&] {
    if (!decision.allowed()) return Verdict::kEnded;
    const bool waits = decision.delay.value_or(Duration{0}) > Duration{0} || has_sleepers(charge);
    return waits ? Verdict::kWaits : Verdict::kEnded;
  };
  const std::size_t others = waiting();
  if (others == 0) {  // probably nobody has to wait: a take needs no time
    decision = options_.store->apply_one(Verb::kTake, charge, {});
    if (decision.reason != Reason::kLimited) return verdict();
  }
  if (others >= options_.most) {
    decision = options_.store->apply_one(Action(Verb::kReserve), charge, {});
    if (decision.reason == Reason::kLimited) decision = too_many(charge.limit);
  } else {
    decision = options_.store->apply_one(reservation(deadline), charge, {});
  }
  return verdict();
}

// --- beginning and end of a request -------------------------------------------------------------

Decision AsyncWaits::too_many(const Limit& limit) noexcept {
  return {
      .outcome = Outcome::kDenied, .reason = Reason::kTooManyWaiters, .capacity = limit.capacity()};
}

Action AsyncWaits::reservation(Instant deadline) const noexcept {
  return {Verb::kReserve,
          std::clamp(deadline - clock_.now(), Duration{0}, kLastInstant - kFirstInstant)};
}

bool AsyncWaits::make_room() noexcept { return sleepers_.reserve(queue_.size() + reserved_ + 1); }

void AsyncWaits::start(WaitingRequest& request, const Decision* said) noexcept {
  Ended ended;
  Lock lock(mutex_);
  const bool reserves = is_reservable(request.limit);
  if (alarm_ == nullptr || !make_room()) {
    request.decision = said != nullptr ? *said : Decision::refused(Reason::kStoreError);
    request.is_cancelled = true;
    ended.add(request);
  } else if (!reserves) {
    queue(request, said, lock, ended);
  } else if (said == nullptr && queue_.size() + reserved_ >= options_.most) {
    request.decision = too_many(request.limit);
    ended.add(request);
  } else {
    ++reserved_;
    if (said != nullptr) {
      sleep(request, *said, ended);
    } else {
      ask_later(request, lock, ended);
    }
  }
  finish(lock, ended);
}

bool AsyncWaits::has_sleepers(const Charge& charge) noexcept {
  if (waiting() == 0) return false;
  const Lock lock(mutex_);
  return lines_.contains(charge);
}

// Waits for a reservation that the store has made, if it has, and for the requests of the counter
// that arrived earlier. The store has put them in order, but not the instants here: they also
// contain the time that each answer needed. A fallback, which knows no order, waits for nobody, nor
// does a request whose deadline would pass.
void AsyncWaits::sleep(WaitingRequest& request, const Decision& said, Ended& ended) noexcept {
  request.decision = said;
  const Duration delay = said.allowed() ? said.delay.value_or(Duration{0}) : Duration{0};
  request.turn_ = clock_.now() + delay;
  const auto found = said.reason == Reason::kOk ? lines_.find(&request) : lines_.end();
  const bool is_next =
      found == lines_.end() || (*found)->turn_ > std::max(request.turn_, request.deadline);
  // After close() nothing wakes it.
  if (alarm_ == nullptr && (!is_next || delay > Duration{0})) request.is_cancelled = true;
  if (!said.allowed() || request.is_cancelled || (is_next && delay <= Duration{0})) {
    --reserved_;
    return ended.add(request);
  }
  request.state_ = State::kSleeping;
  if (!is_next) return follow(**found, request);
  sleepers_.add(request, request.turn_);
  if (found != lines_.end() || said.reason != Reason::kOk) return;
  try {
    lines_.insert(&request);
  } catch (const std::bad_alloc&) {  // it wakes at its instant, in whatever order
  }
}

// The request sleeps behind the last one of its counter.
void AsyncWaits::follow(WaitingRequest& last, WaitingRequest& request) noexcept {
  auto node = lines_.extract(&last);
  node.value() = &request;
  lines_.insert(std::move(node));
  request.turn_ = std::max(request.turn_, last.turn_);
  request.before = &last;
  last.next = &request;
}

// The request no longer sleeps.
void AsyncWaits::wake(WaitingRequest& request) noexcept {
  --reserved_;
  auto* const before = static_cast<WaitingRequest*>(request.before);
  auto* const next = static_cast<WaitingRequest*>(request.next);
  if (before != nullptr) {
    before->next = next;
  } else {
    sleepers_.remove(request);
  }
  if (next != nullptr) {
    next->before = before;
    if (before == nullptr) sleepers_.add(*next, next->turn_);
    return;
  }
  const auto found = lines_.find(&request);
  if (found == lines_.end() || *found != &request) return;
  auto node = lines_.extract(found);
  if (before == nullptr) return;
  node.value() = before;
  lines_.insert(std::move(node));
}

void AsyncWaits::cancel(WaitingRequest& request) noexcept {
  Ended ended;
  Lock lock(mutex_);
  WaitQueue::Next next;
  if (request.state_ == State::kEnded || request.is_cancelled) return;
  request.is_cancelled = true;
  if (request.state_ == State::kSleeping) {
    wake(request);
    ended.add(request);
  } else if (request.state_ == State::kQueued) {
    const Instant now = clock_.now();
    if (queue_.leave(request, now, next)) {
      sleepers_.remove(request);
      ended.cancel(request);
      WaitingRequest* const first = schedule(next, now);
      if (first != nullptr) ask_for(first, nullptr, lock, ended);
    } else {
      ++cancelled_;
    }
  }
  finish(lock, ended);
}

void AsyncWaits::close() noexcept {
  Ended ended;
  Lock lock(mutex_);
  alarm_ = nullptr;
  WaitQueue::Waiter* left = nullptr;
  while (!sleepers_.empty()) {
    auto& request = static_cast<WaitingRequest&>(sleepers_.first());
    if (request.state_ != State::kSleeping) {
      sleepers_.remove(request);
      continue;
    }
    wake(request);
    request.is_cancelled = true;
    ended.add(request);
  }
  queue_.clear(left);
  while (left != nullptr) {
    ended.cancel(static_cast<WaitingRequest&>(*std::exchange(left, left->next)));
  }
  finish(lock, ended);
}

// Releases the lock and calls the requests that have ended.
void AsyncWaits::finish(Lock& lock, Ended& ended) noexcept {
  waiting_.store(queue_.size() + reserved_, std::memory_order_relaxed);
  set_alarm();
  lock.unlock();
  for (WaitingRequest* request = ended.take(); request != nullptr;) {
    auto* const next = static_cast<WaitingRequest*>(request->next);
    if (request->is_cancelled && request->decision.allowed()) refund(*request);
    request->ended();
    request = next;
  }
}

void AsyncWaits::refund(const WaitingRequest& request) noexcept try {
  if (options_.store != nullptr) {
    options_.store->apply_one(Verb::kRefund, request.charge(), {});
  } else {
    (new Refund(request))->ask(*options_.async);
  }
} catch (const std::bad_alloc&) {  // fewer units are admitted than possible, never more
}

// --- time -------------------------------------------------------------------------------------

void AsyncWaits::set_alarm() noexcept {
  const Instant at = sleepers_.empty() ? Instant::max() : sleepers_.at();
  if (alarm_ == nullptr || at == alarm_at_) return;
  alarm_at_ = at;
  alarm_->set(at);
}

void AsyncWaits::on_time() noexcept {
  Ended ended;
  Lock lock(mutex_);
  alarm_at_ = Instant::max();
  const Instant now = clock_.now();
  while (!sleepers_.empty() && sleepers_.at() <= now) {
    auto& request = static_cast<WaitingRequest&>(sleepers_.first());
    if (request.state_ == State::kQueued) {
      sleepers_.remove(request);
      ask_for(&request, nullptr, lock, ended);
    } else {
      wake(request);
      ended.add(request);
    }
  }
  finish(lock, ended);
}

// --- the queue ----------------------------------------------------------------------------------

void AsyncWaits::queue(WaitingRequest& request, const Decision* said, Lock& lock,
                       Ended& ended) noexcept {
  request.state_ = State::kQueued;
  switch (queue_.join(request, request.charge(), clock_.now())) {
    case WaitQueue::Joined::kRefused: return ended.add(request);
    case WaitQueue::Joined::kWaits: return;
    case WaitQueue::Joined::kAsks: return ask_for(&request, said, lock, ended);
  }
}

// Asks the store for the first waiter of a counter, and for those behind it, until one has to wait.
// `said`: the answer if it is known. Releases the lock meanwhile.
void AsyncWaits::ask_for(WaitQueue::Waiter* first, const Decision* said, Lock& lock,
                         Ended& ended) noexcept {
  if (options_.store == nullptr) {
    return ask_later(static_cast<WaitingRequest&>(*first), lock, ended);
  }
  while (first != nullptr) {
    const Charge question = queue_.ask(*first);
    Decision answer;
    if (said != nullptr) {
      answer = *std::exchange(said, nullptr);
    } else {
      lock.unlock();
      answer = options_.store->apply_one(Verb::kTake, question, {});
      lock.lock();
    }
    first = take_answer(*first, answer, ended);
  }
}

void AsyncWaits::ask_later(WaitingRequest& request, Lock& lock, Ended& ended) noexcept {
  const bool reserves = is_reservable(request.limit);
  auto* const question = new (std::nothrow) Question(shared_from_this(), request);
  if (question == nullptr) {
    const Decision failed = Decision::refused(Reason::kStoreError);
    if (reserves) return sleep(request, failed, ended);
    (void)queue_.ask(request);
    take_answer(request, failed, ended);  // ends all waiters of the counter
    return;
  }
  if (reserves) {
    question->action = reservation(request.deadline);
  } else {
    question->charge = queue_.ask(request);
  }
  lock.unlock();
  question->ask();
  lock.lock();
}

// Takes the answer of the asynchronous store. Returns whether the question is another one now.
bool AsyncWaits::take_answer(Question& question) noexcept {
  Ended ended;
  Lock lock(mutex_);
  WaitingRequest* next = nullptr;
  if (is_reservable(question.request->limit)) {
    sleep(*question.request, question.said, ended);
  } else {
    next = take_answer(*question.request, question.said, ended);
  }
  if (next != nullptr) {
    question.request = next;
    question.charge = queue_.ask(*next);
  }
  finish(lock, ended);
  return next != nullptr;
}

// Returns the request that asks at once.
WaitingRequest* AsyncWaits::take_answer(WaitQueue::Waiter& first, const Decision& said,
                                        Ended& ended) noexcept {
  const Instant now = clock_.now();
  WaitQueue::Waiter* finished = nullptr;
  WaitQueue::Next next = queue_.answer(first, said, now, finished);
  for (WaitQueue::Waiter* w = finished; w != nullptr && cancelled_ > 0; w = w->next) {
    if (static_cast<WaitingRequest*>(w)->is_cancelled) --cancelled_;
  }
  ended.add_all(finished);
  if (next.waiter != nullptr && (cancelled_ > 0 || alarm_ == nullptr)) {
    drop_cancelled(next, now, ended);
  }
  return schedule(next, now);
}

// Ends the waiters that were cancelled while the store decided, and has not admitted.
void AsyncWaits::drop_cancelled(WaitQueue::Next& next, Instant now, Ended& ended) noexcept {
  for (WaitQueue::Waiter* w = next.waiter; w != nullptr;) {
    auto& request = static_cast<WaitingRequest&>(*w);
    w = w->next;
    if (!request.is_cancelled && alarm_ != nullptr) continue;
    if (request.is_cancelled) --cancelled_;
    queue_.leave(request, now, next);
    ended.cancel(request);
  }
}

// Lets the next waiter ask at its instant; returns it if that is now.
WaitingRequest* AsyncWaits::schedule(const WaitQueue::Next& next, Instant now) noexcept {
  auto* const request = static_cast<WaitingRequest*>(next.waiter);
  if (request == nullptr) return nullptr;
  sleepers_.remove(*request);
  if (next.at <= now) return request;
  sleepers_.add(*request, next.at);
  return nullptr;
}

}  // namespace sluice::detail

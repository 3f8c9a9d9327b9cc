// The requests of an AsyncLimiter: Waits says what each does next, and this asks the store, sleeps
// with one timer for all, and keeps requests of one counter in order.

#include "sluice/detail/async_waits.h"

#include <algorithm>
#include <new>
#include <set>
#include <tuple>
#include <utility>

#include "limiter/wait_queue.h"
#include "limiter/waits.h"

namespace sluice::detail {
namespace {

// Requests by the counters for which they wait.
struct ByCounter {
  using is_transparent = void;
  static std::tuple<Algorithm, std::string_view> name(const Charge& charge) noexcept {
    return {charge.limit.algorithm(), charge.key};
  }
  static std::tuple<Algorithm, std::string_view> name(const WaitingRequest* request) noexcept {
    return {request->limit.algorithm(), request->key};
  }
  bool operator()(const auto& a, const auto& b) const noexcept { return name(a) < name(b); }
};

WaitingRequest& request_of(Waiter& one) noexcept { return static_cast<WaitingRequest&>(one); }

Decision too_many(const Limit& limit) noexcept {
  return {
      .outcome = Outcome::kDenied, .reason = Reason::kTooManyWaiters, .capacity = limit.capacity()};
}

class Requests final : public AsyncWaits,
                       public Waits,
                       public std::enable_shared_from_this<Requests> {
 public:
  Requests(Store* store, AsyncStore* async, std::size_t most, Alarm alarm, const Clock& clock)
      : Waits(most, clock, true), store_(store), async_(async), alarm_(std::move(alarm)) {}

  bool decide(const Charge& charge, Instant deadline,
              std::optional<Decision>& said) noexcept override;
  void start(WaitingRequest& request, const std::optional<Decision>& said) noexcept override;
  void cancel(WaitingRequest& request) noexcept override;
  void on_time() noexcept override;
  void close() noexcept override;
  std::size_t waiting() const noexcept override { return Waits::waiting(); }

 private:
  class Question;

  void changed(Waiter& one) noexcept override;
  bool has_sleepers(const Charge& charge) noexcept;
  Next take_answer(WaitingRequest& request, const Decision& said) noexcept;
  Next follow(WaitingRequest& last, WaitingRequest& request, const Decision& said,
              Instant turn) noexcept;
  void unlink(WaitingRequest& request) noexcept;
  void proceed(WaitingRequest& request, Next next, Lock& lock) noexcept;
  std::optional<Decision> ask(WaitingRequest& request, Lock& lock) noexcept;
  void take(Question& question) noexcept;
  void finish(Lock& lock) noexcept;
  void refund(const WaitingRequest& request) noexcept;
  void set_alarm() noexcept;

  Store* const store_;
  AsyncStore* const async_;
  const Alarm alarm_;

  // Protected by the lock.
  Instant alarm_at_ = Instant::max();
  WakeHeap sleepers_;  // requests whose reservation comes due, and those that ask next
  // The last request of each counter whose requests sleep. They are linked in order of arrival, and
  // only the first of them is in `sleepers_`.
  std::set<WaitingRequest*, ByCounter> lines_;
  // Requests that have ended, in order. Their callers learn it when the lock is released.
  Waiter* ended_ = nullptr;
  Waiter** last_ended_ = &ended_;
};

// A question to the asynchronous store. Deletes itself after its answer, unless that comes before
// ask() returns.
class Requests::Question final : public AsyncStore::Completion {
 public:
  Question(std::shared_ptr<Requests> of, WaitingRequest& asked_by, const Charge& about) noexcept
      : request(&asked_by), charge_(about), waits_(std::move(of)) {}
  // One that gives back what a request has taken, which ends meanwhile. Throws std::bad_alloc.
  explicit Question(const WaitingRequest& of) : key_(of.key), charge_(of.charge()) {
    charge_.key = key_;
  }

  // Returns whether the answer has come: a chain of them must not fill the stack.
  bool ask(AsyncStore& store, const Action& action) noexcept {
    store.async_apply(action, {&charge_, 1}, {}, {&each_, 1}, *this);
    return is_halfway_.exchange(true, std::memory_order_acq_rel);
  }
  void give_back(AsyncStore& store) noexcept {
    store.async_apply(Verb::kRefund, {&charge_, 1}, {}, {&each_, 1}, *this);
  }
  void done(const Decision& decision) noexcept override {
    if (request == nullptr) return delete this;
    const Visit visit(waits_);
    said = decision;
    if (!is_halfway_.exchange(true, std::memory_order_acq_rel)) return;
    waits_->take(*this);
    delete this;
  }

  WaitingRequest* const request = nullptr;
  Decision said;

 private:
  const std::string key_;
  Charge charge_;
  const std::shared_ptr<Requests> waits_;
  std::atomic<bool> is_halfway_{false};  // ask() has returned, or the answer has come
  Decision each_;
};

// --- a store that answers at once ---------------------------------------------------------------

bool Requests::decide(const Charge& charge, Instant deadline,
                      std::optional<Decision>& said) noexcept {
  const std::size_t others = waiting();
  if (!is_reservable(charge.limit)) {
    if (others > 0) {
      const Lock lock(mutex_);
      if (queue_.has_waiters(charge)) return false;
    }
    said = store_->apply_one(Verb::kTake, charge, {});
    return said->allowed() || !said->retry_after;
  }
  // If probably nobody has to wait: a take needs no time.
  if (others == 0) said = store_->apply_one(Verb::kTake, charge, {});
  if (!said || said->reason == Reason::kLimited) {
    const bool is_full = others >= most_;
    const Action action = is_full ? Action(Verb::kReserve) : reservation(deadline, clock_);
    said = store_->apply_one(action, charge, {});
    if (is_full && said->reason == Reason::kLimited) said = too_many(charge.limit);
  }
  return !said->allowed() || (!must_wait(*said) && !has_sleepers(charge));
}

bool Requests::has_sleepers(const Charge& charge) noexcept {
  if (waiting() == 0) return false;
  const Lock lock(mutex_);
  return lines_.contains(charge);
}

// --- beginning and end of a request -------------------------------------------------------------

void Requests::start(WaitingRequest& request, const std::optional<Decision>& said) noexcept {
  Lock lock(mutex_);
  Next next = Next::kAsks;
  if (is_closed_ || !sleepers_.reserve(queue_.size() + counted_ + 1)) {
    request.is_cancelled = true;
    next = end(request, said.value_or(Decision::refused(Reason::kStoreError)));
  } else if (!is_reservable(request.limit)) {
    next = join(request, request.charge(), said ? &*said : nullptr);
  } else if (said) {
    next = take_answer(request, *said);
  } else if (is_full()) {
    next = end(request, too_many(request.limit));
  } else {
    count_in(request);
  }
  proceed(request, next, lock);
  finish(lock);
}

void Requests::cancel(WaitingRequest& request) noexcept {
  Lock lock(mutex_);
  if (request.state == State::kEnded || request.is_cancelled) return;
  if (request.state == State::kSleeps) unlink(request);
  proceed(request, Waits::cancel(request), lock);
  finish(lock);
}

void Requests::close() noexcept {
  Lock lock(mutex_);
  is_closed_ = true;
  while (!sleepers_.empty()) {
    WaitingRequest& request = request_of(sleepers_.first());
    if (request.state == State::kSleeps) {
      unlink(request);
      Waits::cancel(request);
      changed(request);
    } else {
      sleepers_.remove(request);
    }
  }
  Waiter* left = nullptr;
  queue_.clear(left);
  while (left != nullptr) {
    Waiter& one = *std::exchange(left, left->next);
    one.is_cancelled = true;
    one.decision.outcome = Outcome::kDenied;  // it has taken nothing
    end(one, one.decision);
    changed(one);
  }
  finish(lock);
}

// The request has ended, or waits until another instant.
void Requests::changed(Waiter& one) noexcept {
  sleepers_.remove(one);
  if (one.state == State::kEnded) {
    one.next = nullptr;
    *last_ended_ = &one;
    last_ended_ = &one.next;
    return;
  }
  const bool is_behind = one.state == State::kSleeps && one.before != nullptr;
  const Instant at = wakes_at(one);
  if (!is_behind && at != Instant::max()) sleepers_.add(one, at);
}

void Requests::on_time() noexcept {
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

// The requests of an AsyncLimiter: Waits says what each does next, and this asks the store, sleeps
// with one timer for all, and keeps requests of one counter in order.

#include "sluice/detail/async_waits.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
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
  using Name = std::tuple<Algorithm, std::string_view, std::string_view>;
  static Name name(const Charge& charge) noexcept {
    return {charge.limit.algorithm(), charge.key, charge.tag};
  }
  static Name name(const WaitingRequest* request) noexcept {
    return {request->limit.algorithm(), request->key(), request->tag()};
  }
  bool operator()(const auto& a, const auto& b) const noexcept { return name(a) < name(b); }
};

WaitingRequest& request_of(Waiter& one) noexcept { return static_cast<WaitingRequest&>(one); }

class Requests final : public AsyncWaits,
                       public Waits,
                       public std::enable_shared_from_this<Requests> {
 public:
  Requests(Store* store, AsyncStore* async, std::size_t most, Alarm alarm, const Clock& clock)
      : Waits(most, clock, true), store_(store), async_(async), alarm_(std::move(alarm)) {}

  bool decide(const Charge& charge, Instant deadline,
              std::optional<Decision>& said) noexcept override;
  void start(WaitingRequest& request, const std::optional<Decision>& said) noexcept override;
  void released(std::span<const Charge> charges) noexcept override;
  void cancel(WaitingRequest& request) noexcept override;
  void on_time() noexcept override;
  void close() noexcept override;
  std::size_t waiting() const noexcept override { return Waits::waiting(); }

 private:
  class Question;

  void drop(Waiter& one) noexcept;
  void changed(Waiter& one) noexcept override;
  bool has_sleepers(const Charge& charge) noexcept;
  Next take_answer(WaitingRequest& request, const Decision& said) noexcept;
  Next follow(WaitingRequest& last, WaitingRequest& request, const Decision& said,
              Instant turn) noexcept;
  void unlink(WaitingRequest& request) noexcept;
  void proceed(WaitingRequest& request, Next next, Lock& lock) noexcept;
  std::optional<Decision> ask(WaitingRequest& request, Lock& lock) noexcept;
  void take(Question& question) noexcept;
  std::optional<Decision> end_question(Question& question, Lock& lock) noexcept;
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
  Question* questions_ = nullptr;  // those that the store has not answered
  // Requests that have ended, in order. Their callers learn it when the lock is released.
  Waiter* ended_ = nullptr;
  Waiter** last_ended_ = &ended_;
};

// A question to the asynchronous store, which may outlive the request. Deletes itself after its
// answer, unless that comes before ask() returns.
class Requests::Question final : public AsyncStore::Completion {
 public:
  // Without a request it can only give back. Throws std::bad_alloc.
  explicit Question(const Charge& of, WaitingRequest* asked_by = nullptr,
                    std::shared_ptr<Requests> waits = nullptr)
      : request(asked_by),
        names_{std::string(of.key), std::string(of.tag)},
        permit_(of.permit != nullptr ? *of.permit : PermitId()),
        charge_(of),
        waits_(std::move(waits)) {
    charge_.key = names_[0];
    charge_.tag = names_[1];
    if (of.permit != nullptr) charge_.permit = &permit_;
  }

  // Adds it to a list, or removes it from its list.
  void link(Question*& first) noexcept {
    next = first;
    if (next != nullptr) next->link_ = &next;
    link_ = &first;
    first = this;
  }
  void unlink() noexcept {
    *link_ = next;
    if (next != nullptr) next->link_ = link_;
  }

  // Returns whether the answer has come: a chain of them must not fill the stack.
  bool ask(AsyncStore& store, const Action& action) noexcept {
    store.async_apply(action, {&charge_, 1}, {}, {&each_, 1}, *this);
    return is_halfway_.exchange(true, std::memory_order_acq_rel);
  }
  // Gives back the units of the charge, then deletes itself.
  void give_back(AsyncStore& store) noexcept {
    waits_ = nullptr;
    const Verb verb = holds_permits(charge_.limit.algorithm()) ? Verb::kRelease : Verb::kRefund;
    store.async_apply(verb, {&charge_, 1}, {}, {&each_, 1}, *this);
  }
  void done(const Decision& decision) noexcept override {
    if (waits_ == nullptr) return delete this;
    const Visit visit(waits_);
    answer = decision;
    if (is_halfway_.exchange(true, std::memory_order_acq_rel)) waits_->take(*this);
  }

  WaitingRequest* request;   // null: it has ended
  Question* next = nullptr;  // in the list
  Decision answer;

 private:
  const std::array<std::string, 2> names_;
  const PermitId permit_;
  Charge charge_;
  std::shared_ptr<Requests> waits_;      // null: it gives back
  Question** link_ = nullptr;            // to this one
  std::atomic<bool> is_halfway_{false};  // ask() has returned, or the answer has come
  Decision each_;
};

// --- a store that answers at once ---------------------------------------------------------------

// Whether a limit has denied for now, also by a cache or a fallback.
bool lacks_units(const Decision& said) noexcept {
  return !said.allowed() && said.retry_after && said.reason != Reason::kBlocked;
}

bool Requests::decide(const Charge& charge, Instant deadline,
                      std::optional<Decision>& said) noexcept {
  const std::size_t others = waiting();
  if (!is_reservable(charge.limit)) {
    if (others > 0 && charge.cost > 0) {
      const Lock lock(mutex_);
      if (queue_.has_waiters(charge)) return false;
    }
    said = store_->apply_one(Verb::kTake, charge, {});
    return said->allowed() || !said->retry_after;
  }
  // If probably nobody has to wait: a take needs no time.
  if (others == 0) said = store_->apply_one(Verb::kTake, charge, {});
  if (!said || lacks_units(*said)) {
    const bool is_full = others >= most_;
    const Action action = is_full ? Action(Verb::kReserve) : reservation(deadline, clock_);
    said = store_->apply_one(action, charge, {});
    if (is_full && lacks_units(*said)) {
      said = refusal(Reason::kTooManyWaiters, charge.limit);
    }
  }
  return !said->allowed() || (!must_wait(*said) && !has_sleepers(charge));
}

bool Requests::has_sleepers(const Charge& charge) noexcept {
  if (waiting() == 0 || charge.cost == 0) return false;
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
  } else if (!is_reservable(request.limit) && request.cost > 0) {
    next = join(request, request.charge(), said ? &*said : nullptr);
  } else if (said) {
    next = take_answer(request, *said);
  } else if (is_full() && request.cost > 0) {
    next = end(request, refusal(Reason::kTooManyWaiters, request.limit));
  } else {
    count_in(request);
  }
  proceed(request, next, lock);
  finish(lock);
}

void Requests::released(std::span<const Charge> charges) noexcept {
  if (store_ != nullptr) detail::released(*store_, charges);  // threads can wait for it
  if (waiting() == 0) return;
  Lock lock(mutex_);
  for (const Charge& charge : charges) call(queue_.released(charge, clock_.now()), nullptr);
  finish(lock);
}

void Requests::cancel(WaitingRequest& request) noexcept {
  const Visit visit(shared_from_this());
  Lock lock(mutex_);
  if (request.state == State::kEnded || request.is_cancelled) return;
  if (request.state == State::kSleeps) unlink(request);
  proceed(request, Waits::cancel(request), lock);
  finish(lock);
}

void Requests::close() noexcept {
  cancel_operations();
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
  queue_.clear(left, async_ != nullptr);
  while (left != nullptr) drop(*std::exchange(left, left->next));
  for (Question* question = questions_; question != nullptr; question = question->next) {
    WaitingRequest* const request = std::exchange(question->request, nullptr);
    if (request->state != State::kEnded) drop(*request);  // it was in no queue
  }
  finish(lock);
}

// The limiter ends: the question under way gives back what it takes.
void Requests::drop(Waiter& one) noexcept {
  one.is_cancelled = true;
  one.decision.outcome = Outcome::kDenied;
  end(one, one.decision);
  changed(one);
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
  const Visit visit(shared_from_this());
  Lock lock(mutex_);
  alarm_at_ = Instant::max();
  finish(lock);
}

// Lets the requests ask whose turn has come, then releases the lock and calls those that have
// ended.
void Requests::finish(Lock& lock) noexcept {
  while (!sleepers_.empty() && sleepers_.at() <= clock_.now()) {
    WaitingRequest& request = request_of(sleepers_.first());
    if (request.state == State::kSleeps) {
      unlink(request);
    } else {
      sleepers_.remove(request);
    }
    proceed(request, go_on(request), lock);
  }
  count();
  set_alarm();
  Waiter* one = std::exchange(ended_, nullptr);
  last_ended_ = &ended_;
  lock.unlock();
  while (one != nullptr) {
    WaitingRequest& request = request_of(*std::exchange(one, one->next));
    if (request.gives_back) refund(request);
    request.ended();
  }
}

void Requests::set_alarm() noexcept {
  const Instant at = sleepers_.empty() ? Instant::max() : sleepers_.at();
  if (is_closed_ || at == alarm_at_) return;
  alarm_at_ = at;
  alarm_(at);
}

void Requests::refund(const WaitingRequest& request) noexcept try {
  const Charge charge = request.charge();
  const bool is_permit = holds_permits(charge.limit.algorithm());
  if (request.is_fallback && !is_permit) return;
  if (store_ != nullptr) {
    store_->apply_one(is_permit ? Verb::kRelease : Verb::kRefund, charge, {});
  } else {
    (new Question(charge))->give_back(*async_);
  }
  if (is_permit) released({&charge, 1});
} catch (const std::bad_alloc&) {  // fewer units are admitted than possible, never more
}

// --- the store's answers ------------------------------------------------------------------------

// Asks for the request as often as it has to.
void Requests::proceed(WaitingRequest& request, Next next, Lock& lock) noexcept {
  while (next == Next::kAsks) {
    const std::optional<Decision> said = ask(request, lock);
    if (!said) return;
    next = take_answer(request, *said);
  }
  changed(request);
}

// Releases the lock meanwhile. Empty: the answer comes later, or the request has ended.
std::optional<Decision> Requests::ask(WaitingRequest& request, Lock& lock) noexcept try {
  const bool is_queued = request.line != nullptr;
  Charge charge = request.charge();
  if (is_queued) charge.cost = queue_.ask(request).cost;
  count();  // so that a release meanwhile sees this request
  if (store_ != nullptr) {
    lock.unlock();
    const Decision said = store_->apply_one(Verb::kTake, charge, {});
    lock.lock();
    return said;
  }
  auto* const question = new Question(charge, &request, shared_from_this());
  const Action action = is_queued ? Verb::kTake : reservation(request.deadline, clock_);
  question->link(questions_);
  lock.unlock();
  const bool is_answered = question->ask(*async_, action);
  lock.lock();
  return is_answered ? end_question(*question, lock) : std::nullopt;
} catch (const std::bad_alloc&) {
  return Decision::refused(Reason::kStoreError);
}

void Requests::take(Question& question) noexcept {
  Lock lock(mutex_);
  WaitingRequest* const request = question.request;
  const std::optional<Decision> answered = end_question(question, lock);
  if (answered) proceed(*request, take_answer(*request, *answered), lock);
  finish(lock);
}

// Ends a question that has its answer. Empty: the request has ended before, and the question gives
// back what it has taken. Releases the lock meanwhile.
std::optional<Decision> Requests::end_question(Question& question, Lock& lock) noexcept {
  question.unlink();
  const Decision answer = question.answer;
  const bool is_waiting = question.request != nullptr;
  if (is_waiting || !took_units(answer)) {
    delete &question;
    return is_waiting ? std::optional(answer) : std::nullopt;
  }
  lock.unlock();
  question.give_back(*async_);
  lock.lock();
  return std::nullopt;
}

// A request waits for a reservation that the store has made, and for the requests of the counter
// that arrived earlier. The store has put them in order, but not the instants here: they also
// contain the time that each answer needed. A fallback, which knows no order, waits for nobody, nor
// does a request without cost, or one whose deadline would pass.
Waits::Next Requests::take_answer(WaitingRequest& request, const Decision& said) noexcept {
  const bool is_ordered = is_reservable(request.limit) && request.cost > 0 && said.allowed() &&
                          said.reason == Reason::kOk && !request.is_cancelled;
  const auto last = is_ordered ? lines_.find(&request) : lines_.end();
  if (last != lines_.end()) {
    const Instant turn = std::max(clock_.now() + said.delay.value_or(Duration{0}), (*last)->turn);
    if (turn <= request.deadline) return follow(**last, request, said, turn);
  }
  const Charge charge = request.charge();
  const Next next = answer(request, said, {&charge, 1}, {&said, 1});
  if (next == Next::kWaits && is_ordered && last == lines_.end()) {
    try {
      lines_.insert(&request);
    } catch (const std::bad_alloc&) {  // it wakes at its instant, in whatever order
    }
  }
  return next;
}

// The request sleeps behind the last one of its counter.
Waits::Next Requests::follow(WaitingRequest& last, WaitingRequest& request, const Decision& said,
                             Instant turn) noexcept {
  if (is_closed_) {
    request.is_cancelled = true;
    return end(request, said);
  }
  if (!request.is_counted && is_full()) {
    request.gives_back = true;
    return end(request, refusal(Reason::kTooManyWaiters, request.limit));
  }
  auto node = lines_.extract(&last);
  node.value() = &request;
  lines_.insert(std::move(node));
  request.decision = after(said, said.delay.value_or(Duration{0}));
  request.turn = turn;
  request.state = State::kSleeps;
  request.before = &last;
  last.next = &request;
  count_in(request);
  return Next::kWaits;
}

// The request no longer sleeps.
void Requests::unlink(WaitingRequest& request) noexcept {
  auto* const before = static_cast<WaitingRequest*>(request.before);
  auto* const next = static_cast<WaitingRequest*>(request.next);
  if (before != nullptr) {
    before->next = next;
  } else {
    sleepers_.remove(request);
  }
  if (next != nullptr) {
    next->before = before;
    if (before == nullptr) sleepers_.add(*next, next->turn);
    return;
  }
  const auto found = lines_.find(&request);
  if (found == lines_.end() || *found != &request) return;
  auto node = lines_.extract(found);
  if (before == nullptr) return;
  node.value() = before;
  lines_.insert(std::move(node));
}

}  // namespace

void AsyncWaits::add(Operation& operation) noexcept {
  const std::lock_guard lock(operations_mutex_);
  operation.next_ = operations_;
  if (operations_ != nullptr) operations_->link_ = &operation.next_;
  operation.link_ = &operations_;
  operations_ = &operation;
}

void AsyncWaits::remove(Operation& operation) noexcept {
  const std::lock_guard lock(operations_mutex_);
  unlink(operation);
}

void AsyncWaits::unlink(Operation& operation) noexcept {
  if (operation.link_ == nullptr) return;
  *operation.link_ = operation.next_;
  if (operation.next_ != nullptr) operation.next_->link_ = operation.link_;
  operation.link_ = nullptr;
}

void AsyncWaits::cancel_operations() noexcept {
  for (;;) {
    std::shared_ptr<Operation> one;  // its answer may come meanwhile
    {
      const std::lock_guard lock(operations_mutex_);
      if (operations_ == nullptr) return;
      one = operations_->shared_from_this();
      unlink(*one);
    }
    one->cancel();
  }
}

std::shared_ptr<AsyncWaits> AsyncWaits::make(Store* store, AsyncStore* async, std::size_t most,
                                             Alarm alarm, const Clock& clock) {
  return std::make_shared<Requests>(store, async, most, std::move(alarm), clock);
}

}  // namespace sluice::detail

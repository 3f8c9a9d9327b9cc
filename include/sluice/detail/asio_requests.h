#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/require.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/detail/async_waits.h"
#include "sluice/detail/owned_charges.h"
#include "sluice/store.h"

// The operations of AsyncLimiter.
namespace sluice::detail {

using DecisionSignature = void(boost::system::error_code, Decision);
using DecisionsSignature = void(boost::system::error_code, Decision, std::vector<Decision>);

inline boost::system::error_code error_of(bool is_cancelled) noexcept {
  if (!is_cancelled) return {};
  return boost::asio::error::operation_aborted;
}

// What a limiter consists of.
class AsioParts {
 public:
  AsioParts(boost::asio::any_io_executor on, Store* at_once, AsyncStore* later, std::size_t most)
      : executor(std::move(on)),
        store(at_once),
        async(later),
        waits(AsyncWaits::make(at_once, later, most, [this](Instant at) { set_timer(at); })),
        timer_(executor) {}
  ~AsioParts() {
    waits->close();
    waits->await_visits();
  }
  AsioParts(const AsioParts&) = delete;
  AsioParts& operator=(const AsioParts&) = delete;

  const boost::asio::any_io_executor executor;
  Store* const store;
  AsyncStore* const async;
  const std::shared_ptr<AsyncWaits> waits;

 private:
  // Ends the program without memory for the timer: the requests would wait forever.
  void set_timer(Instant at) {
    using Time = std::chrono::steady_clock::time_point;
    if (at == Instant::max()) {
      timer_.cancel();
      return;
    }
    timer_.expires_at(Time(at.time_since_epoch()));
    timer_.async_wait([of = std::weak_ptr(waits)](const boost::system::error_code& error) {
      if (error) return;
      if (const auto owner = of.lock()) owner->on_time();
    });
  }

  boost::asio::basic_waitable_timer<std::chrono::steady_clock> timer_;
};

// Calls the function by the executor, never at once. The executor of an io_context is called
// directly: through a type-erased one the call takes several times as long.
template <typename Executor, typename Allocator, typename Function>
void run_later(const Executor& executor, const Allocator& allocator, Function function) {
  namespace asio = boost::asio;
  if constexpr (std::is_same_v<Executor, asio::any_io_executor>) {
    using Io = asio::io_context::executor_type;
    if (const auto* const io = executor.template target<Io>()) {
      return io->post(std::move(function), allocator);
    }
  }
  asio::execution::execute(asio::prefer(asio::require(executor, asio::execution::blocking.never),
                                        asio::execution::allocator(allocator)),
                           std::move(function));
}

// Calls a handler without an operation.
template <typename Handler, typename... Results>
void post(const boost::asio::any_io_executor& otherwise, Handler handler, Results... results) {
  const auto executor = boost::asio::get_associated_executor(handler, otherwise);
  const auto allocator = boost::asio::get_associated_allocator(handler);
  run_later(executor, allocator,
            [handler = std::move(handler), ... results = std::move(results)]() mutable {
              std::move(handler)(boost::system::error_code(), std::move(results)...);
            });
}

// A handler, with work for its executor until it is called. The work ends in the thread that calls
// it: that of the store posts with an executor that counts none, because run() may end meanwhile.
template <typename Handler>
class Pending {
 public:
  using Executor = boost::asio::associated_executor_t<Handler, boost::asio::any_io_executor>;

  Pending(Handler&& handler, const boost::asio::any_io_executor& otherwise)
      : work_(tracked(boost::asio::get_associated_executor(handler, otherwise))),
        handler_(std::move(handler)) {}

  const Handler& handler() const noexcept { return handler_; }
  auto slot() const noexcept { return boost::asio::get_associated_cancellation_slot(handler_); }
  template <typename Function>
  void run_later(Function function) const {
    const auto executor =
        boost::asio::prefer(work_, boost::asio::execution::outstanding_work.untracked);
    detail::run_later(executor, boost::asio::get_associated_allocator(handler_),
                      std::move(function));
  }
  template <typename... Results>
  void call(Results&&... results) {
    std::move(handler_)(std::forward<Results>(results)...);
  }

 private:
  static auto tracked(const Executor& executor) {
    return boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
  }

  decltype(tracked(std::declval<Executor>())) work_;
  Handler handler_;
};

// async_acquire() that waits, or whose store answers later, in memory of its handler's allocator.
template <typename Handler>
class AcquireOperation final : public WaitingRequest {
 public:
  static void start(Handler&& handler, const AsioParts& parts, const Charge& charge,
                    Instant deadline, const std::optional<Decision>& said) {
    Allocator allocator(boost::asio::get_associated_allocator(handler));
    auto* const memory = std::allocator_traits<Allocator>::allocate(allocator, 1);
    auto* const operation =
        new (memory) AcquireOperation(std::move(handler), parts, charge, deadline);
    operation->connect(parts.waits);
    parts.waits->start(*operation, said);
  }
  // The same without memory for the completion.
  void ended() noexcept override {  // NOLINT(bugprone-exception-escape)
    // If the executor ends before it calls the handler, this frees the operation.
    std::unique_ptr<AcquireOperation, void (*)(AcquireOperation*)> owned(
        this, [](AcquireOperation* one) { one->free(); });
    pending_.run_later([of = std::move(owned)]() mutable { of.release()->complete(); });
  }

 private:
  using Allocator = typename std::allocator_traits<
      boost::asio::associated_allocator_t<Handler>>::template rebind_alloc<AcquireOperation>;

  AcquireOperation(Handler&& handler, const AsioParts& parts, const Charge& charge, Instant until)
      : WaitingRequest(charge, until), pending_(std::move(handler), parts.executor) {}

  void connect(const std::shared_ptr<AsyncWaits>& waits) {
    auto slot = pending_.slot();
    if (!slot.is_connected()) return;
    slot.assign([this, of = std::weak_ptr<AsyncWaits>(waits)](boost::asio::cancellation_type type) {
      if (type == boost::asio::cancellation_type::none) return;
      if (const auto owner = of.lock()) owner->cancel(*this);
    });
  }
  void complete() {
    if (auto slot = pending_.slot(); slot.is_connected()) slot.clear();
    const Decision said = decision;
    const auto error = error_of(is_cancelled);
    Pending<Handler> pending = free();  // the handler may start another operation in its memory
    pending.call(error, said);
  }
  // Ends the operation. Returns its handler.
  Pending<Handler> free() {
    Allocator memory(boost::asio::get_associated_allocator(pending_.handler()));
    Pending<Handler> pending = std::move(pending_);
    this->~AcquireOperation();
    std::allocator_traits<Allocator>::deallocate(memory, this, 1);
    return pending;
  }

  Pending<Handler> pending_;
};

template <typename Handler>
void acquire(const AsioParts& parts, Handler handler, const Charge& charge, Instant deadline) {
  // As a store answers to a reservation: what one with an id takes cannot be given back.
  if (charge.permit != nullptr && holds_amounts(charge.limit.algorithm())) {
    return post(parts.executor, std::move(handler), Decision::refused(Reason::kInvalid));
  }
  std::optional<Decision> said;
  if (parts.store != nullptr && parts.waits->decide(charge, deadline, said)) {
    return post(parts.executor, std::move(handler), *said);
  }
  AcquireOperation<Handler>::start(std::move(handler), parts, charge, deadline, said);
}

// async_try_acquire(), and with `Each` async_apply(), if the store answers later. The store keeps
// the operation until it answers, and a cancelled handler does not wait for that.
template <typename Handler, bool Each>
class ApplyOperation final : public AsyncStore::Completion, public AsyncWaits::Operation {
 public:
  ApplyOperation(Handler&& handler, const AsioParts& parts, OwnedCharges charges)
      : pending_(std::in_place, std::move(handler), parts.executor),
        waits_(parts.waits),
        charges_(std::move(charges)),
        each_(charges_.view().size()) {}

  void start(AsyncStore& store, const Action& action, std::optional<Instant> now) {
    self_ = std::static_pointer_cast<ApplyOperation>(shared_from_this());
    auto slot = pending_->slot();
    if (slot.is_connected()) {
      slot.assign([of = std::weak_ptr(self_)](boost::asio::cancellation_type type) {
        if (type == boost::asio::cancellation_type::none) return;
        if (const auto operation = of.lock()) operation->cancel();
      });
    }
    waits_->add(*this);
    is_release_ = action.verb == Verb::kRelease;
    store.async_apply(action, charges_.view(), now, each_, *this);
  }
  void done(const Decision& decision) noexcept override {
    const AsyncWaits::Visit visit(waits_);
    auto self = std::move(self_);
    waits_->remove(*this);
    said_ = decision;
    if (is_release_) waits_->released(charges_.view());
    if (has_ended_.exchange(true, std::memory_order_acq_rel)) return;
    pending_->run_later([of = std::move(self)] {
      Pending<Handler> pending = of->take_handler();
      complete(pending, {}, of->said_, std::move(of->each_));
    });
  }
  // The handler leaves the operation: its executor may end before the store answers.
  void cancel() noexcept override {  // NOLINT(bugprone-exception-escape): as AcquireOperation
    if (has_ended_.exchange(true, std::memory_order_acq_rel)) return;
    auto owned = std::make_unique<Pending<Handler>>(take_handler());
    const Pending<Handler>& pending = *owned;
    pending.run_later([of = std::move(owned)]() mutable {
      Pending<Handler> own = std::move(*std::exchange(of, nullptr));
      complete(own, boost::asio::error::operation_aborted, Decision::refused(Reason::kStoreTimeout),
               {});
    });
  }

 private:
  Pending<Handler> take_handler() {
    Pending<Handler> pending = std::move(*pending_);
    pending_.reset();
    return pending;
  }
  static void complete(Pending<Handler>& pending, const boost::system::error_code& error,
                       const Decision& said, std::vector<Decision> each) {
    if (auto slot = pending.slot(); slot.is_connected()) slot.clear();
    if constexpr (Each) {
      pending.call(error, said, std::move(each));
    } else {
      pending.call(error, said);
    }
  }

  std::optional<Pending<Handler>> pending_;
  const std::shared_ptr<AsyncWaits> waits_;
  const OwnedCharges charges_;
  std::vector<Decision> each_;
  Decision said_;
  bool is_release_ = false;
  std::atomic<bool> has_ended_{false};    // who sets it has the handler
  std::shared_ptr<ApplyOperation> self_;  // until done()
};

// Applies the action to one charge.
template <typename Handler>
void apply_one(const AsioParts& parts, Handler handler, const Action& action,
               const Charge& charge) {
  if (parts.store != nullptr) {
    const Decision decision = parts.store->apply_one(action, charge, {});
    return post(parts.executor, std::move(handler), decision);
  }
  std::make_shared<ApplyOperation<Handler, false>>(std::move(handler), parts,
                                                   OwnedCharges({&charge, 1}))
      ->start(*parts.async, action, {});
}

template <typename Handler>
void apply(const AsioParts& parts, Handler handler, const Action& action, OwnedCharges charges,
           std::optional<Instant> now) {
  if (parts.store != nullptr) {
    std::vector<Decision> each(charges.view().size());
    const Decision decision = parts.store->apply(action, charges.view(), now, each);
    if (action.verb == Verb::kRelease) parts.waits->released(charges.view());
    return post(parts.executor, std::move(handler), decision, std::move(each));
  }
  std::make_shared<ApplyOperation<Handler, true>>(std::move(handler), parts, std::move(charges))
      ->start(*parts.async, action, now);
}

}  // namespace sluice::detail

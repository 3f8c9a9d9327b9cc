#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution_context.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/detail/asio_requests.h"
#include "sluice/limit.h"
#include "sluice/permit_id.h"
#include "sluice/store.h"

// Limits in programs on Boost.Asio. Needs the headers of Boost 1.81 or newer; no other header of
// sluice::sluice does.
namespace sluice {

// The most requests of an AsyncLimiter that wait for units, unless it is made with another number.
// Each takes about 300 bytes.
inline constexpr std::size_t kMostWaiters = 65'536;

// Asks a store for decisions, and waits for units, without a thread for each request.
//
//   boost::asio::awaitable<void> export_all(sluice::AsyncLimiter& limiter) {
//     const auto decision = co_await limiter.async_acquire(
//         "export", kPerSecond, 1, 5s, use_awaitable);
//     if (!decision) co_return report(decision);
//
// Each operation takes any completion token: use_awaitable, use_future, a callback. The completion
// is called once, never within the call that starts the operation, on the executor of the handler,
// else on the limiter's. Its error is `operation_aborted` if the operation was cancelled, and
// otherwise empty: a store that failed is a Decision.
//
// The store is an AsyncStore, for example RedisStore, or a Store that answers at once, such as
// MemoryStore, which is then asked in the thread that starts the operation. With a RedisChain the
// circuit breaker, the failure policy and the deny cache hold here as well.
//
// Thread-safety: any member from any thread. Ownership: borrows the store, which must outlive the
// limiter; copies keys and charges. The destructor cancels all operations, even those that the
// store still decides; what these take later is given back if it is of an async_acquire(). It waits
// for threads that ask the store or post a handler, so that the executor's context, and then the
// store, may be destroyed after it. Cost: that of the store and of a post() to the executor.
class AsyncLimiter {
 public:
  using executor_type = boost::asio::any_io_executor;

  // A limiter that asks an asynchronous store. Its timer runs on the executor. At most
  // `max_waiters` requests wait; one more is denied with kTooManyWaiters.
  template <typename S>
    requires std::derived_from<S, AsyncStore>
  AsyncLimiter(executor_type executor, S& store, std::size_t max_waiters = kMostWaiters)
      : AsyncLimiter(std::move(executor), nullptr, &store, max_waiters) {}
  // A limiter that asks a store that answers at once.
  template <typename S>
    requires(std::derived_from<S, Store> && !std::derived_from<S, AsyncStore>)
  AsyncLimiter(executor_type executor, S& store, std::size_t max_waiters = kMostWaiters)
      : AsyncLimiter(std::move(executor), &store, nullptr, max_waiters) {}
  // As above, on the executor of an execution context, such as an io_context.
  template <typename Context, typename S>
    requires std::is_convertible_v<Context&, boost::asio::execution_context&>
  AsyncLimiter(Context& context, S& store, std::size_t max_waiters = kMostWaiters)
      : AsyncLimiter(executor_type(context.get_executor()), store, max_waiters) {}
  ~AsyncLimiter() = default;
  AsyncLimiter(const AsyncLimiter&) = delete;
  AsyncLimiter& operator=(const AsyncLimiter&) = delete;

  // Takes `cost` units, or denies at once. Completes with (error_code, Decision). Cancelled while
  // the store decides: the units may have been counted.
  template <typename Token>
  auto async_try_acquire(std::string_view key, const Limit& limit, std::uint64_t cost,
                         Token&& token) {
    return boost::asio::async_initiate<Token, detail::DecisionSignature>(
        [this](auto handler, const std::string& key_of, const Limit& limit_of,
               std::uint64_t units) {
          const Charge charge{.key = key_of, .limit = limit_of, .cost = units};
          detail::apply_one(parts_, std::move(handler), Verb::kTake, charge);
        },
        token, std::string(key), limit, cost);
  }

  // Takes `cost` units, waiting for them until `deadline`, an instant of std::chrono::steady_clock
  // or the time until then. Completes with (error_code, Decision).
  //
  // Callers of a counter are served in order of arrival. With a token bucket, a leaky bucket or
  // GCRA the store reserves the units in one question, also between machines, and the operation
  // completes when they are due. With other algorithms callers of this limiter queue, and only the
  // first of a counter asks the store, at the instant that it has named.
  //
  // A deadline that cannot be met is denied at once with the remaining wait as `retry_after`.
  // Cancelled, the operation gives back what it has taken; if the store is deciding it, it ends
  // when the answer arrives, or with the limiter.
  template <typename Token>
  auto async_acquire(std::string_view key, const Limit& limit, std::uint64_t cost,
                     Deadline deadline, Token&& token) {
    return boost::asio::async_initiate<Token, detail::DecisionSignature>(
        [this](auto handler, const std::string& key_of, const Limit& limit_of, std::uint64_t units,
               Instant until) {
          const Charge charge{.key = key_of, .limit = limit_of, .cost = units};
          detail::acquire(parts_, std::move(handler), charge, until);
        },
        token, std::string(key), limit, cost, deadline.at());
  }

  // As above, for the counter that a charge names by its key, tag and limit; its other members but
  // cost and permit do not count. With a `concurrency` limit it takes a permit (Charge::permit,
  // which is copied), and waits until one is released or the deadline passes.
  // async_apply(Verb::kRelease, ...) releases it, and lets the next one pass. A budget with an id
  // is kInvalid.
  template <typename Token>
  auto async_acquire(const Charge& charge, Deadline deadline, Token&& token) {
    return boost::asio::async_initiate<Token, detail::DecisionSignature>(
        [this](auto handler, const detail::OwnedCharges& of, Instant until) {
          const Charge& all = of.view().front();
          const Charge one{.key = all.key,
                           .limit = all.limit,
                           .cost = all.cost,
                           .tag = all.tag,
                           .permit = all.permit};
          detail::acquire(parts_, std::move(handler), one, until);
        },
        token, detail::OwnedCharges({&charge, 1}), deadline.at());
  }

  // Applies any verb to 1 to kMaxCharges charges, as Store::apply() does, at `now` or at the
  // store's own time. Completes with (error_code, Decision, std::vector<Decision>): the decision on
  // the request and those on its charges. Cancelled while the store decides: the request may have
  // been counted.
  template <typename Token>
  auto async_apply(const Action& action, std::span<const Charge> charges,
                   std::optional<Instant> now, Token&& token) {
    return boost::asio::async_initiate<Token, detail::DecisionsSignature>(
        [this](auto handler, const Action& what, detail::OwnedCharges of,
               std::optional<Instant> at) {
          detail::apply(parts_, std::move(handler), what, std::move(of), at);
        },
        token, action, detail::OwnedCharges(charges), now);
  }

  // The number of operations that wait for units.
  std::size_t waiting() const noexcept { return parts_.waits->waiting(); }
  // The executor of the limiter.
  executor_type get_executor() const noexcept { return parts_.executor; }

 private:
  AsyncLimiter(executor_type executor, Store* store, AsyncStore* async, std::size_t max_waiters)
      : parts_(std::move(executor), store, async, max_waiters) {}

  detail::AsioParts parts_;
};

}  // namespace sluice

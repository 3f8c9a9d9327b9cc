#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "sluice/detail/guard_gate.h"
#include "sluice/limiter.h"

// Limits on functions, as annotations in other languages.
//
//   auto send = sluice::guarded(limiter, "send_code", sliding_window_log(3).per(60s))
//                   .key(&Request::email)
//                   .throwing(send_code);
//   send(request);  // calls send_code(request), or throws RateLimited
//
// A counter is named by the guard's name, the limit's label (or index) and the values of the key,
// so that no two of these share a counter; two guards with one name do. A call is denied if the
// store fails, unless the store has a failure policy.
//
// Rule guards (rule_guard.h) take their limits from a file of rules; the rest is the same.
namespace sluice {

// A guarded function. Call it like the function itself.
//
// Made by throwing(), returning() and otherwise() of a guard. Thread-safety: that of the function.
// Ownership: holds the function; borrows what the guard borrows. Cost: that of the decision. It
// reads key, cost and attributes from the arguments, and then forwards them unchanged.
template <typename Gate, typename Terms, typename OnDenial, typename Function>
class Guarded {
 public:
  // Guards call this.
  Guarded(Gate gate, Terms terms, OnDenial on_denial, Function function)
      : gate_(std::move(gate)),
        terms_(std::move(terms)),
        on_denial_(std::move(on_denial)),
        function_(std::move(function)) {}

  // Calls the function, if the limits admit the call.
  template <typename... Args>
    requires std::invocable<Function&, Args...>
  auto operator()(Args&&... args) ->
      typename OnDenial::template Result<std::invoke_result_t<Function&, Args...>> {
    return call<std::invoke_result_t<Function&, Args...>>(*this, std::forward<Args>(args)...);
  }
  template <typename... Args>
    requires std::invocable<const Function&, Args...>
  auto operator()(Args&&... args) const ->
      typename OnDenial::template Result<std::invoke_result_t<const Function&, Args...>> {
    return call<std::invoke_result_t<const Function&, Args...>>(*this, std::forward<Args>(args)...);
  }

 private:
  template <typename R, typename Self, typename... Args>
  static typename OnDenial::template Result<R> call(Self& self, Args&&... args) {
    static_assert(!Terms::kActsAfter || !detail::Awaitable<R>,
                  "sluice: the function of a guard with .holding() or .refunding_on_exception() "
                  "cannot be a coroutine, which returns before it has run");
    auto pass = self.gate_.enter(detail::cost_of(self.terms_.cost, std::as_const(args)...),
                                 std::as_const(args)...);
    if (!pass.decision().allowed()) {
      return self.on_denial_.template deny<R>(pass, std::forward<Args>(args)...);
    }
    if constexpr (Terms::kWaits) {
      if (pass.decision().delay) self.terms_.wait(*pass.decision().delay);
    }
    const auto run = [&]() -> R {
      return std::invoke(self.function_, std::forward<Args>(args)...);
    };
    if (!self.terms_.refunds_on_exception) {
      pass.close();
      return OnDenial::template admit<R>(run);
    }
    try {
      return OnDenial::template admit<R>(run);
    } catch (...) {
      pass.refund();
      throw;
    }
  }

  Gate gate_;
  [[no_unique_address]] Terms terms_;
  [[no_unique_address]] OnDenial on_denial_;
  [[no_unique_address]] Function function_;
};

// A guard without its function: the limits that it asks, and what a call costs. Made by guarded().
//
// An immutable value; each option returns another guard. Keys, costs and attributes are member
// pointers or callables that receive the arguments of the call as const references: all of them if
// they accept all, else the first one that they accept. Thread-safety: that of these callables.
// Ownership: copies them; borrows the limiter. Cost: none until a guarded function is called.
//
// What such a callable returns by reference or as a view is read after its call. It must not be of
// a temporary object that the call makes from an argument of another type, as from a `const char*`
// for a parameter `const std::string&`: return text by value then.
template <typename Gate, typename Cost = std::uint64_t, typename Wait = std::monostate,
          bool ActsAfter = false>
class Guard {
 public:
  using Terms = detail::Terms<Cost, Wait, ActsAfter>;

  // guarded() calls this.
  Guard(Gate gate, Terms terms) : gate_(std::move(gate)), terms_(std::move(terms)) {}

  // Limit guards of one limit: gives each value its own counter, as in `.key(&Request::email)`.
  // Several values are one key.
  template <typename... Values>
    requires detail::TakesKey<Gate, Values...>
  auto key(Values... values) const {
    return with_gate(gate_.with_key(std::move(values)...));
  }

  // Rule guards: an attribute for the key templates of the rule, by its name (rule_guard.h).
  template <typename... Attribute>
    requires detail::TakesAttribute<Gate, Attribute...>
  auto with(Attribute... attribute) const {
    return with_gate(gate_.with_attribute(std::move(attribute)...));
  }

  // The units that a call costs: a number, or one that depends on the arguments. Default: 1; 0 is
  // never denied.
  auto costing(detail::Units units) const { return with_cost(units.count); }
  // The units that a call costs, from its arguments.
  template <typename Units>
    requires(!std::convertible_to<Units, std::uint64_t>)
  auto costing(Units units) const {
    return with_cost(std::move(units));
  }

  // Rule guards: the units that a call takes from the rule's limit of that name, whatever its
  // `cost` is: a number, or one that depends on the arguments.
  template <typename Units>
    requires detail::TakesCost<Gate, Units>
  auto costing(std::string_view limit, Units units) const {
    return with_gate(gate_.with_cost(limit, std::move(units)));
  }

  // For a leaky bucket in queue mode: waits before an admitted call continues, such as
  // `[](Duration d) { std::this_thread::sleep_for(d); }`.
  template <std::invocable<Duration> Waiting>
  auto delaying(Waiting waiting) const {
    return Guard<Gate, Cost, Waiting, ActsAfter>(
        gate_, {terms_.cost, std::move(waiting), terms_.refunds_on_exception});
  }

  // Blocks a call until the limits admit it, at most this long; then it is denied. A call that
  // would have to wait longer is denied at once, unless it waits for a permit, which can be
  // released at any time. Calls wait in order of arrival (Limiter::acquire).
  Guard waiting(Duration at_most) const { return Guard(gate_.with_wait(at_most), terms_); }

  // Holds the permit of a `concurrency` limit while the function runs, and releases it when the
  // function returns or throws. If that takes longer than the lease, the permit ends before. Not
  // for coroutines and other functions that return before their work is done: they hold a permit of
  // Limiter::hold or AsyncLimiter.
  auto holding() const { return acting_after(gate_.with_permit(), terms_.refunds_on_exception); }

  // Gives back what a call took if the function throws: not for coroutines either.
  auto refunding_on_exception() const { return acting_after(gate_, true); }

  // Guards a function. A denied call throws RateLimited.
  //
  // All three functions throw std::invalid_argument if the guard cannot work, and say why. They do
  // not call the function of a denied call.
  template <typename Function>
  auto throwing(Function function) const {
    return finish(detail::Throws{}, std::move(function));
  }
  // Guards a function. A call returns OrDecision of its result: a denied call, the Decision.
  template <typename Function>
  auto returning(Function function) const {
    return finish(detail::Returns{}, std::move(function));
  }
  // Guards a function. A denied call returns what the handler returns, which is called with the
  // Decision and the arguments, or with the Decision alone.
  template <typename Handler, typename Function>
  auto otherwise(Handler handler, Function function) const {
    return finish(detail::Hands<Handler>{std::move(handler)}, std::move(function));
  }

 private:
  template <typename NewGate>
  auto with_gate(NewGate gate) const {
    return Guard<NewGate, Cost, Wait, ActsAfter>(std::move(gate), terms_);
  }
  auto acting_after(Gate gate, bool refunds) const {
    return Guard<Gate, Cost, Wait, true>(std::move(gate), {terms_.cost, terms_.wait, refunds});
  }
  template <typename NewCost>
  auto with_cost(NewCost cost) const {
    return Guard<Gate, NewCost, Wait, ActsAfter>(
        gate_, {std::move(cost), terms_.wait, terms_.refunds_on_exception});
  }
  template <typename OnDenial, typename Function>
  auto finish(OnDenial on_denial, Function function) const {
    return Guarded<Gate, Terms, OnDenial, Function>(gate_.checked(Terms::kWaits), terms_,
                                                    std::move(on_denial), std::move(function));
  }

  Gate gate_;
  Terms terms_;
};

// Returns a guard with one limit. Continue with a key, with options, and with the function.
//
// Ownership: borrows the limiter, which must outlive the guard and its functions. Cost of a guarded
// call: one request, and making the key on the stack; up to 256 bytes of keys allocate nothing.
inline auto guarded(Limiter& limiter, std::string_view name, const Limit& limit) {
  using Gate = detail::LimitGate<LimitPer<>>;
  return Guard<Gate>(Gate(limiter, name, {global(limit)}), {.cost = 1});
}
// Returns a guard with several limits, which are one all-or-nothing decision:
// `guarded(limiter, "order", global(kAll), per(&Order::user, kPerUser))`.
template <typename... Values, typename... More>
auto guarded(Limiter& limiter, std::string_view name, LimitPer<Values...> limit, More... more) {
  using Gate = detail::LimitGate<LimitPer<Values...>, More...>;
  return Guard<Gate>(Gate(limiter, name, {std::move(limit), std::move(more)...}), {.cost = 1});
}

}  // namespace sluice

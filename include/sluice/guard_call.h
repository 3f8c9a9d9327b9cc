#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "sluice/decision.h"
#include "sluice/detail/guard_values.h"
#include "sluice/expected.h"
#include "sluice/path.h"

// What limit guards (guard.h) and rule guards (rule_guard.h) have in common: how a call goes on.
namespace sluice {

// Thrown where a guard that throws denies.
//
// what() says which limit and how long: "send_code: limited to 3 per 1m (sliding_window_log); retry
// after 12.5 s". Copies share their text. Thread-safe to read.
class RateLimited : public std::runtime_error {
 public:
  // `cause` is the part of what() between the guard's name and the wait.
  RateLimited(std::string_view name, std::string_view cause, const Decision& decision);

  // The guard's name. Valid as long as the exception.
  std::string_view name() const noexcept { return {what(), name_size_}; }
  // Why, and when to come back. Its reason tells a limit's answer from a store's failure.
  const Decision& decision() const noexcept { return decision_; }

 private:
  std::size_t name_size_;
  Decision decision_;
};

namespace detail {

// The result of a guarded function as the value of an Expected: void is std::monostate, a reference
// a std::reference_wrapper.
template <typename R>
struct Boxed {
  using Type = R;
};
template <typename R>
struct Boxed<R&> {
  using Type = std::reference_wrapper<R>;
};
template <typename R>
struct Boxed<R&&> {
  using Type = R;
};
template <>
struct Boxed<void> {
  using Type = std::monostate;
};

}  // namespace detail

// What a function of result R gives under a guard that returns: the result, or why there is none.
template <typename R>
using OrDecision = Expected<typename detail::Boxed<R>::Type, Decision>;

namespace detail {

// What a guard does when it denies, and with the result when it does not.
struct Throws {
  template <typename R, typename... Args>
  using Result = R;

  template <typename R, typename Pass, typename... Args>
  [[noreturn]] R deny(const Pass& pass, Args&&...) const {
    pass.fail();
  }
  template <typename R, typename Call>
  static R admit(Call&& call) {
    return call();
  }
};

struct Returns {
  template <typename R, typename... Args>
  using Result = OrDecision<R>;

  template <typename R, typename Pass, typename... Args>
  OrDecision<R> deny(const Pass& pass, Args&&...) const {
    return Unexpected{pass.decision()};
  }
  template <typename R, typename Call>
  static OrDecision<R> admit(Call&& call) {
    if constexpr (std::is_void_v<R>) {
      call();
      return std::monostate{};
    } else {
      return OrDecision<R>(call());
    }
  }
};

template <typename Handler>
struct Hands {
  template <typename R, typename... Args>
  using Result = R;

  Handler handler;

  template <typename R, typename Pass, typename... Args>
  R deny(const Pass& pass, Args&&... args) const {
    if constexpr (std::invocable<const Handler&, const Decision&, Args...>) {
      return converted<R>([&]() -> decltype(auto) {
        return std::invoke(handler, pass.decision(), std::forward<Args>(args)...);
      });
    } else {
      static_assert(std::invocable<const Handler&, const Decision&>,
                    "sluice: a guard's handler must be callable with a const Decision&, alone or "
                    "followed by the arguments of the guarded call");
      return converted<R>(
          [&]() -> decltype(auto) { return std::invoke(handler, pass.decision()); });
    }
  }
  template <typename R, typename Call>
  static R admit(Call&& call) {
    return call();
  }

 private:
  template <typename R, typename Call>
  static R converted(Call&& call) {
    using Given = std::invoke_result_t<Call&>;
    if constexpr (std::is_void_v<R>) {
      static_cast<void>(call());
    } else {
      static_assert(
          std::convertible_to<Given, R> && (!std::is_reference_v<R> || std::is_reference_v<Given>),
          "sluice: a guard's handler must return what the guarded function returns");
      return call();
    }
  }
};

// A cost that is the same for every call.
struct FixedCost {
  std::uint64_t units = 1;
  template <typename... Args>
  constexpr std::uint64_t of(const Args&...) const noexcept {
    return units;
  }
};
// A cost that the arguments tell. A negative one is beyond every limit.
template <typename Units>
struct CostOf {
  Units units;
  template <typename... Args>
  std::uint64_t of(const Args&... args) const {
    static_assert(std::integral<std::remove_cvref_t<decltype(project(units, args...))>>,
                  "sluice: the cost of a call is an integer");
    return static_cast<std::uint64_t>(project(units, args...));
  }
};

struct NoWait {
  void operator()(Duration) const noexcept {}
};

// What every kind of guard is made of, beside its gate.
template <typename Cost, typename Wait>
struct Terms {
  Cost cost;
  Wait wait;
  bool refunds_on_exception = false;

  static constexpr bool kWaits = !std::same_as<Wait, NoWait>;
};

}  // namespace detail

// A function behind a guard: call it as the function itself.
//
// Made by a guard's throwing(), returning() and otherwise(). Thread-safety: that of the function.
// Ownership: holds the function; borrows what the guard borrows. Arguments are forwarded as they
// are, after the key has been read from them.
template <typename Gate, typename Terms, typename OnDenial, typename Function>
class Guarded {
 public:
  Guarded(Gate gate, Terms terms, OnDenial on_denial, Function function)
      : gate_(std::move(gate)),
        terms_(std::move(terms)),
        on_denial_(std::move(on_denial)),
        function_(std::move(function)) {}

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
    auto pass =
        self.gate_.enter(self.terms_.cost.of(std::as_const(args)...), std::as_const(args)...);
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

// A guard without its function yet: what it asks (the gate), and how a call goes on.
//
// Made by guarded(). A value: each step gives another guard. Keys, costs and attributes are member
// pointers or callables over the arguments of the guarded call, which they see as const references:
// one is given all arguments where it takes all, else the first one that it takes.
template <typename Gate, typename Cost = detail::FixedCost, typename Wait = detail::NoWait>
class Guard {
 public:
  using Terms = detail::Terms<Cost, Wait>;

  explicit Guard(Gate gate, Terms terms = {}) : gate_(std::move(gate)), terms_(std::move(terms)) {}

  // Limit guards: the values that a counter is for, such as `.key(&Request::email)`. Calls with
  // other values have another counter. For a guard of one limit that has none yet.
  template <typename... Values>
  requires requires(Gate gate, Values... values) { gate.with_key(values...); }
  auto key(Values... values) const { return with_gate(gate_.with_key(std::move(values)...)); }

  // Rule guards: an attribute by the name that key templates read it by (rule_guard.h).
  template <typename... Attribute>
  requires requires(Gate gate, Attribute... attribute) { gate.with_attribute(attribute...); }
  auto with(Attribute... attribute) const {
    return with_gate(gate_.with_attribute(std::move(attribute)...));
  }

  // Units that a call costs: a number, or one that the arguments tell. Default 1; 0 is never
  // denied.
  auto costing(std::uint64_t units) const { return with_cost(detail::FixedCost{units}); }
  template <typename Units>
  requires(!std::convertible_to<Units, std::uint64_t>) auto costing(Units units) const {
    return with_cost(detail::CostOf<Units>{std::move(units)});
  }

  // For a leaky bucket in queue mode: what waits before an admitted call goes on, such as
  // `[](Duration d) { std::this_thread::sleep_for(d); }`.
  template <std::invocable<Duration> Waiting>
  auto delaying(Waiting waiting) const {
    return Guard<Gate, Cost, Waiting>(
        gate_, {terms_.cost, std::move(waiting), terms_.refunds_on_exception});
  }

  // Gives back what a call took when the function throws.
  Guard refunding_on_exception() const {
    Guard guard = *this;
    guard.terms_.refunds_on_exception = true;
    return guard;
  }

  // The function, guarded. All three throw std::invalid_argument for a guard that cannot work, and
  // say why. When a call is denied, the function is not called, and
  //   throwing    throws RateLimited,
  //   returning   gives the Decision in an Expected (OrDecision) in place of the function's result,
  //   otherwise   gives what the handler returns, called with the Decision and then the arguments
  //               (or with the Decision alone).
  template <typename Function>
  auto throwing(Function function) const {
    return finish(detail::Throws{}, std::move(function));
  }
  template <typename Function>
  auto returning(Function function) const {
    return finish(detail::Returns{}, std::move(function));
  }
  template <typename Handler, typename Function>
  auto otherwise(Handler handler, Function function) const {
    return finish(detail::Hands<Handler>{std::move(handler)}, std::move(function));
  }

 private:
  template <typename NewGate>
  auto with_gate(NewGate gate) const {
    return Guard<NewGate, Cost, Wait>(std::move(gate), terms_);
  }
  template <typename NewCost>
  auto with_cost(NewCost cost) const {
    return Guard<Gate, NewCost, Wait>(gate_,
                                      {std::move(cost), terms_.wait, terms_.refunds_on_exception});
  }
  template <typename OnDenial, typename Function>
  auto finish(OnDenial on_denial, Function function) const {
    return Guarded<Gate, Terms, OnDenial, Function>(gate_.checked(Terms::kWaits), terms_,
                                                    std::move(on_denial), std::move(function));
  }

  Gate gate_;
  Terms terms_;
};

}  // namespace sluice

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <variant>

#include "sluice/detail/guard_values.h"
#include "sluice/rate_limited.h"

// How the call of a guarded function continues: what it costs, and what a denied call returns.
namespace sluice::detail {

// A gate that accepts a key, the cost of a limit by its name, or an attribute.
template <typename Gate, typename... Values>
concept TakesKey = requires(const Gate& gate, Values... values) { gate.with_key(values...); };
template <typename Gate, typename Units>
concept TakesCost = requires(const Gate& gate, Units units) { gate.with_cost("", units); };
template <typename Gate, typename... Attribute>
concept TakesAttribute =
    requires(const Gate& gate, Attribute... attribute) { gate.with_attribute(attribute...); };

// Throws RateLimited if the guard denies.
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

// Returns the decision if the guard denies.
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

// Returns what a handler returns if the guard denies.
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
// A cost that depends on the arguments. A negative one exceeds every limit.
template <typename Units>
struct CostOf {
  Units units;
  template <typename... Args>
  std::uint64_t of(const Args&... args) const {
    return cost_of(units, args...);
  }
};

struct NoWait {
  void operator()(Duration) const noexcept {}
};

// The terms of a guard: what a call costs, and what happens around it.
template <typename Cost, typename Wait>
struct Terms {
  Cost cost;
  Wait wait;
  bool refunds_on_exception = false;

  static constexpr bool kWaits = !std::same_as<Wait, NoWait>;
};

}  // namespace sluice::detail

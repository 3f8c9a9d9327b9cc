#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "sluice/guard_parts.h"
#include "sluice/key_builder.h"
#include "sluice/limiter.h"
#include "sluice/permit_id.h"

// What the calls of guards and of require() consist of: how they read values from the arguments,
// what a call costs, what a denied call returns, and how limits decide it.
namespace sluice::detail {

// Returns what a projection makes of the arguments of a call. It receives all of them if it accepts
// all, else the first one that it accepts.
template <typename Of>
constexpr decltype(auto) project(const Of&) {
  static_assert(
      kNever<Of>,
      "sluice: a key, cost or attribute of a guard must be callable with all arguments of "
      "the guarded call, or with one of them (as const references)");
}
template <typename Of, typename First, typename... Rest>
constexpr decltype(auto) project_one(const Of& of, const First& first, const Rest&... rest) {
  if constexpr (std::invocable<const Of&, const First&>) {
    return std::invoke(of, first);
  } else if constexpr (sizeof...(Rest) > 0) {
    return project_one(of, rest...);
  } else {
    return project(of);
  }
}
template <typename Of, typename... Args>
  requires(sizeof...(Args) > 0 || std::invocable<const Of&>)
constexpr decltype(auto) project(const Of& of, const Args&... args) {
  if constexpr (std::invocable<const Of&, const Args&...>) {
    return std::invoke(of, args...);
  } else {
    return project_one(of, args...);
  }
}

// Returns the units that a call costs: a number, or what a projection makes of the arguments. A
// negative one exceeds every limit.
template <typename Units, typename... Args>
std::uint64_t cost_of(const Units& units, const Args&... args) {
  static_assert(!std::floating_point<Units>, "sluice: the cost of a call is an integer");
  if constexpr (std::convertible_to<Units, std::uint64_t>) {
    return static_cast<std::uint64_t>(units);
  } else {
    static_assert(std::integral<std::remove_cvref_t<decltype(project(units, args...))>>,
                  "sluice: the cost of a call is an integer");
    return static_cast<std::uint64_t>(project(units, args...));
  }
}

// Appends a value of a guard's key.
template <typename T>
void add_to_key(KeyBuilder& key, const T& value) {
  static_assert(KeyValue<T>,
                "sluice: a key is an integer, an enumeration, text, or an optional, tuple or pair "
                "of these");
  if constexpr (KeyValue<T>) key.add(value);
}

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

// The result of a coroutine: it can be awaited.
template <typename R>
concept Awaitable = requires(R result) { result.await_ready(); } ||
                    requires(R result) { std::move(result).operator co_await(); };

// The terms of a guard: what a call costs, and what happens around it. `ActsAfter`: something
// happens when the function has returned or thrown.
template <typename Cost, typename Wait, bool ActsAfter>
struct Terms {
  Cost cost = {};  // see cost_of()
  Wait wait = {};  // std::monostate: calls do not wait
  bool refunds_on_exception = false;

  static constexpr bool kWaits = !std::same_as<Wait, std::monostate>;
  static constexpr bool kActsAfter = ActsAfter;
};

// The name of a limit in messages: its label, or its index if it has none.
struct LimitName {
  const Limit* limit;
  std::string_view label;
};
// Throws std::invalid_argument for a guard without a name, for two limits with one label, and for a
// limit that needs other terms: whether a guard waits for a queue's delay, and whether it holds
// permits while its function runs.
void check_guard(std::string_view name, std::span<const LimitName> limits, bool waits, bool holds);
// Throws RateLimited. It names the limit with the longest wait.
[[noreturn]] void throw_rate_limited(std::string_view name, std::span<const LimitName> limits,
                                     std::span<const Decision> each, const Decision& decision);

// Begins a key of a guard's limit.
inline void begin_key(KeyBuilder& key, std::string_view name, std::string_view label,
                      std::size_t place) {
  key.add(name);
  label.empty() ? key.add(place) : key.add(label);
}

// The limits of a guard, which are one decision.
template <typename... Limits>
class LimitGate {
 public:
  static constexpr std::size_t kCount = sizeof...(Limits);
  static_assert(kCount > 0, "sluice: a guard needs a limit");
  static_assert(kCount <= kMaxCharges, "sluice: too many limits for one request");

  LimitGate(Limiter& limiter, std::string_view name, std::tuple<Limits...> limits)
      : limiter_(&limiter), name_(name), limits_(std::move(limits)) {}

  template <typename... Values>
    requires(kCount == 1 && sizeof...(Values) > 0 && (std::same_as<Limits, LimitPer<>> && ...))
  auto with_key(Values... values) const {
    const auto& first = std::get<0>(limits_);
    using Keyed = LimitPer<Values...>;
    LimitGate<Keyed> gate(*limiter_, name_,
                          {Keyed{first.limit, {std::move(values)...}, first.label}});
    if (holds_) gate = gate.with_permit();
    return max_wait_ ? gate.with_wait(*max_wait_) : gate;
  }

  LimitGate with_wait(Duration at_most) const {
    LimitGate gate = *this;
    gate.max_wait_ = at_most;
    return gate;
  }

  LimitGate with_permit() const {
    LimitGate gate = *this;
    gate.holds_ = true;
    return gate;
  }

  LimitGate checked(bool waits) const {
    check_guard(name_, names(), waits || max_wait_, holds_);
    LimitGate gate = *this;
    gate.compose_prefixes(std::make_index_sequence<kCount>());
    return gate;
  }

  // One call: its keys, its decisions, and its permit, which it releases. Borrows the gate.
  class Pass {
   public:
    template <typename... Args>
    Pass(const LimitGate& gate, std::uint64_t cost, const Args&... args)
        : gate_(gate), cost_(cost), decision_(decide(args...)) {}

    ~Pass() {
      if (permit_ && decision_.allowed()) apply(Verb::kRelease, true);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    const Decision& decision() const noexcept { return decision_; }
    void close() const noexcept {}
    [[noreturn]] void fail() const {
      const std::span<const Decision> one(&decision_, 1);
      throw_rate_limited(gate_.name_, gate_.names(), kCount == 1 ? one : each_, decision_);
    }
    void refund() const noexcept {
      apply(Verb::kRefund, false);  // a permit is released
    }

   private:
    // Its result becomes `decision_`: a copy of a decision just written waits for all of these
    // writes.
    template <typename... Args>
    Decision decide(const Args&... args) {
      gate_.compose(keys_, ends_, std::make_index_sequence<kCount>(), args...);
      if (gate_.holds_) permit_ = PermitId::random();
      Limiter& limiter = *gate_.limiter_;
      if constexpr (kCount == 1) {
        if (permit_) {
          const auto all = charges(std::make_index_sequence<1>());
          return gate_.max_wait_ ? limiter.acquire(all, {}, *gate_.max_wait_)
                                 : limiter.store().apply_one(Verb::kTake, all[0], {});
        }
        const Limit& limit = std::get<0>(gate_.limits_).limit;
        return gate_.max_wait_ ? limiter.acquire(key(0), limit, cost_, *gate_.max_wait_)
                               : limiter.try_acquire(key(0), limit, cost_);
      } else {
        const auto all = charges(std::make_index_sequence<kCount>());
        return gate_.max_wait_ ? limiter.acquire(all, each_, *gate_.max_wait_)
                               : limiter.check(all, each_);
      }
    }

    std::string_view key(std::size_t i) const noexcept {
      const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
      return keys_.view().substr(begin, ends_[i] - begin);
    }
    template <std::size_t... I>
    std::array<Charge, kCount> charges(std::index_sequence<I...>) const noexcept {
      return {charge(key(I), std::get<I>(gate_.limits_).limit)...};
    }

    // A budget would take the permit for an id.
    Charge charge(std::string_view key, const Limit& limit) const noexcept {
      const bool has_permit = permit_ && holds_permits(limit.algorithm());
      return {
          .key = key, .limit = limit, .cost = cost_, .permit = has_permit ? &*permit_ : nullptr};
    }

    // Applies a verb to the limits that hold permits, or to the others that have taken units.
    void apply(Verb verb, bool to_permits) const noexcept {
      auto all = charges(std::make_index_sequence<kCount>());
      std::size_t count = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const bool is_permit = holds_permits(all[i].limit.algorithm());
        const bool has_taken = is_permit || took_units(kCount == 1 ? decision_ : each_[i]);
        if (is_permit == to_permits && has_taken) all[count++] = all[i];
      }
      if (count > 0) gate_.limiter_->apply(verb, std::span<const Charge>(all).first(count));
    }

    const LimitGate& gate_;
    std::optional<PermitId> permit_;
    std::uint64_t cost_;
    std::array<Decision, kCount == 1 ? 0 : kCount> each_;
    std::array<std::size_t, kCount> ends_;
    KeyBuilder keys_;
    Decision decision_;  // the last, because decide() uses the others
  };

  template <typename... Args>
  Pass enter(std::uint64_t cost, const Args&... args) const {
    return Pass(*this, cost, args...);
  }

 private:
  std::array<LimitName, kCount> names() const noexcept {
    return std::apply([](const auto&... l) { return std::array{LimitName{&l.limit, l.label}...}; },
                      limits_);
  }
  template <std::size_t... I>
  void compose_prefixes(std::index_sequence<I...>) {
    const auto prefix = [this](std::string_view label, std::size_t place) {
      KeyBuilder key;
      begin_key(key, name_, label, place);
      return std::string(key.view());
    };
    prefixes_ = {prefix(std::get<I>(limits_).label, I)...};
  }
  template <std::size_t... I, typename... Args>
  void compose(KeyBuilder& keys, std::array<std::size_t, kCount>& ends, std::index_sequence<I...>,
               const Args&... args) const {
    const auto one = [&](const std::string& prefix, const auto& values) {
      keys.add_composed(prefix);
      std::apply([&](const auto&... of) { (add_to_key(keys, project(of, args...)), ...); }, values);
      return keys.size();
    };
    ((ends[I] = one(prefixes_[I], std::get<I>(limits_).values)), ...);
  }

  Limiter* limiter_;
  std::string name_;
  bool holds_ = false;
  std::optional<Duration> max_wait_ = {};
  std::tuple<Limits...> limits_;
  std::array<std::string, kCount> prefixes_;
};

}  // namespace sluice::detail

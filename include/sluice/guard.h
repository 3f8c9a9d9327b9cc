#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sluice/detail/guard_values.h"
#include "sluice/guard_call.h"
#include "sluice/limiter.h"
#include "sluice/path.h"

// Limits on functions: what annotations do elsewhere.
//
//   auto send = sluice::guarded(limiter, "send_code", sliding_window_log(3).per(60s))
//                   .key(&Request::email)
//                   .throwing(send_code);
//   send(request);  // send_code(request), or throws RateLimited
//
// A guard's counters are named by the guard's name, the limit's label (or place among its limits),
// and the key's values, so that no two of these share a counter (KeyBuilder). Two
// guards of one name share theirs. What a store could not decide is denied with the store's reason,
// unless the store itself says otherwise.
namespace sluice {

// A limit and the values that each have a counter of their own under it; made by per() and
// global().
template <typename... Values>
struct LimitPer {
  Limit limit;
  std::tuple<Values...> values;
  std::string label = {};

  // Names it among the guard's limits, in counters and in messages. Without a name it goes by its
  // place, and another order of limits is another set of counters.
  LimitPer named(std::string_view name) const {
    LimitPer other = *this;
    other.label = name;
    return other;
  }
};

// One counter for all calls.
inline LimitPer<> global(const Limit& limit) { return {limit, {}}; }

// A counter for each value of `of`: a projection of the arguments in guarded(), a value in
// acquire() (text is borrowed there). For several values, give a tuple of them.
template <typename Of>
auto per(Of&& of, const Limit& limit) {
  if constexpr (detail::kIsText<std::remove_cvref_t<Of>>) {
    return LimitPer<std::string_view>{limit, {std::string_view(of)}};
  } else {
    return LimitPer<std::decay_t<Of>>{limit, {std::forward<Of>(of)}};
  }
}

namespace detail {

// Text that a limit goes by in messages: its label, or its place where there are several.
struct LimitName {
  const Limit* limit;
  std::string_view label;
};
// Throws std::invalid_argument for a guard without a name, two limits of one label, and a limit in
// queue mode that nothing waits for.
void check_guard(std::string_view name, std::span<const LimitName> limits, bool waits);
// Names the limit of those that denied which takes the longest.
[[noreturn]] void throw_rate_limited(std::string_view name, std::span<const LimitName> limits,
                                     std::span<const Decision> each, const Decision& decision);

// The start of the keys of a guard's limit.
inline void begin_key(KeyBuilder& key, std::string_view name, std::string_view label,
                      std::size_t place) {
  key.add(name);
  label.empty() ? key.add(place) : key.add(label);
}

// What a limit guard asks: its limits, as one decision.
template <typename... Limits>
class LimitGate {
 public:
  static constexpr std::size_t kCount = sizeof...(Limits);
  static_assert(kCount > 0, "sluice: a guard needs a limit");
  static_assert(kCount <= kMaxCharges, "sluice: too many limits for one request");

  LimitGate(Limiter& limiter, std::string_view name, std::tuple<Limits...> limits)
      : limiter_(&limiter), name_(name), limits_(std::move(limits)) {}

  template <typename... Values>
  requires(kCount == 1 && sizeof...(Values) > 0 &&
           (std::same_as<Limits, LimitPer<>> && ...)) auto with_key(Values... values) const {
    const auto& first = std::get<0>(limits_);
    using Keyed = LimitPer<Values...>;
    return LimitGate<Keyed>(*limiter_, name_,
                            {Keyed{first.limit, {std::move(values)...}, first.label}});
  }

  LimitGate checked(bool waits) const {
    check_guard(name_, names(), waits);
    LimitGate gate = *this;
    gate.compose_prefixes(std::make_index_sequence<kCount>());
    return gate;
  }

  // A request: its keys, and its answers. Borrows the gate.
  class Pass {
   public:
    template <typename... Args>
    Pass(const LimitGate& gate, std::uint64_t cost, const Args&... args)
        : gate_(gate), cost_(cost) {
      gate.compose(keys_, ends_, std::make_index_sequence<kCount>(), args...);
      if constexpr (kCount == 1) {
        decision_ = gate.limiter_->try_acquire(key(0), std::get<0>(gate.limits_).limit, cost);
      } else {
        decision_ = gate.limiter_->check(charges(std::make_index_sequence<kCount>()), each_);
      }
    }

    const Decision& decision() const noexcept { return decision_; }
    void close() const noexcept {}
    [[noreturn]] void fail() const {
      const std::span<const Decision> one(&decision_, 1);
      throw_rate_limited(gate_.name_, gate_.names(), kCount == 1 ? one : each_, decision_);
    }
    void refund() const noexcept {
      const auto all = charges(std::make_index_sequence<kCount>());
      gate_.limiter_->apply(Verb::kRefund, all);
    }

   private:
    std::string_view key(std::size_t i) const noexcept {
      const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
      return keys_.view().substr(begin, ends_[i] - begin);
    }
    template <std::size_t... I>
    std::array<Charge, kCount> charges(std::index_sequence<I...>) const noexcept {
      return {Charge{key(I), std::get<I>(gate_.limits_).limit, cost_}...};
    }

    const LimitGate& gate_;
    std::uint64_t cost_;
    Decision decision_;
    std::array<Decision, kCount == 1 ? 0 : kCount> each_;
    std::array<std::size_t, kCount> ends_;
    KeyBuilder keys_;
  };

  template <typename... Args>
  Pass enter(std::uint64_t cost, const Args&... args) const {
    return Pass(*this, cost, args...);
  }

 private:
  std::array<LimitName, kCount> names() const noexcept {
    return std::apply(
        [](const auto&... l) {
          return std::array{LimitName{&l.limit, l.label}...};
        },
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
  std::tuple<Limits...> limits_;
  std::array<std::string, kCount> prefixes_;
};

}  // namespace detail

// A guard of one limit, or of several that are one all-or-nothing decision. Next: a key, options,
// and the function (Guard, guard_call.h).
//
// `limiter` is borrowed and outlives what is made of the guard. Cost of a guarded call beyond
// try_acquire: composing the key on the stack; nothing is allocated up to 256 bytes of keys.
inline auto guarded(Limiter& limiter, std::string_view name, const Limit& limit) {
  using Gate = detail::LimitGate<LimitPer<>>;
  return Guard<Gate>(Gate(limiter, name, {global(limit)}));
}
// guarded(limiter, "order", global(token_bucket(1000).per(1s)), per(&Order::user, gcra(1).per(1s)))
template <typename... Values, typename... More>
auto guarded(Limiter& limiter, std::string_view name, LimitPer<Values...> limit, More... more) {
  using Gate = detail::LimitGate<LimitPer<Values...>, More...>;
  return Guard<Gate>(Gate(limiter, name, {std::move(limit), std::move(more)...}));
}

}  // namespace sluice

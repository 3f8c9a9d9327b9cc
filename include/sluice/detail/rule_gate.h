#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/detail/guard_gate.h"
#include "sluice/guard_parts.h"
#include "sluice/limiter.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice::detail {

// Returns the attribute, or if it has fields, these with their whole names, as "email.address".
template <typename Of, typename... Fields>
auto flatten(const Field<Of, Fields...>& all) {
  if constexpr (sizeof...(Fields) == 0) {
    return std::tuple(all);
  } else {
    const auto one = [&]<typename F, typename... Own>(const Field<F, Own...>& f) {
      return flatten(
          Field<Path<Of, F>, Own...>{all.name + "." + f.name, Path<Of, F>(all.of, f.of), f.fields});
    };
    return std::apply([&](const auto&... f) { return std::tuple_cat(one(f)...); }, all.fields);
  }
}

// Digits of a number, or one character.
struct ShortText {
  std::array<char, 20> bytes;
  std::uint8_t size = 0;
  operator std::string_view() const noexcept { return {bytes.data(), size}; }
};
template <typename T>
ShortText digits_of(T number) noexcept {
  static_assert(sizeof(T) <= 8);
  ShortText text;
  char* const begin = text.bytes.data();
  const char* const end = std::to_chars(begin, begin + text.bytes.size(), number).ptr;
  text.size = static_cast<std::uint8_t>(end - begin);
  return text;
}

template <typename>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// Returns an attribute's value for the time of a call: text of an argument is borrowed, text that a
// projection returned by value is held.
template <typename P>
auto held(P&& value) {
  using T = std::remove_cvref_t<P>;
  if constexpr (kIsOptional<T>) {
    using Inner = decltype(held(*std::forward<P>(value)));
    return value ? std::optional<Inner>(held(*std::forward<P>(value))) : std::nullopt;
  } else if constexpr (std::same_as<T, bool>) {
    return std::string_view(value ? "true" : "false");
  } else if constexpr (std::same_as<T, char>) {
    return ShortText{{value}, 1};
  } else if constexpr (std::is_enum_v<T>) {
    return digits_of(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::integral<T>) {
    return digits_of(value);
  } else if constexpr (std::is_pointer_v<T> && kIsText<T>) {
    return value ? std::optional<std::string_view>(value) : std::nullopt;
  } else {
    static_assert(kIsText<T>,
                  "sluice: an attribute of a rule is text, an integer, an enumeration, or an "
                  "optional of these; for a struct, name its fields");
    if constexpr (std::is_lvalue_reference_v<P> || std::same_as<T, std::string_view>) {
      return std::string_view(value);
    } else {
      return T(std::forward<P>(value));
    }
  }
}

template <typename T>
std::optional<std::string_view> text_of(const T& value) noexcept {
  if constexpr (kIsOptional<T>) {
    return value ? text_of(*value) : std::nullopt;
  } else {
    return std::string_view(value);
  }
}

// The attributes of one call, read from its arguments.
template <typename... Held>
class CallAttributes final : public AttributeSource {
 public:
  CallAttributes(std::span<const std::string> names, Held... values)
      : names_(names), values_(std::move(values)...) {}

  std::optional<std::string_view> find(std::string_view name) const override {
    return find(name, std::index_sequence_for<Held...>());
  }

 private:
  template <std::size_t... I>
  std::optional<std::string_view> find([[maybe_unused]] std::string_view name,
                                       std::index_sequence<I...>) const {
    std::optional<std::string_view> text;
    static_cast<void>(((names_[I] == name && (text = text_of(std::get<I>(values_)), true)) || ...));
    return text;
  }

  std::span<const std::string> names_;
  std::tuple<Held...> values_;
};

// What a guard needs of its rules.
struct RuleNeeds {
  std::string rule;
  std::vector<std::string> attributes;    // the names of those that the guard provides
  std::vector<std::string> costs;         // the names of the limits whose costs the guard provides
  bool waits = false;                     // whether the guard waits for a queue's delay
  std::optional<Duration> max_wait = {};  // how long a call waits for units
  bool holds = false;                     // whether the guard holds permits
};

// The rules of a guard, and a RuleDecider for each thread that is inside a call.
//
// Thread-safe. Cost: finding a free decider; none is allocated while at most twice as many threads
// are inside as there are processors.
class RuleDeciders {
 public:
  // Throws std::invalid_argument if the rules do not meet the needs.
  RuleDeciders(LiveRules rules, Limiter& limiter, const RuleStores& stores, RuleNeeds needs);
  ~RuleDeciders();
  RuleDeciders(const RuleDeciders&) = delete;
  RuleDeciders& operator=(const RuleDeciders&) = delete;

  std::span<const std::string> attributes() const noexcept { return needs_->attributes; }
  std::span<const std::string> costs() const noexcept { return needs_->costs; }

 private:
  friend class RulePass;
  struct Slot;

  Slot& enter();
  static void leave(Slot* slot) noexcept;
  void release(std::string_view permit) const noexcept;

  LiveRules rules_;
  Limiter* limiter_;
  RuleStores stores_;
  std::shared_ptr<const RuleNeeds> needs_;
  std::size_t slot_count_;
  std::unique_ptr<Slot[]> slots_;
};

// One call that a rule decides, and its permit, which it releases. Borrows the gate's deciders.
class RulePass {
 public:
  RulePass(RuleDeciders& deciders, const AttributeSource& attributes, const RequestCosts& costs);
  ~RulePass();
  RulePass(const RulePass&) = delete;
  RulePass& operator=(const RulePass&) = delete;

  const Decision& decision() const noexcept { return decision_; }
  void close() noexcept { slot_.reset(); }
  [[noreturn]] void fail() const;
  void refund() noexcept;

 private:
  Decision ask(const AttributeSource& attributes, const RequestCosts& costs);

  RuleDeciders& deciders_;
  std::unique_ptr<RuleDeciders::Slot, void (*)(RuleDeciders::Slot*) noexcept> slot_;
  Decision decision_;
  std::string permit_;
};

// The rule of a guard, by its name, and the attributes and the costs of limits that the guard
// provides: tuples of Field.
template <typename Attributes = std::tuple<>, typename Costs = std::tuple<>>
class RuleGate {
 public:
  RuleGate(LiveRules rules, Limiter& limiter, const RuleStores& stores, std::string_view rule,
           Attributes attributes = {}, Costs costs = {}, std::optional<Duration> max_wait = {},
           bool holds = false)
      : rules_(std::move(rules)),
        limiter_(&limiter),
        stores_(stores),
        rule_(rule),
        max_wait_(max_wait),
        holds_(holds),
        attributes_(std::move(attributes)),
        costs_(std::move(costs)) {}

  RuleGate with_wait(Duration at_most) const {
    RuleGate gate = *this;
    gate.max_wait_ = at_most;
    return gate;
  }

  RuleGate with_permit() const {
    RuleGate gate = *this;
    gate.holds_ = true;
    return gate;
  }

  template <typename New, typename... Fields>
  auto with_attribute(std::string_view name, New of, Fields... fields) const {
    return extended(
        std::tuple_cat(attributes_, flatten(field(name, std::move(of), std::move(fields)...))),
        costs_);
  }

  template <typename Units>
  auto with_cost(std::string_view limit, Units units) const {
    return extended(attributes_,
                    std::tuple_cat(costs_, std::tuple(field(limit, std::move(units)))));
  }

  RuleGate checked(bool waits) const {
    RuleNeeds needs{rule_, {}, {}, waits || max_wait_, max_wait_, holds_};
    std::apply([&](const auto&... c) { (needs.costs.push_back(c.name), ...); }, costs_);
    std::apply([&](const auto&... a) { (needs.attributes.push_back(a.name), ...); }, attributes_);
    RuleGate gate = *this;
    gate.deciders_ = std::make_shared<RuleDeciders>(rules_, *limiter_, stores_, std::move(needs));
    return gate;
  }

  template <typename... Args>
  RulePass enter(std::uint64_t cost, const Args&... args) const {
    const auto limits = std::apply(
        [&](const auto&... c) {
          return std::array<LimitCost, std::tuple_size_v<Costs>>{
              LimitCost{c.name, cost_of(c.of, args...)}...};
        },
        costs_);
    return std::apply(
        [&](const auto&... a) {
          return RulePass(*deciders_,
                          CallAttributes<decltype(held(project(a.of, args...)))...>(
                              deciders_->attributes(), held(project(a.of, args...))...),
                          {cost, limits});
        },
        attributes_);
  }

 private:
  template <typename MoreAttributes, typename MoreCosts>
  RuleGate<MoreAttributes, MoreCosts> extended(MoreAttributes attributes, MoreCosts costs) const {
    return {rules_,           *limiter_, stores_, rule_, std::move(attributes),
            std::move(costs), max_wait_, holds_};
  }

  LiveRules rules_;
  Limiter* limiter_;
  RuleStores stores_;
  std::string rule_;
  std::optional<Duration> max_wait_;
  bool holds_;
  Attributes attributes_;
  Costs costs_;
  std::shared_ptr<RuleDeciders> deciders_;
};

}  // namespace sluice::detail

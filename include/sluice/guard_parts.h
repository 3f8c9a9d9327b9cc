#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "sluice/decision.h"
#include "sluice/expected.h"
#include "sluice/key_builder.h"
#include "sluice/limit.h"

// What guards (guard.h) and require() are given, and what they return or throw.
namespace sluice {

// A limit of a guard, and the values that each have their own counter under it. Made by per() and
// global().
//
// A plain value. Ownership: holds its values; a text value of per() is borrowed.
template <typename... Values>
struct LimitPer {
  Limit limit;
  std::tuple<Values...> values;
  std::string label = {};

  // Names the limit in keys of counters and in messages. A limit without a name is numbered, so
  // that its counters change with the order of the limits.
  LimitPer named(std::string_view name) const {
    LimitPer other = *this;
    other.label = name;
    return other;
  }
};

// Returns a limit with one counter for all calls.
inline LimitPer<> global(const Limit& limit) { return {limit, {}}; }

// Returns a limit with a counter for each value of `of`: for guarded(), a projection of the
// arguments; for require(), a value, of which text is borrowed. For several values, give a tuple.
template <typename Of>
auto per(Of&& of, const Limit& limit) {
  if constexpr (detail::kIsText<std::remove_cvref_t<Of>>) {
    return LimitPer<std::string_view>{limit, {std::string_view(of)}};
  } else {
    return LimitPer<std::decay_t<Of>>{limit, {std::forward<Of>(of)}};
  }
}

namespace detail {

// Returns a copy of a value for the time after the object ends that it is a part of: of the text
// that a view shows, its bytes.
template <typename T>
constexpr auto kept(T&& value) {
  using Value = std::remove_cvref_t<T>;
  if constexpr (std::same_as<Value, std::string_view>) {
    return std::string(value);
  } else if constexpr (std::same_as<Value, std::optional<std::string_view>>) {
    return value ? std::optional<std::string>(*value) : std::nullopt;
  } else {
    return Value(std::forward<T>(value));
  }
}

}  // namespace detail

// A way to a nested value, for keys, costs and attributes of guards:
// `path(&Request::email, &Email::address)` leads from a request to its e-mail address.
//
// Thread-safety: that of its steps. Ownership: copies its steps. Cost: that of the steps; it copies
// a value only if a step returned it by value, and then also the bytes of a view, not of a pointer.
template <typename First, typename... Rest>
class Path {
 public:
  // A path of these steps.
  constexpr explicit Path(First first, Rest... rest)
      : first_(std::move(first)), rest_(std::move(rest)...) {}

  // Follows the path from an object.
  template <typename T>
    requires std::invocable<const First&, const T&> &&
             std::invocable<const Path<Rest...>&, std::invoke_result_t<const First&, const T&>>
  constexpr decltype(auto) operator()(const T& object) const {
    using Step = std::invoke_result_t<const First&, const T&>;
    if constexpr (std::is_lvalue_reference_v<Step>) {
      return rest_(std::invoke(first_, object));
    } else {
      return detail::kept(rest_(std::invoke(first_, object)));
    }
  }

 private:
  First first_;
  Path<Rest...> rest_;
};

// The last step of a path.
template <typename Last>
class Path<Last> {
 public:
  // A path of one step.
  constexpr explicit Path(Last last) : last_(std::move(last)) {}

  // Takes the step from an object.
  template <typename T>
    requires std::invocable<const Last&, const T&>
  constexpr decltype(auto) operator()(const T& object) const {
    return std::invoke(last_, object);
  }

 private:
  Last last_;
};

// Returns the path of these steps: member pointers, or callables with one argument.
template <typename... Steps>
  requires(sizeof...(Steps) > 0)
constexpr Path<std::decay_t<Steps>...> path(Steps&&... steps) {
  return Path<std::decay_t<Steps>...>(std::forward<Steps>(steps)...);
}

// A part of the value of a rule guard's attribute, for `{email.address}` and `{email.domain}`:
//   .with("email", &Request::email, field("address", &Email::address), field("domain", ...))
// A field can have fields of its own. A plain value that holds its name and its projection.
template <typename Of, typename... Fields>
struct Field {
  std::string name;
  Of of;
  std::tuple<Fields...> fields = {};
};
// Returns a field by its name, its projection and its own fields.
template <typename Of, typename... Fields>
Field<Of, Fields...> field(std::string_view name, Of of, Fields... fields) {
  return {std::string(name), std::move(of), {std::move(fields)...}};
}

// The exception of a guard that throws, if it denies a call.
//
// what() says which limit denies and for how long: "send_code: limited to 3 per 1m
// (sliding_window_log); retry after 12.5 s". Thread-safety: read it from any thread. Ownership:
// holds its text, which copies share. Cost: an allocation for the text.
class RateLimited : public std::runtime_error {
 public:
  // `name` is the guard's; `cause` is the part of what() between the name and the wait.
  RateLimited(std::string_view name, std::string_view cause, const Decision& decision);

  // The guard's name. It is valid as long as the exception.
  std::string_view name() const noexcept { return {what(), name_size_}; }
  // The decision: its reason, and when to retry. Its outcome is kFailed if the store failed.
  const Decision& decision() const noexcept { return decision_; }

 private:
  std::size_t name_size_;
  Decision decision_;
};

// The result of a function that a guard calls with returning(): its result, or the decision that
// denied the call. R is the result of the function: void becomes std::monostate, and a reference a
// std::reference_wrapper.
template <typename R>
using OrDecision = Expected<
    std::conditional_t<std::is_void_v<R>, std::monostate,
                       std::conditional_t<std::is_lvalue_reference_v<R>,
                                          std::reference_wrapper<std::remove_reference_t<R>>,
                                          std::remove_reference_t<R>>>,
    Decision>;

}  // namespace sluice

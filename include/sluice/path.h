#pragma once

#include <concepts>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice {

// A way to a nested value, for keys, costs and attributes of guards:
// `path(&Request::email, &Email::address)` leads from a request to its e-mail address.
//
// Thread-safety: that of its steps. Ownership: copies its steps. Cost: that of the steps; it copies
// a value only if a step returned it by value.
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
    using End = std::invoke_result_t<const Path<Rest...>&, Step>;
    using Result =
        std::conditional_t<std::is_lvalue_reference_v<Step>, End, std::remove_cvref_t<End>>;
    return static_cast<Result>(rest_(std::invoke(first_, object)));
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

}  // namespace sluice

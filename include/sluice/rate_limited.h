#pragma once

#include <functional>
#include <stdexcept>
#include <string_view>
#include <variant>

#include "sluice/decision.h"
#include "sluice/expected.h"

namespace sluice {

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

namespace detail {

// The result of a guarded function as the value of an Expected: std::monostate for void, a
// std::reference_wrapper for a reference.
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

// The result of a function that a guard calls with returning(): its result, or the decision that
// denied the call. R is the result of the function.
template <typename R>
using OrDecision = Expected<typename detail::Boxed<R>::Type, Decision>;

}  // namespace sluice

#pragma once

#include <array>
#include <cstddef>
#include <source_location>
#include <span>
#include <string_view>
#include <tuple>

#include "sluice/detail/guard_gate.h"
#include "sluice/limiter.h"

// Limits at the top of a function, without a wrapper around it.
//
//   void send_code(const std::string& email) {
//     sluice::require(limiter, kLimit, email);  // takes one unit, or throws RateLimited
namespace sluice {

// The function that asks a limiter. Give `limiter`, and the function's name names the counters, or
// `{limiter, "name"}`. The function's name is the compiler's full spelling of it (its plain name
// and file if the compiler lacks std::source_location). Give a name if several builds or overloads
// share counters.
//
// A plain value. Ownership: borrows the limiter and the name.
class Site {
 public:
#ifdef __cpp_lib_source_location
  // The calling function.
  Site(Limiter& limiter, std::source_location where = std::source_location::current()) noexcept
      : limiter_(&limiter), name_(where.function_name()) {}
#else
  // The calling function.
  Site(Limiter& limiter, std::nullptr_t = nullptr, const char* function = __builtin_FUNCTION(),
       const char* file = __builtin_FILE()) noexcept
      : limiter_(&limiter), name_(function), file_(file) {}
#endif
  // A name instead of the function's.
  Site(Limiter& limiter, std::string_view name) noexcept : limiter_(&limiter), name_(name) {}

  // The limiter that it asks.
  Limiter& limiter() const noexcept { return *limiter_; }
  // The name of its counters.
  std::string_view name() const noexcept { return name_; }
  // Begins the key of a limit with this label and index.
  void begin_key(KeyBuilder& key, std::string_view label, std::size_t place) const {
    if (!file_.empty()) {
      key.add(file_.substr(file_.find_last_of('/') + 1));
      key.add_composed("@");
    }
    detail::begin_key(key, name_, label, place);
  }

 private:
  Limiter* limiter_;
  std::string_view name_;
  std::string_view file_ = {};
};

namespace detail {

// Asks for one unit of each limit.
template <typename... Limits>
Decision ask(const Site& site, std::span<Decision> each, const Limits&... limits) {
  KeyBuilder keys;
  std::array<std::size_t, sizeof...(Limits) + 1> ends{};
  std::size_t place = 0;
  const auto compose = [&](const auto& limit) {
    site.begin_key(keys, limit.label, place);
    std::apply([&](const auto&... value) { (add_to_key(keys, value), ...); }, limit.values);
    ends[++place] = keys.size();
  };
  (compose(limits), ...);
  if constexpr (sizeof...(Limits) == 1) {
    const Limit& limit = std::get<0>(std::tie(limits.limit...));
    return each[0] = site.limiter().try_acquire(keys.view(), limit);
  } else {
    place = 0;
    const auto key = [&] {
      const std::size_t begin = ends[place++];
      return keys.view().substr(begin, ends[place] - begin);
    };
    const std::array charges{Charge{key(), limits.limit}...};
    return site.limiter().check(charges, each);
  }
}

template <typename... Limits>
Decision ask_or_throw(const Site& site, const Limits&... limits) {
  std::array<Decision, sizeof...(Limits)> each;
  const Decision decision = ask(site, each, limits...);
  if (decision.allowed()) return decision;
  throw_rate_limited(site.name(), std::array{LimitName{&limits.limit, limits.label}...}, each,
                     decision);
}

}  // namespace detail

// Takes one unit of the counter of the calling function and these values. Errors: throws
// RateLimited if the request is denied. A leaky bucket in queue mode says in `delay` how long to
// wait.
template <KeyValue... Values>
Decision require(const Site& site, const Limit& limit, const Values&... values) {
  return detail::ask_or_throw(site, LimitPer<const Values&...>{limit, {values...}});
}
// Takes one unit of each limit, or throws and takes nothing:
// `require(limiter, global(kAll), per(user, kPerUser));`
template <typename... Values, typename... More>
Decision require(const Site& site, const LimitPer<Values...>& limit, const More&... more) {
  return detail::ask_or_throw(site, limit, more...);
}

// As require(), but returns a denial instead of throwing it:
// `if (const auto d = try_acquire(limiter, kLimit, user); !d) return busy(d);`
template <KeyValue... Values>
[[nodiscard]] Decision try_acquire(const Site& site, const Limit& limit, const Values&... values) {
  Decision each;
  return detail::ask(site, {&each, 1}, LimitPer<const Values&...>{limit, {values...}});
}
// As require() with several limits, but returns a denial instead of throwing it.
template <typename... Values, typename... More>
[[nodiscard]] Decision try_acquire(const Site& site, const LimitPer<Values...>& limit,
                                   const More&... more) {
  std::array<Decision, sizeof...(More) + 1> each;
  return detail::ask(site, each, limit, more...);
}

}  // namespace sluice

#pragma once

#include <string_view>
#include <utility>

#include "sluice/detail/limit_gate.h"
#include "sluice/guard_call.h"
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
namespace sluice {

// Returns a guard with one limit. Continue with a key, with options, and with the function (Guard
// in guard_call.h).
//
// Ownership: borrows the limiter, which must outlive the guard and its functions. Cost of a guarded
// call: one request, and making the key on the stack; up to 256 bytes of keys allocate nothing.
inline auto guarded(Limiter& limiter, std::string_view name, const Limit& limit) {
  using Gate = detail::LimitGate<LimitPer<>>;
  return Guard<Gate>(Gate(limiter, name, {global(limit)}));
}
// Returns a guard with several limits, which are one all-or-nothing decision:
// `guarded(limiter, "order", global(kAll), per(&Order::user, kPerUser))`.
template <typename... Values, typename... More>
auto guarded(Limiter& limiter, std::string_view name, LimitPer<Values...> limit, More... more) {
  using Gate = detail::LimitGate<LimitPer<Values...>, More...>;
  return Guard<Gate>(Gate(limiter, name, {std::move(limit), std::move(more)...}));
}

}  // namespace sluice

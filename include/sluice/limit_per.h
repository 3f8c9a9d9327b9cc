#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/key_builder.h"
#include "sluice/limit.h"

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
// arguments; for acquire(), a value, of which text is borrowed. For several values, give a tuple.
template <typename Of>
auto per(Of&& of, const Limit& limit) {
  if constexpr (detail::kIsText<std::remove_cvref_t<Of>>) {
    return LimitPer<std::string_view>{limit, {std::string_view(of)}};
  } else {
    return LimitPer<std::decay_t<Of>>{limit, {std::forward<Of>(of)}};
  }
}

}  // namespace sluice

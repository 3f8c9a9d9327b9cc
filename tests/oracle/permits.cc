#include "tests/oracle/permits.h"

#include <algorithm>
#include <ranges>
#include <variant>

#include "tests/oracle/counter.h"

namespace sluice_oracle {
namespace {

void forget_ended(Permits& permits, std::int64_t instant) {
  std::erase_if(permits.live, [=](const Permit& permit) { return permit.end <= instant; });
}

// Returns the live permit with this id; null if there is none.
Permit* find_live(Counter& counter, std::int64_t instant, std::uint64_t id) {
  Permits* const permits = std::get_if<Permits>(&counter.state);
  if (permits == nullptr) return nullptr;
  const auto found =
      std::find_if(permits->live.begin(), permits->live.end(),
                   [=](const Permit& permit) { return permit.id == id && permit.end > instant; });
  return found == permits->live.end() ? nullptr : &*found;
}

}  // namespace

Rational consumed_of(const Permits& permits, const Counter&, std::int64_t instant) {
  Integer sum = 0;
  for (const Permit& permit : permits.live) {
    if (permit.end > instant) sum += permit.units;
  }
  return sum;
}

void take_from(Permits& permits, const Counter& counter, std::int64_t instant,
               const Integer& cost) {
  const std::int64_t lease = counter.spec.per_us;
  forget_ended(permits, instant);
  permits.live.push_back({instant + lease, lease, 0, cost});
}

Rational refund_to(Permits& permits, const Counter&, std::int64_t instant, const Integer& cost) {
  forget_ended(permits, instant);
  Integer left = cost;
  for (Permit& permit : std::views::reverse(permits.live)) {
    const Integer given = std::min(permit.units, left);
    permit.units -= given;
    left -= given;
  }
  std::erase_if(permits.live, [](const Permit& permit) { return permit.units == 0; });
  return cost - left;
}

void name_newest(Counter& counter, std::uint64_t id) {
  std::get<Permits>(counter.state).live.back().id = id;
}

bool release(Counter& counter, std::int64_t instant, std::uint64_t id) {
  Permit* const permit = find_live(counter, instant, id);
  if (permit == nullptr) return false;
  permit->end = instant;
  forget_ended(std::get<Permits>(counter.state), instant);
  counter.last_change = instant;
  return true;
}

bool extend(Counter& counter, std::int64_t instant, std::uint64_t id) {
  Permit* const permit = find_live(counter, instant, id);
  if (permit == nullptr) return false;
  permit->end = instant + permit->lease;
  counter.last_change = instant;
  return true;
}

}  // namespace sluice_oracle

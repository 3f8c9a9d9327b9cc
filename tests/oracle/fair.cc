#include "tests/oracle/fair.h"

#include <algorithm>
#include <optional>

namespace sluice_oracle {
namespace {

Rational part_at(const Demand& demand, const Rational& level) {
  const Rational risen = std::min<Rational>(demand.asked, level * demand.weight);
  return std::max<Rational>(demand.at_least, risen);
}

Rational sum_at(const std::vector<Demand>& demands, const Rational& level) {
  Rational sum = 0;
  for (const Demand& demand : demands) sum += part_at(demand, level);
  return sum;
}

}  // namespace

std::vector<Rational> fair_parts(const std::vector<Demand>& demands, const Rational& total) {
  std::vector<Demand> all = demands;
  for (Demand& one : all) one.at_least = std::min(one.at_least, total);
  const Rational least = sum_at(all, 0);
  std::vector<Rational> parts;
  if (least >= total) {
    for (const Demand& one : all) {
      parts.push_back(least == 0 ? Rational(0) : Rational(one.at_least * total / least));
    }
    return parts;
  }
  // The sum of the parts is linear between the levels where a part begins or ceases to rise.
  Rational level = 0;
  while (true) {
    std::optional<Rational> next;
    for (const Demand& one : all) {
      if (one.weight == 0) continue;
      for (const Rational& end : {one.at_least, one.asked}) {
        const Rational at = end / one.weight;
        if (at > level && (!next || at < *next)) next = at;
      }
    }
    if (!next) break;
    const Rational sum = sum_at(all, level);
    const Rational rise = sum_at(all, *next) - sum;
    if (sum + rise > total) {
      level += (total - sum) / rise * (*next - level);
      break;
    }
    level = *next;
  }
  for (const Demand& one : all) parts.push_back(part_at(one, level));
  return parts;
}

std::vector<Rational> fair_rates(const std::vector<Flow>& flows,
                                 const std::vector<Rational>& limits) {
  std::vector<Rational> rates(flows.size());
  std::vector<Rational> left = limits;
  while (true) {
    std::vector<Rational> weights(limits.size());
    std::vector<std::size_t> rising;
    std::optional<Rational> rise;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const auto& [asked, weight, places] = flows[i];
      const auto is_used_up = [&](std::size_t at) { return left[at] <= 0; };
      if (weight == 0 || rates[i] >= asked) continue;
      if (std::any_of(places.begin(), places.end(), is_used_up)) continue;
      rising.push_back(i);
      for (const std::size_t at : places) weights[at] += weight;
      const Rational most = (asked - rates[i]) / weight;
      if (!rise || most < *rise) rise = most;
    }
    if (!rise) return rates;
    for (std::size_t at = 0; at < limits.size(); ++at) {
      if (weights[at] > 0) rise = std::min<Rational>(*rise, left[at] / weights[at]);
    }
    for (const std::size_t i : rising) {
      const Rational more = *rise * flows[i].weight;
      rates[i] += more;
      for (const std::size_t at : flows[i].limits) left[at] -= more;
    }
  }
}

}  // namespace sluice_oracle

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/property/verb_probe.h"

// The promises of reservations: exact waits, cancelling, and the rate at which requests depart.
namespace sluice_property {
namespace {

using sluice::Decision;
using sluice_oracle::Spec;
__extension__ using Wide = unsigned __int128;

const std::vector<Algorithm> kBuckets = {Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                         Algorithm::kGcra};

// Adds the same units to both.
void charge_both(Dice& dice, VerbProbe& a, VerbProbe& b, std::int64_t at) {
  const std::uint64_t cost = random_cost(dice, a.spec());
  a.charge(at, cost);
  b.charge(at, cost);
}

Decision random_request(Dice& dice, VerbProbe& probe, std::int64_t at) {
  const std::uint64_t cost = random_cost(dice, probe.spec());
  const std::int64_t max_wait = dice.between(0, probe.spec().per_us);
  switch (dice.below(5)) {
    case 0: return probe.charge(at, cost);
    case 1: return probe.take(at, cost);
    case 2: return probe.at_most(at, cost);
    case 3: return probe.refund(at, cost);
    default: return probe.reserve(at, cost, max_wait);
  }
}

RC_GTEST_PROP(PromiseOfReservations, DelayAndRetryAfterAreExact, ()) {
  Dice dice(*any_seed());
  const Spec spec = roomy_spec(dice, kBuckets);
  VerbProbe probe(spec);
  VerbProbe twin(spec);  // is never asked what is denied
  std::int64_t at = kStart;
  for (int i = 0; i < 30; ++i) {
    at += random_gap(dice, spec);
    const std::uint64_t cost = random_cost(dice, spec);
    const std::int64_t max_wait = dice.between(0, 3 * spec.per_us);
    const Decision decision = probe.reserve(at, cost, max_wait);
    const std::int64_t wait = twin.peek(at, cost).retry_after.value_or(sluice::Duration{0}).count();
    if (decision) {
      RC_ASSERT(wait <= max_wait);
      RC_ASSERT(decision.delay.has_value());
      RC_ASSERT(decision.delay->count() >= wait);
      RC_ASSERT(queues(spec) || decision.delay->count() == wait);
      RC_ASSERT(twin.reserve(at, cost, kForever) == decision);
      continue;
    }
    RC_ASSERT(wait > max_wait);
    RC_ASSERT(decision.retry_after->count() == wait - max_wait);
    RC_ASSERT(!decision.delay);
    RC_ASSERT(!probe.reserve(at + wait - max_wait - 1, cost, max_wait));
    RC_ASSERT(probe.peek(at, 0) == twin.peek(at, 0));
  }
}

// Reservations in between wait for as long as they need, and charges are always admitted: so each
// is admitted with the reservation and without it.
RC_GTEST_PROP(PromiseOfReservations, ACancelledOneIsAsIfItNeverWas, ()) {
  Dice dice(*any_seed());
  const Spec spec = roomy_spec(dice, kBuckets);
  VerbProbe with(spec);
  VerbProbe without(spec);
  std::int64_t at = kStart;
  for (int i = 0; i < 5; ++i) charge_both(dice, with, without, at += random_gap(dice, spec));

  const std::uint64_t cost = random_cost(dice, spec);
  const Decision reserved = with.reserve(at, cost, kForever);
  RC_PRE(reserved.delay->count() > 0);
  const std::int64_t cancelled = at + dice.between(0, reserved.delay->count() - 1);
  for (int i = 0; i < 5; ++i) {
    at = dice.between(at, cancelled);
    if (dice.chance(50)) {
      charge_both(dice, with, without, at);
      continue;
    }
    const std::uint64_t other = random_cost(dice, spec);
    const std::optional<sluice::Duration> later = with.reserve(at, other, kForever).delay;
    const bool is_not_sooner = later >= without.reserve(at, other, kForever).delay;
    RC_ASSERT(is_not_sooner);
  }
  with.refund(cancelled, cost);
  at = cancelled;
  RC_ASSERT(with.peek(at, 1) == without.peek(at, 1));
  for (int i = 0; i < 20; ++i) {
    at += random_gap(dice, spec);
    Dice again = dice;
    RC_ASSERT(random_request(dice, with, at) == random_request(again, without, at));
  }
}

// Everything that was admitted, in order, and what was given back.
struct Ask {
  std::int64_t departs = 0;
  std::uint64_t cost = 0;
  bool is_cancelled = false;
};
struct Cancel {
  std::size_t before = 0;  // the next ask
  std::size_t ask = 0;
};
struct Traffic {
  std::vector<Ask> asks;
  std::vector<Cancel> cancels;
};

void cancel_one(Dice& dice, VerbProbe& probe, Traffic& traffic, std::int64_t at) {
  if (traffic.asks.empty()) return;
  const std::size_t index = dice.below(traffic.asks.size());
  Ask& ask = traffic.asks[index];
  if (ask.is_cancelled || ask.departs <= at) return;
  probe.refund(at, ask.cost);
  ask.is_cancelled = true;
  traffic.cancels.push_back({traffic.asks.size(), index});
}

Traffic random_traffic(Dice& dice, const Spec& spec, std::uint64_t percent_cancelled) {
  VerbProbe probe(spec);
  Traffic traffic;
  std::int64_t at = kStart;
  for (int i = 0; i < 50; ++i) {
    at += random_gap(dice, spec);
    if (dice.chance(percent_cancelled)) {
      cancel_one(dice, probe, traffic, at);
      continue;
    }
    const std::uint64_t cost = random_cost(dice, spec);
    const std::int64_t max_wait = dice.between(0, dice.any_of({1, 3, 10}) * spec.per_us);
    const Decision decision =
        dice.chance(30) ? probe.take(at, cost) : probe.reserve(at, cost, max_wait);
    if (!decision) continue;
    traffic.asks.push_back(
        {at + decision.delay.value_or(sluice::Duration{0}).count(), cost, false});
  }
  return traffic;
}

RC_GTEST_PROP(PromiseOfReservations, RequestsDepartInTheOrderOfArrival, ()) {
  Dice dice(*any_seed());
  const Traffic traffic = random_traffic(dice, roomy_spec(dice, kBuckets), 0);
  for (std::size_t i = 1; i < traffic.asks.size(); ++i) {
    RC_ASSERT(traffic.asks[i].departs >= traffic.asks[i - 1].departs);
  }
}

// The units that depart from `from` to `to`, and those that were given back between the first and
// the last request for them.
struct Departures {
  Wide units = 0;
  Wide given_back = 0;
};

Departures departures(const Traffic& traffic, std::int64_t from, std::int64_t to) {
  Departures result;
  std::size_t first = traffic.asks.size();
  std::size_t last = 0;
  for (std::size_t i = 0; i < traffic.asks.size(); ++i) {
    const Ask& ask = traffic.asks[i];
    if (ask.is_cancelled || ask.departs < from || ask.departs > to) continue;
    result.units += ask.cost;
    first = std::min(first, i);
    last = i;
  }
  for (const Cancel& cancel : traffic.cancels) {
    const bool is_between = cancel.before > first && cancel.before <= last;
    if (is_between && cancel.ask < first) result.given_back += traffic.asks[cancel.ask].cost;
  }
  return result;
}

RC_GTEST_PROP(PromiseOfReservations, DeparturesKeepTheRate, ()) {
  Dice dice(*any_seed());
  const Spec spec = roomy_spec(dice, kBuckets);
  const Traffic traffic = random_traffic(dice, spec, 25);
  const auto per = static_cast<Wide>(spec.per_us);
  for (const Ask& a : traffic.asks) {
    for (const Ask& b : traffic.asks) {
      if (a.is_cancelled || b.is_cancelled || a.departs > b.departs) continue;
      const Departures found = departures(traffic, a.departs, b.departs);
      const Wide most = capacity(spec) + found.given_back;
      const auto distance = static_cast<Wide>(b.departs - a.departs);
      if (at_intervals(spec)) {
        RC_ASSERT(found.units <= most + (distance / per + 1) * spec.limit);
      } else {
        RC_ASSERT(found.units * per <= most * per + (distance + 1) * spec.limit);
      }
    }
  }
}

}  // namespace
}  // namespace sluice_property

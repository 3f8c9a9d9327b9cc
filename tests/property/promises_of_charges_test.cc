#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/property/verb_probe.h"

// The promises of charge, of settling an estimate, and of take_at_most.
namespace sluice_property::promises_of_charges_test {
namespace {

using sluice::Decision;
using sluice::Reason;
using sluice_oracle::Spec;

const std::vector<Algorithm> kBuckets = {Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                         Algorithm::kGcra};
const std::vector<Algorithm> kAll = {Algorithm::kFixedWindow,
                                     Algorithm::kSlidingWindowLog,
                                     Algorithm::kSlidingWindowCounter,
                                     Algorithm::kSlidingWindowHybrid,
                                     Algorithm::kLeakyBucket,
                                     Algorithm::kTokenBucket,
                                     Algorithm::kGcra};

Decision without_delay(Decision decision) {
  decision.delay.reset();
  return decision;
}

RC_GTEST_PROP(PromiseOfCharges, OneThatFitsIsATake, ()) {
  Dice dice(*any_seed());
  const Spec spec = roomy_spec(dice, kAll);
  VerbProbe takes(spec);
  VerbProbe charges(spec);
  std::int64_t at = kStart;
  for (int i = 0; i < 30; ++i) {
    at += random_gap(dice, spec);
    const std::uint64_t cost = random_cost(dice, spec);
    const Decision taken = takes.take(at, cost);
    if (taken) RC_ASSERT(charges.charge(at, cost) == without_delay(taken));
  }
}

RC_GTEST_PROP(PromiseOfCharges, OneIsOverIfGivingAUnitBackFreesNone, ()) {
  Dice dice(*any_seed());
  const Spec spec = roomy_spec(dice, kAll);
  VerbProbe probe(spec);
  std::int64_t at = kStart;
  for (int i = 0; i < 30; ++i) {
    at += random_gap(dice, spec);
    const Decision charged = probe.charge(at, random_cost(dice, spec));
    RC_ASSERT(charged.allowed());
    RC_ASSERT(!charged.retry_after);
    RC_ASSERT(!charged.delay);
    const bool is_over = charged.reason == Reason::kOver;
    RC_ASSERT(is_over || charged.reason == Reason::kOk);
    RC_ASSERT(probe.charge(at, 0) == charged);
    RC_ASSERT(!is_over || charged.remaining == 0);
    RC_ASSERT(is_over == (probe.refund(at, 1).remaining == 0));
  }
}

// Returns the units charged or taken after `from` and not after `to`.
std::uint64_t sum_between(const std::vector<Taken>& taken, std::int64_t from, std::int64_t to) {
  std::uint64_t sum = 0;
  for (const Taken& one : taken) {
    if (one.at > from && one.at <= to) sum += one.cost;
  }
  return sum;
}

// A full log moves its newest entry, which must never admit more.
RC_GTEST_PROP(PromiseOfCharges, ALogWithChargesAdmitsWhatFitsBesideThem, ()) {
  Dice dice(*any_seed());
  Spec spec = roomy_spec(dice, {Algorithm::kSlidingWindowLog});
  if (dice.chance(70)) spec.limit = 1 + dice.below(4);
  VerbProbe probe(spec);
  std::vector<Taken> counted;
  std::int64_t at = kStart;
  for (int i = 0; i < 60; ++i) {
    at += dice.between(0, spec.per_us / dice.any_of({2, 10, 30}));
    const std::uint64_t cost = 1 + dice.below(2);
    if (dice.chance(60)) {
      probe.charge(at, cost);
      counted.push_back({at, cost});
    } else if (probe.take(at, cost)) {
      RC_ASSERT(sum_between(counted, at - spec.per_us, at) + cost <= spec.limit);
      counted.push_back({at, cost});
    }
  }
}

// Excluded: an earlier charge lets windows and intervals that open at the first use end earlier, a
// log that is full delay its units, and a hybrid spread its units over a longer time.
bool is_monotone(const Spec& spec) {
  switch (spec.algorithm) {
    case Algorithm::kFixedWindow: return aligned_to_clock(spec);
    case Algorithm::kTokenBucket: return !at_intervals(spec);
    case Algorithm::kSlidingWindowLog:
    case Algorithm::kSlidingWindowHybrid: return false;
    default: return true;
  }
}

RC_GTEST_PROP(PromiseOfCharges, AnotherOneNeverMakesALimitLooser, ()) {
  Dice dice(*any_seed());
  Spec spec = roomy_spec(dice, kAll);
  while (!is_monotone(spec)) spec = roomy_spec(dice, kAll);
  RC_LOG() << to_json(spec) << std::endl;
  VerbProbe more(spec);
  VerbProbe less(spec);
  std::int64_t at = kStart;
  for (int i = 0; i < 30; ++i) {
    at += random_gap(dice, spec);
    const std::uint64_t cost = random_cost(dice, spec);
    more.charge(at, cost);
    if (dice.chance(70)) less.charge(at, cost);
    const Decision strict = more.peek(at, 0);
    const Decision loose = less.peek(at, 0);
    RC_ASSERT(strict.remaining <= loose.remaining);
    RC_ASSERT(strict.reset_after >= loose.reset_after);
    const std::uint64_t asked = random_cost(dice, spec);
    const bool waits_as_long =  // no wait is less than any
        more.peek(at, asked).retry_after >= less.peek(at, asked).retry_after;
    RC_ASSERT(waits_as_long);
  }
}

// The estimate is counted first and settled later; the twin counts the actual cost at first. Ends
// if the twin is untouched: what is given back then was already drained.
RC_GTEST_PROP(PromiseOfCharges, ASettledEstimateIsTheActualCost, ()) {
  Dice dice(*any_seed());
  const Spec spec = roomy_spec(dice, kBuckets);
  VerbProbe settled(spec);
  VerbProbe exact(spec);
  const std::uint64_t estimate = random_cost(dice, spec);
  const std::uint64_t actual = random_cost(dice, spec);
  std::int64_t at = kStart;
  settled.charge(at, estimate);
  exact.charge(at, actual);
  for (int i = 0; i < 5; ++i) {
    at += random_gap(dice, spec);
    const auto is_untouched = [&](VerbProbe& probe) {
      return probe.peek(at, 0).reset_after.count() == 0;
    };
    if (is_untouched(settled) || is_untouched(exact)) return;
    const std::uint64_t cost = random_cost(dice, spec);
    settled.charge(at, cost);
    exact.charge(at, cost);
  }
  if (actual < estimate) settled.refund(at, estimate - actual);
  if (actual > estimate) settled.charge(at, actual - estimate);
  for (int i = 0; i < 10; ++i) {
    at += random_gap(dice, spec);
    const std::uint64_t cost = random_cost(dice, spec);
    RC_ASSERT(settled.take(at, cost) == exact.take(at, cost));
  }
}

RC_GTEST_PROP(PromiseOfCharges, AnEstimateSettledAtOnceIsTheActualCost, ()) {
  Dice dice(*any_seed());
  const Spec spec = roomy_spec(dice, kAll);
  VerbProbe settled(spec);
  VerbProbe exact(spec);
  std::int64_t at = kStart;
  for (int i = 0; i < 20; ++i) {
    at += random_gap(dice, spec);
    const std::uint64_t estimate = random_cost(dice, spec);
    const std::uint64_t actual = random_cost(dice, spec);
    settled.charge(at, estimate);
    if (actual < estimate) settled.refund(at, estimate - actual);
    if (actual > estimate) settled.charge(at, actual - estimate);
    exact.charge(at, actual);
    RC_ASSERT(settled.peek(at, 1) == exact.peek(at, 1));
  }
}

RC_GTEST_PROP(PromiseOfCharges, TakeAtMostTakesWhatPassesNow, ()) {
  Dice dice(*any_seed());
  const Spec spec = roomy_spec(dice, kAll);
  VerbProbe probe(spec);
  VerbProbe twin(spec);
  std::int64_t at = kStart;
  for (int i = 0; i < 30; ++i) {
    at += random_gap(dice, spec);
    const std::uint64_t cost = random_cost(dice, spec);
    const std::uint64_t most = std::min<std::uint64_t>(cost, twin.peek(at, 0).remaining);
    Decision decision = probe.at_most(at, cost);
    RC_ASSERT(decision.taken == most);
    decision.taken = 0;
    RC_ASSERT(decision == twin.take(at, std::max<std::uint64_t>(most, 1)));
  }
}

}  // namespace
}  // namespace sluice_property::promises_of_charges_test

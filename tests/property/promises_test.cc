#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/property/probe.h"

// The promises of each limit, checked only by what the store admits.
namespace sluice_property::promises_test {
namespace {

using sluice_oracle::Algorithm;
using sluice_oracle::Spec;
__extension__ using Wide = unsigned __int128;

const std::vector<Algorithm> kBuckets = {Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                         Algorithm::kGcra};
const std::vector<Algorithm> kAll = {Algorithm::kFixedWindow,
                                     Algorithm::kSlidingWindowLog,
                                     Algorithm::kSlidingWindowCounter,
                                     Algorithm::kSlidingWindowHybrid,
                                     Algorithm::kLeakyBucket,
                                     Algorithm::kTokenBucket,
                                     Algorithm::kGcra};

// Returns the units taken after `from` and not after `to`.
std::uint64_t sum_between(const std::vector<Taken>& taken, std::int64_t from, std::int64_t to) {
  std::uint64_t sum = 0;
  for (const Taken& one : taken) {
    if (one.at > from && one.at <= to) sum += one.cost;
  }
  return sum;
}

RC_GTEST_PROP(Promise, ABucketAdmitsInAnyIntervalAtMostItsBurstAndWhatDrains, ()) {
  Spec spec = *any_spec(kBuckets);
  spec.refill.reset();
  RC_PRE(is_valid(spec));
  Probe probe(spec);
  const std::vector<Taken> taken = admitted(probe, *any_ops(spec));
  const auto per = static_cast<Wide>(spec.per_us);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    Wide sum = 0;
    for (std::size_t j = i; j < taken.size(); ++j) {
      sum += taken[j].cost;
      const auto length = static_cast<Wide>(taken[j].at - taken[i].at);
      RC_ASSERT(sum * per <= capacity(spec) * per + length * spec.limit);
    }
  }
}

RC_GTEST_PROP(Promise, ABucketOfIntervalsAdmitsItsBurstAndTheRefillsInBetween, ()) {
  Spec spec = *any_spec({Algorithm::kTokenBucket});
  spec.refill = sluice_oracle::Refill::kInterval;
  RC_PRE(is_valid(spec));
  Probe probe(spec);
  const std::vector<Taken> taken = admitted(probe, *any_ops(spec));
  for (std::size_t i = 0; i < taken.size(); ++i) {
    Wide sum = 0;
    for (std::size_t j = i; j < taken.size(); ++j) {
      sum += taken[j].cost;
      const Wide since = taken[j].at - taken[i].at;
      RC_ASSERT(sum <= capacity(spec) + (since / spec.per_us + 1) * spec.limit);
    }
  }
}

RC_GTEST_PROP(Promise, ALogAdmitsAtMostItsLimitInAnyWindow, ()) {
  const Spec spec = *any_spec({Algorithm::kSlidingWindowLog});
  Probe probe(spec);
  const std::vector<Taken> taken = admitted(probe, *any_ops(spec));
  for (const Taken& last : taken) {
    RC_ASSERT(sum_between(taken, last.at - spec.per_us, last.at) <= spec.limit);
  }
}

std::uint64_t sum_of_window(const std::vector<Taken>& taken,
                            const sluice_oracle::Calendar& calendar, std::int64_t at) {
  const std::int64_t start = window_start(calendar, at);
  std::uint64_t sum = 0;
  for (const Taken& one : taken) {
    if (window_start(calendar, one.at) == start) sum += one.cost;
  }
  return sum;
}

RC_GTEST_PROP(Promise, AFixedWindowAdmitsAtMostItsLimitInEachWindow, ()) {
  const Spec spec = *any_spec({Algorithm::kFixedWindow});
  const bool by_clock = spec.align == sluice_oracle::Align::kClock;
  Probe probe(spec);
  const std::vector<Taken> taken = admitted(probe, *any_ops(spec));
  std::int64_t opened = -spec.per_us;
  for (const Taken& one : taken) {
    if (spec.calendar) {
      RC_ASSERT(sum_of_window(taken, *spec.calendar, one.at) <= spec.limit);
      continue;
    }
    if (by_clock) {
      opened = one.at / spec.per_us * spec.per_us;
    } else if (one.at - opened >= spec.per_us) {
      opened = one.at;
    }
    RC_ASSERT(sum_between(taken, opened - 1, opened + spec.per_us - 1) <= spec.limit);
  }
}

// Returns the index of the slice that contains `at`: floor(at * n / P), which can exceed 64 bits.
std::int64_t slice_of(const Spec& spec, std::int64_t at) {
  return static_cast<std::int64_t>(static_cast<Wide>(at) * slices(spec) /
                                   static_cast<Wide>(spec.per_us));
}

std::uint64_t sum_of_slices(const Spec& spec, const std::vector<Taken>& taken, std::int64_t first,
                            std::int64_t last) {
  std::uint64_t sum = 0;
  for (const Taken& one : taken) {
    const std::int64_t slice = slice_of(spec, one.at);
    if (slice >= first && slice <= last) sum += one.cost;
  }
  return sum;
}

RC_GTEST_PROP(Promise, ASlidingCounterAdmitsAtMostItsLimitInAnyWholeSlicesOfOnePeriod, ()) {
  const Spec spec = *any_spec({Algorithm::kSlidingWindowCounter});
  Probe probe(spec);
  const std::vector<Taken> taken = admitted(probe, *any_ops(spec));
  const auto n = static_cast<std::int64_t>(slices(spec));
  const bool whole = spec.weighting == sluice_oracle::Weighting::kNone;
  for (const Taken& last : taken) {
    const std::int64_t slice = slice_of(spec, last.at);
    RC_ASSERT(sum_of_slices(spec, taken, slice - n + 1, slice) <= spec.limit);
    const std::uint64_t window = sum_between(taken, last.at - spec.per_us, last.at);
    const std::uint64_t oldest = sum_of_slices(spec, taken, slice - n, slice - n);
    RC_ASSERT(window <= spec.limit + (whole ? 0 : oldest));
  }
}

RC_GTEST_PROP(Promise, AHybridErrsByAtMostOneSlice, ()) {
  const Spec spec = *any_spec({Algorithm::kSlidingWindowHybrid});
  Probe probe(spec);
  std::vector<Taken> taken;
  std::int64_t at = kStart;
  for (const Op& op : *any_ops(spec)) {
    at += op.gap;
    const std::int64_t opens = at - spec.per_us;
    const std::uint64_t exact = sum_between(taken, opens, at);
    const std::int64_t cut = slice_of(spec, opens);
    const std::uint64_t error = sum_of_slices(spec, taken, cut, cut);
    if (probe.take(at, op.cost)) {
      RC_ASSERT(exact + op.cost <= spec.limit + error);
      taken.push_back({at, op.cost});
    } else {
      RC_ASSERT(exact + op.cost + error > spec.limit);
    }
  }
}

RC_GTEST_PROP(Promise, RetryAfterIsTheFirstTickAtWhichTheCostIsAdmitted, ()) {
  const Spec spec = *any_spec(kAll);
  Probe probe(spec);
  std::int64_t at = kStart;
  for (const Op& op : *any_ops(spec)) {
    at += op.gap;
    const sluice::Decision decision = probe.take(at, op.cost);
    if (op.cost > capacity(spec)) {
      RC_ASSERT(decision.reason == sluice::Reason::kNever);
      RC_ASSERT(!decision.retry_after);
      continue;
    }
    RC_ASSERT(decision.retry_after.has_value() == !decision.allowed());
    if (decision) continue;
    RC_ASSERT(decision.reason == sluice::Reason::kLimited);
    const std::int64_t wait = decision.retry_after->count();
    RC_ASSERT(wait >= 1);
    RC_ASSERT(!probe.peek(at + wait - 1, op.cost));
    RC_ASSERT(probe.peek(at + wait, op.cost).allowed());
  }
}

RC_GTEST_PROP(Promise, ResetAfterIsTheFirstTickAtWhichAllIsFree, ()) {
  const Spec spec = *any_spec(kAll);
  Probe probe(spec);
  std::int64_t at = kStart;
  for (const Op& op : *any_ops(spec)) {
    at += op.gap;
    const std::int64_t wait = probe.take(at, op.cost).reset_after.count();
    // In the order of time: the store may forget the counter at the later instant.
    if (wait > 0) {
      RC_ASSERT(probe.peek(at + wait - 1, 0).reset_after.count() == 1);
    }
    const sluice::Decision then = probe.peek(at + wait, 0);
    RC_ASSERT(then.remaining == capacity(spec));
    RC_ASSERT(then.reset_after.count() == 0);
  }
}

RC_GTEST_PROP(Promise, RemainingPassesAndOneMoreDoesNot, ()) {
  const Spec spec = *any_spec(kAll);
  Probe probe(spec);
  std::int64_t at = kStart;
  for (const Op& op : *any_ops(spec)) {
    at += op.gap;
    const std::uint64_t remaining = probe.take(at, op.cost).remaining;
    RC_ASSERT(remaining <= capacity(spec));
    RC_ASSERT(probe.peek(at, remaining).allowed());
    RC_ASSERT(!probe.peek(at, remaining + 1));
  }
}

RC_GTEST_PROP(Promise, DeniedAndPeekedChangeNothing, ()) {
  const Spec spec = *any_spec(kAll);
  Probe quiet(spec);
  Probe noisy(spec);
  std::int64_t at = kStart;
  for (const Op& op : *any_ops(spec)) {
    at += op.gap;
    const Op noise = *any_op(spec);
    if (!noisy.peek(at, noise.cost)) RC_ASSERT(!noisy.take(at, noise.cost));
    // Also peeks later, but not where the counter may already be forgotten.
    const std::int64_t live = noisy.peek(at, 0).reset_after.count();
    const std::int64_t later = at + std::min(noise.gap, std::max<std::int64_t>(live - 1, 0));
    if (!noisy.peek(later, noise.cost)) RC_ASSERT(!noisy.take(later, noise.cost));
    RC_ASSERT(noisy.take(at, op.cost) == quiet.take(at, op.cost));
  }
}

RC_GTEST_PROP(Promise, ARefundGivesBackWhatWasTakenAndNoMore, ()) {
  const Spec spec = *any_spec(kAll);
  Probe probe(spec);
  std::int64_t at = kStart;
  for (const Op& op : *any_ops(spec)) {
    at += op.gap;
    const std::uint64_t before = probe.peek(at, 0).remaining;
    const bool taken = probe.take(at, op.cost).allowed();
    const std::uint64_t now = probe.peek(at, 0).remaining;
    if (op.cost % 2 == 0) continue;  // so that something stays taken
    const std::uint64_t after = probe.refund(at, op.cost).remaining;
    RC_ASSERT(after <= capacity(spec));
    RC_ASSERT(after <= now + op.cost);
    // A hybrid may have summarized its newest slice since; its rounding only makes it stricter.
    if (taken && spec.algorithm != Algorithm::kSlidingWindowHybrid) RC_ASSERT(after == before);
  }
  // Slices may hold more than their limit, so one refund of the largest cost may not be enough.
  probe.refund(at, sluice::kMaxUnits);
  const sluice::Decision full = probe.refund(at, sluice::kMaxUnits);
  RC_ASSERT(full.remaining == capacity(spec));
  RC_ASSERT(full.reset_after.count() == 0);
}

}  // namespace
}  // namespace sluice_property::promises_test

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sluice/memory_store.h"
#include "tests/property/history.h"

// Histories on which a store and the oracle once differed, or easily could, each with its cause.
namespace sluice_property::counterexamples_test {
namespace {

using sluice_oracle::Algorithm;
using sluice_oracle::Charge;
using sluice_oracle::Spec;
using sluice_oracle::Verb;

constexpr std::int64_t kMillisecond = 1000;
constexpr std::int64_t kSecond = 1000 * kMillisecond;
constexpr std::int64_t kDay = 86400 * kSecond;
constexpr std::int64_t kGrid = std::int64_t{1} << 20;  // counters are forgotten at multiples of it
constexpr std::int64_t kEndOfTime = std::int64_t{1} << 52;

std::unique_ptr<sluice::Store> make_store() {
  return std::make_unique<sluice::MemoryStore>(
      sluice::MemoryStoreOptions{.max_keys = 64, .shards = 1});
}

// Returns "" or the difference between the store and the oracle.
std::string disagreement(const History& history) {
  const auto parts = first_disagreement(history, oracle_answers(history), make_store);
  return parts ? "step " + std::to_string(parts->step) + "\n" + parts->what : "";
}

Spec limit_of_numbers(Algorithm algorithm, std::uint64_t limit, std::int64_t per_us) {
  return Spec{.algorithm = algorithm, .limit = limit, .per_us = per_us};
}

Step step(Verb verb, const Spec& spec, std::uint64_t cost, std::int64_t at_us) {
  return {verb, {{"key", spec, cost}}, at_us};
}

// The store read the state with the new numbers even if the state had been untouched by its own for
// long, so the answer depended on whether the store had already dropped it.
TEST(Counterexample, ACounterForgottenByItsOwnNumbersIsFreshUnderOthers) {
  const Spec brief = limit_of_numbers(Algorithm::kSlidingWindowLog, 2, kSecond);
  const Spec lasting = limit_of_numbers(Algorithm::kSlidingWindowLog, 2, kDay);
  for (const std::int64_t at : {kSecond - 1, kSecond, kGrid - 1, kGrid, 2 * kGrid}) {
    EXPECT_EQ(disagreement({step(Verb::kTake, brief, 2, 0), step(Verb::kPeek, lasting, 1, at),
                            step(Verb::kTake, lasting, 1, at)}),
              "");
  }
}

// Checks whether a fully refunded counter still holds the clock at its last change.
TEST(Counterexample, ARefundedCounterHoldsItsLastChangeUntilItIsForgotten) {
  for (const Algorithm algorithm : {Algorithm::kSlidingWindowLog, Algorithm::kGcra}) {
    const Spec spec = limit_of_numbers(algorithm, 10, kSecond);
    EXPECT_EQ(
        disagreement(
            {step(Verb::kTake, spec, 1, 5 * kSecond), step(Verb::kRefund, spec, 1, 5 * kSecond),
             step(Verb::kTake, spec, 3, kSecond), step(Verb::kTake, spec, 8, kSecond + 1)}),
        "");
  }
}

// The consumed units were rounded and kept, but the wait was computed from the old numbers.
TEST(Counterexample, AfterAChangeOfNumbersWaitsEndWhenTheCounterIsForgotten) {
  const Spec fast = limit_of_numbers(Algorithm::kGcra, 4294967295u, 366 * kDay);
  const Spec slow = limit_of_numbers(Algorithm::kGcra, 3, 366 * kDay);
  EXPECT_EQ(disagreement({step(Verb::kTake, fast, 3, 0), step(Verb::kTake, slow, 1, 0)}), "");
}

// More is consumed than the limit regains within the longest wait. With intervals, only whole
// intervals count.
TEST(Counterexample, WhatIsKeptIsAtMostWhatWholeIntervalsGiveBack) {
  Spec before = limit_of_numbers(Algorithm::kTokenBucket, 6, 6448189);
  before.burst = 2851877847;
  Spec after = limit_of_numbers(Algorithm::kTokenBucket, 999983, 21273818466822);
  after.burst = 15;
  after.refill = sluice_oracle::Refill::kInterval;
  EXPECT_EQ(disagreement(
                {step(Verb::kTake, before, 2673635482, kDay), step(Verb::kRefund, after, 1, kDay)}),
            "");
}

// A refund stored the state as converted even if, with the new numbers, nothing was consumed.
TEST(Counterexample, ARefundThatGivesNothingBackChangesNothing) {
  Spec slow = limit_of_numbers(Algorithm::kSlidingWindowCounter, 12, 10 * kMillisecond);
  slow.slices = 5;
  Spec fast = slow;
  fast.per_us = 1009;
  EXPECT_EQ(disagreement({step(Verb::kTake, slow, 9, 0), step(Verb::kRefund, slow, 1, 3000),
                          step(Verb::kRefund, fast, 1, 4353), step(Verb::kTake, slow, 5, 4353)}),
            "");
}

// The units that count at the change are carried over by the new weighting, not by the old one.
// Random histories seldom change period and weighting at once.
TEST(Counterexample, AChangeOfPeriodAndWeightingCarriesOverByTheNewWeighting) {
  using sluice_oracle::Weighting;
  Spec before = limit_of_numbers(Algorithm::kSlidingWindowCounter, 50, 10 * kSecond);
  before.slices = 2;
  for (const Weighting from : {Weighting::kLinear, Weighting::kNone}) {
    for (const Weighting to : {Weighting::kLinear, Weighting::kNone}) {
      before.weighting = from;
      Spec after = before;
      after.per_us = 20 * kSecond;
      after.weighting = to;
      EXPECT_EQ(disagreement({step(Verb::kTake, before, 8, kSecond),
                              step(Verb::kTake, before, 3, 13 * kSecond),
                              step(Verb::kPeek, after, 0, 13 * kSecond),
                              step(Verb::kTake, after, 1, 14 * kSecond)}),
                "");
    }
  }
}

// A ban neither reads nor writes what was counted before.
TEST(Counterexample, ARefundUnderABanGivesNothingBack) {
  for (const Algorithm algorithm :
       {Algorithm::kFixedWindow, Algorithm::kSlidingWindowLog, Algorithm::kSlidingWindowCounter,
        Algorithm::kSlidingWindowHybrid, Algorithm::kLeakyBucket, Algorithm::kTokenBucket,
        Algorithm::kGcra}) {
    const Spec spec = limit_of_numbers(algorithm, 12, kDay);
    const Spec ban = limit_of_numbers(algorithm, 0, kDay);
    EXPECT_EQ(disagreement({step(Verb::kTake, spec, 1, 0), step(Verb::kRefund, ban, 1, 0),
                            step(Verb::kTake, spec, 1, 0)}),
              "");
  }
}

// Multiples of 2^20 µs are stored in 32 bits with two reserved values. A counter that would be
// forgotten at one of the last two multiples before 2^52 is therefore never forgotten.
TEST(Counterexample, CountersAreForgottenUpToTwoMultiplesBeforeTheEndOfTime) {
  const Spec brief = limit_of_numbers(Algorithm::kLeakyBucket, 6, 4 * kMillisecond);
  const Spec lasting = limit_of_numbers(Algorithm::kLeakyBucket, 6, 3600 * kSecond);
  for (std::int64_t grids = 1; grids <= 4; ++grids) {
    const std::int64_t forgotten = kEndOfTime - grids * kGrid;
    EXPECT_EQ(disagreement({step(Verb::kTake, brief, 1, forgotten - 2 * kMillisecond),
                            step(Verb::kPeek, lasting, 1, forgotten - 1),
                            step(Verb::kPeek, lasting, 1, forgotten)}),
              "")
        << grids;
  }
}

// A window read with another alignment ends when it is forgotten by the alignment it was written
// with. The checksum of the state did not distinguish the two.
TEST(Counterexample, AWindowUnderAnotherAlignmentEndsWhereItIsForgotten) {
  const Spec first = limit_of_numbers(Algorithm::kFixedWindow, 10, kSecond);
  Spec clock = first;
  clock.align = sluice_oracle::Align::kClock;
  EXPECT_EQ(disagreement({step(Verb::kTake, first, 6, 70903236922000),
                          step(Verb::kTake, first, 2, 70903237003000),
                          step(Verb::kTake, clock, 3, 70903237003000)}),
            "");
}

TEST(Counterexample, CostsBeyondAllBoundsAreNeverAndDoNotWrapAround) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  for (const Algorithm algorithm : {Algorithm::kFixedWindow, Algorithm::kTokenBucket}) {
    const Spec spec = limit_of_numbers(algorithm, 4294967295u, kDay);
    const Charge huge{"key", spec, kHuge};
    const Charge two{"key", spec, 2};
    EXPECT_EQ(disagreement({{Verb::kTake, {huge}, 0},
                            {Verb::kTake, {huge, two}, 0},
                            {Verb::kTake, {huge, huge, two}, 0},
                            {Verb::kTake, {two}, 0},
                            {Verb::kRefund, {huge, two}, 0},
                            {Verb::kTake, {two}, 0}}),
              "");
  }
}

// The counts of two slices add up to more than one slice can hold.
TEST(Counterexample, AChangeOfGridCarriesAtMostWhatTheLargestLimitHolds) {
  Spec spec = limit_of_numbers(Algorithm::kSlidingWindowCounter, 4294967295u, 365 * kDay);
  Spec other = limit_of_numbers(Algorithm::kSlidingWindowCounter, 4294967294u, 366 * kDay - 1);
  other.slices = 7;
  other.weighting = sluice_oracle::Weighting::kNone;
  EXPECT_EQ(disagreement({step(Verb::kTake, spec, 4294967295u, 0),
                          step(Verb::kTake, spec, 1, 32993455 * kSecond),
                          step(Verb::kRefund, other, 2, 32993455 * kSecond)}),
            "");
}

TEST(Counterexample, RequestsOfNoChargesOrTooManyOrOutsideOfTimeAreInvalid) {
  const Spec spec = limit_of_numbers(Algorithm::kGcra, 100, kSecond);
  const Charge one{"key", spec, 1};
  Spec other = spec;
  other.limit = 99;
  for (const Verb verb : {Verb::kTake, Verb::kPeek, Verb::kRefund, Verb::kReset}) {
    EXPECT_EQ(disagreement({{Verb::kTake, {one}, 0},
                            {verb, {}, 0},
                            {verb, std::vector<Charge>(65, one), 0},
                            {verb, {one, {"key", other, 1}}, 0},
                            {verb, {one}, -1},
                            {verb, {one}, kEndOfTime},
                            {Verb::kPeek, {one}, 0},
                            {verb, std::vector<Charge>(64, one), kEndOfTime - 1}}),
              "");
  }
}

}  // namespace
}  // namespace sluice_property::counterexamples_test

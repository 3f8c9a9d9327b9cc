#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "sluice/memory_store.h"
#include "tests/property/history.h"

// Histories of charge, take_at_most and reserve on which a store and the oracle once differed, or
// easily could, each with its cause.
namespace sluice_property {
namespace {

using sluice_oracle::Algorithm;
using sluice_oracle::Spec;
using sluice_oracle::Verb;

constexpr std::int64_t kSecond = 1000000;
constexpr std::int64_t kDay = 86400 * kSecond;
constexpr std::uint64_t kMaxUnits = 4294967295u;
constexpr Algorithm kAll[] = {Algorithm::kFixedWindow,
                              Algorithm::kSlidingWindowLog,
                              Algorithm::kSlidingWindowCounter,
                              Algorithm::kSlidingWindowHybrid,
                              Algorithm::kLeakyBucket,
                              Algorithm::kTokenBucket,
                              Algorithm::kGcra};

Spec limit_of_numbers(Algorithm algorithm, std::uint64_t limit, std::int64_t per_us) {
  return Spec{.algorithm = algorithm, .limit = limit, .per_us = per_us};
}

Step step(Verb verb, const Spec& spec, std::uint64_t cost, std::int64_t at) {
  return {verb, {{"key", spec, cost}}, at};
}

// Returns "" or the difference between the store and the oracle.
std::string disagreement(const History& history) {
  const auto make_store = [] {
    return std::make_unique<sluice::MemoryStore>(
        sluice::MemoryStoreOptions{.max_keys = 64, .shards = 1});
  };
  const auto parts = first_disagreement(history, oracle_answers(history), make_store);
  return parts ? "step " + std::to_string(parts->step) + "\n" + parts->what : "";
}

// The counter still had units of another limit, and they were compared with a limit of 0.
TEST(CounterexampleOfVerbs, AChargeOfNothingUnderABanIsNotOver) {
  for (const Algorithm algorithm : kAll) {
    const Spec spec = limit_of_numbers(algorithm, 5, kDay);
    const Spec ban = limit_of_numbers(algorithm, 0, kDay);
    EXPECT_EQ(disagreement({step(Verb::kTake, spec, 1, 0), step(Verb::kCharge, ban, 0, 0),
                            step(Verb::kCharge, ban, 1, 0), step(Verb::kPeek, spec, 1, 0)}),
              "");
  }
}

// Whole units and a fraction were more than the most units, and drained for over 2^52 us. Waits
// ended there, although the same request was still denied.
TEST(CounterexampleOfVerbs, UnitsAndAFractionAreAtMostTheMostUnits) {
  const Spec fast = limit_of_numbers(Algorithm::kGcra, kMaxUnits - 1, 7 * kDay);
  const Spec slow = limit_of_numbers(Algorithm::kGcra, 1, 14 * kDay);  // 3723 units in 2^52 us
  Step reserve = step(Verb::kReserve, slow, 1, 1);
  reserve.max_wait_us = 5 * kDay;
  EXPECT_EQ(disagreement({step(Verb::kCharge, fast, 3740, 0), step(Verb::kCharge, slow, 1, 1),
                          step(Verb::kPeek, slow, 1, 1), reserve}),
            "");
}

// With all units that it can store a fixed window was written again by a charge, and its time went
// on. The other windows were not.
TEST(CounterexampleOfVerbs, AChargeThatCanAddNothingChangesNothing) {
  for (const Algorithm algorithm : kAll) {
    const Spec spec = limit_of_numbers(algorithm, 12, kDay);
    EXPECT_EQ(disagreement({step(Verb::kCharge, spec, kMaxUnits, 0),
                            step(Verb::kCharge, spec, 1, kDay - kSecond),
                            step(Verb::kTake, spec, 1, kSecond)}),
              "");
  }
}

// A reservation of nothing waited until the counter had room for more.
TEST(CounterexampleOfVerbs, AReservationOfNothingFitsInAFullCounter) {
  Spec spec = limit_of_numbers(Algorithm::kTokenBucket, 2375227420, 7000);
  spec.burst = kMaxUnits - 1;
  EXPECT_EQ(disagreement({step(Verb::kCharge, spec, kMaxUnits, 0), step(Verb::kReserve, spec, 0, 0),
                          step(Verb::kReserve, spec, 1, 0)}),
            "");
}

// Charges at many instants: the log is full at 2·L entries, and its newest moves. Then takes at
// the ticks at which entries expire.
TEST(CounterexampleOfVerbs, AFullLogMovesItsNewestEntry) {
  for (const Algorithm algorithm :
       {Algorithm::kSlidingWindowLog, Algorithm::kSlidingWindowHybrid}) {
    for (const std::uint64_t limit : {1, 2, 3}) {
      Spec spec = limit_of_numbers(algorithm, limit, kSecond);
      if (algorithm == Algorithm::kSlidingWindowHybrid) spec.slices = 3;
      History history;
      for (std::int64_t at = 0; at < 8; ++at) {
        history.push_back(step(Verb::kCharge, spec, 1, at * 10));
        history.push_back(step(Verb::kPeek, spec, 1, at * 10 + 5));
      }
      history.push_back(step(Verb::kCharge, spec, 2, 70));
      history.push_back(step(Verb::kRefund, spec, 1, 80));
      history.push_back(step(Verb::kCharge, spec, 1, 700000));
      for (std::int64_t at = 0; at < 12; ++at) {
        history.push_back(step(Verb::kTakeAtMost, spec, 1, kSecond + at * 10));
      }
      EXPECT_EQ(disagreement(history), "");
    }
  }
}

}  // namespace
}  // namespace sluice_property

#include "sluice/deny_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "tests/property/generate.h"
#include "tests/property/history.h"
#include "tests/support/random_cases.h"

namespace sluice_property {
namespace {

using sluice::Decision;
using sluice::Instant;
using sluice::Reason;

// A memory store whose clock returns the instant of each step, and a second clock that advances
// with the first and never goes back.
struct Clocked {
  Answered apply(const Step& step) {
    const Instant at{sluice::Duration{step.at_us}};
    steady.advance(std::max(at - clock.now(), sluice::Duration{0}));
    clock.set(at);
    const auto charges = charges_of(step);
    Answered answered;
    answered.each.resize(charges.size());
    answered.request = front->apply(verb_of(step.verb), charges, {}, answered.each);
    return answered;
  }

  sluice::testing::ManualClock clock;
  sluice::testing::ManualClock steady{Instant{}};
  sluice::MemoryStore memory{{.max_keys = 1024, .shards = 1}, clock};
  sluice::Store* front = &memory;
};

void expect_a_hit_to_be_true(const Step& step, const Answered& hit, const Answered& truth) {
  EXPECT_FALSE(truth.request.allowed()) << to_json(step);
  EXPECT_EQ(truth.request.reason, Reason::kLimited) << to_json(step);
  for (std::size_t i = 0; i < hit.each.size(); ++i) {
    const Decision& told = hit.each[i];
    EXPECT_EQ(told.reason, Reason::kDenyCache) << to_json(step);
    EXPECT_EQ(told.capacity, truth.each[i].capacity) << to_json(step);
    if (told.allowed()) continue;  // the store was not asked
    ASSERT_TRUE(told.retry_after && truth.each[i].retry_after) << to_json(step);
    EXPECT_GT(*told.retry_after, sluice::Duration{0}) << to_json(step);
    EXPECT_LE(*told.retry_after, *truth.each[i].retry_after) << to_json(step);
  }
}

// Returns the number of steps that the cache answered; every answer must equal the store's.
int hits_of(const History& history, sluice::Duration longest) {
  Clocked plain;
  Clocked cached;
  sluice::DenyCache cache({.max_keys = 21, .longest = longest}, cached.steady);
  sluice::DenyCacheStore store(cached.memory, cache);
  cached.front = &store;
  int hits = 0;
  for (const Step& step : history) {
    if (step.at_us < 0 || step.at_us > kLastTick) continue;  // outside the range of clocks
    const Answered truth = plain.apply(step);
    const Answered answered = cached.apply(step);
    EXPECT_EQ(answered.request.allowed(), truth.request.allowed()) << to_json(step);
    if (answered.request.reason == Reason::kDenyCache) {
      ++hits;
      expect_a_hit_to_be_true(step, answered, truth);
    } else {
      EXPECT_EQ(answered.request, truth.request) << to_json(step);
      EXPECT_EQ(answered.each, truth.each) << to_json(step);
    }
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << to_json_lines(history);
      break;
    }
  }
  return hits;
}

TEST(DenyCache, EndsEveryStepOfAHistoryAsTheStoreWouldWithoutIt) {
  const std::uint64_t histories = sluice::testing::random_cases(400, 3000);
  int hits = 0;
  for (std::uint64_t seed = 0; seed < histories && !HasFailure(); ++seed) {
    Dice dice(seed);
    const History history = random_history(dice, 60).steps;
    const auto longest = dice.chance(50) ? sluice::kMaxWait : sluice::Duration{1'000'000};
    hits += hits_of(history, longest);
  }
  EXPECT_GT(hits, static_cast<int>(histories / 3))
      << "histories in which the cache has something to say";
  RecordProperty("hits", hits);
}

}  // namespace
}  // namespace sluice_property

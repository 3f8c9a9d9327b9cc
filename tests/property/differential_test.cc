#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <memory>

#include "sluice/memory_store.h"
#include "tests/property/arbitrary.h"
#include "tests/property/generate.h"
#include "tests/property/history.h"

namespace sluice_property {
namespace {

constexpr int kHistories = 3;  // per case
constexpr std::size_t kSteps = 60;

std::unique_ptr<sluice::Store> make_memory_store() {
  return std::make_unique<sluice::MemoryStore>(
      sluice::MemoryStoreOptions{.max_keys = 1024, .shards = 1});
}

void compare_histories(std::uint64_t seed, Verbs verbs) {
  Dice dice(seed);
  for (int i = 0; i < kHistories; ++i) {
    const ToldHistory told = random_history(dice, kSteps, verbs);
    if (!first_disagreement(told.steps, told.answers, make_memory_store)) continue;

    const History history = minimal(told.steps, make_memory_store);
    const auto parts = first_disagreement(history, oracle_answers(history), make_memory_store);
    RC_FAIL("after\n" + to_json_lines(history) + "the last step differs:\n" + parts->what);
  }
}

RC_GTEST_PROP(Differential, MemoryStoreAnswersEveryStepAsTheOracle, ()) {
  compare_histories(*any_seed(), Verbs::kBasic);
}

RC_GTEST_PROP(Differential, MemoryStoreAnswersAllVerbsAsTheOracle, ()) {
  compare_histories(*any_seed(), Verbs::kAll);
}

RC_GTEST_PROP(Differential, LimitsAreMadeOrRefusedAsTheOracleSays, ()) {
  Dice dice(*any_seed());
  sluice_oracle::Spec spec = random_spec(dice, random_algorithm(dice));
  RC_ASSERT(sluice::Limit::make(limit_spec_of(spec)).has_value());
  const sluice_oracle::Spec other = random_spec(dice, random_algorithm(dice));
  if (dice.chance(30)) spec.limit = dice.magnitude(std::uint64_t{1} << 33);
  if (dice.chance(30)) spec.per_us = static_cast<std::int64_t>(dice.magnitude(1ull << 45));
  if (dice.chance(30)) spec.burst = dice.magnitude(std::uint64_t{1} << 33);
  if (dice.chance(20)) spec.slices = dice.below(1003);
  if (dice.chance(10)) spec.algorithm = other.algorithm;
  RC_LOG() << to_json(spec) << std::endl;
  const sluice::Expected<sluice::Limit> limit = sluice::Limit::make(limit_spec_of(spec));
  RC_ASSERT(limit.has_value() == is_valid(spec));
  if (limit) {
    RC_ASSERT(limit->capacity() == capacity(spec));
  } else {
    RC_ASSERT(!limit.error().empty());
  }
}

}  // namespace
}  // namespace sluice_property

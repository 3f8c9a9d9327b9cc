#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "tests/property/arbitrary.h"
#include "tests/property/history.h"
#include "tests/property/probe.h"

// The promises of requests with many charges and of concurrent requests.
namespace sluice_property::promises_of_requests_test {
namespace {

using sluice_oracle::Algorithm;
using sluice_oracle::Charge;
using sluice_oracle::Spec;
using sluice_oracle::Verb;

constexpr std::array kAll = {Algorithm::kFixedWindow,
                             Algorithm::kSlidingWindowLog,
                             Algorithm::kSlidingWindowCounter,
                             Algorithm::kSlidingWindowHybrid,
                             Algorithm::kLeakyBucket,
                             Algorithm::kTokenBucket,
                             Algorithm::kGcra};

std::unique_ptr<sluice::Store> make_store() {
  return std::make_unique<sluice::MemoryStore>(
      sluice::MemoryStoreOptions{.max_keys = 256, .shards = 4});
}

// Random charges on different counters, with costs that often fit.
std::vector<Charge> random_charges(Dice& dice, const std::vector<Spec>& specs) {
  std::vector<Charge> charges;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::uint64_t most = 1 + capacity(specs[i]) / dice.any_of<std::uint64_t>({1, 4, 16});
    charges.push_back({"key " + std::to_string(i), specs[i], dice.below(most + 1)});
  }
  return charges;
}

std::vector<Spec> random_specs(Dice& dice) {
  std::vector<Spec> specs(2 + dice.below(6));
  for (Spec& spec : specs) {
    do {
      spec = random_spec(dice, random_algorithm(dice));
    } while (spec.limit == 0);
  }
  return specs;
}

// A second store takes the charges of admitted requests one by one, and nothing of denied requests.
RC_GTEST_PROP(PromiseOfRequests, AllChargesAreTakenOrNone, ()) {
  Dice dice(*any_seed());
  const std::vector<Spec> specs = random_specs(dice);
  const auto store = make_store();
  const auto twin = make_store();
  std::int64_t at = kStart;
  for (int i = 0; i < 30; ++i) {
    at += dice.between(0, specs[dice.below(specs.size())].per_us / 4);
    const std::vector<Charge> charges = random_charges(dice, specs);
    const Answered together = apply(*store, {Verb::kTake, charges, at});
    bool each_fits = true;
    for (std::size_t j = 0; j < charges.size(); ++j) {
      const bool fits = apply(*twin, {Verb::kPeek, {charges[j]}, at}).request.allowed();
      RC_ASSERT(together.each[j].allowed() == fits);
      each_fits = each_fits && fits;
    }
    RC_ASSERT(together.request.allowed() == each_fits);
    for (std::size_t j = 0; j < charges.size(); ++j) {
      const Verb verb = each_fits ? Verb::kTake : Verb::kPeek;
      Charge looked = charges[j];
      if (!each_fits) looked.cost = 0;
      const Answered alone = apply(*twin, {verb, {looked}, at});
      RC_ASSERT(together.each[j].remaining == alone.request.remaining);
      RC_ASSERT(together.each[j].reset_after == alone.request.reset_after);
    }
  }
}

RC_GTEST_PROP(PromiseOfRequests, TheLongestWaitIsExact, ()) {
  Dice dice(*any_seed());
  const std::vector<Spec> specs = random_specs(dice);
  const auto store = make_store();
  std::int64_t at = kStart;
  for (int i = 0; i < 30; ++i) {
    at += dice.between(0, specs[dice.below(specs.size())].per_us / 4);
    const std::vector<Charge> charges = random_charges(dice, specs);
    const Answered answered = apply(*store, {Verb::kTake, charges, at});
    bool never = false;
    for (const Charge& charge : charges) never = never || charge.cost > capacity(charge.spec);
    RC_ASSERT((answered.request.reason == sluice::Reason::kNever) == never);
    RC_ASSERT(answered.request.retry_after.has_value() == (!answered.request && !never));
    if (!answered.request.retry_after) continue;
    const std::int64_t then = at + answered.request.retry_after->count();
    RC_ASSERT(!apply(*store, {Verb::kPeek, charges, then - 1}).request);
    RC_ASSERT(apply(*store, {Verb::kPeek, charges, then}).request.allowed());
  }
}

// Threads that each take `requests` times from the counters "a" and "b" at one instant, every
// second thread in the opposite order. Returns how many were admitted.
std::uint64_t admitted_by_threads(sluice::Limiter& limiter, const sluice::Limit& limit,
                                  sluice::Instant now, std::uint64_t requests) {
  std::atomic<std::uint64_t> admitted{0};
  const auto take = [&](const char* first, const char* second) {
    const std::array charges = {sluice::Charge{first, limit, 1}, sluice::Charge{second, limit, 1}};
    for (std::uint64_t i = 0; i < requests; ++i)
      admitted += limiter.check(charges, {}, now) ? 1 : 0;
  };
  std::vector<std::thread> threads;
  for (int pair = 0; pair < 2; ++pair) {
    threads.emplace_back(take, "a", "b");
    threads.emplace_back(take, "b", "a");
  }
  for (std::thread& thread : threads) thread.join();
  return admitted;
}

// At one instant nothing drains, so exactly the capacity is admitted in any order of arrival.
TEST(PromiseOfRequests, ManyThreadsAdmitExactlyWhatOneWould) {
  constexpr std::uint64_t kLimit = 1000;
  for (const Algorithm algorithm : kAll) {
    const sluice::Limit limit =
        limit_of(Spec{.algorithm = algorithm, .limit = kLimit, .per_us = 3600000000});
    const sluice::Instant now{sluice::Duration{kStart}};
    sluice::MemoryStore store;
    sluice::Limiter limiter(store);
    EXPECT_EQ(admitted_by_threads(limiter, limit, now, kLimit), kLimit);
    EXPECT_EQ(limiter.peek("a", limit, 0, now).remaining, 0u);
    EXPECT_EQ(limiter.peek("b", limit, 0, now).remaining, 0u);
  }
}

}  // namespace
}  // namespace sluice_property::promises_of_requests_test

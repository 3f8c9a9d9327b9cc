#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "core/algorithms.h"

// take_quickly() makes the step that the functions of the algorithm make; make_take() that of
// sliding_window_counter::make_step().
namespace sluice::core {
namespace {

using namespace std::chrono_literals;

constexpr std::array kAllVerbs{Verb::kTake,       Verb::kPeek,    Verb::kRefund, Verb::kCharge,
                               Verb::kTakeAtMost, Verb::kReserve, Verb::kReset};

const std::vector<Limit>& limits() {
  static const std::vector<Limit> all{sluice::token_bucket(10).per(1s).burst(20),
                                      sluice::token_bucket(2003).per(1400us),
                                      sluice::token_bucket(999'983).per(24h),
                                      sluice::token_bucket(1).per(366 * 24h),
                                      sluice::token_bucket(2'000'000'000).per(1s).burst(kMaxUnits),
                                      sluice::token_bucket(0).per(1s),
                                      sluice::token_bucket(10).per(1s).refilled_at_intervals(),
                                      sluice::gcra(100).per(7s),
                                      sluice::leaky_bucket(101).per(70ms),
                                      sluice::leaky_bucket(101).per(70ms).queueing(),
                                      sluice::fixed_window(10).per(1s),
                                      sluice::fixed_window(kMaxUnits).per(366 * 24h),
                                      sluice::fixed_window(0).per(1s),
                                      sluice::fixed_window(10).per(1s).aligned_to_clock()};
  return all;
}

class Random {
 public:
  std::uint64_t below(std::uint64_t end) { return generator_() % end; }
  bool once_in(std::uint64_t times) { return below(times) == 0; }
  // Of any number of digits.
  std::uint64_t up_to(std::uint64_t most) { return (generator_() >> below(64)) % (most + 1); }

 private:
  std::mt19937_64 generator_{1};
};

// A state under the limit's numbers or, sometimes, others.
State any_state(const Limit& limit, Random& random) {
  const bool is_window = limit.state_kind() == StateKind::kWindow;
  const std::uint64_t parts = is_window ? static_cast<std::uint64_t>(limit.period().count())
                                        : LimitAccess::rate(limit).ticks;
  const std::uint64_t most = random.once_in(4) ? kMaxUnits : limit.capacity();
  return {.last = static_cast<Ticks>(random.up_to(std::uint64_t{1} << 51)),
          .aux = random.up_to(parts - 1),
          .units = static_cast<std::uint32_t>(random.up_to(most)),
          .tag = random.once_in(16) ? 42 : tag_of(limit)};
}

Step<State> full_step(Action action, const Limit& limit, const State& state, Ticks now,
                      std::uint64_t cost) {
  const Kept<State> kept{state, Forgotten(Forgotten::kNever)};
  switch (limit.algorithm()) {
    case Algorithm::kFixedWindow: return fixed_window::step(action, limit, kept, now, cost);
    case Algorithm::kLeakyBucket: return leaky_bucket::step(action, limit, kept, now, cost);
    case Algorithm::kGcra: return gcra::step(action, limit, kept, now, cost);
    default: return token_bucket::step(action, limit, kept, now, cost);
  }
}

TEST(TakeQuickly, MakesTheStepOfTheAlgorithm) {
  Random random;
  std::array<std::size_t, kAllVerbs.size()> made{};
  for (const Limit& limit : limits()) {
    for (int i = 0; i < 50'000; ++i) {
      const State state = any_state(limit, random);
      const auto since = static_cast<Ticks>(random.up_to(std::uint64_t{1} << 46));
      const Ticks now = random.once_in(8) ? state.last - 1 : state.last + since;
      const std::uint64_t cost = random.up_to(random.once_in(4) ? kMaxUnits + 1 : 5);
      const auto verb = static_cast<std::size_t>(random.below(kAllVerbs.size()));
      const Action action{kAllVerbs[verb], 5s};
      Step<State> quick;
      if (!take_quickly(action.verb, limit, state, now, cost, quick)) continue;
      ++made[verb];
      const Step<State> full = full_step(action, limit, state, now, cost);
      ASSERT_EQ(quick.answer, full.answer) << i;
      ASSERT_EQ(quick.change, full.change) << i;
      ASSERT_EQ(quick.at, full.at) << i;
      ASSERT_EQ(quick.next, full.next) << i;
    }
  }
  for (std::size_t verb = 0; verb < kAllVerbs.size(); ++verb) {
    const bool counts = takes(kAllVerbs[verb]) || kAllVerbs[verb] == Verb::kCharge;
    EXPECT_EQ(made[verb] > 1000, counts) << verb;
  }
}

TEST(MakeTake, MakesTheStepOfTheSlidingWindowCounter) {
  Random random;
  std::array<std::size_t, 2> made{};
  for (const std::uint64_t n : {1, 2, 10, 1000}) {
    for (const Weighting weighting : {Weighting::kLinear, Weighting::kNone}) {
      const auto linear = sluice::sliding_window_counter(5000).per(1s).slices(n);
      const Limit limit = weighting == Weighting::kNone ? linear.counting_oldest_whole() : linear;
      for (int i = 0; i < 20'000; ++i) {
        std::vector<std::uint32_t> counts(n + 1);
        for (auto& count : counts) count = static_cast<std::uint32_t>(random.up_to(10'000 / n));
        const auto last = static_cast<Ticks>(random.up_to(std::uint64_t{1} << 50));
        const Kept<Slices> kept{
            {counts, last, SliceGrid(limit)},
            random.once_in(4) ? Forgotten::after(last + 1'500'000) : Forgotten(Forgotten::kNever)};
        const auto since = static_cast<Ticks>(random.up_to(3'000'000));
        const Ticks now = random.once_in(8) ? last - 1 : last + since;
        const std::uint64_t cost = random.once_in(16)
                                       ? ~random.below(3)  // of several charges: beyond all limits
                                       : 1 + random.up_to(random.once_in(4) ? kMaxUnits : 5);
        if (kept.forgotten.is_past(now)) continue;
        Step<NextSlices> quick;
        sliding_window_counter::make_take(limit, kept, now, cost, quick);
        const Step<NextSlices> full =
            sliding_window_counter::step(Verb::kTake, limit, kept, now, cost);
        ++made[full.answer.admitted ? 1 : 0];
        ASSERT_EQ(quick.answer, full.answer) << n << ' ' << i;
        ASSERT_EQ(quick.change, full.change) << n << ' ' << i;
        ASSERT_EQ(quick.at, full.at) << n << ' ' << i;
        if (full.change != Change::kWrite) continue;
        std::vector<std::uint32_t> quick_counts(n + 1);
        quick.next.write(quick_counts);
        std::vector<std::uint32_t> full_counts(n + 1);
        full.next.write(full_counts);
        ASSERT_EQ(quick_counts, full_counts) << n << ' ' << i;
      }
    }
  }
  EXPECT_GT(made[0], 1000U);
  EXPECT_GT(made[1], 1000U);
}

}  // namespace
}  // namespace sluice::core

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "sluice/ledger.h"
#include "sluice/memory_store.h"
#include "stores/redis/script/stored.h"
#include "tests/property/budget_history.h"
#include "tests/property/generate.h"
#include "tests/property/history.h"
#include "tests/property/permit_history.h"
#include "tests/property/plan_history.h"
#include "tests/redis/plan_store.h"
#include "tests/support/random_cases.h"

// The scripts in a real Redis, the memory store and the oracle give the same answers to a history.
//
// Every run has the same steps. With SLUICE_DIFFERENTIAL_MINUTES=N every test here runs
// other steps for N minutes, until an answer differs. SLUICE_DIFFERENTIAL_SEED=S sets the first
// seed.
namespace sluice_redis {
namespace {

using sluice::testing::random_cases;
using sluice_property::Answered;
using sluice_property::Dice;
using sluice_property::History;
using sluice_property::ToldHistory;

const std::size_t kHistories = random_cases(70, 350);  // in each test that is not open-ended
constexpr std::size_t kSteps = 60;
constexpr std::size_t kHistoriesBeforeFlush = 200;

std::unique_ptr<sluice::Store> make_memory_store() {
  return std::make_unique<sluice::MemoryStore>(
      sluice::MemoryStoreOptions{.max_keys = 1024, .shards = 1});
}

std::string show(const sluice::Decision& d) {
  const auto ticks = [](const std::optional<sluice::Duration>& wait) {
    return wait ? std::to_string(wait->count()) : std::string("none");
  };
  return std::string(to_string(d.outcome)) + " " + std::string(to_string(d.reason)) + " limit " +
         std::to_string(d.capacity) + " remaining " + std::to_string(d.remaining) +
         " reset_after " + std::to_string(d.reset_after.count()) + " retry_after " +
         ticks(d.retry_after) + " delay " + ticks(d.delay) + " taken " + std::to_string(d.taken);
}

// Checks that every field of the answer equals that of the memory store.
std::string difference(const Answered& memory, const Answered& redis) {
  std::string text;
  const auto compare = [&](const std::string& name, const sluice::Decision& expected,
                           const sluice::Decision& actual) {
    if (expected == actual) return;
    text += "  " + name + ": memory " + show(expected) + "\n    redis " + show(actual) + "\n";
  };
  compare("request", memory.request, redis.request);
  for (std::size_t i = 0; i < memory.each.size(); ++i) {
    compare("charge " + std::to_string(i), memory.each[i], redis.each[i]);
  }
  return text;
}

class Differential : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<RedisServer>(); }
  static void TearDownTestSuite() { server_.reset(); }

  // Runs this many histories, or runs for the configured time.
  template <typename RunOne>
  void run(std::uint64_t seed, std::size_t histories, const RunOne& run_one) {
    const char* const minutes = std::getenv("SLUICE_DIFFERENTIAL_MINUTES");
    if (minutes != nullptr) seed += open_seed();
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::minutes(minutes ? std::strtol(minutes, nullptr, 10) : 0);
    const auto goes_on = [&](std::size_t done) {
      return minutes ? std::chrono::steady_clock::now() < end : done < histories;
    };
    Dice dice(seed);
    for (std::size_t done = 0; goes_on(done) && !HasFailure(); ++done) {
      if (done % kHistoriesBeforeFlush == 0) connection_.run({"FLUSHALL"});
      run_one(dice);
      if (HasFailure()) ADD_FAILURE() << "history " << done << " of seed " << seed;
    }
  }

  std::string fresh_prefix() { return "d" + std::to_string(++prefixes_) + ":"; }

  static std::uint64_t open_seed() {
    const char* const given = std::getenv("SLUICE_DIFFERENTIAL_SEED");
    static const std::uint64_t seed =
        given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::cout << "SLUICE_DIFFERENTIAL_SEED=" << seed << '\n' << std::flush;
    return seed;
  }

  void compare(const ToldHistory& told) {
    const std::vector<Answered> redis = answers(connection_, fresh_prefix(), told.steps);
    const std::unique_ptr<sluice::Store> memory = make_memory_store();
    for (std::size_t i = 0; i < told.steps.size(); ++i) {
      if (!sluice_property::difference(told.answers[i], redis[i]).empty()) return explain(told);
      const std::string parts = difference(apply(*memory, told.steps[i]), redis[i]);
      ASSERT_EQ(parts, "") << "at step " << i << " of\n" << to_json_lines(told.steps);
    }
  }

  void explain(const ToldHistory& told) {
    const auto make_store = [&] {
      return std::make_unique<PlanStore>(connection_, fresh_prefix());
    };
    History history = told.steps;
    if (first_disagreement(told.steps, told.answers, make_store)) {
      history = minimal(told.steps, make_store);
    }
    const auto parts = first_disagreement(history, oracle_answers(history), make_store);
    FAIL() << "after\n"
           << to_json_lines(history) << "the last step differs:\n"
           << (parts ? parts->what : "only when all are sent at once");
  }

  static std::unique_ptr<RedisServer> server_;
  ScriptConnection connection_{*server_};
  std::size_t prefixes_ = 0;
};
std::unique_ptr<RedisServer> Differential::server_;

TEST_P(Differential, ScriptsAnswerLikeTheOracleAndTheMemoryStore) {
  run(GetParam(), kHistories,
      [this](Dice& dice) { compare(sluice_property::random_history(dice, kSteps)); });
}

INSTANTIATE_TEST_SUITE_P(Histories, Differential, ::testing::Values(1, 2, 3));

class AllVerbs : public Differential {};
TEST_P(AllVerbs, ScriptsAnswerLikeTheOracleAndTheMemoryStore) {
  run(GetParam(), kHistories, [this](Dice& dice) {
    compare(sluice_property::random_history(dice, kSteps, sluice_property::Verbs::kAll));
  });
}
INSTANTIATE_TEST_SUITE_P(Histories, AllVerbs, ::testing::Values(9, 10));

// --- permits ---

// Answers as one store, and notes where the other one differs.
class Compared final : public sluice::Store {
 public:
  Compared(sluice::Store& store, sluice::Store& other) : store_(store), other_(other) {}

  sluice::Decision apply(sluice::Action action, std::span<const sluice::Charge> charges,
                         std::optional<sluice::Instant> now,
                         std::span<sluice::Decision> each) noexcept override {
    Answered other{{}, std::vector<sluice::Decision>(each.size())};
    other.request = other_.apply(action, charges, now, other.each);
    const sluice::Decision said = store_.apply(action, charges, now, each);
    difference_ += difference(other, {said, {each.begin(), each.end()}});
    return said;
  }
  const std::string& difference_of_all() const noexcept { return difference_; }

 private:
  sluice::Store& store_;
  sluice::Store& other_;
  std::string difference_;
};

class PermitHistories : public Differential {};
TEST_P(PermitHistories, AreAnsweredLikeTheOracleAndTheMemoryStore) {
  run(GetParam(), kHistories, [this](Dice& dice) {
    PlanStore redis(connection_, fresh_prefix());
    const std::unique_ptr<sluice::Store> memory = make_memory_store();
    Compared store(redis, *memory);
    sluice_property::PermitHistory history(dice.below(std::uint64_t{1} << 62), store);
    std::string differs;
    for (std::size_t i = 0; i < kSteps && differs.empty(); ++i) differs = history.step();
    if (differs.empty()) differs = history.what_is_left();
    ASSERT_EQ(differs, "") << redis.error();
    ASSERT_EQ(store.difference_of_all(), "");
  });
}
INSTANTIATE_TEST_SUITE_P(Histories, PermitHistories, ::testing::Values(11));

// --- budgets ---

// As many steps at once as the variant --long has, 1,000,000 in all.
const std::size_t kBudgetSteps = random_cases(60, 3000);

class BudgetHistories : public Differential {};
TEST_P(BudgetHistories, AreAnsweredLikeTheOracleAndTheMemoryStore) {
  run(GetParam(), kHistories, [this](Dice& dice) {
    PlanStore redis(connection_, fresh_prefix());
    const std::unique_ptr<sluice::Store> memory = make_memory_store();
    Compared store(redis, *memory);
    sluice_property::BudgetHistory history(dice.below(std::uint64_t{1} << 62), store);
    std::string differs;
    for (std::size_t i = 0; i < kBudgetSteps && differs.empty(); ++i) differs = history.step();
    ASSERT_EQ(differs, "") << redis.error();
    ASSERT_EQ(store.difference_of_all(), "");
  });
}
INSTANTIATE_TEST_SUITE_P(Histories, BudgetHistories, ::testing::Values(13));

// The entries of the ledger of each key as text. Of holds that have ended at one instant, in any
// order, they are one.
class LedgerTexts final : public sluice::Ledger {
 public:
  void add(const sluice::LedgerEntry& entry) noexcept override {
    Lines& lines = lines_[std::string(entry.key)];
    const auto ticks = [](sluice::Instant at) { return at.time_since_epoch().count(); };
    const bool is_end =
        entry.kind == sluice::LedgerKind::kCharged || entry.kind == sluice::LedgerKind::kReleased;
    if (!is_end || entry.at != lines.ended_at) {
      finish(lines);
      lines.spent = lines.held = 0;
    }
    lines.spent += entry.spent;
    lines.held += entry.held;
    if (entry.hash) lines.hashes.insert(*entry.hash);
    if (entry.is_new) lines.text += "new ";
    lines.now = std::to_string(ticks(entry.at)) + " " +
                std::string(sluice::kLedgerKinds[static_cast<std::size_t>(entry.kind)]) + " id " +
                std::string(entry.id) + " spent " + std::to_string(lines.spent) + " = " +
                std::to_string(entry.spent_after) + ", held " + std::to_string(lines.held) + " = " +
                std::to_string(entry.held_after) + " of " + std::to_string(entry.limit) + " in " +
                std::to_string(ticks(entry.window));
    if (entry.kind == sluice::LedgerKind::kHold) {
      lines.now += entry.on_expiry == sluice::OnExpiry::kCharge ? " charge" : " release";
    }
    const bool has_end =
        entry.kind == sluice::LedgerKind::kHold || entry.kind == sluice::LedgerKind::kExtend;
    if (has_end) lines.now += " ends " + std::to_string(ticks(entry.ends));
    lines.ended_at = is_end ? entry.at : sluice::Instant::min();
  }
  std::string of(const std::string& key) {
    finish(lines_[key]);
    return lines_[key].text;
  }

 private:
  struct Lines {
    std::string text = {}, now = {};
    std::int64_t spent = 0, held = 0;
    std::set<sluice::IdHash> hashes = {};
    sluice::Instant ended_at = sluice::Instant::min();
  };
  static void finish(Lines& lines) {
    if (lines.now.empty()) return;
    lines.text += std::exchange(lines.now, {});
    for (const sluice::IdHash& hash : std::exchange(lines.hashes, {})) {
      lines.text += " ";
      for (const std::uint8_t byte : hash) lines.text += std::to_string(byte) + ".";
    }
    lines.text += "\n";
  }

  std::map<std::string, Lines> lines_;
};

class Ledgers : public Differential {};
TEST_P(Ledgers, HaveTheEntriesOfTheMemoryStore) {
  std::size_t entries = 0;
  run(GetParam(), kHistories, [&](Dice& dice) {
    const std::string prefix = fresh_prefix();
    PlanStore redis(connection_, prefix, false, 1'000'000);
    LedgerTexts of_memory;
    sluice::MemoryStore memory({.max_keys = 1024, .shards = 1, .ledger = &of_memory});
    Compared store(redis, memory);
    sluice_property::BudgetHistory history(dice.below(std::uint64_t{1} << 62), store);
    std::string differs;
    for (std::size_t i = 0; i < kBudgetSteps && differs.empty(); ++i) differs = history.step();
    ASSERT_EQ(differs, "") << redis.error();
    ASSERT_EQ(store.difference_of_all(), "");
    LedgerTexts of_redis;
    for (const std::string key : {"a", "b", "c"}) {
      const Reply reply = connection_.run({"XRANGE", prefix + "eu{}" + key, "-", "+"});
      for (const sluice::redis::Reply& one : *reply) {
        auto entry = sluice::redis::read_ledger_entry(one[1]);
        ASSERT_TRUE(entry);
        entry->key = key;
        of_redis.add(*entry);
        ++entries;
      }
      ASSERT_EQ(of_redis.of(key), of_memory.of(key));
    }
  });
  EXPECT_GT(entries, 10 * kHistories);
}
INSTANTIATE_TEST_SUITE_P(Histories, Ledgers, ::testing::Values(14));

// --- plans and overrides ---

class PlanHistories : public Differential {};
TEST_P(PlanHistories, AreAnsweredLikeTheOracleAndTheMemoryStore) {
  run(GetParam(), kHistories, [this](Dice& dice) {
    PlanStore redis(connection_, fresh_prefix());
    const std::unique_ptr<sluice::Store> memory = make_memory_store();
    Compared store(redis, *memory);
    sluice_property::PlanHistory history(dice.below(std::uint64_t{1} << 62), store);
    std::string differs;
    for (std::size_t i = 0; i < kSteps && differs.empty(); ++i) differs = history.step();
    ASSERT_EQ(differs, "") << redis.error();
    ASSERT_EQ(store.difference_of_all(), "");
  });
}
INSTANTIATE_TEST_SUITE_P(Histories, PlanHistories, ::testing::Values(12));

// --- numbers at the ends of their ranges ---

constexpr std::uint64_t kMaxUnits = sluice::kMaxUnits;
constexpr std::int64_t kMillisecond = 1000;
constexpr std::int64_t kMaxPeriod = std::int64_t{366} * 86400 * 1000 * kMillisecond;

sluice_oracle::Spec extreme_spec(Dice& dice) {
  using namespace sluice_oracle;
  for (;;) {
    Spec spec{.algorithm = sluice_property::random_algorithm(dice),
              .limit = dice.any_of<std::uint64_t>(
                  {0, 1, 2, 3, 999983, 2147483647, 2147483648u, 4294967291u, kMaxUnits}),
              .per_us = dice.any_of<std::int64_t>({kMillisecond, 1009, 1000 * kMillisecond,
                                                   86399999999, kMaxPeriod - 1, kMaxPeriod})};
    if (is_bucket(spec.algorithm) && dice.chance(60)) {
      spec.burst = dice.any_of<std::uint64_t>({1, 2, 65537, 2147483648u, kMaxUnits - 1, kMaxUnits});
    }
    if (spec.algorithm == Algorithm::kFixedWindow && dice.chance(50)) spec.align = Align::kClock;
    if (spec.algorithm == Algorithm::kTokenBucket && dice.chance(50)) {
      spec.refill = Refill::kInterval;
    }
    if (spec.algorithm == Algorithm::kLeakyBucket && dice.chance(50)) spec.mode = Mode::kQueue;
    const bool has_slices = spec.algorithm == Algorithm::kSlidingWindowCounter ||
                            spec.algorithm == Algorithm::kSlidingWindowHybrid;
    if (has_slices) spec.slices = dice.any_of<std::uint64_t>({1, 2, 999, 1000});
    if (is_valid(spec)) return spec;
  }
}

std::uint64_t extreme_cost(Dice& dice, const sluice_oracle::Spec& spec) {
  const std::uint64_t most = capacity(spec);
  return dice.any_of<std::uint64_t>({0, 1, most / 3, most / 2, most, most - (most > 0), most + 1,
                                     dice.magnitude(most), kMaxUnits + 1, std::uint64_t{1} << 53,
                                     ~std::uint64_t{0}, ~std::uint64_t{0} / 2 + 1});
}

std::int64_t extreme_move(Dice& dice, const sluice_oracle::Spec& spec) {
  const std::int64_t per = spec.per_us;
  return dice.any_of<std::int64_t>(
      {0, 0, 1, per / 2, per - 1, per, per + 1, 2 * per, dice.between(0, per),
       static_cast<std::int64_t>(dice.magnitude(std::uint64_t{1} << 52)), 1 << 20});
}

// The first tick of a later slice, and a slice whose edge is so close to a tick that any rounding
// puts the tick on the wrong side.
std::int64_t sharp_edge(const sluice_oracle::Spec& spec, std::int64_t now) {
  __extension__ using Wide = __int128;
  const Wide per = spec.per_us;
  const auto n = static_cast<Wide>(slices(spec));
  Wide edge = (now * n / per + 1) * per;
  for (int tries = 0; tries < 5000 && (n - edge % n) % n > 2; ++tries) edge += per;
  return static_cast<std::int64_t>((edge + n - 1) / n);
}

std::int64_t extreme_wait(Dice& dice, const sluice_oracle::Spec& spec) {
  constexpr auto kMaxWait = static_cast<std::int64_t>(std::uint64_t{1} << 52);
  return dice.any_of<std::int64_t>({0, 1, spec.per_us, kMaxWait - 1, kMaxWait, 2 * kMaxWait,
                                    std::numeric_limits<std::int64_t>::max(),
                                    static_cast<std::int64_t>(dice.magnitude(kMaxWait))});
}

ToldHistory extreme_history(Dice& dice) {
  using sluice_oracle::Verb;
  ToldHistory told;
  sluice_oracle::Oracle oracle;
  sluice_oracle::Spec spec = extreme_spec(dice);
  std::int64_t now = dice.any_of<std::int64_t>(
      {0, 1, 1700000000000000, sluice_property::kLastTick - 2 * kMaxPeriod,
       sluice_property::kLastTick - spec.per_us, sluice_property::kLastTick - 1});
  while (told.steps.size() < 20) {
    if (dice.chance(10)) {
      const sluice_oracle::Spec other = extreme_spec(dice);
      if (other.algorithm == spec.algorithm) spec = other;
    }
    sluice_property::Step step;
    step.verb = dice.any_of({Verb::kTake, Verb::kTake, Verb::kTake, Verb::kTake, Verb::kPeek,
                             Verb::kRefund, Verb::kCharge, Verb::kCharge, Verb::kTakeAtMost,
                             Verb::kReserve, Verb::kReserve, Verb::kReserve});
    if (step.verb == Verb::kReserve) step.max_wait_us = extreme_wait(dice, spec);
    now += extreme_move(dice, spec);
    if (spec.slices && dice.chance(40)) now = sharp_edge(spec, now) + dice.between(-1, 1);
    now = std::clamp<std::int64_t>(now, 0, sluice_property::kLastTick);
    step.at_us = now;
    const std::uint64_t charges = dice.chance(20) ? 3 : 1;
    for (std::uint64_t i = 0; i < charges; ++i) {
      step.charges.push_back({"key", spec, extreme_cost(dice, spec)});
    }
    told.answers.push_back(oracle.apply(oracle_action(step), step.charges, step.at_us));
    told.steps.push_back(std::move(step));
  }
  return told;
}

class Extremes : public Differential {};
TEST_P(Extremes, ScriptsAnswerLikeTheOracleAndTheMemoryStore) {
  run(GetParam(), 2 * kHistories, [this](Dice& dice) { compare(extreme_history(dice)); });
}
INSTANTIATE_TEST_SUITE_P(Histories, Extremes, ::testing::Values(6));

// At a change of the grid more units count than one slice can contain.
TEST_F(Extremes, KeepTheUnitsOfTheLargestLimitIfTheSlicesChange) {
  using sluice_oracle::Verb;
  constexpr std::int64_t kDay = std::int64_t{86400} * 1000 * kMillisecond;
  const sluice_oracle::Spec spec{.algorithm = sluice_oracle::Algorithm::kSlidingWindowCounter,
                                 .limit = kMaxUnits,
                                 .per_us = 365 * kDay};
  sluice_oracle::Spec other = spec;
  other.slices = 7;
  other.weighting = sluice_oracle::Weighting::kNone;
  const std::int64_t later = 32993455000 * kMillisecond;
  ToldHistory told;
  told.steps = {{Verb::kTake, {{"key", spec, kMaxUnits}}, 0},
                {Verb::kTake, {{"key", spec, 1}}, later},
                {Verb::kRefund, {{"key", other, 2}}, later},
                {Verb::kTake, {{"key", other, 1}}, later}};
  told.answers = oracle_answers(told.steps);
  compare(told);
}

// --- logs of thousands of entries, which the scripts store in another form than short logs ---

struct LongHistory {
  History steps;
  std::vector<Answered> answers;  // from the memory store
};

// Takes one or a few units, faster than they expire until the log is full, then as they expire.
class LongLogTeller {
 public:
  LongLogTeller(Dice& dice, std::size_t steps) : dice_(dice), steps_(steps) {
    spec_.algorithm = dice.any_of({sluice_oracle::Algorithm::kSlidingWindowLog,
                                   sluice_oracle::Algorithm::kSlidingWindowHybrid});
    spec_.limit = unit_ * dice.any_of<std::uint64_t>({90, 150, 500, 2000, 5000});
    spec_.per_us = dice.any_of<std::int64_t>({1000000, 60000000, 86400000000, kMaxPeriod / 2});
    change_slices();
  }

  LongHistory tell() {
    LongHistory told;
    while (told.steps.size() < steps_) {
      sluice_property::Step step = next_step();
      told.answers.push_back(apply(*memory_, step));
      untouched_at_ = step.at_us + told.answers.back().each[0].reset_after.count();
      told.steps.push_back(std::move(step));
    }
    return told;
  }

 private:
  void change_slices() {
    if (spec_.algorithm != sluice_oracle::Algorithm::kSlidingWindowHybrid) return;
    spec_.slices = dice_.any_of<std::uint64_t>({1, 2, 5, 100});
  }

  void change_numbers() {
    if (dice_.chance(50)) spec_.limit = unit_ * (80 + dice_.below(3000));
    if (dice_.chance(50)) {
      spec_.per_us = std::min(spec_.per_us * dice_.between(50, 200) / 100, kMaxPeriod);
    }
    if (dice_.chance(50)) change_slices();
  }

  std::int64_t random_move() {
    const auto limit = static_cast<std::int64_t>(spec_.limit / unit_);
    if (dice_.chance(2)) return dice_.between(0, spec_.per_us);
    if (dice_.chance(20)) return 0;
    return dice_.between(0, 3 * spec_.per_us / limit / (dice_.chance(50) ? 4 : 1));
  }

  std::uint64_t random_cost(sluice_oracle::Verb verb) {
    if (verb == sluice_oracle::Verb::kRefund) {
      return dice_.chance(5) ? dice_.below(spec_.limit) : dice_.below(8 * unit_);
    }
    const bool is_large = dice_.below(1000) < (verb == sluice_oracle::Verb::kCharge ? 3 : 20);
    return is_large ? dice_.below(spec_.limit + 2) : 1 + dice_.below(2 * unit_);
  }

  sluice_property::Step next_step() {
    using sluice_oracle::Verb;
    if (dice_.below(300) == 0) change_numbers();
    sluice_property::Step step;
    if (dice_.chance(12)) step.verb = dice_.any_of({Verb::kPeek, Verb::kRefund});
    if (dice_.chance(charging_)) step.verb = Verb::kCharge;
    if (dice_.chance(5)) step.verb = dice_.any_of({Verb::kTakeAtMost, Verb::kReserve});
    now_ += random_move();
    // A forgotten counter is not used again at an earlier time.
    const bool goes_back = dice_.chance(3) && now_ < untouched_at_;
    step.at_us = goes_back ? now_ - dice_.between(0, 1000000) : now_;
    step.charges.push_back({"key", spec_, random_cost(step.verb)});
    return step;
  }

  Dice& dice_;
  std::size_t steps_;
  // Products of large numbers use another computation than products of small ones.
  std::uint64_t unit_ = dice_.any_of<std::uint64_t>({1, 1, 800'000});
  std::uint64_t charging_ = dice_.any_of<std::uint64_t>({0, 3, 60});  // percent of all steps
  sluice_oracle::Spec spec_;
  std::int64_t now_ = 1700000000123456;
  std::int64_t untouched_at_ = 0;
  std::unique_ptr<sluice::Store> memory_ = make_memory_store();
};

class LongLogs : public Differential {};

TEST_P(LongLogs, AreAnsweredLikeTheMemoryStoreDoes) {
  constexpr std::size_t kLongSteps = 4000;
  run(GetParam(), random_cases(5, 30), [this](Dice& dice) {
    const LongHistory told = LongLogTeller(dice, kLongSteps).tell();
    const std::vector<Answered> redis = answers(connection_, fresh_prefix(), told.steps);
    for (std::size_t i = 0; i < told.steps.size(); ++i) {
      ASSERT_EQ(difference(told.answers[i], redis[i]), "")
          << "at step " << i << ": " << to_json(told.steps[i]) << "\nafter "
          << (i > 0 ? to_json(told.steps[i - 1]) : "nothing");
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Histories, LongLogs, ::testing::Values(7, 8));

}  // namespace
}  // namespace sluice_redis

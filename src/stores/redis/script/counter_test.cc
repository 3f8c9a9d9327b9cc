#include "stores/redis/script/plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "stores/redis/script/format.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

constexpr core::Ticks kNow = 1'700'000'000'123'456;
constexpr auto kNowBits = static_cast<std::uint64_t>(kNow);
constexpr std::uint64_t kForgotten = (kNowBits >> 20) + 100;

constexpr auto kBucket = token_bucket(10).per(10s);
constexpr auto kWindow = fixed_window(10).per(10s);
constexpr auto kSlices = sliding_window_counter(10).per(10s).slices(5);
constexpr auto kLog = sliding_window_log(10).per(10s);
constexpr auto kHybrid = sliding_window_hybrid(10).per(10s);

std::string bytes_of(const format::FixedState& state) {
  std::string bytes;
  format::kFixedState.append(state, bytes);
  return bytes;
}
std::string bytes_of(const format::SlicesHead& head, const std::vector<std::uint64_t>& counts) {
  std::string bytes;
  format::kSlicesHead.append(head, bytes);
  for (const std::uint64_t count : counts) format::kSliceCount.append({count}, bytes);
  return bytes;
}
std::string bytes_of(const format::LogReply& reply) {
  std::string bytes;
  format::kLogReply.append(reply, bytes);
  return bytes;
}

format::FixedState fixed_state(const Limit& limit, std::uint64_t units) {
  const bool is_window = limit.state_kind() == StateKind::kWindow;
  return {.kind = is_window ? format::kFixedWindowKind : format::kBucketKind,
          .changed = kNowBits,
          .aux = 0,
          .units = units,
          .checksum = core::tag_of(limit),
          .forgotten = kForgotten};
}
format::SlicesHead slices_head() {
  return {.kind = format::kSlicesKind,
          .changed = kNowBits,
          .period = 10'000'000,
          .slices = 5,
          .forgotten = kForgotten};
}
format::LogReply log_reply(std::uint64_t units) {
  return {.at = kNowBits,
          .units = units,
          .newest = kNowBits,
          .forgotten = kForgotten,
          .wait = 3'000'000,
          .changed = 0};
}

class CounterTest : public ::testing::Test {
 protected:
  Counter& begin(const Limit& limit, std::uint64_t cost = 1) {
    charge_ = {"key", limit, cost};
    counter_.begin(charge_);
    return counter_;
  }
  bool reads(const Limit& limit, const std::string& said) { return begin(limit).read(said, kNow); }
  // Takes the cost from the state that the script has found.
  Decision take(const Limit& limit, std::uint64_t cost, const std::string& said) {
    begin(limit, cost);
    EXPECT_TRUE(counter_.read(said, kNow));
    counter_.decide(Verb::kTake);
    return answer();
  }
  Decision answer() const {
    Decision decision;
    counter_.answer(decision);
    return decision;
  }
  std::string argument() const {
    std::string out;
    counter_.append_argument(1, counter_.cost(), out);
    return out;
  }

  Charge charge_{"key", kBucket};
  Counter counter_;
};

// --- arguments ---

TEST_F(CounterTest, IsTheSameForAChargeWithItsAlgorithmKeyAndTag) {
  const Counter& counter = begin(kBucket);
  EXPECT_TRUE(counter.is_same({"key", kBucket, 7}));
  EXPECT_TRUE(counter.is_same({"key", token_bucket(99).per(1s)}));
  EXPECT_FALSE(counter.is_same({"other", kBucket}));
  EXPECT_FALSE(counter.is_same({"key", gcra(10).per(10s)}));
  EXPECT_FALSE(counter.is_same({"key", kBucket, 1, "tag"}));
}

TEST_F(CounterTest, SendsAnOverflowingSumAsACostBeyondEveryLimit) {
  for (const Limit& limit : {Limit(kBucket), Limit(kWindow), Limit(kSlices), Limit(kLog)}) {
    Counter& counter = begin(limit, ~std::uint64_t{0});
    counter.add({"", kBucket, 1});
    counter.add({"", kBucket, 3});
    const std::string sent = argument();
    std::string_view rest = sent;
    EXPECT_EQ(format::kFamily.take(rest).value, 1u);
    EXPECT_EQ(format::kLogArgument.read(rest).cost, format::kCostBeyondAll)
        << "each argument begins with the cost in 6 bytes";
  }
}

TEST_F(CounterTest, WritesTheLimitIntoItsArgument) {
  begin(kSlices, 3).add({"", kSlices, 4});
  std::string expected = "\x01";
  format::kSlicesArgument.append(
      {.cost = 7, .capacity = 10, .period = 10'000'000, .slices = 5, .oldest_whole = 0}, expected);
  EXPECT_EQ(argument(), expected);

  begin(kHybrid);
  expected = "\x01";
  format::kLogArgument.append({.cost = 1, .capacity = 10, .period = 10'000'000, .slices = 10},
                              expected);
  EXPECT_EQ(argument(), expected);
}

TEST_F(CounterTest, DecidesAtTheInstantOfItsLastChangeIfThatIsLater) {
  // The clock of the server has gone back since the last change of the state.
  format::FixedState state = fixed_state(kBucket, 2);
  state.changed = kNowBits + 500;
  ASSERT_TRUE(take(kBucket, 1, bytes_of(state)));
  EXPECT_EQ(counter_.at(), kNow + 500);
}

// --- replies ---

TEST_F(CounterTest, IsUntouchedIfTheScriptFoundNothing) {
  for (const Limit& limit :
       {Limit(kBucket), Limit(kWindow), Limit(kSlices), Limit(kLog), Limit(kHybrid)}) {
    EXPECT_EQ(take(limit, 4, "").remaining, 6u);
    EXPECT_EQ(take(limit, 11, "").reason, Reason::kNever);
  }
}

TEST_F(CounterTest, ForgetsTheStateOfThePreviousRequest) {
  EXPECT_EQ(take(kBucket, 1, bytes_of(fixed_state(kBucket, 5))).remaining, 4u);
  EXPECT_EQ(take(kSlices, 1, bytes_of(slices_head(), {5})).remaining, 4u);
  EXPECT_EQ(take(kBucket, 1, "").remaining, 9u);
  EXPECT_EQ(take(kSlices, 1, "").remaining, 9u);
}

TEST_F(CounterTest, DecidesByTheStateThatTheScriptFound) {
  const Decision bucket = take(kBucket, 3, bytes_of(fixed_state(kBucket, 9)));
  EXPECT_EQ(bucket.retry_after, Duration{2s});
  EXPECT_EQ(bucket.remaining, 1u);
  EXPECT_EQ(take(kWindow, 3, bytes_of(fixed_state(kWindow, 7))).remaining, 0u);
  EXPECT_EQ(take(kSlices, 3, bytes_of(slices_head(), {2, 4})).remaining, 1u);
  const Decision log = take(kLog, 3, bytes_of(log_reply(8)));
  EXPECT_FALSE(log);
  EXPECT_EQ(log.retry_after, Duration{3s}) << "the script has computed the wait";
}

TEST_F(CounterTest, AnswersWithoutTheTakeIfAnotherLimitDenies) {
  const Limit queue = leaky_bucket(10).per(10s).queueing();
  EXPECT_EQ(take(queue, 3, bytes_of(fixed_state(queue, 2))).delay, Duration{2s});
  counter_.leave_untaken();
  EXPECT_EQ(answer().remaining, 8u);
  EXPECT_EQ(answer().delay, std::nullopt);

  take(kBucket, 3, bytes_of(fixed_state(kBucket, 9)));
  counter_.leave_untaken();
  EXPECT_EQ(answer().retry_after, Duration{2s}) << "its own denial stays";
}

TEST_F(CounterTest, RefusesAFixedStateOfAnotherSizeOrKind) {
  for (const Limit& limit : {Limit(kBucket), Limit(kWindow)}) {
    const std::string good = bytes_of(fixed_state(limit, 2));
    EXPECT_TRUE(reads(limit, good));
    EXPECT_FALSE(reads(limit, good + "x"));
    for (std::size_t size = 1; size < good.size(); ++size) {
      EXPECT_FALSE(reads(limit, good.substr(0, size))) << size;
    }
  }
  EXPECT_FALSE(reads(kWindow, bytes_of(fixed_state(kBucket, 2))));
  EXPECT_FALSE(reads(kBucket, bytes_of(fixed_state(kWindow, 2))));
  EXPECT_FALSE(reads(kBucket, bytes_of(slices_head(), {1})));
}

TEST_F(CounterTest, RefusesAFixedStateWithNumbersOutOfRange) {
  const auto reads_with = [this](std::uint64_t format::FixedState::* member, std::uint64_t value) {
    format::FixedState state = fixed_state(kBucket, 2);
    state.*member = value;
    return reads(kBucket, bytes_of(state));
  };
  using State = format::FixedState;
  EXPECT_TRUE(reads_with(&State::aux, format::kEndOfSpans - 1));
  EXPECT_FALSE(reads_with(&State::aux, format::kEndOfSpans));
  EXPECT_FALSE(reads_with(&State::changed, format::kEndOfInstants));
  EXPECT_TRUE(reads_with(&State::forgotten, (kNowBits >> 20) + 1));
  EXPECT_FALSE(reads_with(&State::forgotten, kNowBits >> 20)) << "forgotten before its last change";
}

TEST_F(CounterTest, RefusesSlicesOfAnImpossibleSize) {
  const std::string good = bytes_of(slices_head(), {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(reads(kSlices, good)) << "one slice more than the period has";
  EXPECT_TRUE(reads(kSlices, bytes_of(slices_head(), {})));
  EXPECT_FALSE(reads(kSlices, bytes_of(slices_head(), {1, 2, 3, 4, 5, 6, 7})));
  for (std::size_t size = 1; size < good.size(); ++size) {
    const bool is_whole = size >= format::kSlicesHead.size() &&
                          (size - format::kSlicesHead.size()) % format::kSliceCount.size() == 0;
    EXPECT_EQ(reads(kSlices, good.substr(0, size)), is_whole) << size;
  }
}

TEST_F(CounterTest, RefusesSlicesWithNumbersOutOfRange) {
  const auto reads_with = [this](std::uint64_t format::SlicesHead::* member, std::uint64_t value) {
    format::SlicesHead head = slices_head();
    head.*member = value;
    return reads(kSlices, bytes_of(head, {1}));
  };
  using Head = format::SlicesHead;
  const auto shortest = static_cast<std::uint64_t>(kMinPeriod.count());
  EXPECT_FALSE(reads_with(&Head::kind, format::kLogKind));
  EXPECT_FALSE(reads_with(&Head::changed, format::kEndOfInstants));
  EXPECT_TRUE(reads_with(&Head::period, shortest));
  EXPECT_FALSE(reads_with(&Head::period, shortest - 1));
  EXPECT_FALSE(reads_with(&Head::period, format::kEndOfSpans));
  EXPECT_TRUE(reads_with(&Head::slices, kMaxSlices));
  EXPECT_FALSE(reads_with(&Head::slices, kMaxSlices + 1));
  EXPECT_FALSE(reads_with(&Head::slices, 0));
  EXPECT_FALSE(reads_with(&Head::forgotten, kNowBits >> 20));
}

TEST_F(CounterTest, RefusesALogThatContradictsItself) {
  for (const Limit& limit : {Limit(kLog), Limit(kHybrid)}) {
    const auto reads_with = [&](std::uint64_t format::LogReply::* member, std::uint64_t value) {
      format::LogReply reply = log_reply(2);
      reply.*member = value;
      return reads(limit, bytes_of(reply));
    };
    using Reply = format::LogReply;
    const std::string good = bytes_of(log_reply(2));
    EXPECT_TRUE(reads(limit, good));
    EXPECT_FALSE(reads(limit, good + "x"));
    EXPECT_FALSE(reads(limit, good.substr(1)));
    EXPECT_FALSE(reads_with(&Reply::at, format::kEndOfInstants));
    format::LogReply early = log_reply(2);
    early.at = early.newest = kNowBits - 1;
    EXPECT_FALSE(reads(limit, bytes_of(early))) << "read before the request";
    EXPECT_FALSE(reads_with(&Reply::newest, kNowBits + 1)) << "an entry after the log was read";
    EXPECT_TRUE(reads_with(&Reply::newest, kNowBits - 9'999'999));
    EXPECT_FALSE(reads_with(&Reply::newest, kNowBits - 10'000'000)) << "no unit counts any more";
  }
  format::LogReply empty = log_reply(0);
  empty.newest = 0;
  EXPECT_TRUE(reads(kLog, bytes_of(empty)));
}

}  // namespace
}  // namespace sluice::redis

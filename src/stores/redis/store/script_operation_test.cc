#include "stores/redis/store/loop_store.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/limit.h"
#include "stores/redis/store/test_client.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{Duration{1700000000123456}};
const Limit kBucket = token_bucket(10).per(1min);

// A number in bytes, the least significant first.
std::string bytes(std::uint64_t number, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}
constexpr std::uint64_t kNowTicks = 1700000000123456;
constexpr std::uint64_t kAdmits = std::uint64_t{1} << 52;

// What the script says of an untouched counter that admits, and of one that is empty and denies.
std::string admitted() { return bulk(bytes(kNowTicks + kAdmits, 7) + bytes(0, 2)); }
std::string denied() {
  const Limit& limit = kBucket;
  const std::string state = "\xC1\x11" + bytes(kNowTicks, 7) + bytes(0, 6) + bytes(10, 4) +
                            bytes(core::LimitAccess::tag(limit) << 1, 4) +
                            bytes((kNowTicks >> 20) + 100, 4);
  return bulk(bytes(kNowTicks, 7) + bytes(state.size(), 2) + state);
}

class ScriptOperationTest : public ::testing::Test {
 protected:
  TestRequest& ask(std::vector<Charge> charges, Verb verb = Verb::kTake) {
    request = std::make_unique<TestRequest>(operation, std::move(charges), verb, kNow);
    if (request->is_prepared) request->start(client);
    return *request;
  }
  // Two charges in two slots.
  TestRequest& ask_two(Verb verb = Verb::kTake) {
    return ask({{"a", kBucket, 1, "x"}, {"b", kBucket, 1, "y"}}, verb);
  }

  std::atomic<std::uint64_t> gave_back{0};
  RequestOptions options{.prefix = "p:", .by_slot = true, .explicit_expiry_ms = 1000};
  ScriptOperation operation{options, gave_back};
  AnsweredClient client;
  std::unique_ptr<TestRequest> request;
};

TEST_F(ScriptOperationTest, DecidesARequestInOneCall) {
  const TestRequest& take = ask({{"a", kBucket, 1, "x"}, {"a", kBucket, 2, "x"}});
  EXPECT_EQ(client.waiting(), 1u);
  EXPECT_TRUE(client.answer(admitted()));
  EXPECT_EQ(take.times_finished, 1);
  EXPECT_EQ(take.decision().reason, Reason::kOk);
  EXPECT_EQ(take.decision().remaining, 7u);
}

TEST_F(ScriptOperationTest, SendsACallForEachSlotAtOnceAndWaitsForAllReplies) {
  const TestRequest& take = ask_two();
  EXPECT_EQ(client.waiting(), 2u);
  client.answer(admitted());
  EXPECT_EQ(take.times_finished, 0);
  client.answer(admitted());
  EXPECT_EQ(take.times_finished, 1);
  EXPECT_EQ(take.decision().outcome, Outcome::kAllowed);
  EXPECT_EQ(gave_back, 0u);
}

TEST_F(ScriptOperationTest, GivesBackTheUnitsOfOneSlotIfAnotherDenies) {
  const TestRequest& take = ask_two();
  client.answer(admitted());
  client.answer(denied());
  EXPECT_EQ(take.decision().reason, Reason::kLimited);
  EXPECT_EQ(take.each[0].remaining, 10u);
  EXPECT_EQ(gave_back, 1u);
  ASSERT_EQ(client.waiting(), 1u);
  EXPECT_NE(client.next().find("p:t{x}a"), std::string::npos);
  EXPECT_TRUE(client.answer("$0\r\n\r\n"));
}

TEST_F(ScriptOperationTest, GivesBackTheUnitsOfOneSlotIfAnotherTimesOut) {
  const TestRequest& take = ask_two();
  client.fail(Failure::kTimeout);
  client.answer(admitted());
  EXPECT_EQ(take.decision(), Decision::refused(Reason::kStoreTimeout));
  EXPECT_EQ(gave_back, 1u);
  ASSERT_EQ(client.waiting(), 1u) << "the slot that timed out is left as it is";
  EXPECT_NE(client.next().find("p:t{y}b"), std::string::npos);
  client.fail(Failure::kLost);  // nobody waits for it
}

constexpr std::string_view kTryAgain = "-TRYAGAIN Multiple keys request during rehashing\r\n";

TEST_F(ScriptOperationTest, SendsACallForEachKeyIfASlotMoves) {
  const TestRequest& take = ask({{"a", kBucket, 1, "x"}, {"b", kBucket, 1, "x"}});
  client.answer(kTryAgain);
  ASSERT_EQ(client.waiting(), 2u);
  EXPECT_TRUE(client.next().starts_with("1 p:t{x}a "));
  client.answer(admitted());
  EXPECT_TRUE(client.next().starts_with("1 p:t{x}b "));
  client.answer(denied());
  EXPECT_EQ(take.times_finished, 1);
  EXPECT_EQ(take.decision().reason, Reason::kLimited);
  EXPECT_EQ(take.each[0].remaining, 10u);
  EXPECT_EQ(gave_back, 1u);
  ASSERT_EQ(client.waiting(), 1u);
  EXPECT_TRUE(client.next().starts_with("1 p:t{x}a "));
  client.fail(Failure::kLost);
}

TEST_F(ScriptOperationTest, SendsACallForABlockAloneIfItsSlotMoves) {
  const Block block = *Block::make({.after = 1, .within = 1h, .time = 1h});
  const TestRequest& take = ask({{.key = "a", .limit = kBucket, .tag = "x", .block = &block}});
  client.answer(kTryAgain);
  ASSERT_EQ(client.waiting(), 2u);
  EXPECT_TRUE(client.next().starts_with("1 p:t{x}a "));
  client.answer(denied());
  EXPECT_TRUE(client.next().starts_with("1 p:xt{x}a "));
  // No counter, and the block as it was: it has none.
  client.answer(bulk(bytes(kNowTicks + kAdmits, 7) + bytes(1, 2) + '\1'));
  EXPECT_EQ(take.decision().reason, Reason::kLimited) << "this denial does not count for the block";
  EXPECT_EQ(client.waiting(), 0u) << "a block has taken nothing";
  EXPECT_EQ(gave_back, 0u);
}

TEST_F(ScriptOperationTest, RefusesTheBudgetsOfASlotThatMovesAndNoOthers) {
  const Limit budget = sluice::budget(10).per(1h);
  PermitId id;
  const auto charge = [&](std::string_view key, std::string_view tag) {
    return Charge{.key = key, .limit = budget, .tag = tag, .permit = &id};
  };
  const TestRequest& take =
      ask({charge("a", "x"), charge("b", "x"), {"c", kBucket, 1, "y"}}, Verb::kTake);
  client.answer(kTryAgain);
  client.answer(admitted());
  EXPECT_EQ(take.decision(), Decision::refused(Reason::kStoreFull)) << "which opens no breaker";
  EXPECT_EQ(take.each[0].reason, Reason::kStoreFull);
  EXPECT_EQ(take.each[1].reason, Reason::kStoreFull);
  EXPECT_EQ(take.each[2].reason, Reason::kOk);
  EXPECT_EQ(gave_back, 1u);
  client.fail(Failure::kLost);  // nobody waits for it
}

TEST_F(ScriptOperationTest, GivesNothingBackForAPeek) {
  ask_two(Verb::kPeek);
  client.answer(admitted());
  client.answer(denied());
  EXPECT_EQ(client.waiting(), 0u);
  EXPECT_EQ(gave_back, 0u);
}

// What the script says of a live permit whose lease it has started again, with `left` of it before.
std::string extended(std::uint64_t left) {
  const std::string found = bytes(kNowTicks, 7) + bytes(1, 4) + bytes(kNowTicks + 30, 7) +
                            bytes(left, 7) + bytes(1, 4) + bytes(kNowTicks + 60'000'000, 7) +
                            bytes(0, 1);
  return bulk(bytes(kNowTicks + kAdmits, 7) + bytes(found.size(), 2) + found);
}
std::string gone() { return bulk(bytes(kNowTicks, 7) + bytes(0, 2)); }

class ExtensionTest : public ScriptOperationTest {
 protected:
  // A permit with a counter in each of two slots.
  TestRequest& extend_two() {
    return ask({{.key = "a", .limit = two_, .tag = "x", .permit = &id_},
                {.key = "b", .limit = two_, .tag = "y", .permit = &id_}},
               Verb::kExtend);
  }
  // The numbers of a call that lets the lease end so long after kNow.
  static std::string ends_after(std::uint64_t left) {
    const std::string name = "\x01\x02\x03" + std::string(9, '\0');
    return bytes(0, 6) + bytes(2, 4) + bytes(left, 6) + name + bytes(kNowTicks, 7);
  }

  const PermitId id_{{1, 2, 3}};
  const Limit two_ = concurrency(2).lease(1min);
};

TEST_F(ExtensionTest, IsTakenBackIfThePermitIsGoneInAnotherSlot) {
  const TestRequest& extend = extend_two();
  client.answer(extended(30));
  client.answer(gone());
  EXPECT_EQ(extend.decision().reason, Reason::kGone);
  EXPECT_EQ(extend.each[0].reset_after, Duration{30});
  EXPECT_EQ(gave_back, 1u);
  ASSERT_EQ(client.waiting(), 1u);
  EXPECT_NE(client.next().find("p:p{x}a"), std::string::npos) << client.next();
  EXPECT_NE(client.next().find(ends_after(30)), std::string::npos);
  EXPECT_TRUE(client.answer("$0\r\n\r\n"));
}

TEST_F(ExtensionTest, StaysIfAnOldModuleDoesNotSayWhatWasLeft) {
  extend_two();
  client.answer(extended(0));
  client.answer(gone());
  ASSERT_EQ(client.waiting(), 1u);
  EXPECT_NE(client.next().find(ends_after(60'000'000)), std::string::npos);
  EXPECT_TRUE(client.answer("$0\r\n\r\n"));
}

TEST_F(ExtensionTest, StaysIfAllSlotsExtend) {
  const TestRequest& extend = extend_two();
  client.answer(extended(30));
  client.answer(extended(20));
  EXPECT_EQ(extend.decision().reason, Reason::kOk);
  EXPECT_EQ(client.waiting(), 0u);
}

TEST_F(ExtensionTest, StaysIfAnotherSlotFails) {
  extend_two();
  client.answer(extended(30));
  client.fail(Failure::kTimeout);
  EXPECT_EQ(client.waiting(), 0u) << "the permit may be live in both";
}

// --- windows of the calendar ---

const Limit& monthly() {
  static const Limit limit = fixed_window(10).per(calendar_month("Asia/Shanghai", 15));
  return limit;
}
constexpr std::string_view kOtherWindows = "+WINDOW 0 1790000000000000 1790000000000001\r\n";

TEST_F(ScriptOperationTest, SendsTheWindowsOfTheInstantThatTheScriptNames) {
  const TestRequest& take = ask({{"a", monthly()}});
  EXPECT_EQ(client.waiting(), 1u);
  const std::string first = client.next();
  EXPECT_TRUE(client.answer(kOtherWindows));
  ASSERT_EQ(take.times_finished, 0);
  ASSERT_EQ(client.waiting(), 1u);
  const std::string second = client.next();
  const Calendar::Window window =
      monthly().calendar()->window_at(Instant{Duration{1790000000000000}});
  const auto start = static_cast<std::uint64_t>(window.start.time_since_epoch().count());
  EXPECT_EQ(first.find(bytes(start, 7)), first.npos);
  EXPECT_NE(second.find(bytes(start, 7)), second.npos);
  EXPECT_TRUE(client.answer(admitted()));
  EXPECT_EQ(take.times_finished, 1);
  EXPECT_EQ(take.decision().remaining, 9u);
}

TEST_F(ScriptOperationTest, FailsIfNoWindowsAreEverRight) {
  const TestRequest& take = ask({{"a", monthly()}});
  int asked = 0;
  for (; client.waiting() > 0 && asked < 1000; ++asked) client.answer(kOtherWindows);
  EXPECT_EQ(asked, 66);
  EXPECT_EQ(take.times_finished, 1);
  EXPECT_EQ(take.decision(), Decision::refused(Reason::kStoreError));
}

TEST_F(ScriptOperationTest, RefusesAReplyThatNamesNoCounterOfACalendar) {
  for (const char* reply :
       {"+WINDOW 1 5 5\r\n", "+WINDOW 0 5\r\n", "+WINDOW -1 5 5\r\n", "+WINDOW\r\n"}) {
    ask({{"a", monthly()}});
    EXPECT_FALSE(client.answer(reply)) << reply;
  }
  ask({{"a", kBucket}});
  EXPECT_FALSE(client.answer(kOtherWindows));
}

TEST_F(ScriptOperationTest, ReportsTheMostSevereFailureOfSeveralSlots) {
  const auto reason_of = [&](const std::function<void()>& first,
                             const std::function<void()>& second) {
    const TestRequest& take = ask_two();
    first();
    second();
    return take.decision().reason;
  };
  const auto timeout = [&] { client.fail(Failure::kTimeout); };
  const auto unavailable = [&] { client.fail(Failure::kUnavailable); };
  const auto error = [&] { client.answer("-LOADING Redis is loading the dataset\r\n"); };
  const auto full = [&] { client.answer("-STOREFULL 1: no memory\r\n"); };
  const auto wrong_type = [&] { client.answer("-WRONGTYPE Operation against a key\r\n"); };
  EXPECT_EQ(reason_of(timeout, wrong_type), Reason::kStoreTimeout);
  EXPECT_EQ(reason_of(wrong_type, timeout), Reason::kStoreTimeout);
  EXPECT_EQ(reason_of(error, wrong_type), Reason::kForeignValue);
  EXPECT_EQ(reason_of(unavailable, error), Reason::kStoreError);
  EXPECT_EQ(reason_of(full, error), Reason::kStoreError);
}

TEST_F(ScriptOperationTest, SaysWhichCountersAFullServerRefuses) {
  const auto reasons = [&](std::string_view error) {
    const TestRequest& take = ask({{"a", kBucket}, {"b", kBucket}, {"c", kBucket}, {"b", kBucket}});
    client.answer(error);
    EXPECT_EQ(take.decision(), Decision::refused(Reason::kStoreFull)) << error;
    std::string text;
    for (const Decision& one : take.each) text.append(to_string(one.reason)).append(" ");
    return text;
  };
  options.by_slot = false;
  EXPECT_EQ(reasons("-STOREFULL 1: no memory\r\n"), "store_full ok ok ok ");
  EXPECT_EQ(reasons("-STOREFULL 2 3: no memory\r\n"), "ok store_full store_full store_full ");
  const std::string all = "store_full store_full store_full store_full ";
  for (const char* error :
       {"-OOM command not allowed\r\n", "-STOREFULL 0 65 99999999999999999999\r\n",
        "-STOREFULL\r\n", "-STOREFULL x\r\n", "-STOREFULL \r\n"}) {
    EXPECT_EQ(reasons(error), all);
  }
}

TEST_F(ScriptOperationTest, GivesBackTheUnitsOfOneSlotIfAnotherIsFull) {
  const TestRequest& take = ask_two();
  client.answer(admitted());
  client.answer("-STOREFULL 1: no memory\r\n");
  EXPECT_EQ(take.decision(), Decision::refused(Reason::kStoreFull));
  EXPECT_EQ(take.each[0].reason, Reason::kOk);
  EXPECT_EQ(take.each[1].reason, Reason::kStoreFull);
  EXPECT_EQ(gave_back, 1u);
  client.answer("$0\r\n\r\n");
}

TEST_F(ScriptOperationTest, RefusesAMalformedReply) {
  ask({{"a", kBucket}});
  EXPECT_FALSE(client.answer("+PONG\r\n")) << "the connection is out of step";
}

TEST_F(ScriptOperationTest, RefusesAnInvalidRequest) {
  EXPECT_FALSE(ask({}).is_prepared);
  EXPECT_EQ(request->decision().reason, Reason::kInvalid);
  EXPECT_FALSE(ask({{"a", kBucket}, {"a", token_bucket(11).per(1min)}}).is_prepared);
  EXPECT_EQ(request->each[1].reason, Reason::kInvalid);
  EXPECT_EQ(client.waiting(), 0u);
}

TEST_F(ScriptOperationTest, CanBeUsedForOneRequestAfterAnother) {
  for (int i = 0; i < 3; ++i) {
    const TestRequest& take = ask_two();
    client.answer(admitted());
    client.answer(admitted());
    EXPECT_EQ(take.times_finished, 1);
    EXPECT_TRUE(take.decision());
  }
}

}  // namespace
}  // namespace sluice::redis

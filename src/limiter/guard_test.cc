#include "sluice/guard.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/guard_parts.h"
#include "sluice/memory_store.h"
#include "sluice/require.h"
#include "sluice/testing/manual_clock.h"
#include "stores/policy/test_store.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

struct Email {
  std::string address;
};
struct Request {
  std::string user;
  Email email = {};
  std::uint32_t bytes = 1;
};

int length(const Request& request) { return static_cast<int>(request.user.size()); }

constexpr auto kOne = token_bucket(1).per(1s);

class GuardTest : public ::testing::Test {
 protected:
  std::string what_of(const auto& call) {
    try {
      call();
    } catch (const RateLimited& e) {
      return e.what();
    }
    return "not limited";
  }

  testing::ManualClock clock_;
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
};

TEST_F(GuardTest, CallsTheFunctionUntilTheLimitAndThenThrows) {
  const auto guard = guarded(limiter_, "length", sliding_window_log(3).per(60s)).throwing(length);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(guard(Request{"bob"}), 3);
  EXPECT_THROW(guard(Request{"bob"}), RateLimited);
}

TEST_F(GuardTest, HoldsAPermitWhileTheFunctionRuns) {
  constexpr Limit kTwo = concurrency(2).lease(10s);
  std::vector<std::uint64_t> left;
  const auto note = [&](const std::string& user) {
    left.push_back(limiter_.peek(KeyBuilder("export", 0u, user).view(), kTwo, 0).remaining);
    if (user == "eve") throw std::runtime_error("failed");
  };
  const auto whole = [](const std::string& user) { return user; };
  const auto guard = guarded(limiter_, "export", kTwo).key(whole).holding().costing(2);
  guard.throwing(note)("bob");
  guard.throwing(note)("bob");
  EXPECT_THROW(guard.throwing(note)("eve"), std::runtime_error);
  EXPECT_THROW(guard.refunding_on_exception().throwing(note)("eve"), std::runtime_error);
  note("bob");
  EXPECT_THROW(note("eve"), std::runtime_error);
  EXPECT_EQ(left, (std::vector<std::uint64_t>{0, 0, 0, 0, 2, 2}));
}

TEST_F(GuardTest, HoldsOnePermitForSeveralLimits) {
  constexpr Limit kInFlight = concurrency(1).lease(10s);
  bool was_denied = false;
  std::function<void()> inner;
  const auto run = [&] {
    if (inner) std::exchange(inner, nullptr)();
  };
  const auto guard =
      guarded(limiter_, "job", global(kInFlight).named("jobs"), global(token_bucket(5).per(1s)))
          .holding()
          .throwing(run);
  inner = [&] {
    const std::string what = what_of([&] { guard(); });
    EXPECT_EQ(what, "job: limited to 1 in flight (concurrency) by \"jobs\"; retry after 10 s");
    was_denied = true;
  };
  guard();
  EXPECT_TRUE(was_denied);
  EXPECT_NO_THROW(guard());
  EXPECT_EQ(limiter_.peek(KeyBuilder("job", 1u).view(), token_bucket(5).per(1s), 0).remaining, 3u);
}

TEST_F(GuardTest, ABudgetDoesNotTakeThePermitOfAnotherLimitForItsId) {
  constexpr Limit kAmount = budget(1000).per(24h);
  const auto guard = guarded(limiter_, "job", global(concurrency(5).lease(30s)).named("c"),
                             global(kAmount).named("b"))
                         .holding()
                         .costing(3);
  const auto left = [&] { return limiter_.peek(KeyBuilder("job", "b").view(), kAmount, 0); };
  const auto fail = []() -> int { throw std::runtime_error("failed"); };
  EXPECT_THROW(guard.refunding_on_exception().throwing(fail)(), std::runtime_error);
  EXPECT_EQ(left().remaining, 1000u);
  EXPECT_TRUE(guard.waiting(1s).returning([] { return 0; })());
  EXPECT_EQ(left().remaining, 997u);
}

TEST_F(GuardTest, SaysWhereAPermitIsMissing) {
  const auto problem = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "none";
  };
  constexpr Limit kTwo = concurrency(2).lease(10s);
  const std::string which = "guard \"a\", limit 2 in flight (concurrency): ";
  EXPECT_EQ(problem([&] { guarded(limiter_, "a", kTwo).throwing(length); }),
            which + "a call needs a permit while it runs; expected .holding()");
  EXPECT_EQ(problem([&] { guarded(limiter_, "a", kTwo).holding().waiting(1s).throwing(length); }),
            "none");
  EXPECT_EQ(problem([&] { guarded(limiter_, "a", kOne).holding().throwing(length); }),
            "guard \"a\", limit 1 per 1s (token_bucket): it has no permits; expected a limit of "
            "concurrency, or no .holding()");
}

TEST_F(GuardTest, TheExceptionNamesTheLimitWhoseBlockDeniesForLonger) {
  const std::array<Limit, 2> limits{token_bucket(5).per(1s), kOne};
  const std::array<detail::LimitName, 2> names{{{&limits[0], "a"}, {&limits[1], "b"}}};
  Decision decision = Decision::refused(Reason::kBlocked);
  Decision limited = Decision::refused(Reason::kLimited);
  limited.retry_after = 1h;
  const auto throw_it = [&] {
    detail::throw_rate_limited("send", names, std::array{limited, decision}, decision);
  };
  EXPECT_EQ(what_of(throw_it),
            "send: blocked without end by the limit 1 per 1s (token_bucket) by \"b\"");
  decision.retry_after = 2h;
  EXPECT_EQ(what_of(throw_it),
            "send: blocked by the limit 1 per 1s (token_bucket) by \"b\"; retry after 7200 s");
}

TEST_F(GuardTest, TheExceptionSaysWhichLimitAndHowLong) {
  const auto guard =
      guarded(limiter_, "send_code", sliding_window_log(1).per(60s)).throwing(length);
  guard(Request{"bob"});
  clock_.advance(47500ms);
  try {
    guard(Request{"bob"});
    FAIL();
  } catch (const RateLimited& e) {
    EXPECT_STREQ(e.what(),
                 "send_code: limited to 1 per 1m (sliding_window_log); retry after 12.5 s");
    EXPECT_EQ(e.name(), "send_code");
    EXPECT_EQ(e.decision().reason, Reason::kLimited);
    EXPECT_EQ(e.decision().retry_after, Duration{12500ms});
    const RateLimited copy = e;
    EXPECT_EQ(copy.name(), "send_code");
  }
}

TEST_F(GuardTest, TheExceptionNamesTheLimitThatTakesLongest) {
  const auto guard =
      guarded(limiter_, "order", global(kOne), per(&Request::user, gcra(1).per(1h)).named("user"))
          .throwing(length);
  guard(Request{"a"});
  EXPECT_EQ(what_of([&] { guard(Request{"a"}); }),
            "order: limited to 1 per 1h (gcra) by \"user\"; retry after 3600 s");
}

TEST_F(GuardTest, TheExceptionSaysNever) {
  const auto guard =
      guarded(limiter_, "upload", token_bucket(5).per(1s).burst(10)).costing(11).throwing(length);
  EXPECT_EQ(
      what_of([&] { guard(Request{"a"}); }),
      "upload: the cost exceeds the capacity of the limit: 5 per 1s, at once 10 (token_bucket)");
}

TEST_F(GuardTest, AFunctionRunsAgainExactlyAtRetryAfter) {
  const auto guard = guarded(limiter_, "f", sliding_window_log(1).per(1s)).returning(length);
  ASSERT_TRUE(guard(Request{"a"}));
  const auto denied = guard(Request{"a"});
  ASSERT_FALSE(denied);
  clock_.advance(*denied.error().retry_after - 1us);
  EXPECT_FALSE(guard(Request{"a"}));
  clock_.advance(1us);
  EXPECT_TRUE(guard(Request{"a"}));
}

TEST_F(GuardTest, CountsEachKeyByItself) {
  const auto guard = guarded(limiter_, "f", kOne).key(&Request::user).returning(length);
  EXPECT_TRUE(guard(Request{"a"}));
  EXPECT_FALSE(guard(Request{"a"}));
  EXPECT_TRUE(guard(Request{"b"}));
}

TEST_F(GuardTest, WithoutAKeyAllCallsCountTogether) {
  const auto guard = guarded(limiter_, "f", kOne).returning(length);
  EXPECT_TRUE(guard(Request{"a"}));
  EXPECT_FALSE(guard(Request{"b"}));
}

TEST_F(GuardTest, SeveralKeyValuesNeverRunTogether) {
  const auto guard = guarded(limiter_, "f", kOne)
                         .key(&Request::user, path(&Request::email, &Email::address))
                         .returning(length);
  EXPECT_TRUE(guard(Request{"a", {"bc"}}));
  EXPECT_TRUE(guard(Request{"ab", {"c"}}));
  EXPECT_TRUE(guard(Request{"abc", {""}}));
  EXPECT_FALSE(guard(Request{"ab", {"c"}}));
}

TEST_F(GuardTest, APathKeepsTheTextOfAViewIntoATemporary) {
  struct Address {
    std::string text;
    std::string_view domain() const { return std::string_view(text).substr(text.find('@') + 1); }
    std::optional<std::string_view> any() const { return domain(); }
  };
  struct Form {
    std::string raw;
    Address kept = {};
    Address parsed() const { return {raw}; }
  };
  const auto domain = path(&Form::parsed, &Address::domain);
  static_assert(std::is_same_v<decltype(domain(Form{})), std::string>);
  static_assert(std::is_same_v<decltype(path(&Form::parsed, &Address::any)(Form{})),
                               std::optional<std::string>>);
  static_assert(
      std::is_same_v<decltype(path(&Form::kept, &Address::domain)(Form{})), std::string_view>);
  const auto guard = guarded(limiter_, "f", kOne).key(domain).returning([](const Form&) {});
  EXPECT_TRUE(guard(Form{"alice@a-domain-with-a-long-name.example"}));
  EXPECT_TRUE(guard(Form{"bob@another-domain-with-a-long-name.example"}));
  EXPECT_FALSE(guard(Form{"robert@a-domain-with-a-long-name.example"}));
}

TEST_F(GuardTest, GuardsOfOneNameShareTheirCountersAndOthersDoNot) {
  const auto make = [&](std::string_view name) {
    return guarded(limiter_, name, kOne).key(&Request::user).returning(length);
  };
  EXPECT_TRUE(make("f")(Request{"a"}));
  EXPECT_FALSE(make("f")(Request{"a"}));
  EXPECT_TRUE(make("g")(Request{"a"}));
}

TEST_F(GuardTest, TheKeyIsWhatTheGrammarSays) {
  const auto guard = guarded(limiter_, "send", kOne).key(&Request::user).returning(length);
  ASSERT_TRUE(guard(Request{"bob"}));
  EXPECT_FALSE(limiter_.peek("4:send0;3:bob", kOne).allowed());
  const auto labelled =
      guarded(limiter_, "send", per(&Request::user, kOne).named("user")).returning(length);
  ASSERT_TRUE(labelled(Request{"bob"}));
  EXPECT_FALSE(limiter_.peek("4:send4:user3:bob", kOne).allowed());
}

TEST_F(GuardTest, LongKeysCountByAllTheirBytes) {
  const auto guard = guarded(limiter_, "f", kOne).key(&Request::user).returning(length);
  const std::string prefix(5000, 'x');
  EXPECT_TRUE(guard(Request{prefix + "a"}));
  EXPECT_TRUE(guard(Request{prefix + "b"}));
  EXPECT_FALSE(guard(Request{prefix + "a"}));
}

TEST_F(GuardTest, SeveralLimitsAdmitTogetherOrTakeNothing) {
  const auto guard =
      guarded(limiter_, "order", global(token_bucket(2).per(1s)), per(&Request::user, kOne))
          .returning(length);
  EXPECT_TRUE(guard(Request{"a"}));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(guard(Request{"a"}));
  EXPECT_TRUE(guard(Request{"b"}));
  EXPECT_FALSE(guard(Request{"c"}));
}

TEST_F(GuardTest, TwoLimitsOfOneAlgorithmAndOneValueHaveCountersOfTheirOwn) {
  const auto guard = guarded(limiter_, "order", per(&Request::user, token_bucket(2).per(1s)),
                             per(&Request::user, token_bucket(3).per(1h)))
                         .returning(length);
  int admitted = 0;
  for (int second = 0; second < 3; ++second) {
    while (guard(Request{"a"})) ++admitted;
    clock_.advance(1s);
  }
  EXPECT_EQ(admitted, 3);
}

TEST_F(GuardTest, HandlersAnswerInThePlaceOfTheFunction) {
  const auto with_arguments =
      guarded(limiter_, "f", kOne)
          .otherwise([](const Decision& d,
                        const Request& r) { return d.reason == Reason::kLimited ? -length(r) : 0; },
                     length);
  EXPECT_EQ(with_arguments(Request{"bob"}), 3);
  EXPECT_EQ(with_arguments(Request{"bob"}), -3);
  const auto alone =
      guarded(limiter_, "g", kOne).otherwise([](const Decision&) { return short{-1}; }, length);
  EXPECT_EQ(alone(Request{"bob"}), 3);
  EXPECT_EQ(alone(Request{"bob"}), -1);
}

TEST_F(GuardTest, ReturnsWhatTheFunctionReturnsUnlessItIsDenied) {
  int calls = 0;
  const auto nothing = guarded(limiter_, "void", kOne).returning([&] { ++calls; });
  static_assert(std::is_same_v<decltype(nothing()), Expected<std::monostate, Decision>>);
  EXPECT_TRUE(nothing());
  EXPECT_FALSE(nothing());
  EXPECT_EQ(calls, 1);

  int value = 0;
  const auto reference = guarded(limiter_, "ref", kOne).returning([&]() -> int& { return value; });
  const auto got = reference();
  ASSERT_TRUE(got);
  EXPECT_EQ(&got->get(), &value);

  const auto owner =
      guarded(limiter_, "own", kOne).returning([] { return std::make_unique<int>(7); });
  EXPECT_EQ(**owner(), 7);
}

TEST_F(GuardTest, ForwardsArgumentsAndResultsAsTheyAre) {
  const auto take =
      guarded(limiter_, "take", token_bucket(9).per(1s)).throwing([](std::unique_ptr<int> p) {
        return p;
      });
  auto p = take(std::make_unique<int>(5));
  EXPECT_EQ(*p, 5);
  int value = 1;
  const auto same = guarded(limiter_, "same", kOne).throwing([](int& v) -> int& { return ++v; });
  EXPECT_EQ(&same(value), &value);
  EXPECT_EQ(value, 2);
}

TEST_F(GuardTest, ADeniedCallKeepsItsMoveOnlyArgumentsForTheHandler) {
  const auto guard = guarded(limiter_, "f", kOne)
                         .otherwise([](const Decision&, std::unique_ptr<int> p) { return p; },
                                    [](std::unique_ptr<int>) { return std::unique_ptr<int>(); });
  EXPECT_EQ(guard(std::make_unique<int>(3)), nullptr);
  EXPECT_EQ(*guard(std::make_unique<int>(3)), 3);
}

TEST_F(GuardTest, TakesMemberFunctionsWithTheirObjectFirst) {
  struct Mailer {
    int sent = 0;
    int send(const Request&) { return ++sent; }
  };
  const auto guard = guarded(limiter_, "send", kOne).key(&Request::user).returning(&Mailer::send);
  Mailer mailer;
  EXPECT_TRUE(guard(mailer, Request{"a"}));
  EXPECT_FALSE(guard(&mailer, Request{"a"}));
  EXPECT_EQ(*guard(&mailer, Request{"b"}), 2);
}

TEST_F(GuardTest, TakesNoexceptMutableAndMoveOnlyFunctions) {
  const auto plain = guarded(limiter_, "a", kOne).throwing([](int i) noexcept { return i; });
  EXPECT_EQ(plain(4), 4);
  auto counting =
      guarded(limiter_, "b", token_bucket(5).per(1s)).throwing([n = 0]() mutable { return ++n; });
  EXPECT_EQ(counting() + counting(), 3);
  const auto owning =
      guarded(limiter_, "c", kOne).throwing([p = std::make_unique<int>(6)] { return *p; });
  EXPECT_EQ(owning(), 6);
}

TEST_F(GuardTest, AKeyMaySeeAllArguments) {
  const auto guard =
      guarded(limiter_, "f", kOne).key([](int a, int b) { return a + b; }).returning([](int, int) {
        return 0;
      });
  EXPECT_TRUE(guard(1, 2));
  EXPECT_FALSE(guard(2, 1));
  EXPECT_TRUE(guard(2, 2));
}

TEST_F(GuardTest, TheArgumentsMayTellTheCost) {
  const auto guard =
      guarded(limiter_, "f", token_bucket(10).per(1s)).costing(&Request::bytes).returning(length);
  EXPECT_TRUE(guard(Request{"a", {}, 7}));
  EXPECT_FALSE(guard(Request{"a", {}, 4}));
  EXPECT_TRUE(guard(Request{"a", {}, 3}));
}

TEST_F(GuardTest, ANegativeCostIsNeverAdmitted) {
  const auto guard =
      guarded(limiter_, "f", kOne).costing([](int n) { return n; }).returning([](int) {
        return 0;
      });
  EXPECT_EQ(guard(-1).error().reason, Reason::kNever);
}

TEST_F(GuardTest, AThrowingFunctionKeepsWhatItTookUnlessToldOtherwise) {
  const auto fail = []() -> int { throw std::runtime_error("down"); };
  const auto keeps = guarded(limiter_, "keeps", kOne).returning(fail);
  EXPECT_THROW(static_cast<void>(keeps()), std::runtime_error);
  EXPECT_FALSE(keeps());

  const auto refunds = guarded(limiter_, "refunds", global(kOne), global(gcra(2).per(1h)))
                           .costing(1)
                           .refunding_on_exception()
                           .returning(fail);
  for (int i = 0; i < 5; ++i) EXPECT_THROW(static_cast<void>(refunds()), std::runtime_error);
}

TEST(GuardByAFailurePolicy, GivesNothingBackBecauseNothingWasTaken) {
  TestStore store;
  Limiter limiter(store);
  const auto fail = []() -> int { throw std::runtime_error("down"); };
  const auto one = guarded(limiter, "one", kOne).refunding_on_exception().returning(fail);
  const auto two =
      guarded(limiter, "two", global(kOne), global(kOne)).refunding_on_exception().returning(fail);
  EXPECT_THROW(static_cast<void>(one()), std::runtime_error);
  EXPECT_EQ(store.last_verb, Verb::kRefund);
  store.answer.reason = Reason::kFallback;
  EXPECT_THROW(static_cast<void>(one()), std::runtime_error);
  EXPECT_EQ(store.last_verb, Verb::kTake);
  EXPECT_THROW(static_cast<void>(two()), std::runtime_error);
  EXPECT_EQ(store.last_verb, Verb::kTake);
}

TEST_F(GuardTest, AQueueWaitsBeforeAnAdmittedCall) {
  std::vector<Duration> waits;
  const auto guard = guarded(limiter_, "f", leaky_bucket(10).per(1s).queueing())
                         .delaying([&](Duration d) { waits.push_back(d); })
                         .throwing(length);
  for (int i = 0; i < 3; ++i) guard(Request{"a"});
  EXPECT_EQ(waits, (std::vector<Duration>{0ms, 100ms, 200ms}));
}

TEST_F(GuardTest, AGuardThatCannotWorkIsRefusedWhenItIsMade) {
  const auto refusal = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "made";
  };
  const auto queue = leaky_bucket(10).per(1s).queueing();
  EXPECT_EQ(refusal([&] { (void)guarded(limiter_, "f", queue).throwing(length); }),
            "guard \"f\", limit 10 per 1s (leaky_bucket): a queue admits calls that must wait; "
            "expected .delaying(WAIT) or .waiting(AT_MOST)");
  EXPECT_EQ(refusal([&] { (void)guarded(limiter_, "", kOne).throwing(length); }),
            "a guard has no name; expected a name, which identifies its counters");
  EXPECT_EQ(refusal([&] {
              (void)guarded(limiter_, "f", global(kOne).named("x"), global(kOne).named("x"))
                  .throwing(length);
            }),
            "guard \"f\", limit \"x\": another limit has the same name; expected a unique name");
}

int requires_one(Limiter& limiter, int user) {
  require(limiter, kOne, user);
  return user;
}
int requires_one_elsewhere(Limiter& limiter, int user) {
  require(limiter, kOne, user);
  return user;
}

TEST_F(GuardTest, RequireCountsByFunctionAndArguments) {
  EXPECT_EQ(requires_one(limiter_, 1), 1);
  EXPECT_EQ(requires_one(limiter_, 2), 2);
  EXPECT_THROW(requires_one(limiter_, 1), RateLimited);
  EXPECT_EQ(requires_one_elsewhere(limiter_, 1), 1);
  EXPECT_NE(what_of([&] { requires_one(limiter_, 1); }).find("requires_one"), std::string::npos);
}

TEST_F(GuardTest, RequireByNameSharesACounterWithTheGuardOfThatName) {
  const auto guard = guarded(limiter_, "f", kOne).key(&Request::user).returning(length);
  EXPECT_TRUE(guard(Request{"a"}));
  EXPECT_FALSE(try_acquire({limiter_, "f"}, kOne, "a"));
  EXPECT_TRUE(try_acquire({limiter_, "f"}, kOne, std::string("b")));
}

TEST_F(GuardTest, RequireOfSeveralLimitsTakesAllOrNothing) {
  const auto ask = [&](std::string_view user) {
    return try_acquire({limiter_, "f"}, global(token_bucket(2).per(1s)),
                       per(user, kOne).named("user"));
  };
  EXPECT_TRUE(ask("a"));
  EXPECT_FALSE(ask("a"));
  EXPECT_TRUE(ask("b"));
  EXPECT_FALSE(ask("c"));
  EXPECT_EQ(what_of([&] {
              require({limiter_, "f"}, global(token_bucket(2).per(1s)),
                      per("c", kOne).named("user"));
            }),
            "f: limited to 2 per 1s (token_bucket); retry after 0.5 s");
}

TEST_F(GuardTest, RequireAnswersTheDecision) {
  const Decision decision = require({limiter_, "f"}, token_bucket(5).per(1s));
  EXPECT_EQ(decision.remaining, 4u);
}

class DeadStore final : public Store {
 public:
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    for (Decision& d : each) d = Decision::refused(Reason::kStoreTimeout);
    return Decision::refused(Reason::kStoreTimeout);
  }
};

TEST_F(GuardTest, AStoreThatCouldNotDecideIsNotCalledALimit) {
  DeadStore dead;
  Limiter limiter(dead);
  const auto guard = guarded(limiter, "f", kOne).throwing(length);
  EXPECT_EQ(what_of([&] { guard(Request{"a"}); }),
            "f: denied without the decision of a limit (store_timeout)");
}

TEST_F(GuardTest, ManyThreadsRunTheFunctionExactlyAsOftenAsOneWould) {
  std::atomic<int> calls = 0;
  const auto guard = guarded(limiter_, "f", global(fixed_window(1000).per(1h)),
                             per([](int user) { return user % 2; }, fixed_window(600).per(1h)))
                         .returning([&](int) { return calls.fetch_add(1); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) static_cast<void>(guard(t));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(calls, 1000);
}

// A coroutine returns before it has run. Guarded refuses it for what is done after the function.
struct Task {
  bool await_ready();
};
struct LazyTask {
  Task operator co_await() &&;
};
static_assert(detail::Awaitable<Task> && detail::Awaitable<LazyTask>);
static_assert(!detail::Awaitable<void> && !detail::Awaitable<int&> &&
              !detail::Awaitable<OrDecision<int>>);
using OneGuard = decltype(guarded(std::declval<Limiter&>(), "a", kOne));
template <typename Guard>
constexpr bool kActs = Guard::Terms::kActsAfter;
static_assert(!kActs<OneGuard> && !kActs<decltype(std::declval<OneGuard>().waiting(1s))>);
static_assert(kActs<decltype(std::declval<OneGuard>().holding().waiting(1s))>);
static_assert(kActs<decltype(std::declval<OneGuard>().refunding_on_exception().costing(2))>);

}  // namespace
}  // namespace sluice

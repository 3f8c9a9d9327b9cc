#include "sluice/redis_store.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <random>

#include "limiter/new_key_limit.h"
#include "sluice/block.h"
#include "sluice/permit.h"
#include "sluice/testing/store_conformance.h"
#include "stores/redis/client/command.h"
#include "tests/redis/store_test.h"

// RedisStore from the caller's view: the semantics of all stores, many threads, and failures.
namespace sluice_redis::redis_store_test {
namespace {

using namespace std::chrono_literals;
using sluice::Charge;
using sluice::Decision;
using sluice::Limit;
using sluice::Limiter;
using sluice::Reason;
using sluice::RedisOptions;
using sluice::RedisStore;
using sluice::RedisStoreStats;
using sluice::StoreEvent;
using sluice::StoreEventKind;
using sluice::testing::wait_until;

constexpr std::int64_t kNow = 1700000100000000;

// --- semantics of all stores ------------------------------------------------------------------

template <typename Servers>
void expect_conformance(Servers& servers, int protocol) {
  const auto make = [&](const sluice::Clock&) -> std::unique_ptr<sluice::Store> {
    flush(servers);
    return open_ready(patient(servers.url(), protocol));
  };
  const sluice::testing::StoreConformance conformance{.make = make,
                                                      .follows_clock = false,
                                                      .permits = true,
                                                      .budgets = true,
                                                      .threads = 4,
                                                      .requests_per_thread = 100};
  for (const auto& failure : sluice::testing::check_store(conformance)) {
    ADD_FAILURE() << failure;
  }
}

TEST(RedisStoreConformance, OnOneServerByResp2) {
  RedisServer server;
  expect_conformance(server, 2);
}

TEST(RedisStoreConformance, OnAClusterByResp3) {
  RedisCluster cluster;
  expect_conformance(cluster, 3);
}

// --- many threads -----------------------------------------------------------------------------

TEST(RedisStoreThreads, AdmitExactlyTheLimitOfOneKey) {
  RedisServer server;
  const auto store = open_ready(patient(server.url()));
  Limiter limiter(*store);
  const Limit limit = sluice::sliding_window_log(500).per(1h);
  std::atomic<int> admitted = 0;
  run_threads(8, [&](int) {
    for (int i = 0; i < 150; ++i) admitted += limiter.try_acquire("key", limit).allowed() ? 1 : 0;
  });
  EXPECT_EQ(admitted, 500);
  EXPECT_EQ(store->stats().requests, 1200u);
  EXPECT_EQ(store->stats().errors + store->stats().timeouts, 0u);
}

// More than the store wakes one by one: some share a place, and wake for each other's answers.
TEST(RedisStoreThreads, GetAnAnswerEachIfTheyAreMany) {
  RedisServer server;
  const auto store = open_ready(patient(server.url()));
  Limiter limiter(*store);
  const Limit limit = sluice::sliding_window_log(1000).per(1h);
  std::atomic<int> admitted = 0;
  run_threads(600, [&](int) {
    for (int i = 0; i < 3; ++i) admitted += limiter.try_acquire("key", limit).allowed() ? 1 : 0;
  });
  EXPECT_EQ(admitted, 1000);
  EXPECT_EQ(store->stats().requests, 1800u);
}

TEST(RedisStoreThreads, AdmitExactlyTheLimitOfEachOfManyKeys) {
  RedisServer server;
  const auto store = open_ready(patient(server.url()));
  Limiter limiter(*store);
  const Limit limit = sluice::sliding_window_log(50).per(1h);
  std::array<std::atomic<int>, 16> admitted{};
  run_threads(8, [&](int thread) {
    for (std::size_t i = 0; i < 160; ++i) {
      const std::size_t key = (i + static_cast<std::size_t>(thread)) % admitted.size();
      admitted[key] += limiter.try_acquire(std::to_string(key), limit).allowed() ? 1 : 0;
    }
  });
  for (const auto& of_key : admitted) EXPECT_EQ(of_key, 50);
}

// Requests on pairs of keys, mostly in different slots of different servers.
TEST(RedisStoreThreads, TakeAllOrNothingAcrossSlotsInTheEnd) {
  RedisCluster cluster;
  const auto store = open_ready(patient(cluster.url()));
  Limiter limiter(*store);
  const Limit limit = sluice::sliding_window_log(40).per(1h);
  std::array<std::atomic<std::uint32_t>, 6> admitted{};
  std::atomic<int> undecided = 0;
  run_threads(8, [&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < 120; ++i) {
      const std::size_t a = random() % 6;
      const std::size_t b = (a + 1 + random() % 5) % 6;
      const std::string keys[] = {std::to_string(a), std::to_string(b)};
      const std::array charges{Charge{keys[0], limit}, Charge{keys[1], limit}};
      const Decision decision = limiter.check(charges);
      if (decision.allowed()) ++admitted[a], ++admitted[b];
      undecided += decision.reason != Reason::kOk && decision.reason != Reason::kLimited ? 1 : 0;
    }
  });
  EXPECT_EQ(undecided, 0);
  EXPECT_GT(store->stats().gave_back, 0u);
  for (std::size_t key = 0; key < admitted.size(); ++key) {
    const Decision left = limiter.peek(std::to_string(key), limit, 0);
    EXPECT_LE(admitted[key], 40u);
    EXPECT_EQ(40u - left.remaining, admitted[key]) << "what is held must be what was admitted";
  }
}

// --- over slots -------------------------------------------------------------------------------

const std::vector<Limit>& limits_of_five() {
  static const std::vector<Limit> limits = {sluice::fixed_window(5).per(1h),
                                            sluice::sliding_window_log(5).per(1h),
                                            sluice::sliding_window_counter(5).per(1h),
                                            sluice::sliding_window_hybrid(5).per(1h),
                                            sluice::leaky_bucket(5).per(1h),
                                            sluice::token_bucket(5).per(1h),
                                            sluice::gcra(5).per(1h)};
  return limits;
}

TEST(RedisStoreOverSlots, LeavesTheCountersOfADeniedRequestAsTheyWere) {
  RedisCluster cluster;
  const auto store = open_ready(patient(cluster.url()));
  Limiter limiter(*store);
  const Limit one = sluice::sliding_window_log(1).per(1h);
  std::uint64_t undone = 0;
  ASSERT_TRUE(limiter.try_acquire("full", one, 1, at(kNow)).allowed());
  for (const Limit& five : limits_of_five()) {
    for (const std::string key : {"a", "b", "c", "d"}) {
      ASSERT_TRUE(limiter.try_acquire(key, five, 2, at(kNow)).allowed());
      const Decision before = limiter.peek(key, five, 0, at(kNow));
      const std::array charges{Charge{key, five, 2}, Charge{"full", one}};
      EXPECT_EQ(limiter.check(charges, {}, at(kNow)).reason, Reason::kLimited);
      EXPECT_EQ(limiter.peek(key, five, 0, at(kNow)), before)
          << key << " under " << to_string(five.algorithm());
      EXPECT_EQ(store->stats().gave_back, ++undone);
    }
  }
}

TEST(RedisStoreOverSlots, GiveBackNothingIfASettlementWouldNeedACounterThatMayNotBeCreated) {
  RedisCluster cluster;
  const auto store = open_ready(patient(cluster.url()));
  Limiter limiter(*store);
  for (const Limit& five : limits_of_five()) {
    for (const std::string key : {"a", "b", "c", "d"}) {
      ASSERT_TRUE(limiter.try_acquire(key, five, 4, at(kNow)).allowed());
      const Decision before = limiter.peek(key, five, 0, at(kNow));
      sluice::NewKeyLimit none(1);
      none.count(at(kNow));
      std::array charges{Charge{key, five, 1}, Charge{"new", five, 1}};
      charges[0].gives_back = true;
      charges[1].rule.new_keys = &none;
      EXPECT_EQ(limiter.apply(sluice::Verb::kCharge, charges, {}, at(kNow)).reason,
                Reason::kStoreFull);
      EXPECT_EQ(limiter.peek(key, five, 0, at(kNow)).remaining, before.remaining)
          << key << " under " << to_string(five.algorithm());
    }
  }
}

TEST(RedisStoreOverSlots, SendsOneCallForChargesThatShareATag) {
  RedisCluster cluster;
  const auto store = open_ready(patient(cluster.url()));
  Limiter limiter(*store);
  const Limit one = sluice::sliding_window_log(1).per(1h);
  const Limit five = sluice::token_bucket(5).per(1h);
  ASSERT_TRUE(limiter.apply(sluice::Verb::kTake, std::array{Charge{"full", one, 1, "tag"}}));
  const std::array charges{Charge{"a", five, 1, "tag"}, Charge{"full", one, 1, "tag"}};
  const auto requests = store->stats().requests;
  EXPECT_EQ(limiter.check(charges).reason, Reason::kLimited);
  EXPECT_EQ(store->stats().requests, requests + 1);
  EXPECT_EQ(store->stats().gave_back, 0u);
}

// Redis refuses calls with several keys meanwhile, unless all of them are on one server.
TEST(RedisStoreOverSlots, EnforcesLimitsAndBlocksExactlyWhileTheirSlotMoves) {
  RedisCluster cluster;
  const auto store = open_ready(patient(cluster.url()));
  Limiter limiter(*store);
  const sluice::Block block = *sluice::Block::make({.after = 1, .within = 1h, .time = 1h});
  const Limit limit = sluice::fixed_window(6).per(1h);
  const auto charge = [&](std::string_view user) {
    return Charge{
        .key = user, .limit = sluice::sliding_window_log(2).per(1h), .tag = "t", .block = &block};
  };
  const auto take = [&](std::string_view user) {
    return limiter.check(std::array{Charge{"all", limit, 1, "t"}, charge(user)});
  };
  const auto take_two = [&](std::string_view user) {
    EXPECT_EQ(take(user).reason, Reason::kOk);
    EXPECT_EQ(take(user).reason, Reason::kOk);
    EXPECT_EQ(take(user).reason, Reason::kLimited);
  };
  const int slot = sluice::redis::slot_of("{t}");
  const std::size_t from = cluster.master_of(slot);
  const std::size_t to = (from + 1) % 3;
  ASSERT_TRUE(take("old"));
  cluster.begin_move(slot, from, to);
  EXPECT_EQ(take("old").reason, Reason::kOk);
  EXPECT_EQ(take("old").reason, Reason::kLimited);
  take_two("new");
  cluster.move_key("sluice:f{t}all", from, to);
  EXPECT_EQ(take("old").reason, Reason::kLimited);
  EXPECT_EQ(take("new").reason, Reason::kLimited);
  EXPECT_EQ(take("newer").remaining, 1u);
  limiter.apply({sluice::Verb::kBlock, 1h}, std::array{charge("blocked")});
  EXPECT_EQ(take("blocked").reason, Reason::kBlocked);
  EXPECT_EQ(take("newer").remaining, 0u) << "of both limits: nothing else was taken";
  EXPECT_EQ(take("newest").reason, Reason::kLimited);
  cluster.move_key("sluice:l{t}old", from, to);
  cluster.end_move(slot, from, to);
  EXPECT_EQ(take("newest").reason, Reason::kLimited);
  EXPECT_EQ(take("blocked").reason, Reason::kBlocked);
}

TEST(RedisStoreOverSlots, HoldsOnePermitThatAnotherProcessReleases) {
  RedisCluster cluster;
  const auto store = open_ready(patient(cluster.url()));
  const auto other = open_ready(patient(cluster.url()));
  Limiter limiter(*store);
  const Limit two = sluice::concurrency(2).lease(1h);
  const std::array charges{Charge{"a", two, 2}, Charge{"b", two}, Charge{"c", two}};
  sluice::Permit permit(*store, charges, {});
  ASSERT_TRUE(permit);
  EXPECT_FALSE(sluice::Permit(*store, charges, {}));
  EXPECT_EQ(limiter.peek("b", two, 0).remaining, 1u) << "the denied permit is given back";
  const auto text = sluice::PermitText::parse(permit.detach());
  ASSERT_TRUE(text);
  EXPECT_TRUE(text->extend(*other));
  EXPECT_TRUE(text->release(*other));
  EXPECT_EQ(text->release(*other).reason, Reason::kGone);
  for (const char* const key : {"a", "b", "c"}) {
    EXPECT_EQ(limiter.peek(key, two, 0).remaining, 2u);
  }
}

// --- failures ---------------------------------------------------------------------------------

class Events final : public sluice::StoreObserver {
 public:
  void on(const StoreEvent& event) noexcept override {
    const std::lock_guard lock(mutex_);
    seen_.emplace_back(event.kind, event.endpoint);
  }
  std::vector<std::string> endpoints_of(StoreEventKind kind) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> out;
    for (const auto& [seen, endpoint] : seen_) {
      if (seen == kind) out.push_back(endpoint);
    }
    return out;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<StoreEventKind, std::string>> seen_;
};

TEST(RedisStoreFaults, ReportAnErrorOnceWithItsEndpoint) {
  RedisServer server;
  for (const bool scripting : {true, false}) {
    Events events;
    RedisOptions options = patient(server.url());
    options.scripting = scripting;
    const auto store = open_ready(options, &events);
    Limiter limiter(*store);
    const Limit limit = sluice::fixed_window(5).per(1h).aligned_to_clock();
    const char* const key =
        scripting ? "sluice:f{}key" : "sluice:F{key}!:3600000000/1:472222";  // of kNow
    RedisConnection(server).run({"LPUSH", key, "mine"});
    EXPECT_EQ(limiter.try_acquire("key", limit, 1, at(kNow)).reason, Reason::kForeignValue);
    EXPECT_EQ(events.endpoints_of(StoreEventKind::kRequestFailed),
              std::vector<std::string>{server.socket()});
    EXPECT_EQ(store->stats().errors, 1u);
  }
}

// Stops the server until a request has no answer by its deadline. A request that is not sent by its
// deadline fails with another reason.
void expect_timeout(RedisServer& server, Limiter& limiter, const Limit& limit, sluice::Verb verb) {
  wait_until("a request has no answer by its deadline", [&] {
    wait_until("it answers", [&] { return limiter.peek("key", limit).reason == Reason::kOk; });
    server.pause();
    const Reason reason = limiter.apply(verb, std::array{Charge{"key", limit}}).reason;
    server.resume();
    EXPECT_TRUE(reason == Reason::kStoreTimeout || reason == Reason::kStoreError);
    return reason == Reason::kStoreTimeout;
  });
}

TEST(RedisStoreFaults, EndARequestAtItsDeadlineIfTheServerStops) {
  RedisServer server;
  RedisOptions options = patient(server.url());
  options.deadline = 100ms;
  for (const bool scripting : {true, false}) {
    options.scripting = scripting;
    const auto store = open_ready(options);
    Limiter limiter(*store);
    const Limit limit = sluice::fixed_window(5).per(1h).aligned_to_clock();
    expect_timeout(server, limiter, limit, sluice::Verb::kTake);
    expect_timeout(server, limiter, limit, sluice::Verb::kRefund);
    EXPECT_GE(store->stats().timeouts, 2u);
    wait_until("it answers again",
               [&] { return limiter.peek("key", limit, 0).reason == Reason::kOk; });
  }
}

void expect_end_of_all_callers(RedisServer& server, const RedisOptions& options) {
  auto store = open_ready(options);
  Limiter limiter(*store);
  const Limit limit = sluice::fixed_window(5).per(1h).aligned_to_clock();
  server.pause();
  std::atomic<int> told = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const Reason reason = limiter.try_acquire("key", limit).reason;
      told += reason == Reason::kStoreTimeout || reason == Reason::kStoreError ? 1 : 0;
    });
  }
  const std::size_t commands = options.scripting ? 8 : 16;  // one SET and one INCRBY per request
  wait_until("all are under way", [&] { return store->stats().pending == commands; });
  store.reset();
  for (std::thread& caller : callers) caller.join();  // the deadline would end them in 600 s
  server.resume();
  EXPECT_EQ(told, 8);
}

TEST(RedisStoreFaults, EndTheRequestsUnderWayWhenTheStoreIsDestroyed) {
  RedisServer server;
  RedisOptions options = patient(server.url());
  options.deadline = 600s;
  for (const bool scripting : {true, false}) {
    options.scripting = scripting;
    for (int i = 0; i < 10; ++i) expect_end_of_all_callers(server, options);
  }
}

TEST(RedisStoreFaults, EndWaitingForAServerWhenTheStoreIsDestroyed) {
  RedisOptions options = patient("redis+unix:///nowhere/redis.sock");
  auto store = RedisStore::open(options).value();
  RedisStore& inside = *store;
  std::atomic<pid_t> id = 0;
  std::string why;
  std::thread waiter([&] {
    id = gettid();
    why = inside.wait_until_ready(600s).error();
  });
  wait_until("the thread sleeps in the call", [&] {
    std::ifstream stat("/proc/self/task/" + std::to_string(id) + "/stat");
    std::string text;
    std::getline(stat, text);
    return id != 0 && text.find(") S ") != std::string::npos;
  });
  store.reset();
  waiter.join();
  EXPECT_FALSE(why.empty());
}

TEST(RedisStoreFaults, ReportWhyTheStoreIsNotReadyUntilItIs) {
  RedisServer server;
  server.kill_now();
  const auto store = RedisStore::open(patient(server.url())).value();
  Limiter limiter(*store);
  EXPECT_EQ(limiter.try_acquire("key", sluice::token_bucket(5).per(1h)).reason,
            Reason::kStoreError);  // the first attempt to connect has failed
  const auto ready = store->wait_until_ready(0ms);
  ASSERT_FALSE(ready);
  EXPECT_NE(ready.error().find(server.socket()), std::string::npos) << ready.error();
  server.start();
  EXPECT_TRUE(store->wait_until_ready(sluice::testing::kPatience));
  EXPECT_TRUE(limiter.try_acquire("key", sluice::token_bucket(5).per(1h)));
}

TEST(RedisStore, CountsItsRequestsAndConnections) {
  RedisServer server;
  const auto store = open_ready(patient(server.url()));
  Limiter limiter(*store);
  const Limit limit = sluice::token_bucket(5).per(1h);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(limiter.try_acquire("key", limit));
  const RedisStoreStats stats = store->stats();
  EXPECT_EQ(stats.requests, 3u);
  EXPECT_EQ(stats.connects, 1u);
  EXPECT_EQ(stats.connected, 1u);
  EXPECT_EQ(stats.scripts_sent, 1u);
  EXPECT_EQ(stats.errors + stats.timeouts + stats.redirects + stats.gave_back, 0u);
  EXPECT_EQ(stats.pending, 0u);
}

}  // namespace
}  // namespace sluice_redis::redis_store_test

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "sluice/limiter.h"
#include "tests/redis/client_probe.h"
#include "tests/redis/plan_store.h"
#include "tests/redis/redis_server.h"

// sluice.so in a real server: what its clients can send, and what other servers see of it.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Charge;
using sluice::Limit;
using sluice::testing::wait_until;

const std::vector<std::string> kLoad = {"--loadmodule", SLUICE_MODULE_FILE};

std::string said(RedisConnection& redis, std::initializer_list<std::string_view> words) {
  return RedisConnection::text(redis.run(words));
}
long long number(RedisConnection& redis, std::initializer_list<std::string_view> words) {
  return redis.run(words)->integer;
}

std::vector<std::string> loading(std::vector<std::string> more) {
  more.insert(more.end(), kLoad.begin(), kLoad.end());
  return more;
}

// Returns a request of the module for one take, and its key.
struct Sent {
  std::string key;
  std::string request;
};
Sent sent_for(const Limit& limit) {
  sluice::redis::Plan plan;
  PlainCommand command;
  const Charge charge{.key = "key", .limit = limit};
  EXPECT_TRUE(plan.begin({.prefix = "s:", .uses_module = true}, sluice::Verb::kTake, {&charge, 1},
                         std::nullopt));
  plan.write(0, command);
  const std::string& bytes = command.for_module;
  // *3, SLUICE.APPLY, the key, the request
  const auto element = [&](std::size_t& at) {
    const std::size_t end = bytes.find("\r\n", at);
    const std::size_t size = std::stoul(bytes.substr(at + 1, end - at - 1));
    std::string text = bytes.substr(end + 2, size);
    at = end + 2 + size + 2;
    return text;
  };
  std::size_t at = bytes.find("\r\n") + 2;
  element(at);
  Sent sent;
  sent.key = element(at);
  sent.request = element(at);
  return sent;
}

std::vector<Limit> some_limits() {
  return {sluice::token_bucket(10).per(1min),
          sluice::token_bucket(10).per(1min).refilled_at_intervals(),
          sluice::gcra(10).per(1h),
          sluice::fixed_window(10).per(1min),
          sluice::sliding_window_counter(10).per(1min),
          sluice::sliding_window_log(10).per(1min),
          sluice::sliding_window_log(1000).per(1min),
          sluice::sliding_window_hybrid(10).per(1min)};
}

TEST(Module, RefusesOtherRequests) {
  const RedisServer server(kLoad);
  RedisConnection redis(server);
  const Sent sent = sent_for(some_limits()[0]);
  const std::string malformed = "ERR the request is malformed, or of a later version";
  const std::string few = said(redis, {"SLUICE.APPLY", "k"});
  EXPECT_TRUE(few.starts_with("ERR wrong number of arguments for ")) << few;
  EXPECT_EQ(said(redis, {"SLUICE.APPLY", "k", ""}), malformed);
  EXPECT_EQ(said(redis, {"SLUICE.APPLY", "k", "x" + sent.request}), malformed);
  EXPECT_EQ(said(redis, {"SLUICE.APPLY", "k", "l", sent.request}), malformed);
  EXPECT_EQ(number(redis, {"DBSIZE"}), 0);
}

// Returns whether `words` on another connection end a transaction that watches `key`.
bool ends_watch(const RedisServer& server, std::string_view key,
                std::initializer_list<std::string_view> words) {
  RedisConnection watcher(server), other(server);
  watcher.run({"WATCH", key});
  other.run(words);
  watcher.run({"MULTI"});
  watcher.run({"PING"});
  return watcher.run({"EXEC"})->type == Reply::kNil;
}

TEST(Module, OnlyAChangeOfAKeyEndsATransactionThatWatchesIt) {
  const RedisServer server(kLoad);
  EXPECT_FALSE(ends_watch(server, "k", {"RL.PEEK", "LIMIT", "k", "token_bucket", "2", "1h"}));
  EXPECT_FALSE(ends_watch(server, "k", {"CL.THROTTLE", "k", "1", "1", "3600", "9"}));
  EXPECT_TRUE(ends_watch(server, "k", {"CL.THROTTLE", "k", "1", "1", "3600"}));
  EXPECT_TRUE(ends_watch(server, "k", {"CL.THROTTLE", "k", "1", "1", "3600"}));
  EXPECT_FALSE(ends_watch(server, "k", {"CL.THROTTLE", "k", "1", "1", "3600"})) << "denied";
  EXPECT_FALSE(ends_watch(server, "k", {"CL.THROTTLE", "k", "1", "1", "3600", "0"}));
  EXPECT_FALSE(ends_watch(server, "k", {"RL.PEEK", "LIMIT", "k", "gcra", "1", "1h"}));
  EXPECT_TRUE(ends_watch(server, "k", {"CL.THROTTLE", "k", "1", "1", "3600", "-1"}));
  EXPECT_TRUE(ends_watch(server, "k", {"RL.RESET", "LIMIT", "k", "gcra", "1", "1h"}));
  const std::vector<std::string_view> algorithms = {"sliding_window_log", "sliding_window_counter"};
  for (const std::string_view algorithm : algorithms) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(ends_watch(server, algorithm, {"RL.LIMIT", algorithm, algorithm, "2", "1h"}));
      EXPECT_FALSE(
          ends_watch(server, algorithm, {"RL.PEEK", "LIMIT", algorithm, algorithm, "2", "1h"}));
    }
  }
}

// --- the throttle commands ---

// Returns "[0,16,15,-1,2]", or the error.
std::string throttled(RedisConnection& redis, std::initializer_list<std::string_view> words) {
  const Reply reply = redis.run(words);
  if (reply->type != Reply::kArray) return RedisConnection::text(reply);
  std::string text;
  for (std::size_t i = 0; i < reply->count; ++i) {
    text += (i == 0 ? "" : ",") + std::to_string((*reply)[i].integer);
  }
  return "[" + text + "]";
}

TEST(ModuleThrottle, AnswersTheExamplesOfRedisCell) {
  const RedisServer server(kLoad);
  RedisConnection redis(server);
  for (const std::string_view command : {"CL.THROTTLE", "rl.throttle"}) {
    redis.run({"FLUSHALL"});
    EXPECT_EQ(throttled(redis, {command, "a", "15", "30", "60"}), "[0,16,15,-1,2]");
    EXPECT_EQ(throttled(redis, {command, "a", "15", "30", "60"}), "[0,16,14,-1,4]");
    EXPECT_EQ(throttled(redis, {command, "b", "0", "1", "2"}), "[0,1,0,-1,2]");
    EXPECT_EQ(throttled(redis, {command, "b", "0", "1", "2"}), "[1,1,0,2,2]");
    EXPECT_EQ(throttled(redis, {command, "c", "4", "1", "1", "6"}), "[1,5,5,-1,0]");
    EXPECT_EQ(number(redis, {"EXISTS", "c"}), 0);
    EXPECT_EQ(throttled(redis, {command, "c", "4", "1", "1", "3"}), "[0,5,2,-1,3]");
    EXPECT_EQ(throttled(redis, {command, "c", "4", "1", "1", "-1"}), "[0,5,3,-1,2]");
    EXPECT_EQ(throttled(redis, {command, "c", "4", "1", "1", "0"}), "[0,5,3,-1,2]");
  }
}

TEST(ModuleThrottle, SharesACounterWithItsOtherNamesAndWithTheStores) {
  const RedisServer server(kLoad);
  RedisConnection redis(server);
  EXPECT_EQ(throttled(redis, {"GCRA", "s:g{}key", "9", "10", "3600.5", "TOKENS", "4"}),
            "[0,10,6,-1,1441]");
  // The fourth number is 4,680 s less what has passed since the first command, without a fraction.
  const std::string crab = throttled(redis, {"THROTTLE", "s:g{}key", "10", "10", "3600"});
  EXPECT_TRUE(crab.starts_with("[1,10,5,4") && crab.ends_with(",0]")) << crab;
  const Sent sent = sent_for(sluice::gcra(10).per(1h));
  ASSERT_EQ(sent.key, "s:g{}key");
  redis.run({"SLUICE.APPLY", sent.key, sent.request});
  EXPECT_EQ(throttled(redis, {"CL.THROTTLE", "s:g{}key", "9", "10", "3600", "5"}),
            "[1,10,4,360,2160]");
}

TEST(ModuleThrottle, RefusesOtherValuesAndArguments) {
  const RedisServer server(kLoad);
  RedisConnection redis(server);
  redis.run({"RPUSH", "list", "1"});
  redis.run({"SET", "text", "hello"});
  EXPECT_EQ(throttled(redis, {"CL.THROTTLE", "list", "1", "1", "1"}),
            "WRONGTYPE Operation against a key holding the wrong kind of value");
  EXPECT_EQ(throttled(redis, {"CL.THROTTLE", "text", "1", "1", "1"}),
            "ERR FOREIGNVALUE text holds a value of another kind or version");
  EXPECT_EQ(said(redis, {"GET", "text"}), "hello");
  EXPECT_EQ(throttled(redis, {"GCRA", "k", "1", "1", "1", "2"}),
            "ERR there is no option '2'; expected TOKENS count");
}

// What one server has counted, another without the module reads.
class ModulePersistence : public ::testing::Test {
 protected:
  // Takes with every limit, until one is denied.
  static void use(const RedisServer& server) {
    RedisConnection redis(server);
    for (const Limit& limit : some_limits()) {
      const Sent sent = sent_for(limit);
      for (int i = 0; i < 12; ++i) redis.run({"SLUICE.APPLY", sent.key, sent.request});
    }
  }
  static std::string dump(const RedisServer& server) {
    RedisConnection redis(server);
    wait_until("the server has loaded its data",
               [&] { return !said(redis, {"GET", "any"}).starts_with("LOADING"); });
    std::string all;
    for (const Limit& limit : some_limits()) {
      const std::string key = sent_for(limit).key;
      all += said(redis, {"GET", key}) + "|";
      EXPECT_GT(number(redis, {"PTTL", key}), 0) << key;
    }
    return all;
  }
};

TEST_F(ModulePersistence, InAnAppendOnlyFile) {
  RedisServer server(loading({"--appendonly", "yes", "--appendfsync", "always"}));
  use(server);
  const std::string before = dump(server);
  server.kill_now();
  const RedisServer other({"--dir", server.folder(), "--appendonly", "yes"});
  EXPECT_EQ(dump(other), before);
}

TEST_F(ModulePersistence, InAFileOfTheServer) {
  RedisServer server(kLoad);
  use(server);
  const std::string before = dump(server);
  RedisConnection(server).run({"SAVE"});
  server.kill_now();
  const RedisServer other({"--dir", server.folder()});
  EXPECT_EQ(dump(other), before);
}

TEST_F(ModulePersistence, OnAReplicaWithoutTheModule) {
  std::string port;
  const auto master = on_free_port([&](std::uint16_t number) {
    port = std::to_string(number);
    return std::make_unique<RedisServer>(loading({"--port", port}));
  });
  const RedisServer& server = *master;
  const RedisServer replica({"--replicaof", "127.0.0.1", port});
  RedisConnection reader(replica);
  wait_until("the replica is in step", [&] {
    return said(reader, {"INFO", "replication"}).find("master_link_status:up") != std::string::npos;
  });
  use(server);
  // On one connection: WAIT is about its own writes.
  RedisConnection writer(server);
  writer.run({"SET", "last", "1"});
  EXPECT_EQ(number(writer, {"WAIT", "1", "60000"}), 1);
  EXPECT_EQ(dump(replica), dump(server));
  for (const Limit& limit : some_limits()) {
    const std::string key = sent_for(limit).key;
    EXPECT_EQ(number(reader, {"PEXPIRETIME", key}), number(writer, {"PEXPIRETIME", key}));
  }
}

// --- damaged values ---------------------------------------------------------------------------

// A counter whose value is damaged, which the scripts and the module both decide.
class Damaged {
 public:
  Damaged(const RedisServer& server, Limit limit)
      : scripts_(server), module_(server), limit_(std::move(limit)) {}

  // Makes the value by takes of these units, a second apart. Returns it.
  std::string make(const std::vector<std::uint64_t>& costs) {
    PlanStore store(scripts_, "");
    for (const std::uint64_t cost : costs) {
      const sluice::PermitId id = permit(++takes_);
      const Charge charge{.key = "k", .limit = limit_, .cost = cost, .permit = &id};
      sluice::Decision each;
      store.apply(sluice::Verb::kTake, {&charge, 1}, at(takes_), {&each, 1});
    }
    key_ = std::string(1, info(limit_.algorithm()).letter) + "{}k";
    return value();
  }
  // Returns what one of them answers, and the value that it leaves.
  std::string decide(bool by_module, const std::string& bytes, sluice::Verb verb,
                     std::uint64_t cost, int seconds) {
    scripts_.run({"SET", key_, bytes});
    const sluice::PermitId id = permit(2);
    const Charge charge{.key = "k", .limit = limit_, .cost = cost, .permit = &id};
    sluice::redis::Plan plan;
    PlainCommand command;
    EXPECT_TRUE(
        plan.begin({.prefix = "", .uses_module = true}, {verb, 1h}, {&charge, 1}, at(seconds)));
    plan.write(0, command);
    std::string said;
    if (by_module) {
      module_.append_raw(command.for_module);
      said = RedisConnection::text(module_.next());
    } else {
      scripts_.send_script(command);
      said = RedisConnection::text(scripts_.next());
    }
    const bool is_foreign = said.find("FOREIGNVALUE") != said.npos;
    return (is_foreign ? "FOREIGNVALUE" : said) + value();
  }

 private:
  static sluice::PermitId permit(int number) {
    sluice::PermitId::Bytes bytes{};
    bytes[0] = static_cast<std::uint8_t>(number);
    return sluice::PermitId(bytes);
  }
  static sluice::Instant at(int seconds) {
    return sluice::Instant{std::chrono::seconds{1'700'000'000 + seconds}};
  }
  std::string value() { return scripts_.text({"GET", key_}); }

  ScriptConnection scripts_;
  RedisConnection module_;
  Limit limit_;
  std::string key_;
  int takes_ = 0;
};

// Where a script looks at all permits, it and the module refuse what contradicts the head.
TEST(Module, DecidesDamagedPermitsAsTheScriptsDo) {
  using enum sluice::Verb;
  const RedisServer server(kLoad);
  Damaged counter(server, sluice::concurrency(9).lease(60s));
  const std::string good = counter.make({2, 1, 3});
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {1, 3, 128, 255}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(static_cast<unsigned char>(bytes[i]) ^ change);
      for (const auto verb : {kTake, kPeek, kRefund, kTakeAtMost, kRelease, kExtend}) {
        for (const int seconds : {4, 60}) {
          EXPECT_EQ(counter.decide(true, bytes, verb, 2, seconds),
                    counter.decide(false, bytes, verb, 2, seconds))
              << "byte " << i << " ^ " << change << ", verb " << static_cast<int>(verb)
              << ", after " << seconds << " s";
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice_redis

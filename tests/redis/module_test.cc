#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/limiter.h"
#include "stores/redis/script/format.h"
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
  command.write(plan);
  const std::string bytes = command.for_module();
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
      : scripts_(server), module_(server), limit_(limit) {}

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
    command.write(plan);
    std::string said;
    if (by_module) {
      module_.append_raw(command.for_module());
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

// Expects that the module and the scripts answer alike and leave the same value.
void expect_same(Damaged& counter, const std::string& bytes, const std::string& damage,
                 std::initializer_list<sluice::Verb> verbs,
                 std::initializer_list<std::uint64_t> costs, std::initializer_list<int> seconds) {
  for (const sluice::Verb verb : verbs) {
    for (const std::uint64_t cost : costs) {
      for (const int after : seconds) {
        EXPECT_EQ(counter.decide(true, bytes, verb, cost, after),
                  counter.decide(false, bytes, verb, cost, after))
            << damage << ", verb " << static_cast<int>(verb) << ", cost " << cost << ", after "
            << after << " s";
      }
    }
  }
}

// The bytes with one of them changed.
std::string flipped(std::string bytes, std::size_t i, int change) {
  bytes[i] = static_cast<char>(static_cast<unsigned char>(bytes[i]) ^ change);
  return bytes;
}

// Where a script looks at all permits, it and the module refuse what contradicts the head.
TEST(Module, DecidesDamagedPermitsAsTheScriptsDo) {
  using enum sluice::Verb;
  const RedisServer server(kLoad);
  Damaged counter(server, sluice::concurrency(9).lease(60s));
  const std::string good = counter.make({2, 1, 3});
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {1, 3, 128, 255}) {
      expect_same(counter, flipped(good, i, change),
                  "byte " + std::to_string(i) + " ^ " + std::to_string(change),
                  {kTake, kPeek, kRefund, kTakeAtMost, kRelease, kExtend}, {2}, {4, 60});
    }
  }
}

TEST(Module, DecidesDamagedHybridsAsTheScriptsDo) {
  using enum sluice::Verb;
  const RedisServer server(kLoad);
  Damaged counter(server, sluice::sliding_window_hybrid(20).per(60s));
  // The summary of a slice, and entries of the next one.
  const std::string good = counter.make({2, 1, 3, 1, 1, 2, 1, 1});
  for (std::size_t i = 0; i < good.size(); ++i) {
    expect_same(counter, flipped(good, i, i % 2 == 0 ? 1 : 128), "byte " + std::to_string(i),
                {kTake, kPeek, kRefund, kCharge, kTakeAtMost}, {1, 11}, {4, 9, 64});
  }
}

// A log of three entries, whose value a script reads as a whole, and its damages.
class DamagedLog : public ::testing::Test {
 protected:
  using Head = sluice::redis::format::LogHead;

  void expect_same(const std::string& bytes, const std::string& damage) {
    using enum sluice::Verb;
    sluice_redis::expect_same(counter_, bytes, damage,
                              {kTake, kPeek, kRefund, kCharge, kTakeAtMost, kReserve, kReset},
                              {1, 5}, {2, 4, 62});
  }
  void expect_foreign(const std::string& bytes, const std::string& damage) {
    for (const bool by_module : {true, false}) {
      EXPECT_EQ(counter_.decide(by_module, bytes, sluice::Verb::kTake, 1, 4),
                "FOREIGNVALUE" + bytes)
          << damage;
    }
    expect_same(bytes, damage);
  }
  std::string with_head(std::uint64_t Head::* member, std::uint64_t number) const {
    Head head = kHead.read(good_);
    head.*member = number;
    std::string bytes;
    kHead.append(head, bytes);
    return bytes + good_.substr(kHead.size());
  }
  // With another instant and sum in entry i, and in its copies in the head if `is_copied`.
  std::string with_entry(std::size_t i, std::int64_t later, std::int64_t more, bool is_copied) {
    const std::size_t at = kHead.size() + i * kEntry.size();
    auto entry = kEntry.read(std::string_view(good_).substr(at));
    entry.instant += static_cast<std::uint64_t>(later);
    entry.sum += static_cast<std::uint64_t>(more);
    Head head = kHead.read(good_);
    if (is_copied && i == 0) {
      head.oldest = entry.instant;
      head.first_sum = entry.sum;
    }
    if (is_copied && i == 2) {
      head.newest = entry.instant;
      head.after = entry.sum;
    }
    std::string bytes;
    kHead.append(head, bytes);
    bytes += good_.substr(kHead.size());
    std::string changed;
    kEntry.append(entry, changed);
    return bytes.replace(at, kEntry.size(), changed);
  }

  static constexpr auto kHead = sluice::redis::format::kLogHead;
  static constexpr auto kEntry = sluice::redis::format::kLogEntry;
  const RedisServer server_{kLoad};
  Damaged counter_{server_, sluice::sliding_window_log(9).per(60s)};
  const std::string good_ = counter_.make({2, 1, 3});
};

TEST_F(DamagedLog, IsDecidedAlikeWithAnyByteChanged) {
  expect_same(good_, "no damage");
  for (std::size_t i = 0; i < good_.size(); ++i) {
    std::string bytes = good_;
    bytes[i] = static_cast<char>(static_cast<unsigned char>(bytes[i]) ^ (i % 2 == 0 ? 1 : 128));
    expect_same(bytes, "byte " + std::to_string(i));
  }
}

TEST_F(DamagedLog, IsRefusedIfItIsShorterOrLonger) {
  for (std::size_t size = 1; size < good_.size(); size += 3) {
    expect_foreign(good_.substr(0, size), "the first " + std::to_string(size) + " bytes");
  }
  expect_foreign(good_ + '\0', "a byte more");
  expect_foreign(good_ + good_.substr(good_.size() - kEntry.size()), "an entry more");
  expect_foreign(good_ + std::string(10'000, '\0'), "10,000 bytes more");
}

TEST_F(DamagedLog, IsRefusedWithImpossibleCounts) {
  for (const std::uint64_t number : {1, 2, 4, 17, 0xFFFF}) {
    const std::string what = " is " + std::to_string(number);
    expect_foreign(with_head(&Head::space, number), "space" + what);
    expect_foreign(with_head(&Head::summaries, number), "summaries" + what);
    expect_foreign(with_head(&Head::room, number), "room" + what);
    if (number < 256) expect_foreign(with_head(&Head::back, number), "back" + what);
    if (number > 3) expect_foreign(with_head(&Head::count, number), "count" + what);
    expect_foreign(with_head(&Head::first_sum, number + 2), "the first sum" + what + " and 2");
    expect_same(with_head(&Head::before, number), "the sum before" + what);
    expect_same(with_head(&Head::head, number), "head" + what);
  }
  expect_foreign(with_head(&Head::after, 7), "the last sum is 7");
  expect_foreign(with_head(&Head::before, 6), "entries without units");
}

TEST_F(DamagedLog, IsDecidedAlikeWithInstantsAndSumsOutOfOrder) {
  for (std::size_t i = 0; i < 3; ++i) {
    for (const bool is_copied : {true, false}) {
      const std::string where = "entry " + std::to_string(i) + (is_copied ? " and head " : " ");
      for (const std::int64_t seconds : {-3600, -60, -1, 1, 2, 5, 3600}) {
        expect_same(with_entry(i, seconds * 1'000'000, 0, is_copied),
                    where + std::to_string(seconds) + " s later");
      }
      for (const std::int64_t units : {-6, -1, 1, 2, 100, 1 << 30}) {
        expect_same(with_entry(i, 0, units, is_copied), where + std::to_string(units) + " units");
      }
    }
  }
  expect_foreign(with_entry(2, 3'600'000'000, 0, true), "the newest is in the future");
}

}  // namespace
}  // namespace sluice_redis

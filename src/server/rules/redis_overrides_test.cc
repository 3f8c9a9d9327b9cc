#include "server/rules/server_overrides.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <functional>

#include "server/net/fiber.h"
#include "stores/redis/client/target.h"
#include "stores/redis/store/test_client.h"
#include "tests/redis/redis_cluster.h"
#include "tests/redis/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::server {
namespace {

using redis::AnsweredClient;
using sluice_redis::RedisServer;
using std::chrono::milliseconds;

constexpr std::string_view kKey = "d|r|l|k=1";

struct Does : net::FiberJob {
  explicit Does(std::function<void()> what)
      : FiberJob{std::move(what), [this] { is_done = true; }} {}

  bool is_done = false;
};

// A server of a fleet: follows the overrides, and changes them on a fiber.
class Member {
 public:
  explicit Member(const RedisServer& server) : Member(server.url()) {}
  explicit Member(const std::string& url)
      : overrides(redis::make_target({.url = url, .deadline = testing::kPatience}).value(),
                  milliseconds(5)) {
    overrides.follow(
        loop_, [this](std::string_view why) { troubles.emplace_back(why); },
        [this](ServerOverrides::Entries all) { lost.push_back(all.size()); });
  }
  ~Member() { overrides.stop(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Runs the loop until the condition holds: see wait_until().
  void until(const std::string& what, const std::function<bool()>& holds) {
    testing::wait_until(what, holds, [this] { loop_.run_one_for(milliseconds(10)); });
  }
  void run(std::function<void()> what) {
    Does job(std::move(what));
    ASSERT_TRUE(fibers.run(job));
    until("the fiber has ended", [&] { return job.is_done; });
  }
  // Tries again until there is a connection.
  void set(std::uint64_t limit) {
    until("the override is set", [&] {
      bool is_set = false;
      run([&] { is_set = overrides.set(kKey, {.limit = limit}).has_value(); });
      return is_set;
    });
  }
  void follow(std::uint64_t limit) {
    until("the override is read", [&] { return this->limit() == limit; });
  }
  std::uint64_t limit() const {
    const auto found = overrides.all().find(kKey);
    return found ? found->limit : 0;
  }

 private:
  boost::asio::io_context loop_{1};

 public:
  std::vector<std::string> troubles;
  std::vector<std::uint64_t> lost;
  RedisOverrides overrides;
  net::FiberPool fibers{{}};
};

class RedisOverridesTest : public ::testing::Test {
 protected:
  RedisServer server_;
  Member first_{server_}, second_{server_};
  AnsweredClient client_;  // of another loop of the first server
};

TEST_F(RedisOverridesTest, ALateReplyDoesNotUndoAChangeThatWasRead) {
  Does job([&] { EXPECT_TRUE(first_.overrides.set_through(&client_, kKey, {.limit = 1})); });
  ASSERT_TRUE(first_.fibers.run(job));
  second_.set(1);  // the change number 1, which Redis has made for the first server
  second_.set(2);
  first_.follow(2);
  client_.answer(":1\r\n");
  EXPECT_TRUE(job.is_done);
  EXPECT_EQ(first_.limit(), 2U);
}

TEST_F(RedisOverridesTest, ALateReplyDoesNotRemoveWhatWasSetSince) {
  second_.set(1);
  Does job([&] { EXPECT_EQ(first_.overrides.unset_through(&client_, kKey).value()->limit, 1U); });
  ASSERT_TRUE(first_.fibers.run(job));
  second_.run([&] { EXPECT_TRUE(second_.overrides.unset(kKey)); });
  second_.set(3);
  first_.follow(3);
  client_.answer("*2\r\n:2\r\n$7\r\nlimit=1\r\n");
  EXPECT_TRUE(job.is_done);
  EXPECT_EQ(first_.limit(), 3U);
}

TEST_F(RedisOverridesTest, AChangeReturnsWhatAnotherServerHasSet) {
  first_.set(1);
  first_.follow(1);
  second_.set(2);
  first_.run([&] {
    EXPECT_EQ(first_.limit(), 1U) << "it has not read the change";
    EXPECT_EQ(first_.overrides.set(kKey, {.limit = 3}).value()->limit, 2U);
  });
  second_.run([&] {
    EXPECT_EQ(second_.overrides.unset(kKey).value()->limit, 3U);
    EXPECT_FALSE(second_.overrides.unset(kKey).value());
    EXPECT_FALSE(second_.overrides.set(kKey, {.limit = 4}).value());
    const Override ended{.limit = 5, .until = Instant{Duration{1}}};
    EXPECT_EQ(second_.overrides.set(kKey, ended).value()->limit, 4U);
    EXPECT_FALSE(second_.overrides.unset(kKey).value());
  });
}

TEST_F(RedisOverridesTest, AChangeSaysIfWhatItReplacedCannotBeRead) {
  std::string error;
  Does job([&] { error = first_.overrides.unset_through(&client_, kKey).error(); });
  ASSERT_TRUE(first_.fibers.run(job));
  client_.answer("*2\r\n:1\r\n$7\r\nlater=1\r\n");
  EXPECT_NE(error.find("the change was made, but what was there before cannot be read: 'later=1'"),
            std::string::npos)
      << error;
}

TEST_F(RedisOverridesTest, AReplyFromBeforeALossOfDataChangesNothing) {
  Does job([&] { EXPECT_TRUE(first_.overrides.set_through(&client_, kKey, {.limit = 1})); });
  ASSERT_TRUE(first_.fibers.run(job));
  sluice_redis::RedisConnection(server_).run({"FLUSHALL"});
  second_.set(2);
  first_.follow(2);
  client_.answer(":100\r\n");
  EXPECT_EQ(first_.limit(), 2U);
}

TEST_F(RedisOverridesTest, AChangeThatWasNotReadCountsAtOnce) {
  second_.set(1);
  first_.follow(1);
  Does job([&] { EXPECT_TRUE(first_.overrides.set_through(&client_, kKey, {.limit = 9})); });
  ASSERT_TRUE(first_.fibers.run(job));
  client_.answer(":2\r\n");
  EXPECT_EQ(first_.limit(), 9U);
}

TEST_F(RedisOverridesTest, SaysHowManyAreLost) {
  second_.set(1);
  second_.run([&] { EXPECT_TRUE(second_.overrides.set("d|r|l|k=2", {.limit = 2})); });
  second_.run([&] { EXPECT_TRUE(second_.overrides.set("d|r|l|k=3", {.limit = 3})); });
  second_.run([&] { EXPECT_TRUE(second_.overrides.unset("d|r|l|k=3")); });
  const auto have = [](const Member& member, std::size_t count) {
    return member.overrides.all().size() == count;
  };
  first_.until("the overrides are read", [&] { return have(first_, 2); });
  sluice_redis::RedisConnection redis(server_);
  redis.run({"XTRIM", "sluice:{overrides}:changes", "MAXLEN", "0"});
  redis.run({"HDEL", "sluice:{overrides}", "d|r|l|k=2"});
  redis.run({"HINCRBY", "sluice:{overrides}:head", "number", "1"});
  first_.until("a scan has removed one", [&] { return have(first_, 1); });
  EXPECT_TRUE(first_.lost.empty()) << "somebody has removed it";
  redis.run({"FLUSHALL"});
  first_.until("a scan has removed the other", [&] { return have(first_, 0); });
  first_.until("the loss is reported", [&] { return !first_.lost.empty(); });
  EXPECT_EQ(first_.lost, std::vector<std::uint64_t>{1});
}

TEST_F(RedisOverridesTest, SaysHowManyAnOldCopyOfTheDataLacks) {
  sluice_redis::RedisConnection redis(server_);
  first_.set(1);
  const auto number = [&] {
    return redis.text(redis.run({"HGET", "sluice:{overrides}:head", "number"}));
  };
  EXPECT_EQ(number(), "1");
  first_.run([&] { EXPECT_TRUE(first_.overrides.set("d|r|l|k=2", {.limit = 2})); });
  second_.until("both are read", [&] { return second_.overrides.all().size() == 2; });
  redis.run({"MULTI"});  // what an older file of Redis has
  redis.run({"HDEL", "sluice:{overrides}", "d|r|l|k=2"});
  redis.run({"HSET", "sluice:{overrides}:head", "number", "1"});
  redis.run({"XTRIM", "sluice:{overrides}:changes", "MAXLEN", "1"});
  redis.run({"EXEC"});
  second_.until("the loss is reported", [&] { return !second_.lost.empty(); });
  EXPECT_EQ(second_.lost, std::vector<std::uint64_t>{1});
  EXPECT_EQ(second_.overrides.all().size(), 1U);
}

TEST(RedisOverridesOfACluster, AreAllReadIfTheirSlotMovesMeanwhile) {
  constexpr std::size_t kCount = 5000;
  constexpr std::string_view kAll = "sluice:{overrides}";
  sluice_redis::RedisCluster cluster;
  const int slot = redis::slot_of(kAll);
  const std::size_t from = cluster.master_of(slot);
  const std::size_t to = (from + 1) % cluster.size();
  sluice_redis::RedisConnection redis(cluster.node(from));
  for (std::size_t i = 0; i < kCount; ++i) {
    redis.run({"HSET", kAll, "d|r|l|k=" + std::to_string(i), "limit=1"});
  }
  Member member(cluster.url());
  member.until("a page is read", [&] { return member.overrides.all().size() > 0; });
  EXPECT_FALSE(member.overrides.is_read());
  cluster.begin_move(slot, from, to);
  cluster.move_key(kAll, from, to);
  cluster.end_move(slot, from, to);
  member.until("all are read", [&] { return member.overrides.is_read(); });
  EXPECT_EQ(member.overrides.all().size(), kCount);
}

// What another server has when Redis comes back with the data from before the latest change.
class AfterOlderData : public RedisOverridesTest {
 protected:
  static constexpr const char* kLost = "d|r|l|k=2";

  // Redis loses the change number 2, which both know.
  void SetUp() override {
    first_.set(1);
    copy("", ".old");
    first_.run([&] { EXPECT_TRUE(first_.overrides.set(kLost, {.limit = 2})); });
    for (Member* member : {&first_, &second_}) {
      member->until("both are read", [&] { return member->overrides.all().size() == 2; });
    }
    copy(".old", "");
  }
  void copy(const std::string& from, const std::string& to) {
    sluice_redis::RedisConnection redis(server_);
    for (const std::string key : {"", ":changes", ":head"}) {
      const std::string name = "sluice:{overrides}" + key;
      redis.run({"COPY", name + from, name + to, "REPLACE"});
    }
  }
  void expect_new_data(Member& member) {
    member.until("the loss is reported", [&] { return !member.lost.empty(); });
    EXPECT_EQ(member.lost, std::vector<std::uint64_t>{1});
    EXPECT_FALSE(member.overrides.all().find(kLost));
    EXPECT_EQ(member.overrides.all().find("d|r|l|k=3")->limit, 3U);
  }
};

TEST_F(AfterOlderData, AChangeWithTheNumberOfALostOneIsSeen) {
  Member third(server_);
  third.until("it has read", [&] { return third.limit() == 1; });
  third.run([&] { EXPECT_TRUE(third.overrides.set("d|r|l|k=3", {.limit = 3})); });
  expect_new_data(first_);
  expect_new_data(second_);
}

TEST_F(AfterOlderData, ChangesAfterALostOneAreSeen) {
  Member third(server_);
  third.until("it has read", [&] { return third.limit() == 1; });
  third.run([&] { EXPECT_TRUE(third.overrides.set("d|r|l|k=3", {.limit = 3})); });
  third.run([&] { EXPECT_TRUE(third.overrides.set("d|r|l|k=4", {.limit = 4})); });
  second_.run([&] { EXPECT_TRUE(second_.overrides.set("d|r|l|k=5", {.limit = 5})); });
  expect_new_data(first_);
  expect_new_data(second_);
  EXPECT_EQ(second_.overrides.all().size(), 4U);
}

// Calls of a command, also those that failed.
int calls(const RedisServer& server, const std::string& command) {
  sluice_redis::RedisConnection redis(server);
  const std::string stats = redis.text(redis.run({"INFO", "commandstats"}));
  const std::string name = "cmdstat_" + command + ":calls=";
  const std::size_t at = stats.find(name);
  return at == stats.npos ? 0 : std::stoi(stats.substr(at + name.size()));
}

TEST_F(RedisOverridesTest, SaysThatTheFirstOfAllIsLost) {
  first_.until("Redis was asked", [&] { return calls(server_, "hmget") > 2; });
  Does job([&] { EXPECT_TRUE(first_.overrides.set_through(&client_, kKey, {.limit = 1})); });
  ASSERT_TRUE(first_.fibers.run(job));
  client_.answer(":1\r\n");  // by a Redis that then ended, and came back empty
  EXPECT_EQ(first_.limit(), 1U);
  first_.until("the loss is reported", [&] { return !first_.lost.empty(); });
  EXPECT_EQ(first_.lost, std::vector<std::uint64_t>{1});
  EXPECT_EQ(first_.limit(), 0U);
}

constexpr const char* kAll = "sluice:{overrides}";

// What Redis has of the counter; empty: nothing.
std::string text_in(const RedisServer& server, const std::string& counter) {
  sluice_redis::RedisConnection redis(server);
  return redis.text(redis.run({"HGET", kAll, counter}));
}

TEST_F(RedisOverridesTest, ThatHaveEndedAreRemovedFromRedis) {
  const auto entry = [](const char* counter, std::uint64_t limit) {
    return Overrides::Page::Entry{counter, {.limit = limit, .until = Instant{Duration{1}}}};
  };
  first_.set(1);
  const std::vector<Overrides::Page::Entry> all{entry("d|r|l|k=2", 2), entry("d|r|l|k=3", 3)};
  first_.run([&] { EXPECT_TRUE(first_.overrides.set_all(all, false)); });
  sluice_redis::RedisConnection(server_).run({"HSET", kAll, "d|r|l|k=3", "limit=9"});
  first_.overrides.drop_ended(Instant{Duration{2}});
  first_.until("it is removed", [&] { return text_in(server_, "d|r|l|k=2").empty(); });
  EXPECT_EQ(text_in(server_, "d|r|l|k=3"), "limit=9") << "it was set again";
  EXPECT_EQ(text_in(server_, std::string(kKey)), "limit=1");
}

TEST(RedisOverridesEnded, AreRemovedByAServerThatReadsThem) {
  const RedisServer server;
  sluice_redis::RedisConnection(server).run({"HSET", kAll, "d|r|l|k=1", "limit=5 until=1"});
  sluice_redis::RedisConnection(server).run({"HSET", kAll, "d|r|l|k=2", "limit=6"});
  Member member(server);
  member.until("it is removed", [&] { return text_in(server, "d|r|l|k=1").empty(); });
  EXPECT_EQ(text_in(server, "d|r|l|k=2"), "limit=6");
}

TEST(RedisOverridesEnded, AreNotRemovedBeforeTheyEndByTheClockOfRedis) {
  const RedisServer server;
  Member member(server);
  const Instant until = SystemClock().now() + std::chrono::hours(1);
  member.set(1);
  member.run([&] { EXPECT_TRUE(member.overrides.set(kKey, {.limit = 5, .until = until})); });
  const std::string text = text_in(server, std::string(kKey));
  const int polls = calls(server, "hmget");
  member.until("Redis was asked", [&] { return calls(server, "hmget") > polls + 2; });
  member.overrides.drop_ended(until);
  EXPECT_EQ(member.limit(), 0U);
  const int scripts = calls(server, "time");
  member.until("the script has run", [&] { return calls(server, "time") > scripts; });
  EXPECT_EQ(text_in(server, std::string(kKey)), text);
  member.overrides.drop_ended(SystemClock().now());
  member.follow(5);  // the clock of the server was wrong
}

// A scan would delay own changes until its end.
TEST(RedisOverridesFirst, IsReadWithoutAScan) {
  const RedisServer server;
  Member first(server), second(server);
  const auto poll = [&](Member& member) {
    const int polls = calls(server, "hmget");
    member.until("Redis was asked", [&] { return calls(server, "hmget") > polls + 2; });
  };
  poll(first);
  poll(second);
  const int scans = calls(server, "hscan");
  EXPECT_EQ(scans, 2);
  second.set(1);
  EXPECT_EQ(second.limit(), 1U);
  first.follow(1);
  poll(second);
  second.set(2);
  first.follow(2);
  EXPECT_EQ(calls(server, "hscan"), scans);
}

std::vector<Overrides::Page::Entry> many(std::size_t count) {
  std::vector<Overrides::Page::Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back({"d|r|l|k=" + std::to_string(i), {.limit = i + 1}});
  }
  return entries;
}

TEST(RedisOverridesImport, IsNotReadAgainByItsServerNorScannedByOthers) {
  constexpr std::size_t kCount = 30'000;
  const RedisServer server;
  Member other(server);
  other.set(7);
  const int asked = calls(server, "hmget");
  other.until("the other has read all", [&] { return calls(server, "hmget") > asked + 2; });
  {
    Member importer(server);
    importer.follow(7);
    const int scans = calls(server, "hscan");
    const int reads = calls(server, "xrange");
    importer.run([&] { EXPECT_TRUE(importer.overrides.set_all(many(kCount), false)); });
    const int polls = calls(server, "hmget");
    importer.until("the importer has asked", [&] { return calls(server, "hmget") > polls + 3; });
    EXPECT_EQ(importer.overrides.all().size(), kCount);
    EXPECT_EQ(calls(server, "xrange"), reads);
    EXPECT_EQ(calls(server, "hscan"), scans);
  }
  const int scans = calls(server, "hscan");
  other.until("the other has all", [&] { return other.overrides.all().size() == kCount; });
  EXPECT_EQ(calls(server, "hscan"), scans);
}

TEST(RedisOverridesTrouble, OfAWrongKeyIsReportedOnceWithItsName) {
  const RedisServer server;
  sluice_redis::RedisConnection redis(server);
  redis.run({"SET", "sluice:{overrides}", "x"});
  Member member(server);
  member.until("Redis was asked several times", [&] { return calls(server, "hscan") > 5; });
  const std::vector<std::string> once{
      "sluice:{overrides} (a hash): WRONGTYPE Operation against a key holding the wrong kind of "
      "value"};
  EXPECT_EQ(member.troubles, once);
  redis.run({"DEL", "sluice:{overrides}"});
  member.until("the trouble ends", [&] { return member.troubles.size() > 1; });
  EXPECT_EQ(member.troubles.back(), "");
  member.set(5);
  member.follow(5);
  const int polls = calls(server, "hmget");
  member.until("Redis was asked again", [&] { return calls(server, "hmget") > polls + 2; });
  redis.run({"SET", "sluice:{overrides}:changes", "x"});
  redis.run({"HINCRBY", "sluice:{overrides}:head", "number", "1"});
  member.until("the changes are asked for", [&] { return calls(server, "xrange") > 5; });
  ASSERT_EQ(member.troubles.size(), 3U);
  EXPECT_EQ(member.troubles.back().rfind("sluice:{overrides}:changes (a stream): WRONGTYPE", 0),
            0U);
}

TEST(RedisOverridesTrouble, EndsTheFirstReadingAtOnce) {
  const RedisServer server;
  sluice_redis::RedisConnection(server).run({"SET", "sluice:{overrides}", "x"});
  RedisOverrides overrides(
      redis::make_target({.url = server.url(), .deadline = testing::kPatience}).value(),
      milliseconds(5));
  overrides.read_all();
  EXPECT_EQ(calls(server, "hscan"), 1);
}

TEST_F(RedisOverridesTest, SayWhetherAChangeMayHaveBeenMade) {
  const auto error_of = [&](const std::function<void()>& answer) {
    std::string error;
    Does job([&] { error = first_.overrides.set_through(&client_, kKey, {.limit = 1}).error(); });
    EXPECT_TRUE(first_.fibers.run(job));
    answer();
    return error;
  };
  const std::string maybe = "Redis did not answer; the change may have been made; repeat it";
  EXPECT_EQ(error_of([&] { client_.fail(redis::Failure::kTimeout); }), maybe);
  EXPECT_EQ(error_of([&] { client_.fail(redis::Failure::kLost); }), maybe);
  EXPECT_EQ(error_of([&] { client_.fail(redis::Failure::kUnavailable); }),
            "Redis cannot be reached, and nothing is changed: failed");
  EXPECT_EQ(
      error_of([&] {
        client_.answer("-WRONGTYPE Operation against a key script: 5bfa3b, on @user_script:1.\r\n");
      }),
      "Redis refused the change: WRONGTYPE Operation against a key");
  EXPECT_EQ(error_of([&] {
              client_.answer(
                  "-ERR Error running script (call to f_5bfa3b): @user_script:4: @user_script: 4: "
                  "WRONGTYPE Operation against a key\r\n");
            }),
            "Redis refused the change: WRONGTYPE Operation against a key");
}

}  // namespace
}  // namespace sluice::server

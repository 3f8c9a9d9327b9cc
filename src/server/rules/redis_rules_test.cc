#include "server/rules/redis_rules.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>

#include "server/net/fiber.h"
#include "server/rules/test_folder.h"
#include "stores/redis/client/target.h"
#include "tests/redis/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::server::redis_rules_test {
namespace {

using sluice_redis::RedisConnection;
using sluice_redis::RedisServer;
using std::chrono::milliseconds;
using testing::kPatience;
using testing::wait_until;

constexpr const char* kKey = "sluice:rules";

std::string rules_named(const std::string& name) {
  return "version: 1\nrules:\n  - name: " + name +
         "\n    limits: [ { algorithm: gcra, limit: 1, per: 1s, burst: 1 } ]\n";
}

// Sends commands as a client writes them.
class Publisher {
 public:
  explicit Publisher(const RedisServer& server) : connection_(server) {}

  // Returns whether the push was accepted.
  bool push(std::uint64_t version, const std::string& name, const std::string& expected = "") {
    const auto rules = publish(version, "2026-11-21T07:48:59Z", {{"a.yaml", rules_named(name)}});
    Sent sent;
    fill_in_push(sent, kKey, *rules, expected);
    last_id = rules->id;
    const auto reply = run(sent);
    last_error = reply->type == redis::Reply::kError ? RedisConnection::text(reply) : "";
    return last_error.empty() && *read_pushed(*reply);
  }
  void overwrite(std::uint64_t version, const std::string& text) {
    const auto rules = publish(version, "2026-11-21T07:48:59Z", {{"a.yaml", text}});
    Sent sent;
    fill_in_overwrite(sent, kKey, *rules);
    run(sent);
  }
  RedisConnection& connection() { return connection_; }

  std::string last_id;
  std::string last_error;

 private:
  struct Sent : redis::Command {
    void done(const redis::Answer&) noexcept override {}
  };
  sluice_redis::Reply run(const Sent& sent) {
    std::string head = "*" + std::to_string(sent.elements) + "\r\n";
    if (sent.script != nullptr) {
      const std::string text(sent.script->text);
      head = "*" + std::to_string(sent.elements + 2) + "\r\n$4\r\nEVAL\r\n$" +
             std::to_string(text.size()) + "\r\n" + text + "\r\n";
    }
    connection_.append_raw(head + sent.tail);
    return connection_.next();
  }

  RedisConnection connection_;
};

std::shared_ptr<const redis::Target> target_of(const RedisServer& server) {
  auto target = redis::make_target({.url = server.url(), .deadline = kPatience});
  EXPECT_TRUE(target);
  return *target;
}

// A loop that follows the rules, and records the callbacks.
class Follower final {
 public:
  explicit Follower(const RedisServer& server, std::string known = "",
                    milliseconds remind = std::chrono::hours(1))
      : rules_(
            loop_, {target_of(server), kKey, milliseconds(10), remind}, std::move(known),
            [this](const PublishedRules& rules) { seen.push_back(rules.version); },
            [this](std::string_view why, bool is_lost, bool is_new) {
              troubles.emplace_back(why);
              if (is_lost && is_new) ++lost;
            }) {}

  // Runs the loop until the condition holds: see wait_until().
  void until(const std::string& what, const std::function<bool()>& holds) {
    wait_until(what, holds, [this] { loop_.run_one_for(milliseconds(10)); });
  }
  void run_for(milliseconds time) { loop_.run_for(time); }
  void until_seen(std::size_t count) {
    until("rules are seen", [&] { return seen.size() == count; });
  }

  std::vector<std::uint64_t> seen;
  std::vector<std::string> troubles;
  std::size_t lost = 0;

 private:
  boost::asio::io_context loop_{1};
  RedisRules rules_;
};

TEST(RedisRules, ArePushedOnlyInThePlaceOfThoseExpected) {
  const RedisServer server;
  Publisher publisher(server);
  EXPECT_TRUE(publisher.push(1, "one"));
  const std::string one = publisher.last_id;
  EXPECT_FALSE(publisher.push(2, "two")) << "there are some";
  EXPECT_FALSE(publisher.push(2, "two", "1-0000000000000000"));
  EXPECT_TRUE(publisher.push(2, "two", one));
  EXPECT_FALSE(publisher.push(2, "other", one));
  const auto found = RedisRules::wait_for({target_of(server), kKey}, kPatience);
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(found->version, 2U);
  EXPECT_EQ(found->texts.front().text, rules_named("two"));
}

TEST(RedisRules, LeaveWhatIsNoRulesAsItIs) {
  const RedisServer server;
  Publisher publisher(server);
  publisher.connection().run({"HSET", kKey, "a", "b"});
  EXPECT_FALSE(publisher.push(1, "one"));
  EXPECT_EQ(publisher.last_error, "ERR the key does not contain rules");
  publisher.connection().run({"SET", kKey, "text"});
  EXPECT_FALSE(publisher.push(1, "one"));
  EXPECT_EQ(publisher.last_error.substr(0, 9), "WRONGTYPE");
  EXPECT_EQ(RedisConnection::text(publisher.connection().run({"GET", kKey})), "text");
}

TEST(RedisRules, ScriptIsKnownByItsHash) {
  const RedisServer server;
  RedisConnection connection(server);
  struct : redis::Command {
    void done(const redis::Answer&) noexcept override {}
  } sent;
  fill_in_push(sent, kKey, *publish(1, "", {{"a", "b"}}), "");
  const std::string loaded =
      RedisConnection::text(connection.run({"SCRIPT", "LOAD", sent.script->text}));
  EXPECT_EQ(loaded, sent.script->sha1);
}

TEST(RedisRules, SayWhyThereAreNone) {
  RedisServer server;
  const RedisRulesSource source{target_of(server), kKey, milliseconds(10)};
  // The error says "no answer" if the server has not answered by then.
  const auto wait_until_error = [&](const std::string& part) {
    wait_until("the error contains: " + part, [&] {
      const auto none = RedisRules::wait_for(source, milliseconds(100));
      return !none && none.error().find(part) != std::string::npos;
    });
  };
  wait_until_error("no rules could be read from " + server.url() +
                   ": there are no rules at sluice:rules; publish them with sluice rules push FILE "
                   "(sluice rules show --admin ADDR prints those of a server that still has them)");
  RedisConnection(server).run({"SET", kKey, "x"});
  wait_until_error("sluice:rules: WRONGTYPE");
  server.kill_now();
  wait_until_error(server.socket());
  wait_until_error(
      "; expected Redis, or --rules FILE with the rules of a server that runs (sluice "
      "rules show --admin ADDR prints them)");
}

TEST(RedisRules, AreFollowedFromPushToPush) {
  const RedisServer server;
  Publisher publisher(server);
  ASSERT_TRUE(publisher.push(1, "one"));
  Follower follower(server, publisher.last_id);
  ASSERT_TRUE(publisher.push(2, "two", publisher.last_id));
  follower.until_seen(1);
  publisher.overwrite(3, rules_named("three"));
  follower.until_seen(2);
  publisher.overwrite(4, rules_named("four"));
  follower.until_seen(3);
  EXPECT_EQ(follower.seen, (std::vector<std::uint64_t>{2, 3, 4})) << "each once, and not the first";
  EXPECT_TRUE(follower.troubles.empty());
}

TEST(RedisRules, AreFollowedToAnotherVersionOneWhereTheServerForgot) {
  const RedisServer server;
  Publisher publisher(server);
  ASSERT_TRUE(publisher.push(1, "one"));
  Follower follower(server, publisher.last_id);
  publisher.connection().run({"FLUSHALL"});
  follower.until("there is a trouble", [&] { return follower.troubles.size() == 1; });
  EXPECT_EQ(follower.troubles.front(), no_rules_at(kKey));
  ASSERT_TRUE(publisher.push(1, "other"));
  follower.until_seen(1);
  EXPECT_EQ(follower.troubles.back(), "");
}

TEST(RedisRules, TroubleIsReportedAgainAndAgain) {
  const RedisServer server;
  Publisher publisher(server);
  Follower follower(server, "", milliseconds(20));
  follower.until("there are reminders", [&] { return follower.troubles.size() >= 3; });
  EXPECT_EQ(follower.troubles[2], no_rules_at(kKey));
  EXPECT_EQ(follower.lost, 1U) << "it is one problem";
  ASSERT_TRUE(publisher.push(1, "one"));
  follower.until_seen(1);
  EXPECT_EQ(follower.troubles.back(), "");
}

TEST(RedisRules, AreFollowedAgainAfterTheServerWasAway) {
  RedisServer server;
  Follower follower(server);
  {
    ASSERT_TRUE(Publisher(server).push(1, "one"));
  }
  follower.until_seen(1);
  const auto before = follower.troubles;
  server.kill_now();
  follower.until("there is a trouble", [&] { return follower.troubles.size() > before.size(); });
  follower.run_for(milliseconds(100));  // the time of several looks
  EXPECT_EQ(follower.troubles.size(), before.size() + 1) << "once for each trouble";
  server.start();
  {
    ASSERT_TRUE(Publisher(server).push(1, "two"));
  }
  follower.until_seen(2);
  EXPECT_EQ(follower.troubles.back(), "");
}

Expected<std::unique_ptr<PushedRules>> open_rules(const RedisServer& server,
                                                  std::string cache = {}) {
  static Log log({.level = LogLevel::kOff});
  return PushedRules::open({.target = target_of(server),
                            .key = kKey,
                            .every = milliseconds(10),
                            .remind = milliseconds(10),
                            .cache = std::move(cache)},
                           log);
}

// A server's rules with the file that keeps them.
class KeptRules : public ::testing::Test {
 protected:
  void start() {
    auto opened = open_rules(server_, file_);
    ASSERT_TRUE(opened) << opened.error();
    pushed_ = std::move(*opened);
    manager_ = pushed_->take_manager();
    pushed_->follow(loop_, *manager_, log_, [] {});
  }
  void stop() {
    pushed_.reset();
    manager_.reset();
  }
  void until(const std::string& what, const std::function<bool()>& holds) {
    wait_until(what, holds, [&] { loop_.run_one_for(milliseconds(10)); });
  }
  bool has(std::string_view rule) { return manager_->current().find(rule) != nullptr; }

  RedisServer server_;
  TestFolder folder_;
  std::string file_ = folder_ / "rules.kept";
  Log log_{{.level = LogLevel::kOff}};
  boost::asio::io_context loop_{1};
  std::unique_ptr<RulesManager> manager_;
  std::unique_ptr<PushedRules> pushed_;
};

TEST_F(KeptRules, AreThoseThatWereActiveLastIfRedisHasNone) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  start();
  ASSERT_TRUE(publisher.push(2, "two", publisher.last_id));
  until("the push", [&] { return has("two"); });
  publisher.overwrite(3, "version: 1\nrules: 7\n");
  until("the refusal", [&] { return manager_->status().failures == 1; });
  stop();
  publisher.connection().run({"FLUSHALL"});
  start();
  EXPECT_TRUE(has("two"));
  const RulesStatus status = manager_->status();
  ASSERT_TRUE(status.lost_since);
  EXPECT_NE(status.why_lost.find("there are no rules at sluice:rules"), std::string::npos);
  EXPECT_NE(status.why_lost.find("the rules of " + file_ + " are active, pushed 2026-11-21"),
            std::string::npos)
      << status.why_lost;
  EXPECT_EQ(status.last_errors.size(), 1U);
  ASSERT_TRUE(publisher.push(1, "three"));
  until("the next push", [&] { return has("three"); });
  EXPECT_FALSE(manager_->status().lost_since);
  EXPECT_TRUE(manager_->status().last_errors.empty());
}

TEST_F(KeptRules, AreFoundAgainIfRedisComesBackWithThem) {
  ASSERT_TRUE(Publisher(server_).push(1, "one"));
  start();
  stop();
  server_.kill_now();
  start();
  EXPECT_TRUE(has("one"));
  EXPECT_TRUE(manager_->status().lost_since);
  server_.start();
  ASSERT_TRUE(Publisher(server_).push(1, "one"));
  until("the rules are found", [&] { return !manager_->status().lost_since; });
  EXPECT_EQ(manager_->version(), 1U) << "they are the same";
}

TEST_F(KeptRules, AreWrittenLaterIfTheFileCouldNotBeWritten) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  const std::string folder = folder_ / "later";
  file_ = folder + "/rules.kept";
  start();
  std::filesystem::create_directory(folder);
  until("the rules of the start", [&] { return std::filesystem::exists(file_); });
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(publisher.push(2, "two", publisher.last_id));
  until("the push", [&] { return has("two"); });
  std::filesystem::create_directory(folder);
  until("the pushed rules", [&] { return std::filesystem::exists(file_); });
  stop();
  server_.kill_now();
  start();
  EXPECT_TRUE(has("two"));
}

TEST_F(KeptRules, AreNotThoseThatAreRefusedTwice) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  start();
  const std::string wrong = "version: 1\nrules: 7\n";
  publisher.overwrite(2, wrong);
  until("the refusal", [&] { return manager_->status().failures == 1; });
  publisher.overwrite(1, wrong);  // as by a push to a Redis that lost the one before
  until("the next refusal", [&] { return manager_->status().failures == 2; });
  stop();
  server_.kill_now();
  start();
  EXPECT_TRUE(has("one"));
}

TEST_F(KeptRules, ThatAreDamagedAreNotUsed) {
  folder_.write("rules.kept", "sluice rules 1\ndamaged\n");
  server_.kill_now();
  EXPECT_FALSE(open_rules(server_, file_));
}

// A server that pushes rules itself.
class OwnPushes : public KeptRules {
 protected:
  using Outcome = PushedRules::Outcome;
  using Result = Expected<PushedRules::Pushed, PushFailure>;

  // Pushes in place of the active rules, again until there is a connection.
  Expected<Outcome, PushFailure> push(const std::vector<RulesText>& texts, bool replaces = false,
                                      const std::function<void()>& meanwhile = {}) {
    Result result = PushedRules::Pushed{};
    until("the push is sent", [&] {
      bool is_done = false;
      net::FiberJob job{
          [&] { result = pushed_->push(*manager_->active().texts, texts, "alice", replaces); },
          [&] { is_done = true; }};
      EXPECT_TRUE(fibers_.run(job));
      if (meanwhile && !is_done) meanwhile();
      until("the push has an end", [&] { return is_done; });
      return result || result.error().may_be_done;
    });
    if (!result) return Unexpected{result.error()};
    pushed_version_ = result->version;
    return result->outcome;
  }
  std::string by() { return manager_->history().front().by; }

  net::FiberPool fibers_{{}};
  std::uint64_t pushed_version_ = 0;
};

TEST_F(OwnPushes, NameWhoMadeThem) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  start();
  EXPECT_EQ(push({{"redis:a.yaml", rules_named("two")}}).value(), Outcome::kPushed);
  EXPECT_EQ(pushed_version_, 2U);
  EXPECT_EQ(by(), "push 2 to Redis by alice");
  publisher.overwrite(3, rules_named("three"));
  until("the other push", [&] { return has("three"); });
  EXPECT_EQ(by(), "push 3 to Redis");
}

TEST_F(OwnPushes, AreNoticedIfRedisComesBackWithThoseBefore) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  start();
  ASSERT_EQ(push({{"redis:a.yaml", rules_named("two")}}).value(), Outcome::kPushed);
  publisher.overwrite(1, rules_named("one"));  // before the next poll
  until("the rules before", [&] { return has("one"); });
}

TEST_F(OwnPushes, KeepTheNamesOfRulesThatArePut) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  start();
  EXPECT_EQ(push({{"PUT /v1/rules", rules_named("two")}}).value(), Outcome::kPushed);
  EXPECT_EQ(manager_->status().sources, std::vector<std::string>{"redis:PUT /v1/rules"});
  const auto found = RedisRules::wait_for({target_of(server_), kKey}, kPatience);
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(found->texts.front().name, "PUT /v1/rules");
}

TEST_F(OwnPushes, ReplaceRulesThatAreRefusedIfTheyMay) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  start();
  const std::vector<RulesText> one{{"redis:a.yaml", rules_named("one")}};
  const std::vector<RulesText> two{{"redis:a.yaml", rules_named("two")}};
  EXPECT_EQ(push(one, true).value(), Outcome::kNotInRedis) << "they are there";
  publisher.overwrite(2, "version: 1\nrules: 7\n");
  until("the refusal", [&] { return manager_->status().failures == 1; });
  EXPECT_EQ(push(two).value(), Outcome::kOthersInRedis);
  EXPECT_EQ(push(one, true).value(), Outcome::kPushed);
  EXPECT_TRUE(manager_->status().last_errors.empty());
  EXPECT_EQ(push(two).value(), Outcome::kPushed);
  EXPECT_TRUE(has("two"));
  publisher.overwrite(5, "version: 1\nrules: 7\n");
  until("the refusal", [&] { return manager_->status().failures == 2; });
  ASSERT_TRUE(manager_->replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_EQ(push(one).value(), Outcome::kNotInRedis) << "a PUT is for this server";
}

TEST_F(OwnPushes, BringBackRulesThatAreLost) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  start();
  publisher.connection().run({"FLUSHALL"});
  until("the loss is seen", [&] { return manager_->status().lost_since.has_value(); });
  EXPECT_EQ(push({{"redis:a.yaml", rules_named("one")}}, true).value(), Outcome::kPushed);
  until("the rules are found", [&] { return !manager_->status().lost_since; });
  const auto found = RedisRules::wait_for({target_of(server_), kKey}, kPatience);
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(found->version, pushed_version_);
  EXPECT_EQ(manager_->version(), 1U) << "they are the same";
}

TEST_F(OwnPushes, SayIfTheyMayBeDone) {
  Publisher publisher(server_);
  ASSERT_TRUE(publisher.push(1, "one"));
  start();
  ASSERT_EQ(push({{"redis:a.yaml", rules_named("two")}}).value(), Outcome::kPushed);
  const auto has_push = [&] {
    const auto clients = publisher.connection().run({"CLIENT", "LIST"});
    return RedisConnection::text(clients).find("cmd=eval") != std::string::npos;
  };
  until("a poll after it", [&] { return !has_push(); });
  publisher.connection().run({"CLIENT", "PAUSE", "3600000", "WRITE"});
  const auto lost = push({{"redis:a.yaml", rules_named("three")}}, false, [&] {
    until("Redis has the push", has_push);
    server_.kill_now();
  });
  ASSERT_FALSE(lost);
  EXPECT_TRUE(lost.error().may_be_done);
  EXPECT_TRUE(has("two"));
  Result away = PushedRules::Pushed{};
  bool is_done = false;
  net::FiberJob job{
      [&] { away = pushed_->push(*manager_->active().texts, {{"a", "b"}}, "alice", true); },
      [&] { is_done = true; }};
  ASSERT_TRUE(fibers_.run(job));
  until("the push has an end", [&] { return is_done; });
  ASSERT_FALSE(away);
  EXPECT_FALSE(away.error().may_be_done) << away.error().why;
}

TEST(PushedRules, AreLostIfTheirKeyIsGone) {
  const RedisServer server;
  boost::asio::io_context loop{1};
  Publisher publisher(server);
  ASSERT_TRUE(publisher.push(1, "one"));
  auto pushed = open_rules(server);
  ASSERT_TRUE(pushed) << pushed.error();
  const auto manager = (*pushed)->take_manager();
  Log log({.level = LogLevel::kOff});
  (*pushed)->follow(loop, *manager, log, [] {});
  publisher.connection().run({"DEL", kKey});
  wait_until(
      "the rules are lost", [&] { return manager->status().lost_since.has_value(); },
      [&] { loop.run_one_for(milliseconds(10)); });
  EXPECT_NE(manager->current().find("one"), nullptr);
  EXPECT_EQ(manager->status().failures, 1U);
  EXPECT_EQ(manager->status().last_errors.front().file, kKey);
}

TEST(PushedRules, AreInForceWithinASecondAndStayWhereOthersAreWrong) {
  const RedisServer server;
  boost::asio::io_context loop{1};
  Publisher publisher(server);
  ASSERT_TRUE(publisher.push(1, "one"));
  auto pushed = open_rules(server);
  ASSERT_TRUE(pushed) << pushed.error();
  const auto manager = (*pushed)->take_manager();
  EXPECT_EQ(manager->status().sources, std::vector<std::string>{"redis:a.yaml"});
  Log log({.level = LogLevel::kOff});
  int changes = 0;
  (*pushed)->follow(loop, *manager, log, [&] { ++changes; });
  const auto until = [&](const std::function<bool()>& holds) {
    wait_until("the manager follows", holds, [&] { loop.run_one_for(milliseconds(10)); });
  };
  ASSERT_TRUE(publisher.push(2, "two", publisher.last_id));
  until([&] { return changes == 1; });
  EXPECT_NE(manager->current().find("two"), nullptr);
  publisher.overwrite(3, "version: 1\nrules: 7\n");
  until([&] { return manager->status().failures == 1; });
  EXPECT_EQ(manager->status().last_errors.front().file, "redis:a.yaml");
  EXPECT_NE(manager->current().find("two"), nullptr);
  publisher.overwrite(4, rules_named("four"));
  until([&] { return changes == 2; });
  EXPECT_NE(manager->current().find("four"), nullptr);
  EXPECT_TRUE(manager->status().last_errors.empty());
}

TEST(PushedRules, RefuseToStartWithRulesThatAreWrong) {
  const RedisServer server;
  Publisher(server).overwrite(1, "version: 1\nrules: 7\n");
  const auto pushed = open_rules(server);
  ASSERT_FALSE(pushed);
  EXPECT_EQ(pushed.error().find("redis:a.yaml:2:8: error: "), 0U) << pushed.error();
}

}  // namespace
}  // namespace sluice::server::redis_rules_test

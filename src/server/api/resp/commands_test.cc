#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/api/resp/test_handler.h"

namespace sluice::server::resp {
namespace {

const std::vector<KnownClient> kUsers{{"default", Role::kCheck, "secret"},
                                      {"ops", Role::kAdmin, "more-secret"}};
// Returns the value of that name in a flat RESP2 reply, without line ends.
std::string value_of(const std::string& reply, std::string_view name) {
  const std::string key = "$" + std::to_string(name.size()) + "\r\n" + std::string(name) + "\r\n";
  const std::size_t at = reply.find(key);
  if (at == std::string::npos) return "absent";
  std::size_t begin = at + key.size();
  std::size_t end = reply.find("\r\n", begin);
  if (reply[begin] != '$' || reply[begin + 1] == '-') return reply.substr(begin, end - begin);
  begin = end + 2;
  end = reply.find("\r\n", begin);
  return reply.substr(begin, end - begin);
}

TEST(CommandHandler, RefusesWithTheTextsOfRedis) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"GET", "a", "b"}),
            "-ERR unknown command 'GET', with args beginning with: 'a' 'b' \r\n");
  EXPECT_EQ(handler.ask({"a\r\nb"}), "-ERR unknown command 'a  b', with args beginning with: \r\n");
  EXPECT_EQ(handler.ask({"ECHO"}), "-ERR wrong number of arguments for 'echo' command\r\n");
  EXPECT_EQ(handler.ask({"CLIENT"}), "-ERR wrong number of arguments for 'client' command\r\n");
  EXPECT_EQ(handler.ask({"client", "SETNAME"}),
            "-ERR wrong number of arguments for 'client|setname' command\r\n");
  EXPECT_EQ(handler.ask({"client", "kill"}),
            "-ERR unknown subcommand 'kill'. Try CLIENT HELP.\r\n");
}

TEST(CommandHandler, FindsEachCommandWhateverCameBefore) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({""}), "-ERR unknown command '', with args beginning with: \r\n");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(handler.ask({"ECHO", "a"}), "$1\r\na\r\n");
    EXPECT_EQ(handler.ask({"ECHO", "b"}), "$1\r\nb\r\n");
    EXPECT_EQ(handler.ask({"client", "GETNAME"}), "$-1\r\n");
    EXPECT_EQ(handler.ask({"client", "ID"}).front(), ':');
    EXPECT_EQ(handler.ask({"ping"}), "+PONG\r\n");
    EXPECT_TRUE(handler.ask({"ECH"}).starts_with("-ERR unknown command"));
  }
}

TEST(CommandHandler, TruncatesUnknownCommandsInErrors) {
  TestCommands handler;
  const std::string big(1000, 'x');
  EXPECT_LT(handler.ask({big, big, big}).size(), 400u);
}

TEST(Roles, CheckOnlyMayNeitherRefundNorReset) {
  TestCommands handler(kUsers);
  handler.ask({"AUTH", "secret"});
  EXPECT_EQ(handler.ask({"RL.RESET", "LIMIT", "k", "gcra", "1", "1s"}),
            "-NOPERM this user has no permissions to run the 'rl.reset|limit' command\r\n");
  EXPECT_TRUE(handler.ask({"RL.REFUND", "CHECK", "*", "path", "/a"}).starts_with("-NOPERM "));
  EXPECT_TRUE(handler.ask({"CL.THROTTLE", "k", "1", "1", "1", "-1"}).starts_with("-NOPERM "));
  EXPECT_TRUE(handler.ask({"CL.THROTTLE", "k", "1", "1", "1"}).starts_with("*5\r\n:0"));
  EXPECT_TRUE(handler.ask({"RL.PEEK", "LIMIT", "k", "gcra", "1", "1s"}).starts_with("*14\r\n"));
  handler.ask({"AUTH", "ops", "more-secret"});
  EXPECT_TRUE(handler.ask({"CL.THROTTLE", "k", "1", "1", "1", "-1"}).starts_with("*5\r\n:0"));
}

TEST(Limit, DecidesByEveryAlgorithm) {
  TestCommands handler;
  for (const std::string_view algorithm :
       {"fixed_window", "sliding_window_log", "sliding_window_counter", "sliding_window_hybrid",
        "leaky_bucket", "token_bucket"}) {
    const std::vector<std::string_view> words{"RL.LIMIT", algorithm, algorithm, "1", "60s"};
    EXPECT_EQ(value_of(handler.ask(words), "outcome"), "allowed") << algorithm;
    const std::string reply = handler.ask(words);
    EXPECT_EQ(value_of(reply, "outcome"), "denied") << algorithm;
    EXPECT_EQ(value_of(reply, "reason"), "limited");
    EXPECT_EQ(value_of(reply, "limit"), ":1");
    EXPECT_EQ(value_of(reply, "remaining"), ":0");
    EXPECT_NE(value_of(reply, "retry_after_ms"), "$-1") << algorithm;
  }
}

TEST(Limit, TakesOptionsInAnyOrderAndCase) {
  TestCommands handler;
  const std::string reply = handler.ask(
      {"rl.limit", "k", "leaky_bucket", "1", "1s", "cost", "2", "Mode", "QUEUE", "BURST", "5"});
  EXPECT_EQ(value_of(reply, "limit"), ":5");
  EXPECT_EQ(value_of(reply, "remaining"), ":3");
  EXPECT_EQ(value_of(reply, "delay_ms"), ":0");
  const std::string second = handler.ask(
      {"RL.LIMIT", "k", "leaky_bucket", "1", "1s", "MODE", "queue", "BURST", "5", "COST", "1"});
  EXPECT_EQ(value_of(second, "delay_ms"), ":2000");
}

TEST(Limit, WaitsAreMillisecondsRoundedUp) {
  TestCommands handler;
  handler.ask({"RL.LIMIT", "k", "token_bucket", "3", "10ms"});
  const std::string reply =
      handler.ask({"RL.LIMIT", "k", "token_bucket", "3", "10ms", "COST", "3"});
  EXPECT_EQ(value_of(reply, "retry_after_ms"), ":4");
}

TEST(Limit, PeekRefundAndResetAreForTheSameCounter) {
  TestCommands handler;
  const auto ask = [&](std::vector<std::string_view> verb) {
    verb.insert(verb.end(), {"k", "gcra", "5", "60s"});
    return value_of(handler.ask(verb), "remaining");
  };
  EXPECT_EQ(ask({"RL.LIMIT"}), ":4");
  EXPECT_EQ(ask({"RL.PEEK", "LIMIT"}), ":3");
  EXPECT_EQ(ask({"RL.PEEK", "LIMIT"}), ":3");
  EXPECT_EQ(ask({"RL.LIMIT"}), ":3");
  EXPECT_EQ(ask({"RL.REFUND", "LIMIT"}), ":4");
  EXPECT_EQ(ask({"RL.RESET", "LIMIT"}), ":5");
  EXPECT_EQ(handler.store.stats().keys, 0u);
}

TEST(Check, CountsResponses) {
  TestCommands handler;
  const auto ask = [&](std::vector<std::string_view> words) {
    words.insert(words.end(), {"path", "/sign-in", "ip", "203.0.113.9"});
    return handler.ask(words);
  };
  ask({"RL.CHECK", "*"});
  EXPECT_EQ(value_of(ask({"RL.CHECK", "*"}), "remaining"), ":2");
  EXPECT_EQ(value_of(ask({"RL.REPORT", "*", "status", "200"}), "remaining"), ":2");
  EXPECT_EQ(value_of(ask({"RL.REPORT", "failures", "status", "401"}), "remaining"), ":1");
  EXPECT_EQ(value_of(ask({"RL.REPORT", "*", "status", "401"}), "remaining"), ":0");
  EXPECT_EQ(value_of(ask({"RL.REPORT", "*", "status", "401"}), "reason"), "over");
  EXPECT_EQ(value_of(ask({"RL.CHECK", "*"}), "outcome"), "denied");
  EXPECT_EQ(ask({"RL.REPORT", "*"}),
            "-ERR the status of the response is missing; expected a number from 100 to 599\r\n");
  EXPECT_TRUE(ask({"RL.REPORT", "logout", "status", "401"}).starts_with("-ERR rule: there is no"));
}

TEST(Limit, ChargesTakesAtMostReservesAndSettles) {
  TestCommands handler;
  const auto ask = [&](std::vector<std::string_view> words,
                       const std::vector<std::string_view>& options = {}) {
    words.insert(words.end(), {"LIMIT", "k", "token_bucket", "5", "1s"});
    words.insert(words.end(), options.begin(), options.end());
    return handler.ask(words);
  };
  EXPECT_EQ(value_of(ask({"RL.TAKE"}, {"ATMOST", "3"}), "taken"), ":3");
  const std::string rest = ask({"RL.TAKE"}, {"ATMOST", "3"});
  EXPECT_EQ(value_of(rest, "taken"), ":2");
  EXPECT_EQ(value_of(rest, "remaining"), ":0");
  EXPECT_EQ(value_of(ask({"RL.TAKE"}, {"ATMOST", "3"}), "outcome"), "denied");
  const std::vector<std::string_view> reserve{"COST", "2", "MAXWAIT", "400ms"};
  EXPECT_EQ(value_of(ask({"RL.RESERVE"}, reserve), "delay_ms"), ":400");
  EXPECT_EQ(value_of(ask({"RL.RESERVE"}, reserve), "retry_after_ms"), ":400");
  EXPECT_EQ(value_of(ask({"RL.CHARGE"}), "reason"), "over");
  ask({"RL.RESET"});
  EXPECT_EQ(value_of(ask({"RL.SETTLE"}, {"COST", "1", "ACTUAL", "4"}), "remaining"), ":2");
  EXPECT_EQ(value_of(ask({"RL.SETTLE"}, {"COST", "4", "ACTUAL", "1"}), "remaining"), ":5");
  EXPECT_EQ(ask({"RL.TAKE"}), "-ERR ATMOST is missing\r\n");
  EXPECT_EQ(ask({"RL.RESERVE"}), "-ERR MAXWAIT is missing\r\n");
  EXPECT_EQ(ask({"RL.SETTLE"}), "-ERR ACTUAL is missing\r\n");
  EXPECT_EQ(ask({"RL.RESERVE"}, {"MAXWAIT", "2d"}),
            "-ERR MAXWAIT: '2d' is too long; expected at most 1d\r\n");
  EXPECT_TRUE(ask({"RL.RESERVE"}, {"MAXWAIT", "soon"}).starts_with("-ERR MAXWAIT: "));
  EXPECT_TRUE(ask({"RL.PEEK"}, {"ATMOST", "3"}).starts_with("-ERR there is no option 'ATMOST'"));
}

TEST(Limit, HandsOutPermits) {
  TestCommands handler;
  const auto take = [&] { return handler.ask({"RL.LIMIT", "k", "concurrency", "1", "30s"}); };
  const std::string permit = value_of(take(), "permit");
  EXPECT_GT(permit.size(), 20u);
  const std::string denied = take();
  EXPECT_EQ(value_of(denied, "outcome"), "denied");
  EXPECT_EQ(denied.find("permit"), std::string::npos);
  EXPECT_EQ(handler.ask({"RL.EXTEND", permit}), ":1\r\n");
  EXPECT_EQ(handler.ask({"RL.RELEASE", permit}), ":1\r\n");
  EXPECT_EQ(handler.ask({"RL.RELEASE", permit}), ":0\r\n");
  EXPECT_EQ(handler.ask({"RL.EXTEND", permit}), ":0\r\n");
  EXPECT_TRUE(handler.ask({"RL.RELEASE", "x"}).starts_with("-ERR permit: "));
  EXPECT_EQ(value_of(take(), "outcome"), "allowed");
}

TEST(Limit, HoldsAndSettlesBudgets) {
  TestCommands handler;
  const auto ask = [&](std::string_view command, const std::vector<std::string_view>& options) {
    std::vector<std::string_view> words{command, "LIMIT", "k", "budget", "100", "never"};
    words.insert(words.end(), options.begin(), options.end());
    return handler.ask(words);
  };
  const std::string held = ask("RL.HOLD", {"COST", "7", "TTL", "30s", "ID", "a"});
  EXPECT_EQ(value_of(held, "id"), "a");
  EXPECT_EQ(value_of(held, "ends_after_ms"), ":30000");
  EXPECT_EQ(value_of(held, "remaining"), ":93");
  EXPECT_EQ(value_of(ask("RL.HOLD", {"COST", "7", "TTL", "30s", "ID", "a"}), "repeated"), ":1");
  EXPECT_EQ(value_of(ask("RL.EXTEND", {"TTL", "60s", "ID", "a"}), "ends_after_ms"), ":60000");
  EXPECT_EQ(value_of(ask("RL.SETTLE", {"ACTUAL", "5", "ID", "a"}), "remaining"), ":95");
  EXPECT_EQ(value_of(ask("RL.CANCEL", {"ID", "a"}), "reason"), "conflict");
  EXPECT_EQ(value_of(ask("RL.EXTEND", {"TTL", "60s", "ID", "a"}), "reason"), "gone");
  EXPECT_EQ(value_of(ask("RL.HOLD", {"TTL", "30s"}), "id").size(), 24u);
  EXPECT_EQ(ask("RL.HOLD", {"ID", "a"}), "-ERR TTL is missing\r\n");
  EXPECT_EQ(ask("RL.CANCEL", {}), "-ERR ID is missing\r\n");
  EXPECT_EQ(ask("RL.EXTEND", {"TTL", "1s"}), "-ERR ID is missing\r\n");
  EXPECT_EQ(ask("RL.HOLD", {"TTL", "999ms", "ID", "a"}),
            "-ERR TTL: '999ms' is out of range; expected 1s to 24h\r\n");
  EXPECT_EQ(ask("RL.HOLD", {"TTL", "1s", "ID", ""}), "-ERR ID: has 0 bytes; expected 1 to 128\r\n");
  EXPECT_EQ(handler.ask({"RL.HOLD", "LIMIT", "k", "gcra", "1", "1s", "TTL", "1s"}),
            "-ERR algorithm: only budget has holds\r\n");
}

TEST(Limit, ABudgetThatDoesNotRenewIsNeverResetOnceSomethingIsSpent) {
  TestCommands handler;
  const auto reset = [&](std::string_view command, const std::vector<std::string_view>& options) {
    std::vector<std::string_view> words{command, "LIMIT", "k", "budget", "100", "never"};
    words.insert(words.end(), options.begin(), options.end());
    return value_of(handler.ask(words), "reset_after_ms");
  };
  EXPECT_EQ(reset("RL.PEEK", {"COST", "0"}), ":0");
  EXPECT_EQ(reset("RL.PEEK", {}), "$-1") << "as after a take";
  EXPECT_EQ(reset("RL.CHARGE", {}), "$-1");
  EXPECT_EQ(reset("RL.PEEK", {"COST", "0"}), "$-1");
  EXPECT_EQ(reset("RL.RESET", {}), ":0");
}

TEST(Limit, CountsAnIdOnce) {
  TestCommands handler;
  const auto ask = [&](std::vector<std::string_view> words) {
    words.insert(words.end(), {"k", "budget", "100", "never", "COST", "7", "ID", "a"});
    return handler.ask(words);
  };
  EXPECT_EQ(value_of(ask({"RL.LIMIT"}), "repeated"), "absent");
  EXPECT_EQ(value_of(ask({"RL.LIMIT"}), "repeated"), ":1");
  EXPECT_EQ(value_of(ask({"RL.CHARGE", "LIMIT"}), "remaining"), ":93");
  EXPECT_TRUE(ask({"RL.REFUND", "LIMIT"}).starts_with("-ERR there is no option 'ID'"));
  EXPECT_EQ(handler.ask({"RL.LIMIT", "k", "gcra", "1", "1s", "ID", "a"}),
            "-ERR algorithm: only budget has holds\r\n");
}

TEST(Limit, AnUnknownOptionIsAnsweredWithThoseOfTheCommand) {
  TestCommands handler;
  const auto expected = [&](std::string_view command) {
    const std::string reply =
        handler.ask({command, "LIMIT", "k", "budget", "1", "never", "X", "1"});
    return reply.substr(std::min(reply.rfind(", ZONE"), reply.size()));
  };
  EXPECT_EQ(expected("RL.CANCEL"), ", ZONE, STARTS or ID\r\n");
  EXPECT_EQ(expected("RL.EXTEND"), ", ZONE, STARTS, TTL or ID\r\n");
  EXPECT_EQ(expected("RL.HOLD"), ", ZONE, STARTS, COST, TTL or ID\r\n");
  EXPECT_EQ(expected("RL.SETTLE"), ", ZONE, STARTS, COST, ACTUAL or ID\r\n");
  EXPECT_EQ(expected("RL.TAKE"), ", ZONE, STARTS or ATMOST\r\n");
}

TEST(Limit, SharesItsCounterWithThrottle) {
  TestCommands handler;
  handler.ask({"CL.THROTTLE", "k", "15", "30", "60", "6"});
  const std::string reply =
      handler.ask({"RL.PEEK", "LIMIT", "k", "gcra", "30", "60s", "BURST", "15", "COST", "0"});
  EXPECT_EQ(value_of(reply, "remaining"), ":10");
}

TEST(Limit, MayFollowTheCalendar) {
  TestCommands handler;
  const std::vector<std::string_view> words{"RL.LIMIT", "k",  "fixed_window", "3",         "month",
                                            "STARTS",   "15", "zone",         "Asia/Tokyo"};
  EXPECT_EQ(value_of(handler.ask(words), "remaining"), ":2");
  EXPECT_EQ(value_of(handler.ask(words), "remaining"), ":1");
}

TEST(Limit, ErrorsNameTheProblem) {
  TestCommands handler;
  const std::vector<std::pair<std::vector<std::string_view>, std::string_view>> wrong{
      {{"no_bucket", "1", "1s"}, "-ERR algorithm: there is no 'no_bucket'; expected "},
      {{"gcra", "x", "1s"}, "-ERR limit is not an integer: 'x'"},
      {{"gcra", "1", "1"}, "-ERR period: "},
      {{"gcra", "1", "0s"}, "-ERR "},
      {{"gcra", "1", "1s", "BURST"}, "-ERR the option 'BURST' lacks its value"},
      {{"gcra", "1", "1s", "SIZE", "1"}, "-ERR there is no option 'SIZE'"},
      {{"gcra", "1", "1s", "SLICES", "3"}, "-ERR "},
      {{"gcra", "1", "1s", "COST", "-1"}, "-ERR COST is out of range: '-1'"},
      {{"budget", "1", "1d", "HOLDS", "0"},
       "-ERR HOLDS is out of range: '0'; expected a whole number from 1 to 65535"},
      {{"budget", "1", "fortnight"},
       "-ERR period: 'fortnight' is not a period; expected a whole number and its unit (ms, s, m, "
       "h "
       "or d), such as 60s, or day, week, month, year or never"},
      {{"gcra", "1", "1s", "COST", "1", "BURST", "1", "cost", "2"},
       "-ERR the option 'cost' is given twice"},
      {{"gcra", "1", "0s"}, "-ERR period 0"},
      {{"fixed_window", "1", "1s", "ALIGN", "moon"},
       "-ERR ALIGN: there is no 'moon'; expected first_request or clock"},
      {{"gcra", "1", "month"}, "-ERR period month does not apply to gcra; it applies to fixed"},
      {{"fixed_window", "1", "1d", "ZONE", "Asia/Tokyo"},
       "-ERR ZONE applies only to windows of the calendar; expected also 'per' with day"},
      {{"fixed_window", "1", "month", "ZONE", "Asia/Tokio"},
       "-ERR ZONE: there is no time zone 'Asia/Tokio' in "},
      {{"fixed_window", "1", "month", "STARTS", "32"},
       "-ERR 'starts' is '32'; expected a day of the month, 1 to 31"},
  };
  for (const auto& [rest, error] : wrong) {
    std::vector<std::string_view> words{"RL.LIMIT", "k"};
    words.insert(words.end(), rest.begin(), rest.end());
    EXPECT_TRUE(handler.ask(words).starts_with(error)) << handler.ask(words);
  }
  EXPECT_EQ(handler.ask({"RL.CHARGE", "LIMIT", "k", "concurrency", "2", "30s"}),
            "-ERR a limit with permits (concurrency) cannot be charged; expected RL.LIMIT\r\n");
  EXPECT_EQ(handler.store.stats().keys, 0u);
}

TEST(Check, DecidesByTheRulesThatMatch) {
  TestCommands handler;
  const std::vector<std::string_view> words{"RL.CHECK", "*", "path", "/login", "ip", "203.0.113.9"};
  std::string reply = handler.ask(words);
  EXPECT_EQ(value_of(reply, "rule"), "login");
  EXPECT_EQ(value_of(reply, "outcome"), "allowed");
  EXPECT_EQ(value_of(reply, "remaining"), ":1");
  EXPECT_EQ(value_of(reply, "name"), "ip");
  handler.ask(words);
  reply = handler.ask(words);
  EXPECT_EQ(value_of(reply, "outcome"), "denied");
  EXPECT_EQ(value_of(reply, "retry_after_ms"), ":60000");
  reply = handler.ask({"RL.CHECK", "*", "path", "/none"});
  EXPECT_EQ(value_of(reply, "rule"), "$-1");
  EXPECT_EQ(value_of(reply, "outcome"), "allowed");
  EXPECT_EQ(value_of(reply, "limit"), "$-1");
}

TEST(Check, NamesTheLimitsThatDidNotApply) {
  TestCommands handler;
  const std::string reply = handler.ask({"RL.CHECK", "login", "foo", "x"});
  EXPECT_EQ(value_of(reply, "outcome"), "allowed");
  EXPECT_TRUE(reply.ends_with("$6\r\nlimits\r\n*0\r\n$7\r\nskipped\r\n*1\r\n$2\r\nip\r\n"))
      << reply;
  EXPECT_EQ(value_of(handler.ask({"RL.CHECK", "login", "ip", "a"}), "skipped"), "absent");
}

TEST(Check, SaysWhetherALimitWithWarnIsNear) {
  TestCommands handler;
  const std::vector<std::string_view> words{"RL.CHECK", "*", "path", "/warn"};
  EXPECT_EQ(value_of(handler.ask(words), "near"), ":0");
  EXPECT_EQ(value_of(handler.ask(words), "near"), ":1");
  const std::string denied = handler.ask(words);
  EXPECT_EQ(value_of(denied, "near"), ":1");
  EXPECT_EQ(value_of(denied, "reason"), "limited");
  EXPECT_EQ(value_of(handler.ask({"RL.CHECK", "*", "path", "/login", "ip", "a"}), "near"),
            "absent");
}

TEST(Check, DecidesByANamedRuleMatchingOrNot) {
  TestCommands handler;
  EXPECT_EQ(value_of(handler.ask({"RL.CHECK", "login", "ip", "a", "COST", "2"}), "remaining"),
            ":0");
  EXPECT_EQ(value_of(handler.ask({"RL.CHECK", "login", "ip", "a"}), "outcome"), "denied");
  EXPECT_TRUE(handler.ask({"RL.CHECK", "other", "ip", "a"})
                  .starts_with("-ERR rule: there is no 'other'; expected "));
}

TEST(Check, AShadowRuleIsReportedAsOne) {
  TestCommands handler;
  handler.ask({"RL.CHECK", "*", "path", "/trial"});
  const std::string reply = handler.ask({"RL.CHECK", "*", "path", "/trial"});
  EXPECT_EQ(value_of(reply, "outcome"), "allowed");
  EXPECT_EQ(value_of(reply, "reason"), "shadow");
  EXPECT_EQ(value_of(reply, "remaining"), "$-1") << "of the limits that can deny";
  EXPECT_EQ(value_of(reply, "mode"), "shadow");
}

TEST(Check, NamesOfHeadersAreCaseInsensitive) {
  TestCommands handler;
  handler.ask({"RL.CHECK", "*", "path", "/header", "header.X-User", "me"});
  const std::string reply =
      handler.ask({"RL.PEEK", "CHECK", "*", "path", "/header", "header.x-user", "me", "COST", "0"});
  EXPECT_EQ(value_of(reply, "remaining"), ":4");
}

TEST(Check, RefundAndResetAreForTheSameCounters) {
  TestCommands handler;
  const auto ask = [&](std::vector<std::string_view> verb) {
    verb.insert(verb.end(), {"*", "path", "/login", "ip", "b"});
    return value_of(handler.ask(verb), "remaining");
  };
  EXPECT_EQ(ask({"RL.CHECK"}), ":1");
  EXPECT_EQ(ask({"RL.CHECK"}), ":0");
  EXPECT_EQ(ask({"RL.REFUND", "CHECK"}), ":1");
  EXPECT_EQ(ask({"RL.RESET", "CHECK"}), ":2");
}

TEST(Check, ChargesEachLimitItsOwnCost) {
  TestCommands handler;
  const auto left = [&](std::vector<std::string_view> words) {
    words.insert(words.begin(), {"RL.CHECK", "*", "path", "/chat"});
    const std::string reply = handler.ask(words);
    return value_of(reply.substr(reply.find("requests")), "remaining") +
           value_of(reply.substr(reply.find("a=b")), "remaining");
  };
  EXPECT_EQ(left({"tokens", "200"}), ":9:800");
  EXPECT_EQ(left({"COST", "7"}), ":8:300");
  EXPECT_EQ(left({"COST", "a=b=290", "cost", "2", "Cost", "requests=2"}), ":6:10");
  EXPECT_EQ(left({"COST", "a=b=11"}), ":6:10") << "denied: no limit is charged";
  handler.ask({"RL.REFUND", "CHECK", "models", "COST", "requests=0", "COST", "a=b=90"});
  EXPECT_EQ(left({"cost", "1", "COST", "a=b=0", "COST", "requests=0"}), ":6:100");
}

TEST(Check, ChargesTakesAtMostReservesAndSettles) {
  TestCommands handler;
  const auto ask = [&](std::string_view command, const std::vector<std::string_view>& options) {
    std::vector<std::string_view> words{command, "CHECK", "*", "path", "/chat"};
    words.insert(words.end(), options.begin(), options.end());
    return handler.ask(words);
  };
  const auto tokens = [](const std::string& reply) {
    return value_of(reply.substr(reply.find("a=b")), "remaining");
  };
  EXPECT_EQ(tokens(ask("RL.RESERVE", {"COST", "a=b=700", "MAXWAIT", "1s"})), ":300");
  EXPECT_EQ(tokens(ask("RL.SETTLE", {"COST", "a=b=700", "ACTUAL", "a=b=200"})), ":800");
  EXPECT_EQ(value_of(ask("RL.CHARGE", {"COST", "a=b=801"}), "reason"), "over");
  ask("RL.RESET", {});
  EXPECT_EQ(value_of(ask("RL.TAKE", {"ATMOST", "99", "ATMOST", "a=b=99"}), "taken"), ":1");
  EXPECT_EQ(value_of(ask("RL.TAKE", {"ATMOST", "requests=99", "ATMOST", "a=b=99"}), "taken"), ":9");
  EXPECT_EQ(ask("RL.TAKE", {}), "-ERR ATMOST is missing; expected it at the end\r\n");
  EXPECT_EQ(ask("RL.RESERVE", {"COST", "1"}),
            "-ERR MAXWAIT is missing; expected it at the end\r\n");
}

TEST(Check, CountsAnIdOnce) {
  TestCommands handler;
  const auto ask = [&](std::vector<std::string_view> command,
                       const std::vector<std::string_view>& options) {
    command.insert(command.end(), {"*", "path", "/money", "org", "a"});
    command.insert(command.end(), options.begin(), options.end());
    return handler.ask(command);
  };
  const std::string first = ask({"RL.CHECK"}, {"COST", "7", "ID", "x"});
  EXPECT_EQ(value_of(first, "id"), "x");
  EXPECT_EQ(value_of(first, "repeated"), "absent");
  EXPECT_EQ(value_of(ask({"RL.PEEK", "CHECK"}, {"COST", "7", "ID", "x"}), "repeated"), ":1");
  const std::string again = ask({"RL.CHECK"}, {"ID", "x", "COST", "7"});
  EXPECT_EQ(value_of(again, "repeated"), ":1");
  EXPECT_EQ(value_of(again, "remaining"), ":93");
  EXPECT_EQ(value_of(ask({"RL.CHECK"}, {"COST", "8", "ID", "x"}), "reason"), "conflict");
  for (const std::string_view repeated : {"absent", ":1"}) {
    const std::string charged = ask({"RL.CHARGE", "CHECK"}, {"COST", "200", "ID", "y"});
    EXPECT_EQ(value_of(charged, "repeated"), repeated);
    EXPECT_EQ(value_of(charged, "reason"), "over");
  }
  // A key of a limit may read an attribute `id`.
  EXPECT_EQ(value_of(ask({"RL.PEEK", "CHECK"}, {"id", "x"}), "id"), "absent");
  EXPECT_EQ(ask({"RL.CHECK"}, {"ID", "x", "tokens", "1"}),
            "-ERR ID must come after the attributes\r\n");
  for (const std::vector<std::string_view>& command :
       {std::vector<std::string_view>{"RL.REFUND", "CHECK"},
        {"RL.RESET", "CHECK"},
        {"RL.REPORT"}}) {
    EXPECT_EQ(ask(command, {"status", "200", "ID", "x"}),
              "-ERR this command has no ID; expected RL.CHECK, RL.CHARGE or RL.HOLD\r\n");
  }
}

TEST(Check, ABudgetThatDoesNotRenewHasNoResetInTheAnswerAndItsLimit) {
  TestCommands handler;
  const std::string untouched =
      handler.ask({"RL.PEEK", "CHECK", "*", "path", "/money", "org", "a", "COST", "0"});
  EXPECT_EQ(value_of(untouched, "reset_after_ms"), ":0");
  const std::string reply = handler.ask({"RL.CHECK", "*", "path", "/money", "org", "a"});
  EXPECT_EQ(value_of(reply, "reset_after_ms"), "$-1");
  EXPECT_EQ(value_of(reply.substr(reply.find("$6\r\nlimits")), "reset_after_ms"), "$-1");
}

TEST(Check, HasTheOptionsOfBudgetsInAnyOrder) {
  TestCommands handler;
  const auto ask = [&](std::string_view command, const std::vector<std::string_view>& options) {
    std::vector<std::string_view> words{command, "CHECK", "*", "path", "/money", "org", "a"};
    words.insert(words.end(), options.begin(), options.end());
    return handler.ask(words);
  };
  EXPECT_EQ(value_of(ask("RL.HOLD", {"ID", "x", "TTL", "30s", "COST", "7"}), "id"), "x");
  const std::string settled = ask("RL.SETTLE", {"ID", "x", "ACTUAL", "5"});
  EXPECT_EQ(value_of(settled, "id"), "x");
  EXPECT_EQ(value_of(settled, "remaining"), ":95");
  EXPECT_EQ(value_of(ask("RL.SETTLE", {"ACTUAL", "5", "ID", "x"}), "repeated"), ":1");
  EXPECT_EQ(value_of(ask("RL.SETTLE", {"ID", "x", "COST", "7", "ACTUAL", "5"}), "repeated"), ":1");
  EXPECT_EQ(ask("RL.SETTLE", {"ID", "x", "ACTUAL", "5", "ID", "y"}), "-ERR ID is given twice\r\n");
  EXPECT_EQ(ask("RL.EXTEND", {"TTL", "1s", "ID", "x", "TTL", "2s"}), "-ERR TTL is given twice\r\n");
  EXPECT_EQ(ask("RL.SETTLE", {"ID", "x", "tokens", "1", "ACTUAL", "5"}),
            "-ERR ID must come after the attributes\r\n");
  EXPECT_EQ(ask("RL.HOLD", {"ID", "x", "tokens", "1", "TTL", "5s"}),
            "-ERR ID must come after the attributes\r\n");
  EXPECT_EQ(ask("RL.CANCEL", {}), "-ERR ID is missing; expected it at the end\r\n");
}

TEST(Check, ErrorsNameTheProblem) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"RL.CHECK", "*", "path"}),
            "-ERR the attribute 'path' lacks its value\r\n");
  EXPECT_EQ(handler.ask({"RL.CHECK", "*", "a", "1", "a", "2"}),
            "-ERR the attribute 'a' is given twice\r\n");
  EXPECT_TRUE(handler.ask({"RL.CHECK", "*", "a", "1", "COST", "x"})
                  .starts_with("-ERR COST is not an integer: 'x'"));
  EXPECT_TRUE(
      handler.ask({"RL.CHECK", "*", std::string(257, 'a'), "1"}).starts_with("-ERR the attri"));
  EXPECT_EQ(handler.ask({"RL.CHECK", "models", "COST", "1", "COST", "2"}),
            "-ERR COST is given twice\r\n");
  EXPECT_EQ(handler.ask({"RL.CHECK", "models", "COST", "x=1", "COST", "x=2"}),
            "-ERR COST is given twice for the limit 'x'\r\n");
  EXPECT_TRUE(handler.ask({"RL.CHECK", "models", "COST", "requests=-1"})
                  .starts_with("-ERR COST is out of range: '-1'"));
  EXPECT_TRUE(handler.ask({"RL.CHECK", "models", "COST", "requests=9007199254740992"})
                  .starts_with("-ERR COST is out of range: '9007199254740992'"));
  EXPECT_TRUE(handler.ask({"RL.CHECK", "models", "COST", "requests="})
                  .starts_with("-ERR COST is not an integer: ''"));
  EXPECT_EQ(handler.ask({"RL.CHECK", "models", "COST", std::string_view("x\0=1", 4)}),
            "-ERR the rules that apply have no limit 'x\\x00'; expected the name of a limit: "
            "requests or a=b\r\n");
  EXPECT_EQ(handler.ask({"RL.CHECK", "models", "tokens", "x"}),
            "-ERR the cost of the limit 'a=b', 'tokens', is 'x'; expected a whole number from 0 to "
            "4294967295\r\n");
}

TEST(Limits, OfRequestsAreCountedUnderNoRuleAndOnlyByTakes) {
  TestCommands handler;
  const auto count = [&](std::string_view outcome, std::string_view reason) {
    const std::string text = handler.registry.text();
    const std::string series = "sluice_requests_total{rule=\"\",outcome=\"" + std::string(outcome) +
                               "\",reason=\"" + std::string(reason) + "\"} ";
    const std::size_t at = text.find(series);
    return at == text.npos ? -1 : std::stoi(text.substr(at + series.size()));
  };
  for (int i = 0; i < 3; ++i) handler.ask({"CL.THROTTLE", "k", "0", "1", "60"});
  EXPECT_EQ(count("allowed", "ok"), 1);
  EXPECT_EQ(count("denied", "limited"), 2);
  handler.ask({"RL.LIMIT", "l", "token_bucket", "10", "60s"});
  handler.ask({"RL.LIMIT", "l", "token_bucket", "10", "60s", "COST", "11"});
  handler.ask({"CL.THROTTLE", "k", "0", "1", "60", "2"});
  EXPECT_EQ(count("allowed", "ok"), 2);
  EXPECT_EQ(count("denied", "never"), 2);
  handler.ask({"CL.THROTTLE", "k", "0", "1", "60", "0"});
  handler.ask({"CL.THROTTLE", "k", "0", "1", "60", "-1"});
  handler.ask({"RL.PEEK", "LIMIT", "l", "token_bucket", "10", "60s"});
  handler.ask({"CL.THROTTLE", "k", "x", "1", "60"});
  for (const std::string_view actual : {"0", "1", "2"}) {
    handler.ask({"RL.SETTLE", "LIMIT", "l", "token_bucket", "10", "60s", "ACTUAL", actual});
  }
  EXPECT_EQ(count("allowed", "ok"), 2);
  EXPECT_EQ(count("denied", "limited"), 2);
}

TEST(Info, ReportsWhatClientsLookFor) {
  TestCommands handler;
  const std::string reply = handler.ask({"INFO"});
  for (const std::string_view line :
       {"redis_version:7.0.15\r\n", "sluice_version:0.1.0\r\n", "loading:0\r\n",
        "connected_clients:3\r\n", "role:master\r\n", "cluster_enabled:0\r\n"}) {
    EXPECT_NE(reply.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(handler.ask({"INFO", "CLIENTS"}), "$32\r\n# Clients\r\nconnected_clients:3\r\n\r\n");
  EXPECT_EQ(handler.ask({"INFO", "nothing"}), "$0\r\n\r\n");
}

}  // namespace
}  // namespace sluice::server::resp

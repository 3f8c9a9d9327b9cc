#include "server/api/resp/command_handler.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/api/resp/test_handler.h"
#include "server/logging/test_pipe.h"

namespace sluice::server::resp {
namespace {

using std::chrono::nanoseconds;

// Returns the log line of a request of this client, without the time.
std::string line_of(std::vector<std::string_view> words, TestCommands& handler) {
  TestingPipe pipe;
  {
    Log log({.access = true}, pipe.writing());
    handler.handler.outcome.reset();
    const std::string reply = handler.ask(words);
    log_access(log, handler.client, words, reply, handler.handler.outcome, nanoseconds{1999});
  }
  const auto lines = pipe.lines();
  return lines.size() == 1 ? lines[0].substr(lines[0].find(' ') + 1) : "";
}

TEST(AccessLine, WritesTheDecisionOfACommandInAnyCase) {
  TestCommands handler;
  EXPECT_EQ(line_of({"Cl.Throttle", "k", "0", "1", "60"}, handler),
            "info request command=cl.throttle status=ok outcome=allowed peer=127.0.0.1 "
            "duration_us=1 front_end=resp");
  EXPECT_EQ(line_of({"CL.THROTTLE", "k", "0", "1", "60"}, handler),
            "info request command=cl.throttle status=ok outcome=denied peer=127.0.0.1 "
            "duration_us=1 front_end=resp");
}

TEST(AccessLine, WritesPartsErrorsAndUsersButNoPassword) {
  TestCommands handler({{"ops", Role::kAdmin, "secret"}});
  EXPECT_EQ(line_of({"PING"}, handler),
            "info request command=ping status=NOAUTH peer=127.0.0.1 duration_us=1 front_end=resp");
  EXPECT_EQ(
      line_of({"AUTH", "ops", "secret"}, handler),
      "info request command=auth status=ok peer=127.0.0.1 user=ops duration_us=1 front_end=resp");
  EXPECT_EQ(line_of({"CLIENT", "GETNAME"}, handler),
            "info request command=client|getname status=ok peer=127.0.0.1 user=ops duration_us=1 "
            "front_end=resp");
}

TEST(AccessLine, TruncatesAnUnknownCommand) {
  TestCommands handler;
  const std::string word(5000, 'x');
  EXPECT_EQ(line_of({word, "secret"}, handler), "info request command=" + word.substr(0, 64) +
                                                    "… status=ERR peer=127.0.0.1 duration_us=1 "
                                                    "front_end=resp");
}

TEST(AccessLine, WritesHostsWithoutPortsAndNoPathOfASocket) {
  TestCommands handler;
  handler.client.peer = "[2001:db8::1]:50000";
  EXPECT_NE(line_of({"PING"}, handler).find(" peer=2001:db8::1 "), std::string::npos);
  handler.client.peer = "/run/sluice/resp.sock:0";
  EXPECT_NE(line_of({"PING"}, handler).find(" peer=\"\" "), std::string::npos);
}

}  // namespace
}  // namespace sluice::server::resp

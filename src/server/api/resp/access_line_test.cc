#include "server/api/resp/access_line.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/api/resp/test_handler.h"
#include "server/logging/testing_pipe.h"

namespace sluice::server::resp {
namespace {

using std::chrono::nanoseconds;

// What is logged of a request of this client, without the time.
std::string line_of(std::vector<std::string_view> words, TestCommands& desk) {
  TestingPipe pipe;
  {
    Log log({.access = true}, pipe.writing());
    desk.desk.outcome.reset();
    const std::string reply = desk.ask(words);
    log_access(log, {words, reply, desk.desk.outcome, desk.client, nanoseconds{1999}});
  }
  const auto lines = pipe.lines();
  return lines.size() == 1 ? lines[0].substr(lines[0].find(' ') + 1) : "";
}

TEST(AccessLine, TellsTheDecisionOfACommandInAnyCase) {
  TestCommands desk;
  EXPECT_EQ(line_of({"Cl.Throttle", "k", "0", "1", "60"}, desk),
            "info request command=cl.throttle status=ok outcome=allowed peer=127.0.0.1 "
            "duration_us=1 door=resp");
  EXPECT_EQ(line_of({"CL.THROTTLE", "k", "0", "1", "60"}, desk),
            "info request command=cl.throttle status=ok outcome=denied peer=127.0.0.1 "
            "duration_us=1 door=resp");
}

TEST(AccessLine, TellsPartsAndErrorsAndUsersButNoPassword) {
  TestCommands desk({{"ops", "secret", Role::kAdmin}});
  EXPECT_EQ(line_of({"PING"}, desk),
            "info request command=ping status=NOAUTH peer=127.0.0.1 duration_us=1 door=resp");
  EXPECT_EQ(line_of({"AUTH", "ops", "secret"}, desk),
            "info request command=auth status=ok peer=127.0.0.1 user=ops duration_us=1 door=resp");
  EXPECT_EQ(line_of({"CLIENT", "GETNAME"}, desk),
            "info request command=client|getname status=ok peer=127.0.0.1 user=ops duration_us=1 "
            "door=resp");
}

TEST(AccessLine, CutsWhatIsNoCommand) {
  TestCommands desk;
  const std::string word(5000, 'x');
  EXPECT_EQ(line_of({word, "secret"}, desk), "info request command=" + word.substr(0, 64) +
                                                 "… status=ERR peer=127.0.0.1 duration_us=1 "
                                                 "door=resp");
}

TEST(AccessLine, TellsHostsWithoutPortsAndNoPathOfASocket) {
  TestCommands desk;
  desk.client.peer = "[2001:db8::1]:50000";
  EXPECT_NE(line_of({"PING"}, desk).find(" peer=2001:db8::1 "), std::string::npos);
  desk.client.peer = "/run/sluice/resp.sock:0";
  EXPECT_NE(line_of({"PING"}, desk).find(" peer=\"\" "), std::string::npos);
}

}  // namespace
}  // namespace sluice::server::resp

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/resp/test_handler.h"

namespace sluice::server::resp::connection_commands_test {
namespace {

const std::vector<KnownClient> kUsers{{"default", Role::kCheck, "secret"},
                                      {"ops", Role::kAdmin, "more-secret"}};
constexpr std::string_view kNoAuth = "-NOAUTH Authentication required.\r\n";
constexpr std::string_view kWrongPass =
    "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

TEST(ConnectionCommands, AnswerTheHandshakeOfClients) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"ping"}), "+PONG\r\n");
  EXPECT_EQ(handler.ask({"PING", "a"}), "$1\r\na\r\n");
  EXPECT_EQ(handler.ask({"ECHO", ""}), "$0\r\n\r\n");
  EXPECT_EQ(handler.ask({"SELECT", "0"}), "+OK\r\n");
  EXPECT_EQ(handler.ask({"SELECT", "1"}), "-ERR DB index is out of range\r\n");
  EXPECT_EQ(handler.ask({"SELECT", "x"}), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "ID"}), ":7\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "GETNAME"}), "$-1\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "SETNAME", "me"}), "+OK\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "GETNAME"}), "$2\r\nme\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "SETNAME", "a b"}),
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "SETINFO", "LIB-NAME", "x"}), "+OK\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "SETINFO", "lib-ver", "1.0"}), "+OK\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "SETINFO", "what", "1.0"}),
            "-ERR Unrecognized option 'what'\r\n");
  EXPECT_NE(handler.ask({"CLIENT", "INFO"}).find(" resp=2 lib-name=x lib-ver=1.0 "),
            std::string::npos);
  EXPECT_EQ(handler.ask({"CLIENT", "NO-EVICT", "on"}), "+OK\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "NO-TOUCH", "maybe"}), "-ERR syntax error\r\n");
}

// redis-py 5 and valkey-py 6 read these as numbers and fail if one is absent.
TEST(ConnectionCommands, ClientInfoHasTheNumbersThatClientsRead) {
  TestCommands handler;
  handler.client.connected = handler.handler.parts.clock.now() - std::chrono::seconds{90};
  const std::string info = handler.ask({"CLIENT", "INFO"});
  for (const std::string name : {"id", "age", "idle", "db", "sub", "psub", "multi", "qbuf",
                                 "qbuf-free", "obl", "argv-mem", "oll", "omem", "tot-mem"}) {
    const std::size_t at = info.find(name == "id" ? "id=" : " " + name + "=");
    ASSERT_NE(at, std::string::npos) << name;
    const char first = info[info.find('=', at) + 1];
    EXPECT_TRUE(first == '-' || (first >= '0' && first <= '9')) << name << " in " << info;
  }
  EXPECT_NE(info.find(" age=90 "), std::string::npos) << info;
}

TEST(ConnectionCommands, NamesAreBounded) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"CLIENT", "SETNAME", std::string(1025, 'a')}),
            "-ERR Client names cannot be longer than 1024 bytes.\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "SETNAME", std::string(1024, 'a')}), "+OK\r\n");
}

TEST(Hello, ChoosesTheProtocol) {
  TestCommands handler;
  EXPECT_TRUE(handler.ask({"HELLO"}).starts_with("*14\r\n"));
  EXPECT_TRUE(handler.ask({"HELLO", "3", "SETNAME", "me"}).starts_with("%7\r\n"));
  EXPECT_EQ(handler.client.name, "me");
  EXPECT_EQ(handler.ask({"CLIENT", "NO-TOUCH", "off"}), "+OK\r\n");
  EXPECT_EQ(handler.ask({"HELLO", "4"}), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(handler.ask({"HELLO", "x"}),
            "-ERR Protocol version is not an integer or out of range\r\n");
  EXPECT_EQ(handler.ask({"HELLO", "2", "WHAT"}), "-ERR Syntax error in HELLO option 'WHAT'\r\n");
  EXPECT_EQ(handler.ask({"HELLO", "2", "AUTH", "x"}),
            "-ERR Syntax error in HELLO option 'AUTH'\r\n");
  EXPECT_EQ(handler.client.protocol, 3);
  EXPECT_EQ(handler.ask({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(handler.client.protocol, 2);
  EXPECT_EQ(handler.ask({"CLIENT", "GETNAME"}), "$-1\r\n");
}

TEST(Hello, DescribesTheServer) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"HELLO", "3"}),
            "%7\r\n$6\r\nserver\r\n$6\r\nsluice\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n"
            "$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
            "$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
}

TEST(Hello, ChangesNothingIfAnOptionIsWrong) {
  TestCommands handler(kUsers);
  EXPECT_EQ(handler.ask({"HELLO", "3", "SETNAME", "a", "AUTH", "ops", "wrong"}), kWrongPass);
  EXPECT_EQ(handler.ask({"HELLO", "3", "AUTH", "ops", "more-secret", "SETNAME", "a b"}),
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n");
  EXPECT_EQ(handler.client.protocol, 2);
  EXPECT_EQ(handler.client.name, "");
  EXPECT_EQ(handler.client.role, Role::kNobody);
}

TEST(Hello, ErrorsShowAnOptionUpToItsFirstNul) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"HELLO", "2", std::string_view("a\0b", 3)}),
            "-ERR Syntax error in HELLO option 'a'\r\n");
  EXPECT_EQ(handler.ask({"CLIENT", "SETINFO", std::string_view("a\0b", 3), "x"}),
            "-ERR Unrecognized option 'a'\r\n");
}

TEST(Reset, LogsTheClientOutButKeepsItsConnection) {
  TestCommands handler(kUsers);
  handler.ask({"AUTH", "ops", "more-secret"});
  EXPECT_EQ(handler.ask({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(handler.client.role, Role::kNobody);
  EXPECT_EQ(handler.client.user, nullptr);
  EXPECT_FALSE(handler.client.leaves);
}

TEST(Reset, ReturnsToTheUserOfTheCertificate) {
  TestCommands handler(kUsers);
  const KnownClient* const own = handler.users.find("default", "secret");
  ASSERT_NE(own, nullptr);
  handler.client.of_certificate = own;
  handler.ask({"AUTH", "ops", "more-secret"});
  EXPECT_EQ(handler.ask({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(handler.client.user, own);
  EXPECT_EQ(handler.client.role, own->role);
}

TEST(Ping, HasAtMostOneArgument) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"PING", "a", "b"}),
            "-ERR wrong number of arguments for 'ping' command\r\n");
}

TEST(ClientInfo, NamesTheUserAndTheRole) {
  TestCommands handler(kUsers);
  handler.ask({"HELLO", "3", "AUTH", "ops", "more-secret", "SETNAME", "me"});
  const std::string info = handler.ask({"CLIENT", "INFO"});
  EXPECT_TRUE(info.starts_with("="));
  EXPECT_NE(info.find("\r\ntxt:id=7 addr=127.0.0.1:1 laddr= fd=-1 name=me age="), info.npos)
      << info;
  EXPECT_TRUE(info.ends_with(" user=ops redir=-1 resp=3 lib-name= lib-ver= role=admin\n\r\n"));
}

TEST(ClientSetinfo, RefusesAValueThatWouldBreakTheLineOfClientInfo) {
  TestCommands handler;
  const std::string end =
      " cannot contain spaces, newlines or special characters, nor be longer than 1024 bytes.\r\n";
  EXPECT_EQ(handler.ask({"CLIENT", "SETINFO", "lib-name", "a b"}), "-ERR lib-name" + end);
  EXPECT_EQ(handler.ask({"CLIENT", "SETINFO", "LIB-VER", std::string(1025, '1')}),
            "-ERR lib-ver" + end);
  EXPECT_EQ(handler.client.library, "");
  EXPECT_EQ(handler.client.library_version, "");
}

TEST(Quit, IsAnsweredBeforeTheConnectionCloses) {
  TestCommands handler(kUsers);
  EXPECT_EQ(handler.ask({"QUIT"}), "+OK\r\n");
  EXPECT_TRUE(handler.client.leaves);
}

TEST(Auth, NothingIsAnsweredBeforeThePassword) {
  TestCommands handler(kUsers);
  for (const auto& words :
       std::vector<std::vector<std::string_view>>{{"PING"},
                                                  {"CL.THROTTLE", "a", "1", "1", "1"},
                                                  {"COMMAND"},
                                                  {"INFO"},
                                                  {"CLIENT", "ID"},
                                                  {"RL.CHECK", "*"}}) {
    EXPECT_EQ(handler.ask(words), kNoAuth) << words[0];
  }
  EXPECT_TRUE(handler.ask({"HELLO", "3"}).starts_with("-NOAUTH HELLO must be called"));
  EXPECT_EQ(handler.client.protocol, 2);
  EXPECT_EQ(handler.ask({"AUTH", "wrong"}), kWrongPass);
  EXPECT_EQ(handler.ask({"AUTH", "ops", "secret"}), kWrongPass);
  EXPECT_EQ(handler.ask({"AUTH", "a", "b", "c"}), "-ERR syntax error\r\n");
  EXPECT_EQ(handler.ask({"AUTH", "secret"}), "+OK\r\n");
  EXPECT_EQ(handler.ask({"PING"}), "+PONG\r\n");
  handler.ask({"RESET"});
  EXPECT_EQ(handler.ask({"PING"}), kNoAuth);
  EXPECT_TRUE(handler.ask({"HELLO", "3", "AUTH", "ops", "more-secret"}).starts_with("%7\r\n"));
  EXPECT_EQ(handler.client.role, Role::kAdmin);
}

TEST(Auth, AWrongPasswordKeepsTheCurrentUser) {
  TestCommands handler(kUsers);
  handler.ask({"AUTH", "secret"});
  EXPECT_EQ(handler.ask({"AUTH", "ops", "wrong"}), kWrongPass);
  EXPECT_EQ(handler.ask({"PING"}), "+PONG\r\n");
}

TEST(Auth, WithoutUsersAPasswordIsAMistakeAsInRedis) {
  TestCommands handler;
  EXPECT_TRUE(handler.ask({"AUTH", "x"}).starts_with("-ERR AUTH <password> called without any"));
  EXPECT_EQ(handler.ask({"AUTH", "default", "x"}), "+OK\r\n");
  EXPECT_EQ(handler.ask({"AUTH", "other", "x"}), kWrongPass);
}

}  // namespace
}  // namespace sluice::server::resp::connection_commands_test

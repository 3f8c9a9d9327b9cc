#include "stores/redis/client/link.h"

#include <gtest/gtest.h>

#include <string>

#include "stores/redis/client/test_reply.h"

namespace sluice::redis::handshake_test {
namespace {

using Step = Handshake::Step;

const std::string kOk = "+OK\r\n";

std::string hello(std::string_view role) {
  return list({"server", "redis", "version", "7.0.15", "role", role}, '%');
}

// Says `begin` first and expects `sent` of the handshake after each reply.
class Talk {
 public:
  explicit Talk(LinkOptions options) : handshake(std::move(options)) { step = handshake.begin(); }
  // What was sent last, and then this was answered.
  Talk& hears(std::string_view reply) {
    EXPECT_LT(step, Step::kReady);
    step = handshake.on_reply(*TestReply(reply));
    return *this;
  }
  std::string_view sent() const { return handshake.output(); }

  Handshake handshake;
  Step step = Step::kHello;
};

TEST(Handshake, TakesOneCommandInResp3) {
  Talk plain({});
  EXPECT_EQ(plain.sent(), list({"HELLO", "3", "SETNAME", "sluice"}));
  EXPECT_EQ(plain.hears(hello("master")).step, Step::kReady);

  Talk user({.username = "user", .password = "pass"});
  EXPECT_EQ(user.sent(), list({"HELLO", "3", "AUTH", "user", "pass", "SETNAME", "sluice"}));
  EXPECT_EQ(user.hears(hello("master")).step, Step::kReady);

  Talk nameless({.password = "pass"});
  EXPECT_EQ(nameless.sent(), list({"HELLO", "3", "AUTH", "default", "pass", "SETNAME", "sluice"}));
}

TEST(Handshake, SelectsTheDatabase) {
  Talk talk({.database = 7});
  EXPECT_EQ(talk.hears(hello("master")).sent(), list({"SELECT", "7"}));
  EXPECT_EQ(talk.hears(kOk).step, Step::kReady);
}

TEST(Handshake, FallsBackToResp2IfTheServerDoesNotKnowHello) {
  for (const std::string refusal : {"-ERR unknown command `HELLO`, with args beginning with: `3`",
                                    "-NOPROTO unsupported protocol version"}) {
    Talk talk({.username = "user", .password = "pass", .database = 1});
    EXPECT_EQ(talk.hears(refusal + "\r\n").sent(), list({"AUTH", "user", "pass"}));
    EXPECT_EQ(talk.hears(kOk).sent(), list({"CLIENT", "SETNAME", "sluice"}));
    EXPECT_EQ(talk.hears(kOk).sent(), list({"SELECT", "1"}));
    EXPECT_EQ(talk.hears(kOk).step, Step::kReady);
  }
}

TEST(Handshake, UsesResp2IfTheOptionsRequireIt) {
  Talk talk({.password = "pass", .protocol = 2});
  EXPECT_EQ(talk.sent(), list({"AUTH", "pass"}));
  EXPECT_EQ(talk.hears(kOk).sent(), list({"CLIENT", "SETNAME", "sluice"}));
  EXPECT_EQ(talk.hears("-ERR unknown command 'CLIENT'\r\n").step, Step::kReady);
}

TEST(Handshake, FailsIfTheOptionsRequireResp3AndTheServerHasOnlyResp2) {
  Talk talk({.protocol = 3});
  EXPECT_EQ(talk.hears("-ERR unknown command 'HELLO'\r\n").step, Step::kFailed);
  EXPECT_EQ(talk.handshake.why(),
            "the server does not support RESP3 (protocol 3); expected protocol 0 or 2 (it says: "
            "ERR unknown "
            "command 'HELLO')");
}

struct Refusal {
  std::string said;
  std::string why;
};

class HandshakeRefused : public ::testing::TestWithParam<Refusal> {};

TEST_P(HandshakeRefused, ReportsTheReasonInBothProtocols) {
  for (const int protocol : {2, 3}) {
    Talk talk({.username = "user", .password = "hush", .protocol = protocol});
    EXPECT_EQ(talk.hears("-" + GetParam().said + "\r\n").step, Step::kFailed);
    EXPECT_EQ(talk.handshake.why(), GetParam().why + " (it says: " + GetParam().said + ")");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, HandshakeRefused,
    ::testing::Values(
        Refusal{"WRONGPASS invalid username-password pair or user is disabled.",
                "wrong user name or password"},
        Refusal{"ERR max number of clients reached",
                "the server has its maximum number of clients (maxclients)"},
        Refusal{"LOADING Redis is loading the dataset in memory",
                "the server is still loading its data"},
        Refusal{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                "the server is a replica that has lost its master"},
        Refusal{"DENIED Redis is running in protected mode",
                "the server is in protected mode and accepts no remote connections"},
        Refusal{"ERR AUTH <password> called without any password configured for the default user.",
                "a password is configured, but the server requires none"}));

TEST(Handshake, ReportsThatTheServerRequiresAPassword) {
  for (const int protocol : {0, 3}) {
    Talk talk({.protocol = protocol});
    EXPECT_EQ(
        talk.hears("-NOAUTH HELLO must be called with the client already authenticated\r\n").step,
        Step::kFailed);
    EXPECT_EQ(talk.handshake.why().find("the server requires a password (it says: NOAUTH"), 0u);
  }
  Talk old({.protocol = 2});
  EXPECT_EQ(old.hears("-NOAUTH Authentication required.\r\n").step, Step::kFailed);
  EXPECT_EQ(old.handshake.why().find("the server requires a password"), 0u);
}

TEST(Handshake, DoesNotShowAPasswordThatTheServerRepeats) {
  Talk talk({.username = "user", .password = "hush", .protocol = 3});
  EXPECT_EQ(talk.hears("-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, "
                       "`user`, `hush`, \r\n")
                .step,
            Step::kFailed);
  EXPECT_EQ(talk.handshake.why().find("hush"), std::string::npos);
}

TEST(Handshake, ReportsADatabaseThatDoesNotExist) {
  Talk talk({.database = 99});
  talk.hears(hello("master"));
  EXPECT_EQ(talk.hears("-ERR DB index is out of range\r\n").step, Step::kFailed);
  EXPECT_EQ(talk.handshake.why(),
            "the server has no database 99 (it says: ERR DB index is out of range)");
}

TEST(Handshake, RefusesAReplicaIfAMasterIsRequired) {
  Talk talk({.only_master = true});
  EXPECT_EQ(talk.hears(hello("replica")).step, Step::kFailed);
  EXPECT_EQ(talk.handshake.why(), "the server is not a master but a replica");
  EXPECT_EQ(Talk({}).hears(hello("replica")).step, Step::kReady);
  EXPECT_EQ(Talk({.only_master = true}).hears(hello("master")).step, Step::kReady);
}

TEST(Handshake, AsksForTheRoleIfTheReplyToHelloHasNone) {
  for (const auto& [role, step] : {std::pair{"slave", Step::kFailed}, {"master", Step::kReady}}) {
    Talk talk({.protocol = 2, .only_master = true});
    EXPECT_EQ(talk.hears(kOk).sent(), list({"ROLE"}));
    EXPECT_EQ(talk.hears(list({role})).step, step);
  }
}

TEST(Handshake, AcceptsAServerThatDoesNotPermitRole) {
  Talk talk({.protocol = 2, .only_master = true});
  talk.hears(kOk);
  EXPECT_EQ(talk.hears("-NOPERM this user has no permissions to run the 'role' command\r\n").step,
            Step::kReady);
}

TEST(Handshake, FailsIfTheReplyToHelloIsMalformed) {
  for (const std::string reply : {"+OK\r\n", ":1\r\n", "*0\r\n", "$-1\r\n", "*1\r\n+server\r\n"}) {
    EXPECT_EQ(Talk({}).hears(reply).step, Step::kFailed) << reply;
  }
}

}  // namespace
}  // namespace sluice::redis::handshake_test

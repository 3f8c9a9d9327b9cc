#include "server/protocol/resp/connection.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/net/test_connection_state.h"
#include "server/protocol/resp/reply.h"

namespace sluice::server::resp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Answers with the second word. "QUIT" leaves, "AUTH" logs in, "RESET" logs out. Waits first if
// `waits` is given.
class EchoHandler final : public Handler {
 public:
  explicit EchoHandler(net::TestWaits* waits) : waits_(waits) {}

  void answer(Client& client) override {
    if (waits_ != nullptr) {
      const std::string word(request.back());  // the connection may read more meanwhile
      waits_->wait();
      return Reply(output, client.protocol).bulk(word);
    }
    if (request[0] == "QUIT") client.leaves = true;
    if (request[0] == "AUTH") client.role = Role::kAdmin;
    if (request[0] == "RESET") client.role = Role::kNobody;
    Reply(output, client.protocol).bulk(request.back());
  }
  void follow_rules() override {}

 private:
  net::TestWaits* const waits_;
};

class RespConnectionState : public net::ConnectionStateTest<ConnectionState> {
 protected:
  void SetUp() override { start(false); }
  void start(bool waits, Role role = Role::kAdmin) {
    state_.reset();
    shared_.reset();
    const auto make = [this, waits] {
      return std::make_unique<EchoHandler>(waits ? &waits_ : nullptr);
    };
    handlers_.emplace(make, waits ? std::optional(net::FiberPool::Options{}) : std::nullopt);
    shared_.emplace(
        SharedState{{bounds_, users_, last_id_}, *handlers_, registry_.make_recorder(), clock_});
    Client client;
    client.role = role;
    state_.emplace(std::move(client), *shared_, act(), clock_.time);
  }

  Bounds bounds_{.body_bytes = std::size_t{1} << 20,
                 .header_timeout = seconds(1),
                 .body_timeout = seconds(2),
                 .write_timeout = seconds(3)};
  const Users users_;
  std::atomic<std::uint64_t> last_id_{0};
  std::optional<Handlers> handlers_;
  std::optional<SharedState> shared_;
};

TEST_F(RespConnectionState, AnswersPipelinedRequestsInOrderAndSendsTheRepliesTogether) {
  ASSERT_EQ(state_->on_input("ECHO a\r\nECHO bc\r\nECHO d", clock_.time), Action::kSend);
  EXPECT_EQ(state_->output(), "$1\r\na\r\n$2\r\nbc\r\n");
  EXPECT_EQ(run(Action::kSend), Action::kReceive);
  EXPECT_EQ(input("\r\n"), Action::kReceive);
  EXPECT_TRUE(sent_.ends_with("$1\r\nd\r\n"));
}

TEST_F(RespConnectionState, AnswersARequestThatArrivesByteByByte) {
  const std::string_view request = "*2\r\n$4\r\nECHO\r\n$2\r\nxy\r\n";
  for (const char byte : request.substr(0, request.size() - 1)) {
    ASSERT_EQ(input({&byte, 1}), Action::kReceive);
    ASSERT_EQ(sent_, "");
  }
  EXPECT_EQ(input("\n"), Action::kReceive);
  EXPECT_EQ(sent_, "$2\r\nxy\r\n");
}

TEST_F(RespConnectionState, SendsTheRestWhenTheSocketHasRoomAgain) {
  ASSERT_EQ(state_->on_input("ECHO abcdef\r\n", clock_.time), Action::kSend);
  EXPECT_EQ(state_->on_sent(4), Action::kWaitToSend);
  EXPECT_EQ(handlers_->only().output.size(), 0U) << "the buffer belongs to all connections";
  EXPECT_EQ(state_->on_room(clock_.time), Action::kSend);
  EXPECT_EQ(state_->output(), "abcdef\r\n");
  EXPECT_EQ(state_->on_sent(8), Action::kReceive);
}

TEST_F(RespConnectionState, DoesNotAnswerMoreWhile64KiBWait) {
  const std::string word(1000, 'x');
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += "ECHO " + word + "\r\n";
  ASSERT_EQ(state_->on_input(requests, clock_.time), Action::kSend);
  EXPECT_LT(state_->output().size(), std::size_t{68} << 10);
  ASSERT_EQ(state_->on_sent(0), Action::kWaitToSend);
  EXPECT_EQ(run(state_->on_room(clock_.time)), Action::kReceive);
  EXPECT_EQ(sent_.size(), 200 * (word.size() + std::string_view("$1000\r\n\r\n").size()));
}

TEST_F(RespConnectionState, ReportsAProtocolErrorAfterEarlierRepliesAndHalfCloses) {
  EXPECT_EQ(input("ECHO a\r\n*1\r\n!\r\nECHO b\r\n"), Action::kHalfClose);
  EXPECT_EQ(sent_, "$1\r\na\r\n-ERR Protocol error: expected '$', got '!'\r\n");
  EXPECT_EQ(input("more"), Action::kReceive) << "it is discarded";
}

TEST_F(RespConnectionState, AnswersNothingAfterALineOfHttp) {
  EXPECT_EQ(input("ECHO a\r\nPOST / HTTP/1.1\r\nECHO b\r\n"), Action::kHalfClose);
  EXPECT_EQ(sent_, "$1\r\na\r\n");
}

TEST_F(RespConnectionState, EndsAfterTheReplyToQuit) {
  EXPECT_EQ(input("QUIT now\r\nECHO b\r\n"), Action::kHalfClose);
  EXPECT_EQ(sent_, "$3\r\nnow\r\n");
}

TEST_F(RespConnectionState, ClosesWhenAClientSendsTooMuchAfterTheLastReply) {
  ASSERT_EQ(input("QUIT now\r\n"), Action::kHalfClose);
  const std::string megabyte(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 16; ++i) ASSERT_EQ(input(megabyte), Action::kReceive);
  EXPECT_EQ(input("x"), Action::kClose);
}

TEST_F(RespConnectionState, AnIdleConnectionHasNoTimeoutUnlessOneIsConfigured) {
  EXPECT_FALSE(state_->expired(clock_.time + std::chrono::hours(1000)));
  shared_->idle_timeout = seconds(5);
  ASSERT_EQ(input("ECHO a\r\n"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(4999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(5)));
}

TEST_F(RespConnectionState, AClientThatDoesNotLogInIsClosedAndOneThatDoesIsNot) {
  start(false, Role::kNobody);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(1)));
  start(false, Role::kNobody);
  ASSERT_EQ(input("AUTH secret\r\n"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + std::chrono::hours(1000)));
}

TEST_F(RespConnectionState, NoRequestProlongsTheTimeToLogIn) {
  start(false, Role::kNobody);
  clock_.time += milliseconds(600);
  ASSERT_EQ(input("ECHO a\r\nECHO"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(399)));
  EXPECT_TRUE(state_->expired(clock_.time + milliseconds(400)));
  ASSERT_EQ(input(" b\r\nRESET\r\n"), Action::kReceive);
  EXPECT_TRUE(state_->expired(clock_.time + milliseconds(400)));
  ASSERT_EQ(input("AUTH secret\r\n"), Action::kReceive);
  clock_.time += seconds(5);
  ASSERT_EQ(input("RESET\r\n"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(1)));
}

TEST_F(RespConnectionState, EndsAfterTheMostRequestsOfAConnection) {
  bounds_.requests_per_connection = 2;
  start(false);
  ASSERT_EQ(input("ECHO a\r\n\r\n"), Action::kReceive) << "an empty line is no request";
  EXPECT_EQ(input("ECHO b\r\nECHO c\r\n"), Action::kHalfClose);
  EXPECT_EQ(sent_, "$1\r\na\r\n$1\r\nb\r\n");
}

TEST_F(RespConnectionState, ClosesWhenARequestTakesTooLongFromItsFirstByteOn) {
  ASSERT_EQ(input("ECHO"), Action::kReceive);
  clock_.time += milliseconds(1500);
  ASSERT_EQ(input(" a"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(499)));
  EXPECT_TRUE(state_->expired(clock_.time + milliseconds(500)));
}

TEST_F(RespConnectionState, TheTimeOfARequestStartsAgainAfterEveryAnswer) {
  ASSERT_EQ(input("ECHO"), Action::kReceive);
  clock_.time += milliseconds(1500);
  ASSERT_EQ(input(" a\r\nECHO"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(1999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(2)));
}

TEST_F(RespConnectionState, ARequestMayTakeAsLongIfTheStoreMayWait) {
  start(true);
  ASSERT_EQ(input("ECHO"), Action::kReceive);
  clock_.time += milliseconds(1500);
  ASSERT_EQ(input(" a"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(499)));
  EXPECT_TRUE(state_->expired(clock_.time + milliseconds(500)));
  ASSERT_EQ(input("\r\nECHO"), Action::kWait);
  clock_.time += seconds(1);
  waits_.finish_first();
  ASSERT_EQ(resumed_, Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(1999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(2)));
}

TEST_F(RespConnectionState, ClosesWhenAClientDoesNotReadItsReplies) {
  ASSERT_EQ(state_->on_input("ECHO a\r\n", clock_.time), Action::kSend);
  ASSERT_EQ(state_->on_sent(0), Action::kWaitToSend);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(2999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(3)));
}

TEST_F(RespConnectionState, WhileDrainingAnswersWhatArrivesAndThenEnds) {
  shared_->draining = true;
  state_->on_drain(clock_.time);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(999)));
  EXPECT_EQ(input("ECHO a\r\n"), Action::kHalfClose);
  EXPECT_EQ(sent_, "$1\r\na\r\n");
  EXPECT_TRUE(state_->expired(clock_.time + seconds(2))) << "the client does not close";
}

TEST_F(RespConnectionState, WhileDrainingEndsAfterAnAnswerAlsoIfTheNextRequestHasBegun) {
  ASSERT_EQ(input("ECHO"), Action::kReceive);
  shared_->draining = true;
  state_->on_drain(clock_.time);
  ASSERT_EQ(input(" a"), Action::kReceive) << "it has begun, and will be answered";
  EXPECT_EQ(input("\r\nECHO"), Action::kHalfClose);
  EXPECT_EQ(sent_, "$1\r\na\r\n");
}

TEST_F(RespConnectionState, WaitsForTheStoreAndKeepsTheOrderOfTheReplies) {
  start(true);
  EXPECT_EQ(input("ECHO a\r\nECHO b\r\nECHO"), Action::kWait);
  EXPECT_FALSE(state_->expired(clock_.time + std::chrono::hours(9))) << "the store has a deadline";
  waits_.finish_first();
  EXPECT_EQ(resumed_, std::nullopt) << "the second request waits";
  waits_.finish_first();
  EXPECT_EQ(resumed_, Action::kReceive);
  EXPECT_EQ(sent_, "$1\r\na\r\n$1\r\nb\r\n");
  EXPECT_EQ(input(" c\r\n"), Action::kWait);
  waits_.finish_first();
  EXPECT_TRUE(sent_.ends_with("$1\r\nc\r\n"));
}

}  // namespace
}  // namespace sluice::server::resp

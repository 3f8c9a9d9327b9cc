#include "server/protocol/grpc/connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/net/test_connection_state.h"
#include "server/protocol/grpc/test_client.h"

namespace sluice::server::grpc {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kEcho = "/test.Service/Echo";
constexpr const char* kStream = "/test.Service/Stream";

// Answers with the message. Waits first if the message is "wait".
class EchoHandler final : public Handler {
 public:
  explicit EchoHandler(net::TestWaits& waits) : waits_(waits) {}

  void handle(const Call& call, Reply& reply) override {
    reply.bytes = call.message;  // the message is gone after the wait
    if (call.message == "wait") waits_.wait();
  }
  void finished(const Call&, const Reply&, std::chrono::nanoseconds) override {}

 private:
  net::TestWaits& waits_;
};

// A stream that counts the calls of its functions.
struct StreamCounts {
  int open = 0;
  int messages = 0;
  int drains = 0;
};
class CountingStream final : public StreamIn {
 public:
  explicit CountingStream(StreamCounts& counts) : counts_(counts) { ++counts_.open; }
  ~CountingStream() override { --counts_.open; }
  void on_message(std::string_view) override { ++counts_.messages; }
  void on_half_close() override {}
  void on_drain() override { ++counts_.drains; }

 private:
  StreamCounts& counts_;
};

class GrpcConnectionState : public ::testing::Test {
 protected:
  using Action = ConnectionState::Action;

  void SetUp() override { start({}); }
  void TearDown() override {
    waits_.finish_all();
    state_.reset();
  }
  void start(std::chrono::milliseconds max_age) {
    const auto open_stream = [this](const Call&, StreamOut&) {
      return std::make_unique<CountingStream>(streams_);
    };
    shared_.emplace(SharedState{{.bounds = bounds_,
                                 .paths = {kEcho},
                                 .stream_paths = {kStream},
                                 .open_stream = open_stream,
                                 .most_streams = 100,
                                 .max_age = max_age,
                                 .serving = serving_},
                                handlers_,
                                registry_.make_recorder(),
                                clock_});
    const auto act = [this](Action action) { outputs_ += action == Action::kSendSoon ? 1 : 0; };
    state_.emplace(Peer{"192.0.2.1"}, *shared_, act, clock_.time);
  }

  Action input(std::string_view bytes) { return run(state_->on_input(bytes, clock_.time)); }
  // With a socket that has room for everything, and a client that reads it.
  Action run(Action action) {
    while (action == Action::kSend) {
      const std::string_view out = state_->output();
      sent_.append(out);
      EXPECT_TRUE(!reads_ || client_.take(out));
      action = state_->on_sent(out.size());
    }
    return action;
  }
  Action tick_after(net::SteadyTime::duration time) {
    clock_.time += time;
    return run(state_->on_expired(clock_.time));
  }
  // Passes the output of both sides on until neither has any.
  Action talk() {
    Action last = Action::kReceive;
    for (std::string words = client_.output(); !words.empty(); words = client_.output()) {
      last = input(words);
    }
    return last;
  }
  std::int32_t open_stream(std::string_view message) {
    std::string body;
    append_message(body, message);
    const auto id = client_.send(TestClient::fields(kStream), std::move(body), false);
    talk();
    return id;
  }
  std::int32_t call(std::string_view message) {
    const std::int32_t id = client_.call(kEcho, message);
    talk();
    return id;
  }

  Bounds bounds_{.header_timeout = seconds(1),
                 .body_timeout = hours(1),
                 .write_timeout = seconds(3),
                 .idle_timeout = seconds(40)};
  net::ManualLoopClock clock_;
  metrics::Registry registry_;
  const net::Readiness serving_ = true;
  net::TestWaits waits_;
  StreamCounts streams_;
  Handlers handlers_{[this] { return std::make_unique<EchoHandler>(waits_); },
                     net::FiberPool::Options{}};
  std::optional<SharedState> shared_;
  std::optional<ConnectionState> state_;
  TestClient client_;
  bool reads_ = true;
  std::string sent_;
  int outputs_ = 0;
};

TEST_F(GrpcConnectionState, AnswersACallAndWaitsForTheNext) {
  const auto id = client_.call(kEcho, "hello");
  EXPECT_EQ(talk(), Action::kReceive);
  EXPECT_TRUE(client_.answers[id].ended);
  EXPECT_EQ(client_.answers[id].fields["grpc-status"], "0");
}

TEST_F(GrpcConnectionState, SendsTheAnswerOfAHandlerThatWaitedWhenItIsReported) {
  const auto id = call("wait");
  EXPECT_FALSE(client_.answers[id].ended);
  waits_.finish_first();
  EXPECT_EQ(outputs_, 1);
  EXPECT_EQ(run(Action::kSend), Action::kReceive);
  EXPECT_TRUE(client_.answers[id].ended);
}

TEST_F(GrpcConnectionState, ExplainsItselfToAClientOfHttp1AndHalfCloses) {
  reads_ = false;
  EXPECT_EQ(input("GET / HTTP/1.1\r\n\r\n"), Action::kHalfClose);
  EXPECT_TRUE(sent_.starts_with("HTTP/1.1 400 Bad Request\r\n"));
}

TEST_F(GrpcConnectionState, DiscardsInputAfterTheEndForTwoSecondsAnd16MiB) {
  reads_ = false;
  ASSERT_EQ(input("GET / HTTP/1.1\r\n\r\n"), Action::kHalfClose);
  const std::string megabyte(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 16; ++i) ASSERT_EQ(input(megabyte), Action::kReceive);
  EXPECT_EQ(run(Action::kSend), Action::kReceive) << "nothing follows the end";
  EXPECT_EQ(tick_after(milliseconds(1999)), Action::kReceive);
  EXPECT_EQ(tick_after(milliseconds(1)), Action::kClose);
  EXPECT_EQ(input("x"), Action::kClose);
}

TEST_F(GrpcConnectionState, SendsTheRestWhenTheSocketHasRoomAgain) {
  client_.call(kEcho, "hello");
  ASSERT_EQ(state_->on_input(client_.output(), clock_.time), Action::kSend);
  const std::string out(state_->output());
  EXPECT_EQ(state_->on_sent(10), Action::kWaitToSend);
  EXPECT_EQ(state_->on_expired(clock_.time), Action::kWaitToSend)
      << "it makes no more output meanwhile";
  EXPECT_EQ(state_->on_room(clock_.time), Action::kSend);
  EXPECT_EQ(state_->output(), out.substr(10));
  EXPECT_EQ(run(state_->on_sent(out.size() - 10)), Action::kReceive);
}

TEST_F(GrpcConnectionState, ClosesWhenAClientDoesNotReadForTheWriteTimeout) {
  client_.call(kEcho, "hello");
  ASSERT_EQ(state_->on_input(client_.output(), clock_.time), Action::kSend);
  ASSERT_GT(state_->output().size(), 1U);
  ASSERT_EQ(state_->on_sent(0), Action::kWaitToSend);
  EXPECT_EQ(tick_after(milliseconds(2999)), Action::kWaitToSend);
  ASSERT_EQ(state_->on_room(clock_.time), Action::kSend);
  ASSERT_GT(state_->output().size(), 1U);
  ASSERT_EQ(state_->on_sent(1), Action::kWaitToSend);
  EXPECT_EQ(tick_after(milliseconds(2999)), Action::kWaitToSend) << "since it last read something";
  EXPECT_EQ(tick_after(milliseconds(1)), Action::kClose);
}

TEST_F(GrpcConnectionState, ClosesWithoutAPrefaceAfterTheHeaderTimeout) {
  EXPECT_EQ(input("PRI * HTTP/2.0\r\n"), Action::kReceive);
  EXPECT_EQ(tick_after(milliseconds(999)), Action::kReceive);
  EXPECT_EQ(tick_after(milliseconds(1)), Action::kClose);
}

TEST_F(GrpcConnectionState, AnIdleConnectionEndsWithANoticeFirst) {
  call("hello");
  EXPECT_EQ(tick_after(milliseconds(250)), Action::kReceive);  // notices the call
  EXPECT_EQ(tick_after(milliseconds(39'999)), Action::kReceive);
  EXPECT_EQ(client_.goaways.size(), 0U);
  EXPECT_EQ(tick_after(milliseconds(1)), Action::kReceive);
  EXPECT_EQ(client_.goaways.size(), 1U);
  EXPECT_EQ(tick_after(milliseconds(499)), Action::kReceive) << "calls on their way are accepted";
  sent_.clear();
  EXPECT_EQ(tick_after(milliseconds(1)), Action::kHalfClose);
  EXPECT_EQ(sent_.size(), 17U) << "the last GOAWAY";
}

TEST_F(GrpcConnectionState, CallsThatNeverBecomeCompleteDoNotKeepAConnectionOpen) {
  bounds_.body_timeout = seconds(10);
  for (int i = 0; i < 8; ++i) {
    client_.send(TestClient::fields(kEcho), "part", false);
    EXPECT_EQ(talk(), Action::kReceive);
    EXPECT_EQ(client_.goaways.size(), 0U);
    tick_after(seconds(5));
  }
  EXPECT_EQ(client_.goaways.size(), 1U) << "after the idle timeout";
}

TEST_F(GrpcConnectionState, EndsAtTheMostAge) {
  start(seconds(30));
  call("hello");
  EXPECT_EQ(tick_after(milliseconds(29'999)), Action::kReceive);
  EXPECT_EQ(client_.goaways.size(), 0U);
  tick_after(milliseconds(1));
  EXPECT_EQ(client_.goaways.size(), 1U);
}

TEST_F(GrpcConnectionState, EndsAfterTheMostCalls) {
  bounds_.requests_per_connection = 2;
  call("a");
  tick_after(milliseconds(250));
  EXPECT_EQ(client_.goaways.size(), 0U);
  call("b");
  tick_after(milliseconds(250));
  EXPECT_EQ(client_.goaways.size(), 1U);
}

TEST_F(GrpcConnectionState, ASilentClientWithOpenCallsMustAnswerAPing) {
  call("wait");
  sent_.clear();
  EXPECT_EQ(tick_after(milliseconds(39'999)), Action::kReceive);
  EXPECT_EQ(sent_, "");
  EXPECT_EQ(tick_after(milliseconds(1)), Action::kReceive);
  EXPECT_EQ(sent_.size(), 17U) << "a PING";
  EXPECT_EQ(tick_after(milliseconds(19'999)), Action::kReceive);
  EXPECT_EQ(tick_after(milliseconds(1)), Action::kClose);
}

TEST_F(GrpcConnectionState, AClientThatAnswersThePingStays) {
  call("wait");
  ASSERT_EQ(tick_after(seconds(40)), Action::kReceive);
  ASSERT_EQ(talk(), Action::kReceive);  // the client's reply to the PING
  EXPECT_EQ(tick_after(seconds(39)), Action::kReceive);
}

TEST_F(GrpcConnectionState, AStreamKeepsItsConnectionAsLongAsTheClientAnswersPings) {
  const auto id = open_stream("hello");
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(tick_after(seconds(40)), Action::kReceive);
    ASSERT_EQ(talk(), Action::kReceive);  // the client's reply to the PING
  }
  EXPECT_EQ(client_.goaways.size(), 0U);
  EXPECT_FALSE(client_.answers[id].ended);
  ASSERT_EQ(tick_after(seconds(40)), Action::kReceive);
  EXPECT_EQ(tick_after(seconds(20)), Action::kClose) << "without a reply";
}

TEST_F(GrpcConnectionState, AStreamWithoutMessagesDoesNotKeepItsConnection) {
  client_.send(TestClient::fields(kStream), "", false);
  ASSERT_EQ(talk(), Action::kReceive);
  tick_after(milliseconds(250));
  tick_after(seconds(40));
  EXPECT_EQ(client_.goaways.size(), 1U);
}

TEST_F(GrpcConnectionState, AtTheMostAgeAStreamLearnsOfItAndEndsWithAStatus) {
  start(seconds(30));
  const auto id = open_stream("hello");
  tick_after(seconds(30));
  EXPECT_EQ(client_.goaways.size(), 1U);
  EXPECT_EQ(streams_.drains, 1);
  tick_after(milliseconds(499));
  EXPECT_FALSE(client_.answers[id].ended);
  EXPECT_EQ(tick_after(milliseconds(1)), Action::kHalfClose);
  EXPECT_EQ(client_.answers[id].fields["grpc-status"], "14");
  EXPECT_EQ(streams_.open, 0);
}

TEST_F(GrpcConnectionState, WhileDrainingFinishesItsCallsAndEnds) {
  const auto id = call("wait");
  state_->on_drain(clock_.time);
  EXPECT_EQ(outputs_, 1);
  EXPECT_EQ(run(Action::kSend), Action::kReceive);
  EXPECT_EQ(client_.goaways.size(), 1U);
  state_->on_drain(clock_.time);
  EXPECT_EQ(run(Action::kSend), Action::kReceive);
  EXPECT_EQ(client_.goaways.size(), 1U) << "one notice is enough";
  EXPECT_EQ(tick_after(milliseconds(500)), Action::kReceive) << "for the open call";
  EXPECT_EQ(client_.goaways.size(), 2U);
  waits_.finish_first();
  EXPECT_EQ(run(Action::kSend), Action::kHalfClose);
  EXPECT_TRUE(client_.answers[id].ended);
}

}  // namespace
}  // namespace sluice::server::grpc

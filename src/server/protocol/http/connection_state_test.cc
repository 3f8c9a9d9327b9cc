#include "server/protocol/http/connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/net/test_connection_state.h"
#include "server/protocol/http/problem.h"
#include "tests/support/allocations.h"

namespace sluice::server::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Answers with the target, and goes on if that is "/on". Waits first if `waits` is given.
class EchoHandler final : public Handler {
 public:
  EchoHandler(net::TestWaits* waits, Broadcast& broadcast,
              std::shared_ptr<const std::string> shared_text, int& stops)
      : waits_(waits), broadcast_(broadcast), shared_text_(std::move(shared_text)), stops_(stops) {}

  void handle(const Request& request, Response& response) override {
    if (waits_ != nullptr) waits_->wait();
    response.text = std::string(request.target) + std::string(request.body);
    response.answer_text(200, "text/plain");
    if (request.target == "/on") response.broadcast = &broadcast_;
    if (request.target == "/shared") {
      response.shared_text = shared_text_;
      response.body = *shared_text_;
    }
    if (request.target == "/copied") response.body = *shared_text_;
    if (request.target == "/no-memory") throw std::bad_alloc();
  }
  void stop_waiting() override { ++stops_; }
  void finished(const Request&, const Response&, std::chrono::nanoseconds) override {}

 private:
  net::TestWaits* const waits_;
  Broadcast& broadcast_;
  const std::shared_ptr<const std::string> shared_text_;
  int& stops_;
};

std::string get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n";
}

TEST(HttpConnectionRefusal, HasAProblemAsItsBody) {
  constexpr std::string_view kText = ConnectionState::kRefusal;
  std::string body;
  append_problem(body, {503, "too many connections at once"});
  body += '\n';
  EXPECT_EQ(kText.substr(kText.find("\r\n\r\n") + 4), body);
  const std::string length = "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  EXPECT_NE(kText.find(length), kText.npos);
}

class HttpConnectionState : public net::ConnectionStateTest<ConnectionState> {
 protected:
  void SetUp() override { start(false); }
  void start(bool waits, std::size_t workers = net::FiberPool::Options{}.most) {
    state_.reset();
    shared_.reset();
    const auto make = [this, waits] {
      return std::make_unique<EchoHandler>(waits ? &waits_ : nullptr, broadcast_, text_, stops_);
    };
    handlers_.emplace(
        make, waits ? std::optional(net::FiberPool::Options{.most = workers}) : std::nullopt);
    shared_.emplace(Options{bounds_}, *handlers_, registry_.make_recorder(), clock_);
    shared_->tick();
    state_.emplace(Peer{"192.0.2.1"}, *shared_, act(), clock_.time);
  }

  // Two of this size exceed the bound of a loop.
  static constexpr std::size_t kLarge = std::size_t{17} << 20;
  static std::string large_request() {
    return "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(kLarge) + "\r\n\r\n" +
           std::string(kLarge, 'x');
  }

  Bounds bounds_{.body_bytes = kLarge,
                 .header_timeout = seconds(1),
                 .body_timeout = seconds(2),
                 .write_timeout = seconds(3),
                 .idle_timeout = seconds(4)};
  Broadcast broadcast_{2};
  int stops_ = 0;  // calls of stop_waiting()
  std::shared_ptr<const std::string> text_ =
      std::make_shared<const std::string>(std::size_t{100} << 10, 's');
  std::optional<Handlers> handlers_;
  std::optional<SharedState> shared_;
};

TEST_F(HttpConnectionState, AnswersARequestAndWaitsForTheNext) {
  EXPECT_EQ(input(get("/a")), Action::kReceive);
  EXPECT_EQ(sent_,
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n/a");
}

TEST_F(HttpConnectionState, AnswersARequestThatArrivesByteByByte) {
  const std::string request = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy";
  for (std::size_t i = 0; i + 1 < request.size(); ++i) {
    ASSERT_EQ(input(request.substr(i, 1)), Action::kReceive);
    ASSERT_EQ(sent_, "");
  }
  EXPECT_EQ(input("y"), Action::kReceive);
  EXPECT_TRUE(sent_.ends_with("\r\n\r\n/axy"));
}

TEST_F(HttpConnectionState, SendsTheResponsesOfPipelinedRequestsTogetherAndInOrder) {
  const Action first = state_->on_input(get("/a") + get("/b") + get("/c"), clock_.time);
  ASSERT_EQ(first, Action::kSend);
  const std::string out(state_->output());
  EXPECT_LT(out.find("/a"), out.find("/b"));
  EXPECT_LT(out.find("/b"), out.find("/c"));
  EXPECT_EQ(state_->on_sent(out.size()), Action::kReceive);
}

TEST_F(HttpConnectionState, SendsTheRestWhenTheSocketHasRoomAgain) {
  ASSERT_EQ(state_->on_input(get("/a"), clock_.time), Action::kSend);
  const std::string out(state_->output());
  EXPECT_EQ(state_->on_sent(10), Action::kWaitToSend);
  EXPECT_TRUE(shared_->output.empty()) << "the buffer belongs to all connections";
  EXPECT_EQ(state_->on_room(clock_.time), Action::kSend);
  EXPECT_EQ(state_->output(), out.substr(10));
  EXPECT_EQ(state_->on_sent(out.size() - 10), Action::kReceive);
}

TEST_F(HttpConnectionState, DoesNotAnswerMoreWhile64KiBWait) {
  std::string requests;
  for (int i = 0; i < 2000; ++i) requests += get("/" + std::string(50, 'x'));
  ASSERT_EQ(state_->on_input(requests, clock_.time), Action::kSend);
  EXPECT_LT(state_->output().size(), std::size_t{80} << 10);
  EXPECT_EQ(run(Action::kSend), Action::kReceive);
  std::size_t responses = 0;
  for (std::size_t at = 0; (at = sent_.find("HTTP/1.1 200", at)) != sent_.npos; ++at) ++responses;
  EXPECT_EQ(responses, 2000U);
}

TEST_F(HttpConnectionState, SendsASharedTextWithoutACopy) {
  const auto uses = text_.use_count();
  ASSERT_EQ(state_->on_input(get("/a") + get("/shared") + get("/b"), clock_.time), Action::kSend);
  const std::string headers(state_->output());
  EXPECT_LT(headers.size(), 1000U);
  ASSERT_EQ(state_->on_sent(headers.size()), Action::kSend);
  EXPECT_EQ(state_->output().data(), text_->data());
  EXPECT_EQ(state_->output().size(), text_->size());
  ASSERT_EQ(state_->on_sent(1000), Action::kWaitToSend);
  EXPECT_GE(shared_->kept.total(), text_->size());
  EXPECT_EQ(run(state_->on_room(clock_.time)), Action::kReceive);
  EXPECT_EQ(sent_.substr(0, text_->size() - 1000), text_->substr(1000));
  EXPECT_TRUE(sent_.ends_with("\r\n\r\n/b")) << "later requests are answered after it";
  EXPECT_EQ(text_.use_count(), uses);
  EXPECT_EQ(shared_->kept.total(), 0U);
}

TEST_F(HttpConnectionState, SendsASharedTextOfAHandlerThatWaited) {
  start(true);
  ASSERT_EQ(input(get("/shared") + get("/b")), Action::kWait);
  waits_.finish_first();
  waits_.finish_first();
  EXPECT_TRUE(sent(*text_ + "HTTP/1.1 200 OK"));
  EXPECT_TRUE(sent_.ends_with("\r\n\r\n/b"));
}

TEST_F(HttpConnectionState, AnswersHeadWithTheLengthOfASharedText) {
  EXPECT_EQ(input("HEAD /shared HTTP/1.1\r\nHost: a\r\n\r\n"), Action::kReceive);
  EXPECT_TRUE(sent("Content-Length: 102400\r\n"));
  EXPECT_TRUE(sent_.ends_with("\r\n\r\n"));
}

TEST_F(HttpConnectionState, ClosesAndReleasesAResponseThatIsNotReadIfTooMuchIsKept) {
  const std::string request = large_request();
  ASSERT_EQ(state_->on_input(request, clock_.time), Action::kSend);
  ASSERT_EQ(state_->on_sent(1), Action::kWaitToSend);
  EXPECT_GT(shared_->kept.total(), kLarge);
  ConnectionState other({"192.0.2.2"}, *shared_, act(), clock_.time);
  clock_.time += milliseconds(1);
  ASSERT_EQ(other.on_input(request, clock_.time), Action::kSend);
  ASSERT_EQ(other.on_sent(1), Action::kWaitToSend);
  EXPECT_LT(shared_->kept.total(), kLarge + kLarge / 2) << "the first has dropped its response";
  EXPECT_TRUE(state_->output().empty());
  EXPECT_GT(other.output().size(), kLarge);
  EXPECT_TRUE(state_->expired(clock_.time));
  EXPECT_EQ(state_->on_room(clock_.time), Action::kClose);
  EXPECT_EQ(state_->on_input(get("/a"), clock_.time), Action::kClose);
  EXPECT_EQ(state_->on_expired(clock_.time), Action::kClose);
  other.on_closed();
  EXPECT_EQ(shared_->kept.total(), 0U);
}

TEST_F(HttpConnectionState, EndsTheWaitOfARequestIfTooMuchIsKept) {
  start(true);
  const std::string request = large_request();
  ASSERT_EQ(input(request), Action::kWait);
  ConnectionState other({"192.0.2.2"}, *shared_, act(), clock_.time);
  clock_.time += milliseconds(1);
  EXPECT_EQ(stops_, 0);
  ASSERT_EQ(other.on_input(request, clock_.time), Action::kSend);
  ASSERT_EQ(other.on_sent(0), Action::kWait);
  EXPECT_EQ(stops_, 1);
  waits_.finish_first();
  EXPECT_EQ(resumed_, Action::kReceive) << "the first is answered";
  EXPECT_TRUE(sent("HTTP/1.1 200 OK"));
  EXPECT_EQ(stops_, 1) << "the second may wait";
  waits_.finish_first();
}

TEST_F(HttpConnectionState, ReleasesAndClosesAQueuedRequestIfTooMuchIsKept) {
  start(true, 1);
  ASSERT_EQ(input(get("/a")), Action::kWait) << "the only worker has it";
  std::optional<Action> first_acts, second_acts;
  const auto into = [](std::optional<Action>& last) {
    return [&last](Action action) { last = action; };
  };
  const std::string request = large_request();
  ConnectionState first({"192.0.2.2"}, *shared_, into(first_acts), clock_.time);
  ASSERT_EQ(first.on_input(request, clock_.time), Action::kSend);
  ASSERT_EQ(first.on_sent(0), Action::kWait);
  clock_.time += milliseconds(1);
  ConnectionState second({"192.0.2.3"}, *shared_, into(second_acts), clock_.time);
  ASSERT_EQ(second.on_input(request, clock_.time), Action::kSend);
  ASSERT_EQ(second.on_sent(0), Action::kWait);
  EXPECT_LT(shared_->kept.total(), kLarge + kLarge / 2) << "the first has released its bytes";
  EXPECT_FALSE(first.expired(clock_.time + seconds(9))) << "it is in the queue";
  EXPECT_EQ(first_acts, std::nullopt);
  waits_.finish_first();
  EXPECT_EQ(first_acts, Action::kClose);
  first.on_closed();
  EXPECT_TRUE(sent("HTTP/1.1 200 OK"));
  waits_.finish_first();
  EXPECT_EQ(second_acts, Action::kSend) << "the second is answered";
  second.on_closed();
}

TEST_F(HttpConnectionState, ClosesWithoutMemoryForARequest) {
  start(true);
  const std::string request = large_request().substr(0, kLarge / 2);
  std::optional<Action> action;
  testing::without_memory(kLarge / 4, [&] { action = input(request); });
  EXPECT_EQ(action, Action::kClose);
  EXPECT_EQ(sent_, "");
  start(true);
  EXPECT_EQ(input(get("/a")), Action::kWait) << "others are answered";
}

TEST_F(HttpConnectionState, ClosesWithoutMemoryForAResponse) {
  for (const bool waits : {false, true}) {
    start(waits);
    std::optional<Action> action;
    testing::without_memory(text_->size(), [&] {
      action = input(get("/copied") + get("/b"));
      if (waits) waits_.finish_first();
    });
    EXPECT_EQ(waits ? resumed_ : action, Action::kClose);
    EXPECT_EQ(sent_, "") << "a response that is not complete";
  }
}

TEST_F(HttpConnectionState, Answers503AndClosesIfAHandlerFoundNoMemory) {
  for (const bool waits : {false, true}) {
    start(waits);
    sent_.clear();
    const Action action = input(get("/no-memory") + get("/b"));
    if (waits) waits_.finish_first();
    EXPECT_EQ(waits ? resumed_ : action, Action::kHalfClose);
    EXPECT_TRUE(sent_.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    EXPECT_TRUE(sent_.ends_with("Connection: close\r\n\r\n"));
  }
}

TEST_F(HttpConnectionState, RefusesWhatItCannotReadAndHalfCloses) {
  EXPECT_EQ(input("nonsense\r\n\r\n" + get("/a")), Action::kHalfClose);
  EXPECT_TRUE(sent_.starts_with("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_TRUE(sent("Connection: close"));
  EXPECT_FALSE(sent("HTTP/1.1 200")) << "later requests are not answered";
  EXPECT_EQ(input("more"), Action::kReceive) << "it is discarded";
}

TEST_F(HttpConnectionState, ClosesWhenAClientSendsTooMuchAfterTheLastResponse) {
  ASSERT_EQ(input("nonsense\r\n\r\n"), Action::kHalfClose);
  const std::string megabyte(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 16; ++i) ASSERT_EQ(input(megabyte), Action::kReceive);
  EXPECT_EQ(input("x"), Action::kClose);
}

TEST_F(HttpConnectionState, EndsAfterARequestWithConnectionClose) {
  EXPECT_EQ(input("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + get("/b")),
            Action::kHalfClose);
  EXPECT_FALSE(sent("/b"));
}

TEST_F(HttpConnectionState, EndsAfterTheConfiguredNumberOfRequests) {
  bounds_.requests_per_connection = 2;
  EXPECT_EQ(input(get("/a")), Action::kReceive);
  EXPECT_EQ(input(get("/b")), Action::kHalfClose);
  EXPECT_TRUE(sent("Connection: close"));
}

TEST_F(HttpConnectionState, SendsContinueOnceBeforeTheBody) {
  EXPECT_EQ(
      input("POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"),
      Action::kReceive);
  EXPECT_EQ(sent_, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(input("x"), Action::kReceive);
  EXPECT_EQ(sent_, "HTTP/1.1 100 Continue\r\n\r\n");
}

TEST_F(HttpConnectionState, ClosesAnIdleConnectionAtItsTimeout) {
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(3999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(4)));
  EXPECT_EQ(state_->on_expired(clock_.time + seconds(4)), Action::kClose);
}

TEST_F(HttpConnectionState, Answers408WhenOnlyEmptyLinesArrive) {
  for (const std::string_view byte : {"\r", "\n", "\r", "\n"}) {
    ASSERT_EQ(input(byte), Action::kReceive);
    clock_.time += milliseconds(200);
  }
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(199)));
  ASSERT_TRUE(state_->expired(clock_.time + milliseconds(200))) << "from the first byte on";
  EXPECT_EQ(run(state_->on_expired(clock_.time + milliseconds(200))), Action::kHalfClose);
  EXPECT_TRUE(sent_.starts_with("HTTP/1.1 408 "));
}

TEST_F(HttpConnectionState, Answers408WhenAHeaderOrABodyTakesTooLong) {
  ASSERT_EQ(input("GET / HT"), Action::kReceive);
  clock_.time += milliseconds(600);
  ASSERT_EQ(input("TP/1.1\r\n"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(399)));
  EXPECT_TRUE(state_->expired(clock_.time + milliseconds(400))) << "from the first byte on";
  EXPECT_EQ(run(state_->on_expired(clock_.time + milliseconds(400))), Action::kHalfClose);
  EXPECT_TRUE(sent_.starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(sent("the header of the request did not arrive in time"));

  start(false);
  sent_.clear();
  ASSERT_EQ(input("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx"), Action::kReceive);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(1999)));
  EXPECT_EQ(run(state_->on_expired(clock_.time + seconds(2))), Action::kHalfClose);
  EXPECT_TRUE(sent("the body of the request did not arrive in time"));
}

TEST_F(HttpConnectionState, ClosesWhenAClientDoesNotReadItsResponse) {
  ASSERT_EQ(state_->on_input(get("/a"), clock_.time), Action::kSend);
  ASSERT_EQ(state_->on_sent(0), Action::kWaitToSend);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(2999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(3)));
  EXPECT_EQ(state_->on_expired(clock_.time + seconds(3)), Action::kClose);
}

TEST_F(HttpConnectionState, WhileDrainingEndsAfterTheNextResponseOrOneSecond) {
  shared_->draining = true;
  state_->on_drain(clock_.time);
  EXPECT_FALSE(state_->expired(clock_.time + milliseconds(999)));
  EXPECT_TRUE(state_->expired(clock_.time + seconds(1)));
  EXPECT_EQ(input(get("/a")), Action::kHalfClose);
  EXPECT_TRUE(sent("Connection: close"));
}

TEST_F(HttpConnectionState, WaitsForHandlersAndKeepsTheOrderOfPipelinedRequests) {
  start(true);
  EXPECT_EQ(input(get("/a") + get("/b")), Action::kWait);
  EXPECT_FALSE(state_->expired(clock_.time + std::chrono::hours(9))) << "the store has a deadline";
  waits_.finish_first();
  EXPECT_EQ(resumed_, Action::kWait) << "for the second request";
  EXPECT_TRUE(sent_.ends_with("/a"));
  waits_.finish_first();
  EXPECT_EQ(resumed_, Action::kReceive);
  EXPECT_TRUE(sent_.ends_with("/b"));
}

TEST_F(HttpConnectionState, ClosesAfterTheAnswerIfTheSocketBrokeMeanwhile) {
  start(true);
  ASSERT_EQ(state_->on_input(get("/a"), clock_.time), Action::kSend);
  ASSERT_EQ(state_->on_sent(0, true), Action::kWait);
  waits_.finish_first();
  EXPECT_EQ(resumed_, Action::kClose);
  EXPECT_EQ(sent_, "");
}

TEST_F(HttpConnectionState, SendsABroadcastWithoutALengthUntilItEnds) {
  for (const bool waits : {false, true}) {
    start(waits);
    sent_.clear();
    const auto action = input(get("/on") + get("/later"));
    if (waits) waits_.finish_first();
    EXPECT_EQ(waits ? resumed_ : action, Action::kReceive);
    EXPECT_TRUE(sent_.ends_with("Connection: close\r\n\r\n/on")) << sent_;
    EXPECT_FALSE(sent("Content-Length"));
    EXPECT_EQ(broadcast_.size(), 1U);
    clock_.time += std::chrono::hours(9);
    EXPECT_FALSE(state_->expired(clock_.time)) << "nothing is due";
    broadcast_.send("first");
    broadcast_.send("second");
    EXPECT_TRUE(sent_.ends_with("/onfirstsecond"));
    EXPECT_EQ(resumed_, Action::kReceive);
    EXPECT_EQ(input(get("/later")), Action::kReceive);
    EXPECT_FALSE(sent("/later")) << "the connection serves no other request";
    broadcast_.end();
    EXPECT_EQ(resumed_, Action::kHalfClose);
    EXPECT_TRUE(broadcast_.empty());
    broadcast_.send("third");
    EXPECT_FALSE(sent("third"));
  }
}

TEST_F(HttpConnectionState, AnswersHeadWithTheHeaderOfABroadcast) {
  EXPECT_EQ(input("HEAD /on HTTP/1.1\r\nHost: a\r\n\r\n"), Action::kHalfClose);
  EXPECT_TRUE(broadcast_.empty());
}

TEST_F(HttpConnectionState, KeepsOneSendForAClientThatDoesNotReadAndCloses) {
  ASSERT_EQ(state_->on_input(get("/on"), clock_.time), Action::kSend);
  ASSERT_EQ(state_->on_sent(1), Action::kWaitToSend);
  const std::size_t size = state_->output().size();
  broadcast_.send("missed");
  EXPECT_EQ(state_->output().size(), size);
  clock_.time += milliseconds(2999);
  EXPECT_EQ(state_->on_room(clock_.time), Action::kSend);
  EXPECT_EQ(state_->on_sent(1), Action::kWaitToSend) << "it must take the rest in time, too";
  EXPECT_FALSE(state_->expired(clock_.time));
  EXPECT_TRUE(state_->expired(clock_.time + milliseconds(1)));
  EXPECT_EQ(state_->on_expired(clock_.time), Action::kClose);
  state_->on_closed();
  EXPECT_TRUE(broadcast_.empty());
}

TEST_F(HttpConnectionState, ReceivesTheNextSendWhenItHasReadTheLast) {
  ASSERT_EQ(state_->on_input(get("/on"), clock_.time), Action::kSend);
  ASSERT_EQ(state_->on_sent(1), Action::kWaitToSend);
  broadcast_.send("missed");
  ASSERT_EQ(run(state_->on_room(clock_.time)), Action::kReceive);
  broadcast_.send("next");
  EXPECT_TRUE(sent_.ends_with("/onnext")) << sent_;
}

}  // namespace
}  // namespace sluice::server::http

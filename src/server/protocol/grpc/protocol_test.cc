#include "server/protocol/grpc/protocol.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "server/net/fiber.h"
#include "server/protocol/grpc/test_client.h"

namespace sluice::server::grpc::protocol_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kEcho = "/test.Service/Echo";
constexpr const char* kStream = "/test.Service/Stream";
constexpr const char* kCheck = "/grpc.health.v1.Health/Check";
constexpr const char* kWatch = "/grpc.health.v1.Health/Watch";
constexpr const char* kReflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

// Answers with the message. "fail" answers with an error; "wait" answers once it is released.
class Echo final : public Handler {
 public:
  explicit Echo(std::vector<net::FiberWait*>* waits = nullptr) : waits_(waits) {}
  void handle(const Call& call, Reply& reply) override {
    if (waits_ != nullptr && call.message == "wait") {
      net::FiberWait wait;
      waits_->push_back(&wait);
      wait.wait();
    }
    if (call.message == "fail") return reply.fail(Code::kInvalidArgument, "50% \xc3\xa9\n");
    reply.bytes = call.message;
  }
  void finished(const Call&, const Reply&, std::chrono::nanoseconds) override { ++finished_; }
  int finished_ = 0;

 private:
  std::vector<net::FiberWait*>* waits_;
};

// What the streams of the tests have in common.
struct StreamsSeen {
  StreamOut* out = nullptr;   // of the newest
  std::string authorization;  // likewise
  int open = 0;
  int messages = 0;
  int drains = 0;
  int refused = 0;   // messages that send() did not accept
  bool ends = true;  // when the client has sent everything
};

// Sends each message back. "end" ends the stream.
class EchoStream final : public StreamIn {
 public:
  EchoStream(StreamOut& out, StreamsSeen& seen) : out_(out), seen_(seen) { ++seen_.open; }
  ~EchoStream() override {
    --seen_.open;
    EXPECT_FALSE(out_.send("too late"));
    out_.end(Code::kOk, {});
  }
  void on_message(std::string_view message) override {
    ++seen_.messages;
    if (!out_.send(message)) ++seen_.refused;
    if (message == "end") out_.end(Code::kNotFound, "no more");
  }
  void on_half_close() override {
    if (seen_.ends) out_.end(Code::kOk, {});
  }
  void on_drain() override { ++seen_.drains; }

 private:
  StreamOut& out_;
  StreamsSeen& seen_;
};

std::string frame(int type, int flags, int stream, std::string_view payload) {
  const auto byte = [](std::size_t value) { return static_cast<char>(value & 0xff); };
  const auto size = payload.size();
  const auto id = static_cast<std::size_t>(stream);
  std::string out = {byte(size >> 16),
                     byte(size >> 8),
                     byte(size),
                     static_cast<char>(type),
                     static_cast<char>(flags),
                     byte(id >> 24),
                     byte(id >> 16),
                     byte(id >> 8),
                     byte(id)};
  return out.append(payload);
}

// A field without compression or index.
std::string literal(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  for (const std::string_view text : {name, value}) {
    out.push_back(static_cast<char>(text.size()));
    out.append(text);
  }
  return out;
}

std::string fields_of(const char* path) {
  std::string out;
  for (const auto& [name, value] : TestClient::fields(path)) out += literal(name, value);
  return out;
}

// A client that sends its connection preface and then the given bytes.
class Raw {
 public:
  Raw(Protocol& protocol, SteadyTime now) : protocol_(protocol), now_(now) {
    send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(NGHTTP2_SETTINGS, 0, 0, ""));
    said = 0;
  }
  void send(std::string_view bytes) {
    protocol_.take(bytes, now_);
    std::string out;
    protocol_.write(out, std::size_t{1} << 20);
    said += out.size();
  }
  std::size_t said = 0;  // sent by the server

 private:
  Protocol& protocol_;
  SteadyTime now_;
};

class ProtocolTest : public ::testing::Test {
 protected:
  ProtocolTest() { bounds_.body_bytes = 100'000; }
  void SetUp() override { start({}); }

  void start(const std::optional<net::FiberPool::Options>& fibers, std::size_t streams = 100) {
    protocol_.reset();
    shared_.reset();
    handlers_.emplace(
        [this, waits = fibers.has_value()] {
          auto made = waits ? std::make_unique<Echo>(&waits_) : std::make_unique<Echo>();
          handler_ = made.get();
          return made;
        },
        fibers);
    shared_.emplace(SharedState{{.bounds = bounds_,
                                 .paths = {kEcho},
                                 .stream_paths = {kStream},
                                 .most_streams = streams,
                                 .serving = serving_},
                                *handlers_,
                                recorder_,
                                net::LoopClock::system()});
    shared_->open_stream = [this](const Call& call, StreamOut& out) -> std::unique_ptr<StreamIn> {
      seen_.out = &out;
      seen_.authorization = call.authorization;
      if (call.authorization != "nobody") return std::make_unique<EchoStream>(out, seen_);
      out.end(Code::kUnauthenticated, "who is it?");
      return nullptr;
    };
    protocol_.emplace(*shared_, "192.0.2.1", [this] { ++outputs_; });
  }
  void start_with_workers(std::size_t most) { start(net::FiberPool::Options{.most = most}); }
  void TearDown() override {
    while (!waits_.empty()) release();
    protocol_.reset();
    EXPECT_TRUE(!shared_ || shared_->streams.in_use() == 0U);
    EXPECT_TRUE(!shared_ || shared_->buffered == 0U);
    EXPECT_EQ(seen_.open, 0);
  }

  // Passes bytes between both sides until neither has output.
  void talk() { talk(client_); }
  void talk(TestClient& client) {
    for (;;) {
      const std::string words = client.output();
      if (!words.empty()) protocol_->take(words, now_);
      std::string out;
      protocol_->write(out, std::size_t{1} << 30);
      if (words.empty() && out.empty()) return;
      ASSERT_TRUE(client.take(out));
    }
  }
  // Opens a stream that stays open.
  std::int32_t open_stream(TestClient& client, std::string body, TestClient::Fields more = {}) {
    const auto id =
        client.send(TestClient::fields(kStream, std::move(more)), std::move(body), false);
    talk(client);
    return id;
  }
  void tick_after(SteadyTime::duration time) {
    now_ += time;
    protocol_->tick(now_);
    talk();
  }
  void release() {
    net::FiberWait* const wait = waits_.front();
    waits_.erase(waits_.begin());
    wait->finish();
  }
  TestClient::Answer& ask(std::string path, std::string_view message,
                          TestClient::Fields more = {}) {
    const auto id = client_.call(std::move(path), message, std::move(more));
    talk();
    return client_.answers[id];
  }
  TestClient::Answer& ask_raw(const TestClient::Fields& fields, std::string body,
                              bool whole = true) {
    const auto id = client_.send(fields, std::move(body), whole);
    talk();
    return client_.answers[id];
  }
  static std::string status(TestClient::Answer& answer) { return answer.fields["grpc-status"]; }
  static std::string message(std::string_view text) {
    std::string out;
    append_message(out, text);
    return out;
  }

  Bounds bounds_;
  metrics::Registry registry_;
  metrics::Recorder& recorder_ = registry_.make_recorder();
  net::Readiness serving_ = true;
  Echo* handler_ = nullptr;  // the newest
  std::vector<net::FiberWait*> waits_;
  StreamsSeen seen_;
  std::optional<Handlers> handlers_;
  std::optional<SharedState> shared_;
  std::optional<Protocol> protocol_;
  TestClient client_;
  SteadyTime now_ = net::LoopClock::system().now();
  int outputs_ = 0;
};

TEST_F(ProtocolTest, AnswersACall) {
  auto& answer = ask(kEcho, "hello");
  EXPECT_EQ(answer.fields[":status"], "200");
  EXPECT_EQ(answer.fields["content-type"], "application/grpc");
  EXPECT_EQ(answer.data, message("hello"));
  EXPECT_EQ(status(answer), "0");
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(handler_->finished_, 1);
  EXPECT_EQ(outputs_, 0) << "the caller asks for the answer";
}

TEST_F(ProtocolTest, AnswersCallsOfEverySizeUpToTheBound) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{16'383},
                                 std::size_t{16'384}, bounds_.body_bytes}) {
    const std::string text(size, 'x');
    auto& answer = ask(kEcho, text);
    EXPECT_EQ(answer.data, message(text));
    EXPECT_EQ(status(answer), "0");
  }
  auto& refused = ask(kEcho, std::string(bounds_.body_bytes + 1, 'x'));
  EXPECT_EQ(status(refused), "8");
  EXPECT_EQ(refused.fields["grpc-message"], "the message is larger than 100000 bytes");
  EXPECT_TRUE(refused.ended);
}

TEST_F(ProtocolTest, AnswersCallsThatComeByteByByte) {
  const auto id = client_.call(kEcho, "hello");
  for (const char byte : client_.output()) {
    ASSERT_TRUE(protocol_->take({&byte, 1}, now_));
    std::string out;
    protocol_->write(out, 1 << 20);
    client_.take(out);
  }
  talk();
  EXPECT_EQ(client_.answers[id].data, message("hello"));
}

TEST_F(ProtocolTest, EncodesTheTextOfAnError) {
  auto& answer = ask(kEcho, "fail");
  EXPECT_EQ(status(answer), "3");
  EXPECT_EQ(answer.fields["grpc-message"], "50%25 %C3%A9%0A");
  EXPECT_EQ(answer.data, "");
}

TEST_F(ProtocolTest, RefusesRequestsThatAreNoCalls) {
  using Fields = TestClient::Fields;
  const auto with = [](Fields more) { return TestClient::fields(kEcho, std::move(more)); };
  EXPECT_EQ(ask_raw(with({{":method", "GET"}}), "").fields[":status"], "405");
  for (const char* type : {"application/json", "application/grpcx", "application/grpc+json"}) {
    EXPECT_EQ(ask_raw(with({{"content-type", type}}), "").fields[":status"], "415") << type;
  }
  for (const char* type : {"application/grpc+proto", "application/grpc;charset=utf-8"}) {
    EXPECT_EQ(status(ask_raw(with({{"content-type", type}}), message("a"))), "0") << type;
  }
  EXPECT_EQ(status(ask("/test.Service/Other", "")), "12");
  EXPECT_EQ(status(ask_raw(with({{"grpc-encoding", "snappy"}}), message("a"))), "12");
  EXPECT_EQ(status(ask_raw(with({{"grpc-timeout", "5"}}), message("a"))), "13");
  EXPECT_EQ(status(ask_raw(with({{"grpc-timeout", "0m"}}), message("a"))), "4");
}

TEST_F(ProtocolTest, RefusesMalformedMessages) {
  using namespace std::string_literals;
  const auto fields = TestClient::fields(kEcho);
  for (const std::string& body : {""s, "\0"s, "\0\0\0\0"s, "\0\0\0\0\5abcd"s, "\0\0\0\0\1ab"s,
                                  message("a") + message("b"), "\1\0\0\0\1a"s, "\2\0\0\0\1a"s}) {
    EXPECT_EQ(status(ask_raw(fields, body)), "13") << ::testing::PrintToString(body);
  }
  EXPECT_EQ(status(ask_raw(fields, "\0\xff\xff\xff\xff"s, false)), "8") << "before it has come";
  EXPECT_EQ(handler_->finished_, 0);
}

TEST_F(ProtocolTest, RefusesMalformedGzip) {
  const auto fields = TestClient::fields(kEcho, {{"grpc-encoding", "gzip"}});
  using namespace std::string_literals;
  EXPECT_EQ(status(ask_raw(fields, "\1\0\0\0\4abcd"s)), "13");
  EXPECT_EQ(status(ask_raw(fields, message("plain"))), "0");
}

TEST_F(ProtocolTest, ReportsHealthToWatchers) {
  using namespace std::string_literals;
  auto& answer = ask(kWatch, "");
  EXPECT_EQ(answer.data, message("\x08\x01"));
  EXPECT_FALSE(answer.ended);
  serving_ = false;
  protocol_->tick(now_);
  talk();
  EXPECT_EQ(answer.data, message("\x08\x01") + message("\x08\x02"));
  EXPECT_EQ(ask(kCheck, "").data, message("\x08\x02"));
  protocol_->finish();
  talk();
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(status(answer), "14");
  EXPECT_TRUE(protocol_->ended());
}

TEST_F(ProtocolTest, AnswersEachReflectionRequestAsItArrives) {
  using namespace std::string_literals;
  auto& answer =
      ask_raw(TestClient::fields(kReflection), message("\x3a\x01*") + message("\x3a\0"s));
  EXPECT_NE(answer.data.find("test.Service"), std::string::npos);
  EXPECT_EQ(status(answer), "0");
}

TEST_F(ProtocolTest, AnswersAfterItHasBeenIdle) {
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 300; ++k) EXPECT_EQ(ask(kEcho, "hello").data, message("hello"));
    for (int k = 0; k < 20; ++k) protocol_->tick(now_);
  }
}

TEST_F(ProtocolTest, EndsCallsThatDoNotArriveInTime) {
  auto& answer = ask_raw(TestClient::fields(kEcho), "", false);
  protocol_->tick(now_ + bounds_.body_timeout - milliseconds(1));
  talk();
  EXPECT_FALSE(answer.ended);
  protocol_->tick(now_ + bounds_.body_timeout);
  talk();
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(status(answer), "4");
}

TEST_F(ProtocolTest, AsksEnvoyToUseAnotherServerOnceItIsNotServing) {
  const std::string field = "x-envoy-immediate-health-check-fail";
  EXPECT_EQ(ask(kEcho, "hello").fields.count(field), 0U);
  serving_ = false;
  for (const char* message : {"hello", "fail"}) {
    EXPECT_EQ(ask(kEcho, message).fields[field], "true") << message;
  }
  EXPECT_EQ(ask(kCheck, "").fields.count(field), 0U);
}

TEST_F(ProtocolTest, AcceptsNoMoreCallsOnceItIsFinished) {
  start_with_workers(4);
  auto& answer = ask(kEcho, "wait");
  const auto id = client_.call(kEcho, "more");
  const std::string on_its_way = client_.output();
  protocol_->notice();
  talk();
  protocol_->take(on_its_way, now_);
  talk();
  EXPECT_EQ(status(client_.answers[id]), "0");
  protocol_->finish();
  talk();
  EXPECT_FALSE(protocol_->ended());
  release();
  talk();
  EXPECT_EQ(status(answer), "0");
  EXPECT_TRUE(protocol_->ended());
  EXPECT_EQ(client_.goaways, (std::vector<std::uint32_t>{0, 0}));
}

TEST_F(ProtocolTest, AnswersInTheOrderInWhichRepliesAreReady) {
  start_with_workers(4);
  auto& first = ask(kEcho, "wait");
  EXPECT_EQ(ask(kEcho, "second").data, message("second"));
  EXPECT_FALSE(first.ended);
  EXPECT_EQ(outputs_, 0);
  release();
  EXPECT_EQ(outputs_, 1);
  talk();
  EXPECT_EQ(first.data, message("wait"));
}

TEST_F(ProtocolTest, DiscardsRepliesOfCallsThatWereReset) {
  start_with_workers(2);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(client_.call(kEcho, "wait"));
  talk();
  EXPECT_EQ(waits_.size(), 2U);
  for (const auto id : ids) client_.reset(id);
  talk();
  EXPECT_EQ(protocol_->open_streams(), 0U);
  release();
  release();
  EXPECT_TRUE(waits_.empty()) << "three of them were never begun";
  EXPECT_EQ(ask(kEcho, "on").data, message("on"));
}

TEST_F(ProtocolTest, MayEndBeforeItsCalls) {
  start_with_workers(1);
  for (int i = 0; i < 3; ++i) client_.call(kEcho, "wait");
  talk();
  protocol_.reset();
  release();
  EXPECT_TRUE(waits_.empty());
  EXPECT_EQ(shared_->streams.in_use(), 0U);
}

TEST_F(ProtocolTest, AnswersWithDeadlineExceededIfTheReplyIsTooLate) {
  start_with_workers(1);
  auto& answer = ask(kEcho, "wait", {{"grpc-timeout", "20m"}});
  now_ += milliseconds(30);
  protocol_->tick(now_);
  talk();
  EXPECT_EQ(status(answer), "4");
  release();
  talk();
  EXPECT_EQ(answer.data, "");
}

TEST_F(ProtocolTest, StopsEndlessPingsAndResets) {
  for (const bool resets : {false, true}) {
    start({});
    TestClient client;
    for (int i = 0; i < 5000 && client.goaways.empty(); ++i) {
      if (resets) {
        const auto id = client.send(TestClient::fields(kEcho), "", false);
        protocol_->take(client.output(), now_);
        client.reset(id);
      } else {
        client.ping();
      }
      protocol_->take(client.output(), now_);
      std::string out;
      protocol_->write(out, 1 << 20);
      client.take(out);
    }
    EXPECT_EQ(client.goaways, (std::vector<std::uint32_t>{NGHTTP2_ENHANCE_YOUR_CALM}));
    EXPECT_TRUE(protocol_->ended());
  }
}

TEST_F(ProtocolTest, AllowsResetsOfCompleteCalls) {
  start_with_workers(4);
  for (int i = 0; i < 5000; ++i) {
    const auto id = client_.call(kEcho, "wait");
    talk();
    client_.reset(id);
    talk();
    while (!waits_.empty()) release();
  }
  EXPECT_TRUE(client_.goaways.empty()) << "they are a client's deadlines";
  EXPECT_EQ(ask(kEcho, "on").data, message("on"));
}

TEST_F(ProtocolTest, AnswersAClientOfAnotherProtocol) {
  EXPECT_FALSE(protocol_->take("GET / HTTP/1.1\r\n", now_));
  std::string out;
  protocol_->write(out, 1 << 20);
  EXPECT_EQ(out.substr(0, 12), "HTTP/1.1 400");
  EXPECT_TRUE(protocol_->ended());
}

TEST_F(ProtocolTest, ResetsRepliesThatTheClientDoesNotRead) {
  TestClient reader(0);
  const auto id = reader.call(kEcho, std::string(90'000, 'x'));
  const auto talk_at = [&](SteadyTime when) {
    protocol_->tick(when);
    for (std::string words = reader.output();; words = reader.output()) {
      if (!words.empty()) protocol_->take(words, now_);
      std::string out;
      protocol_->write(out, 1 << 20);
      if (words.empty() && out.empty()) return;
      reader.take(out);
    }
  };
  talk_at(now_);
  EXPECT_EQ(reader.answers[id].fields[":status"], "200");
  EXPECT_GE(shared_->buffered, 90'000U) << "the answer waits, and counts";
  talk_at(now_ + bounds_.write_timeout - milliseconds(1));
  EXPECT_FALSE(reader.answers[id].ended);
  talk_at(now_ + bounds_.write_timeout);
  EXPECT_TRUE(reader.answers[id].ended);
  EXPECT_EQ(reader.answers[id].error, NGHTTP2_CANCEL);
  EXPECT_EQ(reader.answers[id].data, "");
  EXPECT_EQ(shared_->streams.in_use(), 0U);
  EXPECT_EQ(shared_->buffered, 0U);
}

TEST_F(ProtocolTest, AcceptsNoMoreDataWhileTooMuchIsUnread) {
  bounds_.body_bytes = std::size_t{32} << 20;
  TestClient reader(0);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(reader.call(kEcho, std::string(std::size_t{20} << 20, 'x')));
    for (std::string words = reader.output(); !words.empty(); words = reader.output()) {
      protocol_->take(words, now_);
      std::string out;
      protocol_->write(out, 1 << 20);
      reader.take(out);
    }
    EXPECT_LE(shared_->buffered, std::size_t{65} << 20);
  }
  EXPECT_EQ(reader.answers[ids.back()].fields["grpc-status"], "8");
}

TEST_F(ProtocolTest, EndsConnectionsWhoseHeadersDoNotEnd) {
  for (const char* path : {kEcho, kReflection}) {
    start({});
    Raw raw(*protocol_, now_);
    // A header without the flag END_HEADERS.
    raw.send(frame(NGHTTP2_HEADERS, 0, 1, fields_of(path)));
    EXPECT_EQ(protocol_->open_streams(), 1U);
    for (int i = 0; i < 5; ++i) raw.send(frame(NGHTTP2_CONTINUATION, 0, 1, literal("a", "b")));
    protocol_->tick(now_ + bounds_.header_timeout - milliseconds(1));
    raw.send("");
    EXPECT_FALSE(protocol_->ended());
    protocol_->tick(now_ + bounds_.header_timeout);
    raw.send("");
    EXPECT_TRUE(protocol_->ended()) << path;
  }
}

TEST_F(ProtocolTest, EndsConnectionsWhoseFramesDoNotEnd) {
  bounds_.header_timeout = seconds(1);
  bounds_.body_timeout = seconds(3);
  const std::string open = frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields_of(kEcho));
  const std::string header = frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 3, fields_of(kEcho));
  const std::string ping = frame(NGHTTP2_PING, 0, 0, "12345678");
  const std::string data = frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, message("hello"));
  const std::pair<std::string, seconds> partial[] = {
      {header.substr(0, 1), seconds(1)},
      {header.substr(0, 9), seconds(1)},
      {header.substr(0, header.size() - 1), seconds(1)},
      {ping.substr(0, ping.size() - 1), seconds(1)},
      {data.substr(0, data.size() - 1), seconds(3)},
  };
  for (const auto& [part, most] : partial) {
    start({});
    Raw raw(*protocol_, now_);
    raw.send(open);
    for (const char byte : part) raw.send({&byte, 1});
    protocol_->tick(now_ + most - milliseconds(1));
    raw.send("");
    EXPECT_FALSE(protocol_->ended()) << part.size();
    protocol_->tick(now_ + most);
    raw.send("");
    EXPECT_TRUE(protocol_->ended()) << part.size();
  }
}

TEST_F(ProtocolTest, AMessageToReflectionMustArriveInTimeButThePauseBetweenTwoMayBeLonger) {
  const std::string open =
      frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields_of(kReflection));
  Raw raw(*protocol_, now_);
  raw.send(open);
  protocol_->tick(now_ + 2 * bounds_.body_timeout);
  raw.send(frame(NGHTTP2_DATA, 0, 1, message(std::string_view("\x3a\0", 2))));
  protocol_->tick(now_ + 4 * bounds_.body_timeout);
  raw.send("");
  EXPECT_EQ(protocol_->open_streams(), 1U);
  raw.send(frame(NGHTTP2_DATA, 0, 1, message("hello").substr(0, 7)));
  protocol_->tick(now_ + bounds_.body_timeout);
  raw.send("");
  EXPECT_EQ(protocol_->open_streams(), 0U);
}

TEST_F(ProtocolTest, AStreamPassesMessagesOnAsTheyArriveHoweverTheyAreSplit) {
  const auto id = open_stream(client_, message("one") + message("") + message("three"),
                              {{"authorization", "somebody"}});
  auto& answer = client_.answers[id];
  EXPECT_EQ(seen_.authorization, "somebody");
  EXPECT_EQ(answer.data, message("one") + message("") + message("three"));
  answer.data.clear();
  const std::string large = message(std::string(90'000, 'x'));
  for (const std::string_view part :
       {std::string_view(large).substr(0, 3), std::string_view(large).substr(3, 40'000)}) {
    client_.send_more(id, part);
    talk();
    EXPECT_EQ(seen_.messages, 3);
  }
  client_.send_more(id, large.substr(40'003) + message("five"));
  talk();
  EXPECT_EQ(answer.data, large + message("five"));
  EXPECT_FALSE(answer.ended);
  client_.send_more(id, "", true);
  talk();
  EXPECT_EQ(status(answer), "0");
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(seen_.open, 0);
  EXPECT_EQ(outputs_, 0) << "the caller asks for the output";
}

TEST_F(ProtocolTest, TheBoundOfAMessageIsNotThatOfAStream) {
  const auto id = open_stream(client_, "");
  const std::string large = message(std::string(bounds_.body_bytes, 'x'));
  for (int i = 0; i < 50; ++i) {
    client_.send_more(id, large);
    talk();
  }
  EXPECT_EQ(client_.answers[id].data.size(), 50 * large.size());
  EXPECT_EQ(shared_->buffered, 0U) << "what was read does not count any more";
  client_.send_more(id, message(std::string(bounds_.body_bytes + 1, 'x')));
  talk();
  EXPECT_EQ(status(client_.answers[id]), "8");
}

TEST_F(ProtocolTest, AStreamEndsAtAMalformedMessage) {
  using namespace std::string_literals;
  for (const std::string& body : {"\2\0\0\0\1a"s, "\1\0\0\0\1a"s}) {
    const auto id = open_stream(client_, message("a") + body);
    EXPECT_EQ(client_.answers[id].data, message("a"));
    EXPECT_EQ(status(client_.answers[id]), "13");
  }
  EXPECT_EQ(status(ask_raw(TestClient::fields(kStream), message("a") + "\0\0\0"s)), "13");
  EXPECT_EQ(
      status(ask_raw(TestClient::fields(kStream, {{"grpc-encoding", "gzip"}}), "\1\0\0\0\4abcd"s)),
      "13");
}

TEST_F(ProtocolTest, AStreamOfCompressedMessages) {
  // Made by `printf hello | gzip -n`.
  const std::string hello(
      "\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0", 25);
  std::string compressed = message(hello);
  compressed[0] = '\1';
  auto& answer = ask_raw(TestClient::fields(kStream, {{"grpc-encoding", "gzip"}}),
                         compressed + message("plain") + compressed);
  EXPECT_EQ(answer.data, message("hello") + message("plain") + message("hello"));
  EXPECT_EQ(status(answer), "0");
}

TEST_F(ProtocolTest, TheServerSendsAtAnyTimeAlsoAfterTheClientsLastMessage) {
  seen_.ends = false;
  auto& answer = ask_raw(TestClient::fields(kStream), message("one"));
  EXPECT_TRUE(seen_.out->send("two"));
  EXPECT_EQ(seen_.out->unread(), 8U);
  EXPECT_EQ(outputs_, 1);
  talk();
  EXPECT_EQ(answer.data, message("one") + message("two"));
  EXPECT_EQ(seen_.out->unread(), 0U);
  EXPECT_EQ(shared_->buffered, 0U);
  seen_.out->end(Code::kAborted, "enough");
  EXPECT_FALSE(seen_.out->send("three"));
  seen_.out->end(Code::kOk, {});
  talk();
  EXPECT_EQ(status(answer), "10");
  EXPECT_EQ(answer.fields["grpc-message"], "enough");
  EXPECT_EQ(answer.data, message("one") + message("two"));
}

TEST_F(ProtocolTest, AStreamThatTheServerEndsTakesNoMoreMessages) {
  const auto id = open_stream(client_, message("end") + message("more"));
  auto& answer = client_.answers[id];
  EXPECT_EQ(status(answer), "5");
  EXPECT_EQ(answer.data, message("end"));
  EXPECT_EQ(answer.error, NGHTTP2_NO_ERROR);
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(seen_.messages, 1);
}

TEST_F(ProtocolTest, TheServerMayRefuseAStream) {
  const auto id = open_stream(client_, message("one"), {{"authorization", "nobody"}});
  EXPECT_EQ(status(client_.answers[id]), "16");
  EXPECT_EQ(client_.answers[id].data, "");
}

TEST_F(ProtocolTest, AStreamIsGoneAfterAResetAndWithItsConnection) {
  const auto id = open_stream(client_, message("one"));
  open_stream(client_, message("one") + message("part").substr(0, 6));
  EXPECT_EQ(seen_.open, 2);
  client_.reset(id);
  talk();
  EXPECT_EQ(seen_.open, 1);
  protocol_.reset();
  EXPECT_EQ(seen_.open, 0);
}

TEST_F(ProtocolTest, TheDeadlineIsOfTheWholeStream) {
  const auto id = open_stream(client_, message("one"), {{"grpc-timeout", "20S"}});
  for (int i = 0; i < 19; ++i) {
    client_.send_more(id, message("more"));
    tick_after(seconds(1));
  }
  EXPECT_FALSE(client_.answers[id].ended);
  tick_after(seconds(1));
  EXPECT_EQ(status(client_.answers[id]), "4");
  EXPECT_EQ(seen_.open, 0);
}

TEST_F(ProtocolTest, AClientThatDoesNotReadIsMadeToWait) {
  constexpr std::size_t kMostUnread = std::size_t{256} << 10;
  constexpr int kMessages = 3000;
  TestClient reader(0);
  std::string body;
  for (int i = 0; i < kMessages; ++i) {
    body += message(std::to_string(i) + std::string(1000, 'x'));
  }
  const auto id = open_stream(reader, body);
  auto& answer = reader.answers[id];
  EXPECT_FALSE(answer.ended);
  EXPECT_LE(seen_.messages, 300);
  EXPECT_EQ(seen_.refused, 0);
  EXPECT_GT(seen_.out->unread(), kMostUnread);
  EXPECT_LE(shared_->buffered, 2 * kMostUnread + 2000);
  EXPECT_FALSE(seen_.out->send("more")) << "until the client reads";
  const auto other = reader.call(kEcho, "fail");
  talk(reader);
  EXPECT_EQ(status(reader.answers[other]), "3") << "other calls do not wait";
  reader.send_more(id, "", true);
  reader.accept_more(id, 1 << 30);
  talk(reader);
  EXPECT_EQ(answer.data, body);
  EXPECT_EQ(seen_.messages, kMessages);
  EXPECT_EQ(seen_.refused, 0);
  EXPECT_EQ(status(answer), "0");
}

TEST_F(ProtocolTest, EndsAStreamWhoseClientNeverReads) {
  TestClient reader(0);
  std::string body;
  for (int i = 0; i < 300; ++i) body += message(std::string(1000, 'x'));
  const auto id = open_stream(reader, body);
  protocol_->tick(now_);
  protocol_->tick(now_ + bounds_.write_timeout - milliseconds(1));
  EXPECT_TRUE(seen_.open == 1 && seen_.messages < 300);
  protocol_->tick(now_ + bounds_.write_timeout);
  protocol_->tick(now_ + bounds_.write_timeout + milliseconds(250));
  EXPECT_EQ(seen_.open, 0);
  protocol_->tick(now_ + 2 * bounds_.write_timeout);
  talk(reader);
  EXPECT_TRUE(reader.answers[id].ended);
  EXPECT_EQ(reader.answers[id].error, NGHTTP2_CANCEL);
}

TEST_F(ProtocolTest, StreamsLearnThatTheConnectionEndsAndAreEnded) {
  const auto id = open_stream(client_, message("one"));
  const auto late = client_.send(TestClient::fields(kStream), message("two"), false);
  const std::string on_its_way = client_.output();
  protocol_->notice();
  EXPECT_EQ(seen_.drains, 1);
  talk();
  protocol_->take(on_its_way, now_);
  talk();
  EXPECT_EQ(seen_.drains, 2) << "a stream that was opened after the notice";
  EXPECT_EQ(client_.answers[late].data, message("two"));
  protocol_->finish();
  talk();
  EXPECT_EQ(status(client_.answers[id]), "14");
  EXPECT_EQ(status(client_.answers[late]), "14");
  EXPECT_TRUE(protocol_->ended());
}

TEST_F(ProtocolTest, StopsEndlessResetsOfStreams) {
  int sent = 0;
  for (; sent < 5000 && client_.goaways.empty(); ++sent) {
    const auto id = open_stream(client_, message("a"));
    client_.reset(id);
    talk();
  }
  EXPECT_EQ(client_.goaways, (std::vector<std::uint32_t>{NGHTTP2_ENHANCE_YOUR_CALM}));
}

TEST_F(ProtocolTest, AllowsSmallMessagesWithoutEnd) {
  const auto id = open_stream(client_, "");
  for (int i = 0; i < 10'000; ++i) {
    client_.send_more(id, message("a"));
    talk();
  }
  EXPECT_TRUE(client_.goaways.empty());
  EXPECT_EQ(seen_.messages, 10'000);
}

struct Flood {
  const char* name;
  std::string before;
  std::string again;  // and again
};

TEST_F(ProtocolTest, StopsFloodsOfFramesThatCarryNoWork) {
  const std::string open = frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields_of(kEcho));
  const std::string over = open + frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, message("a"));
  const std::string stream =
      frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields_of(kStream));
  const std::string one("\0\0\0\1", 4);
  const Flood floods[] = {
      {"unknown types", "", frame(0x42, 0xff, 0, "whatever")},
      {"unknown types of a stream", open, frame(0x42, 0, 1, "")},
      {"pings", "", frame(NGHTTP2_PING, 0, 0, "12345678")},
      {"answers to no ping", "", frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678")},
      {"settings", "", frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\xff\xff", 6))},
      {"windows", "", frame(NGHTTP2_WINDOW_UPDATE, 0, 0, one)},
      {"windows of a stream", open, frame(NGHTTP2_WINDOW_UPDATE, 0, 1, one)},
      {"priorities", "", frame(NGHTTP2_PRIORITY, 0, 3, std::string("\0\0\0\0\1", 5))},
      {"empty data", open, frame(NGHTTP2_DATA, 0, 1, "")},
      {"data of padding", open,
       frame(NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, "\x64" + std::string(100, '\0'))},
      {"data byte by byte", open + frame(NGHTTP2_DATA, 0, 1, std::string_view("\0\0\1\0\0", 5)),
       frame(NGHTTP2_DATA, 0, 1, "a")},
      {"data of a call that is over", over, frame(NGHTTP2_DATA, 0, 1, std::string(100, 'a'))},
      {"resets of a call that is over", over, frame(NGHTTP2_RST_STREAM, 0, 1, one)},
      {"goodbyes", open, frame(NGHTTP2_GOAWAY, 0, 0, std::string(8, '\0'))},
      {"fields", frame(NGHTTP2_HEADERS, 0, 1, fields_of(kEcho)),
       frame(NGHTTP2_CONTINUATION, 0, 1, literal("a", "b"))},
      {"empty messages", stream, frame(NGHTTP2_DATA, 0, 1, message(""))},
      {"many empty messages", stream, frame(NGHTTP2_DATA, 0, 1, std::string(500, '\0'))},
      {"messages without reading", stream,
       frame(NGHTTP2_DATA, 0, 1, message(std::string(100, 'a')))},
      {"a message byte by byte",
       stream + frame(NGHTTP2_DATA, 0, 1, std::string_view("\0\0\1\0\0", 5)),
       frame(NGHTTP2_DATA, 0, 1, "a")},
      {"empty fields", frame(NGHTTP2_HEADERS, 0, 1, fields_of(kEcho)),
       frame(NGHTTP2_CONTINUATION, 0, 1, "")},
  };
  for (const Flood& flood : floods) {
    start({});
    Raw raw(*protocol_, now_);
    raw.send(flood.before);
    int sent = 0;
    while (sent < 5000 && !protocol_->ended()) {
      raw.send(flood.again);
      ++sent;
    }
    EXPECT_TRUE(protocol_->ended()) << flood.name;
    EXPECT_GE(raw.said, 9U) << flood.name;
    EXPECT_LE(raw.said, 200'000U) << flood.name;
  }
}

TEST_F(ProtocolTest, AllowsUsualFramesBetweenCalls) {
  for (int i = 0; i < 5000; ++i) {
    client_.ping();
    EXPECT_EQ(status(ask(kEcho, "fail")), "3");
  }
  EXPECT_TRUE(client_.goaways.empty());
}

TEST_F(ProtocolTest, AllowsOnlyTheAnnouncedNumberOfConcurrentCalls) {
  start(net::FiberPool::Options{.most = 1}, 3);
  Raw raw(*protocol_, now_);
  for (int i = 0; i < 100; ++i) {
    raw.send(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1, fields_of(kEcho)));
    EXPECT_LE(protocol_->open_streams(), 3U);
    EXPECT_LE(shared_->streams.in_use(), 3U);
  }
}

}  // namespace
}  // namespace sluice::server::grpc::protocol_test

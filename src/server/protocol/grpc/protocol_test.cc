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
    shared_.emplace(SharedState{
        bounds_, streams, *handlers_, {kEcho}, recorder_, serving_, net::LoopClock::system()});
    protocol_.emplace(*shared_, "192.0.2.1", [this] { ++outputs_; });
  }
  void start_with_workers(std::size_t most) { start(net::FiberPool::Options{.most = most}); }
  void TearDown() override {
    while (!waits_.empty()) release();
    protocol_.reset();
    EXPECT_TRUE(!shared_ || shared_->streams.in_use() == 0U);
    EXPECT_TRUE(!shared_ || shared_->buffered == 0U);
  }

  // Passes bytes between both sides until neither has output.
  void talk() {
    for (;;) {
      const std::string words = client_.output();
      if (!words.empty()) protocol_->take(words, now_);
      std::string out;
      protocol_->write(out, std::size_t{1} << 30);
      if (words.empty() && out.empty()) return;
      ASSERT_TRUE(client_.take(out));
    }
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

struct Flood {
  const char* name;
  std::string before;
  std::string again;  // and again
};

TEST_F(ProtocolTest, StopsFloodsOfFramesThatCarryNoWork) {
  const std::string open = frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields_of(kEcho));
  const std::string over = open + frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, message("a"));
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

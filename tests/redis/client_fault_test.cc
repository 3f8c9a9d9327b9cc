// The client with a fake Redis server that misbehaves.

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/redis/client_probe.h"

namespace sluice_redis {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace std::string_literals;

// A server on a Unix socket, on the loop of the client. A function returns the bytes to send for
// the bytes that were read. If it returns none, the server closes the connection.
class FakeServer {
 public:
  using Answer = std::function<std::optional<std::string>(std::string_view read)>;

  explicit FakeServer(Answer answer) : answer_(std::move(answer)) {
    folder_ = (std::filesystem::temp_directory_path() / "sluice-fake-XXXXXX").string();
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp: " + folder_);
  }
  ~FakeServer() { std::filesystem::remove_all(folder_); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string socket() const { return folder_ + "/fake.sock"; }
  void listen(asio::io_context& loop) {
    acceptor_ = std::make_unique<Acceptor>(loop, Protocol::endpoint(socket()));
    accept();
  }
  int connections = 0;

 private:
  using Protocol = asio::local::stream_protocol;
  using Acceptor = Protocol::acceptor;
  struct Session {
    explicit Session(Protocol::socket taken) : socket(std::move(taken)) {}
    Protocol::socket socket;
    std::array<char, 4096> buffer = {};
  };

  void accept() {
    acceptor_->async_accept([this](const auto& error, Protocol::socket socket) {
      if (error) return;
      ++connections;
      read(std::make_shared<Session>(std::move(socket)));
      accept();
    });
  }
  void read(const std::shared_ptr<Session>& session) {
    session->socket.async_read_some(
        asio::buffer(session->buffer), [this, session](const auto& error, std::size_t bytes) {
          if (error) return;
          const auto said = answer_(std::string_view(session->buffer.data(), bytes));
          if (!said) return;  // this ends the session
          boost::system::error_code ignored;
          asio::write(session->socket, asio::buffer(*said), ignored);
          read(session);
        });
  }

  Answer answer_;
  std::string folder_;
  std::unique_ptr<Acceptor> acceptor_;
};

// The handshake is only CLIENT SETNAME, because protocol 2 and no password are configured.
class OddServer : public ::testing::Test {
 protected:
  // The answers to commands after a valid handshake.
  Probe& says(FakeServer::Answer answer) {
    return answers([answer = std::move(answer)](std::string_view read) {
      return read.find("SETNAME") != read.npos ? std::optional("+OK\r\n"s) : answer(read);
    });
  }
  Probe& answers(FakeServer::Answer answer) {
    server = std::make_unique<FakeServer>(std::move(answer));
    options.url = "redis+unix://" + server->socket();
    probe = std::make_unique<Probe>(options);
    server->listen(probe->loop);
    return *probe;
  }

  sluice::RedisOptions options = [] {
    sluice::RedisOptions out;
    out.deadline = out.connect_timeout = sluice::testing::kPatience;
    out.protocol = 2;
    return out;
  }();
  std::unique_ptr<Probe> probe;
  std::unique_ptr<FakeServer> server;  // on the probe's loop
};

TEST_F(OddServer, ThatSendsAMalformedReplyLosesTheConnection) {
  Probe& client = says([](std::string_view) { return "HTTP/1.1 400 Bad Request\r\n"s; });
  EXPECT_EQ(client.ask({"PING"}),
            "lost: the server does not speak the protocol of Redis: it sent 'HTTP/1.1 400 Bad "
            "Request\\x0D\\x0A'");
  client.run_until("the client reconnects", [&] { return server->connections == 2; });
}

TEST_F(OddServer, ThatSpeaksHttpIsReported) {
  Probe& client = answers([](std::string_view) { return "HTTP/1.1 400 Bad Request\r\n"s; });
  const std::string said = client.ask({"PING"});
  EXPECT_EQ(said.find("unavailable: the server does not speak the protocol of Redis"), 0u) << said;
}

TEST_F(OddServer, ThatClosesInAReplyEndsAllCommandsUnderWay) {
  bool half = true;
  Probe& client = says([&](std::string_view) -> std::optional<std::string> {
    return std::exchange(half, false) ? std::optional("+ONE\r\n$100\r\nhalf"s) : std::nullopt;
  });
  std::vector<Ask> asks(3);
  for (Ask& one : asks) one.append("PING");
  for (Ask& one : asks) client.client->submit(one);
  client.run_until("one has its answer", [&] { return asks[0].times > 0; });
  Ask last({"PING"});  // the server closes when it reads this
  client.client->submit(last);
  client.run_until("the last has ended", [&] { return last.times > 0; });
  EXPECT_EQ(asks[0].said, "ONE");
  for (const Ask* one : {&asks[1], &asks[2], &last}) {
    EXPECT_EQ(one->times, 1);
    EXPECT_EQ(one->failure, Failure::kLost);
    EXPECT_EQ(one->said, "the server closed the connection");
  }
}

TEST_F(OddServer, ThatAnswersByteByByteIsUnderstood) {
  std::string left = "*2\r\n$2\r\n\r\n\r\n:-7\r\n";
  // For each command it reads, the server sends one more byte of the first answer.
  Probe& client = says([&left](std::string_view) {
    std::string next = left.substr(0, 1);
    left.erase(0, 1);
    return next;
  });
  client.run_until_ready();
  std::vector<Ask> asks(left.size());
  for (Ask& each : asks) {
    each.append("PING");
    const std::size_t before = left.size();
    client.client->submit(each);
    client.run_until("a byte is sent", [&] { return left.size() < before; });
  }
  client.run_until("one has its answer", [&] { return asks[0].times > 0; });
  EXPECT_EQ(asks[0].said, "[\r\n -7]");
  probe->client.reset();  // the others are in progress
}

TEST_F(OddServer, ThatNeverAnswersTheHandshakeIsDisconnected) {
  options.connect_timeout = 50ms;
  Probe& client = answers([](std::string_view) { return ""s; });
  const std::string said = client.ask({"PING"});
  EXPECT_EQ(said.find("unavailable: the server has not answered for "), 0u) << said;
}

TEST_F(OddServer, ThatSendsAReplyWithoutARequestLosesTheConnection) {
  bool first = true;
  Probe& client = says([&](std::string_view) {
    return std::exchange(first, false) ? "+PONG\r\n+AND MORE\r\n"s : "+PONG\r\n"s;
  });
  EXPECT_EQ(client.ask({"PING"}), "PONG");
  client.run_until_saw("connection_lost");
  EXPECT_TRUE(client.saw("a reply without a command"));
}

TEST_F(OddServer, ThatSendsPushesBetweenRepliesIsUnderstood) {
  Probe& client = says([](std::string_view) {
    return ">2\r\n+invalidate\r\n*1\r\n+key\r\n+PONG\r\n>1\r\n+message\r\n"s;
  });
  EXPECT_EQ(client.ask({"PING"}), "PONG");
  EXPECT_EQ(client.ask({"PING"}), "PONG");
  EXPECT_EQ(client.client->stats().connects, 1u);
}

TEST_F(OddServer, ThatAnnouncesATooLargeReplyIsDisconnected) {
  Probe& client = says([](std::string_view) { return "$99999999999\r\n"s; });
  EXPECT_EQ(client.ask({"PING"}), "lost: a reply is too large");
}

TEST_F(OddServer, ThatForgetsAScriptReceivesItsTextOnce) {
  const sluice::redis::Script script = {.name = "s", .text = "return 1", .sha1 = "e0e1f9fabfc9"};
  std::vector<std::string> commands;
  Probe& client = says([&](std::string_view read) {
    commands.emplace_back(read);
    return "-NOSCRIPT No matching script.\r\n"s;  // also to EVAL, unlike a real server
  });
  Ask one(script, {"0"});
  EXPECT_EQ(client.ask(one), "error: NOSCRIPT No matching script.");
  EXPECT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands.back(), "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n");
}

TEST_F(OddServer, ThatIsStillLoadingIsTriedAgain) {
  int asked = 0;
  Probe& client = answers([&](std::string_view read) {
    if (read.find("SETNAME") == read.npos) return "+PONG\r\n"s;
    return ++asked < 3 ? "-LOADING Redis is loading the dataset in memory\r\n"s : "+OK\r\n"s;
  });
  const std::string said = client.ask({"PING"});
  EXPECT_EQ(said.find("unavailable: the server is still loading its data"), 0u) << said;
  client.ask_until_answered({"PING"});
}

}  // namespace
}  // namespace sluice_redis

#include "server/net/connection.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "server/net/test_certificate.h"
#include "server/net/test_connection_state.h"

namespace sluice::server::net {
namespace {

// A protocol that only notes when it begins.
struct Begun : StreamState {
  struct Options {};
  struct Handlers {};
  struct Shared : Options {
    using Options = Begun::Options;
    Handlers& handlers;
    metrics::Recorder& recorder;
    const LoopClock& clock;
    bool draining = false;
    std::optional<SteadyTime> begun = {};

    std::size_t peer_of(const Accepted& accepted) { return accepted.certificate_names().size(); }
    SteadyTime time_of_event(const Poller& poller) const { return poller.now(); }
  };
  static constexpr std::string_view kRefusal = "full";
  static constexpr std::string_view kNeedsTls = "use TLS";

  Begun(std::size_t names, Shared& shared, Act act, SteadyTime now)
      : StreamState(std::move(act), now) {
    EXPECT_EQ(names, 0U);
    deadline_ = SteadyTime::max();
    shared.begun = now;
  }
  Action on_input(std::string_view, SteadyTime) { return Action::kReceive; }
  Action on_room(SteadyTime) { return Action::kReceive; }
  std::string_view output() { return {}; }
  Action on_sent(std::size_t, bool) { return Action::kReceive; }
  Action on_expired(SteadyTime) { return Action::kClose; }
  void on_drain(SteadyTime) {}
};

// Handshakes over a pair of sockets whose other end is a client.
class Handshakes : public ::testing::Test {
 protected:
  Handshakes() {
    const std::string folder = ::testing::TempDir();
    files_.cert_file = folder + "handshakes.crt";
    files_.key_file = folder + "handshakes.key";
    TestCertificate("DNS:localhost").write_to(files_.cert_file, files_.key_file);
    context_ = TlsContext::open(files_, "h2").value();
    const Acceptor::Parts listener{.loop = loop_,
                                   .recorder = registry_.make_recorder(),
                                   .warn = {},
                                   .connections = connections_,
                                   .most = 1,
                                   .clock = clock_,
                                   .tls = context_.get(),
                                   .handshake_timeout = std::chrono::seconds(1)};
    shared_.emplace(listener, Begun::Options(), handlers_);
    shared_->closed = [this](auto&) { closed_ = true; };
    shared_->complain = [this](auto what, auto why) {
      why_ = std::string(what) + "|" + std::string(why);
    };
    int ends[2] = {};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client_ = ends[0];
    Accepted accepted{ends[1], AF_UNIX, SocketAddress(), clock_.time,
                      std::make_unique<TlsSession>(*context_, ends[1])};
    boost::system::error_code why;
    connection_ = Connection<Begun>::open(accepted, *shared_, why);
    EXPECT_NE(connection_, nullptr);
  }
  ~Handshakes() override { ::close(client_); }

  void send(std::string_view bytes) {
    EXPECT_EQ(::send(client_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    run();
  }
  void run() {
    loop_.restart();
    loop_.poll();
  }
  std::string received() {
    char text[256];
    const ssize_t got = ::recv(client_, text, sizeof text, 0);
    return {text, got > 0 ? static_cast<std::size_t>(got) : 0};
  }
  void tick_after(std::chrono::milliseconds time) {
    clock_.time += time;
    connection_->tick(clock_.time);
    run();
  }
  // Does the client's side of the handshake. Returns whether it succeeds.
  bool shake_hands(std::string_view protocols) {
    SSL_CTX* const context = ::SSL_CTX_new(::TLS_client_method());
    SSL* const ssl = ::SSL_new(context);
    ::SSL_set_fd(ssl, client_);
    ::SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(protocols.data()),
                          static_cast<unsigned>(protocols.size()));
    int result = 0;
    for (int i = 0; i < 100 && result != 1 && !closed_; ++i) {
      result = ::SSL_connect(ssl);
      run();
    }
    ::SSL_free(ssl);
    ::SSL_CTX_free(context);
    return result == 1 && shared_->begun;
  }

  boost::asio::io_context loop_{1};
  ManualLoopClock clock_;
  metrics::Registry registry_;
  std::atomic<std::size_t> connections_{0};
  TlsFiles files_;
  std::unique_ptr<TlsContext> context_;
  Begun::Handlers handlers_;
  std::optional<Connection<Begun>::Shared> shared_;
  std::unique_ptr<Connection<Begun>> connection_;
  int client_ = -1;
  bool closed_ = false;
  std::string why_;
};

TEST_F(Handshakes, EndWithTheTimeOfTheirBegin) {
  const SteadyTime began = clock_.time;
  tick_after(std::chrono::milliseconds(500));
  EXPECT_TRUE(shake_hands("\2h2"));
  EXPECT_EQ(shared_->begun, began);
}

TEST_F(Handshakes, AcceptClientsWithoutAlpn) { EXPECT_TRUE(shake_hands("")); }

TEST_F(Handshakes, RefuseOtherProtocolsAndSayWhatIsExpected) {
  EXPECT_FALSE(shake_hands("\x8http/1.1"));
  EXPECT_EQ(why_,
            "a TLS handshake failed|the client offers other protocols by ALPN; expected h2, or no "
            "ALPN");
}

TEST_F(Handshakes, AreCutAfterTheTimeout) {
  send("\x16\x03\x01");
  tick_after(std::chrono::milliseconds(999));
  EXPECT_FALSE(closed_);
  tick_after(std::chrono::milliseconds(1));
  EXPECT_TRUE(closed_);
  EXPECT_EQ(why_, "") << "nothing for the log";
  EXPECT_NE(registry_.text().find("errors_total{reason=\"timed_out\"} 1"), std::string::npos);
}

TEST_F(Handshakes, EndSoonWhenTheServerDrains) {
  connection_->drain(clock_.time - std::chrono::milliseconds(500));
  tick_after(std::chrono::milliseconds(500));
  EXPECT_TRUE(closed_);
}

TEST_F(Handshakes, AnswerAClientWithoutTlsAndReportIt) {
  send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(received(), "use TLS");
  EXPECT_EQ(why_, "a client without TLS was refused, because this listener has `tls`|");
  EXPECT_NE(registry_.text().find("errors_total{reason=\"tls_failed\"} 1"), std::string::npos);
}

TEST_F(Handshakes, SayNothingOfAClientThatLeaves) {
  ::shutdown(client_, SHUT_WR);
  run();
  EXPECT_TRUE(closed_);
  EXPECT_EQ(why_, "");
}

TEST_F(Handshakes, KeepTheCertificateIfTheNewOneIsBroken) {
  std::fclose(std::fopen(files_.cert_file.c_str(), "w"));
  const auto read = context_->reload();
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error(), "cannot use the certificate in " + files_.cert_file +
                              ": expected a certificate chain in PEM");
  EXPECT_TRUE(shake_hands("\2h2"));
}

}  // namespace
}  // namespace sluice::server::net

#include "server/net/listener.h"

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
    handshakes_.emplace(
        listener, "use TLS",
        [this](int descriptor, const SocketAddress&, std::unique_ptr<TlsSession> session,
               SteadyTime since) {
          secured_ = descriptor;
          since_ = since;
          EXPECT_TRUE(session->certificate_names().empty());
        },
        [this](std::string_view what, std::string_view why) {
          refused_ = true;
          why_ = std::string(what) + "|" + std::string(why);
        });
    int ends[2] = {};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client_ = ends[0];
    handshakes_->start(ends[1], SocketAddress(), clock_.time);
  }
  ~Handshakes() override {
    ::close(client_);
    if (secured_ >= 0) ::close(secured_);
  }

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
    handshakes_->tick(clock_.time);
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
    for (int i = 0; i < 100 && result != 1 && !refused_; ++i) {
      result = ::SSL_connect(ssl);
      run();
    }
    ::SSL_free(ssl);
    ::SSL_CTX_free(context);
    return result == 1 && secured_ >= 0;
  }

  boost::asio::io_context loop_{1};
  ManualLoopClock clock_;
  metrics::Registry registry_;
  std::atomic<std::size_t> connections_{0};
  TlsFiles files_;
  std::unique_ptr<TlsContext> context_;
  std::optional<TlsHandshakes> handshakes_;
  int client_ = -1;
  int secured_ = -1;
  SteadyTime since_{};
  bool refused_ = false;
  std::string why_;
};

TEST_F(Handshakes, EndWithTheTimeOfTheirBegin) {
  const SteadyTime began = clock_.time;
  tick_after(std::chrono::milliseconds(500));
  EXPECT_TRUE(shake_hands("\2h2"));
  EXPECT_EQ(since_, began);
  EXPECT_TRUE(handshakes_->none());
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
  EXPECT_FALSE(refused_);
  tick_after(std::chrono::milliseconds(1));
  EXPECT_TRUE(refused_);
  EXPECT_EQ(why_, "|") << "nothing for the log";
  EXPECT_TRUE(handshakes_->none());
  EXPECT_NE(registry_.text().find("errors_total{reason=\"timed_out\"} 1"), std::string::npos);
}

TEST_F(Handshakes, EndSoonWhenTheServerDrains) {
  handshakes_->drain(clock_.time - std::chrono::milliseconds(500));
  tick_after(std::chrono::milliseconds(500));
  EXPECT_TRUE(refused_);
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
  EXPECT_EQ(why_, "|");
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

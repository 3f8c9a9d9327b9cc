#include "server/net/http_client.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/client_tls.h"
#include "server/net/test_certificate.h"

namespace sluice::server::net::http_client_test {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using Kind = HttpClient::Failure::Kind;

constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

// A server that serves one connection in a thread.
class OneConnection {
 public:
  explicit OneConnection(const std::function<void(tcp::socket&)>& serve)
      : thread_([this, serve] {
          tcp::socket socket = acceptor_.accept();
          serve(socket);
        }) {}
  ~OneConnection() { thread_.join(); }
  OneConnection(const OneConnection&) = delete;
  OneConnection& operator=(const OneConnection&) = delete;

  Address address() const {
    return {.kind = Address::Kind::kTcp,
            .host = "127.0.0.1",
            .port = acceptor_.local_endpoint().port(),
            .path = {}};
  }

 private:
  asio::io_context loop_;
  tcp::acceptor acceptor_{loop_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::thread thread_;
};

// Sends a text and waits until the client closes.
std::function<void(tcp::socket&)> says(std::string_view text) {
  return [text](tcp::socket& socket) {
    boost::system::error_code why;
    asio::write(socket, asio::buffer(text), why);
    std::string rest;
    asio::read(socket, asio::dynamic_buffer(rest), why);
  };
}

class HttpClientTls : public ::testing::Test {
 protected:
  HttpClientTls() {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp: " + folder_);
    for (const std::string name : {"localhost", "other"}) {
      TestCertificate(("DNS:" + name).c_str()).write_to(file(name + ".crt"), file(name + ".key"));
    }
  }
  ~HttpClientTls() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  static void answer(auto& over) {
    boost::system::error_code why;
    std::string request;
    asio::read_until(over, asio::dynamic_buffer(request), "\r\n\r\n", why);
    if (!why) asio::write(over, asio::buffer(kAnswer), why);
  }
  // Serves with the certificate of localhost.
  std::function<void(tcp::socket&)> over_tls(bool asks = false, int newest = TLS1_3_VERSION) const {
    return [this, asks, newest](tcp::socket& socket) {
      ssl::context context(ssl::context::tls_server);
      context.use_certificate_chain_file(file("localhost.crt"));
      context.use_private_key_file(file("localhost.key"), ssl::context::pem);
      SSL_CTX_set_max_proto_version(context.native_handle(), newest);
      if (asks) {
        context.load_verify_file(file("other.crt"));
        context.set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
      }
      ssl::stream<tcp::socket&> over(socket, context);
      boost::system::error_code why;
      over.handshake(ssl::stream_base::server, why);
      if (!why) answer(over);
    };
  }
  HttpClient::Options options(base::ClientTls tls, const std::string& name = "localhost") const {
    if (tls.ca_file.empty()) tls.ca_file = file("localhost.crt");
    return {.tls = base::make_tls(tls).value(), .server_name = name};
  }
  // Asks the server, and returns why that fails.
  std::optional<HttpClient::Failure> ask(const OneConnection& server,
                                         const HttpClient::Options& options) {
    HttpClient client(options);
    if (auto failed = client.open(server.address())) return failed;
    return client.ask("GET", "/", {}, {}, answer_);
  }

  std::string folder_ = ::testing::TempDir() + "sluice-http-XXXXXX";
  HttpClient::Answer answer_;
};

TEST_F(HttpClientTls, AsksAServerWhoseCertificateIsForItsName) {
  const OneConnection server(over_tls());
  EXPECT_FALSE(ask(server, options({})));
  EXPECT_EQ(answer_.status, 200U);
  EXPECT_EQ(answer_.body, "hi");
}

TEST_F(HttpClientTls, AsksAServerOfAnyNameIfNoneIsExpected) {
  const OneConnection server(over_tls());
  EXPECT_FALSE(ask(server, options({}, "")));
  EXPECT_EQ(answer_.status, 200U);
}

TEST_F(HttpClientTls, SaysWhyACertificateIsNotAccepted) {
  const OneConnection server(over_tls());
  const auto failed = ask(server, options({.ca_file = file("other.crt")}));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->kind, Kind::kCertificate);
  EXPECT_TRUE(failed->why.starts_with("TLS: the server's certificate is not accepted: "));
}

TEST_F(HttpClientTls, SaysThatACertificateIsForAnotherName) {
  const OneConnection server(over_tls());
  const auto failed = ask(server, options({}, "elsewhere"));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->kind, Kind::kName);
  EXPECT_EQ(failed->why, "TLS: the server's certificate is not accepted: hostname mismatch");
}

TEST_F(HttpClientTls, SaysThatAServerDoesNotUseTls) {
  const OneConnection server(says(kAnswer));
  const auto failed = ask(server, options({}));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->kind, Kind::kNoTls);
  EXPECT_EQ(failed->why, "the server does not use TLS");
}

TEST_F(HttpClientTls, PresentsItsCertificateToAServerThatAsks) {
  const std::string cert = file("other.crt"), key = file("other.key");
  const OneConnection server(over_tls(true));
  EXPECT_FALSE(ask(server, options({.cert_file = cert, .key_file = key})));
  EXPECT_EQ(answer_.status, 200U);
}

TEST_F(HttpClientTls, SaysThatAServerDoesNotAcceptAClientWithoutACertificate) {
  for (const int newest : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const OneConnection server(over_tls(true, newest));
    const auto failed = ask(server, options({}));
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->kind, Kind::kAlert) << newest << ": " << failed->why;
  }
}

TEST_F(HttpClientTls, AHandshakeThatNeverEndsIsAFailure) {
  const OneConnection server(says(""));
  HttpClient::Options impatient = options({});
  impatient.connect = std::chrono::milliseconds(20);
  const auto failed = ask(server, impatient);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->kind, Kind::kOther);
  EXPECT_EQ(failed->why, "The socket was closed due to a timeout");
}

TEST(HttpClient, SaysThatAServerSpeaksAnotherProtocol) {
  const OneConnection server(says("-ERR no\r\n"));
  HttpClient client({});
  ASSERT_FALSE(client.open(server.address()));
  HttpClient::Answer answer;
  const auto failed = client.ask("GET", "/", {}, {}, answer);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->kind, Kind::kNoHttp);
}

}  // namespace
}  // namespace sluice::server::net::http_client_test

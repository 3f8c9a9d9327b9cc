#include "sluice/middleware/httplib.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "sluice/limit_builder.h"
#include "sluice/memory_store.h"

namespace sluice {
namespace {

// A server that admits no login.
class HttplibServer : public ::testing::Test {
 protected:
  HttplibServer() : limiter_(store_) {
    server_.set_pre_routing_handler(httplib_limits(limiter_, [](const httplib::Request& request) {
      std::vector<NamedCharge> charges;
      if (request.path == "/login") {
        charges.push_back({"client", "anna", fixed_window(0).per(std::chrono::minutes(1))});
      }
      return charges;
    }));
    server_.Post("/login", [](const httplib::Request&, httplib::Response&) {});
    server_.Get("/secret", [this](const httplib::Request&, httplib::Response&) { ++secrets_; });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~HttplibServer() override {
    while (!server_.is_running()) std::this_thread::yield();
    server_.stop();
    thread_.join();
  }

  // Sends both parts on one connection, the second when the first is answered, and returns all that
  // the server sends until it closes the connection.
  std::string answers(const std::string& first, const std::string& second) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::send(socket, first.data(), first.size(), MSG_NOSIGNAL);
    std::string all;
    char part[4096];
    for (ssize_t size = 1; size > 0;) {
      size = ::recv(socket, part, sizeof(part), 0);
      if (all.empty()) ::send(socket, second.data(), second.size(), MSG_NOSIGNAL);
      if (size > 0) all.append(part, static_cast<std::size_t>(size));
    }
    ::close(socket);
    return all;
  }

  const std::string kSecret = "GET /secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  std::atomic<int> secrets_ = 0;

 private:
  MemoryStore store_;
  Limiter limiter_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST_F(HttplibServer, DoesNotTakeTheBodyOfADeniedRequestForARequest) {
  const std::string length = "Content-Length: " + std::to_string(kSecret.size()) + "\r\n";
  for (const std::string& fields :
       {length, length + "Range: bytes=1000-\r\n", std::string("Transfer-Encoding: chunked\r\n")}) {
    const std::string answer =
        answers("POST /login HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n", kSecret);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 429 ")) << answer;
    EXPECT_NE(answer.find("Connection: close\r\n"), answer.npos) << answer;
    EXPECT_TRUE(answer.ends_with("ever allow at once.\n")) << answer;
    EXPECT_EQ(secrets_, 0);
  }
}

TEST_F(HttplibServer, KeepsTheConnectionOfADeniedRequestWithoutABody) {
  const std::string answer = answers("GET /login HTTP/1.1\r\nHost: a\r\n\r\n", kSecret);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 429 ")) << answer;
  EXPECT_EQ(secrets_, 1);
}

}  // namespace
}  // namespace sluice

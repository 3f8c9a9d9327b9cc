#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::server {

// The answer to a client's request.
struct Answer {
  int status = 0;  // 0: the connection ended first
  std::string head;
  std::string body;
};

// A blocking client on a Unix socket. Each operation takes at most 30 seconds.
class TestClient {
 public:
  explicit TestClient(const std::string& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    const timeval limit{30, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address),  // NOLINT
                           sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(TestClient&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        connected_(other.connected_),
        read_(std::move(other.read_)) {}
  TestClient& operator=(TestClient&&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
      ASSERT_GT(sent, 0);
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // Whether bytes, or the end of the connection, can be read.
  bool has_answer() const {
    char byte = 0;
    return ::recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }
  // Reads the next answer. A test fails if nothing comes.
  Answer read() {
    std::size_t end = 0;
    while ((end = read_.find("\r\n\r\n")) == read_.npos) {
      if (!read_some()) return {};
    }
    Answer answer;
    answer.head = read_.substr(0, end + 2);
    answer.status = std::atoi(answer.head.c_str() + std::string_view("HTTP/1.1 ").size());
    const std::size_t length = answer.head.find("Content-Length: ");
    const std::size_t size =
        length == std::string::npos ? 0 : std::stoul(answer.head.substr(length + 16));
    while (read_.size() < end + 4 + size) {
      if (!read_some()) return {};
    }
    answer.body = read_.substr(end + 4, size);
    read_.erase(0, end + 4 + size);
    return answer;
  }
  Answer ask(std::string_view text) {
    send(text);
    return read();
  }

 private:
  bool read_some() {
    char room[65536];
    const ssize_t got = ::recv(descriptor_, room, sizeof room, 0);
    if (got > 0) read_.append(room, static_cast<std::size_t>(got));
    EXPECT_TRUE(got >= 0 || errno != EAGAIN) << "the server neither answered nor closed";
    return got > 0;
  }

  int descriptor_;
  bool connected_ = false;
  std::string read_;
};

inline std::string get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}
inline std::string post(std::string_view target, std::string_view body) {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

}  // namespace sluice::server

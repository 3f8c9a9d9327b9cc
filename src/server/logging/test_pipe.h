#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::server {

// A pipe that a log writes and a test reads. It holds 64 KiB of unread text.
class TestingPipe {
 public:
  TestingPipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  }
  ~TestingPipe() {
    close_reading();
    close_writing();
  }
  TestingPipe(const TestingPipe&) = delete;
  TestingPipe& operator=(const TestingPipe&) = delete;

  int writing() const noexcept { return ends_[1]; }
  void close_reading() { close_end(0); }
  void close_writing() { close_end(1); }

  // Reads up to `most` bytes; returns none at the end.
  std::string read_some(std::size_t most) {
    std::string text(most, '\0');
    const auto size = read(ends_[0], text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }
  // Returns all lines written. Call it when nobody writes any more.
  std::vector<std::string> lines() {
    close_writing();
    std::string text;
    for (std::string piece; !(piece = read_some(65536)).empty();) text += piece;
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      found.push_back(text.substr(at, end - at));
      at = end == text.npos ? text.size() : end + 1;
    }
    return found;
  }

 private:
  void close_end(std::size_t i) {
    if (ends_[i] >= 0) close(ends_[i]);
    ends_[i] = -1;
  }

  std::array<int, 2> ends_{-1, -1};
};

}  // namespace sluice::server

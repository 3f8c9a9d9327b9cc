#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

struct Target;  // target.h

// Where one server listens.
struct ServerAddress {
  std::string host;  // a name, an IP address, or the path of a Unix socket ("/...")
  std::uint16_t port = 6379;

  std::string to_string() const;  // "127.0.0.1:6379", "[::1]:6379", "/run/redis.sock"
  friend auto operator<=>(const ServerAddress&, const ServerAddress&) = default;
};

using Time = std::chrono::steady_clock::time_point;

// Calls its function once, at the time it is set to. The function is not called after stop(),
// after set() to another time, or after the timer is destroyed.
class Timer {
 public:
  virtual ~Timer() = default;
  // A time in the past: in the next turn of the loop. Ends the process if there is no memory.
  virtual void set(Time at) noexcept = 0;
  virtual void stop() noexcept = 0;
};

// A stream of bytes to one server. Held by shared_ptr: its handlers may outlive its user's
// interest.
class Transport {
 public:
  // Held by shared_ptr as well: the transport may still use its buffer after close().
  class User : public std::enable_shared_from_this<User> {
   public:
    virtual ~User() = default;
    virtual void on_connected() = 0;
    // The buffer for bytes from the server, then the number of bytes that were read into it.
    virtual std::span<char> room() = 0;
    virtual void on_input(std::size_t bytes) = 0;
    // Replaces `bytes` by what is to be written next; empty: nothing.
    virtual void take_output(std::string& bytes) = 0;
    // The operating system has accepted this number of bytes.
    virtual void on_output(std::size_t bytes) = 0;
    // The transport could not connect, or was lost. The last call.
    virtual void on_closed(const std::string& why) = 0;
  };

  virtual ~Transport() = default;
  // Takes at most `timeout`. Reads from on_connected() on.
  virtual void connect(std::chrono::milliseconds timeout) = 0;
  // Writes the user's output at the end of this turn of the loop, or when the write that is under
  // way is complete.
  virtual void flush() = 0;
  // The user is not called any more.
  virtual void close() noexcept = 0;
};

// All that clients need of their thread's event loop: the time, random numbers, timers, transports.
// Real ones: make_asio_event_loop(). Tests: TestEventLoop, where the test is the network and the
// clock.
//
// Thread-safety: the loop's thread only. Ownership: outlives what it makes.
class EventLoop {
 public:
  virtual ~EventLoop() = default;
  virtual Time now() const noexcept = 0;
  virtual std::uint64_t random() noexcept = 0;  // 64 random bits
  virtual std::unique_ptr<Timer> make_timer(std::function<void()> on_time) = 0;
  virtual std::shared_ptr<Transport> make_transport(const ServerAddress& address,
                                                    Transport::User& user) = 0;
};

// An event loop on Boost.Asio, with sockets as the target's options say. Borrows the loop.
std::unique_ptr<EventLoop> make_asio_event_loop(boost::asio::io_context& loop,
                                                std::shared_ptr<const Target> target);

}  // namespace sluice::redis

#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

class Link;     // link.h
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

// A stream of bytes to one server for a link, which it calls until close() or its on_closed(). Held
// by shared_ptr: its handlers may outlive the interest of the link.
class Transport {
 public:
  virtual ~Transport() = default;
  // Takes at most `timeout`. Reads from on_connected() on.
  virtual void connect(std::chrono::milliseconds timeout) = 0;
  // Writes the link's output at the end of this turn of the loop, or when the write that is under
  // way is complete.
  virtual void flush() = 0;
  // The link is not called any more, but its buffer may still be used.
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
  virtual std::shared_ptr<Transport> make_transport(const ServerAddress& address, Link& link) = 0;
};

// An event loop on Boost.Asio, with sockets as the target's options say. Borrows the loop.
std::unique_ptr<EventLoop> make_asio_event_loop(boost::asio::io_context& loop,
                                                std::shared_ptr<const Target> target);

}  // namespace sluice::redis

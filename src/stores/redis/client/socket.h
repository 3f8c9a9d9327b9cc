#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/link.h"
#include "stores/redis/client/target.h"

namespace sluice::redis {

// A socket of TCP or Unix, with TLS or without: how a name is looked up and connected to, and how
// bytes go in and out. Which bytes is Link's affair.
//
// The loop's thread only. Held by a shared_ptr, as what it waits for may outlast its owner; after
// close() its user hears nothing more.
class Socket : public std::enable_shared_from_this<Socket> {
 public:
  // Held by shared_ptr too: TLS may still look at its bytes after close().
  class User : public std::enable_shared_from_this<User> {
   public:
    virtual ~User() = default;
    virtual void on_connected() = 0;
    // Where bytes that arrive shall be put, and how many were.
    virtual std::span<char> room() = 0;
    virtual void on_input(std::size_t bytes) = 0;
    // Some of what write() was given is with the kernel now; all of it where !writing().
    virtual void on_output(std::size_t bytes) = 0;
    // It could not be connected, or has ended. The last call.
    virtual void on_closed(const std::string& why) = 0;
  };

  Socket(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
         const ServerAddress& address, User& user);

  // Tries the name's addresses in turn, then TLS where it is wanted. At most `timeout`.
  void connect(std::chrono::milliseconds timeout);
  // Begins to read, and goes on.
  void read();
  // `bytes` stay where they are while writing(). One at a time.
  void write(std::string_view bytes);
  bool writing() const noexcept { return writing_; }
  void close() noexcept;

 private:
  using Error = boost::system::error_code;
  using Generic = boost::asio::generic::stream_protocol;
  using Plain = boost::asio::basic_stream_socket<Generic, boost::asio::io_context::executor_type>;
  using Resolver =
      boost::asio::ip::basic_resolver<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;
  using Timer =
      boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                        boost::asio::wait_traits<std::chrono::steady_clock>,
                                        boost::asio::io_context::executor_type>;

  bool find_endpoints();  // false: the name has to be looked up
  void look_up();
  void try_next();
  void on_attempt(const Error& error);
  void limit_attempt(std::size_t attempts_left);
  void set_options();
  void begin_tls();
  void connected();
  void on_readable(const Error& error);
  void on_read(const Error& error, std::size_t bytes);
  void write_some();
  void on_written(const Error& error, std::size_t bytes);
  void fail(const std::string& why);
  std::string why_lost(const Error& error) const;

  std::shared_ptr<const Target> target_;
  ServerAddress address_;
  User* user_;  // null: closed
  Plain plain_;
  Resolver resolver_;
  Timer timer_;
  std::optional<boost::asio::ssl::stream<Plain&>> tls_;
  std::chrono::steady_clock::time_point connect_by_ = {};
  std::vector<Generic::endpoint> endpoints_;
  std::size_t next_endpoint_ = 0;
  bool connected_ = false;
  bool timed_out_ = false;
  bool writing_ = false;
  bool broken_output_ = false;
  std::string_view output_;
};

}  // namespace sluice::redis

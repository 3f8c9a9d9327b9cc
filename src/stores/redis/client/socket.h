#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.h"
#include "stores/redis/client/asio_timer.h"
#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/target.h"

namespace sluice::redis {

// A TCP or Unix socket, with or without TLS. connect() looks the name up and tries its addresses in
// turn, then makes the TLS handshake.
class Socket final : public Transport, public std::enable_shared_from_this<Socket> {
 public:
  Socket(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
         const ServerAddress& address, User& user, const Clock& clock);

  void connect(std::chrono::milliseconds timeout) override;
  void flush() override;
  void close() noexcept override;

 private:
  using Error = boost::system::error_code;
  using Generic = boost::asio::generic::stream_protocol;
  using Plain = boost::asio::basic_stream_socket<Generic, boost::asio::io_context::executor_type>;
  using Resolver =
      boost::asio::ip::basic_resolver<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

  Time now() const noexcept { return Time(clock_.now().time_since_epoch()); }
  bool find_endpoints();  // false: the name must be looked up
  void look_up();
  void try_next();
  void on_attempt(const Error& error);
  void limit_attempt(std::size_t attempts_left);
  void end_attempt();
  void set_options();
  void begin_tls();
  void connected();
  void read();
  void on_readable(const Error& error);
  void on_read(const Error& error, std::size_t bytes);
  void write_next();
  void write_some();
  void on_written(const Error& error, std::size_t bytes);
  void fail(const std::string& why);
  std::string why_lost(const Error& error) const;

  std::shared_ptr<const Target> target_;
  ServerAddress address_;
  User* user_;  // null: closed
  const Clock& clock_;
  Plain plain_;
  Resolver resolver_;
  AsioTimer timer_;
  std::optional<boost::asio::ssl::stream<Plain&>> tls_;
  Time connect_by_ = {};
  std::vector<Generic::endpoint> endpoints_;
  std::size_t next_endpoint_ = 0;
  bool connected_ = false;
  bool timed_out_ = false;
  bool flush_is_coming_ = false;
  bool writing_ = false;      // stays true after a failed write
  bool flush_again_ = false;  // after the write that is under way
  std::string buffer_;
  std::string_view output_;  // the rest of buffer_ that has not been accepted
};

}  // namespace sluice::redis

// An event loop on Boost.Asio: its timers, and connections over TCP, Unix sockets and TLS.

#include "stores/redis/client/event_loop.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/client_tls.h"
#include "base/lookups.h"
#include "stores/redis/client/link.h"
#include "stores/redis/client/target.h"

namespace sluice::redis {

// A timer of Boost.Asio that keeps Timer's promise: Asio may run a handler that was already queued
// when its timer is set, stopped or destroyed.
class AsioTimer final : public Timer {
 public:
  AsioTimer(boost::asio::io_context& loop, std::function<void()> on_time)
      : state_(std::make_shared<State>(loop, std::move(on_time))) {}
  ~AsioTimer() override { stop(); }
  AsioTimer(const AsioTimer&) = delete;
  AsioTimer& operator=(const AsioTimer&) = delete;

  // Asio declares that these functions may throw; only the allocation of a handler can fail.
  void set(Time at) noexcept override {  // NOLINT(bugprone-exception-escape)
    state_->timer.expires_at(at);
    state_->timer.async_wait([state = state_, number = ++state_->number](const auto& error) {
      if (!error && number == state->number) state->on_time();
    });
  }
  void stop() noexcept override {  // NOLINT(bugprone-exception-escape)
    ++state_->number;
    state_->timer.cancel();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    State(boost::asio::io_context& loop, std::function<void()> function)
        : timer(loop), on_time(std::move(function)) {}
    boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>,
                                      boost::asio::io_context::executor_type>
        timer;
    std::function<void()> on_time;
    std::uint64_t number = 0;  // of the last set() or stop()
  };
  std::shared_ptr<State> state_;  // shared with the handlers that are under way
};

// A TCP or Unix socket, with or without TLS. connect() looks the name up and tries its addresses in
// turn, then makes the TLS handshake.
class Socket final : public Transport, public std::enable_shared_from_this<Socket> {
 public:
  Socket(boost::asio::io_context& loop, base::Lookups& lookups,
         std::shared_ptr<const Target> target, const ServerAddress& address, Link& link);

  void connect(std::chrono::milliseconds timeout) override;
  void flush() override;
  void close() noexcept override;

 private:
  using Error = boost::system::error_code;
  using Generic = boost::asio::generic::stream_protocol;
  using Plain = boost::asio::basic_stream_socket<Generic, boost::asio::io_context::executor_type>;

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
  Link* link_;  // null: closed
  Plain plain_;
  base::Lookups& lookups_;
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

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// A peer that vanished is noticed on an idle connection after 15 + 3 * 5 seconds.
constexpr int kKeepaliveIdle = 15;
constexpr int kKeepaliveInterval = 5;
constexpr int kKeepaliveProbes = 3;

using KeepIdle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
using KeepInterval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
using KeepProbes = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;

}  // namespace

Socket::Socket(asio::io_context& loop, base::Lookups& lookups, std::shared_ptr<const Target> target,
               const ServerAddress& address, Link& link)
    : target_(std::move(target)),
      address_(address),
      link_(&link),
      plain_(loop),
      lookups_(lookups),
      timer_(loop, [this] { end_attempt(); }) {}

void Socket::connect(std::chrono::milliseconds timeout) {
  connect_by_ = Time::clock::now() + timeout;
  if (find_endpoints()) {
    asio::post(plain_.get_executor(), [self = shared_from_this()] { self->try_next(); });
  } else {
    look_up();
  }
}

bool Socket::find_endpoints() {
  if (address_.host.starts_with('/')) {
    endpoints_.emplace_back(asio::local::stream_protocol::endpoint(address_.host));
    return true;
  }
  Error error;
  const auto address = asio::ip::make_address(address_.host, error);
  if (!error) endpoints_.emplace_back(tcp::endpoint(address, address_.port));
  return !error;
}

void Socket::look_up() {
  limit_attempt(1);
  lookups_.find(
      address_.host, std::to_string(address_.port),
      [self = shared_from_this()](const Error& error, const base::Lookups::Endpoints& found) {
        if (self->link_ == nullptr) return;
        if (error) return self->fail("the name cannot be looked up: " + error.message());
        self->endpoints_.assign(found.begin(), found.end());
        self->try_next();
      });
}

// Each address has an equal share of the time that is left.
void Socket::limit_attempt(std::size_t attempts_left) {
  const Time start = Time::clock::now();
  const auto left = std::max(connect_by_ - start, Time::duration::zero());
  timed_out_ = false;
  timer_.set(start + left / static_cast<int>(attempts_left));
}

void Socket::end_attempt() {
  timed_out_ = true;
  Error ignored;
  plain_.close(ignored);
  if (endpoints_.empty()) fail("the name cannot be looked up in time");
}

void Socket::try_next() {
  if (link_ == nullptr) return;
  Error error;
  const auto& endpoint = endpoints_[next_endpoint_];
  limit_attempt(endpoints_.size() - next_endpoint_);
  ++next_endpoint_;
  plain_.close(error);
  plain_.open(endpoint.protocol(), error);
  if (error) return on_attempt(error);
  plain_.async_connect(
      endpoint, [self = shared_from_this()](const Error& result) { self->on_attempt(result); });
}

void Socket::on_attempt(const Error& error) {
  if (link_ == nullptr) return;
  if (error || timed_out_) {
    if (next_endpoint_ < endpoints_.size()) return try_next();
    return fail(timed_out_ ? "no connection in time" : error.message());
  }
  set_options();
  if (target_->tls != nullptr) return begin_tls();
  connected();
}

void Socket::set_options() {
  Error ignored;
  plain_.non_blocking(true, ignored);
  if (address_.host.starts_with('/')) return;
  plain_.set_option(tcp::no_delay(true), ignored);
  plain_.set_option(asio::socket_base::keep_alive(true), ignored);
  plain_.set_option(KeepIdle(kKeepaliveIdle), ignored);
  plain_.set_option(KeepInterval(kKeepaliveInterval), ignored);
  plain_.set_option(KeepProbes(kKeepaliveProbes), ignored);
}

void Socket::begin_tls() {
  const RedisOptions& options = target_->options;
  tls_.emplace(plain_, *target_->tls);
  const std::string& name =
      options.tls_server_name.empty() ? address_.host : options.tls_server_name;
  if (!base::expect_server(*tls_->native_handle(), name, options.tls_verify)) {
    return fail("TLS: the name cannot be verified: " + name);
  }
  limit_attempt(1);
  tls_->async_handshake(
      asio::ssl::stream_base::client, [self = shared_from_this()](const Error& error) {
        if (self->link_ == nullptr) return;
        if (!error) return self->connected();
        self->fail(self->timed_out_ ? "TLS: no handshake in time"
                                    : base::why_tls_failed(*self->tls_->native_handle(), error));
      });
}

void Socket::connected() {
  connected_ = true;
  timer_.stop();
  link_->on_connected();
  if (link_ != nullptr) read();
}

void Socket::close() noexcept {
  if (link_ == nullptr) return;
  link_ = nullptr;
  try {
    Error ignored;
    timer_.stop();
    plain_.close(ignored);
  } catch (...) {  // NOLINT(bugprone-empty-catch): says that it may throw, and does not
  }
}

void Socket::fail(const std::string& why) {
  Link* const link = link_;
  close();
  link->on_closed(why);
}

std::string Socket::why_lost(const Error& error) const {
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated ||
      error == asio::error::connection_reset) {
    return "the server closed the connection";
  }
  return error.message();
}

void Socket::read() {
  auto self = shared_from_this();
  if (tls_) {
    const std::span<char> room = link_->room();
    tls_->async_read_some(
        asio::buffer(room.data(), room.size()),
        [self, kept = link_->shared_from_this()](const Error& error, std::size_t bytes) {
          self->on_read(error, bytes);
        });
  } else {
    // Waits first: the server has not answered yet, so that an immediate read would find nothing.
    plain_.async_wait(Plain::wait_read, [self](const Error& error) { self->on_readable(error); });
  }
}

void Socket::on_readable(const Error& error) {
  if (link_ == nullptr) return;
  if (error) return fail(why_lost(error));
  const std::span<char> room = link_->room();
  Error result;
  const std::size_t bytes = plain_.read_some(asio::buffer(room.data(), room.size()), result);
  if (result == asio::error::would_block) return read();
  on_read(result, bytes);
}

void Socket::on_read(const Error& error, std::size_t bytes) {
  if (link_ == nullptr) return;
  if (error) return fail(why_lost(error));
  link_->on_input(bytes);
  if (link_ != nullptr) read();
}

void Socket::flush() {
  flush_again_ = writing_;
  if (flush_is_coming_ || writing_ || !connected_) return;
  flush_is_coming_ = true;
  asio::defer(plain_.get_executor(), [self = shared_from_this()] {
    self->flush_is_coming_ = false;
    self->write_next();
  });
}

void Socket::write_next() {
  if (link_ == nullptr) return;
  link_->take_output(buffer_);
  output_ = buffer_;
  writing_ = !output_.empty();
  if (writing_) write_some();
}

void Socket::write_some() {
  auto self = shared_from_this();
  if (tls_) {
    // Counts as accepted as a whole: TLS does not say how much of it has left.
    link_->on_output(output_.size());
    asio::async_write(
        *tls_, asio::buffer(output_.data(), output_.size()),
        [self, kept = link_->shared_from_this()](const Error& error, std::size_t bytes) {
          self->on_written(error, bytes);
        });
    return;
  }
  Error error;
  const std::size_t bytes = plain_.write_some(asio::buffer(output_.data(), output_.size()), error);
  if (error != asio::error::would_block) return on_written(error, bytes);
  plain_.async_wait(Plain::wait_write, [self](const Error& result) {
    if (self->link_ == nullptr) return;
    if (result) return self->on_written(result, 0);
    self->write_some();
  });
}

void Socket::on_written(const Error& error, std::size_t bytes) {
  if (link_ == nullptr) return;
  // Reading finds the reason: a server that refuses a connection says so, then closes it.
  if (error) return;
  output_.remove_prefix(bytes);
  writing_ = !output_.empty();
  link_->on_output(tls_ ? 0 : bytes);
  if (link_ == nullptr) return;
  if (writing_) return write_some();
  if (flush_again_) flush();
}

namespace {

class AsioEventLoop final : public EventLoop {
 public:
  AsioEventLoop(boost::asio::io_context& loop, std::shared_ptr<const Target> target)
      : loop_(loop), lookups_(loop), target_(std::move(target)), random_(std::random_device()()) {}

  Time now() const noexcept override { return Time::clock::now(); }
  std::uint64_t random() noexcept override { return random_(); }
  std::unique_ptr<Timer> make_timer(std::function<void()> on_time) override {
    return std::make_unique<AsioTimer>(loop_, std::move(on_time));
  }
  std::shared_ptr<Transport> make_transport(const ServerAddress& address, Link& link) override {
    return std::make_shared<Socket>(loop_, lookups_, target_, address, link);
  }

 private:
  boost::asio::io_context& loop_;
  base::Lookups lookups_;
  std::shared_ptr<const Target> target_;
  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<EventLoop> make_asio_event_loop(boost::asio::io_context& loop,
                                                std::shared_ptr<const Target> target) {
  return std::make_unique<AsioEventLoop>(loop, std::move(target));
}

}  // namespace sluice::redis

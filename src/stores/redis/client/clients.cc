// Clients of one Redis server, and of the master that Sentinels name. Both keep one link and a
// queue of commands that wait for it. A Sentinel's client asks the Sentinels in turn for the
// address, checks the role of the server that it finds, and asks again when the link is lost.

#include "stores/redis/client/clients.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <array>
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
#include <charconv>
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

#include "base/quoted.h"
#include "sluice/clock.h"
#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/target.h"
#include "stores/redis/client/tls.h"

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

Socket::Socket(asio::io_context& loop, std::shared_ptr<const Target> target,
               const ServerAddress& address, User& user, const Clock& clock)
    : target_(std::move(target)),
      address_(address),
      user_(&user),
      clock_(clock),
      plain_(loop),
      resolver_(loop),
      timer_(loop, [this] { end_attempt(); }) {}

void Socket::connect(std::chrono::milliseconds timeout) {
  connect_by_ = now() + timeout;
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
  resolver_.async_resolve(
      address_.host, std::to_string(address_.port), tcp::resolver::numeric_service,
      [self = shared_from_this()](const Error& error, const Resolver::results_type& results) {
        if (self->user_ == nullptr) return;
        if (error) return self->fail("the name cannot be looked up: " + error.message());
        for (const auto& result : results) self->endpoints_.emplace_back(result.endpoint());
        self->try_next();
      });
}

// Each address has an equal share of the time that is left.
void Socket::limit_attempt(std::size_t attempts_left) {
  const Time start = now();
  const auto left = std::max(connect_by_ - start, Time::duration::zero());
  timed_out_ = false;
  timer_.set(start + left / static_cast<int>(attempts_left));
}

void Socket::end_attempt() {
  timed_out_ = true;
  Error ignored;
  resolver_.cancel();
  plain_.close(ignored);
  if (endpoints_.empty()) fail("the name cannot be looked up in time");
}

void Socket::try_next() {
  if (user_ == nullptr) return;
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
  if (user_ == nullptr) return;
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
  if (!expect_server(*tls_->native_handle(), name, options.tls_verify)) {
    return fail("TLS: the name cannot be verified: " + name);
  }
  limit_attempt(1);
  tls_->async_handshake(
      asio::ssl::stream_base::client, [self = shared_from_this()](const Error& error) {
        if (self->user_ == nullptr) return;
        if (!error) return self->connected();
        self->fail(self->timed_out_ ? "TLS: no handshake in time"
                                    : why_tls_failed(*self->tls_->native_handle(), error));
      });
}

void Socket::connected() {
  connected_ = true;
  timer_.stop();
  user_->on_connected();
  if (user_ != nullptr) read();
}

void Socket::close() noexcept {
  if (user_ == nullptr) return;
  user_ = nullptr;
  try {
    Error ignored;
    timer_.stop();
    resolver_.cancel();
    plain_.close(ignored);
  } catch (...) {  // NOLINT(bugprone-empty-catch): says that it may throw, and does not
  }
}

void Socket::fail(const std::string& why) {
  User* const user = user_;
  close();
  user->on_closed(why);
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
    const std::span<char> room = user_->room();
    tls_->async_read_some(
        asio::buffer(room.data(), room.size()),
        [self, kept = user_->shared_from_this()](const Error& error, std::size_t bytes) {
          self->on_read(error, bytes);
        });
  } else {
    // Waits first: the server has not answered yet, so that an immediate read would find nothing.
    plain_.async_wait(Plain::wait_read, [self](const Error& error) { self->on_readable(error); });
  }
}

void Socket::on_readable(const Error& error) {
  if (user_ == nullptr) return;
  if (error) return fail(why_lost(error));
  const std::span<char> room = user_->room();
  Error result;
  const std::size_t bytes = plain_.read_some(asio::buffer(room.data(), room.size()), result);
  if (result == asio::error::would_block) return read();
  on_read(result, bytes);
}

void Socket::on_read(const Error& error, std::size_t bytes) {
  if (user_ == nullptr) return;
  if (error) return fail(why_lost(error));
  user_->on_input(bytes);
  if (user_ != nullptr) read();
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
  if (user_ == nullptr) return;
  user_->take_output(buffer_);
  output_ = buffer_;
  writing_ = !output_.empty();
  if (writing_) write_some();
}

void Socket::write_some() {
  auto self = shared_from_this();
  if (tls_) {
    // Counts as accepted as a whole: TLS does not say how much of it has left.
    user_->on_output(output_.size());
    asio::async_write(
        *tls_, asio::buffer(output_.data(), output_.size()),
        [self, kept = user_->shared_from_this()](const Error& error, std::size_t bytes) {
          self->on_written(error, bytes);
        });
    return;
  }
  Error error;
  const std::size_t bytes = plain_.write_some(asio::buffer(output_.data(), output_.size()), error);
  if (error != asio::error::would_block) return on_written(error, bytes);
  plain_.async_wait(Plain::wait_write, [self](const Error& result) {
    if (self->user_ == nullptr) return;
    if (result) return self->on_written(result, 0);
    self->write_some();
  });
}

void Socket::on_written(const Error& error, std::size_t bytes) {
  if (user_ == nullptr) return;
  // Reading finds the reason: a server that refuses a connection says so, then closes it.
  if (error) return;
  output_.remove_prefix(bytes);
  writing_ = !output_.empty();
  user_->on_output(tls_ ? 0 : bytes);
  if (user_ == nullptr) return;
  if (writing_) return write_some();
  if (flush_again_) flush();
}

namespace {

class AsioEventLoop final : public EventLoop {
 public:
  AsioEventLoop(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
                const Clock& clock)
      : loop_(loop), target_(std::move(target)), clock_(clock), random_(std::random_device()()) {}

  Time now() const noexcept override { return Time(clock_.now().time_since_epoch()); }
  std::uint64_t random() noexcept override { return random_(); }
  std::unique_ptr<Timer> make_timer(std::function<void()> on_time) override {
    return std::make_unique<AsioTimer>(loop_, std::move(on_time));
  }
  std::shared_ptr<Transport> make_transport(const ServerAddress& address,
                                            Transport::User& user) override {
    return std::make_shared<Socket>(loop_, target_, address, user, clock_);
  }

 private:
  boost::asio::io_context& loop_;
  std::shared_ptr<const Target> target_;
  const Clock& clock_;
  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<EventLoop> make_asio_event_loop(boost::asio::io_context& loop,
                                                std::shared_ptr<const Target> target,
                                                const Clock& clock) {
  return std::make_unique<AsioEventLoop>(loop, std::move(target), clock);
}

namespace {

constexpr std::size_t kMost = 64;

std::optional<ServerAddress> address_of(std::string_view host, std::string_view port) {
  ServerAddress out{.host = std::string(host), .port = 0};
  const auto result = std::from_chars(port.data(), port.data() + port.size(), out.port);
  const bool whole = result.ec == std::errc{} && result.ptr == port.data() + port.size();
  // A path would mean a Unix socket.
  if (!whole || out.port == 0 || host.empty() || host.starts_with('/')) return {};
  return out;
}

// One entry of SENTINEL SENTINELS: a list of names and values.
std::optional<ServerAddress> sentinel_of(const Reply& fields) {
  return address_of(fields.field("ip"), fields.field("port"));
}

}  // namespace

Sentinels::Sentinels(std::vector<ServerAddress> seeds, std::string master)
    : all_(std::move(seeds)), seeds_(all_.size()), master_(std::move(master)) {}

void Sentinels::begin() {
  asked_ = 0;
  why_.clear();
}

const ServerAddress* Sentinels::to_ask() const noexcept {
  return asked_ < all_.size() ? &all_[next_] : nullptr;
}

void Sentinels::on_failed(std::string_view why) {
  if (!why_.empty()) why_.append("; ");
  why_.append("Sentinel ").append(all_[next_].to_string()).append(": ").append(why);
  next_ = (next_ + 1) % all_.size();
  ++asked_;
}

std::optional<ServerAddress> Sentinels::on_master(const Reply& reply) {
  if (reply.type == Reply::kNil) {
    on_failed("it knows no master " + base::in_quotes(master_));
    return {};
  }
  std::optional<ServerAddress> out;
  if (reply.type == Reply::kArray && reply.count == 2) {
    out = address_of(reply[0].string(), reply[1].string());
  }
  if (!out) on_failed("its answer is not an address");
  return out;
}

void Sentinels::on_others(const Reply& reply) {
  if (reply.type != Reply::kArray) return;
  const ServerAddress asked = all_[next_];
  all_.resize(seeds_);
  const auto learn = [this](const ServerAddress& one) {
    const bool known = std::find(all_.begin(), all_.end(), one) != all_.end();
    if (!known && all_.size() < std::max(kMost, seeds_ + 1)) all_.push_back(one);
  };
  learn(asked);  // it does not report itself
  for (const Reply& fields : reply) {
    if (const auto one = sentinel_of(fields)) learn(*one);
  }
  const auto at = std::find(all_.begin(), all_.end(), asked);
  next_ = static_cast<std::size_t>(at - all_.begin());
}

namespace {

// Errors after which this connection, or this server, is of no use any more.
constexpr std::array<std::string_view, 4> kLeaving = {"READONLY", "MASTERDOWN", "NOAUTH",
                                                      "WRONGPASS"};

bool says_leave(std::string_view error) noexcept {
  return std::any_of(kLeaving.begin(), kLeaving.end(),
                     [error](std::string_view one) { return error.starts_with(one); });
}

}  // namespace

MasterClient::MasterClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                           StoreObserver* observer)
    : LinkOwner(std::move(loop), std::move(target), observer),
      reconnect_(target_->options.first_backoff, target_->options.longest_backoff),
      retry_timer_(loop_->make_timer([this] {
        if (link_ == nullptr) find_server();
      })),
      waiting_timer_(loop_->make_timer([this] { expire_waiting(); })),
      retired_timer_(loop_->make_timer([this] { retired_.reset(); })),
      leave_timer_(loop_->make_timer([this] { leave(); })) {
  retry_timer_->set(loop_->now());
}

MasterClient::~MasterClient() {
  hopeful_ = false;
  // Commands may be submitted again when they end: they find no link and are refused.
  const auto link = std::move(link_);
  const auto retired = std::move(retired_);
  end_waiting("the client is closed");
}

// --- commands -------------------------------------------------------------------------------

void MasterClient::submit(Command& command) noexcept {
  const Time now = loop_->now();
  command.deadline = now + target_->options.deadline;
  if (link_ != nullptr && (hopeful_ || link_->ready()) && !leaving_) {
    return link_->submit(command, now);
  }
  if (link_ == nullptr && hopeful_) return keep_waiting(command);
  refuse(command, why_);
}

void MasterClient::keep_waiting(Command& command) noexcept {
  if (waiting_.size() >= target_->options.max_pending) {
    return refuse(command, "too many requests are pending");
  }
  LinkCounters::add(counters_.pending, 1);
  waiting_.push_back(&command);
  if (waiting_.size() == 1) waiting_timer_->set(command.deadline);
}

Command& MasterClient::take_waiting() noexcept {
  LinkCounters::add(counters_.pending, ~std::size_t{0});
  return *waiting_.pop_front();
}

void MasterClient::expire_waiting() {
  const Time now = loop_->now();
  while (!waiting_.empty() && waiting_.front()->deadline <= now) {
    refuse(take_waiting(), "no connection by the deadline");
  }
  if (!waiting_.empty()) waiting_timer_->set(waiting_.front()->deadline);
}

void MasterClient::end_waiting(std::string_view why) noexcept {
  for (std::size_t left = waiting_.size(); left > 0; --left) refuse(take_waiting(), why);
}

// --- the link -------------------------------------------------------------------------------

void MasterClient::find_server() { switch_to(target_->servers.front(), false); }

void MasterClient::switch_to(const ServerAddress& address, bool hopeful) {
  retire_link();
  retry_timer_->stop();
  hopeful_ = hopeful_ || hopeful;
  reconnect_.connecting();
  link_ = Link::connect(*this, address, link_options(*target_), counters_);
  waiting_timer_->stop();
  while (!waiting_.empty()) link_->submit(take_waiting(), loop_->now());
}

void MasterClient::attempt_failed(std::string_view endpoint, std::string_view why) {
  hopeful_ = false;
  set_why(endpoint, why);
  emit(StoreEventKind::kConnectFailed, endpoint, why);
  end_waiting(why_);
  reconnect_.ended(loop_->now(), loop_->random());
  retry_timer_->set(reconnect_.due());
}

void MasterClient::retire_link() {
  leaving_ = false;
  if (link_ == nullptr) return;
  auto link = std::exchange(link_, nullptr);
  if (!link->ready()) return;  // nothing was sent
  retired_ = std::move(link);
  retired_timer_->set(loop_->now() + 2 * target_->options.deadline);
}

void MasterClient::on_ready(Link& link) {
  reconnect_.ready(loop_->now());
  hopeful_ = true;
  why_.clear();
  emit(StoreEventKind::kConnected, link.address().to_string(), {});
}

void MasterClient::on_ended(Link& link, std::string_view why, bool was_ready) {
  if (&link == retired_.get()) return retired_.reset();
  const std::string endpoint = link.address().to_string();
  link_.reset();
  if (!was_ready) return attempt_failed(endpoint, why);
  lost(endpoint, why);
}

void MasterClient::lost(std::string_view endpoint, std::string_view why) {
  leaving_ = false;
  set_why(endpoint, why);
  reconnect_.ended(loop_->now(), loop_->random());
  hopeful_ = !reconnect_.is_failing();
  emit(StoreEventKind::kConnectionLost, endpoint, why);
  retry_timer_->set(reconnect_.due());
}

bool MasterClient::on_error(Link& link, Command&, std::string_view error) {
  emit(StoreEventKind::kRequestFailed, link.address().to_string(), shown(error));
  if (&link != link_.get() || leaving_ || !says_leave(error)) return false;
  leaving_ = true;
  leaving_why_ = shown(error);
  set_why(link.address().to_string(), leaving_why_);
  leave_timer_->set(loop_->now());  // the answers that came with this one are given first
  return false;
}

void MasterClient::leave() {
  if (!leaving_) return;  // the link has ended meanwhile
  const std::string endpoint = link_->address().to_string();
  retire_link();
  lost(endpoint, leaving_why_);
}

void MasterClient::set_why(std::string_view endpoint, std::string_view why) {
  why_.assign(endpoint).append(": ").append(why);
}

std::unique_ptr<Client> make_standalone_client(std::unique_ptr<EventLoop> loop,
                                               std::shared_ptr<const Target> target,
                                               StoreObserver* observer) {
  return std::make_unique<MasterClient>(std::move(loop), std::move(target), observer);
}

namespace {

// How often the client asks a Sentinel whether the master has changed.
constexpr std::chrono::seconds kPoll{1};

// A master client that asks Sentinels for the master's address, before it connects and once a
// second.
class SentinelClient final : public MasterClient {
 public:
  SentinelClient(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
                 StoreObserver* observer)
      : MasterClient(std::move(loop), std::move(target), observer),
        sentinels_(target_->servers, target_->master),
        poll_timer_(loop_->make_timer([this] { poll(); })),
        pass_on_timer_(loop_->make_timer([this] { pass_on(); })) {
    for (const std::string_view word : {"SENTINEL", "SENTINELS"}) others_request_.append(word);
    for (const std::string_view word : {"SENTINEL", "GET-MASTER-ADDR-BY-NAME"}) {
      master_request_.append(word);
    }
    others_request_.append(target_->master);
    master_request_.append(target_->master);
  }
  ~SentinelClient() override {
    giving_up_ = true;  // ignores the answers to the requests that end now
    sentinel_.reset();
  }

 private:
  void find_server() override;
  // Of the link to the master, or to a Sentinel.
  void on_ready(Link& link) override;
  bool on_error(Link& link, Command& command, std::string_view error) override;
  void on_ended(Link& link, std::string_view why, bool was_ready) override;
  void ask();
  void on_others(const Answer& answer);
  void on_master(const Answer& answer);
  void on_found(const ServerAddress& address);
  // Drops this Sentinel. pass_on() then asks another one.
  void give_up(std::string_view why);
  void pass_on();
  void poll_soon();
  void poll();

  Sentinels sentinels_;
  AskCommand others_request_{[this](const Answer& answer) { on_others(answer); }};
  AskCommand master_request_{[this](const Answer& answer) { on_master(answer); }};
  LinkCounters sentinel_counters_;
  std::shared_ptr<Link> sentinel_;
  std::optional<ServerAddress> master_;
  std::unique_ptr<Timer> poll_timer_;
  std::unique_ptr<Timer> pass_on_timer_;
  bool searching_ = false;  // find_server() has no result yet
  bool asked_ = false;      // the requests are under way
  bool giving_up_ = false;  // pass_on() is scheduled
};

void SentinelClient::find_server() {
  searching_ = true;
  sentinels_.begin();
  ask();
}

void SentinelClient::ask() {
  if (asked_ || giving_up_) return;  // a request is under way
  const ServerAddress* const address = sentinels_.to_ask();
  if (address == nullptr) {
    if (!std::exchange(searching_, false)) return poll_soon();
    return attempt_failed(target_->shown, sentinels_.why());
  }
  const RedisOptions& options = target_->options;
  if (sentinel_ == nullptr) {
    LinkOptions link = link_options(*target_);
    link.username = options.sentinel_username;
    link.password = options.sentinel_password;
    link.database = 0;
    link.only_master = false;
    sentinel_ = Link::connect(*this, *address, std::move(link), sentinel_counters_);
  }
  asked_ = true;
  const Time now = loop_->now();
  master_request_.deadline = now + std::max(options.connect_timeout, options.deadline);
  others_request_.deadline = master_request_.deadline;
  sentinel_->submit(others_request_, now);  // first, so that it ends first
  sentinel_->submit(master_request_, now);
}

void SentinelClient::on_others(const Answer& answer) {
  if (!giving_up_ && answer.failure == Failure::kNone) sentinels_.on_others(*answer.reply);
}

void SentinelClient::on_master(const Answer& answer) {
  asked_ = false;
  if (giving_up_) return;
  if (answer.failure != Failure::kNone) return give_up(answer.text);
  if (const auto address = sentinels_.on_master(*answer.reply)) return on_found(*address);
  giving_up_ = true;
  pass_on_timer_->set(loop_->now());
}

void SentinelClient::on_found(const ServerAddress& address) {
  poll_soon();
  const bool changed = master_ && *master_ != address;
  const bool searching = std::exchange(searching_, false);
  master_ = address;
  if (changed)
    emit(StoreEventKind::kTopologyChanged, address.to_string(), "reported by the Sentinels");
  if (searching || changed) switch_to(address, changed);
}

void SentinelClient::give_up(std::string_view why) {
  if (giving_up_) return;
  sentinels_.on_failed(why);
  giving_up_ = true;
  pass_on_timer_->set(loop_->now());
}

void SentinelClient::pass_on() {
  sentinel_.reset();  // ends its requests while giving_up_ is set
  giving_up_ = false;
  if (searching_) return ask();
  poll_soon();
}

void SentinelClient::on_ready(Link& link) {
  if (&link != sentinel_.get()) MasterClient::on_ready(link);
}

bool SentinelClient::on_error(Link& link, Command& command, std::string_view error) {
  return &link != sentinel_.get() && MasterClient::on_error(link, command, error);
}

// If the server that a Sentinel has named cannot be used, for instance because it is no master,
// another Sentinel may name a better one.
void SentinelClient::on_ended(Link& link, std::string_view why, bool was_ready) {
  if (&link == sentinel_.get()) return give_up(why);
  const bool is_unusable = !was_ready && &link == this->link();
  if (is_unusable) give_up("it names a master that cannot be used");
  MasterClient::on_ended(link, why, was_ready);
}

void SentinelClient::poll_soon() { poll_timer_->set(loop_->now() + kPoll); }

void SentinelClient::poll() {
  if (searching_) return;
  sentinels_.begin();
  ask();
}

}  // namespace

std::unique_ptr<Client> make_sentinel_client(std::unique_ptr<EventLoop> loop,
                                             std::shared_ptr<const Target> target,
                                             StoreObserver* observer) {
  return std::make_unique<SentinelClient>(std::move(loop), std::move(target), observer);
}

}  // namespace sluice::redis

// gRPC over HTTP/2. nghttp2 does HTTP/2; for unary calls gRPC adds a prefix of five bytes, two
// header fields and the trailers, which are here. grpc++ has threads and event loops of its own and
// takes several times the processor time (`./dev bench --only front_ends`). The messages of a
// request are on an arena of its loop.
#include "server/protocol/grpc/connection.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "server/net/connection.h"

namespace sluice::server::grpc {
namespace {

// The most bytes of output that are made before they are sent. At most one frame more is kept for a
// client that does not read.
constexpr std::size_t kMostAtOnce = std::size_t{64} << 10;
// The time between the notice of the end and the last accepted call.
constexpr auto kNotice = std::chrono::milliseconds(500);
// How long a client with open calls may stay silent after a PING.
constexpr auto kSignOfLife = std::chrono::seconds(20);

}  // namespace

ConnectionState::ConnectionState(std::string peer, SharedState& shared,
                                 std::function<void()> has_output, SteadyTime now,
                                 Role certificate_role)
    : shared_(shared),
      peer_(std::move(peer)),
      protocol_(shared, peer_, std::move(has_output), certificate_role),
      started_(now),
      heard_(now),
      worked_(now),
      progress_(now) {}

ConnectionState::Action ConnectionState::on_input(std::string_view bytes) {
  if (lingers()) {
    lingered_ += bytes.size();
    return lingered_ > net::kLingerBytes ? Action::kClose : Action::kReceive;
  }
  pinged_ = false;
  protocol_.take(bytes, heard_);
  return Action::kSend;
}

ConnectionState::Action ConnectionState::on_output() const {
  if (lingers()) return Action::kReceive;
  return waits_for_room_ ? Action::kWaitToSend : Action::kSend;
}

std::string_view ConnectionState::output() {
  std::string& out = shared_.output;
  out.clear();
  if (!unsent_.empty()) out.append(std::exchange(unsent_, {}));
  protocol_.write(out, kMostAtOnce);
  return out;
}

ConnectionState::Action ConnectionState::on_sent(std::size_t size) {
  const std::string& out = shared_.output;
  if (size < out.size()) {
    progress_ = shared_.clock.now();
    unsent_.assign(out, size);
    waits_for_room_ = true;
    return Action::kWaitToSend;
  }
  if (!out.empty()) return Action::kSend;
  if (!protocol_.ended()) return Action::kReceive;
  phase_ = Phase::kLingering;
  ending_ = shared_.clock.now();
  return Action::kHalfClose;
}

ConnectionState::Action ConnectionState::on_room() {
  waits_for_room_ = false;
  return on_output();
}

ConnectionState::Action ConnectionState::on_tick(SteadyTime now) {
  if (expired(now)) return Action::kClose;
  if (!lingers()) {
    protocol_.tick(now);
    check_age(now);
  }
  return on_output();
}

// Returns whether the connection exceeded the timeout of its current phase.
bool ConnectionState::expired(SteadyTime now) {
  if (lingers()) return now - ending_ >= net::kLingerTime;
  const Bounds& bounds = shared_.bounds;
  const bool unread = waits_for_room_ && now - progress_ >= bounds.write_timeout;
  const bool silent = !protocol_.has_preface() && now - started_ >= bounds.header_timeout;
  if (unread || silent) shared_.recorder.add(metrics::Event::kTimedOut);
  const bool gone = pinged_ && now - heard_ >= bounds.idle_timeout + kSignOfLife;
  return unread || silent || gone;
}

// Ends a connection that is old or idle, and sends a PING if a client with open calls is silent.
void ConnectionState::check_age(SteadyTime now) {
  const Bounds& bounds = shared_.bounds;
  if (protocol_.busy() || protocol_.calls() != calls_) worked_ = now;
  calls_ = protocol_.calls();
  if (phase_ == Phase::kServing) {
    const std::size_t most = bounds.requests_per_connection;
    const bool old = shared_.max_age.count() > 0 && now - started_ >= shared_.max_age;
    if (old || now - worked_ >= bounds.idle_timeout || (most > 0 && calls_ >= most)) {
      return begin_end(now);
    }
    if (!pinged_ && protocol_.open_streams() > 0 && now - heard_ >= bounds.idle_timeout) {
      pinged_ = true;
      protocol_.ping();
    }
  } else if (phase_ == Phase::kNoticed && now - ending_ >= kNotice) {
    phase_ = Phase::kFinished;
    protocol_.finish();
  }
}

void ConnectionState::begin_end(SteadyTime now) {
  phase_ = Phase::kNoticed;
  ending_ = now;
  protocol_.notice();
}

ConnectionState::Action ConnectionState::on_drain(SteadyTime now) {
  if (phase_ == Phase::kServing) begin_end(now);
  return on_output();
}

namespace {

using boost::system::error_code;

// With TLS, a read returns one record. The other connections have their turn after this many.
constexpr int kMostRecords = 16;

bool would_block(const error_code& why) { return why == boost::asio::error::would_block; }

}  // namespace

std::unique_ptr<Connection> Connection::open(net::Accepted& accepted, Shared& shared,
                                             SteadyTime now, error_code& why) {
  Socket socket(accepted.loop);
  socket.assign({accepted.family, accepted.family == AF_UNIX ? 0 : IPPROTO_TCP},
                accepted.descriptor, why);
  if (why) {  // the loop has no room for it
    ::close(accepted.descriptor);
    return nullptr;
  }
  const Role role = role_of(accepted.certificate_names(), shared.role_of_certificate);
  std::unique_ptr<Connection> connection(
      new Connection(std::move(socket), accepted, role, shared, now));
  connection->wait_for_input();
  return connection;
}

Connection::Connection(Socket socket, net::Accepted& accepted, Role role, Shared& shared,
                       SteadyTime now)
    : socket_(std::move(socket)),
      transport_(accepted.descriptor, std::move(accepted.tls)),
      shared_(shared),
      state_(accepted.peer.text(), shared, [this] { has_output(); }, now, role) {}

void Connection::act(Action action) {
  switch (send_all(action)) {
    case Action::kHalfClose: transport_.finish(); [[fallthrough]];
    case Action::kSend:
    case Action::kReceive: return wait_for_input();
    case Action::kWaitToSend: return wait_for_room();
    case Action::kWait: return;
    case Action::kClose: return close();
  }
}

// Sends as long as the state asks for it. Returns the next action.
Connection::Action Connection::send_all(Action action) {
  while (action == Action::kSend) action = send();
  return action;
}

// Sends what the socket has room for.
Connection::Action Connection::send() {
  const std::string_view out = state_.output();
  std::size_t sent = 0;
  error_code why;
  while (sent < out.size() && !why) {
    sent += transport_.write(out.data() + sent, out.size() - sent, why);
  }
  return why && !would_block(why) ? Action::kClose : state_.on_sent(sent);
}

template <typename Then>
void Connection::wait(Socket::wait_type what, bool& waits, Then then) {
  if (std::exchange(waits, true)) return;
  socket_.async_wait(what, [this, &waits, then](const error_code& why) {
    waits = false;
    if (dead_) return report_end();
    if (why) return close();
    then();
  });
}

void Connection::wait_for_input() {
  wait(Socket::wait_read, reading_, [this] { read(); });
}

void Connection::wait_for_room() {
  wait(Socket::wait_write, writing_, [this] {
    const Action next = send_all(state_.on_room());
    if (next == Action::kReceive) return read();
    act(next);
  });
}

void Connection::read() {
  if (state_.waits_for_room()) return;
  state_.on_ready(shared_.clock.now());
  Action next = Action::kReceive;
  int reads = 0;
  do {
    error_code why;
    const std::size_t size = transport_.read(shared_.input.data(), shared_.input.size(), why);
    if (would_block(why)) break;
    if (why) return close();
    next = send_all(state_.on_input({shared_.input.data(), size}));
  } while (next == Action::kReceive && !state_.lingers() && ++reads < kMostRecords &&
           transport_.is_encrypted());
  act(next);
}

void Connection::has_output() {
  if (dead_ || std::exchange(flushing_, true)) return;
  shared_.to_flush.push_back(this);
  if (shared_.to_flush.size() > 1) return;
  boost::asio::post(shared_.loop, [&shared = shared_] { flush_all(shared); });
}

// Sends the replies that one turn of the loop made, together.
void Connection::flush_all(Shared& shared) {
  shared.flushing.swap(shared.to_flush);
  for (Connection* const connection : shared.flushing) connection->flush();
  shared.flushing.clear();
}

void Connection::flush() {
  flushing_ = false;
  if (dead_) return report_end();
  act(state_.on_output());
}

void Connection::tick(SteadyTime now) {
  if (!dead_) act(state_.on_tick(now));
}

void Connection::drain(SteadyTime now) {
  if (!dead_) act(state_.on_drain(now));
}

void Connection::close() {
  if (std::exchange(dead_, true)) return;
  error_code ignored;
  socket_.close(ignored);
  report_end();
}

// Reports the end of the connection when no event can arrive any more.
void Connection::report_end() {
  if (!reading_ && !writing_ && !flushing_) shared_.closed(*this);
}

}  // namespace sluice::server::grpc

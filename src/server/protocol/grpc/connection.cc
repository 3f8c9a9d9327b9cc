#include "server/protocol/grpc/connection.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace sluice::server::grpc {
namespace {

using boost::system::error_code;

// The most bytes of output that are made before they are sent. At most one frame more is kept for a
// client that does not read.
constexpr std::size_t kMostAtOnce = std::size_t{64} << 10;
// The time between the notice of the end and the last accepted call.
constexpr auto kNotice = std::chrono::milliseconds(500);
// How long a client with open calls may stay silent after a PING.
constexpr auto kSignOfLife = std::chrono::seconds(20);
// After the end, the connection reads and discards input for this long and this much, so that the
// client sees the reason and not a reset.
constexpr auto kLingerTime = std::chrono::seconds(2);
constexpr std::size_t kLingerBytes = std::size_t{16} << 20;

bool would_block(const error_code& why) { return why == boost::asio::error::would_block; }

}  // namespace

std::unique_ptr<Connection> Connection::open(const net::Accepted& accepted, Shared& shared,
                                             Owner& owner, SteadyTime now, error_code& why) {
  net::Wire::Socket socket(accepted.loop);
  socket.assign({accepted.family, accepted.family == AF_UNIX ? 0 : IPPROTO_TCP},
                accepted.descriptor, why);
  if (why) {  // the loop has no room for it
    ::close(accepted.descriptor);
    return nullptr;
  }
  std::unique_ptr<Connection> connection(
      new Connection(std::move(socket), accepted.peer.host(), shared, owner, now));
  connection->wait_for_input();
  return connection;
}

Connection::Connection(net::Wire::Socket socket, std::string peer, Shared& shared, Owner& owner,
                       SteadyTime now)
    : wire_(std::move(socket), shared.tls.get()),
      peer_(std::move(peer)),
      shared_(shared),
      owner_(owner),
      protocol_(shared, peer_, *this),
      started_(now),
      heard_(now),
      worked_(now),
      progress_(now) {}

template <typename Then>
void Connection::wait(net::Wire::Socket::wait_type what, bool& waits, Then then) {
  if (std::exchange(waits, true)) return;
  wire_.socket().async_wait(what, [this, &waits, then](const error_code& why) {
    waits = false;
    if (dead_) return let_go();
    if (why) return close();
    then();
  });
}

void Connection::wait_for_input() {
  wait(net::Wire::Socket::wait_read, reading_, [this] { read(); });
}

void Connection::wait_for_room() {
  wait(net::Wire::Socket::wait_write, writing_, [this] {
    flush();
    if (!dead_ && !writing_) read();
  });
}

void Connection::read() {
  if (lingering_) return discard();
  if (writing_) return;  // until the client reads what was sent
  heard_ = shared_.clock.now();
  error_code why;
  bool more = true;
  while (more && !dead_) {
    const std::size_t size = wire_.read(shared_.input.data(), shared_.input.size(), why);
    if (would_block(why)) break;
    if (why) return close();
    more = take(size);
  }
  if (dead_ || lingering_) return;
  if (wire_.read_waits_for_room()) return wait_for_room();
  if (!writing_) wait_for_input();
}

// Returns whether to read on at once.
bool Connection::take(std::size_t size) {
  pinged_ = false;
  protocol_.take({shared_.input.data(), size}, heard_);
  flush();
  return !writing_ && !lingering_ && wire_.may_have_more();
}

void Connection::discard() {
  error_code why;
  lingered_ += wire_.read(shared_.input.data(), shared_.input.size(), why);
  if ((why && !would_block(why)) || lingered_ > kLingerBytes) return close();
  wait_for_input();
}

void Connection::has_output() {
  if (std::exchange(flushing_, true)) return;
  shared_.to_flush.push_back(this);
  if (shared_.to_flush.size() > 1) return;
  boost::asio::post(shared_.loop, [&shared = shared_] { flush_all(shared); });
}

// Sends the replies that one turn of the loop made, together.
void Connection::flush_all(Shared& shared) {
  shared.flushing.swap(shared.to_flush);
  for (Connection* const connection : shared.flushing) connection->flush_now();
  shared.flushing.clear();
}

void Connection::flush_now() {
  flushing_ = false;
  if (dead_) return let_go();
  flush();
}

// Sends the output as far as the socket has room.
void Connection::flush() {
  if (dead_ || writing_ || lingering_) return;
  std::string& out = shared_.output;
  for (;;) {
    out.clear();
    if (!unsent_.empty()) out.append(std::exchange(unsent_, {}));
    protocol_.write(out, kMostAtOnce);
    if (out.empty()) break;
    const error_code why = send(out);
    if (would_block(why)) return wait_for_room();
    if (why) return close();
  }
  if (protocol_.ended()) linger();
}

error_code Connection::send(std::string& out) {
  std::size_t sent = 0;
  error_code why;
  while (sent < out.size() && !why) {
    sent += wire_.write(out.data() + sent, out.size() - sent, why);
  }
  if (would_block(why)) {
    progress_ = shared_.clock.now();
    unsent_.assign(out, sent);
  }
  return why;
}

void Connection::tick(SteadyTime now) {
  if (dead_) return;
  if (expired(now)) return close();
  if (lingering_) return;
  protocol_.tick(now);
  grow_old(now);
  flush();
}

// Returns whether the connection exceeded the timeout of its current phase.
bool Connection::expired(SteadyTime now) {
  if (lingering_) return now - ending_ >= kLingerTime;
  const bool stuck = writing_ && now - progress_ >= shared_.bounds.write_timeout;
  const bool mute = !protocol_.greeted() && now - started_ >= shared_.bounds.header_timeout;
  if (stuck || mute) shared_.recorder.add(metrics::Event::kTimedOut);
  const bool gone = pinged_ && now - heard_ >= shared_.bounds.idle_timeout + kSignOfLife;
  return stuck || mute || gone;
}

void Connection::grow_old(SteadyTime now) {
  const Bounds& bounds = shared_.bounds;
  if (protocol_.open_streams() > 0 || protocol_.calls() != calls_) worked_ = now;
  calls_ = protocol_.calls();
  if (end_ == End::kNot) {
    const std::size_t most = bounds.requests_per_connection;
    const bool old = shared_.ages.most.count() > 0 && now - started_ >= shared_.ages.most;
    if (old || now - worked_ >= bounds.idle_timeout || (most > 0 && calls_ >= most)) {
      return begin_end(now);
    }
    if (!pinged_ && protocol_.open_streams() > 0 && now - heard_ >= bounds.idle_timeout) {
      pinged_ = true;
      protocol_.ping();
    }
  } else if (end_ == End::kNoticed && now - ending_ >= kNotice) {
    end_ = End::kFinished;
    protocol_.finish();
  }
}

void Connection::begin_end(SteadyTime now) {
  end_ = End::kNoticed;
  ending_ = now;
  protocol_.notice();
}

void Connection::drain(SteadyTime now) {
  if (dead_ || lingering_ || end_ != End::kNot) return;
  begin_end(now);
  flush();
}

// Closes the sending half, and reads until the client has closed too.
void Connection::linger() {
  lingering_ = true;
  ending_ = shared_.clock.now();
  wire_.finish();
  wait_for_input();
}

void Connection::close() {
  if (std::exchange(dead_, true)) return;
  error_code ignored;
  wire_.socket().close(ignored);
  let_go();
}

// Reports the end of the connection when no event can arrive any more.
void Connection::let_go() {
  if (!reading_ && !writing_ && !flushing_) owner_.closed(*this);
}

}  // namespace sluice::server::grpc

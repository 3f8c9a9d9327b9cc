#include "server/protocol/grpc/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

namespace sluice::server::grpc {
namespace {

using boost::system::error_code;
using std::chrono::steady_clock;

constexpr std::size_t kInputBytes = std::size_t{64} << 10;
constexpr auto kTick = std::chrono::milliseconds(250);

}  // namespace

Listener::Listener(const Parts& parts, net::ListeningSocket socket)
    : parts_(parts),
      shared_{parts.bounds, parts.most_streams, parts.behind,
              parts.paths,  parts.recorder,     parts.serving},
      ticker_(parts.loop),
      acceptor_({parts.loop,
                 parts.recorder,
                 warning_writer(parts.log),
                 parts.connections,
                 parts.bounds.connections,
                 {}},
                std::move(socket), *this) {
  shared_.input.resize(kInputBytes);
}

Listener::~Listener() = default;

void Listener::accepted(int descriptor, const net::SocketAddress& peer) {
  const int family = acceptor_.family();
  if (family != AF_UNIX) {
    const int on = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  error_code why;
  net::Wire::Socket socket(parts_.loop);
  socket.assign({family, family == AF_UNIX ? 0 : IPPROTO_TCP}, descriptor, why);
  if (why) {  // the loop has no room for it
    ::close(descriptor);
    acceptor_.closed();
    return acceptor_.complain("a connection was dropped", why.value());
  }
  connections_.push_back(std::make_unique<Connection>(std::move(socket), parts_.tls.get(),
                                                      peer.host(), shared_, parts_.ages, *this));
  Connection& made = *connections_.back();
  made.place = connections_.size() - 1;
  const SteadyTime now = steady_clock::now();
  made.start(now);
  if (draining_) made.drain(now);
  tick();
}

void Listener::closed(Connection& connection) {
  const std::size_t place = connection.place;
  std::swap(connections_[place], connections_.back());
  connections_[place]->place = place;
  gone_.push_back(std::move(connections_.back()));
  connections_.pop_back();
  acceptor_.closed();
  if (gone_.size() > 1) return;
  boost::asio::post(parts_.loop, [this] {
    gone_.clear();
    finish_drain();
  });
}

// Answers that come in one turn of the loop leave together.
void Listener::wants_flush(Connection& connection) {
  to_flush_.push_back(&connection);
  if (to_flush_.size() > 1) return;
  boost::asio::post(parts_.loop, [this] { flush_all(); });
}

void Listener::flush_all() {
  flushing_.swap(to_flush_);
  for (Connection* connection : flushing_) connection->flush_now();
  flushing_.clear();
}

// While there are connections: ends what takes too long.
void Listener::tick() {
  if (std::exchange(ticking_, true)) return;
  ticker_.expires_after(kTick);
  ticker_.async_wait([this](const error_code& why) {
    ticking_ = false;
    if (why || connections_.empty()) return;
    const SteadyTime now = steady_clock::now();
    // From the last, as one that ends gives its place to the last.
    for (std::size_t i = connections_.size(); i > 0; --i) connections_[i - 1]->tick(now);
    tick();
  });
}

void Listener::drain(std::function<void()> drained) {
  drained_ = std::move(drained);
  draining_ = true;
  const SteadyTime now = steady_clock::now();
  for (std::size_t i = connections_.size(); i > 0; --i) connections_[i - 1]->drain(now);
  acceptor_.stop([this] { finish_drain(); });
}

void Listener::finish_drain() {
  if (!drained_ || acceptor_.open() || !connections_.empty()) return;
  ticker_.cancel();
  boost::asio::post(parts_.loop, std::exchange(drained_, nullptr));
}

}  // namespace sluice::server::grpc

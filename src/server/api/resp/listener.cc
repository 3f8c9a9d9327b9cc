#include "server/api/resp/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <utility>

namespace sluice::server::resp {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kInputBytes = std::size_t{64} << 10;
constexpr auto kTick = std::chrono::milliseconds(250);
constexpr std::string_view kTooMany = "-ERR max number of clients reached\r\n";
// Without a timeout, a peer that is gone without a word is noticed by these.
constexpr int kFirstProbe = 300;  // seconds
constexpr int kProbeEvery = 100;
constexpr int kProbes = 3;

void set(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);
}

void set_up(int descriptor) {
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kFirstProbe);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kProbeEvery);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

}  // namespace

Listener::Listener(const Parts& parts, net::ListeningSocket socket)
    : parts_(parts),
      poller_(parts.loop),
      shared_{.bounds = parts.bounds,
              .behind = parts.behind,
              .users = parts.users,
              .recorder = parts.recorder,
              .log = parts.log,
              .poller = poller_,
              .idle_timeout = parts.idle_timeout,
              .input = std::string(kInputBytes, '\0')},
      acceptor_({parts.loop, parts.recorder, warning_writer(parts.log), parts.connections,
                 parts.bounds.connections, kTooMany},
                std::move(socket), *this),
      ticker_(parts.loop) {}

Listener::~Listener() = default;

void Listener::accepted(int descriptor, const net::SocketAddress& peer) {
  const bool is_unix = acceptor_.family() == AF_UNIX;
  if (!is_unix) set_up(descriptor);
  Client client;
  client.id = parts_.last_id.fetch_add(1) + 1;
  client.peer = is_unix ? parts_.unix_path + ":0" : peer.text();
  client.role = parts_.users.at_first();
  auto connection = std::make_unique<Connection>(descriptor, std::move(client), shared_, *this);
  if (!connection->start(steady_clock::now())) {
    acceptor_.closed();
    return acceptor_.complain("a connection was dropped: epoll has no room for it", 0);
  }
  connection->place = connections_.size();
  connections_.push_back(std::move(connection));
  tick();
}

void Listener::closed(Connection& connection) {
  const std::size_t place = connection.place;
  std::swap(connections_[place], connections_.back());
  connections_[place]->place = place;
  connections_.pop_back();
  acceptor_.closed();
  finish_drain();
}

// While there are connections: ends what takes too long.
void Listener::tick() {
  if (std::exchange(ticking_, true)) return;
  ticker_.expires_after(kTick);
  ticker_.async_wait([this](const boost::system::error_code& why) {
    ticking_ = false;
    if (why || connections_.empty()) return;
    const SteadyTime now = steady_clock::now();
    // One that ends gives its place to the last, which has been looked at.
    for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->tick(now);
    if (!connections_.empty()) tick();
  });
}

void Listener::drain(std::function<void()> drained) {
  drained_ = std::move(drained);
  shared_.draining = true;
  const SteadyTime now = steady_clock::now();
  for (const auto& connection : connections_) connection->drain(now);
  acceptor_.stop([this] { finish_drain(); });
}

void Listener::finish_drain() {
  if (!drained_ || acceptor_.open() || !connections_.empty()) return;
  ticker_.cancel();
  boost::asio::post(parts_.loop, std::exchange(drained_, nullptr));
}

}  // namespace sluice::server::resp

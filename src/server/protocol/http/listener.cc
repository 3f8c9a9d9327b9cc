#include "server/protocol/http/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <utility>

namespace sluice::server::http {
namespace {

using boost::system::error_code;
using std::chrono::steady_clock;

constexpr std::size_t kInputBytes = std::size_t{64} << 10;
constexpr auto kTick = std::chrono::milliseconds(250);

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
    "Content-Length: 75\r\nConnection: close\r\nRetry-After: 1\r\n\r\n"
    R"({"type":"about:blank","title":"too many connections at once","status":503})"
    "\n";

}  // namespace

Listener::Listener(const Parts& parts, net::ListeningSocket socket)
    : parts_(parts),
      shared_{parts.bounds, parts.behind, parts.recorder, {}, false, {}, {}, {}},
      acceptor_({parts.loop, parts.recorder, warning_writer(parts.log), parts.connections,
                 parts.bounds.connections, kTooMany},
                std::move(socket), *this),
      ticker_(parts.loop) {
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
  Connection::Socket socket(parts_.loop);
  socket.assign({family, family == AF_UNIX ? 0 : IPPROTO_TCP}, descriptor, why);
  if (why) {  // the loop has no room for it
    ::close(descriptor);
    acceptor_.closed();
    return acceptor_.complain("a connection was dropped: " + why.message(), 0);
  }
  tick();
  auto connection = std::make_unique<Connection>(std::move(socket), peer.host(), shared_, *this);
  connection->place = connections_.size();
  connections_.push_back(std::move(connection));
  connections_.back()->start(steady_clock::now());
}

void Listener::closed(Connection& connection) {
  const std::size_t place = connection.place;
  std::swap(connections_[place], connections_.back());
  connections_[place]->place = place;
  connections_.pop_back();
  acceptor_.closed();
  finish_drain();
}

// While there are connections: keeps the date, and ends what takes too long.
void Listener::tick() {
  set_date();
  if (ticking_) return;
  ticking_ = true;
  ticker_.expires_after(kTick);
  ticker_.async_wait([this](const error_code& why) {
    ticking_ = false;
    if (why || connections_.empty()) return;
    const SteadyTime now = steady_clock::now();
    for (const auto& connection : connections_) connection->tick(now);
    tick();
  });
}

void Listener::set_date() {
  const std::time_t now = std::time(nullptr);
  if (now == date_second_) return;
  date_second_ = now;
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  date_.assign(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts));
  shared_.date = date_;
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

}  // namespace sluice::server::http

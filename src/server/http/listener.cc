#include "server/http/listener.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <iterator>
#include <utility>

#include "server/http/socket_address.h"

namespace sluice::server::http {
namespace {

using boost::system::error_code;
using metrics::Event;
using std::chrono::steady_clock;

constexpr std::size_t kInputBytes = std::size_t{64} << 10;
constexpr auto kTick = std::chrono::milliseconds(250);
// Accepted in one go before the connections that there are get their turn.
constexpr int kAcceptedAtOnce = 64;
// While it drains, handshakes that have begun may take so long to end.
constexpr auto kHandshakesEnd = std::chrono::milliseconds(50);
constexpr auto kComplaintEvery = std::chrono::seconds(1);

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
    "Content-Length: 75\r\nConnection: close\r\nRetry-After: 1\r\n\r\n"
    R"({"type":"about:blank","title":"too many connections at once","status":503})"
    "\n";

int open_reserve() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

// Of what the kernel tells by accept(), the errors that concern only the connection.
bool is_about_listener(int error) {
  return error != EAGAIN && error != ECONNABORTED && error != EINTR && error != EPROTO;
}

// Lets no new handshake begin, while those that have begun can still end, and be accepted. A client
// whose first packet is dropped sends it again after a second, and finds the port closed.
void stop_handshakes(int descriptor) {
  constexpr std::uint32_t kFlags = 13;  // their byte in the TCP header
  constexpr std::uint32_t kSyn = 0x02;
  constexpr std::uint32_t kWhole = 0xffffffff;
  sock_filter drop_syn[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kSyn, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, kWhole),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(drop_syn)), drop_syn};
  ::setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

}  // namespace

Listener::Listener(const Parts& parts, ListeningSocket socket)
    : parts_(parts),
      shared_{parts.bounds, parts.behind, parts.recorder, {}, false, {}, {}, {}},
      socket_(parts.loop, socket.release()),
      family_(socket.family()),
      ticker_(parts.loop),
      closer_(parts.loop),
      reserve_(open_reserve()) {
  shared_.input.resize(kInputBytes);
  boost::asio::post(parts_.loop, [this] { wait(); });
}

Listener::~Listener() {
  if (reserve_ >= 0) ::close(reserve_);
}

void Listener::wait() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const error_code& why) {
                       if (why) return;
                       accept_some();
                       wait();
                     });
}

void Listener::accept_some() {
  for (int i = 0; i < kAcceptedAtOnce && accept_one(); ++i) continue;
}

// Whether there may be more.
bool Listener::accept_one() {
  SocketAddress peer;
  const int descriptor = ::accept4(socket_.native_handle(), peer.get(), peer.size_to_fill(),
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    if (out_of_descriptors(error)) return refuse_without_descriptors();
    if (is_about_listener(error)) complain("cannot accept a connection", error);
    return error != EAGAIN;
  }
  if (parts_.connections.fetch_add(1) >= parts_.bounds.connections) {
    refuse(descriptor);
  } else {
    parts_.recorder.add(Event::kAccepted);
    adopt(descriptor, peer.host());
  }
  return true;
}

// Takes the connection by the descriptor in reserve and drops it at once: left where it is, it
// would wake the loop without end.
bool Listener::refuse_without_descriptors() {
  parts_.recorder.add(Event::kOutOfDescriptors);
  complain("out of file descriptors: a connection was dropped; raise the limit (ulimit -n)", 0);
  if (reserve_ < 0) reserve_ = open_reserve();
  if (reserve_ < 0) return false;
  ::close(std::exchange(reserve_, -1));
  const int descriptor = ::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor >= 0) ::close(descriptor);
  reserve_ = open_reserve();
  return descriptor >= 0;
}

void Listener::refuse(int descriptor) {
  parts_.connections.fetch_sub(1);
  parts_.recorder.add(Event::kRefused);
  complain("too many connections at once: one was refused; see bounds.connections", 0);
  [[maybe_unused]] const auto sent =
      ::send(descriptor, kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(descriptor);
}

void Listener::complain(std::string_view what, int error) {
  const SteadyTime now = steady_clock::now();
  if (now - complained_ < kComplaintEvery) return;
  complained_ = now;
  if (error == 0) return parts_.log.warning(what);
  parts_.log.warning(what, {{"why", std::error_code(error, std::generic_category()).message()}});
}

void Listener::adopt(int descriptor, std::string peer) {
  if (family_ != AF_UNIX) {
    const int on = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  error_code why;
  Connection::Socket socket(parts_.loop);
  socket.assign({family_, family_ == AF_UNIX ? 0 : IPPROTO_TCP}, descriptor, why);
  if (why) {  // the loop has no room for it
    ::close(descriptor);
    parts_.connections.fetch_sub(1);
    parts_.recorder.add(Event::kClosed);
    return complain("a connection was dropped: " + why.message(), 0);
  }
  tick();
  auto connection =
      std::make_unique<Connection>(std::move(socket), std::move(peer), shared_, *this);
  connection->place = connections_.size();
  connections_.push_back(std::move(connection));
  connections_.back()->start(steady_clock::now());
}

void Listener::closed(Connection& connection) {
  const std::size_t place = connection.place;
  std::swap(connections_[place], connections_.back());
  connections_[place]->place = place;
  connections_.pop_back();
  parts_.connections.fetch_sub(1);
  parts_.recorder.add(Event::kClosed);
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
  if (family_ != AF_UNIX) stop_handshakes(socket_.native_handle());
  const SteadyTime now = steady_clock::now();
  for (const auto& connection : connections_) connection->drain(now);
  closer_.expires_after(kHandshakesEnd);
  closer_.async_wait([this](const error_code& why) {
    if (!why) stop_listening();
  });
}

void Listener::stop_listening() {
  while (accept_one()) continue;
  error_code ignored;
  socket_.close(ignored);
  finish_drain();
}

void Listener::finish_drain() {
  if (!drained_ || socket_.is_open() || !connections_.empty()) return;
  ticker_.cancel();
  boost::asio::post(parts_.loop, std::exchange(drained_, nullptr));
}

}  // namespace sluice::server::http

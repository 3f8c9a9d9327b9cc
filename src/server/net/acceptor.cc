#include "server/net/acceptor.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

namespace sluice::server::net {
namespace {

using boost::system::error_code;
using metrics::Event;

// The most connections that are accepted before open connections get their turn.
constexpr int kAcceptedAtOnce = 64;
// The time that begun handshakes may take to end after the listener stops. It is short, because a
// handshake that would begin meanwhile is delayed by a second.
constexpr auto kHandshakesEnd = std::chrono::milliseconds(5);
constexpr auto kComplaintEvery = std::chrono::seconds(1);
constexpr std::string_view kNoDescriptor =
    "out of file descriptors: a connection was dropped; raise the limit (ulimit -n)";

int open_reserve() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

// Returns whether an error of accept() concerns the listener and not only one connection.
bool is_about_listener(int error) {
  return error != EAGAIN && error != ECONNABORTED && error != EINTR && error != EPROTO;
}

// Lets no new handshake begin. Handshakes that have begun can still end and be accepted. A client
// whose first packet is dropped sends it again after a second and finds the port closed.
void stop_handshakes(int descriptor) {
  constexpr std::uint32_t kFlags = 13;  // offset of the flags in the TCP header
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

// Another process may have a copy of the socket.
void resume_handshakes(int descriptor) {
  const int unused = 0;
  ::setsockopt(descriptor, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
}

}  // namespace

Acceptor::Acceptor(const Parts& parts, ListeningSocket socket, Accept accept)
    : parts_(parts),
      accept_(std::move(accept)),
      socket_(parts.loop, socket.release()),
      family_(socket.family()),
      leaves_queue_(socket.activated()),
      closer_(parts.loop),
      reserve_(open_reserve()) {
  boost::asio::post(parts_.loop, [this] { wait(); });
}

Acceptor::~Acceptor() {
  if (reserve_ >= 0) ::close(reserve_);
}

void Acceptor::wait() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const error_code& why) {
                       if (why) return;
                       for (int i = 0; i < kAcceptedAtOnce && accept_one(); ++i) continue;
                       wait();
                     });
}

// Returns whether there may be more connections to accept.
bool Acceptor::accept_one() {
  SocketAddress peer;
  const int descriptor = ::accept4(socket_.native_handle(), peer.get(), peer.size_to_fill(),
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    if (out_of_descriptors(error)) return drop_without_descriptors();
    if (is_about_listener(error)) complain("cannot accept a connection", error);
    return error != EAGAIN;
  }
  if (parts_.connections.fetch_add(1) >= parts_.most) {
    refuse(descriptor, Event::kRefused,
           "too many connections at once: one was refused; see bounds.connections");
  } else if (parts_.descriptors != nullptr && !parts_.descriptors->take(*parts_.share)) {
    refuse(descriptor, Event::kOutOfDescriptors, kNoDescriptor);
  } else {
    parts_.recorder.add(Event::kAccepted);
    accept_(descriptor, peer);
  }
  return true;
}

// Accepts the connection with the reserved descriptor and closes it at once. If the connection
// stayed in the queue, it would wake the loop again and again.
bool Acceptor::drop_without_descriptors() {
  parts_.recorder.add(Event::kOutOfDescriptors);
  complain(kNoDescriptor, 0);
  if (reserve_ < 0) reserve_ = open_reserve();
  if (reserve_ < 0) return false;
  ::close(std::exchange(reserve_, -1));
  const int descriptor = ::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor >= 0) ::close(descriptor);
  reserve_ = open_reserve();
  return descriptor >= 0;
}

void Acceptor::refuse(int descriptor, Event reason, std::string_view why) {
  parts_.connections.fetch_sub(1);
  parts_.recorder.add(reason);
  complain(why, 0);
  if (!parts_.refusal.empty() && parts_.tls == nullptr) {
    [[maybe_unused]] const auto sent = ::send(descriptor, parts_.refusal.data(),
                                              parts_.refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::close(descriptor);
}

void Acceptor::closed() {
  parts_.connections.fetch_sub(1);
  if (parts_.descriptors != nullptr) parts_.descriptors->give_back(*parts_.share);
}

void Acceptor::complain(std::string_view what, int error) {
  if (error == 0) return complain(what, std::string_view());
  complain(what, std::error_code(error, std::generic_category()).message());
}

void Acceptor::complain(std::string_view what, std::string_view why) {
  const SteadyTime now = parts_.clock.now();
  if (now - complained_ < kComplaintEvery) return;
  complained_ = now;
  parts_.warn(what, why);
}

void Acceptor::stop(Queued queued, std::function<void()> done) {
  if (queued == Queued::kLeave || leaves_queue_) {
    close();
    return boost::asio::post(parts_.loop, std::move(done));
  }
  if (family_ != AF_UNIX) stop_handshakes(socket_.native_handle());
  closer_.expires_after(kHandshakesEnd);
  closer_.async_wait([this, done = std::move(done)](const error_code& why) {
    if (why) return;
    while (accept_one()) continue;
    resume_handshakes(socket_.native_handle());
    close();
    done();
  });
}

// release() removes the descriptor from the loop's epoll set, which close() would not do while
// another process has a copy.
void Acceptor::close() { ::close(socket_.release()); }

}  // namespace sluice::server::net

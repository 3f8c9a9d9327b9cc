// The sockets of one listener in one event loop: one epoll set, and one read and one write for
// everything that has arrived, without a handler of the event library per connection. It takes less
// processor time than redis-server for an INCR (`./dev bench --only front_ends`).
#include "server/net/poller.h"

#include <boost/asio/post.hpp>
#include <cerrno>
#include <system_error>

namespace sluice::server::net {
namespace {

int open_epoll() {
  const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return descriptor;
}

epoll_event event_for(std::uint32_t events, Poller::Source& source) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &source;
  return event;
}

}  // namespace

Poller::Poller(boost::asio::io_context& loop, const LoopClock& clock)
    : descriptor_(loop, open_epoll()), clock_(clock) {
  boost::asio::post(loop, [this] { wait(); });
}

Poller::~Poller() = default;

void Poller::wait() {
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [this](const boost::system::error_code& why) {
                           if (why) return;
                           report_all();
                           wait();
                         });
}

// Reports ready sockets until there are no more. While sources run, other sockets often become
// ready: another epoll_wait() is one system call, a turn of the loop takes three. The bound lets
// the loop's other sockets have their turn.
void Poller::report_all() {
  constexpr int kMostInTurn = 256;
  now_ = clock_.now();
  for (int all = 0; all < kMostInTurn;) {
    const int count = report_ready();
    if (count <= 0) return;
    all += count;
  }
}

// Returns how many sockets were ready.
int Poller::report_ready() {
  const int found = ::epoll_wait(descriptor_.native_handle(), ready_.data(), kMostAtOnce, 0);
  found_ = found;
  for (reported_ = 0; reported_ < found_;) {
    void* const source = ready_[static_cast<std::size_t>(reported_++)].data.ptr;
    if (source != nullptr) static_cast<Source*>(source)->ready();
  }
  found_ = 0;
  return found;
}

bool Poller::add(int descriptor, Source& source) {
  epoll_event event = event_for(EPOLLIN, source);
  return ::epoll_ctl(descriptor_.native_handle(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

// Removes a socket that waits for nothing from the epoll, which would otherwise still report that
// its peer is gone.
void Poller::change(int descriptor, Source& source, std::uint32_t events) {
  epoll_event event = event_for(events, source);
  if (events == 0) {
    ::epoll_ctl(descriptor_.native_handle(), EPOLL_CTL_DEL, descriptor, &event);
    return forget(source);
  }
  const int epoll = descriptor_.native_handle();
  if (::epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event) != 0 && errno == ENOENT) {
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
  }
}

void Poller::remove(int descriptor, Source& source, std::uint32_t events) {
  if (events != 0) change(descriptor, source, 0);
}

// The source may be in the same batch of ready sources that is being reported.
void Poller::forget(const Source& source) {
  for (int i = reported_; i < found_; ++i) {
    epoll_event& one = ready_[static_cast<std::size_t>(i)];
    if (one.data.ptr == &source) one.data.ptr = nullptr;
  }
}

}  // namespace sluice::server::net

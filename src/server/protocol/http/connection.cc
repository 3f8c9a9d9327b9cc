#include "server/protocol/http/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <utility>

namespace sluice::server::http {
namespace {

using boost::system::error_code;

bool would_block(const error_code& why) { return why == boost::asio::error::would_block; }

// Whether the client has closed the connection, at least its side of it.
bool has_ended(int descriptor) noexcept {
  pollfd one{descriptor, POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0;
}

}  // namespace

std::unique_ptr<Connection> Connection::open(net::Accepted& accepted, Shared& shared, Owner& owner,
                                             net::SteadyTime now, error_code& why) {
  std::unique_ptr<Connection> connection(new Connection(accepted, shared, owner, now));
  if (shared.poller.add(accepted.descriptor, *connection)) return connection;
  why.assign(errno, boost::system::system_category());
  connection->waits_for_ = net::Poller::For::kNothing;
  return nullptr;
}

Connection::Connection(net::Accepted& accepted, Shared& shared, Owner& owner, net::SteadyTime now)
    : descriptor_(accepted.descriptor),
      transport_(descriptor_, std::move(accepted.tls)),
      shared_(shared),
      owner_(owner),
      state_(accepted.peer.host(), shared, *this, now,
             role_of(transport_.certificate_names(), shared.role_of_certificate)) {}

Connection::~Connection() {
  if (descriptor_ < 0) return;
  shared_.poller.remove(descriptor_, *this, waits_for_);
  ::close(descriptor_);
}

void Connection::wait_for(net::Poller::For what) {
  if (std::exchange(waits_for_, what) != what) shared_.poller.change(descriptor_, *this, what);
}

void Connection::ready() {
  if (answering_) return wait_for(net::Poller::For::kNothing);  // input has to wait
  if (waits_for_ == net::Poller::For::kRoom) return act(state_.on_room(shared_.clock.now()));
  receive();
}

void Connection::receive() {
  const net::SteadyTime now = shared_.clock.now();
  error_code why;
  const std::size_t size = transport_.read(shared_.input.data(), shared_.input.size(), why);
  if (!why) return act(state_.on_input({shared_.input.data(), size}, now));
  if (!would_block(why)) close();
}

void Connection::act(Action action) {
  answering_ = false;
  while (action == Action::kSend) action = send();
  switch (action) {
    case Action::kWait: answering_ = true; return;
    case Action::kWaitToSend: return wait_for(net::Poller::For::kRoom);
    case Action::kHalfClose: transport_.finish(); [[fallthrough]];
    case Action::kSend:
    case Action::kReceive:
      if (state_.is_broadcast()) bound_send_buffer();
      return wait_for(net::Poller::For::kInput);
    case Action::kClose: return close();
  }
}

// Sends what the socket has room for.
Connection::Action Connection::send() {
  const std::string_view bytes = state_.output();
  std::size_t sent = 0;
  error_code why;
  while (sent < bytes.size() && !why) {
    sent += transport_.write(bytes.data() + sent, bytes.size() - sent, why);
  }
  return state_.on_sent(sent, why && !would_block(why));
}

// A client that does not read its broadcast is found when the buffer is full.
void Connection::bound_send_buffer() {
  if (std::exchange(bounded_, true)) return;
  const int bytes = 32 << 10;  // the kernel doubles it
  ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void Connection::tick(net::SteadyTime now) {
  if (state_.is_answering() && has_ended(descriptor_)) return state_.on_end_of_input();
  if (state_.expired(now)) act(state_.on_expired(now));
}

void Connection::close() {
  shared_.poller.remove(descriptor_, *this, waits_for_);
  ::close(std::exchange(descriptor_, -1));
  state_.on_closed();
  owner_.closed(*this);
}

}  // namespace sluice::server::http

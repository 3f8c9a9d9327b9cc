#include "server/protocol/http/connection.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/error.hpp>
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
  Socket socket(accepted.loop);
  socket.assign({accepted.family, accepted.family == AF_UNIX ? 0 : IPPROTO_TCP},
                accepted.descriptor, why);
  if (why) {  // the loop has no room for it
    ::close(accepted.descriptor);
    return nullptr;
  }
  std::unique_ptr<Connection> connection(
      new Connection(std::move(socket), accepted, shared, owner, now));
  connection->wait_for_input();
  return connection;
}

Connection::Connection(Socket socket, net::Accepted& accepted, Shared& shared, Owner& owner,
                       net::SteadyTime now)
    : socket_(std::move(socket)),
      transport_(accepted.descriptor, std::move(accepted.tls)),
      shared_(shared),
      owner_(owner),
      state_(accepted.peer.host(), shared, *this, now,
             role_of(transport_.certificate_names(), shared.role_of_certificate)) {}

void Connection::act(Action action) {
  while (action == Action::kSend) action = send();
  switch (action) {
    case Action::kWait: return;
    case Action::kWaitToSend: return wait_for_room();
    case Action::kHalfClose: transport_.finish(); [[fallthrough]];
    case Action::kSend:
    case Action::kReceive: return wait_for_input();
    case Action::kClose: return close();
  }
}

void Connection::wait_for_input() {
  socket_.async_wait(Socket::wait_read, [this](const error_code& why) {
    if (std::exchange(expired_, false)) return act(state_.on_expired(shared_.clock.now()));
    if (why) return close();
    receive();
  });
}

void Connection::wait_for_room() {
  socket_.async_wait(Socket::wait_write, [this](const error_code& why) {
    if (std::exchange(expired_, false)) return act(state_.on_expired(shared_.clock.now()));
    if (why) return close();
    act(state_.on_room(shared_.clock.now()));
  });
}

void Connection::receive() {
  const net::SteadyTime now = shared_.clock.now();
  error_code why;
  const std::size_t size = transport_.read(shared_.input.data(), shared_.input.size(), why);
  if (would_block(why)) return wait_for_input();
  if (why) return close();
  act(state_.on_input({shared_.input.data(), size}, now));
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

void Connection::tick(net::SteadyTime now) {
  if (state_.is_answering() && has_ended(socket_.native_handle())) return state_.on_end_of_input();
  if (expired_ || !state_.expired(now)) return;
  expired_ = true;
  socket_.cancel();  // ends the wait
}

void Connection::close() {
  error_code ignored;
  socket_.close(ignored);
  owner_.closed(*this);
}

}  // namespace sluice::server::http

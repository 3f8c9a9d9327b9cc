#include "server/protocol/resp/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <utility>

namespace sluice::server::resp {
namespace {

using boost::system::error_code;

// Without a timeout, TCP keepalive detects a peer that is gone.
constexpr int kFirstProbe = 300;  // seconds
constexpr int kProbeEvery = 100;
constexpr int kProbes = 3;

void set(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);
}

void set_keepalive(int descriptor) {
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kFirstProbe);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kProbeEvery);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

bool would_block(const error_code& why) { return why == boost::asio::error::would_block; }

}  // namespace

std::unique_ptr<Connection> Connection::open(net::Accepted& accepted, Shared& shared, Owner& owner,
                                             net::SteadyTime now, boost::system::error_code& why) {
  const bool is_unix = accepted.family == AF_UNIX;
  if (!is_unix) set_keepalive(accepted.descriptor);
  Client client;
  client.id = shared.last_id.fetch_add(1) + 1;
  client.peer = is_unix ? shared.unix_path + ":0" : accepted.peer.text();
  client.connected = now;
  client.role = shared.users.at_first();
  if (accepted.tls) client.user = shared.users.find_certificate(accepted.tls->certificate_names());
  if (client.user != nullptr) client.role = client.user->role;
  std::unique_ptr<Connection> connection(
      new Connection(accepted, std::move(client), shared, owner, now));
  if (shared.poller.add(accepted.descriptor, *connection)) return connection;
  why.assign(errno, boost::system::system_category());
  connection->waits_for_ = net::Poller::For::kNothing;
  return nullptr;
}

Connection::Connection(net::Accepted& accepted, Client client, Shared& shared, Owner& owner,
                       net::SteadyTime now)
    : shared_(shared),
      owner_(owner),
      descriptor_(accepted.descriptor),
      transport_(descriptor_, std::move(accepted.tls)),
      state_(std::move(client), shared, *this, now) {}

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
  if (waits_for_ == net::Poller::For::kRoom) return act(state_.on_room(shared_.poller.now()));
  receive();
}

void Connection::receive() {
  std::string& room = shared_.input;
  error_code why;
  const std::size_t size = transport_.read(room.data(), room.size(), why);
  if (!why) return act(state_.on_input({room.data(), size}, shared_.poller.now()));
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
    case Action::kReceive: return wait_for(net::Poller::For::kInput);
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
  const Action next = state_.on_sent(sent);
  return why && !would_block(why) ? Action::kClose : next;
}

void Connection::tick(net::SteadyTime now) {
  if (state_.on_tick(now)) close();
}

void Connection::close() {
  shared_.poller.remove(descriptor_, *this, waits_for_);
  ::close(std::exchange(descriptor_, -1));
  owner_.closed(*this);
}

}  // namespace sluice::server::resp

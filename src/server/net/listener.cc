#include "server/net/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace sluice::server::net {
namespace {

using boost::system::error_code;
using metrics::Event;

// The time that a handshake may still take when the server drains.
constexpr auto kDrainTime = std::chrono::seconds(1);

}  // namespace

void TlsHandshakes::start(int descriptor, const SocketAddress& peer, SteadyTime now) {
  Descriptor socket(loop_);
  error_code error;
  socket.assign(descriptor, error);
  if (error) {  // the loop has no room for it
    ::close(descriptor);
    return refused_("a connection was dropped", error.message());
  }
  auto session = std::make_unique<TlsSession>(context_, descriptor);
  all_.push_back(std::make_unique<Handshake>(
      Handshake{std::move(socket), peer, std::move(session), now, now + timeout_, all_.size()}));
  wait(*all_.back(), Descriptor::wait_read);
}

void TlsHandshakes::wait(Handshake& handshake, Descriptor::wait_type what) {
  handshake.socket.async_wait(what, [this, &handshake](const error_code& why) {
    if (handshake.expired) {
      recorder_.add(Event::kTimedOut);
      return fail(handshake, {});
    }
    if (why) return fail(handshake, {});
    go_on(handshake);
  });
}

void TlsHandshakes::go_on(Handshake& handshake) {
  using Progress = TlsSession::Progress;
  switch (handshake.session->shake_hands()) {
    case Progress::kNeedsInput: return wait(handshake, Descriptor::wait_read);
    case Progress::kNeedsRoom: return wait(handshake, Descriptor::wait_write);
    case Progress::kDone: return succeed(handshake);
    case Progress::kLeft: return fail(handshake, {});
    case Progress::kPlaintext:
      answer_plaintext(handshake);
      recorder_.add(Event::kTlsFailed);
      return fail(handshake, "a client without TLS was refused, because this listener has `tls`");
    case Progress::kFailed:
      recorder_.add(Event::kTlsFailed);
      return fail(handshake, "a TLS handshake failed");
  }
}

void TlsHandshakes::succeed(Handshake& handshake) {
  const auto taken = take(handshake);
  secured_(taken->socket.release(), taken->peer, std::move(taken->session), taken->began);
}

// Closes the connection and reports it, with the peer and the reason if `what` says something.
void TlsHandshakes::fail(Handshake& handshake, std::string_view what) {
  const auto taken = take(handshake);
  error_code ignored;
  taken->socket.close(ignored);
  if (what.empty()) return refused_({}, {});
  std::string why = taken->peer.host();
  if (!why.empty() && !taken->session->why().empty()) why += ": ";
  refused_(what, why + taken->session->why());
}

// Reads what has arrived before it answers: otherwise the kernel would send a reset, which may
// overtake the answer.
void TlsHandshakes::answer_plaintext(Handshake& handshake) const {
  const int descriptor = handshake.socket.native_handle();
  char input[4096];
  while (::recv(descriptor, input, sizeof input, MSG_DONTWAIT) == sizeof input) continue;
  const std::string_view answer = plaintext_answer_;
  [[maybe_unused]] const auto sent =
      ::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(descriptor, SHUT_WR);
}

std::unique_ptr<TlsHandshakes::Handshake> TlsHandshakes::take(const Handshake& handshake) {
  const std::size_t place = handshake.place;
  std::swap(all_[place], all_.back());
  all_[place]->place = place;
  auto taken = std::move(all_.back());
  all_.pop_back();
  return taken;
}

void TlsHandshakes::tick(SteadyTime now) {
  for (const auto& one : all_) {
    if (one->expired || now < one->deadline) continue;
    one->expired = true;
    error_code ignored;
    one->socket.cancel(ignored);  // ends the wait
  }
}

void TlsHandshakes::drain(SteadyTime now) {
  for (const auto& one : all_) one->deadline = std::min(one->deadline, now + kDrainTime);
}

}  // namespace sluice::server::net

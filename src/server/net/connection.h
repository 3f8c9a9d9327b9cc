#pragma once

#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metrics.h"
#include "server/net/acceptor.h"
#include "server/net/listener.h"
#include "server/net/loop_clock.h"
#include "server/net/poller.h"
#include "server/net/transport.h"

namespace sluice::server::net {

// What the socket of a connection must do next.
enum class Action : std::uint8_t {
  kReceive,   // wait for input, then on_input()
  kSend,      // send output(), as far as it goes without waiting, then on_sent()
  kSendSoon,  // only of Act: as kSend at the end of this turn of the loop, unless it waits for room
  kWaitToSend,  // wait for room, then on_room()
  kWait,        // wait for Act
  kHalfClose,   // send the end of the stream, then as kReceive
  kClose,
};

// Carries out an action of a connection's state when what had to wait goes on: requests are
// answered, or a broadcast has more. May close the connection, but not for kSendSoon.
using Act = std::function<void(Action action)>;

// When this many bytes of responses wait, later requests are not answered.
inline constexpr std::size_t kMostWaiting = std::size_t{64} << 10;
// After the last response a connection reads and discards input for this long and this much, so
// that the client sees the response and not a reset.
inline constexpr auto kLingerTime = std::chrono::seconds(2);
inline constexpr std::uint32_t kLingerBytes = std::uint32_t{16} << 20;
// How long an idle connection, or a TLS handshake, stays while the server drains.
inline constexpr auto kDrainIdle = std::chrono::seconds(1);

// What the states of connections have in common.
class StreamState {
 public:
  // Returns whether the connection takes too long. If so, stop waiting and call on_expired().
  bool expired(SteadyTime now) const noexcept { return now >= deadline_; }
  // Whether a request is being answered, and waits for something that the client can end.
  bool is_answering() const noexcept { return false; }
  // The client sends no more, and has perhaps gone. Call it only while is_answering().
  void on_end_of_input() {}
  // Whether the response goes on until the connection ends.
  bool is_broadcast() const noexcept { return false; }
  // The socket is closed.
  void on_closed() noexcept {}

 protected:
  StreamState(Act act, SteadyTime now) : act_(std::move(act)), now_(now) {}

  // Counts input after the end of the stream.
  Action discard(std::string_view bytes) noexcept {
    lingered_ += static_cast<std::uint32_t>(bytes.size());
    return lingered_ > kLingerBytes ? Action::kClose : Action::kReceive;
  }
  // The server is draining, and the connection is idle.
  void end_soon(SteadyTime now) { deadline_ = std::min(deadline_, now + kDrainIdle); }

  const Act act_;
  SteadyTime now_;
  SteadyTime deadline_;
  std::uint32_t lingered_ = 0;
  bool closing_ = false;  // after the responses are sent
  bool paused_ = false;   // until the responses are sent
};

// The socket of a connection. For everything that arrives together it makes one read and one write;
// it waits for input or for room, never for both.
//
// A State derives from StreamState, takes events and returns actions. Its Shared is what the
// connections of a listener share in one event loop; it prepares a socket and says who is connected
// (peer_of), and returns the time of an event (time_of_event). A connection with TLS has a state
// once its handshake is done; handshakes that take too long are cut. kNeedsTls is sent to a client
// without TLS if the listener has TLS.
//
// Thread-safety: the loop's thread only. Cost: about 100 bytes in addition to the state.
template <typename State>
class Connection final : private Poller::Source {
 public:
  using Options = typename State::Shared::Options;
  using Handlers = typename State::Handlers;
  struct Shared : State::Shared {
    Shared(const Acceptor::Parts& accept, const Options& options, Handlers& of_loop)
        : State::Shared{options, of_loop, accept.recorder, accept.clock},
          loop(accept.loop),
          handshake_timeout(accept.handshake_timeout),
          poller(accept.loop, accept.clock) {}

    boost::asio::io_context& loop;
    const std::chrono::milliseconds handshake_timeout;  // of TLS
    std::function<void(Connection&)> closed;            // see ListenedConnection, as the next
    std::function<void(std::string_view what, std::string_view why)> complain;
    std::vector<Connection*> send_soon, sending;  // at the end of this turn of the loop; now
    Poller poller;
    std::string input = std::string(std::size_t{64} << 10,
                                    '\0');  // shared by the connections, which read one at a time
  };
  static constexpr std::string_view kRefusal = State::kRefusal;

  // See Listener.
  static std::unique_ptr<Connection> open(Accepted& accepted, Shared& shared,
                                          boost::system::error_code& why) {
    std::unique_ptr<Connection> connection(new Connection(accepted, shared));
    if (shared.poller.add(connection->descriptor_, *connection)) return connection;
    why.assign(errno, boost::system::system_category());
    connection->waits_for_ = 0;
    return nullptr;
  }
  ~Connection() override {
    if (descriptor_ < 0) return;
    shared_.poller.remove(descriptor_, *this, waits_for_);
    ::close(descriptor_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void tick(SteadyTime now) {
    if (handshake_ != nullptr) {
      if (now < handshake_->deadline) return;
      shared_.recorder.add(metrics::Event::kTimedOut);
      return close();
    }
    if (state_->expired(now)) act(state_->on_expired(now));
  }
  void drain(SteadyTime now) {
    if (handshake_ == nullptr) return state_->on_drain(now);
    handshake_->deadline = std::min(handshake_->deadline, now + kDrainIdle);
  }

  std::size_t place = 0;

 private:
  Connection(Accepted& accepted, Shared& shared)
      : shared_(shared), descriptor_(accepted.descriptor), transport_(descriptor_) {
    if (accepted.tls != nullptr) {
      accepted.deadline = accepted.since + shared.handshake_timeout;
      handshake_ = std::make_unique<Accepted>(std::move(accepted));
    } else {
      begin(accepted);
    }
  }

  // The protocol begins; its timeouts count from when the connection was accepted.
  void begin(Accepted& accepted) {
    state_.emplace(
        shared_.peer_of(accepted), shared_, [this](Action action) { act(action); }, accepted.since);
    transport_ = Transport(descriptor_, std::move(accepted.tls));
  }

  void shake_hands() {
    using Progress = TlsSession::Progress;
    switch (handshake_->tls->shake_hands()) {
      case Progress::kNeedsInput: return wait_for(EPOLLIN);
      case Progress::kNeedsRoom: return wait_for(EPOLLOUT);
      case Progress::kLeft: return close();
      case Progress::kFailed: return refuse("a TLS handshake failed");
      case Progress::kPlaintext:
        answer_plaintext(descriptor_, State::kNeedsTls);
        return refuse("a client without TLS was refused, because this listener has `tls`");
      case Progress::kDone: break;
    }
    begin(*handshake_);
    handshake_.reset();
    if (shared_.draining) state_->on_drain(shared_.clock.now());
    wait_for(EPOLLIN);
  }

  // Ends a handshake, and says why.
  void refuse(std::string_view what) {
    shared_.recorder.add(metrics::Event::kTlsFailed);
    std::string why = handshake_->peer.host();
    if (!why.empty() && !handshake_->tls->why().empty()) why += ": ";
    shared_.complain(what, why + handshake_->tls->why());
    close();
  }

  void ready() override {
    if (handshake_ != nullptr) return shake_hands();
    if (answering_) return put_off_input();
    const SteadyTime now = shared_.time_of_event(shared_.poller);
    if (waits_for_ == EPOLLOUT) return act(state_->on_room(now));
    boost::system::error_code why;
    const std::size_t size = transport_.read(shared_.input.data(), shared_.input.size(), why);
    if (!why) return act(state_->on_input({shared_.input.data(), size}, now));
    if (why != boost::asio::error::would_block) close();
  }

  // Input has to wait until the request is answered, but not the news that the client has gone.
  void put_off_input() {
    if (waits_for_ != EPOLLRDHUP) return wait_for(EPOLLRDHUP);
    wait_for(0);
    if (state_->is_answering()) state_->on_end_of_input();
  }

  void act(Action action) {
    if (action == Action::kSendSoon) return send_soon();
    answering_ = false;
    while (action == Action::kSend) action = send();
    switch (action) {
      case Action::kWait: answering_ = true; return;
      case Action::kWaitToSend: return wait_for(EPOLLOUT);
      case Action::kHalfClose: transport_.finish(); [[fallthrough]];
      case Action::kSend:
      case Action::kSendSoon:
      case Action::kReceive:
        if (state_->is_broadcast()) bound_send_buffer();
        return wait_for(EPOLLIN);
      case Action::kClose: return close();
    }
  }

  // What one turn of the loop makes is sent together.
  void send_soon() {
    if (descriptor_ < 0 || std::exchange(sends_soon_, true)) return;
    shared_.send_soon.push_back(this);
    if (shared_.send_soon.size() > 1) return;
    boost::asio::post(shared_.loop, [&shared = shared_] {
      shared.sending.swap(shared.send_soon);
      for (Connection* const connection : shared.sending) {
        connection->sends_soon_ = false;
        const bool waits = connection->descriptor_ < 0 || connection->waits_for_ == EPOLLOUT;
        if (!waits) connection->act(Action::kSend);
      }
      shared.sending.clear();
    });
  }

  // Sends what the socket has room for.
  Action send() {
    const std::string_view bytes = state_->output();
    std::size_t sent = 0;
    boost::system::error_code why;
    while (sent < bytes.size() && !why) {
      sent += transport_.write(bytes.data() + sent, bytes.size() - sent, why);
    }
    return state_->on_sent(sent, why && why != boost::asio::error::would_block);
  }

  void wait_for(std::uint32_t events) {
    if (std::exchange(waits_for_, events) != events) {
      shared_.poller.change(descriptor_, *this, events);
    }
  }

  // A client that does not read its broadcast is found when the buffer is full.
  void bound_send_buffer() {
    if (std::exchange(bounded_, true)) return;
    const int bytes = 32 << 10;  // the kernel doubles it
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }

  void close() {
    shared_.poller.remove(descriptor_, *this, waits_for_);
    ::close(std::exchange(descriptor_, -1));
    if (sends_soon_) std::erase(shared_.send_soon, this);
    if (state_) state_->on_closed();
    shared_.closed(*this);
  }

  Shared& shared_;
  int descriptor_;                     // below 0 once it is closed
  std::uint32_t waits_for_ = EPOLLIN;  // see Poller::change()
  bool answering_ = false;
  bool bounded_ = false;                 // the buffer of the socket is small
  bool sends_soon_ = false;              // is in Shared::send_soon
  std::unique_ptr<Accepted> handshake_;  // null: it is done, or there is none
  Transport transport_;
  std::optional<State> state_;  // unless there is a handshake
};

}  // namespace sluice::server::net

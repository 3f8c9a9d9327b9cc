#pragma once

#include <atomic>
#include <boost/system/error_code.hpp>
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

#include "limiter/text_buffer.h"
#include "metrics/metrics.h"
#include "server/net/bounds.h"
#include "server/net/connection.h"
#include "server/net/fiber.h"
#include "server/net/listener.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/poller.h"
#include "server/net/transport.h"
#include "server/net/worker_pool.h"
#include "server/protocol/resp/client.h"
#include "server/protocol/resp/request_reader.h"

namespace sluice::server::resp {

// Answers requests. One for an event loop; if the store may wait, one for each connection that is
// being answered in the loop.
class Handler {
 public:
  virtual ~Handler() = default;
  // Appends the reply to `request` to `output`. The request is not empty.
  virtual void answer(Client& client) = 0;
  // Releases rules that are no longer active.
  virtual void follow_rules() = 0;
  void recycle() {}

  std::vector<std::string_view> request;
  TextBuffer output;  // replies that are not sent yet
};

using Handlers = net::WorkerPool<Handler>;

// What the connections of one listener share in one event loop. Used by that loop's thread only.
struct SharedState {
  const Bounds& bounds;
  Handlers& handlers;
  metrics::Recorder& recorder;
  const net::LoopClock& clock;
  std::chrono::milliseconds idle_timeout{0};  // 0: none
  bool draining = false;                      // a connection ends when its requests are answered
  net::SteadyTime answered{};                 // when the last requests were answered
};

// A connection that speaks RESP, without its socket: takes events, returns actions.
//
// Requests are answered in their order, as many as have arrived, and their replies are sent
// together. When 64 KiB of replies wait, later requests are neither answered nor read until the
// client has read these. Cost: about 300 bytes while idle.
class ConnectionState final : public net::StreamState, private Handlers::Task {
 public:
  using Action = net::Action;

  ConnectionState(Client client, SharedState& shared, net::StateOwner& owner, net::SteadyTime now);
  ~ConnectionState() override;

  Action on_input(std::string_view bytes, net::SteadyTime now);
  Action on_room(net::SteadyTime now);
  // The replies to send. Valid until the next event.
  std::string_view output() const noexcept;
  // `size` bytes of output() were sent. If that is not all of it, the socket has no room, or is
  // broken.
  Action on_sent(std::size_t size, bool broken = false);
  Action on_expired(net::SteadyTime now);
  // The server is draining.
  void on_drain(net::SteadyTime now);

 private:
  enum class Phase : std::uint8_t { kIdle, kRequest, kAnswering, kSending, kLingering };

  void work(Handler& handler) override;
  bool finish(Handler&) override { return true; }
  void resume() override;
  Action answer_input(std::string_view bytes);
  Action answer_pending();
  std::size_t answer_all(std::string_view input, Handler& handler, net::SteadyTime begun);
  bool answer_next(std::string_view input, Handler& handler);
  void refuse() noexcept;
  void drop_answered();
  Action settle();
  Action linger();
  void enter(Phase phase);
  std::chrono::milliseconds time_for(Phase phase) const;

  Phase phase_ = Phase::kIdle;
  SharedState& shared_;
  Client client_;
  RequestReader reader_;
  std::string pending_;   // requests that are not answered yet
  std::size_t done_ = 0;  // bytes of `pending_` that are answered
  std::string unsent_;
};

// A connection that speaks RESP: the socket of a ConnectionState. Cost: about 400 bytes while idle;
// one system call to read and one to write for everything that arrives together.
class Connection final : private net::Poller::Source, private net::StateOwner {
 public:
  struct Shared : SharedState {
    net::Poller& poller;
    const Users& users;
    std::atomic<std::uint64_t>& last_id;  // of the connections of all loops
    std::string unix_path = {};           // of the listening socket, if it is a Unix socket
    std::string input = std::string(std::size_t{64} << 10,
                                    '\0');  // shared by the connections, which read one at a time
  };
  using Owner = net::ConnectionOwner<Connection>;
  static constexpr std::string_view kRefusal = "-ERR max number of clients reached\r\n";
  static constexpr std::string_view kNeedsTls = "-ERR expected TLS on this port\r\n";

  // See net::Listener.
  static std::unique_ptr<Connection> open(net::Accepted& accepted, Shared& shared, Owner& owner,
                                          net::SteadyTime now, boost::system::error_code& why);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void tick(net::SteadyTime now);
  void drain(net::SteadyTime now) { state_.on_drain(now); }

  std::size_t place = 0;

 private:
  using Action = ConnectionState::Action;

  Connection(net::Accepted& accepted, Client client, Shared& shared, Owner& owner,
             net::SteadyTime now);
  void ready() override;
  void act(Action action) override;
  void receive();
  Action send();
  void wait_for(net::Poller::For what);
  void close();

  Shared& shared_;
  Owner& owner_;
  int descriptor_;  // below 0 once it is closed
  net::Transport transport_;
  net::Poller::For waits_for_ = net::Poller::For::kInput;
  bool answering_ = false;
  ConnectionState state_;
};

// RESP in one event loop. Ownership: borrows what its Parts refer to.
class FrontEnd final : public net::LoopFrontEnd {
 public:
  struct Parts {
    const Bounds& bounds;
    const Users& users;
    std::atomic<std::uint64_t>& last_id;        // of the connections of all loops
    std::string unix_path = {};                 // of the listening socket, if it is a Unix socket
    std::chrono::milliseconds idle_timeout{0};  // 0: none
    std::function<std::unique_ptr<Handler>()> make;
    std::optional<net::FiberPool::Options> fibers = {};  // if handlers may wait
  };

  FrontEnd(const Parts& parts, const net::Acceptor::Parts& accept, net::ListeningSocket socket)
      : poller_(accept.loop, accept.clock),
        handlers_(parts.make, parts.fibers),
        shared_{{parts.bounds, handlers_, accept.recorder, accept.clock, parts.idle_timeout},
                poller_,
                parts.users,
                parts.last_id,
                parts.unix_path},
        listener_(accept, std::move(socket), shared_) {}

  void follow_rules() override { handlers_.follow_rules(); }
  void stop_accepting(net::Queued queued, std::function<void()> stopped) override {
    listener_.stop_accepting(queued, std::move(stopped));
  }
  void drain(std::function<void()> drained) override { listener_.drain(std::move(drained)); }

 private:
  net::Poller poller_;
  Handlers handlers_;
  Connection::Shared shared_;
  net::Listener<Connection> listener_;
};

}  // namespace sluice::server::resp

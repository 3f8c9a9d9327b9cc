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
  // Whether the answer to `request` waits for something else than the store.
  virtual bool waits() const noexcept { return false; }
  // Releases rules that are no longer active.
  virtual void follow_rules() = 0;
  void recycle() {}

  std::vector<std::string_view> request;
  TextBuffer output;  // replies that are not sent yet
};

using Handlers = net::WorkerPool<Handler>;

// What a front end serves.
struct Options {
  const Bounds& bounds;
  const Users& users;
  std::atomic<std::uint64_t>& last_id;        // of the connections of all loops
  std::string unix_path = {};                 // of the listening socket, if it is a Unix socket
  std::chrono::milliseconds idle_timeout{0};  // 0: none
  std::function<std::unique_ptr<Handler>()> make = {};
  std::optional<net::FiberPool::Options> fibers = {};        // if handlers may wait for the store
  std::optional<net::FiberPool::Options> fibers_apart = {};  // else, for requests that wait anyway
};

// What the connections of one listener share in one event loop. Used by that loop's thread only.
struct SharedState : Options {
  // Sets the options of the socket.
  Client peer_of(const net::Accepted& accepted) const;
  net::SteadyTime time_of_event(const net::Poller& poller) const {
    return std::max(poller.now(), answered);
  }
  void follow_rules() {
    if (apart) apart->follow_rules();
  }

  Handlers& handlers;
  metrics::Recorder& recorder;
  const net::LoopClock& clock;
  bool draining = false;       // a connection ends when its requests are answered
  net::SteadyTime answered{};  // when the last requests were answered
  // Handlers on fibers, for the requests that wait although the store does not; null: there are
  // none.
  std::unique_ptr<Handlers> apart =
      fibers || !fibers_apart ? nullptr : std::make_unique<Handlers>(make, fibers_apart);
};

// A connection that speaks RESP, without its socket: takes events, returns actions.
//
// Requests are answered in their order, as many as have arrived, and their replies are sent
// together. When 64 KiB of replies wait, later requests are neither answered nor read until the
// client has read these. A request that waits although the store does not is answered on a fiber,
// with those that came after it. Cost: about 300 bytes while idle, 400 with the socket.
class ConnectionState final : public net::StreamState, private Handlers::Task {
 public:
  using Action = net::Action;
  using Shared = SharedState;
  using Handlers = resp::Handlers;
  using Peer = Client;
  static constexpr std::string_view kRefusal = "-ERR max number of clients reached\r\n";
  static constexpr std::string_view kNeedsTls = "-ERR expected TLS on this port\r\n";

  ConnectionState(Client client, SharedState& shared, net::Act act, net::SteadyTime now);
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
  Action answer_apart();
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
  std::size_t requests_ = 0;  // answered
  // When the incomplete request at the end of `pending_` must be complete.
  net::SteadyTime request_due_ = net::SteadyTime::max();
  net::SteadyTime login_due_ = net::SteadyTime::max();  // of a client without a role
  bool has_answered_ = false;                           // since the connection waited for input
  bool is_next_apart_ = false;  // the next request needs a handler on a fiber
};

// A connection that speaks RESP.
using Connection = net::Connection<ConnectionState>;

// RESP in one event loop.
using FrontEnd = net::Listener<Connection>;

}  // namespace sluice::server::resp

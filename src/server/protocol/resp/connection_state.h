#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "limiter/text_buffer.h"
#include "metrics/metrics.h"
#include "server/net/bounds.h"
#include "server/net/loop_clock.h"
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
class ConnectionState final : private Handlers::Task {
 public:
  // What the socket must do next.
  enum class Action : std::uint8_t {
    kReceive,     // wait for input, then on_input()
    kSend,        // send output(), as far as it goes without waiting, then on_sent()
    kWaitToSend,  // wait for room, then on_room()
    kWait,        // wait for Owner::act()
    kHalfClose,   // send the end of the stream, then as kReceive
    kClose,
  };
  class Owner {
   public:
    virtual ~Owner() = default;
    // The requests that had to wait are answered. May destroy the connection.
    virtual void act(Action action) = 0;
  };

  ConnectionState(Client client, SharedState& shared, Owner& owner, net::SteadyTime now);
  ~ConnectionState() override;

  Action on_input(std::string_view bytes, net::SteadyTime now);
  Action on_room(net::SteadyTime now);
  // The replies to send. Valid until the next event.
  std::string_view output() const noexcept;
  // `size` bytes of output() were sent. If that is not all of it, the socket has no room.
  Action on_sent(std::size_t size);
  // Returns whether the connection must be closed because it takes too long.
  bool on_tick(net::SteadyTime now);
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

  SharedState& shared_;
  Owner& owner_;
  Phase phase_ = Phase::kIdle;
  bool closing_ = false;  // after the replies are sent
  bool paused_ = false;   // until the replies are sent
  std::uint32_t lingered_ = 0;
  net::SteadyTime now_;
  net::SteadyTime deadline_;
  Client client_;
  RequestReader reader_;
  std::string pending_;   // requests that are not answered yet
  std::size_t done_ = 0;  // bytes of `pending_` that are answered
  std::string unsent_;
};

}  // namespace sluice::server::resp

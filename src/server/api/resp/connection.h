#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "metrics/metrics.h"
#include "server/api/resp/client.h"
#include "server/api/resp/command_handler.h"
#include "server/api/resp/worker_pool.h"
#include "server/logging/log.h"
#include "server/net/bounds.h"
#include "server/net/poller.h"
#include "server/protocol/resp/request_reader.h"

namespace sluice::server::resp {

using SteadyTime = std::chrono::steady_clock::time_point;

// What answers in one event loop: a handler whose store never waits, or a crew of those that may.
class Behind {
 public:
  Behind(CommandHandler& handler) : handler_(&handler) {}
  Behind(Crew& crew) : crew_(&crew) {}

  // One of the two; null: the other.
  CommandHandler* handler() const { return handler_; }
  Crew* crew() const { return crew_; }

 private:
  CommandHandler* handler_ = nullptr;
  Crew* crew_ = nullptr;
};

// What the connections of one listener share in one event loop. Used by that loop's thread only.
struct Shared {
  const Bounds& bounds;
  Behind behind;
  const Users& users;
  metrics::Recorder& recorder;
  Log& log;
  net::Poller& poller;
  std::chrono::milliseconds idle_timeout{0};  // 0: none
  bool draining = false;  // connections end when what they have sent is answered
  std::string input;      // room to read into, for whoever is reading
  SteadyTime handled{};   // when somebody's requests were answered last
};

// A connection that speaks RESP: the shell of a socket and timeouts around a RequestReader.
//
// Requests are answered in their order, as many as have arrived, and their replies leave in one
// write; when 64 KiB of replies wait to be read, requests behind them are not looked at, nor read,
// until the client has taken these, and if it does not, the connection is closed. Waits for one
// thing at a time. Cost: some 400 bytes while idle; a system call to read and one to write for what
// arrives together.
class Connection final : private net::Poller::Source, private Crew::Client {
 public:
  // Who owns it; told when it has come to its end, which destroys it.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void closed(Connection& connection) = 0;
  };

  // Owns the descriptor.
  Connection(int descriptor, resp::Client client, Shared& shared, Owner& owner);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // False: the system has no room for it; destroy it.
  [[nodiscard]] bool start(SteadyTime now);
  // Ends what takes too long. Called some times a second; may destroy it.
  void tick(SteadyTime now);
  // The listener drains: ends soon unless a request is on its way.
  void drain(SteadyTime now);

  std::size_t place = 0;  // the owner's

 private:
  enum class Phase : std::uint8_t { kIdle, kRequest, kDeciding, kWriting, kLingering };

  void ready() override;
  void work(CommandHandler& handler) override;
  void worked() override;
  void receive();
  void take(std::string_view bytes);
  void answer_pending();
  std::size_t answer_all(std::string_view input, CommandHandler& handler, SteadyTime begun);
  void answer_one(CommandHandler& handler);
  void drop_answered(std::size_t done);
  void go_on();
  int flush();
  void linger();
  void discard();
  void enter(Phase phase);
  void wait_for(net::Poller::For what);
  void close() { owner_.closed(*this); }

  Shared& shared_;
  Owner& owner_;
  const int descriptor_;
  Phase phase_ = Phase::kIdle;
  net::Poller::For waits_for_ = net::Poller::For::kInput;
  bool closing_ = false;  // once everything is sent
  bool paused_ = false;   // until the replies before are sent
  std::uint32_t lingered_ = 0;
  SteadyTime now_;
  SteadyTime deadline_;
  resp::Client client_;
  RequestReader reader_;
  std::string pending_;   // of requests that are not answered yet
  std::size_t done_ = 0;  // bytes of `pending_` that a handler of the crew has answered
  std::string unsent_;
};

}  // namespace sluice::server::resp

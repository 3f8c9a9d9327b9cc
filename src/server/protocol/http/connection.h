#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "metrics/metrics.h"
#include "server/net/bounds.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/request_reader.h"
#include "server/protocol/http/workers.h"

namespace sluice::server::http {

class Connection;
using SteadyTime = std::chrono::steady_clock::time_point;

// What stands behind a listener in one event loop: a handler that never waits, or workers, which
// may.
class Behind {
 public:
  Behind(Handler& handler) : handler_(&handler) {}
  Behind(Workers& workers) : workers_(&workers) {}

  // One of the two; null: the other.
  Handler* handler() const { return handler_; }
  Workers* workers() const { return workers_; }

 private:
  Handler* handler_ = nullptr;
  Workers* workers_ = nullptr;
};

// What the connections of one listener share in one event loop. Used by that loop's thread only.
struct Shared {
  const Bounds& bounds;
  Behind behind;
  metrics::Recorder& recorder;
  std::string_view date;  // as the field Date wants it; kept up to date by the loop
  bool draining = false;  // answers end their connections
  std::string input;      // room to read into, for whoever is reading
  std::string output;     // and for answers that never wait, until they are sent
  Response response;
};

// A connection that speaks HTTP/1.1: the shell of sockets and timeouts around a RequestReader.
//
// Waits for one thing at a time: for input, for room to write, or for the answer of a worker. Not
// to be destroyed while it waits for an answer, which nothing cuts short: the store's deadline
// bounds it. Cost: about 1 KiB while idle, and no system call beside one wait, read and write for
// what arrives together; what has to wait has a write of its own.
class Connection final : private Asker {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // Who owns it; told when it has come to its end, which destroys it.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void closed(Connection& connection) = 0;
  };

  Connection(Socket socket, std::string peer, Shared& shared, Owner& owner);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start(SteadyTime now);
  // Ends what takes too long. Called some times a second.
  void tick(SteadyTime now);
  // The listener drains: ends soon unless a request is on its way.
  void drain(SteadyTime now);

  std::size_t place = 0;  // the owner's

 private:
  enum class Phase { kIdle, kHeader, kBody, kDeciding, kWriting, kLingering };

  void wait_for_input();
  void on_input();
  void take(std::string_view bytes);
  void answer_pending(std::size_t done);
  std::size_t answer_all(std::string_view input, std::size_t done);
  bool answer(Request request);
  void answered(const Request& request, const Response& response, Handler& handler) override;
  void go_on() override;
  void refuse(const BadRequest& why);
  void proceed();
  boost::system::error_code flush();
  void wait_for_room();
  void expire();
  void linger();
  void close();
  void enter(Phase phase);
  void settle_phase();
  std::string& output() { return shared_.behind.workers() != nullptr ? unsent_ : shared_.output; }

  Socket socket_;
  std::string peer_;
  Shared& shared_;
  Owner& owner_;
  RequestReader reader_;
  std::string pending_;   // of a request that is not whole yet, or that a worker is at
  std::size_t done_ = 0;  // bytes of `pending_` before the request that a worker is at
  std::string unsent_;
  SteadyTime now_;
  SteadyTime deadline_;
  SteadyTime handled_;  // when the answer before this one was made
  std::size_t requests_ = 0;
  std::size_t lingered_ = 0;
  Phase phase_ = Phase::kIdle;
  bool closing_ = false;    // once everything is sent
  bool paused_ = false;     // until the answers before are sent
  bool continued_ = false;  // 100 Continue was sent
  bool expired_ = false;
  bool broken_ = false;  // nothing can be sent any more; closes once it has its answer
};

}  // namespace sluice::server::http

#pragma once

#include <algorithm>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metrics.h"
#include "server/config/role.h"
#include "server/net/bounds.h"
#include "server/net/connection.h"
#include "server/net/fiber.h"
#include "server/net/listener.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/poller.h"
#include "server/net/worker_pool.h"
#include "server/protocol/http/broadcast.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"

namespace sluice::server::http {

// The bytes that the connections of a loop keep for their clients: requests that are not complete
// or that wait, and responses that the clients have not read. If they exceed a bound, connections
// drop what they keep until the rest is within it, first the one with the largest product of bytes
// and time. A client that is quick therefore keeps its response even if many others are slow.
//
// Thread-safety: one loop's thread. Ownership: borrows the holders. Cost: set() a few instructions;
// beyond the bound, one pass over all holders for each that drops.
class KeptBytes {
 public:
  class Holder {
   public:
    Holder() = default;
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    virtual ~Holder() = default;
    // Releases the bytes, or ends soon what needs them. Must not call set().
    virtual void drop_kept() noexcept = 0;

   private:
    friend class KeptBytes;
    bool is_listed_ = false;
    std::size_t bytes_ = 0;  // its own
    std::shared_ptr<const std::string> text_;
    net::SteadyTime since_;
    std::size_t place_ = 0;
  };

  explicit KeptBytes(std::size_t most) : most_(most) {}
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;

  // Now the holder has these bytes, and the text, which counts once for all holders of it. Call it
  // with none before the holder is destroyed. May call drop_kept() of any holder. Errors:
  // std::bad_alloc, unless it has none.
  void set(Holder& holder, std::size_t bytes, const std::shared_ptr<const std::string>& text,
           net::SteadyTime now);
  std::size_t total() const noexcept { return total_; }

 private:
  void release_text(Holder& holder) noexcept;
  void forget(Holder& holder) noexcept;
  void drop(net::SteadyTime now);

  const std::size_t most_;
  std::size_t total_ = 0;
  std::vector<Holder*> holders_;
  std::map<const std::string*, std::size_t> texts_;  // and the number of their holders
};

// Reads HTTP/1.0 and 1.1 requests from bytes as they arrive. Does no input or output. Refuses
// requests that two readers could understand differently: Content-Length together with
// Transfer-Encoding, codings other than `chunked`, folded fields, a request without Host.
//
// Not thread-safe. Ownership: a complete request consists of views of the bytes that were passed
// last. Cost: reads each byte once, except for a header that arrives in pieces; copies a body only
// if it comes in chunks.
class RequestReader {
 public:
  using Progress = ReadProgress;

  // Bounds the bytes of a header and of a body. Borrows the bounds.
  explicit RequestReader(const Bounds& bounds);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Continues with `message`: all bytes from the first byte of the request on, including those that
  // were passed before. They may have moved. After kReady use request() and size(), then call
  // next().
  Progress read(std::string_view message);
  // Returns how many bytes the complete request took.
  std::size_t size() const noexcept { return at_; }
  // Returns the request, valid until next(). The caller sets its `peer`.
  Request& request() noexcept { return request_; }
  // Why the request is bad. The connection ends after it.
  const Problem& bad() const noexcept { return bad_; }

  // Returns whether the header of the request is complete.
  bool has_header() const noexcept;
  // Returns whether the client waits for 100 Continue before it sends the body.
  bool expects_continue() const noexcept { return expects_; }

  // Prepares for the next request.
  void next();

 private:
  class Parser;

  void follow(std::string_view message) noexcept;
  Progress more();
  Progress refuse(const Problem& why);

  const Bounds& bounds_;
  const std::unique_ptr<Parser> parser_;
  std::string_view message_;
  std::size_t at_ = 0;         // bytes of it that are read
  std::vector<Field> fields_;  // of the request
  std::string chunks_;         // the body if it came in chunks
  Request request_;
  bool expects_ = false;
  Problem bad_;
};

// Appends the bytes of the response before its body. `date` is the value of Date, `version` that of
// the request.
void append_head(std::string& out, const Response& response, std::string_view date, bool keep_alive,
                 int version = 11);

using Handlers = net::WorkerPool<Handler>;

// What a front end serves.
struct Options {
  const Bounds& bounds;
  std::function<std::unique_ptr<Handler>()> make = {};
  std::optional<net::FiberPool::Options> fibers = {};  // if handlers may wait
  RoleOfCertificate role_of_certificate = {};          // for clients with certificates
};

// What the connections of one listener share in one event loop. Used by that loop's thread only.
struct SharedState : Options {
  Peer peer_of(const net::Accepted& accepted) const {
    return {accepted.peer.host(), role_of(accepted.certificate_names(), role_of_certificate),
            accepted.descriptor};
  }
  // The duration of a request counts from the response before it in the same turn of the loop.
  net::SteadyTime time_of_event(const net::Poller& poller) const {
    return std::max(poller.now(), answered);
  }

  // Keeps the date. Call it a few times a second, and before the first connection.
  void tick();

  Handlers& handlers;
  metrics::Recorder& recorder;
  const net::LoopClock& clock;
  std::string date = {};       // the value of the field Date
  bool draining = false;       // the next response of a connection is its last
  net::SteadyTime answered{};  // when the last response was written
  std::time_t date_second = -1;
  std::string output = {};  // responses that are not sent yet, if the handlers never wait
  KeptBytes kept{std::size_t{32} << 20};
  Response refusal = {};
};

// A connection that speaks HTTP/1.1, without its socket: takes events, returns actions.
//
// Requests are answered in their order. Responses to requests that arrive together are sent
// together. When 64 KiB of responses wait, later requests are not answered until these are sent.
// Must not be destroyed while it waits for a handler, which nothing cuts short: the store's
// deadline bounds that wait. If the connections of the loop keep too many bytes, those that keep
// many for long close, and their requests that wait for units are denied; requests that wait for a
// handler are not answered. Without memory it closes,
// after the response 503 if a handler found none. While it receives a broadcast, it keeps at most
// the bytes of one send(), and closes if the client has not taken them within the write timeout.
// Cost: about 1 KiB while idle.
class ConnectionState final : public net::StreamState,
                              private Handlers::Task,
                              private Broadcast::Receiver,
                              private KeptBytes::Holder {
 public:
  using Action = net::Action;
  using Shared = SharedState;
  using Handlers = http::Handlers;
  using Peer = server::Peer;
  static constexpr std::string_view kRefusal =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
      "Content-Length: 106\r\nConnection: close\r\nRetry-After: 1\r\n\r\n"
      R"({"type":"about:blank","title":"Service Unavailable","status":503,)"
      R"("detail":"too many connections at once"})"
      "\n";
  static constexpr std::string_view kNeedsTls =
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n"
      "Content-Length: 74\r\nConnection: close\r\n\r\n"
      R"({"type":"about:blank","title":"expected https on this port","status":400})"
      "\n";

  ConnectionState(Peer peer, SharedState& shared, net::Act act, net::SteadyTime now);
  ~ConnectionState() override;

  Action on_input(std::string_view bytes, net::SteadyTime now);
  Action on_room(net::SteadyTime now);
  // The responses to send. Valid until the next event.
  std::string_view output();
  // `size` bytes of output() were sent. If that is not all of it, the socket has no room, or is
  // broken.
  Action on_sent(std::size_t size, bool broken = false);
  Action on_expired(net::SteadyTime now);
  bool is_answering() const noexcept { return handler_ != nullptr; }
  void on_end_of_input() { handler_->stop_waiting(); }
  // The server is draining.
  void on_drain(net::SteadyTime now);
  void on_closed() noexcept { leave(); }
  bool is_broadcast() const noexcept { return broadcast_ != nullptr; }

 private:
  enum class Phase : std::uint8_t {
    kIdle,
    kHeader,
    kBody,
    kAnswering,
    kSending,
    kReceiving,
    kLingering
  };

  void work(Handler& handler) override;
  bool finish(Handler& handler) override;
  void resume() override;
  bool wanted() const override { return !pending_.empty(); }  // else drop_kept() has released it
  void dropped() override;
  void receive(std::string_view bytes) override;
  void end() override;
  void drop_kept() noexcept override;
  void leave() noexcept;
  void answer_input(std::string_view bytes);
  void answer_pending(std::size_t done);
  std::size_t answer_all(std::string_view input, std::size_t done);
  bool read_next(std::string_view input);
  void refuse(const Problem& why);
  void fail() noexcept;
  Action take_sent(std::size_t size, bool broken);
  void count_kept();
  Action settle();
  Action linger();
  void enter(Phase phase);
  std::chrono::milliseconds time_for(Phase phase) const;
  std::string& responses() { return shared_.handlers.waits() ? unsent_ : shared_.output; }

  SharedState& shared_;
  const Peer peer_;
  Handler* handler_ = nullptr;      // during work()
  Broadcast* broadcast_ = nullptr;  // the response that goes on
  RequestReader reader_;
  std::string pending_;   // of requests that are not complete or not answered
  std::size_t done_ = 0;  // bytes of `pending_` before the request that is being answered
  std::string unsent_;
  std::shared_ptr<const std::string> unsent_text_;  // after `unsent_`
  std::size_t text_sent_ = 0;                       // bytes of `unsent_text_`
  net::SteadyTime answered_;                        // when the previous response was written
  std::size_t requests_ = 0;
  Phase phase_ = Phase::kIdle;
  bool continued_ = false;  // 100 Continue was sent
  // Nothing can be sent, or what was kept is dropped; closes after the current request is answered.
  bool broken_ = false;
};

// A connection that speaks HTTP/1.1.
using Connection = net::Connection<ConnectionState>;

// HTTP in one event loop.
using FrontEnd = net::Listener<Connection>;

}  // namespace sluice::server::http

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "server/net/fiber.h"
#include "server/protocol/http/message.h"

namespace sluice::server::http {

// Whose request it is: a connection.
class Asker {
 public:
  virtual ~Asker() = default;
  // The answer. Views and references end with the return; asks for nothing meanwhile.
  virtual void answered(const Request& request, const Response& response, Handler& handler) = 0;
  // After answered(), where ask() had returned before: goes on with what comes next. May ask again,
  // and may destroy the asker.
  virtual void go_on() = 0;
};

// Handlers that may wait for their answers, in one event loop: each with a fiber to wait on and
// buffers of its own. They are made as they are needed; who finds none free waits for one in turn.
//
// Thread-safety: the loop's thread only, but for the constructor. Ownership: owns the handlers; no
// request is under way when it is destroyed. Cost: some 100 ns a request; a worker keeps its stack,
// as much of it as was used, and its handler.
class Workers {
 public:
  using Make = std::function<std::unique_ptr<Handler>()>;

  // Makes the first handler. Errors: std::bad_alloc, and what `make` throws.
  Workers(Make make, const net::FiberPool::Options& fibers);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Whether the asker has been told the answer already. If not, the request's bytes and the asker
  // stay where they are until it is.
  bool ask(Asker& asker, const Request& request);

  // Makes the handlers anew, as what they were made by has changed: those at work when they are
  // done. At least one there always is.
  void renew();

 private:
  class Worker;
  struct Waiting {
    Asker* asker;
    Request request;
  };

  void add();
  bool start(Asker& asker, const Request& request, bool* at_once);
  void finished(Worker& worker);
  void serve_waiting();
  void drop(const Worker& worker);
  void retire(const Worker& worker);

  const Make make_;
  const std::size_t most_;
  net::FiberPool fibers_;
  std::vector<std::unique_ptr<Worker>> all_;
  std::vector<Worker*> free_;  // the one that was used last is the next
  std::deque<Waiting> waiting_;
  std::uint64_t generation_ = 0;
  bool serving_ = false;
};

}  // namespace sluice::server::http

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "server/net/fiber.h"
#include "server/protocol/grpc/message.h"

namespace sluice::server::grpc {

// Whose call it is: a stream.
class Asker {
 public:
  virtual ~Asker() = default;
  // What is asked. Its views stay where they are until answered().
  virtual const Call& call() const = 0;
  // Whether anybody still waits for the answer: asked before work on it begins.
  virtual bool wanted() const = 0;
  // The answer, or null where it was not wanted(). The reply ends with the return, which may end
  // the asker too; it asks for nothing meanwhile.
  virtual void answered(const Reply* reply, Handler* handler) = 0;
};

// Handlers that may wait for their answers, in one event loop: each with a fiber to wait on and
// buffers of its own. They are made as they are needed; who finds none free waits for one in turn.
//
// Thread-safety: the loop's thread only, but for the constructor. Ownership: owns the handlers; no
// call is under way when it is destroyed. Cost: as http::Workers.
class Workers {
 public:
  using Make = std::function<std::unique_ptr<Handler>()>;

  // Makes the first handler. Errors: std::bad_alloc, and what `make` throws.
  Workers(Make make, const net::FiberPool::Options& fibers);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Begins it, or puts it in the queue; answered() may come before it returns.
  void ask(Asker& asker);

  // Makes the handlers anew, as what they were made by has changed: those at work when they are
  // done. At least one there always is.
  void renew();

 private:
  class Worker;

  void add();
  bool start(Asker& asker);
  void finished(Worker& worker);
  void serve_waiting();
  void drop(const Worker& worker);

  const Make make_;
  const std::size_t most_;
  net::FiberPool fibers_;
  std::vector<std::unique_ptr<Worker>> all_;
  std::vector<Worker*> free_;  // the one that was used last is the next
  std::deque<Asker*> waiting_;
  std::uint64_t generation_ = 0;
  bool serving_ = false;
};

}  // namespace sluice::server::grpc

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "server/net/worker_pool.h"
#include "server/protocol/grpc/message.h"

namespace sluice::server::grpc {

// A handler and the buffers of its reply.
class Worker {
 public:
  explicit Worker(std::unique_ptr<Handler> made) : handler(std::move(made)) {}

  void follow_rules() { handler->follow_rules(); }
  void recycle() {
    reply.clear();
    if (reply.bytes.capacity() > kMostKept) reply.bytes = std::string();
  }

  const std::unique_ptr<Handler> handler;
  Reply reply;

 private:
  // Larger buffers are released.
  static constexpr std::size_t kMostKept = std::size_t{64} << 10;
};

using Handlers = net::WorkerPool<Worker>;

}  // namespace sluice::server::grpc

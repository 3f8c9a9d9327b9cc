#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "server/net/worker_pool.h"
#include "server/protocol/http/message.h"

namespace sluice::server::http {

// A handler, the request that it answers and the buffers of its response.
class Worker {
 public:
  explicit Worker(std::unique_ptr<Handler> made) : handler(std::move(made)) {}

  void follow_rules() { handler->follow_rules(); }
  void recycle() {
    response.clear();
    if (response.text.capacity() > kMostKept) response.text = std::string();
  }

  const std::unique_ptr<Handler> handler;
  Request request;
  Response response;

 private:
  // Larger buffers are released.
  static constexpr std::size_t kMostKept = std::size_t{64} << 10;
};

using Handlers = net::WorkerPool<Worker>;

}  // namespace sluice::server::http

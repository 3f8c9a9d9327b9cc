#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "limiter/text_buffer.h"
#include "server/net/worker_pool.h"
#include "server/protocol/resp/client.h"

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

}  // namespace sluice::server::resp

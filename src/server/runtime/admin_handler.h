#pragma once

#include <utility>

#include "metrics/metrics.h"
#include "server/api/admin/admin_endpoint.h"
#include "server/api/operations/operations.h"
#include "server/logging/log.h"
#include "server/protocol/http/access.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// Answers the requests of the administration's listener: the operations, which need no token, and
// the administration. Ownership: borrows its parts.
class AdminHandler final : public http::Handler {
 public:
  struct Parts {
    AdminEndpoint::Parts endpoint;
    Operations operations;
    const Access& access;
    metrics::Recorder& recorder;
    Log& log;
  };
  explicit AdminHandler(Parts parts)
      : operations_(parts.operations),
        access_(parts.access),
        recorder_(parts.recorder),
        log_(parts.log),
        endpoint_(std::move(parts.endpoint)) {}

  void handle(const http::Request& request, http::Response& response) override;
  void finished(const http::Request& request, const http::Response& response,
                std::chrono::nanoseconds took) override;

 private:
  Operations operations_;
  const Access& access_;
  metrics::Recorder& recorder_;
  Log& log_;
  AdminEndpoint endpoint_;
};

}  // namespace sluice::server

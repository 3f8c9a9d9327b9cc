#pragma once

#include <string>

#include "server/api/envoy/rls_service.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// POST /json: a RateLimitRequest and its answer as protobuf's JSON has them. 200 where the request
// may pass, 429 where it may not, 400 for one that is none, 503 where the store cannot decide and
// its policy is `error`.
//
// One for an event loop, as its service. Ownership: borrows the service.
class JsonEndpoint {
 public:
  explicit JsonEndpoint(RlsService& service) : service_(service) {}

  void handle(const http::Request& request, http::Response& response);

 private:
  RlsService& service_;
  std::string message_;
  std::string reply_;
};

}  // namespace sluice::server

#pragma once

#include <string>

#include "server/api/envoy/rls_service.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// POST /json: a RateLimitRequest and its answer in protobuf's JSON format. Returns 200 if the
// request may pass, 429 if not, 400 if the body is not a request, and 503 if the store cannot
// decide and its policy is `error`.
//
// There is one for each event loop, like its service. Ownership: borrows the service.
class JsonEndpoint {
 public:
  explicit JsonEndpoint(RlsService& service) : service_(service) {}

  // `may_operate`: see RlsService::call().
  void handle(const http::Request& request, bool may_operate, http::Response& response);

 private:
  RlsService& service_;
  std::string message_;
  std::string reply_;
  Buffers buffers_;
};

}  // namespace sluice::server

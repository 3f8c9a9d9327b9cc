#pragma once

#include "limiter/text_buffer.h"
#include "server/api/check/check_request.h"
#include "server/decide/session.h"
#include "server/protocol/http/message.h"
#include "sluice/rule_http_fields.h"

namespace sluice::server {

// POST /v1/check and /v1/settle, which answer programs in JSON (docs/http.md). For one request it
// returns the answer with the status and the header fields of any other endpoint; for an array it
// returns an array of answers and 200.
//
// There is one for each event loop. Ownership: borrows the session. Cost: the decisions, and a few
// instructions for each byte. Allocates nothing once its buffers have grown, unless the request is
// refused.
class CheckEndpoint {
 public:
  explicit CheckEndpoint(Session& session) : session_(session) {}

  // `may_operate`: the client may do more than peek and take one unit.
  void handle(CheckKind kind, const http::Request& request, bool may_operate,
              http::Response& response);

 private:
  class Decider;

  Session& session_;
  CheckReader reader_;
  RuleHttpFields fields_;
  TextBuffer text_;
};

}  // namespace sluice::server

#pragma once

#include "server/api/check/check_request.h"
#include "server/decide/answer_fields.h"
#include "server/decide/session.h"
#include "server/protocol/http/message.h"
#include "server/text/text_buffer.h"

namespace sluice::server {

// POST /v1/check, where programs ask in JSON (docs/http.md): one request and its answer, with the
// status and the fields of any other endpoint, or an array of them and 200.
//
// One for an event loop. Ownership: borrows the session. Cost: that of the decisions, and some
// instructions a byte; nothing is allocated once its buffers have grown, unless it is refused.
class CheckEndpoint {
 public:
  explicit CheckEndpoint(Session& session) : session_(session) {}

  void handle(const http::Request& request, http::Response& response);

 private:
  class Decider;

  Session& session_;
  CheckReader reader_;
  AnswerFields fields_;
  TextBuffer text_;
};

}  // namespace sluice::server

#pragma once

#include <optional>
#include <string_view>

#include "limiter/text_buffer.h"
#include "server/api/check/check_request.h"
#include "server/decide/session.h"
#include "server/net/fiber_sleep.h"
#include "server/protocol/http/message.h"
#include "sluice/http_fields.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// Writes an answer of POST /v1/check: one JSON object (docs/http.md). `with_taken`: of
// take_at_most.
void put_check_answer(TextBuffer& out, const RuleAnswer& answer, bool with_taken = false);

// The same for a limit of the request itself, which has no rule. `permit` may be empty.
void put_limit_answer(TextBuffer& out, const NamedDecision& limit, std::string_view permit,
                      bool with_taken);

// POST /v1/release and /v1/extend: end a permit that /v1/check has handed out, or start its lease
// again. The body is {"permit":"TEXT"} (docs/http.md).
void answer_permit(bool releases, Session& session, const http::Request& request,
                   http::Response& response);

// POST /v1/check, /v1/settle and /v1/report, which answer programs in JSON (docs/http.md). For one
// request it returns the answer with the status and the header fields of any other endpoint; for an
// array it returns an array of answers and 200.
//
// There is one for each event loop. Ownership: borrows the session. Cost: the decisions, and a few
// instructions for each byte. A request that waits needs a fiber. Allocates nothing once its
// buffers have grown, unless the request is refused.
class CheckEndpoint {
 public:
  // `sleeps`: for requests that wait for units, which the session allows; null: none may wait.
  explicit CheckEndpoint(Session& session, net::FiberSleeps* sleeps = nullptr)
      : session_(session), sleeps_(sleeps) {}

  // `may_operate`: the client may do more than peek and take one unit.
  void handle(CheckKind kind, const http::Request& request, bool may_operate,
              http::Response& response);

  // Ends the wait of the request that is being answered, if it waits.
  void stop_waiting() {
    if (sleep_) sleep_->stop();
  }

 private:
  void answer(CheckKind kind, const CheckRequest& request, bool alone, http::Response& response);
  void answer_limit(const CheckRequest& request, http::Response& response);
  const RuleAnswer& decide(CheckKind kind, const CheckRequest& request);

  Session& session_;
  net::FiberSleeps* const sleeps_;
  std::optional<net::FiberSleep> sleep_;  // of the request that waits
  bool is_in_array_ = false;              // the request that is being decided
  CheckReader reader_;
  RuleHttpFields fields_;
  HttpFields limit_fields_;  // of a limit of the request itself
  TextBuffer text_;
};

}  // namespace sluice::server

#pragma once

#include "server/api/auth/forwarded_attributes.h"
#include "server/decide/answer_fields.h"
#include "server/decide/session.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// /v1/auth, where gateways ask whether a request may pass (docs/attributes.md): 200 or the rule's
// status, 403 in its place with `?deny=403`; the fields of the answer; no body but the rule's own.
//
// One for an event loop. Ownership: borrows its parts; the answer's body is valid until the
// session's next decision. Cost: that of the decision; nothing is allocated once its buffers have
// grown.
class AuthEndpoint {
 public:
  AuthEndpoint(Session& session, const TrustedProxies& trusted)
      : session_(session), attributes_(trusted) {}

  void handle(const http::Request& request, http::Response& response);

 private:
  Session& session_;
  ForwardedAttributes attributes_;
  AnswerFields fields_;
};

}  // namespace sluice::server

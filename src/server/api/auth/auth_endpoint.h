#pragma once

#include "server/api/auth/forwarded_attributes.h"
#include "server/decide/session.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/http/message.h"
#include "sluice/rule_http_fields.h"

namespace sluice::server {

// /v1/auth, which answers gateways whether a request may pass (docs/attributes.md): 200 or the
// rule's status, or 403 instead of it with `?deny=403`; the header fields of the answer; no body
// except for the rule's own, or what is wrong. X-Sluice-Cost of a trusted proxy is the cost of
// limits with `cost: request`.
//
// There is one for each event loop. Ownership: borrows its parts; the answer's body is valid until
// the session's next decision. Cost: the decision. Allocates nothing once its buffers have grown.
class AuthEndpoint {
 public:
  AuthEndpoint(Session& session, const TrustedProxies& trusted)
      : session_(session), trusted_(trusted), attributes_(trusted) {}

  void handle(const http::Request& request, http::Response& response);
  // Counts the response of a request that is described in the same way: /v1/report?status=401. Its
  // fields are in X-Sluice-Response-NAME.
  void report(const http::Request& request, http::Response& response);

 private:
  std::optional<RequestCosts> read(const http::Request& request, http::Response& response);

  Session& session_;
  const TrustedProxies& trusted_;
  ForwardedAttributes attributes_;
  RuleHttpFields fields_;
};

}  // namespace sluice::server

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ip_address.h"
#include "base/request_target.h"
#include "server/decide/session.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/message.h"
#include "sluice/attributes.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// The attributes of the request that a gateway asks about by forward-auth (docs/attributes.md):
// method, path, host, ip, header.*, query.*, cookie.*.
//
// There is one for each event loop; not thread-safe. begin() starts the next request. Values are
// computed when they are asked for: path, host and ip once, the others each time. Ownership:
// borrows the request and the proxies. The result of find() is valid until the next begin(). Cost:
// allocates nothing once its buffers have grown.
class ForwardedAttributes final : public AttributeSource {
 public:
  explicit ForwardedAttributes(const TrustedProxies& trusted) : trusted_(&trusted) {}

  // Returns what is wrong with the gateway's description of the request, or an empty text.
  [[nodiscard]] std::string_view begin(const http::Request& request);
  std::optional<std::string_view> find(std::string_view name) const override;

 private:
  std::optional<std::string_view> path() const;
  std::optional<std::string_view> host() const;
  std::optional<std::string_view> ip() const;
  std::string_view authority() const;

  const TrustedProxies* trusted_;
  const http::Request* request_ = nullptr;
  bool is_forwarded_ = false;  // by X-Forwarded-Uri, X-Forwarded-Method and X-Forwarded-Host
  std::string_view method_;
  base::RequestTarget target_;

  // The values of this request that have been computed.
  mutable std::optional<std::string_view> path_;
  mutable std::optional<std::string_view> host_;
  mutable std::optional<std::string_view> ip_;
  mutable std::string path_buffer_;
  mutable std::string host_buffer_;
  mutable base::AddressText ip_buffer_;
  mutable Buffers buffers_;
};

// /v1/auth, which answers gateways whether a request may pass (docs/attributes.md): 200 or the
// rule's status, or 403 instead of it with `?deny=403`, and X-Sluice-Status if the
// rule's is 403, too; the header fields of the answer; no body
// except for the rule's own, or what is wrong. X-Sluice-Cost of a trusted proxy is the cost of
// limits with `cost: request`.
//
// There is one for each event loop. Ownership: borrows its parts; the answer's body is valid until
// the session's next decision. Cost: the decision. Allocates nothing once its buffers have grown.
class AuthEndpoint {
 public:
  AuthEndpoint(Session& session, const TrustedProxies& trusted, Log& log)
      : session_(session), trusted_(trusted), log_(log), attributes_(trusted) {}

  void handle(const http::Request& request, http::Response& response);
  // Counts the response of a request that is described in the same way: /v1/report?status=401. Its
  // fields are in X-Sluice-Response-NAME.
  void report(const http::Request& request, http::Response& response);

 private:
  std::optional<RequestCosts> read(const http::Request& request, http::Response& response);
  void warn_of_peer(const http::Request& request);

  Session& session_;
  const TrustedProxies& trusted_;
  Log& log_;
  ForwardedAttributes attributes_;
  RuleHttpFields fields_;
};

}  // namespace sluice::server

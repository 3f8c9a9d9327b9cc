#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/config/role.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {

// Who may do what at a listener of HTTP or gRPC (docs/http.md).
//
// A client has the role of its token and of its certificate. Without either it may request
// decisions of one unit, and operate if only this machine reaches the listener.
//
// Thread-safety: const, so any thread. Ownership: borrows the clients and the hosts. Cost: a
// comparison with each token if there is a token.
class Access {
 public:
  enum class Reach : std::uint8_t { kUnixSocket, kLoopback, kNetwork };

  // `hosts` are names of this server, in lower case.
  Access(Reach reach, std::span<const KnownClient> clients, std::span<const std::string> hosts)
      : reach_(reach), clients_(clients), hosts_(hosts) {}

  // Returns why an HTTP request of any client must not be answered (403), or nothing: a web page of
  // another site may have sent it. Browsers mark such requests by Origin and Sec-Fetch-Site. An
  // Origin with the host of the request is the page's own server. A web page could reach a listener
  // on loopback under a host name of its own (DNS rebinding), so the host must be localhost, a
  // loopback address or one of `hosts` there. HTTP/1.0 needs no host.
  std::optional<Problem> find_refusal(const http::Request& request) const;
  // The same for a request in which a gateway describes another one. Gateways may send any host and
  // pass on the fields of browsers, so only a request that a browser may have sent needs a known
  // host: one with Origin, Sec-Fetch-... or Accept-Language, which no page can omit from every
  // request. A gateway shows by Sec-Sluice-Gateway, which no page can set, that it is not a
  // browser.
  std::optional<Problem> find_gateway_refusal(const http::Request& request) const;
  // Returns the role of the client that sent `Authorization: ...`, empty if it sent none, on a
  // connection with the role of a certificate. Returns nothing if the token is unknown (401).
  std::optional<Role> role_of(std::string_view authorization,
                              Role certificate_role = Role::kNobody) const noexcept;
  std::optional<Role> role_of(const http::Request& request) const;
  // Returns the role of the client whose certificate has one of these names, or kNobody.
  Role role_of_certificate(std::span<const std::string> names) const noexcept;
  // Returns whether no client can operate.
  bool nobody_operates() const noexcept;

 private:
  bool nobody_has_a_token() const noexcept;

  const Reach reach_;
  const std::span<const KnownClient> clients_;
  const std::span<const std::string> hosts_;
};

// What a refused client reads.
inline constexpr std::string_view kUnknownToken =
    "the token is unknown; expected that of one of `clients` in the configuration";
inline constexpr std::string_view kNeedsOperate =
    "the role operate is required, because other machines reach this listener; add the client with "
    "its token or certificate and this role to `clients` in the configuration, and send "
    "Authorization: Bearer TOKEN";

}  // namespace sluice::server

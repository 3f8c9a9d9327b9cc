#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {

// Returns why a request that a web page of another site may have sent is refused (403), or nothing.
// Browsers mark such requests by Origin and Sec-Fetch-Site. An Origin with the host of the request
// is the page's own server.
std::optional<Problem> find_web_page(const http::Request& request);

// Returns why a request to a listener on loopback is refused (403), or nothing. A web page could
// reach the listener under a host name of its own (DNS rebinding), so the host must be localhost, a
// loopback address or one of `hosts`, which are in lower case. HTTP/1.0 needs no host.
std::optional<Problem> find_foreign_host(const http::Request& request,
                                         std::span<const std::string> hosts);

// As find_foreign_host(), for a request in which a gateway describes another one. Gateways may send
// any host and pass on the fields of browsers, so only a request that a browser may have sent needs
// a known host: one with Origin, Sec-Fetch-... or Accept-Language, which no page can omit from
// every request. A gateway shows by Sec-Sluice-Gateway, which no page can set, that it is not a
// browser.
std::optional<Problem> find_page_as_gateway(const http::Request& request,
                                            std::span<const std::string> hosts);

}  // namespace sluice::server

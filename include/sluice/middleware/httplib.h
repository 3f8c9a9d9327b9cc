#pragma once

#include <httplib.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/request_decision.h"

namespace sluice {

// Returns the limits that apply to a request; none: it is not limited. Called by several threads.
using HttplibCharges = std::function<std::vector<NamedCharge>(const httplib::Request& request)>;

// Returns a handler that limits the requests of a server made with cpp-httplib:
//
//   server.set_pre_routing_handler(sluice::httplib_limits(limiter, [](const auto& request) {
//     return std::vector{sluice::NamedCharge{"client", request.remote_addr, kPerClient}};
//   }));
//
// It runs before the handler of the path. A request that does not pass gets 429, or 503 if the
// store could not decide, with a line of text; the handler of its path does not run. Every response
// has the fields of the decision. The response to such a request with a body ends the connection,
// because the server has not read the body; do not replace its text in an error handler.
//
// Thread-safety: as the server needs it; `charges` must be callable from any thread. Ownership:
// borrows the limiter, which must outlive the server. Cost and errors: those of RequestDecision for
// each request.
inline httplib::Server::HandlerWithResponse httplib_limits(
    Limiter& limiter, HttplibCharges charges, HeaderFields wanted = HeaderFields::kBoth) {
  return [&limiter, charges = std::move(charges), wanted](const httplib::Request& request,
                                                          httplib::Response& response) {
    RequestDecision decision(limiter, charges(request));
    for (const auto& [name, value] : decision.fields(wanted)) {
      response.set_header(std::string(name), std::string(value));
    }
    if (decision.allowed()) return httplib::Server::HandlerResponse::Unhandled;
    response.status = decision.status();
    std::string text = std::string(decision.detail()) + '\n';
    if (request.has_header("Content-Length") || request.has_header("Transfer-Encoding")) {
      // The server would read the body as the next request. A provider that fails is what makes it
      // end the connection; one with a length is not called for some values of the field Range.
      response.set_header("Connection", "close");
      response.set_content_provider("text/plain",
                                    [text = std::move(text)](std::size_t, httplib::DataSink& sink) {
                                      sink.write(text.data(), text.size());
                                      return false;
                                    });
    } else {
      response.set_content(text, "text/plain");
    }
    return httplib::Server::HandlerResponse::Handled;
  };
}

}  // namespace sluice

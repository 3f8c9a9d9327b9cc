#pragma once

#include <boost/beast/http.hpp>
#include <string>

#include "sluice/request_decision.h"

namespace sluice {

// For servers made with Boost.Beast. A handler decides its request, answers with beast_refusal() if
// it does not pass, and else puts the fields into its own response:
//
//   sluice::RequestDecision decision(limiter, {{"user", user_of(request), kPerUser}});
//   if (!decision.allowed()) return sluice::beast_refusal(request, decision);
//   ...
//   sluice::put_fields(response, decision);
//
// Thread-safety and cost of both functions: those of RequestDecision::fields.

// Puts the fields of a decision into the header of a response, in place of those with the same
// name.
template <typename Fields>
void put_fields(boost::beast::http::header<false, Fields>& response, RequestDecision& decision,
                HeaderFields wanted = HeaderFields::kBoth) {
  for (const auto& [name, value] : decision.fields(wanted)) {
    response.set(boost::beast::string_view(name.data(), name.size()),
                 boost::beast::string_view(value.data(), value.size()));
  }
}

// Returns the complete response to a request that does not pass: its status, fields and a line of
// text, which it leaves out in reply to HEAD. It keeps the connection open if the request does.
template <typename Body, typename Fields>
boost::beast::http::response<boost::beast::http::string_body> beast_refusal(
    const boost::beast::http::request<Body, Fields>& request, RequestDecision& decision,
    HeaderFields wanted = HeaderFields::kBoth) {
  namespace http = boost::beast::http;
  http::response<http::string_body> response(http::int_to_status(decision.status()),
                                             request.version());
  put_fields(response, decision, wanted);
  response.set(http::field::content_type, "text/plain");
  response.keep_alive(request.keep_alive());
  response.body() = std::string(decision.detail()) + '\n';
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();  // its length stays
  return response;
}

}  // namespace sluice

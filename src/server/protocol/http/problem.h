#pragma once

#include <string>
#include <string_view>

#include "server/protocol/http/message.h"

namespace sluice::server {

inline constexpr std::string_view kProblemType = "application/problem+json";

// The body of an error response (RFC 9457). In UTF-8.
struct Problem {
  int status = 400;
  std::string_view detail = {};  // the error and how to correct it
  std::string_view title = {};   // empty: the phrase of the status, or "Error"
  std::string_view type = {};    // a URI; empty: "about:blank"
};

// Returns "OK", "Too Many Requests", ...; empty if the status has no usual phrase.
std::string_view reason_phrase(int status) noexcept;

// Appends the problem as a JSON object. `members` adds more members: `"name":value,...`.
void append_problem(std::string& out, const Problem& problem, std::string_view members = {});

// Answers a request with the problem as the body.
void answer_problem(http::Response& response, const Problem& problem);
// Answers a request that is not accepted, because it is wrong or its client may not send it. The
// handler counts and logs it.
void refuse_request(http::Response& response, const Problem& problem);

}  // namespace sluice::server

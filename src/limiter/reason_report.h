#pragma once

#include <string_view>

#include "sluice/decision.h"

namespace sluice {

// How the front ends report a reason.
struct ReasonReport {
  // The status of an HTTP answer that is not allowed. The `reject` of a rule replaces it, unless
  // the request is invalid.
  int http = 429;
  // The status of a gRPC call by its number in the protocol: OK if the message says the rest.
  int grpc = 0;
  // The error of a RESP command that no rule answers for. Empty: the reply is the decision.
  std::string_view resp_error = {};
  // The problem+json of an HTTP answer that is not allowed: its type and title ("about:blank" and
  // the title of the status if empty) and what happened.
  std::string_view type = {};
  std::string_view title = {};
  std::string_view detail = {};
};

// The only table of reasons and statuses.
const ReasonReport& report_of(Reason reason) noexcept;

}  // namespace sluice

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.h"
#include "sluice/http_fields.h"
#include "sluice/limiter.h"

namespace sluice {

// A limit that applies to a request of a server. A plain value that owns its texts.
struct NamedCharge {
  std::string name;  // by which clients know the limit (NamedDecision::name)
  std::string key;   // of the counter: any bytes; two limits of one algorithm need different keys
  Limit limit;
  std::uint64_t cost = 1;  // units
};

// The decision on one request of a server, and what its response reports. The middleware for web
// servers and for gRPC (sluice/middleware) is made of it.
//
//   sluice::RequestDecision decision(limiter, {{"user", user, kPerUser}, {"all", "", kAll}});
//   if (!decision.allowed()) return refuse(decision.status(), decision.detail());
//
// All limits are one all-or-nothing decision. A request without limits is allowed. If the store
// could not decide, the request is not allowed, and the status is 503: give the limiter a store
// with a failure policy for another answer.
//
// Thread-safety: one thread at a time. Ownership: owns its texts and charges; borrows the limiter
// during the constructor. Cost: one request to the store, and a few allocations. Errors: those of
// the store are in the decision; std::bad_alloc.
class RequestDecision {
 public:
  // Takes the units of all limits, or none.
  RequestDecision(Limiter& limiter, std::vector<NamedCharge> charges);

  // The decision of the whole request.
  const Decision& decision() const noexcept { return decision_; }
  // Whether the request passes.
  bool allowed() const noexcept { return decision_.allowed(); }
  // Returns the status of the HTTP response; see http_status().
  int status() const noexcept { return http_status(decision_); }
  // Returns the code of a gRPC status: 0 (OK), 8 (RESOURCE_EXHAUSTED), 14 (UNAVAILABLE: the store
  // could not decide), 3 (INVALID_ARGUMENT).
  int grpc_code() const noexcept;
  // Returns a sentence for the client that says why the request does not pass.
  std::string_view detail() const noexcept;
  // Returns the header fields of the response. They are valid until the next call.
  std::span<const HttpField> fields(HeaderFields wanted = HeaderFields::kBoth);

 private:
  std::vector<NamedCharge> charges_;
  std::vector<NamedDecision> limits_;
  Decision decision_;
  HttpFields fields_;
};

// Returns the details of a gRPC status: a serialized google.rpc.Status with this code and message,
// and with a google.rpc.RetryInfo if there is a wait. Needs
// neither gRPC nor protobuf. Clients find it in the trailer `grpc-status-details-bin`.
std::string grpc_status_details(int code, std::string_view message,
                                std::optional<Duration> retry_after);

}  // namespace sluice

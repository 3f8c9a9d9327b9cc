#include "limiter/reason_report.h"

namespace sluice {
namespace {

constexpr int kGrpcInvalidArgument = 3;
constexpr int kGrpcNotFound = 5;
constexpr int kGrpcUnavailable = 14;

constexpr ReasonReport kLimited{
    .type = "https://iana.org/assignments/http-problem-types#quota-exceeded",
    .title = "Quota exceeded",
    .detail = "The request exceeds what these policies allow for now."};

constexpr ReasonReport kNever{
    .type = kLimited.type,
    .title = kLimited.title,
    .detail = "The request costs more than these policies ever allow at once."};

constexpr ReasonReport kBlocked{
    .type = kLimited.type,
    .title = "Blocked",
    .detail = "The client is blocked for a time, after too many denied requests or by hand."};

constexpr ReasonReport kFallback{
    .type = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    .title = "Temporarily reduced capacity",
    .detail = "The server could not decide whether the request is within its limits."};

constexpr ReasonReport store_failure(std::string_view resp_error) {
  ReasonReport report = kFallback;
  report.http = 503;
  report.grpc = kGrpcUnavailable;
  report.resp_error = resp_error;
  return report;
}

constexpr ReasonReport kStoreTimeout =
    store_failure("ERR the store did not answer in time; it may have counted the request");
constexpr ReasonReport kStoreError =
    store_failure("ERR the store could not decide; it did not count the request");
constexpr ReasonReport kForeignValue =
    store_failure("WRONGTYPE the store contains something else under this key");
constexpr ReasonReport kStoreFull = store_failure("OOM the store has no room for a new counter");

constexpr ReasonReport kMissing{.detail =
                                    "The request lacks an attribute that these policies require."};

constexpr ReasonReport kTooManyWaiters{
    .type = kFallback.type,
    .title = kFallback.title,
    .detail = "Too many requests wait for what these policies allow."};

constexpr ReasonReport kGone{.http = 404,
                             .grpc = kGrpcNotFound,
                             .resp_error = "ERR the permit has ended",
                             .detail = "The permit has ended."};

constexpr ReasonReport kDenyRule{.http = 403, .detail = "A rule denies the request."};

constexpr ReasonReport kInvalid{
    .http = 400,
    .grpc = kGrpcInvalidArgument,
    .resp_error =
        "ERR the request uses one counter twice with different limits, or has too many limits",
    .detail =
        "The request cannot be decided: over 64 limits apply to it, or its cost is out of "
        "range."};

}  // namespace

const ReasonReport& report_of(Reason reason) noexcept {
  switch (reason) {
    case Reason::kOk:
    case Reason::kLease:
    case Reason::kOver:
    case Reason::kShadow:
    case Reason::kLimited:
    case Reason::kDenyCache: return kLimited;
    case Reason::kNever: return kNever;
    case Reason::kBlocked: return kBlocked;
    case Reason::kFallback: return kFallback;
    case Reason::kStoreTimeout: return kStoreTimeout;
    case Reason::kStoreError: return kStoreError;
    case Reason::kForeignValue: return kForeignValue;
    case Reason::kStoreFull: return kStoreFull;
    case Reason::kMissing: return kMissing;
    case Reason::kTooManyWaiters: return kTooManyWaiters;
    case Reason::kGone: return kGone;
    case Reason::kDenyRule: return kDenyRule;
    case Reason::kInvalid: break;
  }
  return kInvalid;
}

}  // namespace sluice

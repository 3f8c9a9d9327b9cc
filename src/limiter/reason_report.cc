#include "limiter/reason_report.h"

#include <cstdint>
#include <utility>

#include "sluice/request_decision.h"

namespace sluice {
namespace {

void put_varint(std::string& out, std::uint64_t value) {
  for (; value > 127; value >>= 7) out += static_cast<char>((value & 127) | 128);
  out += static_cast<char>(value);
}

// Appends a field of protobuf, unless it has its default.
void put_number(std::string& out, unsigned field, std::uint64_t value) {
  if (value == 0) return;
  put_varint(out, field << 3);
  put_varint(out, value);
}
void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

}  // namespace

std::string grpc_status_details(int code, std::string_view message,
                                std::optional<Duration> retry_after) {
  std::string status;
  put_number(status, 1, static_cast<std::uint64_t>(code));
  put_bytes(status, 2, message);
  if (retry_after) {
    const auto ticks = static_cast<std::uint64_t>(retry_after->count());
    std::string duration, retry_info, any;
    put_number(duration, 1, ticks / 1'000'000);
    put_number(duration, 2, ticks % 1'000'000 * 1000);
    put_bytes(retry_info, 1, duration);
    put_bytes(any, 1, "type.googleapis.com/google.rpc.RetryInfo");
    put_bytes(any, 2, retry_info);
    put_bytes(status, 3, any);
  }
  return status;
}

namespace {

constexpr int kGrpcResourceExhausted = 8;

}  // namespace

RequestDecision::RequestDecision(Limiter& limiter, std::vector<NamedCharge> charges)
    : charges_(std::move(charges)) {
  if (charges_.empty()) return;
  std::vector<Charge> asked;
  asked.reserve(charges_.size());
  for (const NamedCharge& one : charges_) asked.push_back({one.key, one.limit, one.cost});
  std::vector<Decision> each(charges_.size());
  decision_ = limiter.check(asked, each);
  limits_.reserve(charges_.size());
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    limits_.push_back({charges_[i].name, charges_[i].limit, each[i]});
  }
}

int RequestDecision::grpc_code() const noexcept {
  if (allowed()) return 0;
  const int code = report_of(decision_.reason).grpc;
  return code == 0 ? kGrpcResourceExhausted : code;
}

std::string_view RequestDecision::detail() const noexcept {
  return report_of(decision_.reason).detail;
}

std::span<const HttpField> RequestDecision::fields(HeaderFields wanted) {
  return fields_.of(limits_, decision_, wanted);
}

namespace {

constexpr int kGrpcInvalidArgument = 3;
constexpr int kGrpcNotFound = 5;
constexpr int kGrpcAlreadyExists = 6;
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

constexpr ReasonReport kGone{
    .http = 404, .grpc = kGrpcNotFound, .detail = "The permit or the hold has ended."};

constexpr ReasonReport kConflict{
    .http = 409,
    .grpc = kGrpcAlreadyExists,
    .detail =
        "The id was used before, for another amount or without a hold; nothing was counted now."};

constexpr ReasonReport kTooManyHolds{
    .type = kLimited.type,
    .title = kLimited.title,
    .detail = "Too many holds are open; settle or cancel some of them."};

constexpr ReasonReport kDenyRule{.http = 403, .detail = "A rule denies the request."};

constexpr ReasonReport kInvalid{
    .http = 400,
    .grpc = kGrpcInvalidArgument,
    .resp_error =
        "ERR the request uses one counter twice with different limits, or has too many limits",
    .detail =
        "The request cannot be decided: two of its limits are different limits of one counter, "
        "over 64 limits apply to it, or its cost is out of range."};

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
    case Reason::kConflict: return kConflict;
    case Reason::kTooManyHolds: return kTooManyHolds;
    case Reason::kDenyRule: return kDenyRule;
    case Reason::kInvalid: break;
  }
  return kInvalid;
}

}  // namespace sluice

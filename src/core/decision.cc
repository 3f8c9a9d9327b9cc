#include "core/decision.h"

#include "sluice/decision.h"

namespace sluice {

std::string_view to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kAllowed: return "allowed";
    case Outcome::kDenied: return "denied";
    case Outcome::kFailed: return "failed";
  }
  return "unknown";
}

std::string_view to_string(Reason reason) noexcept {
  switch (reason) {
    case Reason::kOk: return "ok";
    case Reason::kLease: return "lease";
    case Reason::kLimited: return "limited";
    case Reason::kOver: return "over";
    case Reason::kNever: return "never";
    case Reason::kBlocked: return "blocked";
    case Reason::kShadow: return "shadow";
    case Reason::kDenyCache: return "deny_cache";
    case Reason::kFallback: return "fallback";
    case Reason::kStoreTimeout: return "store_timeout";
    case Reason::kStoreError: return "store_error";
    case Reason::kForeignValue: return "foreign_value";
    case Reason::kStoreFull: return "store_full";
    case Reason::kMissing: return "missing";
    case Reason::kTooManyWaiters: return "too_many_waiters";
    case Reason::kGone: return "gone";
    case Reason::kConflict: return "conflict";
    case Reason::kTooManyHolds: return "too_many_holds";
    case Reason::kDenyRule: return "deny_rule";
    case Reason::kInvalid: return "invalid";
  }
  return "unknown";
}

}  // namespace sluice

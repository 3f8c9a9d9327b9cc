#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/decide/session.h"
#include "server/rules/envoy_manager.h"
#include "sluice/clock.h"

namespace sluice::server {

// The end of a call: kOk, or why it failed (reason_report.h).
struct RlsStatus {
  Reason reason = Reason::kOk;
  std::string_view message = {};  // of a failure; valid until the next call
};

// Envoy's rate limit service: a RateLimitRequest in, a RateLimitResponse out, as protobuf has them
// on the wire (docs/envoy.md). A domain is decided by the file of Envoy's that has it, else by the
// native rules of that domain, whose attributes are the entries of each descriptor.
//
// One for an event loop, or where the store waits, for each call that is under way in it; one call
// at a time. Ownership: borrows its parts. Cost: that of the decision, and about as much for the
// messages, on an arena that keeps its first block.
class RlsService {
 public:
  struct Parts {
    Session::Parts session;
    EnvoyManager& envoy;
    const Clock& clock = SystemClock::instance();
  };
  explicit RlsService(const Parts& parts);
  ~RlsService();
  RlsService(const RlsService&) = delete;
  RlsService& operator=(const RlsService&) = delete;

  // `reply` is overwritten; of a call that fails it is empty. Does not throw for any message.
  RlsStatus call(std::string_view message, std::string& reply);
  // As Session::follow_rules().
  void follow_rules();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server

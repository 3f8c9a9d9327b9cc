#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/decide/session.h"
#include "server/protocol/http/message.h"
#include "server/rules/envoy_manager.h"
#include "sluice/clock.h"

namespace sluice::server {

// What the service answers: Envoy's method and those of Kuadrant's Limitador.
enum class RlsMethod : std::uint8_t {
  kShouldRateLimit,
  kCheckRateLimit,
  kReport,
  kReserve,
  kCommit
};
inline constexpr auto kRlsPaths = std::to_array<std::string_view>(
    {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
     "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit",
     "/kuadrant.service.ratelimit.v1.RateLimitService/Report",
     "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve",
     "/kuadrant.service.ratelimit.v1.RateLimitService/Commit"});  // in the order of the enumerators

// The end of a call: kOk, or the reason of its failure (reason_report.h).
struct RlsStatus {
  Reason reason = Reason::kOk;
  std::string_view message = {};  // of a failure; valid until the next call
  bool forbidden = false;         // the client must not do that; `reason` is kInvalid
  bool refused = false;           // likewise, or the request is wrong: nothing was decided
};

// Envoy's rate limit service and Limitador's: takes the message of a method and returns that of its
// answer, both in protobuf's wire format (docs/envoy.md). If a file of Envoy's configuration has
// the domain, that file decides; else the native rules of the domain decide, and their attributes
// are the entries of each descriptor.
//
// There is one for each event loop. If the store may wait, there is one for each call in progress.
// One call at a time. Ownership: borrows its parts. Cost: the decision, and about as much for the
// messages, on an arena that keeps its first block.
class RlsService {
 public:
  RlsService(const Session::Parts& session, EnvoyManager& envoy,
             const Clock& clock = SystemClock::instance());
  ~RlsService();
  RlsService(const RlsService&) = delete;
  RlsService& operator=(const RlsService&) = delete;

  // Overwrites `reply`, which is empty if the call fails. But a value that a client sends, such as
  // a cost, can make a request of Envoy invalid: then `reply` is OVER_LIMIT (in shadow mode OK),
  // because Envoy lets requests pass after a failure. Does not throw for any message.
  // Unless the client may operate, what gives back, takes several units or counts without an id is
  // forbidden.
  // `traceparent` is the call's trace, for the denial log; it may be wrong or empty.
  RlsStatus call(std::string_view message, bool may_operate, std::string& reply,
                 std::string_view traceparent = {}, RlsMethod method = RlsMethod::kShouldRateLimit);
  // Like Session::follow_rules().
  void follow_rules();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns why a text is not JSON (RFC 8259) in UTF-8 with at most 32 levels and without repeated
// members in an object, or an empty text. Protobuf's own reader is less strict. As in Protobuf,
// `hits_addend` and `hitsAddend` are the same name.
std::string find_json_mistake(std::string_view text);

// POST /json: a RateLimitRequest and its answer in protobuf's JSON format. Answers 200 if the
// request may pass, 429 if not, 400 if the body is not a request, and 503 if the store cannot
// decide and its policy is `error`. `may_operate`: see RlsService::call().
void answer_json(RlsService& service, const http::Request& request, bool may_operate,
                 http::Response& response);

}  // namespace sluice::server

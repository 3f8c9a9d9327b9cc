#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/config.h"
#include "sluice/clock.h"
#include "sluice/limiter.h"
#include "sluice/rule_decider.h"

namespace sluice::envoy {

// The most descriptors of a request; of them kMaxCharges with a limit.
inline constexpr std::size_t kMaxDescriptors = 1024;

// One descriptor of a request. Borrows what it is asked with.
struct Question {
  struct Override {
    std::uint32_t requests_per_unit = 0;
    Unit unit = Unit::kUnknown;
  };

  std::span<const Entry> entries;
  std::optional<Override> limit = {};  // in the place of that of the file
  std::uint64_t hits = 1;              // 0 looks only
  bool gives_back = false;             // refunds the hits
};

// By the numbers of RateLimitResponse.Code.
enum class Code : std::uint8_t { kOk = 1, kOverLimit = 2 };

// What is answered of one descriptor.
struct Status {
  Code code = Code::kOk;
  // That of the file which the entries led to, also where it has no limit; null: none, or the
  // limit is one of the request, or replaced.
  const Descriptor* descriptor = nullptr;
  std::optional<Limit> limit = {};  // that applied
  Unit unit = Unit::kUnknown;
  bool unlimited = false;
  std::uint32_t remaining = 0;
  Duration until_reset{0};  // whole seconds, rounded up
  std::string_view counter = {};
  Decision decision = {};  // what the limit itself said, also in shadow mode
};

struct Answer {
  enum class Failure : std::uint8_t { kNone, kInvalid, kUnavailable };

  Failure failure = Failure::kNone;  // then there is nothing but the message
  std::string message;
  Code overall = Code::kOk;
  std::vector<Status> statuses;  // of each descriptor of the request
};

// Until a limit counts anew, in whole seconds, rounded up. For a window on the clock: to its end at
// `now`. `known`: whether the decision has the limit's own numbers.
Duration until_reset(const Limit& limit, const Decision& decision, bool known,
                     Instant now) noexcept;

// Decides requests of Envoy by its configuration (docs/envoy.md, Deciding).
//
// Everything that takes is one all-or-nothing request of the store, together with what only looks:
// hits of 0. Descriptors in quota mode that are over are left out, and the others are asked again,
// as long as one in quota mode is left. Those in shadow mode are each asked alone, whatever the
// others say, and never deny. What gives back is carried out, as one request, unless the request
// was denied: then nothing changes.
//
// With `consume_on_reject` each takes by itself, as Envoy's service does, and one that is denied
// takes what is left; then looking at a limit with nothing left is over it too. What gives back is
// carried out in any case.
//
// A store that cannot decide is answered for by `on_store_error`, of several the strictest: error,
// deny, local, allow. `local` without a local store is an error.
//
// Thread-safety: one for a thread. Ownership: borrows its parts; keeps its buffers, so that a
// request allocates nothing once they have grown.
class Request {
 public:
  struct Parts {
    Limiter& limiter;
    RuleStores stores = {};
    const Clock& clock = SystemClock::instance();
  };
  explicit Request(const Parts& parts);
  ~Request();
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;

  // Valid until the next call, and while the domain and the questions live.
  const Answer& decide(const Domain& domain, std::span<const Question> questions,
                       bool consume_on_reject = false);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::envoy

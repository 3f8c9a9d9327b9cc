#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/config.h"
#include "limiter/batch.h"
#include "sluice/clock.h"
#include "sluice/limiter.h"
#include "sluice/rule_decider.h"

namespace sluice::envoy {

// The most descriptors that a request may have. At most kMaxCharges of them may have a limit.
inline constexpr std::size_t kMaxDescriptors = 1024;

// One descriptor of a request. Borrows the entries.
struct Question {
  std::span<const Entry> entries;
  std::uint64_t hits = 1;   // 0 is a peek
  bool gives_back = false;  // refunds the hits
  // A limit that the request gives, which replaces the limit of the file.
  std::optional<std::uint32_t> requests_per_unit = {};
  Unit unit = Unit::kUnknown;
};

// The answer to one descriptor of a request.
struct Status {
  bool is_over = false;  // RateLimitResponse.Code: OVER_LIMIT, else OK
  // The descriptor of the file that the entries match, even if it has no limit. Null if none
  // matches, if the request gives the limit, or if the limit is replaced.
  const Descriptor* descriptor = nullptr;
  std::optional<Limit> limit = {};  // the limit that applies
  Unit unit = Unit::kUnknown;
  bool unlimited = false;
  std::uint32_t remaining = 0;
  std::optional<Duration> until_reset = {};  // whole seconds, rounded up; absent: never
  std::string_view counter = {};
  Decision decision = {};  // of the limit itself, even in shadow mode
};

// The answer to a request.
struct Answer {
  // Why the call fails, with a message: `kInvalid`, or the reason of the store. `kOk` if it does
  // not fail.
  Reason failure = Reason::kOk;
  std::string message;
  // Of all descriptors that take. By default if nothing was decided.
  Decision decision = {};
  bool is_over = false;
  std::vector<Status> statuses;  // one for each descriptor of the request
};

// Returns the time until a limit is fully replenished, in whole seconds, rounded up. For a window
// aligned to the clock it is the time until the window ends. `known`: whether the decision has the
// limit's own numbers.
Duration until_reset(const Limit& limit, const Decision& decision, bool known,
                     Instant now) noexcept;

// Decides requests by Envoy's configuration (docs/envoy.md, Decisions).
//
// A request is a batch (limiter/batch.h): each descriptor with a limit is a charge, which is
// enforced, a quota, a shadow charge or a refund, and has the failure policy `on_store_error`. If
// that is `error`, or `local` without a local store, and the store cannot decide, the call fails.
// `consume_on_reject` decides as Envoy's own service does (BatchTerms).
//
// Thread-safety: one thread at a time. Ownership: borrows its parts; keeps its buffers, so that a
// request allocates nothing once they have grown.
class Request {
 public:
  explicit Request(Limiter& limiter, const RuleStores& stores = {},
                   const Clock& clock = SystemClock::instance());

  // `verb`: kTake, kPeek or kCharge. The answer is valid until the next call and while the domain
  // and the questions live.
  const Answer& decide(const Domain& domain, std::span<const Question> questions,
                       bool consume_on_reject = false, Verb verb = Verb::kTake);

 private:
  // The limit that applies to a question. Its key is in `text_`.
  struct NamedLimit {
    std::size_t question;
    Limit limit;
    ChargeMode mode;
    std::optional<FailurePolicy> on_store_error;
    std::size_t key_at, key_end;
    std::uint32_t id = 0;
  };

  void begin();
  bool check(std::span<const Question> questions);
  bool check_descriptor(const Question& question, std::size_t index);
  void name_limit(const Domain& domain, const Question& question, std::size_t index);
  void name_own_limit(const Domain& domain, const Question& question, std::size_t index);
  void drop_replaced();
  bool check_counters();
  std::string_view key_of(const NamedLimit& named) const noexcept {
    return std::string_view(text_).substr(named.key_at, named.key_end - named.key_at);
  }
  void fill_batch(std::span<const Question> questions);
  void fail(const Decision& decision);
  void fill_statuses();
  void fill_status(std::size_t index, Instant now);
  bool refuse(std::string message);

  Batch batch_;
  const bool has_local_;
  const Clock& clock_;
  std::string text_;
  std::vector<NamedLimit> limits_;  // in the order of the batch
  std::vector<std::string_view> replaced_;
  Answer answer_;
};

}  // namespace sluice::envoy

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/block.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/http_fields.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice {

// A name in braces in a text of Reject. A number of the decision replaces it. A plain value.
struct RejectPart {
  // What replaces it.
  enum class Kind : std::uint8_t {
    kRetryAfter,  // {retry_after}: whole seconds, rounded up
    kLimit,       // {limit}: Decision::capacity
    kRemaining,   // {remaining}
    kResetAt,     // {reset_at}: RFC 3339 in UTC, rounded up to a second
    kBraces,      // {{limit}}: the name in single braces
  };
  std::size_t at = 0;  // in the text, with its braces
  std::size_t size = 0;
  Kind kind = Kind::kLimit;
  bool is_json_value = false;  // outside of the strings of a JSON text
};

// Appends the text with its parts replaced. A number that the decision does not have becomes `-`,
// or `null` as a value of JSON. Returns whether the decision has all of them. Cost: allocates
// nothing if `out` has room.
bool append_reject(std::string_view text, std::span<const RejectPart> parts,
                   const Decision& decision, Instant now, std::string& out);

// A header field of a response. A plain value.
struct RejectHeader {
  std::string name;
  std::string value;                   // in printable ASCII
  std::vector<RejectPart> parts = {};  // of `value`, in order
};

// The HTTP response of a rule that denies. A plain value.
struct Reject {
  int status = 429;                    // 403 if a rule with RuleAction::kDeny does not set it
  std::string body;                    // empty: the default body of the front end
  std::string content_type = {};       // of `body`, in printable ASCII; empty without a body
  std::vector<RejectPart> parts = {};  // of `body`, in order; see append_reject()
  // A field is left out if the decision does not have the numbers of its value.
  std::vector<RejectHeader> headers = {};
};

// What an allowed answer says once a limit of the rule is nearly used up, so that a gateway or a
// program can send the request elsewhere. It never denies. A plain value.
struct Degrade {
  std::uint8_t at_percent = 0;  // the used percentage of a limit from which on it applies; 0: none
  std::vector<RejectHeader> headers = {};  // for the upstream; their `parts` are empty
};

// What a limit does if an attribute that its key or its cost reads is absent or empty: it does not
// apply, or it denies the request.
enum class OnMissing : std::uint8_t { kSkip, kDeny };

// One limit of a rule. A plain value that owns its texts.
struct RuleLimit {
  std::string name;  // "RULE/INDEX" if the file has none
  std::string key;   // the template as written; empty: one counter for all requests
  Limit limit;       // its own numbers, or those of the rule's default plan
  OnMissing on_missing = OnMissing::kSkip;
  std::string cost = {};  // as written; empty: as `request` (docs/rules.md, Costs)
  std::vector<Limit> by_plan =
      {};  // by the index in Rule::plans; empty: no plan has numbers for it
  std::optional<Block> block = {};  // after repeated denials; absent: none
  // `count`: decisions only look at the limit, and RuleDecider::report() charges it.
  bool counts_responses = false;
  // `warn`: the percentage of the limit from which on LimitAnswer::near is true; 0: none.
  std::uint8_t warn_percent = 0;
  // `share`: how a server divides the limit among proxies (docs/quota.md). The weight as written;
  // empty: 1. And the percentage of the limit that a proxy gets if it asks for less.
  std::string share_weight = {};
  std::uint8_t share_at_least = 1;
  // The `overflow` of the limit before it: the budgets are in a row (Charge::alternative).
  bool alternative = false;

  // As a charge borrows it (Charge::block).
  const Block* block_of_charges() const noexcept { return block ? &*block : nullptr; }
};

// Whether a rule denies requests, or only counts and reports what it would deny.
enum class RuleMode : std::uint8_t { kEnforce, kShadow };

// What a rule does with the requests that it matches.
enum class RuleAction : std::uint8_t {
  kLimit,  // its limits decide
  kAllow,  // no further limit applies, and no rule after it is tried
  kDeny,   // it denies them with Reason::kDenyRule, and nothing is counted
};

// One rule of a file. A plain value that owns its texts; a RuleSet holds its rules in file order.
struct Rule {
  std::string name;
  std::vector<RuleLimit> limits;  // none unless the action is kLimit
  RuleMode mode = RuleMode::kEnforce;
  FailurePolicy on_store_error = FailurePolicy::kAllow;
  // The most counters that the rule may create in each second; see NewKeyLimit. Absent: no maximum.
  std::optional<std::uint32_t> max_new_keys = {};
  bool continues = false;  // `continue: true`: later rules can match too
  Reject reject;
  Degrade degrade = {};
  HeaderFields headers = HeaderFields::kBoth;
  std::string domain = {};  // the domain of its file
  std::string tag = {};     // the template of Charge::tag as written; empty: none
  // The plans of its file in the order of their names, if it has a `plan`; else none.
  std::vector<std::string> plans = {};
  std::string default_plan = {};
  std::string plan_from = {};  // the template of the plan's name as written; may be empty
  RuleAction action = RuleAction::kLimit;
};

}  // namespace sluice

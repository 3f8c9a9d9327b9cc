#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/decision.h"
#include "sluice/http_fields.h"
#include "sluice/limit.h"
#include "sluice/rule.h"

namespace sluice {

// The decision of one limit of a rule that matched. A plain value that borrows everything: it is
// valid as long as the RuleAnswer that holds it.
struct LimitAnswer {
  const Rule* rule = nullptr;
  const RuleLimit* limit = nullptr;
  std::string_view counter;   // the counter's key in the store (docs/rules.md)
  std::string_view label;     // the key as a person reads it: the template with its values
  Decision decision;          // the limit's own decision, even for a rule in shadow mode
  std::string_view tag = {};  // the counter's tag, if the rule has one (docs/rules.md)
  std::size_t part = 0;       // the index of the request's part that the limit applied to
  // The store could not create the limit's counter: it is full, or `max_new_keys` does not allow
  // it.
  bool lacks_counter = false;
  std::uint64_t cost = 1;  // the units that the request asked for
  // The limit that counted for this request. It differs from `limit` if a plan or an override
  // changed this key's limit.
  Limit numbers = token_bucket(1).per(std::chrono::seconds{1});
  bool near = false;  // as much of the limit is used as its `warn` says, whatever the decision is
};

// What a set of rules answers to one request.
//
// A RuleDecider owns it and reuses its buffers: it is valid until the decider's next request, and
// as long as the RuleSet.
struct RuleAnswer {
  // What to do. Allowed with kOk and no rule if none matched; kShadow if only rules in shadow mode
  // would have denied.
  Decision decision;
  // The rule that decided: the first that denied, else the first with `action: allow`, else the
  // first that matched.
  const Rule* rule = nullptr;
  // Every limit that applied, in the order of the rules.
  std::vector<LimitAnswer> limits;
  // A rule that matched, and whether it denied (in shadow mode: would have denied).
  struct Matched {
    const Rule* rule = nullptr;
    bool denied = false;
    // The request's plan, an index of Rule::plans; 0 if the rule has none.
    std::size_t plan = 0;
    bool has_unknown_plan = false;  // the request named another, and got the default
    std::size_t part = 0;           // the index of the request's part that it matched
    // The request is allowed, and a limit of the enforced rule is used as its `degrade` says.
    bool degraded = false;
  };
  std::vector<Matched> matched;
  // Whether a rule is `degraded`.
  bool degraded() const noexcept;
  // Of the first limit with `overflow` that applied: the budget of its row that an allowed request
  // has charged, or would charge if it peeks. Null: there is none. Those of all rows are the ones
  // without Decision::passed_over.
  const LimitAnswer* charged() const noexcept;
  // A limit of a rule that matched and that did not apply, because an attribute that its key or its
  // cost needs is missing, and its `on_missing` is `skip`.
  struct Skipped {
    const Rule* rule = nullptr;
    const RuleLimit* limit = nullptr;
    std::size_t part = 0;  // the index of the request's part
  };
  std::vector<Skipped> skipped;
  // What is wrong with the costs of a kInvalid request: "WHAT; EXPECTED". Empty if something else
  // is.
  std::string_view mistake = {};
  // The text of the permit that the request has taken, if a `concurrency` limit applied to it: the
  // holder releases it with RuleDecider::release(). Else empty.
  std::string permit = {};
};

// Writes the answer of rules as header fields, as HttpFields does, and according to the `headers`
// of the deciding rule. Omits limits of shadow rules. Limits of the same name are written with
// their rules: "RULE/NAME".
//
// Thread-safety, ownership, errors and cost are those of HttpFields.
class RuleHttpFields {
 public:
  // Returns the fields. They are valid until the next call of either function.
  std::span<const HttpField> of(const RuleAnswer& answer);
  // Returns the same fields as complete lines: "Name: value\r\n". Cheaper.
  std::string_view lines(const RuleAnswer& answer);

 private:
  HeaderFields choose(const RuleAnswer& answer);

  HttpFields fields_;
  std::vector<NamedDecision> shown_;
};

}  // namespace sluice

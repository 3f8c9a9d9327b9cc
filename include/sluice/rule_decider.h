#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/overrides.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice {
namespace rules {
class RememberedRequests;
class RuleWait;
}  // namespace rules

// What rules use besides the limiter's store. A plain value that borrows all of it.
struct RuleStores {
  // For rules in shadow mode, such as the store below a deny cache. Null: the limiter's.
  Store* shadow = nullptr;
  // For `on_store_error: local`, such as a LocalShareStore. Null: such rules fail with the store.
  Store* local = nullptr;
  // What single keys have instead of the numbers of their limits. Null: nothing.
  const Overrides* overrides = nullptr;
};

// One of several sets of attributes that are one request. A plain value that borrows them.
struct RequestPart {
  const AttributeSource* attributes = nullptr;
  RequestCosts costs = {};
};

// Decides requests by rules: finds the rules that match, makes the keys, asks the limiter.
//
//   sluice::RuleDecider decider(limiter);
//   const sluice::Attributes attributes{{"method", "POST"}, {"path", "/send/code"}};
//   if (!decider.decide(rules, attributes).decision) return too_many_requests();
//
// All enforced rules that match are one all-or-nothing request. Each rule in shadow mode is decided
// separately and never denies or delays. A limit whose attributes are missing does not apply, or
// denies the request with kMissing before any store is asked (OnMissing); then `limits` has only
// such limits. A cost that is no number of units denies in the same way with kInvalid. More limits
// than kMaxCharges are kInvalid, too.
//
// If the store cannot decide, each rule's `on_store_error` answers with kFallback, and the
// strictest of them decides. All limits with `local` are one all-or-nothing request to the local
// store, unless another rule denies; without a local store they fail with the store's reason. A
// refund or a reset that the store did not carry out fails with the store's reason, whatever the
// policy.
//
// Thread-safety: one RuleDecider for each thread. Ownership: borrows the limiter and the stores.
// Cost: that of the store; it keeps its buffers, so that a request allocates nothing once they have
// grown.
class RuleDecider {
 public:
  // A decider that asks this limiter, and these stores if given.
  explicit RuleDecider(Limiter& limiter, const RuleStores& stores = {});
  ~RuleDecider();
  // Movable, not copyable.
  RuleDecider(RuleDecider&&) noexcept;
  RuleDecider& operator=(RuleDecider&&) noexcept;

  // Decides by the rules that match. The answer is valid until the next call, and while `rules` is.
  // `now` absent: at the store's own time. `rule`, of the set: it decides alone, whether it matches
  // or not.
  const RuleAnswer& decide(const RuleSet& rules, const AttributeSource& attributes,
                           const RequestCosts& costs = {}, std::optional<Instant> now = {},
                           Action action = Verb::kTake, const Rule* rule = nullptr);
  // Settles a request that was taken at `reserved` to its actual costs: gives back the difference
  // of each limit, or charges it (kOver if that is beyond the limit). The attributes and the rule
  // must be those of the request.
  const RuleAnswer& settle(const RuleSet& rules, const AttributeSource& attributes,
                           const RequestCosts& reserved, const RequestCosts& actual,
                           std::optional<Instant> now = {}, const Rule* rule = nullptr);
  // Decides parts by the rules of one domain, each matched separately. Their limits are one
  // all-or-nothing request, answered in this order. A part of cost 0 without an id takes nothing.
  const RuleAnswer& decide_parts(const RuleSet& rules, std::string_view domain,
                                 std::span<const RequestPart> parts,
                                 std::optional<Instant> now = {}, Action action = Verb::kTake);
  // Reports the response of a request that decide() has allowed. Charges the limits with `count`
  // whose responses cost something (kOver if that is beyond the limit), and no others. The
  // attributes and the rule must be those of the request. `response` has `status`, and the
  // attributes that `count` reads; kInvalid if one of them is wrong. Without a limit with `count`,
  // it is allowed and there are no limits.
  const RuleAnswer& report(const RuleSet& rules, const AttributeSource& attributes,
                           const AttributeSource& response, const RequestCosts& costs = {},
                           std::optional<Instant> now = {}, const Rule* rule = nullptr);
  // Releases or extends the permit of a decision by its text (RuleAnswer::permit), in the limiter's
  // store and in the local one. kGone if it has ended, kInvalid if the text is not that of a
  // permit. An extension lasts as long as the text says, which its holder can change, but no longer
  // than the limit's lease in these rules: the longest of its plans and of the key's override.
  Decision release(std::string_view permit, std::optional<Instant> now = {});
  Decision extend(const RuleSet& rules, std::string_view permit, std::optional<Instant> now = {});
  // For callers that cannot hand out a permit: whether takes are kInvalid to which a `concurrency`
  // limit applies. Default: they are not.
  void refuse_permits(bool refuse) noexcept;
  // For callers that decide many requests of one client at once: whether the requests from now on
  // are those of one array. The expressions for all of them share a bound on what they read
  // (docs/rules.md); a request beyond it is kInvalid. Call it with true for each array, and with
  // false after it.
  void decide_array(bool is_array) noexcept;

 private:
  friend class rules::RememberedRequests;
  friend class rules::RuleWait;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

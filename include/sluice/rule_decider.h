#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice {

// Stores beside that of the limiter. Both are borrowed.
struct RuleStores {
  // For rules on trial, such as the one below a deny cache; null: the limiter's.
  Store* trial = nullptr;
  // For `on_store_error: local`, such as a LocalShareStore; null: such rules deny.
  Store* local = nullptr;
};

// One of several sets of attributes that are one request together. Borrows them.
struct RequestPart {
  const AttributeSource* attributes = nullptr;
  std::uint64_t cost = 1;  // 0 looks only
};

// Decides requests by rules: matches them, fills in the keys, asks the limiter.
//
// All enforced rules that match are one all-or-nothing request; each rule on trial (shadow) is
// decided by itself, whatever the others say, and never denies or delays. Limits whose attributes
// are missing are skipped, or deny the request with `kMissing` before any store is asked
// (`on_missing`; then only they are in `limits`). More limits than kMaxCharges are `kInvalid`.
//
// A store that cannot decide is answered for by `on_store_error` with `kFallback`, of several rules
// by the strictest. All that say `local` are asked of the local store as one all-or-nothing
// request, and tell its numbers, unless another rule denies; without a local store they deny, with
// the store's reason. A refund or a reset that the store did not carry out is denied with the
// store's reason, whatever the policy, after the local store has carried it out for `local`.
//
// Thread-safety: one RuleDecider for a thread. Ownership: borrows the limiter and the stores; keeps
// its buffers, so that a request allocates nothing once they have grown.
class RuleDecider {
 public:
  explicit RuleDecider(Limiter& limiter, const RuleStores& stores = {});
  ~RuleDecider();
  RuleDecider(RuleDecider&&) noexcept;
  RuleDecider& operator=(RuleDecider&&) noexcept;

  // By the rules that match. Valid until the next call, and while `rules` lives.
  const RuleAnswer& decide(const RuleSet& rules, const AttributeSource& attributes,
                           std::uint64_t cost = 1, std::optional<Instant> now = {},
                           Verb verb = Verb::kTake);
  // By the rules of one domain that match, of several parts: each is matched by itself, what all
  // want is one all-or-nothing request. The answer has the limits of one part after the other.
  const RuleAnswer& decide_parts(const RuleSet& rules, std::string_view domain,
                                 std::span<const RequestPart> parts,
                                 std::optional<Instant> now = {}, Verb verb = Verb::kTake);
  // By one rule of the set, matching or not: what guards use.
  const RuleAnswer& decide_by(const RuleSet& rules, const Rule& rule,
                              const AttributeSource& attributes, std::uint64_t cost = 1,
                              std::optional<Instant> now = {}, Verb verb = Verb::kTake);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

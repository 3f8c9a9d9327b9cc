#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/overrides.h"
#include "sluice/rule_set.h"
#include "sluice/store.h"

namespace sluice::server {

// The attributes of a bucket, from its id. A plain value.
using BucketAttributes = std::vector<std::pair<std::string, std::string>>;

// A limit that applies to the requests of a bucket. Borrows from the rules.
struct BucketLimit {
  const Rule* rule;
  const RuleLimit* limit;
  std::string key;    // of the counter
  std::string label;  // the key as a person reads it
  std::string tag;
  Limit numbers;  // with the plan and the override of the key
  RuleCharge of_rule;
  const Block* block;
  std::uint64_t cost;  // the units of one request
  std::uint64_t weight = 1;
  std::uint8_t at_least = 1;  // percent of the limit

  // Takes `units` of the counter.
  Charge charge(std::uint64_t units) const;
};

// What the rules say of a bucket. Borrows from the rules.
struct BucketRules {
  // What decides about its requests: its limits, or the same answer to all of them.
  enum class Verdict : std::uint8_t { kLimits, kAllow, kDeny };

  Verdict verdict = Verdict::kAllow;
  std::vector<BucketLimit> limits;  // that it gets parts of
  std::vector<BucketLimit> shadow;  // that only count it
  // Limits that cannot be assigned, "RULE/LIMIT": those with permits, budgets, and those that count
  // responses.
  std::vector<std::string> not_assigned;
};

// Finds out which limits apply to buckets, as for requests with these attributes, and counts
// nothing: the rules decide by a store that admits everything and keeps what it was asked.
//
// Thread-safety: one thread at a time. Ownership: borrows the overrides, which may be null. Cost:
// that of a decision without a store.
class BucketResolver {
 public:
  explicit BucketResolver(const Overrides* overrides);
  ~BucketResolver();
  BucketResolver(const BucketResolver&) = delete;
  BucketResolver& operator=(const BucketResolver&) = delete;

  // Returns what the rules of the domain say. It is valid while `rules` is.
  BucketRules resolve(const RuleSet& rules, std::string_view domain,
                      const BucketAttributes& attributes);

 private:
  class Asked;
  std::unique_ptr<Asked> asked_;
};

// Whether a rule has the domain.
bool has_domain(const RuleSet& rules, std::string_view domain) noexcept;

}  // namespace sluice::server

#include <algorithm>
#include <functional>

#include "rules/rule_set.h"
#include "sluice/rules.h"

namespace sluice {
namespace {

using rules::AttributeValues;
using rules::CompiledLimit;
using rules::CompiledRule;

bool store_failed(const Decision& decision) noexcept {
  return decision.reason == Reason::kStoreError || decision.reason == Reason::kStoreTimeout;
}

Decision denied(Reason reason, std::uint32_t capacity = 0) noexcept {
  return {.outcome = Outcome::kDenied, .reason = reason, .limit = capacity};
}

// What a rule's policy makes of a store that could not decide. `kLocal` denies here and keeps the
// store's reason: nothing has answered in the store's place.
Decision by_policy(FailurePolicy policy, const Decision& failed) noexcept {
  if (policy == FailurePolicy::kLocal) return denied(failed.reason);
  return {.outcome = policy == FailurePolicy::kAllow ? Outcome::kAllowed : Outcome::kDenied,
          .reason = Reason::kFallback};
}

}  // namespace

class RuleRequest::Impl {
 public:
  explicit Impl(Limiter& limiter) : limiter_(&limiter) {}

  const RuleAnswer& decide(const RuleSet& rules, const AttributeSource& attributes,
                           std::uint64_t cost, std::optional<Instant> now, Verb verb);
  const RuleAnswer& decide_by(const RuleSet& rules, const Rule& rule,
                              const AttributeSource& attributes, std::uint64_t cost,
                              std::optional<Instant> now, Verb verb);

 private:
  // A limit that applies; its places are in `text_`.
  struct Wanted {
    const RuleLimit* limit;
    std::size_t key_at, key_end, label_at, label_size;
  };
  // A rule that matched, and its limits: from `first` to `last` in `wanted_` and in the answer.
  struct Matched {
    const Rule* rule;
    std::size_t first, last;
    bool missing;  // an attribute that it insists on; then `wanted_` has that limit alone
    bool enforced() const noexcept { return rule->mode == RuleMode::kEnforce; }
  };

  void begin(const RuleSet::Impl& set, const AttributeSource& attributes);
  void match(const Rule& rule, const CompiledRule& compiled);
  bool want(const RuleLimit& limit, const CompiledLimit& compiled);
  const RuleAnswer& answer(std::uint64_t cost, std::optional<Instant> now, Verb verb);
  void publish();
  void decide_enforced(std::uint64_t cost, std::optional<Instant> now, Verb verb);
  void decide_shadow(std::size_t index, std::uint64_t cost, std::optional<Instant> now, Verb verb);
  void add_charges(const Matched& matched, std::uint64_t cost);
  Decision ask(std::optional<Instant> now, Verb verb);
  void deny_missing();
  void mark(const Matched& matched, bool denied);

  Limiter* limiter_;
  AttributeValues values_;
  std::string text_;
  std::string scratch_;
  std::vector<Wanted> wanted_;
  std::vector<Matched> matched_;
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
  RuleAnswer answer_;
};

void RuleRequest::Impl::begin(const RuleSet::Impl& set, const AttributeSource& attributes) {
  values_.begin(set.attributes, attributes);
  text_.clear();
  wanted_.clear();
  matched_.clear();
  answer_.decision = Decision{};
  answer_.rule = nullptr;
  answer_.limits.clear();
  answer_.matched.clear();
}

// Fills in the key of a limit. False where the request has to be denied for want of an attribute.
bool RuleRequest::Impl::want(const RuleLimit& limit, const CompiledLimit& compiled) {
  Wanted wanted{&limit, text_.size(), 0, 0, 0};
  text_.append(compiled.prefix);
  if (const auto label = compiled.key.fill(values_, text_, wanted.key_end, scratch_)) {
    wanted.label_at = label->at;
    wanted.label_size = label->size;
    wanted_.push_back(wanted);
    return true;
  }
  text_.resize(wanted.key_at);
  return limit.on_missing == OnMissing::kSkip;
}

void RuleRequest::Impl::match(const Rule& rule, const CompiledRule& compiled) {
  Matched matched{&rule, wanted_.size(), 0, false};
  for (std::size_t i = 0; i < rule.limits.size(); ++i) {
    if (want(rule.limits[i], compiled.limits[i])) continue;
    matched.missing = true;
    wanted_.resize(matched.first, Wanted{});
    wanted_.push_back({&rule.limits[i], 0, 0, 0, 0});
    break;
  }
  matched.last = wanted_.size();
  matched_.push_back(matched);
}

// The text has its final place now: hands out views of it.
void RuleRequest::Impl::publish() {
  const std::string_view text = text_;
  for (const Matched& matched : matched_) {
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      const Wanted& wanted = wanted_[i];
      answer_.limits.push_back({matched.rule, wanted.limit,
                                text.substr(wanted.key_at, wanted.key_end - wanted.key_at),
                                text.substr(wanted.label_at, wanted.label_size),
                                matched.missing ? denied(Reason::kMissing, wanted.limit->limit.capacity())
                                                : Decision{}});
    }
    answer_.matched.push_back({matched.rule, false});
  }
  if (!matched_.empty()) answer_.rule = matched_.front().rule;
}

void RuleRequest::Impl::mark(const Matched& matched, bool is_denied) {
  answer_.matched[static_cast<std::size_t>(&matched - matched_.data())].denied = is_denied;
  if (!is_denied) return;
  const bool was_denied = !answer_.decision.allowed() && answer_.rule != nullptr;
  if (!was_denied) answer_.rule = matched.rule;
}

}  // namespace sluice

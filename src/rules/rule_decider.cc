#include <algorithm>
#include <functional>

#include "limiter/batch.h"
#include "rules/rule_set.h"
#include "sluice/rule_decider.h"

// A request is decided in four steps: match the rules, name their counters, decide the batch of
// charges, and fill in the answer.
namespace sluice {

using rules::AttributeValues;
using rules::CompiledLimit;
using rules::CompiledRule;

class RuleDecider::Impl {
 public:
  Impl(Limiter& limiter, const RuleStores& stores)
      : batch_({limiter.store(), stores.shadow, stores.local}) {}

  const RuleAnswer& decide(const RuleSet::Impl& set, const AttributeSource& attributes,
                           std::uint64_t cost, const BatchTerms& terms);
  const RuleAnswer& decide_parts(const RuleSet::Impl& set, std::string_view domain,
                                 std::span<const RequestPart> parts, const BatchTerms& terms);
  const RuleAnswer& decide_by(const RuleSet::Impl& set, const Rule& rule,
                              const AttributeSource& attributes, std::uint64_t cost,
                              const BatchTerms& terms);

 private:
  // A limit that applies to the request. Its key and label are in `text_`.
  struct NamedLimit {
    const RuleLimit* limit;
    std::uint32_t id = 0;
    std::size_t key_at = 0, key_end = 0, label_at = 0, label_size = 0;
  };
  // A rule that matched. Its limits are `first` to `last` of `limits_`, the batch and the answer.
  struct MatchedRule {
    const Rule* rule;
    std::size_t part;
    std::uint64_t cost;
    std::size_t first = 0, last = 0;
    std::size_t tag_at = 0, tag_end = 0;  // in `text_`
    NewKeyLimit* new_keys = nullptr;
    bool lacks_key = false;  // because of `on_missing: deny`; has only that limit then

    bool enforced() const noexcept { return rule->mode == RuleMode::kEnforce; }
  };

  void begin();
  void match_part(const RuleSet::Impl& set, const std::string_view* domain,
                  const RequestPart& request, std::size_t part);
  void name_limits(const Rule& rule, const CompiledRule& compiled, std::size_t part,
                   std::uint64_t cost);
  bool name_limit(const RuleLimit& limit, const CompiledLimit& compiled);
  const RuleAnswer& answer(const BatchTerms& terms);
  void keep_limits_without_key();
  void fill_batch();
  void fill_limits();
  void fill_decision(const Decision& enforced);

  AttributeValues values_;
  std::string text_;
  std::string scratch_;
  std::vector<NamedLimit> limits_;
  std::vector<MatchedRule> matched_;
  Batch batch_;
  RuleAnswer answer_;
};

const RuleAnswer& RuleDecider::Impl::decide(const RuleSet::Impl& set,
                                            const AttributeSource& attributes, std::uint64_t cost,
                                            const BatchTerms& terms) {
  begin();
  match_part(set, nullptr, {&attributes, cost}, 0);
  return answer(terms);
}

const RuleAnswer& RuleDecider::Impl::decide_parts(const RuleSet::Impl& set, std::string_view domain,
                                                  std::span<const RequestPart> parts,
                                                  const BatchTerms& terms) {
  begin();
  for (std::size_t i = 0; i < parts.size(); ++i) match_part(set, &domain, parts[i], i);
  return answer(terms);
}

const RuleAnswer& RuleDecider::Impl::decide_by(const RuleSet::Impl& set, const Rule& rule,
                                               const AttributeSource& attributes,
                                               std::uint64_t cost, const BatchTerms& terms) {
  begin();
  const std::less<const Rule*> before;
  const Rule* first = set.rules.data();
  if (before(&rule, first) || !before(&rule, first + set.rules.size())) {
    answer_.decision = Decision::refused(Reason::kInvalid);
    return answer_;
  }
  values_.begin(set.attributes, attributes);
  name_limits(rule, set.compiled[static_cast<std::size_t>(&rule - first)], 0, cost);
  return answer(terms);
}

void RuleDecider::Impl::begin() {
  text_.clear();
  limits_.clear();
  matched_.clear();
  batch_.clear();
  answer_.decision = Decision{};
  answer_.rule = nullptr;
  answer_.limits.clear();
  answer_.matched.clear();
}

// Step 1: match.

// Tries the rules of one domain, or all rules if `domain` is null.
void RuleDecider::Impl::match_part(const RuleSet::Impl& set, const std::string_view* domain,
                                   const RequestPart& request, std::size_t part) {
  values_.begin(set.attributes, *request.attributes);
  for (std::size_t i = 0; i < set.rules.size(); ++i) {
    const Rule& rule = set.rules[i];
    if (domain != nullptr && rule.domain != *domain) continue;
    if (!set.compiled[i].matches(values_)) continue;
    name_limits(rule, set.compiled[i], part, request.cost);
    if (!rule.continues) break;
  }
}

// Step 2: name.

void RuleDecider::Impl::name_limits(const Rule& rule, const CompiledRule& compiled,
                                    std::size_t part, std::uint64_t cost) {
  MatchedRule matched{&rule, part, cost, limits_.size()};
  matched.new_keys = compiled.new_keys.get();
  for (std::size_t i = 0; i < rule.limits.size(); ++i) {
    if (name_limit(rule.limits[i], compiled.limits[i])) continue;
    matched.lacks_key = true;
    limits_.resize(matched.first);
    limits_.push_back({&rule.limits[i]});
    break;
  }
  matched.last = limits_.size();
  matched.tag_at = text_.size();
  compiled.tag.fill_tag(values_, text_);
  matched.tag_end = text_.size();
  matched_.push_back(matched);
}

// Fills in the key of a limit, or skips the limit. Returns false if an attribute is missing and the
// limit denies for that.
bool RuleDecider::Impl::name_limit(const RuleLimit& limit, const CompiledLimit& compiled) {
  NamedLimit named{&limit, compiled.id, text_.size()};
  text_.append(compiled.prefix);
  if (const auto label = compiled.key.fill(values_, text_, named.key_end, scratch_)) {
    named.label_at = label->at;
    named.label_size = label->size;
    limits_.push_back(named);
    return true;
  }
  text_.resize(named.key_at);
  return limit.on_missing == OnMissing::kSkip;
}

// Step 3: decide.

const RuleAnswer& RuleDecider::Impl::answer(const BatchTerms& terms) {
  if (matched_.empty()) return answer_;
  if (std::any_of(matched_.begin(), matched_.end(), [](const MatchedRule& matched) {
        return matched.lacks_key && matched.enforced();
      })) {
    keep_limits_without_key();
  }
  fill_batch();
  const Decision enforced = batch_.decide(terms);
  fill_limits();
  fill_decision(enforced);
  return answer_;
}

// An enforced rule denies because of a missing attribute. The other limits do not matter then.
void RuleDecider::Impl::keep_limits_without_key() {
  std::size_t kept = 0;
  for (MatchedRule& matched : matched_) {
    const std::size_t first = kept;
    if (matched.lacks_key && matched.enforced()) limits_[kept++] = limits_[matched.first];
    matched.first = first;
    matched.last = kept;
  }
  limits_.resize(kept);
}

void RuleDecider::Impl::fill_batch() {
  const std::string_view text = text_;
  ChargeTerms terms;
  for (const MatchedRule& matched : matched_) {
    terms.mode = matched.enforced() ? ChargeMode::kEnforced : ChargeMode::kShadow;
    terms.on_store_error = matched.rule->on_store_error;
    ++terms.group;
    const std::string_view tag = text.substr(matched.tag_at, matched.tag_end - matched.tag_at);
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      const NamedLimit& named = limits_[i];
      const Limit& limit = named.limit->limit;
      if (matched.lacks_key) {
        batch_.add_refused(limit, terms, Reason::kMissing);
      } else {
        const std::string_view key = text.substr(named.key_at, named.key_end - named.key_at);
        batch_.add({key, limit, matched.cost, tag, Keyspace::kRules, named.id, matched.new_keys},
                   terms);
      }
    }
  }
}

// Step 4: answer.

void RuleDecider::Impl::fill_limits() {
  const std::string_view text = text_;
  for (const MatchedRule& matched : matched_) {
    bool denied = false;
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      const NamedLimit& named = limits_[i];
      const Decision& decision = batch_.decision(i);
      const Charge& charge = batch_.charge(i);
      answer_.limits.push_back({matched.rule, named.limit, charge.key,
                                text.substr(named.label_at, named.label_size), decision, charge.tag,
                                matched.part, batch_.lacks_counter(i)});
      denied |= !decision.allowed();
    }
    answer_.matched.push_back({matched.rule, denied});
  }
}

// A shadow rule changes the answer only if the enforced rules allow. Its numbers are reported if no
// enforced rule has any.
void RuleDecider::Impl::fill_decision(const Decision& enforced) {
  const std::optional<Decision>& shadow = batch_.shadow();
  const bool shadow_denies = shadow && !shadow->allowed() && enforced.allowed();
  answer_.decision = enforced;
  if (shadow && enforced == Decision{}) {
    answer_.decision = {.capacity = shadow->capacity,
                        .remaining = shadow->remaining,
                        .reset_after = shadow->reset_after};
  }
  if (shadow_denies && enforced.reason == Reason::kOk) answer_.decision.reason = Reason::kShadow;
  answer_.rule = matched_.front().rule;
  if (enforced.allowed() && !shadow_denies) return;
  const RuleMode decisive = enforced.allowed() ? RuleMode::kShadow : RuleMode::kEnforce;
  for (const RuleAnswer::Matched& matched : answer_.matched) {
    if (!matched.denied || matched.rule->mode != decisive) continue;
    answer_.rule = matched.rule;
    return;
  }
}

RuleDecider::RuleDecider(Limiter& limiter, const RuleStores& stores)
    : impl_(std::make_unique<Impl>(limiter, stores)) {}
RuleDecider::~RuleDecider() = default;
RuleDecider::RuleDecider(RuleDecider&&) noexcept = default;
RuleDecider& RuleDecider::operator=(RuleDecider&&) noexcept = default;

const RuleAnswer& RuleDecider::decide(const RuleSet& rules, const AttributeSource& attributes,
                                      std::uint64_t cost, std::optional<Instant> now, Verb verb) {
  return impl_->decide(rules::Access::impl(rules), attributes, cost, {verb, now});
}

const RuleAnswer& RuleDecider::decide_parts(const RuleSet& rules, std::string_view domain,
                                            std::span<const RequestPart> parts,
                                            std::optional<Instant> now, Verb verb) {
  return impl_->decide_parts(rules::Access::impl(rules), domain, parts, {verb, now});
}

const RuleAnswer& RuleDecider::decide_by(const RuleSet& rules, const Rule& rule,
                                         const AttributeSource& attributes, std::uint64_t cost,
                                         std::optional<Instant> now, Verb verb) {
  return impl_->decide_by(rules::Access::impl(rules), rule, attributes, cost, {verb, now});
}

}  // namespace sluice

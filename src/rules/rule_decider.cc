#include <algorithm>
#include <functional>

#include "rules/rule_set.h"
#include "sluice/attributes.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice {
namespace {

using rules::AttributeValues;
using rules::CompiledLimit;
using rules::CompiledRule;

// Whether a store has answered each charge by itself, and not the request as a whole.
bool answers_each(const Decision& decision) noexcept {
  return decision.reason != Reason::kMissing && decision.reason != Reason::kInvalid &&
         !store_failed(decision.reason);
}

// Whether a policy may answer: what was to be given back or forgotten was not.
bool is_question(Verb verb) noexcept { return verb == Verb::kTake || verb == Verb::kPeek; }

Decision denied(Reason reason) noexcept { return Decision::refused(reason); }
Decision fallback(Outcome outcome) noexcept {
  return {.outcome = outcome, .reason = Reason::kFallback};
}

}  // namespace

class RuleDecider::Impl {
 public:
  Impl(Limiter& limiter, const RuleStores& stores)
      : limiter_(&limiter),
        trial_(stores.trial != nullptr ? *stores.trial : limiter.store()),
        local_(stores.local) {}

  // What decides one request, beside its rules and attributes.
  struct Terms {
    std::uint64_t cost = 1;
    std::optional<Instant> now = {};
    Verb verb = Verb::kTake;
  };
  const RuleAnswer& decide(const RuleSet::Impl& set, const AttributeSource& attributes,
                           const Terms& terms);
  const RuleAnswer& decide_parts(const RuleSet::Impl& set, std::string_view domain,
                                 std::span<const RequestPart> parts, const Terms& terms);
  const RuleAnswer& decide_by(const RuleSet::Impl& set, const Rule& rule,
                              const AttributeSource& attributes, const Terms& terms);

 private:
  // A limit that applies; its places are in `text_`.
  struct Wanted {
    const RuleLimit* limit;
    std::size_t key_at, key_end, label_at, label_size;
  };
  // A rule that matched, and its limits: `first` to `last` of `wanted_` and of the answer's.
  struct Matched {
    const Rule* rule;
    std::size_t first, last;
    bool missing;  // an attribute that it insists on; then its limits are that one alone
    std::size_t part;
    std::uint64_t cost;
    std::size_t tag_at = 0, tag_end = 0;  // in `text_`

    bool enforced() const noexcept { return rule->mode == RuleMode::kEnforce; }
    bool empty() const noexcept { return first == last; }
  };

  void begin();
  void begin_part(const RuleSet::Impl& set, const AttributeSource& attributes, std::size_t part,
                  std::uint64_t cost);
  void match_rules(const RuleSet::Impl& set, const std::string_view* domain);
  void match(const Rule& rule, const CompiledRule& compiled);
  bool want(const RuleLimit& limit, const CompiledLimit& compiled);
  const RuleAnswer& answer(const Terms& terms);
  void keep_missing();
  void publish();
  Decision enforce(const Terms& terms);
  Decision share_out(const Decision& said, const Terms& terms);
  Decision stand_in(Reason failed, const Terms& terms);
  Decision ask_local_rules(const Terms& terms);
  Decision ask_local(const Terms& terms);
  Decision leave_undone(Reason failed, const Terms& terms);
  bool is_local(const Rule& rule) const noexcept;
  Decision by_policy(const Rule& rule, Reason failed) const noexcept;
  Decision try_out(std::size_t index, const Terms& terms);
  void charge(const Matched& matched);
  Decision ask(Limiter& limiter, const Terms& terms);
  void take_answers(std::size_t index, std::size_t& next);
  void answer_all(std::size_t index, const Decision& decision);
  void settle(const Decision& enforced, const std::optional<Decision>& trial);

  Limiter* limiter_;
  Limiter trial_;  // of the store for rules on trial
  Store* local_;
  AttributeValues values_;
  std::size_t part_ = 0;  // that is being matched, and its cost
  std::uint64_t cost_ = 1;
  std::string text_;
  std::string scratch_;
  std::vector<Wanted> wanted_;
  std::vector<Matched> matched_;
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
  RuleAnswer answer_;
};

void RuleDecider::Impl::begin() {
  text_.clear();
  wanted_.clear();
  matched_.clear();
  answer_.decision = Decision{};
  answer_.rule = nullptr;
  answer_.limits.clear();
  answer_.matched.clear();
}

void RuleDecider::Impl::begin_part(const RuleSet::Impl& set, const AttributeSource& attributes,
                                   std::size_t part, std::uint64_t cost) {
  values_.begin(set.attributes, attributes);
  part_ = part;
  cost_ = cost;
}

// `domain`: of the rules that are tried; null: all.
void RuleDecider::Impl::match_rules(const RuleSet::Impl& set, const std::string_view* domain) {
  for (std::size_t i = 0; i < set.rules.size(); ++i) {
    if (domain != nullptr && set.rules[i].domain != *domain) continue;
    if (!set.compiled[i].matches(values_)) continue;
    match(set.rules[i], set.compiled[i]);
    if (!set.rules[i].continues) break;
  }
}

const RuleAnswer& RuleDecider::Impl::decide(const RuleSet::Impl& set,
                                            const AttributeSource& attributes, const Terms& terms) {
  begin();
  begin_part(set, attributes, 0, terms.cost);
  match_rules(set, nullptr);
  return answer(terms);
}

const RuleAnswer& RuleDecider::Impl::decide_parts(const RuleSet::Impl& set, std::string_view domain,
                                                  std::span<const RequestPart> parts,
                                                  const Terms& terms) {
  begin();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    begin_part(set, *parts[i].attributes, i, parts[i].cost);
    match_rules(set, &domain);
  }
  return answer(terms);
}

const RuleAnswer& RuleDecider::Impl::decide_by(const RuleSet::Impl& set, const Rule& rule,
                                               const AttributeSource& attributes,
                                               const Terms& terms) {
  begin();
  begin_part(set, attributes, 0, terms.cost);
  const std::less<const Rule*> before;
  const Rule* first = set.rules.data();
  if (before(&rule, first) || !before(&rule, first + set.rules.size())) {
    answer_.decision = denied(Reason::kInvalid);
    return answer_;
  }
  match(rule, set.compiled[static_cast<std::size_t>(&rule - first)]);
  return answer(terms);
}

// Fills in the key of a limit. False where the request has to be denied for want of an attribute.
bool RuleDecider::Impl::want(const RuleLimit& limit, const CompiledLimit& compiled) {
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

void RuleDecider::Impl::match(const Rule& rule, const CompiledRule& compiled) {
  Matched matched{&rule, wanted_.size(), 0, false, part_, cost_};
  for (std::size_t i = 0; i < rule.limits.size(); ++i) {
    if (want(rule.limits[i], compiled.limits[i])) continue;
    matched.missing = true;
    wanted_.resize(matched.first);
    wanted_.push_back({&rule.limits[i], 0, 0, 0, 0});
    break;
  }
  matched.last = wanted_.size();
  matched.tag_at = text_.size();
  compiled.tag.fill_tag(values_, text_);
  matched.tag_end = text_.size();
  matched_.push_back(matched);
}

const RuleAnswer& RuleDecider::Impl::answer(const Terms& terms) {
  if (matched_.empty()) return answer_;
  const bool insists = std::any_of(matched_.begin(), matched_.end(), [](const Matched& matched) {
    return matched.missing && matched.enforced();
  });
  if (insists) keep_missing();
  publish();
  const Decision enforced = enforce(terms);
  std::optional<Decision> trial;
  for (std::size_t i = 0; i < matched_.size(); ++i) {
    if (matched_[i].enforced() || matched_[i].empty() || enforced.reason == Reason::kInvalid)
      continue;
    const Decision decision = try_out(i, terms);
    if (!trial || (trial->allowed() && !decision.allowed())) trial = decision;
  }
  settle(enforced, trial);
  return answer_;
}

// An enforced rule denies for want of an attribute: nothing is asked of the store for any rule.
void RuleDecider::Impl::keep_missing() {
  std::size_t kept = 0;
  for (Matched& matched : matched_) {
    const std::size_t first = kept;
    if (matched.missing && matched.enforced()) wanted_[kept++] = wanted_[matched.first];
    matched.first = first;
    matched.last = kept;
  }
  wanted_.resize(kept);
}

// The text has its final place now: hands out views of it.
void RuleDecider::Impl::publish() {
  const std::string_view text = text_;
  for (const Matched& matched : matched_) {
    answer_.matched.push_back({matched.rule, false});
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      const Wanted& wanted = wanted_[i];
      answer_.limits.push_back(
          {matched.rule, wanted.limit, text.substr(wanted.key_at, wanted.key_end - wanted.key_at),
           text.substr(wanted.label_at, wanted.label_size), Decision{},
           text.substr(matched.tag_at, matched.tag_end - matched.tag_at), matched.part});
    }
  }
}

void RuleDecider::Impl::charge(const Matched& matched) {
  for (std::size_t i = matched.first; i < matched.last; ++i) {
    const LimitAnswer& answer = answer_.limits[i];
    charges_.push_back({answer.counter, wanted_[i].limit->limit, matched.cost, answer.tag});
  }
}

Decision RuleDecider::Impl::ask(Limiter& limiter, const Terms& terms) {
  if (charges_.size() > kMaxCharges) return denied(Reason::kInvalid);
  each_.resize(charges_.size());  // the store writes every one of them
  return limiter.apply(terms.verb, charges_, each_, terms.now);
}

// All enforced rules as one request. Where nothing applies, the answer is allowed.
Decision RuleDecider::Impl::enforce(const Terms& terms) {
  charges_.clear();
  bool missing = false;
  for (std::size_t i = 0; i < matched_.size(); ++i) {
    if (!matched_[i].enforced()) continue;
    if (!matched_[i].missing) {
      charge(matched_[i]);
      continue;
    }
    answer_all(i, denied(Reason::kMissing));
    missing = true;
  }
  if (missing) return denied(Reason::kMissing);
  if (charges_.empty()) return Decision{};
  return share_out(ask(*limiter_, terms), terms);
}

// Gives every enforced rule its part of the store's answer.
Decision RuleDecider::Impl::share_out(const Decision& said, const Terms& terms) {
  if (store_failed(said.reason)) {
    return is_question(terms.verb) ? stand_in(said.reason, terms)
                                   : leave_undone(said.reason, terms);
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < matched_.size(); ++i) {
    if (!matched_[i].enforced() || matched_[i].empty()) continue;
    if (answers_each(said)) {
      take_answers(i, next);
    } else {
      answer_all(i, said);
    }
  }
  return said;
}

// What was to be given back or forgotten was not. What was taken locally is, as far as it goes.
Decision RuleDecider::Impl::leave_undone(Reason failed, const Terms& terms) {
  ask_local_rules(terms);
  for (std::size_t i = 0; i < matched_.size(); ++i) {
    if (matched_[i].enforced() && !matched_[i].empty()) answer_all(i, denied(failed));
  }
  return denied(failed);
}

bool RuleDecider::Impl::is_local(const Rule& rule) const noexcept {
  return rule.on_store_error == FailurePolicy::kLocal && local_ != nullptr;
}

// What a rule's policy says without the local store.
Decision RuleDecider::Impl::by_policy(const Rule& rule, Reason failed) const noexcept {
  switch (rule.on_store_error) {
    case FailurePolicy::kAllow: return fallback(Outcome::kAllowed);
    case FailurePolicy::kDeny: return fallback(Outcome::kDenied);
    case FailurePolicy::kLocal: break;
  }
  return local_ != nullptr ? fallback(Outcome::kAllowed) : denied(failed);
}

// Says of every enforced rule what its policy says; the strictest holds for the request. Local
// limits are one all-or-nothing request, which is not made where another rule denies anyway.
Decision RuleDecider::Impl::stand_in(Reason failed, const Terms& terms) {
  const bool denies = std::any_of(matched_.begin(), matched_.end(), [&](const Matched& matched) {
    return matched.enforced() && !matched.empty() && !by_policy(*matched.rule, failed).allowed();
  });
  const Decision local = denies ? fallback(Outcome::kAllowed) : ask_local_rules(terms);
  Decision all = fallback(Outcome::kAllowed);
  std::size_t next = 0;
  for (std::size_t i = 0; i < matched_.size(); ++i) {
    const Matched& matched = matched_[i];
    if (!matched.enforced() || matched.empty()) continue;
    const Decision own = is_local(*matched.rule) ? local : by_policy(*matched.rule, failed);
    if (is_local(*matched.rule) && !denies && answers_each(local)) {
      take_answers(i, next);
    } else {
      answer_all(i, own);
    }
    if (all.allowed() && (is_local(*matched.rule) || !own.allowed())) all = own;
  }
  return all;
}

// The enforced rules that want it, of the local store. Where there are none, it is allowed.
Decision RuleDecider::Impl::ask_local_rules(const Terms& terms) {
  charges_.clear();
  for (const Matched& matched : matched_) {
    if (matched.enforced() && is_local(*matched.rule)) charge(matched);
  }
  return charges_.empty() ? fallback(Outcome::kAllowed) : ask_local(terms);
}

// What the charges get of the local store, in the name of the policy.
Decision RuleDecider::Impl::ask_local(const Terms& terms) {
  each_.resize(charges_.size());
  Decision all = local_->apply(terms.verb, charges_, terms.now, each_);
  if (!answers_each(all)) return all;
  for (Decision& decision : each_) decision.reason = Reason::kFallback;
  all.reason = Reason::kFallback;
  return all;
}

// A rule on trial, by itself.
Decision RuleDecider::Impl::try_out(std::size_t index, const Terms& terms) {
  const Matched& matched = matched_[index];
  Decision decision = denied(Reason::kMissing);
  bool answers = false;
  if (!matched.missing) {
    charges_.clear();
    charge(matched);
    decision = ask(trial_, terms);
    answers = answers_each(decision);
  }
  if (store_failed(decision.reason)) {
    const Reason failed = decision.reason;
    decision = is_local(*matched.rule) ? ask_local(terms) : by_policy(*matched.rule, failed);
    answers = is_local(*matched.rule) && answers_each(decision);
    if (!is_question(terms.verb)) {
      decision = denied(failed);
      answers = false;
    }
  }
  std::size_t next = 0;
  if (answers) {
    take_answers(index, next);
  } else {
    answer_all(index, decision);
  }
  return decision;
}

// The answers of a rule's limits, from `next` in what the store said.
void RuleDecider::Impl::take_answers(std::size_t index, std::size_t& next) {
  const Matched& matched = matched_[index];
  bool any_denied = false;
  for (std::size_t i = matched.first; i < matched.last; ++i) {
    answer_.limits[i].decision = each_[next++];
    any_denied |= !answer_.limits[i].decision.allowed();
  }
  answer_.matched[index].denied = any_denied;
}

// One answer for all limits of a rule, each with what it could hold.
void RuleDecider::Impl::answer_all(std::size_t index, const Decision& decision) {
  const Matched& matched = matched_[index];
  for (std::size_t i = matched.first; i < matched.last; ++i) {
    answer_.limits[i].decision = decision;
    answer_.limits[i].decision.capacity = wanted_[i].limit->limit.capacity();
  }
  answer_.matched[index].denied = !decision.allowed();
}

// `trial`: of the first rule on trial that would have denied, else of the first that was tried;
// none where none was.
void RuleDecider::Impl::settle(const Decision& enforced, const std::optional<Decision>& trial) {
  answer_.decision = enforced;
  const bool shadowed = trial && !trial->allowed() && enforced.allowed();
  if (trial && enforced == Decision{}) {
    answer_.decision = {.capacity = trial->capacity,
                        .remaining = trial->remaining,
                        .reset_after = trial->reset_after};
  }
  if (shadowed && enforced.reason == Reason::kOk) answer_.decision.reason = Reason::kShadow;
  answer_.rule = matched_.front().rule;
  if (enforced.allowed() && !shadowed) return;
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
  return impl_->decide(rules.impl(), attributes, {cost, now, verb});
}

const RuleAnswer& RuleDecider::decide_parts(const RuleSet& rules, std::string_view domain,
                                            std::span<const RequestPart> parts,
                                            std::optional<Instant> now, Verb verb) {
  return impl_->decide_parts(rules.impl(), domain, parts, {1, now, verb});
}

const RuleAnswer& RuleDecider::decide_by(const RuleSet& rules, const Rule& rule,
                                         const AttributeSource& attributes, std::uint64_t cost,
                                         std::optional<Instant> now, Verb verb) {
  return impl_->decide_by(rules.impl(), rule, attributes, {cost, now, verb});
}

}  // namespace sluice

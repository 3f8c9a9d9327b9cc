#include "rules/rule_decider.h"

#include <algorithm>

#include "limiter/permit.h"
#include "rules/near_limit.h"

// A request is decided in four steps: match the rules, name their counters, decide the batch of
// charges, and fill in the answer.
namespace sluice {
namespace {

// Each answer begins as a copy of it and is filled in where it is kept: a copy of an answer that
// was just written member by member would wait for all of these writes.
constexpr LimitAnswer kBlankAnswer{};

}  // namespace

using rules::MatchedRule;
using rules::NamedLimit;

const RuleAnswer& RuleDecider::Impl::decide(const RuleSet::Impl& set,
                                            const AttributeSource& attributes,
                                            const RequestCosts& costs, const BatchTerms& terms,
                                            const Work& work) {
  begin(set, terms, work);
  named_.match(nullptr, attributes, costs, 0);
  return answer(terms);
}

const RuleAnswer& RuleDecider::Impl::decide_parts(const RuleSet::Impl& set, std::string_view domain,
                                                  std::span<const RequestPart> parts,
                                                  const BatchTerms& terms) {
  begin(set, terms, {});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    named_.match(&domain, *parts[i].attributes, parts[i].costs, i);
  }
  return answer(terms);
}

const RuleAnswer& RuleDecider::Impl::decide_by(const RuleSet::Impl& set, const Rule& rule,
                                               const AttributeSource& attributes,
                                               const RequestCosts& costs, const BatchTerms& terms,
                                               const Work& work) {
  begin(set, terms, work);
  const std::less<const Rule*> before;
  const Rule* first = set.rules.data();
  if (before(&rule, first) || !before(&rule, first + set.rules.size())) {
    answer_.decision = Decision::refused(Reason::kInvalid);
    return answer_;
  }
  named_.add(static_cast<std::size_t>(&rule - first), attributes, costs);
  return answer(terms);
}

void RuleDecider::Impl::begin(const RuleSet::Impl& set, const BatchTerms& terms, const Work& work) {
  verb_ = terms.action.verb;
  settles_ = work.actual != nullptr;
  can_repeat_ = false;
  named_.begin(set, {verb_, work.actual, refuses_permits_, stores_.overrides, terms.now,
                     work.response, work.leaves_permits});
  permit_.reset();
  answer_.permit.clear();
  answer_.mistake = {};
  batch_.clear();
  answer_.decision = Decision{};
  answer_.rule = nullptr;
  answer_.limits.clear();
  answer_.matched.clear();
}

// Step 3: decide.

const RuleAnswer& RuleDecider::Impl::answer(const BatchTerms& terms) {
  if (named_.is_invalid()) {
    answer_.decision = Decision::refused(Reason::kInvalid);
    if (!named_.matched().empty()) answer_.rule = named_.matched().front().rule;
    answer_.mistake = named_.mistake();
    return answer_;
  }
  if (named_.matched().empty()) return answer_;
  const std::vector<MatchedRule>& matched = named_.matched();
  if (std::any_of(matched.begin(), matched.end(), [](const auto& rule) { return rule.denies(); })) {
    named_.keep_refused();
  }
  fill_batch();
  name_limits();
  decide_batch(terms);
  can_repeat_ = verb_ == Verb::kTake && !settles_ && !permit_ && !has_unlimited_ &&
                std::none_of(matched.begin(), matched.end(),
                             [](const auto& rule) { return rule.refused != Reason::kOk; });
  return answer_;
}

const RuleAnswer& RuleDecider::Impl::repeat(Instant now) {
  answer_.mistake = {};
  batch_.reset_answers();
  return decide_batch({verb_, now});
}

const RuleAnswer& RuleDecider::Impl::decide_shadow(const Decision& enforced, const Action& action) {
  answer_.decision = enforced;
  if (named_.matched().empty() || named_.is_invalid()) return answer_;
  if (enforced.reason != Reason::kInvalid) batch_.decide_shadow(action);
  answer_.limits.clear();
  answer_.matched.clear();
  name_limits();
  fill_limits();
  fill_decision(enforced);
  answer_.permit.clear();
  fill_permit(enforced);
  if (has_unlimited_) drop_unlimited();
  return answer_;
}

const RuleAnswer& RuleDecider::Impl::decide_batch(const BatchTerms& terms) {
  Decision enforced = batch_.decide(terms);
  if (named_.is_denied_by_rule(RuleMode::kEnforce)) {
    enforced = Decision::refused(Reason::kDenyRule);
  }
  fill_limits();
  fill_decision(enforced);
  fill_permit(enforced);
  if (has_unlimited_) drop_unlimited();
  return answer_;
}

// A settlement charges what the actual cost is more than the reserved one, and gives back what it
// is less. Permits stay as they are.
bool RuleDecider::Impl::gives_back(const NamedLimit& named) const noexcept {
  return settles_ && (named.actual < named.cost || holds_permits(named.numbers.algorithm()));
}

std::uint64_t RuleDecider::Impl::units_of(const NamedLimit& named) const noexcept {
  if (!settles_) return named.cost;
  if (holds_permits(named.numbers.algorithm())) return 0;
  return named.actual < named.cost ? named.cost - named.actual : named.actual - named.cost;
}

// A take of a limit with permits names the permit of the request.
void RuleDecider::Impl::name_permit(Charge& charge) {
  if (!takes(verb_) || !holds_permits(charge.limit.algorithm())) return;
  if (!permit_) permit_ = PermitId::random();
  charge.permit = &*permit_;
}

void RuleDecider::Impl::fill_batch() {
  ChargeTerms terms;
  has_unlimited_ = false;
  for (const MatchedRule& matched : named_.matched()) {
    terms.on_store_error = matched.rule->on_store_error;
    ++terms.group;
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      terms.mode = matched.enforced() ? ChargeMode::kEnforced : ChargeMode::kShadow;
      terms.looks = terms.only_block = false;
      add(matched, named_.limits()[i], terms);
    }
  }
}

void RuleDecider::Impl::add(const MatchedRule& matched, const NamedLimit& named,
                            ChargeTerms& terms) {
  if (matched.refused != Reason::kOk && !named.is_blocked) {
    return batch_.add_refused(named.numbers, terms, matched.refused);
  }
  terms.looks = named.looks && !named.is_blocked;
  terms.only_block = named.is_unlimited;
  has_unlimited_ |= named.is_unlimited;
  const std::string_view text = named_.text();
  Charge& charge = batch_.add(terms);
  charge.key = text.substr(named.key_at, named.key_end - named.key_at);
  charge.limit = named.numbers;
  charge.cost = named.cost;
  charge.tag = text.substr(matched.tag_at, matched.tag_end - matched.tag_at);
  charge.keyspace = Keyspace::kRules;
  charge.limit_id = named.id;
  charge.new_keys = matched.new_keys;
  charge.block = named.limit->block_of_charges();
  if (named.is_blocked) return batch_.block(named.blocked_for);
  if (named.is_unlimited) return;
  charge.cost = units_of(named);
  charge.gives_back = gives_back(named);
  name_permit(charge);
}

// Step 4: answer.

// Fills in what does not depend on the decision.
void RuleDecider::Impl::name_limits() {
  const std::string_view text = named_.text();
  for (const MatchedRule& matched : named_.matched()) {
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      const NamedLimit& named = named_.limits()[i];
      const Charge& charge = batch_.charge(i);
      answer_.limits.push_back(kBlankAnswer);
      LimitAnswer& limit = answer_.limits.back();
      limit.rule = matched.rule;
      limit.limit = named.limit;
      limit.counter = charge.key;
      limit.label = text.substr(named.label_at, named.label_size);
      limit.tag = charge.tag;
      limit.part = matched.part;
      limit.numbers = named.numbers;
    }
    answer_.matched.push_back(
        {matched.rule, false, matched.plan, matched.has_unknown_plan, matched.part});
  }
}

void RuleDecider::Impl::fill_limits() {
  for (std::size_t rule = 0; rule < named_.matched().size(); ++rule) {
    const MatchedRule& matched = named_.matched()[rule];
    bool denied = matched.denies_itself();
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      LimitAnswer& limit = answer_.limits[i];
      limit.decision = batch_.decision(i);
      limit.lacks_counter = batch_.lacks_counter(i);
      limit.cost = batch_.charge(i).cost;
      limit.near = rules::is_near(*limit.limit, limit.decision);
      denied |= !limit.decision.allowed();
    }
    answer_.matched[rule].denied = denied;
  }
}

// A limit does not apply to a key that is unlimited and not blocked.
void RuleDecider::Impl::drop_unlimited() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < answer_.limits.size(); ++i) {
    const bool applies = !named_.limits()[i].is_unlimited || !answer_.limits[i].decision.allowed();
    if (applies) answer_.limits[kept++] = answer_.limits[i];
  }
  answer_.limits.erase(answer_.limits.begin() + static_cast<std::ptrdiff_t>(kept),
                       answer_.limits.end());
}

// A shadow rule changes the answer only if the enforced rules allow. Its numbers are reported if no
// enforced rule has any.
void RuleDecider::Impl::fill_decision(const Decision& enforced) {
  const std::optional<Decision>& shadow = batch_.shadow();
  const bool shadow_denies = enforced.allowed() && (named_.is_denied_by_rule(RuleMode::kShadow) ||
                                                    (shadow && !shadow->allowed()));
  answer_.decision = enforced;
  if (shadow && enforced == Decision{}) {
    answer_.decision = {.capacity = shadow->capacity,
                        .remaining = shadow->remaining,
                        .reset_after = shadow->reset_after};
  }
  const bool is_plain = enforced.reason == Reason::kOk || enforced.reason == Reason::kLease;
  if (shadow_denies && is_plain) answer_.decision.reason = Reason::kShadow;
  const auto& matched_rules = named_.matched();
  const auto deciding = std::find_if(matched_rules.begin(), matched_rules.end(),
                                     [](const MatchedRule& rule) { return rule.decides(); });
  answer_.rule = (deciding != matched_rules.end() ? *deciding : matched_rules.front()).rule;
  if (enforced.reason == Reason::kInvalid) answer_.mistake = named_.mistake();
  if (enforced.allowed() && !shadow_denies) return;
  const RuleMode decisive = enforced.allowed() ? RuleMode::kShadow : RuleMode::kEnforce;
  for (const RuleAnswer::Matched& matched : answer_.matched) {
    if (!matched.denied || matched.rule->mode != decisive) continue;
    const bool denies_itself = matched.rule->action == RuleAction::kDeny;
    if (enforced.reason == Reason::kDenyRule && !denies_itself) continue;
    answer_.rule = matched.rule;
    return;
  }
}

// Names the counters in which the request has units. If the request is denied, rules in shadow mode
// give theirs back.
void RuleDecider::Impl::fill_permit(const Decision& enforced) {
  if (!permit_) return;
  held_.clear();
  for (const MatchedRule& matched : named_.matched()) {
    bool is_taken = enforced.allowed();
    for (std::size_t i = matched.first; !matched.enforced() && i < matched.last; ++i) {
      is_taken = (i == matched.first || is_taken) && batch_.decision(i).allowed();
    }
    for (std::size_t i = matched.first; is_taken && i < matched.last; ++i) {
      // A permit that a failure policy has answered for is not in a store.
      const bool is_held = batch_.decision(i).reset_after > Duration{0};
      const Charge& charge = batch_.charge(i);
      if (is_held && detail::HeldPermit::belongs(charge) && held_.size() < kMaxCharges) {
        held_.push_back(charge);
      }
    }
  }
  if (enforced.allowed()) return PermitText::append(*permit_, held_, answer_.permit);
  for (const Charge& charge : held_) {
    (stores_.shadow != nullptr ? stores_.shadow : store_)->apply_one(Verb::kRelease, charge, {});
  }
}

Decision RuleDecider::Impl::change_permit(Verb verb, std::string_view permit,
                                          std::optional<Instant> now) {
  const auto parsed = PermitText::parse(permit);
  if (!parsed) return Decision::refused(Reason::kInvalid);
  const auto change = [&](Store& store) {
    return verb == Verb::kRelease ? parsed->release(store, now) : parsed->extend(store, now);
  };
  const Decision said = change(*store_);
  if (stores_.local == nullptr) return said;
  const Decision local = change(*stores_.local);
  return said.allowed() || !local.allowed() ? said : local;
}

RuleDecider::RuleDecider(Limiter& limiter, const RuleStores& stores)
    : impl_(std::make_unique<Impl>(limiter, stores)) {}
RuleDecider::~RuleDecider() = default;
RuleDecider::RuleDecider(RuleDecider&&) noexcept = default;
RuleDecider& RuleDecider::operator=(RuleDecider&&) noexcept = default;

const RuleAnswer& RuleDecider::decide(const RuleSet& rules, const AttributeSource& attributes,
                                      const RequestCosts& costs, std::optional<Instant> now,
                                      Action action) {
  return impl_->decide(rules::Access::impl(rules), attributes, costs, {action, now}, {});
}

Decision RuleDecider::release(std::string_view permit, std::optional<Instant> now) {
  return impl_->change_permit(Verb::kRelease, permit, now);
}

Decision RuleDecider::extend(std::string_view permit, std::optional<Instant> now) {
  return impl_->change_permit(Verb::kExtend, permit, now);
}

void RuleDecider::refuse_permits(bool refuse) noexcept { impl_->refuse_permits(refuse); }

const RuleAnswer& RuleDecider::settle(const RuleSet& rules, const AttributeSource& attributes,
                                      const RequestCosts& reserved, const RequestCosts& actual,
                                      std::optional<Instant> now) {
  return impl_->decide(rules::Access::impl(rules), attributes, reserved, {Verb::kCharge, now},
                       {.actual = &actual});
}

const RuleAnswer& RuleDecider::settle_by(const RuleSet& rules, const Rule& rule,
                                         const AttributeSource& attributes,
                                         const RequestCosts& reserved, const RequestCosts& actual,
                                         std::optional<Instant> now) {
  return impl_->decide_by(rules::Access::impl(rules), rule, attributes, reserved,
                          {Verb::kCharge, now}, {.actual = &actual});
}

const RuleAnswer& RuleDecider::report(const RuleSet& rules, const AttributeSource& attributes,
                                      const AttributeSource& response, const RequestCosts& costs,
                                      std::optional<Instant> now) {
  return impl_->decide(rules::Access::impl(rules), attributes, costs, {Verb::kCharge, now},
                       {.response = &response});
}

const RuleAnswer& RuleDecider::report_by(const RuleSet& rules, const Rule& rule,
                                         const AttributeSource& attributes,
                                         const AttributeSource& response, const RequestCosts& costs,
                                         std::optional<Instant> now) {
  return impl_->decide_by(rules::Access::impl(rules), rule, attributes, costs, {Verb::kCharge, now},
                          {.response = &response});
}

const RuleAnswer& RuleDecider::decide_parts(const RuleSet& rules, std::string_view domain,
                                            std::span<const RequestPart> parts,
                                            std::optional<Instant> now, Action action) {
  return impl_->decide_parts(rules::Access::impl(rules), domain, parts, {action, now});
}

const RuleAnswer& RuleDecider::decide_by(const RuleSet& rules, const Rule& rule,
                                         const AttributeSource& attributes,
                                         const RequestCosts& costs, std::optional<Instant> now,
                                         Action action) {
  return impl_->decide_by(rules::Access::impl(rules), rule, attributes, costs, {action, now}, {});
}

}  // namespace sluice

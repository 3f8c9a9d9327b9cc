#include <algorithm>

#include "limiter/batch.h"
#include "limiter/held_permit.h"
#include "rules/diagnostics.h"
#include "rules/rule_set.h"
#include "rules/source_text.h"
#include "sluice/rule_decider.h"

// A request is decided in four steps: match the rules, name their counters, decide the batch of
// charges, and fill in the answer.
namespace sluice {

using rules::AttributeValues;
using rules::CompiledLimit;
using rules::CompiledRule;

namespace {

// The cost of a limit without `cost`.
std::uint64_t unset_cost(const RequestCosts& costs) noexcept {
  return costs.only_if_wanted ? 1 : costs.units;
}

}  // namespace

class RuleDecider::Impl {
 public:
  Impl(Limiter& limiter, const RuleStores& stores)
      : store_(&limiter.store()),
        stores_(stores),
        batch_({limiter.store(), stores.shadow, stores.local}) {}

  const RuleAnswer& decide(const RuleSet::Impl& set, const AttributeSource& attributes,
                           const RequestCosts& costs, const BatchTerms& terms);
  const RuleAnswer& decide_parts(const RuleSet::Impl& set, std::string_view domain,
                                 std::span<const RequestPart> parts, const BatchTerms& terms);
  const RuleAnswer& decide_by(const RuleSet::Impl& set, const Rule& rule,
                              const AttributeSource& attributes, const RequestCosts& costs,
                              const BatchTerms& terms);
  // The next decisions settle: they charge or give back what the actual costs differ by. Null: they
  // do not.
  void settle_to(const RequestCosts* actual) noexcept { actual_ = actual; }
  Decision change_permit(Verb verb, std::string_view permit, std::optional<Instant> now);
  void refuse_permits(bool refuse) noexcept { refuses_permits_ = refuse; }

 private:
  // A limit that applies to the request. Its key and label are in `text_`.
  struct NamedLimit {
    const RuleLimit* limit;
    std::uint32_t id = 0;
    std::uint64_t cost = 1;
    std::uint64_t actual = 1;  // to settle to
    std::size_t key_at = 0, key_end = 0, label_at = 0, label_size = 0;
  };
  // A rule that matched. Its limits are `first` to `last` of `limits_`, the batch and the answer.
  struct MatchedRule {
    const Rule* rule;
    std::size_t part;
    std::size_t first = 0, last = 0;
    std::size_t tag_at = 0, tag_end = 0;  // in `text_`
    NewKeyLimit* new_keys = nullptr;
    // Why a limit of it cannot be decided, so that the rule denies: `on_missing: deny`, or a cost
    // that is no number. It has only that limit then. kOk: all limits can be decided.
    Reason refused = Reason::kOk;

    bool enforced() const noexcept { return rule->mode == RuleMode::kEnforce; }
    bool denies() const noexcept { return refused != Reason::kOk && enforced(); }
  };

  void begin(const RuleSet::Impl& set, Verb verb);
  void match_part(const std::string_view* domain, const RequestPart& request, std::size_t part);
  void name_limits(const Rule& rule, const CompiledRule& compiled, const RequestCosts& costs,
                   std::size_t part);
  Reason name_limit(const RuleLimit& limit, const CompiledLimit& compiled,
                    const RequestCosts& costs);
  Reason find_cost(const RuleLimit& limit, const CompiledLimit& compiled, const RequestCosts& costs,
                   std::uint64_t& cost);
  bool refuses(const Limit& limit) const noexcept;
  static void settle(const NamedLimit& named, Charge& charge, ChargeTerms& terms);
  void explain_cost(const RuleLimit& limit);
  void explain_permit(const RuleLimit& limit);
  void explain_name(std::string_view name, std::size_t part);
  void check_names(const RequestCosts& costs, std::size_t part);
  const RuleAnswer& answer(const BatchTerms& terms);
  void keep_refused_limits();
  void name_permit(Charge& charge);
  void fill_batch();
  void fill_limits();
  void fill_decision(const Decision& enforced);
  void show_tightest();
  void fill_permit(const Decision& enforced);

  const RuleSet::Impl* set_ = nullptr;
  Verb verb_ = Verb::kTake;
  const RequestCosts* actual_ = nullptr;  // to settle to, until the end of the decision
  AttributeValues values_;
  std::string text_;
  std::string scratch_;
  std::string mistake_;                 // of the costs; empty if they are right
  bool has_unknown_name_ = false;       // the mistake: no limit has that name
  std::optional<std::uint32_t> wrong_;  // the attribute of the latest cost, if it is no number
  Store* store_;
  RuleStores stores_;
  bool refuses_permits_ = false;
  std::optional<PermitId> permit_;  // of this request, if it needs one
  std::vector<Charge> held_;        // its charges
  std::vector<NamedLimit> limits_;
  std::vector<MatchedRule> matched_;
  Batch batch_;
  RuleAnswer answer_;
};

const RuleAnswer& RuleDecider::Impl::decide(const RuleSet::Impl& set,
                                            const AttributeSource& attributes,
                                            const RequestCosts& costs, const BatchTerms& terms) {
  begin(set, terms.action.verb);
  match_part(nullptr, {&attributes, costs}, 0);
  return answer(terms);
}

const RuleAnswer& RuleDecider::Impl::decide_parts(const RuleSet::Impl& set, std::string_view domain,
                                                  std::span<const RequestPart> parts,
                                                  const BatchTerms& terms) {
  begin(set, terms.action.verb);
  for (std::size_t i = 0; i < parts.size(); ++i) match_part(&domain, parts[i], i);
  return answer(terms);
}

const RuleAnswer& RuleDecider::Impl::decide_by(const RuleSet::Impl& set, const Rule& rule,
                                               const AttributeSource& attributes,
                                               const RequestCosts& costs, const BatchTerms& terms) {
  begin(set, terms.action.verb);
  const std::less<const Rule*> before;
  const Rule* first = set.rules.data();
  if (before(&rule, first) || !before(&rule, first + set.rules.size())) {
    answer_.decision = Decision::refused(Reason::kInvalid);
    return answer_;
  }
  values_.begin(set.attributes, attributes);
  name_limits(rule, set.compiled[static_cast<std::size_t>(&rule - first)], costs, 0);
  check_names(costs, 0);
  if (actual_ != nullptr) check_names(*actual_, 0);
  return answer(terms);
}

void RuleDecider::Impl::begin(const RuleSet::Impl& set, Verb verb) {
  set_ = &set;
  verb_ = verb;
  permit_.reset();
  answer_.permit.clear();
  mistake_.clear();
  has_unknown_name_ = false;
  answer_.mistake = {};
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
void RuleDecider::Impl::match_part(const std::string_view* domain, const RequestPart& request,
                                   std::size_t part) {
  values_.begin(set_->attributes, *request.attributes);
  for (std::size_t i = 0; i < set_->rules.size(); ++i) {
    const Rule& rule = set_->rules[i];
    if (domain != nullptr && rule.domain != *domain) continue;
    if (!set_->compiled[i].matches(values_)) continue;
    name_limits(rule, set_->compiled[i], request.costs, part);
    if (!rule.continues) break;
  }
  check_names(request.costs, part);
  if (actual_ != nullptr) check_names(*actual_, part);
}

// Checks that the costs name limits of the rules that match the part, if any rule does.
void RuleDecider::Impl::check_names(const RequestCosts& costs, std::size_t part) {
  if (has_unknown_name_ || matched_.empty() || matched_.back().part != part) return;
  for (const LimitCost& cost : costs.limits) {
    const bool known = std::any_of(matched_.begin(), matched_.end(), [&](const auto& matched) {
      const std::vector<RuleLimit>& limits = matched.rule->limits;
      return matched.part == part &&
             std::any_of(limits.begin(), limits.end(),
                         [&](const RuleLimit& limit) { return limit.name == cost.limit; });
    });
    if (!known) return explain_name(cost.limit, part);
  }
}

// Says that no limit has the name, and which names the rules of the part have.
void RuleDecider::Impl::explain_name(std::string_view name, std::size_t part) {
  has_unknown_name_ = true;
  std::vector<std::string_view> known;
  for (const MatchedRule& matched : matched_) {
    if (matched.part != part) continue;
    for (const RuleLimit& limit : matched.rule->limits) known.push_back(limit.name);
  }
  mistake_ = "the rules that apply have no limit " + rules::in_quotes(name) +
             "; expected the name of a limit: " + rules::either(known);
}

// Step 2: name.

void RuleDecider::Impl::name_limits(const Rule& rule, const CompiledRule& compiled,
                                    const RequestCosts& costs, std::size_t part) {
  MatchedRule matched{&rule, part, limits_.size()};
  matched.new_keys = compiled.new_keys.get();
  for (std::size_t i = 0; i < rule.limits.size(); ++i) {
    matched.refused = name_limit(rule.limits[i], compiled.limits[i], costs);
    if (matched.refused == Reason::kOk) continue;
    if (matched.refused == Reason::kInvalid && matched.enforced() && mistake_.empty()) {
      refuses(rule.limits[i].limit) ? explain_permit(rule.limits[i]) : explain_cost(rule.limits[i]);
    }
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

// Fills in the cost and the key of a limit, or skips the limit. Returns the reason if the limit
// denies for that, else kOk.
Reason RuleDecider::Impl::name_limit(const RuleLimit& limit, const CompiledLimit& compiled,
                                     const RequestCosts& costs) {
  const Reason if_missing = limit.on_missing == OnMissing::kSkip ? Reason::kOk : Reason::kMissing;
  NamedLimit named{&limit, compiled.id};
  named.key_at = text_.size();
  text_.append(compiled.prefix);
  const auto label = compiled.key.fill(values_, text_, named.key_end, scratch_);
  Reason wrong = label ? Reason::kOk : Reason::kMissing;
  if (compiled.cost.kind() == rules::CostTemplate::Kind::kUnset && costs.limits.empty()) {
    named.cost = unset_cost(costs);
  } else if (label) {
    wrong = find_cost(limit, compiled, costs, named.cost);
  }
  if (wrong == Reason::kOk && actual_ != nullptr) {
    wrong = find_cost(limit, compiled, *actual_, named.actual);
  }
  if (wrong == Reason::kOk && refuses(limit.limit)) wrong = Reason::kInvalid;
  if (wrong != Reason::kOk) {
    text_.resize(named.key_at);
    return wrong == Reason::kMissing ? if_missing : wrong;
  }
  named.label_at = label->at;
  named.label_size = label->size;
  limits_.push_back(named);
  return Reason::kOk;
}

// Whether the verb is not for a limit with permits, or nobody would receive the permit.
bool RuleDecider::Impl::refuses(const Limit& limit) const noexcept {
  if (!holds_permits(limit.algorithm())) return false;
  if (verb_ == Verb::kCharge) return actual_ == nullptr;
  return takes(verb_) && refuses_permits_;
}

// Sets the cost. Returns kMissing if its attribute is missing, kInvalid if that is no number of
// units, else kOk.
Reason RuleDecider::Impl::find_cost(const RuleLimit& limit, const CompiledLimit& compiled,
                                    const RequestCosts& costs, std::uint64_t& found_cost) {
  using Kind = rules::CostTemplate::Kind;
  const Kind kind = compiled.cost.kind();
  for (const LimitCost& cost : costs.limits) {
    if (cost.limit != limit.name) continue;
    found_cost = cost.units;
    return Reason::kOk;
  }
  if (kind != Kind::kAttribute) {
    found_cost = kind == Kind::kUnits     ? *compiled.cost.units()
                 : kind == Kind::kRequest ? costs.units
                                          : unset_cost(costs);
    return Reason::kOk;
  }
  if (verb_ == Verb::kReset) return Reason::kOk;
  const auto found = compiled.cost.find(values_);
  wrong_ = found.wrong;
  if (found.wrong) return Reason::kInvalid;
  found_cost = found.units.value_or(1);
  return found.units ? Reason::kOk : Reason::kMissing;
}

// Says which attribute is no cost.
void RuleDecider::Impl::explain_cost(const RuleLimit& limit) {
  mistake_ = "the cost of the limit " + rules::in_quotes(limit.name) + ", " +
             rules::in_quotes(set_->attributes.names()[*wrong_]) + ", is " +
             rules::in_quotes(*values_.get(*wrong_)) +
             "; expected a whole number from 0 to 4294967295";
}

void RuleDecider::Impl::explain_permit(const RuleLimit& limit) {
  mistake_ = "the limit " + rules::in_quotes(limit.name) + " holds permits (concurrency), ";
  mistake_ +=
      verb_ == Verb::kCharge
          ? "which cannot be charged; expected a check"
          : "which this kind of request cannot receive; expected /v1/check, RL.CHECK or the "
            "library";
}

// Step 3: decide.

const RuleAnswer& RuleDecider::Impl::answer(const BatchTerms& terms) {
  if (matched_.empty()) return answer_;
  if (has_unknown_name_) {
    answer_.decision = Decision::refused(Reason::kInvalid);
    answer_.rule = matched_.front().rule;
    answer_.mistake = mistake_;
    return answer_;
  }
  if (std::any_of(matched_.begin(), matched_.end(),
                  [](const MatchedRule& matched) { return matched.denies(); })) {
    keep_refused_limits();
  }
  fill_batch();
  const Decision enforced = batch_.decide(terms);
  fill_limits();
  fill_decision(enforced);
  fill_permit(enforced);
  return answer_;
}

// An enforced rule denies because a limit cannot be decided. The other limits do not matter then.
void RuleDecider::Impl::keep_refused_limits() {
  std::size_t kept = 0;
  for (MatchedRule& matched : matched_) {
    const std::size_t first = kept;
    if (matched.denies()) limits_[kept++] = limits_[matched.first];
    matched.first = first;
    matched.last = kept;
  }
  limits_.resize(kept);
}

// Makes a charge of what the actual cost is more than the reserved one, or a refund of what it is
// less. Permits stay as they are.
void RuleDecider::Impl::settle(const NamedLimit& named, Charge& charge, ChargeTerms& terms) {
  const bool is_permit = holds_permits(charge.limit.algorithm());
  const bool is_less = named.actual < named.cost || is_permit;
  charge.cost = is_permit ? 0 : is_less ? named.cost - named.actual : named.actual - named.cost;
  if (is_less) terms.mode = ChargeMode::kRefund;
}

// A take of a limit with permits names the permit of the request.
void RuleDecider::Impl::name_permit(Charge& charge) {
  if (!takes(verb_) || !holds_permits(charge.limit.algorithm())) return;
  if (!permit_) permit_ = PermitId::random();
  charge.permit = &*permit_;
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
      if (matched.refused != Reason::kOk) {
        batch_.add_refused(limit, terms, matched.refused);
      } else {
        const std::string_view key = text.substr(named.key_at, named.key_end - named.key_at);
        Charge charge{key, limit, named.cost, tag, Keyspace::kRules, named.id, matched.new_keys};
        ChargeTerms own = terms;
        if (actual_ != nullptr) settle(named, charge, own);
        name_permit(charge);
        batch_.add(charge, own);
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
                                matched.part, batch_.lacks_counter(i), charge.cost});
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
  if (actual_ != nullptr && enforced.allowed()) show_tightest();
  if (shadow_denies && enforced.reason == Reason::kOk) answer_.decision.reason = Reason::kShadow;
  answer_.rule = matched_.front().rule;
  if (enforced.reason == Reason::kInvalid) answer_.mistake = mistake_;
  if (enforced.allowed() && !shadow_denies) return;
  const RuleMode decisive = enforced.allowed() ? RuleMode::kShadow : RuleMode::kEnforce;
  for (const RuleAnswer::Matched& matched : answer_.matched) {
    if (!matched.denied || matched.rule->mode != decisive) continue;
    answer_.rule = matched.rule;
    return;
  }
}

// A settlement gives back and charges, which are two requests: reports the numbers of the tightest
// limit of both.
void RuleDecider::Impl::show_tightest() {
  const LimitAnswer* tightest = nullptr;
  for (const LimitAnswer& limit : answer_.limits) {
    if (limit.rule->mode == RuleMode::kShadow) continue;
    const bool is_tighter =
        tightest == nullptr || limit.decision.remaining < tightest->decision.remaining;
    if (is_tighter) tightest = &limit;
  }
  if (tightest == nullptr) return;
  answer_.decision.capacity = tightest->decision.capacity;
  answer_.decision.remaining = tightest->decision.remaining;
  answer_.decision.reset_after = tightest->decision.reset_after;
}

// Names the counters in which the request has units. If the request is denied, rules in shadow mode
// give theirs back.
void RuleDecider::Impl::fill_permit(const Decision& enforced) {
  if (!permit_) return;
  held_.clear();
  for (const MatchedRule& matched : matched_) {
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
  return impl_->decide(rules::Access::impl(rules), attributes, costs, {action, now});
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
  impl_->settle_to(&actual);
  const RuleAnswer& answer =
      impl_->decide(rules::Access::impl(rules), attributes, reserved, {Verb::kCharge, now});
  impl_->settle_to(nullptr);
  return answer;
}

const RuleAnswer& RuleDecider::settle_by(const RuleSet& rules, const Rule& rule,
                                         const AttributeSource& attributes,
                                         const RequestCosts& reserved, const RequestCosts& actual,
                                         std::optional<Instant> now) {
  impl_->settle_to(&actual);
  const RuleAnswer& answer = impl_->decide_by(rules::Access::impl(rules), rule, attributes,
                                              reserved, {Verb::kCharge, now});
  impl_->settle_to(nullptr);
  return answer;
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
  return impl_->decide_by(rules::Access::impl(rules), rule, attributes, costs, {action, now});
}

}  // namespace sluice

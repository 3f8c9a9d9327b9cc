#include "limiter/batch.h"

#include <algorithm>
#include <utility>

#include "core/limit.h"
#include "limiter/answer.h"

namespace sluice {
namespace {

// Whether the store has answered each charge, and not the request as a whole.
bool answers_each(const Decision& decision) noexcept {
  return decision.reason != Reason::kInvalid && !store_failed(decision.reason);
}

// Returns the limit with a number of units that no request exceeds.
Limit without_bound(const Limit& limit) noexcept {
  LimitSpec spec = core::spec_of(limit);
  spec.limit = detail::most_units(limit.algorithm());
  spec.burst.reset();
  const auto made = Limit::make(spec);
  return made ? *made : limit;
}

}  // namespace

constinit const Charge Batch::kBlank{{}, token_bucket(1).per(std::chrono::seconds{1})};

void Batch::clear() noexcept {
  modes_ = 0;
  has_looks_ = false;
  has_only_blocks_ = false;
  has_blocked_ = false;
  has_refused_ = false;
  charges_.clear();
  entries_.clear();
}

void Batch::reset_answers() noexcept {
  for (Entry& entry : entries_) entry.left_out = entry.widened = entry.lacks_counter = false;
}

void Batch::add_refused(const Limit& limit, const ChargeTerms& terms, Reason reason) {
  add({{}, limit}, terms);
  entries_.back().refused = reason;
  has_refused_ |= is_enforced(entries_.back());
}

void Batch::block(std::optional<Duration> wait) {
  entries_.back().is_blocked = has_blocked_ = true;
  entries_.back().blocked_for = wait;
}

Decision Batch::decide(const BatchTerms& terms) {
  terms_ = terms;
  failed_ = false;
  shadow_.reset();
  decisions_.assign(charges_.size(), Decision{});
  if (has_refused_) return deny_refused();
  if (terms_.consume_on_reject) widen();
  Decision all = decide_enforced();
  if (failed_ || all.reason == Reason::kInvalid) return all;
  if (has(ChargeMode::kShadow) && !terms_.leaves_shadow) decide_groups();
  if (has(ChargeMode::kRefund)) give_back(!all.allowed() && !terms_.consume_on_reject, all);
  return all;
}

template <typename Chosen>
Batch::Indices Batch::select(const Chosen& chosen) {
  selected_.resize(entries_.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    selected_[count] = i;
    count += chosen(entries_[i]) ? 1 : 0;
  }
  return Indices(selected_).first(count);
}

// Enforced charges.

// The first of them decides.
Decision Batch::deny_refused() {
  const Indices indices =
      select([](const Entry& entry) { return entry.refused != Reason::kOk && is_enforced(entry); });
  for (const std::size_t i : indices) answer_all(Decision::refused(entries_[i].refused), {&i, 1});
  return Decision::refused(entries_[indices.front()].refused);
}

Decision Batch::decide_enforced() {
  new_.clear();
  for (;;) {
    const Indices indices = select(is_asked);
    if (indices.empty()) return {};
    Decision said = ask(*store_, terms_.action, indices);
    if (concludes(said, indices)) return said;
  }
}

// Makes the store's answer that to the request. Returns false if the store is to be asked again,
// without the charges that have been left out.
bool Batch::concludes(Decision& said, Indices asked) {
  if (said.reason == Reason::kStoreFull && goes_on_without_new(terms_.action.verb)) {
    const auto answer = leave_out_new(asked);
    if (!answer) return false;
    said = settle(*answer);
  } else if (store_failed(said.reason)) {
    said = settle(fall_back(said.reason, terms_.action, asked));
  } else if (said.reason == Reason::kGone && leave_out_gone(asked)) {
    return false;
  } else if (said.reason == Reason::kInvalid || is_simple()) {
    complete_without_new(said);
  } else {
    if (!said.allowed() && terms_.consume_on_reject) {
      said = take_separately(asked);
    } else if (!said.allowed() && leave_out_quotas(asked)) {
      return false;
    }
    complete_without_new(said);
    said = settle(said);
  }
  return true;
}

void Batch::begin(const BatchTerms& terms, std::span<const Decision> each) {
  terms_ = terms;
  failed_ = false;
  new_.clear();
  decisions_.resize(charges_.size());
  copy_asked();
  answers_.assign(each.begin(), each.end());
}

bool Batch::answer(Decision& said) {
  const Indices indices = Indices(selected_).first(asked_.size());
  for (std::size_t i = 0; i < indices.size(); ++i) decisions_[indices[i]] = answers_[i];
  if (concludes(said, indices)) return true;
  copy_asked();
  return false;
}

void Batch::copy_asked() {
  asked_.clear();
  for (const std::size_t i : select(is_asked)) asked_.push_back(charges_[i]);
  answers_.resize(asked_.size());
}

// Whether the reason is that of the charge, or of another one of budgets in a row with it.
bool Batch::is_in_row(Reason reason, std::size_t index) const noexcept {
  std::size_t at = index;
  while (at > 0 && charges_[at].alternative) --at;
  bool any = false;
  do {
    any |= decisions_[at].reason == reason;
  } while (++at < charges_.size() && charges_[at].alternative);
  return any;
}

// The policies answer for the charges that need new counters; those of work that is done are not
// counted. Returns the answer if it is final; else leaves these charges out.
std::optional<Decision> Batch::leave_out_new(Indices asked) {
  const std::size_t before = new_.size();
  for (const std::size_t i : asked) {
    if (is_in_row(Reason::kStoreFull, i)) new_.push_back(i);
  }
  if (new_.size() == before) new_.insert(new_.end(), asked.begin(), asked.end());
  const Indices added = Indices(new_).subspan(before);
  const Decision answer = fall_back(Reason::kStoreFull, terms_.action, added);
  const bool goes_on = answer.allowed() || (counts_work(terms_.action.verb) && !failed_);
  if (!goes_on || added.size() == asked.size()) return answer;
  for (const std::size_t i : added) entries_[i].left_out = true;
  return std::nullopt;
}

// The store has answered all charges except new_. If it denies, these get back what they took from
// the local store.
void Batch::complete_without_new(Decision& said) {
  if (new_.empty()) return;
  if (!said.allowed() && takes(terms_.action.verb) && !terms_.consume_on_reject) {
    if (terms_.action.verb == Verb::kTakeAtMost) {
      for (const std::size_t i : new_) charges_[i].cost = decisions_[i].taken;
    }
    pass_over(new_);
    ask_local(Verb::kRefund, new_);
    restore_costs(new_);
  }
  if (said.allowed() && said.reason == Reason::kOk) said.reason = Reason::kFallback;
}

// Leaves out the exhausted quotas if only quotas are exhausted, and not all of them.
bool Batch::leave_out_quotas(Indices asked) {
  bool any_left = false;
  bool any_out = false;
  for (const std::size_t i : asked) {
    const bool is_quota = entries_[i].terms.mode == ChargeMode::kQuota;
    const bool is_over = !decisions_[i].allowed();
    if (is_over && !is_quota) return false;
    any_left |= is_quota && !is_over;
    any_out |= is_over;
  }
  if (!any_left || !any_out) return false;
  for (const std::size_t i : asked) entries_[i].left_out = !decisions_[i].allowed();
  return true;
}

// Leaves out what is gone and may be. Returns whether there is such a charge.
bool Batch::leave_out_gone(Indices asked) {
  bool any = false;
  for (const std::size_t i : asked) {
    entries_[i].left_out = entries_[i].terms.may_be_gone && is_in_row(Reason::kGone, i);
    any |= entries_[i].left_out;
  }
  for (const std::size_t i : asked) {
    if (entries_[i].left_out) decisions_[i] = Decision{};
  }
  return any;
}

// Takes each charge on its own; a denied charge takes what is left.
Decision Batch::take_separately(Indices indices) {
  for (const std::size_t i : indices) {
    Charge charge = charges_[i];
    Decision decision = store_->apply_one(terms_.action, charge, terms_.now);
    if (decision.reason == Reason::kStoreFull) {
      const Decision own = fall_back(decision.reason, terms_.action, {&i, 1});
      if (failed_) return own;
      continue;
    }
    if (store_failed(decision.reason)) return fall_back(decision.reason, terms_.action, indices);
    if (!decision.allowed() && decision.remaining > 0 && has_numbers(decision)) {
      charge.cost = decision.remaining;
      const Decision rest = store_->apply_one(terms_.action, charge, terms_.now);
      if (rest.allowed()) {
        decision.remaining = rest.remaining;
        decision.reset_after = rest.reset_after;
      }
    }
    decisions_[i] = decision;
    narrow(i);
  }
  return Decision::refused(Reason::kLimited);
}

// Corrects the answer to the request where it does not follow from the answers to its charges.
Decision Batch::settle(const Decision& said) {
  if (failed_ || is_simple()) return said;
  bool denies = false;
  bool any_quota = false;
  bool all_quotas_denied = true;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!is_enforced(entries_[i])) continue;
    if (terms_.consume_on_reject) deny_exhausted_peek(i);
    const bool is_quota = entries_[i].terms.mode == ChargeMode::kQuota;
    const bool is_denied = !decisions_[i].allowed();
    denies |= is_denied && !is_quota;
    any_quota |= is_quota;
    all_quotas_denied &= is_denied || !is_quota;
  }
  denies |= any_quota && all_quotas_denied;
  if (denies != said.allowed()) return said;
  if (denies) return Decision::refused(Reason::kLimited);
  return {.reason = said.reason == Reason::kFallback ? Reason::kFallback : Reason::kOk};
}

// Gives fixed windows the unit that says that a counter is past its limit.
void Batch::widen() noexcept {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Limit& limit = charges_[i].limit;
    if (limit.algorithm() != Algorithm::kFixedWindow || limit.limit() == kMaxUnits) continue;
    if (entries_[i].widened || entries_[i].terms.mode == ChargeMode::kShadow) continue;
    entries_[i].widened = true;
    LimitSpec spec = core::spec_of(limit);
    ++spec.limit;
    limit = *Limit::make(spec);
  }
}

// Answers by the limit itself if the store had one unit more. Without that unit, the counter is
// past its limit.
void Batch::narrow(std::size_t index) noexcept {
  Decision& decision = decisions_[index];
  if (!entries_[index].widened || !has_numbers(decision)) return;
  --decision.capacity;
  if (decision.remaining > 0) {
    --decision.remaining;
    return;
  }
  if (!is_enforced(entries_[index])) return;
  decision.outcome = Outcome::kDenied;
  const bool never = decision.capacity == 0;
  decision.reason = never ? Reason::kNever : Reason::kLimited;
  decision.retry_after = never ? std::nullopt : std::optional(decision.reset_after);
}

void Batch::deny_exhausted_peek(std::size_t index) noexcept {
  Decision& decision = decisions_[index];
  if (entries_[index].widened || charges_[index].cost > 0 || decision.remaining > 0 ||
      !has_numbers(decision))
    return;
  decision.outcome = Outcome::kDenied;
  decision.reason = Reason::kLimited;
}

// Shadow charges and refunds.

void Batch::decide_shadow(const Action& action) {
  if (has_refused_ || failed_ || !has(ChargeMode::kShadow)) return;
  terms_.action = action;
  decide_groups();
}

void Batch::decide_groups() {
  std::size_t next = 0;
  for (std::size_t first = 0; first < entries_.size(); first = next) {
    const ChargeTerms& terms = entries_[first].terms;
    next = first + 1;
    if (terms.mode != ChargeMode::kShadow) continue;
    selected_.assign(1, first);
    for (; next < entries_.size(); ++next) {
      const ChargeTerms& other = entries_[next].terms;
      if (other.mode != ChargeMode::kShadow || other.group != terms.group) break;
      selected_.push_back(next);
    }
    const Decision decision = decide_group(selected_);
    if (!shadow_ || (shadow_->allowed() && !decision.allowed())) shadow_ = decision;
  }
}

Decision Batch::decide_group(Indices indices) {
  const Entry& first = entries_[indices.front()];
  if (first.refused != Reason::kOk) return answer_all(Decision::refused(first.refused), indices);
  Store& store = shadow_store_ != nullptr ? *shadow_store_ : *store_;
  const Decision said = ask(store, terms_.action, indices);
  return store_failed(said.reason) ? fall_back(said.reason, terms_.action, indices) : said;
}

// A denied batch changes nothing: its refunds become peeks.
void Batch::give_back(bool denied, Decision& all) {
  const Indices indices =
      select([](const Entry& entry) { return entry.terms.mode == ChargeMode::kRefund; });
  for (const std::size_t i : indices) {
    charges_[i].cost = denied ? 0 : std::min(charges_[i].cost, most_cost(charges_[i].limit));
  }
  const Verb verb = denied ? Verb::kPeek : Verb::kRefund;
  const Decision said = ask(*store_, verb, indices);
  if (!store_failed(said.reason)) return;
  const Decision undone = fall_back(said.reason, verb, indices);
  if (failed_ && !denied) all = undone;
}

// Requests to a store.

Decision Batch::ask(Store& store, Action action, Indices indices) {
  if (!has_blocked_ || !asks(action.verb)) return ask_unblocked(store, action, indices);
  if (is_denied_by_block(action.verb, indices)) return deny_blocked(store, action.verb, indices);
  const Decision said = ask_unblocked(store, action, indices);
  return answers_each(said) ? write_blocks(said.taken, indices) : said;
}

// A cost of 0 is not denied; with kTakeAtMost it is that of all charges.
bool Batch::is_denied_by_block(Verb verb, Indices indices) const noexcept {
  const auto has_cost = [this](std::size_t i) { return charges_[i].cost > 0; };
  const auto is_denied = [&](std::size_t i) { return entries_[i].is_blocked && has_cost(i); };
  return std::ranges::any_of(indices, is_denied) &&
         (verb != Verb::kTakeAtMost || std::ranges::all_of(indices, has_cost));
}

// The waits of all charges are a part of the answer; if the store fails, those of the blocks.
Decision Batch::deny_blocked(Store& store, Verb verb, Indices indices) {
  costs_.clear();
  for (const std::size_t i : indices) {
    costs_.push_back(charges_[i].cost);
    if (verb == Verb::kTakeAtMost) charges_[i].cost = 1;  // it waits for one unit
  }
  Decision all = ask_unblocked(store, Verb::kPeek, indices);
  if (all.reason != Reason::kInvalid) {
    if (store_failed(all.reason)) fall_back(all.reason, Verb::kPeek, indices);
    failed_ = false;
    all = write_blocks(0, indices);
    all.outcome = Outcome::kDenied;  // of a charge without a policy it is kFailed
  }
  restore_costs(indices);
  return all;
}

// Adds the blocks of keys that the batch has blocked to the answers of charges, and returns the
// answer to the request.
Decision Batch::write_blocks(std::uint64_t taken, Indices indices) {
  bool is_forever = false;
  answers_.clear();
  for (const std::size_t i : indices) {
    const Entry& entry = entries_[i];
    Decision& own = decisions_[i];
    if (entry.is_blocked) {
      if (!has_numbers(own)) own = Decision{.capacity = charges_[i].limit.capacity()};
      own.passed_over = false;
      core::write({.left = entry.blocked_for.value_or(Duration{1}).count()}, charges_[i].cost, own);
      const bool has_no_end = own.reason == Reason::kBlocked && !entry.blocked_for;
      if (has_no_end) own.retry_after.reset();
      is_forever |= has_no_end;
    }
    answers_.push_back(own);
  }
  Decision all = combine(answers_);
  all.taken = taken;
  if (is_forever) all.retry_after.reset();
  return all;
}

Decision Batch::ask_unblocked(Store& store, Action action, Indices indices) {
  return has_only_blocks_ && asks(action.verb) ? ask_after_blocks(store, action, indices)
                                               : ask_rest(store, action, indices);
}

Decision Batch::ask_after_blocks(Store& store, Action action, Indices indices) {
  blocks_.clear();
  rest_.clear();
  limits_.clear();
  for (const std::size_t i : indices) (entries_[i].terms.only_block ? blocks_ : rest_).push_back(i);
  if (blocks_.empty()) return ask_rest(store, action, indices);
  for (const std::size_t i : blocks_) {
    limits_.push_back(std::exchange(charges_[i].limit, without_bound(charges_[i].limit)));
  }
  Decision said = ask_once(store, Verb::kPeek, blocks_);
  const bool is_blocked = said.reason == Reason::kBlocked;
  if (is_blocked && !rest_.empty()) said = ask_once(store, Verb::kPeek, indices);
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    charges_[blocks_[k]].limit = limits_[k];
    decisions_[blocks_[k]].capacity = limits_[k].capacity();
  }
  if (!answers_each(said)) return said;
  if (said.reason == Reason::kBlocked) {
    answers_.clear();
    for (const std::size_t i : indices) answers_.push_back(decisions_[i]);
    return combine(answers_);
  }
  for (const std::size_t i : blocks_) decisions_[i] = Decision{};
  return rest_.empty() ? Decision{} : ask_rest(store, action, rest_);
}

Decision Batch::ask_rest(Store& store, Action action, Indices indices) {
  const bool looks = has_looks_ && takes(action.verb);
  return looks ? ask_after_look(store, action, indices) : ask_once(store, action, indices);
}

// A peek answers as a take would, so charges that only look ask for what is left, and answer with
// that. If it is less than their cost, the same request for all charges is denied, which can start
// a block; a take in place of one that would wait, or would take less.
Decision Batch::ask_after_look(Store& store, Action action, Indices indices) {
  taken_.clear();
  looking_.clear();
  for (const std::size_t i : indices) (entries_[i].terms.looks ? looking_ : taken_).push_back(i);
  if (looking_.empty()) return ask_once(store, action, indices);
  Decision said = ask_for_nothing(store, looking_);
  if (!answers_each(said)) return said;
  const bool fits = std::all_of(looking_.begin(), looking_.end(), [this](std::size_t i) {
    return decisions_[i].allowed() && charges_[i].cost <= decisions_[i].remaining;
  });
  const bool is_same = action.verb == Verb::kTake || action.verb == Verb::kHold;
  if (!fits) {
    const Action denies = is_same ? action : Action(Verb::kTake);
    said = ask_once(store, denies, indices);
    if (!said.allowed()) return said;
    undo(store, denies.verb, is_same ? Indices(looking_) : indices);  // units have come since
  } else if (taken_.empty()) {
    return said;
  }
  if (!taken_.empty() && (fits || !is_same)) said = ask_once(store, action, taken_);
  if (!answers_each(said)) return said;
  answers_.clear();
  for (const std::size_t i : indices) answers_.push_back(decisions_[i]);
  Decision all = combine(answers_);
  all.taken = said.taken;
  return all;
}

void Batch::undo() {
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    const ChargeTerms& terms = entries_[i].terms;
    if (!is_enforced(entries_[i]) || terms.looks || terms.only_block) continue;
    if (!detail::took_units(decisions_[i])) continue;
    if (holds_permits(charges_[i].limit.algorithm())) {
      ask_for_nothing(*store_, {&i, 1});
    } else {
      ask_once(*store_, Verb::kRefund, {&i, 1});
    }
  }
}

// Gives back what charges have taken, which were admitted without an id, or have held.
void Batch::undo(Store& store, Verb verb, Indices indices) {
  for (const std::size_t i : indices) {
    if (decisions_[i].passed_over) continue;
    const bool is_held = verb == Verb::kHold && holds_amounts(charges_[i].limit.algorithm());
    ask_once(store, is_held ? Verb::kCancel : Verb::kRefund, {&i, 1});
  }
}

Decision Batch::ask_for_nothing(Store& store, Indices indices) {
  costs_.clear();
  for (const std::size_t i : indices) costs_.push_back(std::exchange(charges_[i].cost, 0));
  const Decision said = ask_once(store, Verb::kPeek, indices);
  restore_costs(indices);
  return said;
}

// What a take has passed over is not to be given back.
void Batch::pass_over(Indices indices) {
  costs_.clear();
  for (const std::size_t i : indices) {
    costs_.push_back(charges_[i].cost);
    if (decisions_[i].passed_over) charges_[i].cost = 0;
  }
}

void Batch::restore_costs(Indices indices) noexcept {
  for (std::size_t i = 0; i < indices.size(); ++i) charges_[indices[i]].cost = costs_[i];
}

Decision Batch::ask_once(Store& store, Action action, Indices indices) {
  if (indices.size() > kMaxCharges) return answer_all(Decision::refused(Reason::kInvalid), indices);
  Decision said;
  if (indices.size() == 1) {
    Decision& only = decisions_[indices.front()];
    said = only = store.apply_one(action, charges_[indices.front()], terms_.now);
  } else {
    said = ask_several(store, action, indices);
  }
  if (said.reason == Reason::kStoreFull) {
    for (const std::size_t i : indices) {
      entries_[i].lacks_counter |= decisions_[i].reason == Reason::kStoreFull;
    }
    return said;
  }
  if (!answers_each(said)) return answer_all(said, indices);
  for (const std::size_t i : indices) narrow(i);
  if (action.verb == Verb::kCharge || action.verb == Verb::kRefund) {
    said = without_unasked(said, indices);
  }
  return said;
}

// Returns the answer without budgets in a row that a charge or a refund has not asked: without an
// id, it counts in the first of them, and in later ones that have a cost of their own.
Decision Batch::without_unasked(const Decision& said, Indices indices) {
  bool any = false;
  answers_.clear();
  for (const std::size_t i : indices) {
    const Charge& charge = charges_[i];
    const bool is_asked = !charge.alternative || charge.permit != nullptr || charge.cost > 0;
    if (!is_asked) any = decisions_[i].passed_over = true;
    answers_.push_back(decisions_[i]);
  }
  return any ? combine(answers_) : said;
}

Decision Batch::ask_several(Store& store, Action action, Indices indices) {
  const std::size_t first = indices.front();
  const std::size_t count = indices.size();
  if (indices.back() - first + 1 == count) {
    return store.apply(action, std::span(charges_).subspan(first, count), terms_.now,
                       std::span(decisions_).subspan(first, count));
  }
  asked_.clear();
  for (const std::size_t i : indices) asked_.push_back(charges_[i]);
  answers_.resize(count);
  const Decision said = store.apply(action, asked_, terms_.now, answers_);
  for (std::size_t i = 0; i < count; ++i) decisions_[indices[i]] = answers_[i];
  return said;
}

// Gives charges the same answer, each with its own capacity.
Decision Batch::answer_all(const Decision& decision, Indices indices) {
  for (const std::size_t i : indices) {
    decisions_[i] = decision;
    decisions_[i].capacity = charges_[i].limit.capacity();
  }
  return decision;
}

// Answers charges by their policies because a store could not decide. The strictest policy decides.
Decision Batch::fall_back(Reason failed, Action action, Indices indices) {
  const bool lacks_policy = std::any_of(indices.begin(), indices.end(), [this](std::size_t i) {
    return !entries_[i].terms.on_store_error;
  });
  failed_ |= lacks_policy && entries_[indices.front()].terms.mode != ChargeMode::kShadow;
  if (lacks_policy) return answer_all(Decision::refused(failed), indices);
  if (!asks(action.verb)) {
    ask_local(action, indices);
    return answer_all(Decision::refused(failed), indices);
  }
  std::optional<std::uint64_t> least;
  for (const std::size_t i : indices) {
    if (entries_[i].terms.only_block) continue;
    const std::uint64_t own = std::min(charges_[i].cost, most_cost(charges_[i].limit));
    least = std::min(least.value_or(own), own);
  }
  const std::uint64_t least_cost = least.value_or(0);
  const Decision allowed = detail::fallback(Outcome::kAllowed, action.verb, least_cost);
  Decision all = allowed;
  for (const std::size_t i : indices) {
    const Decision own = by_policy(entries_[i], failed, allowed);
    answer_all(own, {&i, 1});
    if (all.allowed()) all = own;
  }
  if (!all.allowed()) return all;
  return ask_local(action, indices).value_or(allowed);
}

// What the policy of a charge answers. Where the local store is to answer, it is allowed until
// then.
Decision Batch::by_policy(const Entry& entry, Reason failed,
                          const Decision& allowed) const noexcept {
  switch (*entry.terms.on_store_error) {
    case FailurePolicy::kAllow: return allowed;
    case FailurePolicy::kDeny: return detail::fallback(Outcome::kDenied, terms_.action.verb, 0);
    case FailurePolicy::kLocal: break;
  }
  return local_store_ != nullptr ? allowed : Decision::refused(failed);
}

// Asks the local store for those of the charges that want it. Absent if there are none.
std::optional<Decision> Batch::ask_local(Action action, Indices indices) {
  local_.clear();
  for (const std::size_t i : indices) {
    if (entries_[i].terms.on_store_error == FailurePolicy::kLocal) local_.push_back(i);
  }
  if (local_.empty() || local_store_ == nullptr) return std::nullopt;
  Decision all = ask(*local_store_, action, local_);
  if (!answers_each(all)) return all;
  for (const std::size_t i : local_) decisions_[i].reason = Reason::kFallback;
  all.reason = Reason::kFallback;
  return all;
}

}  // namespace sluice

// What each event loop counts. Only the loop writes its counts, which are plain numbers, and a
// reader adds those of all loops.
#include "metrics/counts.h"

#include <algorithm>

namespace sluice::metrics {
namespace {

// Whether a reason, by its number, says that the store could not decide.
constexpr bool is_failure(std::size_t reason) noexcept {
  const auto of = static_cast<Reason>(reason);
  return store_failed(of) || of == Reason::kFallback;
}

// Adds what a tally has counted, of a limit or of the requests of a rule.
void add_cells(Activity::Counts& of, const Tally& tally, bool is_limit) noexcept {
  std::uint64_t allowed = 0, denied = 0;
  for (std::size_t i = 0; i < kReasons; ++i) {
    const std::uint64_t passed = tally.cells[i].get();
    const std::uint64_t refused = tally.cells[kReasons + i].get();
    allowed += passed;
    denied += refused;
    if (is_failure(i)) of.failed += passed + refused;
  }
  std::uint64_t would_deny = tally.cells[kShadowCell].get();
  of.asked += allowed + denied;
  if (is_limit) {
    // The loop counts a denial before it counts that it was in shadow mode.
    would_deny = std::min(would_deny, denied);
    denied -= would_deny;
  }
  of.allowed += allowed;
  of.denied += denied;
  of.would_deny += would_deny;
  of.near += tally.cells[kNearCell].get();
  of.skipped += tally.cells[kSkippedCell].get();
}

}  // namespace

void RuleCounts::add_to(Activity& to) const noexcept {
  for (std::size_t i = 0; i < to.rules.size(); ++i) {
    add_cells(to.rules[i], requests_[i], false);
    for (std::size_t k = 0; k < kReasons; ++k) {
      to.reasons[k] += requests_[i].cells[k].get() + requests_[i].cells[kReasons + k].get();
    }
  }
  for (std::size_t i = 0; i < to.limits.size(); ++i) add_cells(to.limits[i], limits_[i], true);
}

void Recorder::add_to(Activity& to, const RuleSet& rules) const noexcept {
  static_assert(std::tuple_size_v<decltype(to.reasons)> == kReasons);
  if (uses(rules)) rules_->add_to(to);
  to.failed += failed_.get();
  for (std::size_t i = 0; i < kFrontEnds; ++i) durations_[i].add_to(to.durations[i]);
}

Activity::Counts Activity::total() const noexcept {
  Counts sum;
  for (const Counts& one : rules) {
    sum.asked += one.allowed + one.denied;
    sum.allowed += one.allowed;
    sum.denied += one.denied;
    sum.would_deny += one.would_deny;
    sum.failed += one.failed;
    sum.near += one.near;
    sum.skipped += one.skipped;
  }
  return sum;
}

void Total::add(const Tally& tally) noexcept {
  for (std::size_t i = 0; i < kCells; ++i) cells[i] += tally.cells[i].get();
}

RuleCounts::RuleCounts() : requests_(std::make_unique<Tally[]>(1)) {}

RuleCounts::RuleCounts(const RuleSet& rules) : rules_(rules), all_(rules_->rules()) {
  std::size_t limits = 0;
  first_limit_.reserve(all_.size());
  for (const Rule& rule : all_) {
    first_limit_.push_back(limits);
    limits += rule.limits.size();
  }
  limits_ = std::make_unique<Tally[]>(limits);
  requests_ = std::make_unique<Tally[]>(all_.size() + 1);
}

// Returns the position of the rule, or the number of rules if it is null or not one of them.
std::size_t RuleCounts::index_of(const Rule* rule) const noexcept {
  if (rule == nullptr) return all_.size();
  const auto index = static_cast<std::size_t>(rule - all_.data());
  return index < all_.size() ? index : all_.size();
}

// Returns the counts of a limit of the rule, or null if it is not one of them.
Tally* RuleCounts::tally_of(const Rule* rule, const RuleLimit* limit) const noexcept {
  const auto index = index_of(rule);
  if (index == all_.size()) return nullptr;
  const auto place = static_cast<std::size_t>(limit - rule->limits.data());
  return place < rule->limits.size() ? &limits_[first_limit_[index] + place] : nullptr;
}

void RuleCounts::count(const RuleAnswer& answer, std::uint64_t near) noexcept {
  const auto cell = cell_of(answer.decision.outcome, answer.decision.reason);
  requests_[index_of(answer.rule)].cells[cell].add(1);
  for (const RuleAnswer::Matched& matched : answer.matched) {
    if (matched.has_unknown_plan) requests_[index_of(matched.rule)].cells[kUnknownPlanCell].add(1);
    if (!matched.denied || matched.rule->action != RuleAction::kDeny) continue;
    if (matched.rule->mode != RuleMode::kShadow) continue;
    requests_[index_of(matched.rule)].cells[kShadowCell].add(1);
  }
  for (const LimitAnswer& of : answer.limits) {
    const bool is_near = (near & 1) != 0;
    near >>= 1;
    Tally* const tally = tally_of(of.rule, of.limit);
    if (tally == nullptr) continue;
    if (!of.decision.passed_over) {
      tally->cells[cell_of(of.decision.outcome, of.decision.reason)].add(1);
    }
    if (of.lacks_counter) tally->cells[kNewCell].add(1);
    if (is_near) tally->cells[kNearCell].add(1);
    if (of.decision.starts_block) tally->cells[kBlockCell].add(1);
    if (of.rule->mode == RuleMode::kShadow && !of.decision.allowed()) {
      tally->cells[kShadowCell].add(1);
    }
  }
  for (const RuleAnswer::Skipped& of : answer.skipped) {
    Tally* const tally = tally_of(of.rule, of.limit);
    if (tally != nullptr) tally->cells[kSkippedCell].add(1);
  }
}

void RuleCounts::count_refused_new(const RuleAnswer& answer) noexcept {
  for (const LimitAnswer& of : answer.limits) {
    Tally* const tally = of.lacks_counter ? tally_of(of.rule, of.limit) : nullptr;
    if (tally != nullptr) tally->cells[kNewCell].add(1);
  }
}

void RuleCounts::add_to(Totals& totals) const {
  totals.requests[""].add(requests_[all_.size()]);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const Rule& rule = all_[i];
    Total& of_rule = totals.requests[rule.name];
    of_rule.add(requests_[i]);
    of_rule.shadow |= rule.mode == RuleMode::kShadow && rule.action == RuleAction::kDeny;
    of_rule.plans |= !rule.plans.empty();
    for (std::size_t j = 0; j < rule.limits.size(); ++j) {
      Total& total = totals.limits[{rule.name, rule.limits[j].name}];
      total.add(limits_[first_limit_[i] + j]);
      total.shadow |= rule.mode == RuleMode::kShadow;
      total.blocks |= rule.limits[j].block.has_value();
      total.warns |= rule.limits[j].warn_percent > 0;
      total.skips |= rule.limits[j].on_missing == OnMissing::kSkip &&
                     rule.limits[j].key.find('{') != std::string::npos;
    }
  }
}

bool RuleCounts::knows(const std::string& rule) const noexcept {
  return rule.empty() || (rules_ && rules_->find(rule) != nullptr);
}

bool RuleCounts::knows(const std::string& rule, const std::string& limit) const noexcept {
  const Rule* found = rules_ ? rules_->find(rule) : nullptr;
  return found != nullptr && std::any_of(found->limits.begin(), found->limits.end(),
                                         [&](const RuleLimit& one) { return one.name == limit; });
}

void Shared::keep(const RuleCounts& late) {
  const std::lock_guard lock(mutex);
  late.add_to(kept);
  forget_unknown_names();
}

void Shared::forget_unknown_names() {
  std::vector<const RuleCounts*> different;
  for (const auto& recorder : recorders) {
    const RuleCounts& rules = recorder->rules();
    const auto same = [&](const RuleCounts* other) { return other->id() == rules.id(); };
    if (std::none_of(different.begin(), different.end(), same)) different.push_back(&rules);
  }
  const auto unknown = [&](const auto&... names) {
    return std::none_of(different.begin(), different.end(),
                        [&](const RuleCounts* rules) { return rules->knows(names...); });
  };
  std::erase_if(kept.requests, [&](const auto& entry) { return unknown(entry.first); });
  std::erase_if(kept.limits,
                [&](const auto& entry) { return unknown(entry.first.first, entry.first.second); });
}

Recorder::Recorder(Shared& shared) : shared_(shared), rules_(std::make_unique<RuleCounts>()) {}
Recorder::~Recorder() = default;

void Recorder::add_to(Totals& totals) const {
  rules_->add_to(totals);
  for (std::size_t i = 0; i < kFrontEnds; ++i) durations_[i].add_to(totals.durations[i]);
  for (std::size_t i = 0; i < kEvents; ++i) totals.events[i] += events_[i].get();
}

bool Recorder::uses(const RuleSet& rules) const noexcept {
  return rules_->id() == rules.rules().data();
}

void Recorder::use(const RuleSet& rules) {
  if (uses(rules)) return;
  auto next = std::make_unique<RuleCounts>(rules);
  const std::lock_guard lock(shared_.mutex);
  rules_->add_to(shared_.kept);
  rules_ = std::move(next);
  shared_.forget_unknown_names();
}

void Recorder::note(const RuleAnswer& answer) noexcept {
  if (is_failure(static_cast<std::size_t>(answer.decision.reason))) failed_.add(1);
}

void Recorder::count(const RuleAnswer& answer, std::uint64_t near) noexcept {
  note(answer);
  rules_->count(answer, near);
}

void Recorder::count_late(const RuleSet& rules, const RuleAnswer& answer, std::uint64_t near) {
  note(answer);
  RuleCounts late(rules);
  late.count(answer, near);
  shared_.keep(late);
}

void Recorder::count_refused_new(const RuleSet& rules, const RuleAnswer& answer) {
  if (std::none_of(answer.limits.begin(), answer.limits.end(),
                   [](const LimitAnswer& limit) { return limit.lacks_counter; })) {
    return;
  }
  if (uses(rules)) return rules_->count_refused_new(answer);
  RuleCounts late(rules);
  late.count_refused_new(answer);
  shared_.keep(late);
}

void Recorder::observe(FrontEnd front_end, std::chrono::nanoseconds took) noexcept {
  durations_[static_cast<std::size_t>(front_end)].add(took);
}

void Recorder::observe_many(FrontEnd front_end, std::uint64_t requests,
                            std::chrono::nanoseconds took) noexcept {
  if (requests == 0) return;
  durations_[static_cast<std::size_t>(front_end)].add_many(requests, took);
}

void Recorder::add(Event event, std::uint64_t n) noexcept {
  events_[static_cast<std::size_t>(event)].add(n);
}

}  // namespace sluice::metrics

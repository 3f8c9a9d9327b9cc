#include "tests/property/plan_history.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace sluice_property {
namespace {

using sluice::Override;
using sluice_oracle::Spec;
using sluice_oracle::Verb;

constexpr std::int64_t kMillisecond = 1000;
const char* const kNames[] = {"first", "second"};

// Periods in rules are whole milliseconds.
std::int64_t whole(std::int64_t period_us) { return period_us - period_us % kMillisecond; }

std::string numbers_text(const Spec& spec) {
  static constexpr std::array<const char*, 4> kUnits = {"day", "week", "month", "year"};
  std::string text = "{ limit: " + std::to_string(spec.limit) + ", per: ";
  text += spec.calendar ? kUnits[static_cast<std::size_t>(spec.calendar->unit)]
                        : std::to_string(spec.per_us / kMillisecond) + "ms";
  if (spec.burst) text += ", burst: " + std::to_string(*spec.burst);
  return text + " }";
}

// Verbs that report what has happened are not denied by a block.
bool asks(Verb verb) {
  return verb != Verb::kRefund && verb != Verb::kReset && verb != Verb::kCharge;
}

}  // namespace

PlanHistory::PlanHistory(std::uint64_t seed, sluice::Store& store)
    : dice_(seed), limiter_(store), decider_(limiter_, {.overrides = &overrides_}) {
  for (Spec& own : own_) {
    do {
      own = random_spec(dice_, random_algorithm(dice_));
      if (!own.calendar) own.per_us = whole(own.per_us);
    } while (!is_valid(own));
  }
  for (Numbers& plan : plans_) {
    for (std::size_t i = 0; i < kLimits; ++i) plan[i] = random_numbers(own_[i]);
  }
  plans_.back()[1] = own_[1];
  write_rules();
}

// Another limit with the same options.
Spec PlanHistory::random_numbers(const Spec& own) {
  for (;;) {
    const Spec other = random_spec(dice_, own.algorithm);
    Spec spec = own;
    if (dice_.chance(70)) spec.limit = other.limit;
    if (dice_.chance(40) && !own.calendar && !other.calendar) spec.per_us = whole(other.per_us);
    if (dice_.chance(40)) spec.burst = other.burst;
    if (is_valid(spec)) return spec;
  }
}

void PlanHistory::write_rules() {
  std::string text = "version: 1\nplans:\n";
  for (std::size_t plan = 0; plan < plans_.size(); ++plan) {
    const bool is_basic = plan + 1 == plans_.size();
    text += "  " + std::string(kPlans[plan]) + ": { first: " + numbers_text(plans_[plan][0]);
    if (!is_basic) text += ", second: " + numbers_text(plans_[plan][1]);
    text += " }\n";
  }
  text += "rules:\n  - name: api\n    plan: { from: \"{plan}\", default: free }\n    limits:\n";
  for (std::size_t i = 0; i < kLimits; ++i) {
    text += std::string("      - {\"name\":\"") + kNames[i] + "\",\"key\":\"{customer}\"," +
            to_json(own_[i]).substr(1) + "\n";
  }
  const auto rules = sluice::RuleSet::parse(text, "rules");
  if (!rules) {
    std::fprintf(stderr, "%s%s\n", text.c_str(), rules.error().front().to_string().c_str());
    std::abort();
  }
  rules_ = *rules;
}

Override PlanHistory::random_override(std::size_t limit) {
  using Kind = Override::Kind;
  Override given;
  given.kind = dice_.any_of({Kind::kNumbers, Kind::kNumbers, Kind::kNumbers, Kind::kPlan,
                             Kind::kBlocked, Kind::kUnlimited});
  if (given.kind == Kind::kPlan) given.plan = kPlans[dice_.below(kPlans.size())];
  if (given.kind == Kind::kNumbers) {
    const Spec other = random_spec(dice_, own_[limit].algorithm);
    given.limit = other.limit;
    given.burst = other.burst;
    if (!other.calendar && dice_.chance(50)) given.per = sluice::Duration{whole(other.per_us)};
  }
  if (dice_.chance(30)) {
    const std::int64_t length = 1 + dice_.between(0, 2 * own_[limit].per_us);
    given.until = sluice::Instant{sluice::Duration{now_ + length}};
  }
  return given;
}

// Sets or removes an override. Returns what is wrong.
std::string PlanHistory::change_override() {
  const Request request = random_request();
  const std::size_t limit = dice_.below(kLimits);
  const sluice::Attributes attributes = attributes_of(request);
  if (dice_.chance(30)) {
    const Override any{.kind = Override::Kind::kBlocked};
    const bool was =
        overrides_.unset(*name_override(*rules_, "api", kNames[limit], attributes, any));
    const bool expected = given_.erase({request.customer, limit}) != 0;
    return was == expected ? "" : "  an override was removed, or was not there\n";
  }
  const Override given = random_override(limit);
  const auto counter = name_override(*rules_, "api", kNames[limit], attributes, given);
  if (!counter) return "";  // the algorithm cannot have the numbers
  ++counts_.overridden;
  if (!overrides_.set(*counter, given)) return "  an override was refused\n";
  given_[{request.customer, limit}] = given;
  return "";
}

PlanHistory::Request PlanHistory::random_request() {
  Request request;
  request.customer = dice_.any_of<const char*>({"a", "b"});
  request.plan = dice_.any_of<const char*>({"", "free", "pro", "basic", "gold"});
  request.verb = dice_.any_of({Verb::kTake, Verb::kTake, Verb::kTake, Verb::kTake, Verb::kPeek,
                               Verb::kRefund, Verb::kCharge, Verb::kTakeAtMost, Verb::kReserve});
  if (dice_.chance(2)) request.verb = Verb::kReset;
  if (request.verb == Verb::kReserve) request.max_wait_us = dice_.between(0, own_[0].per_us);
  const std::uint64_t capacity = sluice_oracle::capacity(planned(request.plan, 0));
  request.cost = dice_.chance(70) ? 1 + dice_.below(3) : dice_.below(capacity + 2);
  request.cost = std::min<std::uint64_t>(request.cost, sluice::kMaxUnits);
  return request;
}

std::int64_t PlanHistory::random_move(const Spec& spec) {
  if (!waits_.empty() && dice_.chance(30)) {
    return std::max<std::int64_t>(0, waits_[dice_.below(waits_.size())] + dice_.between(-1, 1));
  }
  const auto parts = dice_.any_of<std::int64_t>({1, 3, 10, 100});
  return dice_.chance(40) ? 0 : dice_.between(0, spec.per_us / parts);
}

sluice::Attributes PlanHistory::attributes_of(const Request& request) const {
  return {{"customer", request.customer}, {"plan", request.plan}};
}

const Override* PlanHistory::override_of(const std::string& customer, std::size_t limit) const {
  const auto found = given_.find({customer, limit});
  if (found == given_.end()) return nullptr;
  const Override& given = found->second;
  const bool counts = !given.until || now_ < given.until->time_since_epoch().count();
  return counts ? &given : nullptr;
}

const Spec& PlanHistory::planned(const std::string& plan, std::size_t limit) const {
  const auto* const at = std::find(kPlans.begin(), kPlans.end(), plan);
  return plans_[at == kPlans.end() ? 0 : static_cast<std::size_t>(at - kPlans.begin())][limit];
}

std::optional<Spec> PlanHistory::numbers_for(const Request& request, std::size_t limit) const {
  const Spec& of_plan = planned(request.plan, limit);
  const Override* const given = override_of(request.customer, limit);
  if (given == nullptr || given->kind == Override::Kind::kBlocked) return of_plan;
  if (given->kind == Override::Kind::kUnlimited) return std::nullopt;
  if (given->kind == Override::Kind::kPlan) return planned(given->plan, limit);
  Spec spec = of_plan;
  spec.limit = given->limit;
  spec.burst = given->burst;
  if (given->per) spec.per_us = given->per->count();
  if (given->per) spec.calendar.reset();
  return is_valid(spec) ? spec : of_plan;
}

std::string PlanHistory::step() {
  if (dice_.chance(15)) {
    if (std::string wrong = change_override(); !wrong.empty()) return wrong;
  }
  if (dice_.chance(6)) {
    const std::size_t plan = dice_.below(kPlans.size());
    plans_[plan][0] = random_numbers(own_[0]);
    if (plan + 1 != kPlans.size()) plans_[plan][1] = random_numbers(own_[1]);
    write_rules();
  }
  const Request request = random_request();
  now_ = std::min(now_ + random_move(planned(request.plan, dice_.below(kLimits))), kLastTick);
  const sluice::Instant now{sluice::Duration{now_}};
  const sluice::Action action{verb_of(request.verb), sluice::Duration{request.max_wait_us}};
  return compare(request,
                 decider_.decide(*rules_, attributes_of(request), {request.cost}, now, action));
}

// Compares the answer with the oracle's, which decides by the numbers that count.
std::string PlanHistory::compare(const Request& request, const sluice::RuleAnswer& answer) {
  std::vector<sluice_oracle::Charge> charges;
  std::vector<const Override*> blocks;
  for (std::size_t i = 0; i < kLimits; ++i) {
    const Override* const given = override_of(request.customer, i);
    const bool is_blocked = given != nullptr && given->kind == Override::Kind::kBlocked;
    if (is_blocked && asks(request.verb)) blocks.push_back(given);
    const auto spec = numbers_for(request, i);
    if (spec) charges.push_back({kNames[i] + request.customer, *spec, request.cost});
  }
  if (!blocks.empty()) {
    ++counts_.blocked;
    return compare_blocked(request, blocks, charges, answer);
  }
  if (charges.size() != answer.limits.size()) return "  other limits apply\n";
  if (charges.empty()) {
    ++counts_.unlimited;
    return answer.decision.allowed() ? "" : "  a request without limits was denied\n";
  }
  const auto expected = oracle_.apply({request.verb, request.max_wait_us}, charges, now_);
  if (!expected.allowed) ++counts_.denied;
  waits_.clear();
  Answered actual{answer.decision, {}};
  for (std::size_t i = 0; i < charges.size(); ++i) {
    actual.each.push_back(answer.limits[i].decision);
    waits_.push_back(expected.limits[i].reset_after_us);
    waits_.push_back(expected.limits[i].retry_after_us.value_or(0));
  }
  return difference(expected, actual);
}

// A block denies each cost above 0, which waits for the longest of the blocks and the limits; a
// cost that never passes is denied for that.
std::string PlanHistory::compare_blocked(const Request& request,
                                         const std::vector<const Override*>& blocks,
                                         const std::vector<sluice_oracle::Charge>& charges,
                                         const sluice::RuleAnswer& answer) {
  const sluice::Decision& decision = answer.decision;
  if (answer.limits.size() != charges.size()) return "  other limits apply\n";
  auto asked = charges;
  if (request.verb == Verb::kTakeAtMost) {
    for (auto& charge : asked) charge.cost = std::min<std::uint64_t>(charge.cost, 1);
  }
  const auto expected = oracle_.apply({request.cost > 0 ? Verb::kPeek : request.verb}, asked, now_);
  if (request.cost == 0) {
    return decision.allowed() ? "" : "  the block of an override denied a cost of 0\n";
  }
  const bool is_never = expected.reason == "never";
  const auto reason = is_never ? sluice::Reason::kNever : sluice::Reason::kBlocked;
  if (decision.allowed() || decision.reason != reason) {
    return "  the block of an override did not deny, or a limit did not for ever\n";
  }
  // Absent if one of them does not end.
  std::optional<sluice::Duration> wait{expected.retry_after_us.value_or(0)};
  if (is_never) wait.reset();
  for (const Override* const block : blocks) {
    if (!block->until) wait.reset();
    if (!wait) break;
    wait = std::max(*wait, block->until->time_since_epoch() - sluice::Duration{now_});
  }
  return decision.retry_after == wait ? "" : "  another retry_after\n";
}

}  // namespace sluice_property

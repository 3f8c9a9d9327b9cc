#include "sluice/rule_guard.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <new>
#include <ranges>
#include <span>
#include <stdexcept>
#include <thread>

#include "base/quoted.h"
#include "limiter/waits.h"
#include "rules/attributes.h"
#include "rules/rule_set.h"
#include "rules/rule_wait.h"
#include "sluice/detail/guard_gate.h"
#include "sluice/permit.h"

namespace sluice {
namespace {

using detail::RuleNeeds;

std::string double_quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string listed(const auto& names) { return names.empty() ? "none" : base::joined(names); }

// Whether a template finds all its attributes.
bool has_attributes(const rules::KeyTemplate& of, rules::AttributeValues& values) {
  std::string text, scratch;
  std::size_t end = 0;
  return of.fill(values, text, end, scratch).has_value();
}

// Whether the key of a limit, and its cost unless the guard gives it, find all their attributes.
bool has_attributes(const rules::CompiledLimit& limit, bool has_cost,
                    rules::AttributeValues& values) {
  if (!has_attributes(limit.key, values)) return false;
  if (has_cost || limit.cost.kind() != rules::CostTemplate::Kind::kComputed) return true;
  const auto units = limit.cost.find(values, limit.price, 0, kMaxUnits);  // any plan
  return !units || units->has_value();
}

// Returns the part of a message that shows the limit's cost, if that reads attributes.
std::string cost_of(const RuleLimit& limit) {
  return limit.cost.find('{') != limit.cost.npos ? " or its cost " + double_quoted(limit.cost)
                                                 : std::string();
}

// Returns the end of a message about a part of a rule.
std::string explain_lack(const RuleNeeds& needs) {
  return " reads an attribute that the guard does not provide (it provides: " +
         listed(needs.attributes) + "); expected .with(NAME, VALUE) for it";
}

bool is_queue(const RuleLimit& limit) { return limit.limit.mode() == LeakyMode::kQueue; }

// Returns why the rules do not meet the needs as "WHAT; EXPECTED", or nothing.
std::optional<std::string> find_problem(const RuleSet& rules, const RuleNeeds& needs) {
  const Rule* const rule = rules.find(needs.rule);
  if (rule == nullptr) {
    return "there is no rule " + double_quoted(needs.rule) +
           "; expected one of: " + listed(std::views::transform(rules.rules(), &Rule::name));
  }
  for (const std::string& name : needs.costs) {
    if (std::ranges::find(rule->limits, name, &RuleLimit::name) != rule->limits.end()) continue;
    return "rule " + double_quoted(rule->name) + " has no limit " + double_quoted(name) +
           "; expected .costing(LIMIT, UNITS) with the name of one of its limits";
  }
  const RuleSet::Impl& set = rules.impl();
  Attributes given;
  for (const std::string& name : needs.attributes) given.set(name, "1");
  rules::AttributeValues values;
  values.begin(set.attributes, given);
  const std::string start = "rule " + double_quoted(rule->name) + ": its ";
  if (!has_attributes(set.compiled_of(*rule).tag, values)) {
    return start + "tag " + double_quoted(rule->tag) + explain_lack(needs);
  }
  if (!has_attributes(set.compiled_of(*rule).plan_from, values)) {
    return start + "plan " + double_quoted(rule->plan_from) + explain_lack(needs);
  }
  for (std::size_t i = 0; i < rule->limits.size(); ++i) {
    const RuleLimit& limit = rule->limits[i];
    const auto& compiled = set.compiled_of(*rule, limit);
    const bool has_cost = std::ranges::find(needs.costs, limit.name) != needs.costs.end();
    const std::string which =
        "rule " + double_quoted(rule->name) + ", limit " + double_quoted(limit.name);
    if (!has_attributes(compiled, has_cost, values)) {
      return which + ": its key " + double_quoted(limit.key) + cost_of(limit) + explain_lack(needs);
    }
    const bool has_permits = holds_permits(limit.limit.algorithm());
    if (has_permits && !needs.holds) {
      return which + ": a call needs a permit while it runs; expected .holding()";
    }
    if (is_queue(limit) && !needs.waits) {
      return which +
             ": a queue admits calls that must wait; expected .delaying(WAIT) or .waiting(AT_MOST)";
    }
  }
  return std::nullopt;
}

}  // namespace

class LiveRules::Impl {
 public:
  explicit Impl(RuleSet rules) : rules_(std::move(rules)) {}

  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  std::pair<RuleSet, std::uint64_t> current() const {
    const std::lock_guard lock(mutex_);
    return {rules_, version_.load(std::memory_order_relaxed)};
  }

  // From now on, new rules must meet the needs for as long as the needs exist.
  std::optional<std::string> admit(const std::shared_ptr<const RuleNeeds>& needs) {
    const std::lock_guard lock(mutex_);
    auto problem = find_problem(rules_, *needs);
    if (!problem) {
      std::erase_if(needs_, [](const auto& old) { return old.expired(); });
      needs_.push_back(needs);
    }
    return problem;
  }

  std::vector<std::string> replace(RuleSet next) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> problems;
    for (const auto& known : needs_) {
      const auto needs = known.lock();
      if (!needs) continue;
      if (auto problem = find_problem(next, *needs)) problems.push_back(*std::move(problem));
    }
    if (!problems.empty()) return problems;
    std::swap(rules_, next);
    version_.fetch_add(1, std::memory_order_release);
    return problems;
  }

 private:
  mutable std::mutex mutex_;
  RuleSet rules_;
  std::atomic<std::uint64_t> version_ = 1;
  std::vector<std::weak_ptr<const RuleNeeds>> needs_;
};

LiveRules::LiveRules(RuleSet rules) : impl_(std::make_shared<Impl>(std::move(rules))) {}
RuleSet LiveRules::current() const { return impl_->current().first; }
std::vector<std::string> LiveRules::replace(RuleSet next) {
  return impl_->replace(std::move(next));
}

namespace detail {

// The decider of one thread. It copies the rules again when their version has changed.
struct alignas(64) RuleDeciders::Slot {
  std::atomic<bool> is_busy = false;
  bool is_extra = false;  // created because all others were busy
  std::uint64_t version = 0;
  std::optional<RuleSet> rules;
  const Rule* rule = nullptr;
  std::optional<RuleDecider> decider;
  const RuleAnswer* answer = nullptr;  // null if there was no memory to ask

  void renew(const LiveRules& live, const std::string& name) {
    if (version == live.impl_->version()) return;
    auto current = live.impl_->current();
    rules = std::move(current.first);
    rule = rules->find(name);
    version = current.second;
  }
};

RuleDeciders::RuleDeciders(LiveRules rules, Limiter& limiter, const RuleStores& stores,
                           RuleNeeds needs)
    : rules_(std::move(rules)),
      limiter_(&limiter),
      stores_(stores),
      slot_count_(2 * std::max<std::size_t>(std::thread::hardware_concurrency(), 2)),
      slots_(std::make_unique<Slot[]>(slot_count_)) {
  for (std::string& name : needs.attributes) name = rules::normalized(name);
  std::vector<std::string> names = needs.attributes;
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    throw std::invalid_argument("the guard provides the attribute " + double_quoted(*twice) +
                                " twice; expected it once");
  }
  needs_ = std::make_shared<const RuleNeeds>(std::move(needs));
  if (const auto problem = rules_.impl_->admit(needs_)) throw std::invalid_argument(*problem);
  for (std::size_t i = 0; i < slot_count_; ++i) slots_[i].decider.emplace(limiter, stores);
}

RuleDeciders::~RuleDeciders() = default;

RuleDeciders::Slot& RuleDeciders::enter() {
  const std::size_t first = std::hash<std::thread::id>()(std::this_thread::get_id());
  for (std::size_t i = 0; i < slot_count_; ++i) {
    Slot& slot = slots_[(first + i) % slot_count_];
    if (slot.is_busy.load(std::memory_order_relaxed)) continue;
    if (!slot.is_busy.exchange(true, std::memory_order_acquire)) return slot;
  }
  auto extra = std::make_unique<Slot>();
  extra->is_extra = true;
  extra->decider.emplace(*limiter_, stores_);
  return *extra.release();
}

void RuleDeciders::leave(Slot* slot) noexcept {
  if (slot->is_extra) {
    delete slot;
  } else {
    slot->is_busy.store(false, std::memory_order_release);
  }
}

// The text of a permit does not say which of the stores gave it.
void RuleDeciders::release(std::string_view permit) const noexcept try {
  const auto parsed = PermitText::parse(permit);
  if (!parsed) return;
  parsed->release(limiter_->store());
  for (Store* const store : {stores_.shadow, stores_.local}) {
    if (store != nullptr) parsed->release(*store);
  }
} catch (const std::bad_alloc&) {  // it ends with its lease
}

RulePass::RulePass(RuleDeciders& deciders, const AttributeSource& attributes,
                   const RequestCosts& costs)
    : deciders_(deciders),
      slot_(&deciders.enter(), RuleDeciders::leave),
      decision_(ask(attributes, costs)) {
  if (!deciders_.needs_->holds || slot_->answer == nullptr) return;
  try {
    permit_ = slot_->answer->permit;
  } catch (const std::bad_alloc&) {
    deciders_.release(slot_->answer->permit);
    throw;
  }
}

RulePass::~RulePass() {
  if (!permit_.empty()) deciders_.release(permit_);
}

Decision RulePass::ask(const AttributeSource& attributes, const RequestCosts& costs) {
  slot_->renew(deciders_.rules_, deciders_.needs_->rule);
  if (const auto& max_wait = deciders_.needs_->max_wait) {
    rules::RuleWait call(*slot_->decider, *slot_->rules, slot_->rule, attributes, costs,
                         [&](std::string_view permit) { deciders_.release(permit); });
    const Instant until = Deadline(*max_wait).at();
    const Decision decision = acquire(deciders_.limiter_->store(), call, until);
    slot_->answer = call.end(decision, Waits::reservation(until, SteadyClock::instance()));
    return slot_->answer == nullptr ? decision : slot_->answer->decision;
  }
  slot_->answer =
      &slot_->decider->decide(*slot_->rules, attributes, costs, {}, Verb::kTake, slot_->rule);
  return slot_->answer->decision;
}

void RulePass::fail() const {
  std::vector<LimitName> limits;
  std::vector<Decision> each;
  const auto answers =
      slot_->answer == nullptr ? std::span<const LimitAnswer>() : slot_->answer->limits;
  for (const LimitAnswer& answer : answers) {
    limits.push_back({&answer.numbers, answer.limit->name});
    each.push_back(answer.decision);
  }
  throw_rate_limited(deciders_.needs_->rule, limits, each, decision_);
}

void RulePass::refund() noexcept {
  if (decision_.reason == Reason::kShadow) return;  // one of its limits denies: nothing was taken
  for (const LimitAnswer& answer : slot_->answer->limits) {
    if (holds_permits(answer.numbers.algorithm())) continue;  // released
    if (answer.limit->counts_responses || !took_units(answer.decision)) continue;
    const bool is_shadow = answer.rule->mode == RuleMode::kShadow;
    Store* const shadow = is_shadow ? deciders_.stores_.shadow : nullptr;
    const Charge charge{.key = answer.counter,
                        .limit = answer.numbers,
                        .cost = answer.cost,
                        .tag = answer.tag,
                        .rule = {Keyspace::kRules}};
    (shadow != nullptr ? *shadow : deciders_.limiter_->store())
        .apply_one(Verb::kRefund, charge, {});
  }
}

}  // namespace detail
}  // namespace sluice

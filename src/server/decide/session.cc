#define XXH_INLINE_ALL
#include "server/decide/session.h"
#include "base/civil_time.h"
#include "base/json_writer.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string>

#include "base/quoted.h"
#include "core/period.h"
#include "insight/key_sketch.h"
#include "rules/rule_set.h"
#include "rules/rule_wait.h"
#include "server/decide/named_attributes.h"
#include "server/logging/log_line.h"
#include "server/net/transport.h"
#include "sluice/clock.h"
#include "sluice/permit.h"

namespace sluice::server {
namespace {

constexpr auto kShownAlways = std::to_array<std::string_view>({"method", "path", "host"});
// More attributes of rules than this are not recorded, nor is a longer line.
constexpr std::size_t kMostNames = 1000;
constexpr std::size_t kLongestLine = std::size_t{64} << 10;
constexpr std::uint64_t kEveryClient = 100;  // percent

bool contains(std::span<const std::string> all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

// Returns the limit of rules in this mode that denied with the longest wait, which is never for
// some. Null if something else denied.
const LimitAnswer* longest_wait(const RuleAnswer& answer, RuleMode mode) noexcept {
  const auto wait = [](const LimitAnswer& limit) {
    return limit.decision.retry_after.value_or(Duration::max());
  };
  const LimitAnswer* longest = nullptr;
  for (const LimitAnswer& limit : answer.limits) {
    if (limit.decision.allowed() || limit.rule->mode != mode) continue;
    if (longest == nullptr || wait(limit) > wait(*longest)) longest = &limit;
  }
  return longest;
}

// Returns the index of the part that was denied: that of the limit, or else of the rule that
// decided. 0 if there is none.
std::size_t denied_part(const RuleAnswer& answer, const LimitAnswer* limit) noexcept {
  if (limit != nullptr) return limit->part;
  const auto found = std::ranges::find_if(answer.matched, [&](const RuleAnswer::Matched& one) {
    return one.denied && one.rule == answer.rule;
  });
  return found != answer.matched.end() ? found->part : 0;
}

// Whether metrics count what the verb does.
bool counts(Verb verb) noexcept { return takes(verb) || verb == Verb::kCharge; }

}  // namespace

TrafficRecorder::TrafficRecorder(TrafficLog& log, const DenialLog& denials, bool hash_all,
                                 const Clock& clock)
    : options_(log.options()),
      lane_(log.make_lane()),
      denials_(denials),
      hash_all_(hash_all),
      clock_(clock) {}

void TrafficRecorder::record(const RuleSet& rules, std::uint64_t version,
                             const AttributeSource& attributes, const RequestCosts& costs,
                             Outcome outcome) noexcept try {
  const bool all = options_.share >= kEveryClient;
  if (!all && !samples(attributes.find(options_.sample_by).value_or(""))) return;
  if (version != version_) use(rules, version);
  line_.clear();
  put_time();
  put_attributes(attributes);
  put_costs(costs);
  write(outcome);
} catch (const std::bad_alloc&) {
  lane_.drop();
}

void TrafficRecorder::record_without_rules(std::string_view domain, std::string_view key,
                                           const Limit& limit, std::uint64_t cost,
                                           Outcome outcome) noexcept try {
  if (options_.share < kEveryClient && !samples(key)) return;
  line_.clear();
  put_time();
  line_ += ",\"without_rules\":{";
  if (!domain.empty()) {
    base::append_visible_json(line_ += "\"domain\":\"", domain);
    line_ += "\",";
  }
  line_ += "\"key\":\"";
  put_value(key, hash_all_ || contains(options_.hash, "key"));
  line_.append("\",\"algorithm\":\"").append(to_string(limit.algorithm()));
  base::append_number(line_ += "\",\"limit\":", limit.limit());
  line_.append(",\"per\":\"").append(core::format_period(limit));
  base::append_number(line_ += "\",\"capacity\":", limit.capacity());
  line_ += '}';
  put_costs(cost);
  write(outcome);
} catch (const std::bad_alloc&) {
  lane_.drop();
}

// Ends the line.
void TrafficRecorder::write(Outcome outcome) {
  line_.append(",\"outcome\":\"").append(to_string(outcome)).append("\"}\n");
  if (line_.size() <= kLongestLine) return lane_.write(line_);
  lane_.drop();
  line_ = std::string();
}

// Whether the client is in the sample: the same clients on all servers and after a restart. A
// request without a client is sampled by itself.
bool TrafficRecorder::samples(std::string_view client) {
  const std::uint64_t hash = client.empty() ? XXH3_64bits(&random_, sizeof random_)
                                            : XXH3_64bits(client.data(), client.size());
  ++random_;
  return hash % kEveryClient < options_.share;
}

void TrafficRecorder::use(const RuleSet& rules, std::uint64_t version) {
  names_.clear();
  const auto add = [this](std::string_view name) {
    const bool known = std::ranges::find(names_, name, &Name::name) != names_.end();
    if (known || names_.size() == kMostNames) return;
    const bool shown = std::ranges::find(kShownAlways, name) != kShownAlways.end();
    Name one{std::string(name), "\"", contains(options_.hash, name) || (hash_all_ && !shown)};
    base::append_visible_json(one.json, name);
    one.json += "\":";
    names_.push_back(std::move(one));
  };
  for (const std::string_view name : kShownAlways) add(name);
  add("ip");
  for (const std::string& name : options_.attributes) add(name);
  for (const std::string& name : rules.impl().attributes.names()) add(name);
  version_ = version;
}

void TrafficRecorder::put_time() {
  constexpr std::size_t kDigits = 6;
  const Instant now = clock_.now();
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  if (second != second_) {
    second_text_.clear();
    base::append_civil(second_text_, second);
    second_ = second;
  }
  line_.append("{\"time\":\"").append(second_text_).append(".000000Z\"");
  auto rest = (now - second).count();
  char* digit = line_.data() + line_.size() - 2;  // behind the last one
  for (std::size_t i = 0; i < kDigits; ++i, rest /= 10)
    *--digit = static_cast<char>('0' + rest % 10);
}

void TrafficRecorder::put_attributes(const AttributeSource& attributes) {
  line_ += ",\"attributes\":{";
  bool first = true;
  for (const Name& one : names_) {
    const auto value = attributes.find(one.name);
    if (!value) continue;
    if (!first) line_ += ',';
    first = false;
    line_.append(one.json) += '"';
    put_value(*value, one.hashed);
    line_ += '"';
  }
  line_ += '}';
}

void TrafficRecorder::put_value(std::string_view value, bool hashed) {
  if (!hashed || value.empty()) return base::append_visible_json(line_, value);
  const auto hex = insight::KeyHash::digits(denials_.key_hash()(value));
  line_.append(hex.data(), hex.size());
}

void TrafficRecorder::put_costs(const RequestCosts& costs) {
  if (costs.units != 1) {
    line_ += ",\"cost\":";
    base::append_number(line_, costs.units);
  }
  if (costs.limits.empty()) return;
  std::string_view before = ",\"costs\":{\"";
  for (const LimitCost& cost : costs.limits) {
    line_ += before;
    base::append_visible_json(line_, cost.limit);
    line_ += "\":";
    base::append_number(line_, cost.units);
    before = ",\"";
  }
  line_ += '}';
}

Session::Session(const Parts& parts)
    : parts_(parts),
      decider_(parts.limiter, parts.stores),
      version_(parts.rules.version()),
      rules_(parts.rules.current()) {
  parts_.recorder.use(rules_);
  if (parts_.keys != nullptr) parts_.keys->use(rules_);
}

void Session::follow_rules() {
  const std::uint64_t version = parts_.rules.version();
  if (version == version_) return;
  version_ = version;  // read before the rules, so a change in between is followed next time
  rules_ = parts_.rules.current();
  parts_.recorder.use(rules_);
  if (parts_.keys != nullptr) parts_.keys->use(rules_);
}

const RuleAnswer* Session::decide(const SessionRequest& request) {
  begin();
  follow_rules();
  const Rule* const rule = request.rule ? rules_.find(*request.rule) : nullptr;
  if (request.rule && rule == nullptr) return nullptr;
  const AttributeSource& attributes = request.attributes;
  const RequestCosts& costs = request.costs;
  if (request.actual != nullptr) {
    return &reported(decider_.settle(rules_, attributes, costs, *request.actual, {}, rule));
  }
  if (request.response != nullptr) {
    return &reported(decider_.report(rules_, attributes, *request.response, costs, {}, rule));
  }
  decider_.refuse_permits(!request.hands_out_permit);
  const RuleAnswer& answer = decider_.decide(rules_, attributes, costs, {}, request.action, rule);
  const Verb verb = request.action.verb;
  if (verb == Verb::kSettle || verb == Verb::kCancel) return &reported(answer);
  if (counts(request.action.verb)) record(attributes, costs, answer);
  return &answer;
}

// A request that waits on a fiber, by the rules that are active when it asks.
class Session::Waiting final : public rules::RuleWait {
 public:
  Waiting(Session& session, const AttributeSource& attributes, const RequestCosts& costs,
          net::FiberSleep& sleep, int client)
      : RuleWait(session.decider_, session.rules_, nullptr, attributes, costs,
                 [&session](std::string_view permit) { session.release(permit); }),
        session_(session),
        sleep_(sleep),
        client_(client) {}

  Decision ask(Action action) noexcept override try {
    session_.follow_rules();
    return RuleWait::ask(action);
  } catch (const std::bad_alloc&) {
    return Decision::refused(Reason::kStoreError);
  }
  bool park(Instant until) noexcept override {
    return !has_left() && sleep_.sleep(until) && !has_left();
  }
  bool has_left() noexcept override { return net::has_left(client_); }
  void wake() noexcept override { sleep_.wake(); }

 private:
  Session& session_;
  net::FiberSleep& sleep_;
  const int client_;
};

const RuleAnswer& Session::acquire(const AttributeSource& attributes, const RequestCosts& costs,
                                   Duration max_wait, net::FiberSleep& sleep, int client) {
  begin();
  decider_.refuse_permits(false);
  Waiting call(*this, attributes, costs, sleep, client);
  const Clock& clock = SteadyClock::instance();
  const Instant deadline = clock.now() + max_wait;
  const Decision decision = parts_.waits->acquire(call, deadline);
  const RuleAnswer* const answer = call.end(decision, detail::Waits::reservation(deadline, clock));
  if (answer != nullptr) {
    waited_ = *answer;
  } else {
    waited_ = {};
    waited_.decision = decision;
  }
  record(attributes, costs, waited_);
  return waited_;
}

Decision Session::release(std::string_view permit) {
  const Decision said = decider_.release(permit);
  if (parts_.waits == nullptr || !said.allowed()) return said;
  if (const auto text = PermitText::parse(permit)) parts_.waits->released(text->charges());
  return said;
}

Decision Session::extend(std::string_view permit) {
  follow_rules();
  return decider_.extend(rules_, permit);
}

const RuleAnswer& Session::decide_parts(std::string_view domain, std::span<const RequestPart> parts,
                                        Action action) {
  begin();
  follow_rules();
  decider_.refuse_permits(true);
  const RuleAnswer& answer = decider_.decide_parts(rules_, domain, parts, {}, action);
  if (action.verb == Verb::kSettle) return reported(answer);
  if (!counts(action.verb)) return answer;
  record(answer, parts);
  for (const RequestPart& part : parts) {
    if (part.costs.units > 0) keep(*part.attributes, part.costs, answer.decision.outcome);
  }
  return answer;
}

Decision Session::decide(Charge charge, Action action, std::string* permit, bool settles) {
  begin();
  std::optional<PermitId> id;
  if (permit != nullptr && takes(action.verb) && holds_permits(charge.limit.algorithm())) {
    id = PermitId::random();
    charge.permit = &*id;
  }
  const std::uint64_t asked = charge.cost;
  const Decision decision = parts_.limiter.store().apply_one(action, charge, {});
  if (permit != nullptr) permit->clear();
  if (id && decision.allowed()) {
    if (action.verb == Verb::kTakeAtMost) charge.cost = decision.taken;
    PermitText::append(*id, {&charge, 1}, *permit);
  }
  if (!counts(action.verb) || settles) return decision;
  without_rule_.decision = decision;
  parts_.recorder.count(without_rule_);
  if (parts_.keys != nullptr) parts_.keys->count(charge.limit, charge.key, decision);
  if (parts_.traffic != nullptr) {
    parts_.traffic->record_without_rules({}, charge.key, charge.limit, asked, decision.outcome);
  }
  if (parts_.otlp != nullptr) {
    parts_.otlp->record(began_, {}, {}, charge.key, decision, trace_);
  }
  parts_.denials.write({}, {}, charge.key, decision, trace_);
  return decision;
}

// The request itself has been counted when it was decided.
const RuleAnswer& Session::reported(const RuleAnswer& answer) {
  parts_.recorder.count_refused_new(rules_, answer);
  return answer;
}

void Session::record(const AttributeSource& attributes, const RequestCosts& costs,
                     const RuleAnswer& answer) {
  const RequestPart whole{&attributes, {}};
  record(answer, {&whole, 1});
  keep(attributes, costs, answer.decision.outcome);
}

// Keeps the request for those who try new rules on it.
void Session::keep(const AttributeSource& attributes, const RequestCosts& costs, Outcome outcome) {
  if (parts_.traffic != nullptr) {
    parts_.traffic->record(rules_, version_, attributes, costs, outcome);
  }
  if (parts_.recent != nullptr && parts_.recent->is_wanted()) {
    parts_.recent->record(rules_, version_, attributes, costs);
  }
}

// An attribute is that of the part that was denied, or else of the first one that has it.
void Session::record(const RuleAnswer& answer, std::span<const RequestPart> parts) {
  count(answer, report_near(answer));
  if (parts_.keys != nullptr) parts_.keys->count(answer);
  const bool is_allowed = answer.decision.allowed();
  const bool is_shadow = answer.decision.reason == Reason::kShadow;
  if (is_allowed && !is_shadow && parts_.otlp == nullptr) return;
  const LimitAnswer* const limit = is_allowed ? nullptr : longest_wait(answer, RuleMode::kEnforce);
  const std::size_t denied = denied_part(answer, limit);
  const AttributesBy attributes([&](std::string_view name) -> std::optional<std::string_view> {
    auto found = parts[denied].attributes->find(name);
    for (std::size_t i = 0; i < parts.size() && !found; ++i) {
      if (i != denied) found = parts[i].attributes->find(name);
    }
    return found;
  });
  const TraceSource trace = [&]() -> std::optional<std::string_view> {
    for (const std::string_view name : {"traceparent", "header.traceparent"}) {
      if (const auto found = attributes.find(name)) return found;
    }
    return trace_ ? trace_() : std::nullopt;
  };
  const Rule* const rule = limit != nullptr ? limit->rule : answer.rule;
  const std::string_view rule_name = rule != nullptr ? rule->name : std::string_view();
  const std::string_view limit_name = limit != nullptr ? limit->limit->name : std::string_view();
  std::string_view key = limit != nullptr ? limit->label : std::string_view();
  // A rule with `action: deny` has no key, but the client has an address.
  if (answer.decision.reason == Reason::kDenyRule) key = attributes.find("ip").value_or("");
  const Decision& decision = limit != nullptr ? limit->decision : answer.decision;
  if (parts_.otlp != nullptr) {
    parts_.otlp->record(began_, rule_name, limit_name, key, decision, trace);
  }
  const LimitAnswer* const would_deny =
      is_shadow ? longest_wait(answer, RuleMode::kShadow) : nullptr;
  if (would_deny != nullptr) parts_.denials.write_shadow(*would_deny, trace);
  parts_.denials.write(rule_name, limit_name, key, decision, trace, &attributes);
}

// Logs the keys that have come near their limits. Returns a bit for each limit with such a key; a
// request has at most kMaxCharges, 64, limits with numbers.
std::uint64_t Session::report_near(const RuleAnswer& answer) noexcept {
  std::uint64_t reported = 0;
  for (std::size_t i = 0; i < answer.limits.size(); ++i) {
    const LimitAnswer& limit = answer.limits[i];
    if (!limit.near) continue;
    if (parts_.denials.report_near(limit) && i < kMaxCharges) reported |= std::uint64_t{1} << i;
  }
  return reported;
}

// While this session waited for the store, another session of the loop may have switched to new
// rules.
void Session::count(const RuleAnswer& answer, std::uint64_t near) {
  if (parts_.recorder.uses(rules_)) {
    parts_.recorder.count(answer, near);
  } else {
    parts_.recorder.count_late(rules_, answer, near);
  }
}

}  // namespace sluice::server

#include "envoy/decide.h"

#include <algorithm>

// A request is decided in four steps: check it, name the limits of its descriptors, decide the
// batch of charges, and fill in the statuses.
namespace sluice::envoy {
namespace {

// No limit holds more, so larger costs make no difference.
std::uint64_t cost_of(const Question& question) noexcept {
  return std::min(question.hits, kMaxUnits + 1);
}

std::string about(std::size_t question, std::string_view what) {
  return "descriptors[" + std::to_string(question) + "]" + std::string(what);
}

ChargeMode mode_of(const Question& question, const Descriptor& matched) noexcept {
  if (question.gives_back) return ChargeMode::kRefund;
  if (matched.shadow_mode) return ChargeMode::kShadow;
  return matched.quota_mode ? ChargeMode::kQuota : ChargeMode::kEnforced;
}

bool takes(ChargeMode mode) noexcept {
  return mode == ChargeMode::kEnforced || mode == ChargeMode::kQuota;
}

}  // namespace

Duration until_reset(const Limit& limit, const Decision& decision, bool known,
                     Instant now) noexcept {
  const bool on_clock = limit.align() == Align::kClock;
  Duration reset = known ? decision.reset_after : Duration{0};
  if (limit.calendar() != nullptr && reset == Duration{0}) {
    reset = limit.calendar()->window_at(now).end - now;
  } else if (on_clock && reset == Duration{0}) {
    reset = limit.period() - now.time_since_epoch() % limit.period();
  } else if (!known) {
    reset = limit.period();
  }
  return std::chrono::ceil<std::chrono::seconds>(reset);
}

Request::Request(Limiter& limiter, const RuleStores& stores, const Clock& clock)
    : batch_(limiter.store(), stores.shadow, stores.local),
      has_local_(stores.local != nullptr),
      clock_(clock) {}

const Answer& Request::decide(const Domain& domain, std::span<const Question> questions,
                              bool consume_on_reject, Verb verb) {
  begin();
  if (!check(questions)) return answer_;
  answer_.statuses.resize(questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) name_limit(domain, questions[i], i);
  drop_replaced();
  if (!check_counters()) return answer_;
  fill_batch(questions);
  const Decision& decision = answer_.decision =
      batch_.decide({.action = verb, .consume_on_reject = consume_on_reject});
  if (store_failed(decision.reason) || decision.reason == Reason::kInvalid) fail(decision);
  answer_.is_over = !decision.allowed();
  fill_statuses();
  return answer_;
}

void Request::begin() {
  text_.clear();
  limits_.clear();
  replaced_.clear();
  batch_.clear();
  answer_.failure = Reason::kOk;
  answer_.message.clear();
  answer_.decision = {};
  answer_.is_over = false;
  answer_.statuses.clear();
}

// Step 1: check.

bool Request::refuse(std::string message) {
  answer_.failure = Reason::kInvalid;
  answer_.message = std::move(message);
  return false;
}

bool Request::check(std::span<const Question> questions) {
  if (questions.empty()) return refuse("descriptors are missing; expected at least one");
  if (questions.size() > kMaxDescriptors) {
    return refuse(std::to_string(questions.size()) + " descriptors; expected at most " +
                  std::to_string(kMaxDescriptors));
  }
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!check_descriptor(questions[i], i)) return false;
  }
  return true;
}

bool Request::check_descriptor(const Question& question, std::size_t index) {
  for (std::size_t i = 0; i < question.entries.size(); ++i) {
    if (!question.entries[i].key.empty()) continue;
    return refuse(about(index, ".entries[" + std::to_string(i) + "].key is empty; expected a key"));
  }
  if (question.requests_per_unit && length_of(question.unit) == Duration{0}) {
    return refuse(about(index, ".limit.unit is unknown; expected SECOND to YEAR"));
  }
  return true;
}

// Step 2: name.

void Request::name_limit(const Domain& domain, const Question& question, std::size_t index) {
  if (question.entries.empty()) return;
  if (question.requests_per_unit) return name_own_limit(domain, question, index);
  const Descriptor* matched = match(domain, question.entries);
  Status& status = answer_.statuses[index];
  status.descriptor = matched;
  if (matched == nullptr || !matched->rate_limit) return;
  const RateLimit& rate_limit = *matched->rate_limit;
  status.unit = rate_limit.unit;
  status.unlimited = !rate_limit.limit;
  replaced_.insert(replaced_.end(), rate_limit.replaces.begin(), rate_limit.replaces.end());
  if (status.unlimited) return;
  const std::size_t key_at = text_.size();
  append_counter(text_, domain, question.entries, *matched);
  limits_.push_back({index, *rate_limit.limit, mode_of(question, *matched),
                     rate_limit.on_store_error, key_at, text_.size(), matched->limit_id});
}

// Names the limit that the request itself gives.
void Request::name_own_limit(const Domain& domain, const Question& question, std::size_t index) {
  const Unit unit = question.unit;
  const std::size_t key_at = text_.size();
  append_counter(text_, domain, question.entries, unit);
  const Limit limit =
      fixed_window(*question.requests_per_unit).per(length_of(unit)).aligned_to_clock();
  answer_.statuses[index].unit = unit;
  const ChargeMode mode = question.gives_back ? ChargeMode::kRefund : ChargeMode::kEnforced;
  limits_.push_back({index, limit, mode, std::nullopt, key_at, text_.size()});
}

void Request::drop_replaced() {
  if (replaced_.empty()) return;
  std::erase_if(limits_, [&](const NamedLimit& named) {
    Status& status = answer_.statuses[named.question];
    if (status.descriptor == nullptr) return false;
    const std::string_view name = status.descriptor->rate_limit->name;
    if (name.empty() || std::ranges::count(replaced_, name) == 0) return false;
    status = Status{};
    return true;
  });
}

// Checks that no counter has two limits, which only limits of the request itself can give it.
bool Request::check_counters() {
  if (limits_.size() > kMaxCharges) {
    return refuse(std::to_string(limits_.size()) + " descriptors with a limit; expected at most " +
                  std::to_string(kMaxCharges));
  }
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (limits_[i].limit == limits_[j].limit || key_of(limits_[i]) != key_of(limits_[j])) {
        continue;
      }
      return refuse(about(limits_[i].question, ".limit differs from that of ") +
                    about(limits_[j].question, " with the same entries; expected the same"));
    }
  }
  return true;
}

// Step 3: decide.

// Shadow charges never deny, so they are allowed if their store fails.
void Request::fill_batch(std::span<const Question> questions) {
  ChargeTerms terms;
  for (const NamedLimit& named : limits_) {
    terms.mode = named.mode;
    terms.on_store_error = named.on_store_error;
    ++terms.group;
    if (named.mode == ChargeMode::kShadow) terms.on_store_error = FailurePolicy::kAllow;
    if (takes(named.mode) && terms.on_store_error == FailurePolicy::kLocal && !has_local_) {
      terms.on_store_error.reset();
    }
    batch_.add({.key = key_of(named),
                .limit = named.limit,
                .cost = cost_of(questions[named.question]),
                .rule = {Keyspace::kRules, named.id}},
               terms);
  }
}

void Request::fail(const Decision& decision) {
  answer_.failure = decision.reason;
  answer_.message = "the store could not decide: " + std::string(to_string(decision.reason));
}

// Step 4: answer.

void Request::fill_statuses() {
  if (limits_.empty()) return;
  const Instant now = clock_.now();
  for (std::size_t i = 0; i < limits_.size(); ++i) fill_status(i, now);
}

// If the numbers of a limit are unknown, it is reported as untouched, or as exhausted if it denied.
void Request::fill_status(std::size_t index, Instant now) {
  const NamedLimit& named = limits_[index];
  const Decision& decision = batch_.decision(index);
  const bool known = has_numbers(decision);
  const bool over = takes(named.mode) && !decision.allowed();
  Status& status = answer_.statuses[named.question];
  status.is_over = over;
  status.limit = named.limit;
  // No limit of these files has more than kMaxUnits.
  status.remaining = static_cast<std::uint32_t>(known  ? decision.remaining
                                                : over ? 0
                                                       : named.limit.capacity());
  status.until_reset = until_reset(named.limit, decision, known, now);
  status.counter = key_of(named);
  status.decision = decision;
}

}  // namespace sluice::envoy

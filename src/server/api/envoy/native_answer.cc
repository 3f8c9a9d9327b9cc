#include "server/api/envoy/native_answer.h"

#include <algorithm>

namespace sluice::server {
namespace {

using envoy::Answer;
using envoy::Code;
using envoy::Question;

// Returns whether `a` is tighter than `b`: it denies and `b` does not, or it leaves less.
bool is_tighter(const LimitAnswer& a, const LimitAnswer& b) noexcept {
  if (a.decision.allowed() != b.decision.allowed()) return !a.decision.allowed();
  return has_numbers(a.decision) && a.decision.remaining < b.decision.remaining;
}

}  // namespace

std::optional<std::string_view> NativeAnswer::Entries::find(std::string_view name) const {
  for (const envoy::Entry& entry : entries_) {
    if (entry.key == name) return entry.value;
  }
  return std::nullopt;
}

const Answer& NativeAnswer::decide(std::string_view domain, std::span<const Question> questions) {
  if (!begin(questions) || !ask(domain, questions, false)) return answer_;
  ask(domain, questions, true);
  names_.assign(kept_names_.begin(), kept_names_.end());
  return answer_;
}

bool NativeAnswer::begin(std::span<const Question> questions) {
  answer_.failure = Reason::kOk;
  answer_.message.clear();
  answer_.overall = Code::kOk;
  answer_.statuses.assign(questions.size(), envoy::Status{});
  kept_names_.assign(questions.size(), {});
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const auto& entries = questions[i].entries;
    const bool empty = std::any_of(entries.begin(), entries.end(),
                                   [](const envoy::Entry& entry) { return entry.key.empty(); });
    if (!empty) continue;
    answer_.failure = Reason::kInvalid;
    answer_.message = "descriptors[" + std::to_string(i) + "] has an empty key; expected a key";
    return false;
  }
  return true;
}

// Asks the questions that take or those that give back. If the request was denied, those that give
// back are only read.
bool NativeAnswer::ask(std::string_view domain, std::span<const Question> questions,
                       bool giving_back) {
  const bool denied = answer_.overall == Code::kOverLimit;
  asked_.clear();
  parts_.clear();
  sources_.clear();
  sources_.reserve(questions.size());  // so that they stay where they are
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (questions[i].gives_back != giving_back) continue;
    const std::uint64_t most = giving_back ? kMaxUnits : kMaxUnits + 1;
    parts_.push_back({&sources_.emplace_back(questions[i].entries),
                      denied ? 0 : std::min(questions[i].hits, most)});
    asked_.push_back(i);
  }
  if (parts_.empty()) return true;
  const Verb verb = !giving_back ? Verb::kTake : denied ? Verb::kPeek : Verb::kRefund;
  const RuleAnswer& answer = session_.decide_parts(domain, parts_, verb);
  const Reason reason = answer.decision.reason;
  if (store_failed(reason) || reason == Reason::kInvalid) {
    fail(answer);
    return false;
  }
  if (!giving_back && !answer.decision.allowed()) answer_.overall = Code::kOverLimit;
  take_answers(answer, giving_back);
  return true;
}

// Sets the tightest limit of each part.
void NativeAnswer::take_answers(const RuleAnswer& answer, bool giving_back) {
  tightest_.assign(asked_.size(), nullptr);
  for (const LimitAnswer& limit : answer.limits) {
    if (limit.rule->mode == RuleMode::kShadow) continue;
    const LimitAnswer*& of_part = tightest_[limit.part];
    if (of_part == nullptr || is_tighter(limit, *of_part)) of_part = &limit;
  }
  for (const RuleAnswer::Matched& matched : answer.matched) {
    const bool denies = matched.denied && matched.rule->action == RuleAction::kDeny &&
                        matched.rule->mode == RuleMode::kEnforce;
    if (denies) answer_.statuses[asked_[matched.part]].code = Code::kOverLimit;
  }
  const Instant now = clock_.now();
  for (std::size_t part = 0; part < tightest_.size(); ++part) {
    if (tightest_[part] == nullptr) continue;
    const LimitAnswer& of = *tightest_[part];
    const Limit& limit = of.numbers;
    const bool known = has_numbers(of.decision);
    envoy::Status& status = answer_.statuses[asked_[part]];
    status.code = of.decision.allowed() || giving_back ? Code::kOk : Code::kOverLimit;
    status.limit = limit;
    status.unit = envoy::unit_of(limit);
    status.remaining = known ? of.decision.remaining : of.decision.allowed() ? limit.capacity() : 0;
    status.until_reset = envoy::until_reset(limit, of.decision, known, now);
    status.decision = of.decision;
    kept_names_[asked_[part]] = of.limit->name;
  }
}

void NativeAnswer::fail(const RuleAnswer& answer) {
  const Reason reason = answer.decision.reason;
  const bool invalid = reason == Reason::kInvalid;
  answer_.failure = reason;
  answer_.message = !answer.mistake.empty() ? std::string(answer.mistake)
                    : invalid ? "the request is not valid: over " + std::to_string(kMaxCharges) +
                                    " limits apply to it, or its hits are out of range"
                              : "the store could not decide: " + std::string(to_string(reason));
}

}  // namespace sluice::server

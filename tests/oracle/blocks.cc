#include "tests/oracle/blocks.h"

#include <algorithm>

namespace sluice_oracle {

void BlockedKey::forget(std::int64_t at_us) {
  if (at_us >= forgotten_) *this = {};
}

std::int64_t BlockedKey::left(std::int64_t at_us) const {
  return at_us < forgotten_ ? std::max<std::int64_t>(end_ - at_us, 0) : 0;
}

bool BlockedKey::counts_growth(const BlockSpec& spec, std::int64_t at_us) const {
  return latest_.has_value() && at_us - end_ < spec.at_most_us;
}

void BlockedKey::keep_until(const BlockSpec& spec) {
  forgotten_ = latest_ ? end_ + spec.at_most_us : end_;
  if (!denials_.empty()) forgotten_ = std::max(forgotten_, denials_.back() + spec.within_us);
}

bool BlockedKey::deny(const BlockSpec& spec, std::int64_t at_us) {
  forget(at_us);
  if (!counts_growth(spec, at_us)) latest_.reset();
  denials_.push_back(at_us);
  const auto counting = std::count_if(denials_.begin(), denials_.end(), [&](std::int64_t denial) {
    return at_us - denial < spec.within_us;
  });
  const bool starts = counting >= spec.after;
  if (starts) {
    Integer length = spec.for_us;
    if (latest_) length = std::max(length, round_up(Rational(*latest_) * spec.grow));
    latest_ = static_cast<std::int64_t>(std::min<Integer>(length, spec.at_most_us));
    end_ = at_us + *latest_;
    denials_.clear();
  }
  keep_until(spec);
  return starts;
}

void BlockedKey::block(const BlockSpec& spec, std::int64_t at_us, std::int64_t for_us) {
  forget(at_us);
  if (!counts_growth(spec, at_us)) latest_.reset();
  denials_.clear();
  end_ = at_us + for_us;
  keep_until(spec);
}

namespace {

bool is_question(Verb verb) {
  return verb == Verb::kTake || verb == Verb::kPeek || verb == Verb::kTakeAtMost ||
         verb == Verb::kReserve;
}

bool counts(const Action& action, const Spec& spec) {
  if (action.verb == Verb::kReserve) return is_bucket(spec.algorithm);
  return action.verb == Verb::kTake || action.verb == Verb::kTakeAtMost;
}

// The answer to the request from those of its limits, if one of them denies.
void summarize(Answer& answer) {
  answer.allowed = true;
  answer.retry_after_us.reset();
  bool is_never = false;
  bool is_blocked = false;
  for (const LimitAnswer& limit : answer.limits) {
    if (!limit.denied) continue;
    answer.allowed = false;
    is_never |= limit.reason == "never";
    is_blocked |= limit.reason == "blocked";
    if (limit.retry_after_us) {
      answer.retry_after_us = std::max(answer.retry_after_us.value_or(0), *limit.retry_after_us);
    }
  }
  answer.reason = is_never ? "never" : is_blocked ? "blocked" : "limited";
  if (is_never) answer.retry_after_us.reset();
  answer.delay_us.reset();
  answer.taken.reset();
}

}  // namespace

std::int64_t BlockingOracle::left(const BlockedCharge& charge, std::int64_t at_us) const {
  const auto key = keys_.find(name_of(charge));
  return charge.block && key != keys_.end() ? key->second.left(at_us) : 0;
}

void BlockingOracle::block(const BlockedCharge& charge, std::int64_t at_us, std::int64_t for_us) {
  keys_[name_of(charge)].block(*charge.block, at_us, for_us);
}

Answer BlockingOracle::apply(const Action& action, const std::vector<BlockedCharge>& charges,
                             std::int64_t at_us) {
  std::vector<Charge> plain;
  bool is_blocked = false;
  for (const BlockedCharge& charge : charges) {
    plain.push_back(charge.charge);
    is_blocked |= charge.charge.cost > 0 && left(charge, at_us) > 0;
    if (action.verb == Verb::kReset && charge.block) unblock(charge);
  }
  if (!is_question(action.verb)) return limits_.apply(action, plain, at_us);
  Answer answer = is_blocked ? deny(action, charges, at_us) : limits_.apply(action, plain, at_us);
  const bool starts = !is_blocked && count_denials(action, charges, answer, at_us);
  show(charges, at_us, answer);
  if (is_blocked || starts) summarize(answer);
  return answer;
}

// What each limit would answer alone, without units if it would admit them.
Answer BlockingOracle::deny(const Action& action, const std::vector<BlockedCharge>& charges,
                            std::int64_t at_us) {
  Answer answer;
  for (const BlockedCharge& charge : charges) {
    Oracle trial = limits_;
    LimitAnswer alone = trial.apply(action, {charge.charge}, at_us).limits.at(0);
    if (!alone.denied) {
      Charge nothing = charge.charge;
      nothing.cost = 0;
      alone = limits_.apply(Verb::kPeek, {nothing}, at_us).limits.at(0);
    }
    alone.delay_us.reset();
    answer.limits.push_back(alone);
  }
  return answer;
}

// Returns whether one of the denials starts a block.
bool BlockingOracle::count_denials(const Action& action, const std::vector<BlockedCharge>& charges,
                                   const Answer& said, std::int64_t at_us) {
  bool starts = false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const LimitAnswer& limit = said.limits.at(i);
    if (!limit.denied || limit.reason != "limited" || !charges[i].block) continue;
    if (!counts(action, charges[i].charge.spec)) continue;
    starts |= keys_[name_of(charges[i])].deny(*charges[i].block, at_us);
  }
  return starts;
}

void BlockingOracle::show(const std::vector<BlockedCharge>& charges, std::int64_t at_us,
                          Answer& answer) const {
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const std::int64_t wait = left(charges[i], at_us);
    if (wait == 0) continue;
    LimitAnswer& limit = answer.limits.at(i);
    limit.remaining = 0;
    limit.reset_after_us = std::max(limit.reset_after_us, wait);
    if (charges[i].charge.cost == 0 || limit.reason == "never") continue;
    limit.denied = true;
    limit.reason = "blocked";
    limit.retry_after_us = std::max(limit.retry_after_us.value_or(0), wait);
    limit.delay_us.reset();
  }
}

}  // namespace sluice_oracle

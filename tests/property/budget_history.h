#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sluice/store.h"
#include "tests/property/generate.h"
#include "tests/property/history.h"

namespace sluice_property {

// A random history of requests to budgets, with and without ids, of a store and of the oracle. Many
// calls are repeated, with the same amount or another one.
class BudgetHistory {
  using Answer = sluice_oracle::Answer;
  using Spec = sluice_oracle::Spec;
  using Verb = sluice_oracle::Verb;

 public:
  // `changes_numbers`: whether limits change between two requests.
  BudgetHistory(std::uint64_t seed, sluice::Store& store, bool changes_numbers = true)
      : dice_(seed), changes_numbers_(changes_numbers), store_(store) {
    const std::size_t counters = 1 + dice_.below(3);
    for (std::size_t i = 0; i < counters; ++i) specs_.push_back(random_spec());
    const auto ids = dice_.any_of<std::uint64_t>({2, 6, 60});
    for (std::uint64_t i = 0; i < ids; ++i) ids_.push_back("call " + std::to_string(i));
  }

  // Makes a request of both. Returns how their answers differ; empty if they do not.
  std::string step() {
    now_ = std::clamp<std::int64_t>(now_ + random_move(), 0, kLastTick);
    // After the clock goes back, the store may answer a forgotten counter in either way.
    if (now_ < latest_) now_ = std::max(now_, oracle_.last_forgotten(latest_));
    latest_ = std::max(latest_, now_);
    if (changes_numbers_ && dice_.chance(4)) change_numbers();
    const Step step = dice_.chance(70) ? call_with_id() : call_without_id();
    const Answer expected = oracle_.apply(oracle_action(step), step.charges, step.at_us);
    log_.push_back(step);
    const std::string differs = difference(expected, apply(store_, step));
    waits_.clear();
    for (const auto& limit : expected.limits) {
      waits_.push_back(std::min(limit.reset_after_us, kLongestMove));
      waits_.push_back(limit.ends_after_us);
      if (limit.retry_after_us) waits_.push_back(std::min(*limit.retry_after_us, kLongestMove));
    }
    if (step.verb == Verb::kHold && expected.allowed) waits_.push_back(step.ttl_us);
    if (!expected.limits.empty()) remaining_ = expected.limits[0].remaining;
    return differs.empty() ? "" : to_json_lines(log_) + differs;
  }

  // The limits of the counters "a", "b" and "c", and the instant of the last request.
  const std::vector<Spec>& specs() const noexcept { return specs_; }
  std::int64_t now() const noexcept { return now_; }

 private:
  static constexpr std::int64_t kSecond = 1'000'000;
  static constexpr std::int64_t kDay = 86'400 * kSecond;
  static constexpr std::int64_t kLongestMove = 40 * kDay;

  Spec random_spec() {
    Spec spec{.algorithm = sluice_oracle::Algorithm::kBudget};
    spec.limit = dice_.any_of<std::uint64_t>({0, 1, 10, 10, 30, 30, 100, dice_.below(50),
                                              sluice_oracle::kMaxAmount,
                                              dice_.magnitude(sluice_oracle::kMaxAmount)});
    spec.per_us = dice_.any_of<std::int64_t>(
        {1000, 5 * kSecond, 60 * kSecond, 61 * kSecond + 7, 3600 * kSecond, kDay, 366 * kDay});
    if (dice_.chance(25)) {
      spec.calendar = sluice_oracle::Calendar{
          .unit = dice_.any_of(
              {sluice_oracle::CalendarUnit::kDay, sluice_oracle::CalendarUnit::kMonth}),
          .zone = dice_.any_of<const char*>({"UTC", "Europe/Berlin", "America/New_York"})};
      spec.per_us = usual_length_us(spec.calendar->unit);
    } else if (dice_.chance(20)) {
      spec.never = true;
      spec.per_us = 0;
    }
    if (dice_.chance(70)) {
      spec.on_expiry =
          dice_.any_of({sluice_oracle::OnExpiry::kCharge, sluice_oracle::OnExpiry::kRelease});
    }
    if (dice_.chance(70)) {
      spec.remember_us = dice_.any_of<std::int64_t>({kSecond, 10 * kSecond, 300 * kSecond, kDay});
    }
    if (dice_.chance(60)) spec.holds = dice_.any_of<std::uint64_t>({1, 2, 3, 5, 40, 65535});
    return spec;
  }
  void change_numbers() {
    Spec& spec = specs_[dice_.below(specs_.size())];
    const Spec other = random_spec();
    if (dice_.chance(50)) spec.limit = other.limit;
    if (dice_.chance(30)) {
      spec.per_us = other.per_us;
      spec.calendar = other.calendar;
      spec.never = other.never;
    }
    if (dice_.chance(30)) spec.on_expiry = other.on_expiry;
    if (dice_.chance(30)) spec.holds = other.holds;
  }

  std::int64_t random_move() {
    if (!waits_.empty() && dice_.chance(25)) {
      return std::max<std::int64_t>(waits_[dice_.below(waits_.size())] + dice_.between(-1, 1), 0);
    }
    if (dice_.chance(5)) return -dice_.between(0, 10 * kSecond);
    if (dice_.chance(2)) return dice_.between(0, 40 * kDay);
    if (dice_.chance(30)) return dice_.between(0, 20 * kSecond);
    return dice_.chance(40) ? 0 : dice_.between(0, kSecond);
  }
  std::uint64_t random_amount(std::uint64_t limit) {
    if (dice_.chance(60)) return dice_.below(8);
    return dice_.any_of<std::uint64_t>({remaining_, remaining_ + 1, limit, limit / 2, limit / 3 + 1,
                                        std::min(limit + 1, sluice_oracle::kMaxAmount),
                                        dice_.below(40)});
  }

  Step call_with_id() {
    Step step;
    step.verb = dice_.any_of({Verb::kHold, Verb::kHold, Verb::kHold, Verb::kTake, Verb::kSettle,
                              Verb::kSettle, Verb::kCancel, Verb::kExtend});
    step.at_us = now_;
    step.id = ids_[dice_.chance(50) ? dice_.below(2) : dice_.below(ids_.size())];
    if (step.verb == Verb::kHold || step.verb == Verb::kExtend) {
      step.ttl_us = dice_.any_of<std::int64_t>(
          {kSecond, 3 * kSecond, 30 * kSecond, kDay, dice_.between(kSecond, 100 * kSecond)});
    }
    const std::uint64_t count = dice_.chance(65) ? 1 : 1 + dice_.below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t which = dice_.below(specs_.size());
      std::uint64_t& amount = amounts_[names_[which] + *step.id + std::to_string(int(step.verb))];
      if (dice_.chance(amount == 0 ? 100 : 15)) amount = random_amount(specs_[which].limit);
      step.charges.push_back({names_[which], specs_[which], amount});
    }
    if (dice_.chance(40)) put_in_row(step);
    const bool may_have_others = step.verb == Verb::kHold || step.verb == Verb::kTake;
    if (may_have_others && dice_.chance(10)) add_rate(step);
    return step;
  }
  Step call_without_id() {
    Step step;
    step.verb = dice_.any_of({Verb::kTake, Verb::kTake, Verb::kTake, Verb::kPeek, Verb::kPeek,
                              Verb::kRefund, Verb::kCharge, Verb::kTakeAtMost, Verb::kReserve});
    if (dice_.chance(2)) step.verb = Verb::kReset;
    step.at_us = now_;
    const std::uint64_t count = dice_.chance(65) ? 1 : 1 + dice_.below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t which = dice_.below(specs_.size());
      step.charges.push_back({names_[which], specs_[which], random_amount(specs_[which].limit)});
    }
    if (dice_.chance(30)) put_in_row(step);
    if (dice_.chance(10)) add_rate(step);
    return step;
  }
  // Makes budgets in a row of some charges, which need counters of their own.
  void put_in_row(Step& step) {
    for (std::size_t i = 1; i < step.charges.size(); ++i) {
      if (dice_.chance(70)) step.charges[i].alternative = true;
    }
    if (dice_.chance(3)) return;
    std::sort(step.charges.begin(), step.charges.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    if (dice_.chance(30)) std::reverse(step.charges.begin(), step.charges.end());
    const auto same = std::unique(step.charges.begin(), step.charges.end(),
                                  [](const auto& a, const auto& b) { return a.key == b.key; });
    step.charges.erase(same, step.charges.end());
    step.charges.front().alternative = false;
  }
  void add_rate(Step& step) {
    step.charges.push_back(
        {"rate",
         {.algorithm = sluice_oracle::Algorithm::kTokenBucket, .limit = 3, .per_us = 9000},
         dice_.below(3)});
  }

  Dice dice_;
  const bool changes_numbers_;
  const std::vector<std::string> names_{"a", "b", "c"};
  std::vector<std::string> ids_;
  std::vector<Spec> specs_;
  std::map<std::string, std::uint64_t> amounts_;  // of the last call of this kind
  std::vector<std::int64_t> waits_;
  std::uint64_t remaining_ = 0;
  std::int64_t now_ = 1'700'000'000'000'000;
  std::int64_t latest_ = 0;
  sluice_oracle::Oracle oracle_;
  sluice::Store& store_;
  History log_;
};

}  // namespace sluice_property

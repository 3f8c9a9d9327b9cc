#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sluice/permit_id.h"
#include "sluice/store.h"
#include "tests/property/generate.h"
#include "tests/property/history.h"

namespace sluice_property {

// A permit that was taken: its number for the oracle, and for the store its name and its counters.
struct TakenPermit {
  std::uint64_t number;
  sluice::PermitId id;
  std::vector<sluice_oracle::Charge> charges;
};

// A random history of requests with permits, of a store and of the oracle.
class PermitHistory {
  using Answer = sluice_oracle::Answer;
  using Spec = sluice_oracle::Spec;
  using Verb = sluice_oracle::Verb;

 public:
  PermitHistory(std::uint64_t seed, sluice::Store& store) : dice_(seed), store_(store) {
    const std::size_t counters = 1 + dice_.below(3);
    for (std::size_t i = 0; i < counters; ++i) specs_.push_back(random_spec());
  }

  // Makes a request of both. Returns how their answers differ; empty if they do not.
  std::string step() {
    now_ += random_move();
    // After the clock goes back, the store may answer a forgotten counter in either way.
    if (now_ < latest_) now_ = std::max(now_, oracle_.last_forgotten(latest_));
    latest_ = std::max(latest_, now_);
    if (dice_.chance(5)) change_numbers();
    const std::uint64_t roll = dice_.below(100);
    if (roll < 25 && !taken_.empty()) return change_permit();
    return ask(roll < 60   ? Verb::kTake
               : roll < 70 ? Verb::kTakeAtMost
               : roll < 80 ? Verb::kReserve
               : roll < 88 ? Verb::kPeek
               : roll < 97 ? Verb::kRefund
                           : Verb::kReset);
  }

  // After the longest lease nothing is in flight, even if nobody has released. Returns what is;
  // empty if nothing is.
  std::string what_is_left() {
    const std::int64_t at = latest_ + 4 * kLongestLease;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const sluice::Charge charge{names_[i], limit_of(specs_[i]), 0};
      const sluice::Decision left =
          store_.apply_one(sluice::Verb::kPeek, charge, sluice::Instant{sluice::Duration{at}});
      if (left.remaining != specs_[i].limit || left.reset_after.count() != 0) {
        return names_[i] + " is not back";
      }
    }
    return {};
  }

 private:
  static constexpr std::int64_t kLongestLease = 100'000'000;

  Spec random_spec() {
    const auto lease = static_cast<std::int64_t>(1000 + dice_.magnitude(kLongestLease - 1000));
    return {.algorithm = sluice_oracle::Algorithm::kConcurrency,
            .limit = dice_.below(8),
            .per_us = lease};
  }
  void change_numbers() {
    Spec& spec = specs_[dice_.below(specs_.size())];
    const Spec other = random_spec();
    if (dice_.chance(60)) spec.limit = other.limit;
    if (dice_.chance(60)) spec.per_us = other.per_us;
  }
  std::int64_t random_move() {
    const std::int64_t lease = specs_[dice_.below(specs_.size())].per_us;
    if (!waits_.empty() && dice_.chance(30)) {
      return waits_[dice_.below(waits_.size())] + dice_.between(-1, 0);
    }
    if (dice_.chance(8)) return -dice_.between(0, lease);
    return dice_.chance(20) ? 0 : dice_.between(0, lease / dice_.any_of<std::int64_t>({1, 4, 20}));
  }

  std::string ask(Verb verb) {
    Step step{.verb = verb, .charges = {}, .at_us = now_};
    const std::size_t count = dice_.chance(60) ? 1 : 1 + dice_.below(3);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t which = dice_.below(specs_.size());
      step.charges.push_back({names_[which], specs_[which], dice_.below(4)});
    }
    if (dice_.chance(20)) {
      step.charges.push_back(
          {"rate",
           {.algorithm = sluice_oracle::Algorithm::kTokenBucket, .limit = 3, .per_us = 9000},
           dice_.below(3)});
    }
    const sluice::PermitId id = sluice::PermitId::random();
    const Answer expected = oracle_.apply({verb, 0}, step.charges, now_);
    log_ += to_json_lines({step});
    const std::string differs = difference(expected, apply(store_, step, id));
    if (expected.permit) taken_.push_back({*expected.permit, id, step.charges});
    waits_.clear();
    for (const auto& limit : expected.limits) {
      waits_.push_back(limit.reset_after_us);
      if (limit.retry_after_us) waits_.push_back(*limit.retry_after_us);
    }
    return explained(differs);
  }

  static Answered apply(sluice::Store& store, const Step& step, const sluice::PermitId& id) {
    std::vector<sluice::Charge> charges = charges_of(step);
    for (sluice::Charge& charge : charges) charge.permit = &id;
    Answered answered;
    answered.each.resize(charges.size());
    answered.request = store.apply(action_of(step), charges,
                                   sluice::Instant{sluice::Duration{step.at_us}}, answered.each);
    return answered;
  }

  std::string change_permit() {
    const TakenPermit& permit = taken_[dice_.below(taken_.size())];
    const bool extends = dice_.chance(40);
    log_ += (extends ? "extend " : "release ") + std::to_string(permit.number) + " at " +
            std::to_string(now_) + "\n";
    const Answer expected =
        extends ? oracle_.extend(permit.number, now_) : oracle_.release(permit.number, now_);
    std::vector<sluice::Charge> charges;
    for (const auto& charge : permit.charges) {
      if (charge.spec.algorithm != sluice_oracle::Algorithm::kConcurrency || charge.cost == 0)
        continue;
      charges.push_back({.key = charge.key, .limit = limit_of(charge.spec), .permit = &permit.id});
    }
    std::vector<sluice::Decision> each(charges.size());
    const sluice::Decision said =
        store_.apply(extends ? sluice::Verb::kExtend : sluice::Verb::kRelease, charges,
                     sluice::Instant{sluice::Duration{now_}}, each);
    const bool is_same =
        said.allowed() == expected.allowed && to_string(said.reason) == expected.reason;
    return explained(is_same ? "" : "the last answer is " + std::string(to_string(said.reason)));
  }
  std::string explained(const std::string& differs) const {
    return differs.empty() ? "" : log_ + differs;
  }

  Dice dice_;
  const std::vector<std::string> names_{"a", "b", "c"};
  std::vector<Spec> specs_;
  std::vector<TakenPermit> taken_;
  std::vector<std::int64_t> waits_;
  std::int64_t now_ = 1'700'000'000'000'000;
  std::int64_t latest_ = 0;
  sluice_oracle::Oracle oracle_;
  sluice::Store& store_;
  std::string log_;
};

}  // namespace sluice_property

#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/overrides.h"
#include "sluice/rule_decider.h"
#include "sluice/store.h"
#include "tests/property/generate.h"
#include "tests/property/history.h"

namespace sluice_property {

// A random history of requests by a rule with two limits and plans, of a store and of the oracle.
// Overrides come and go, and the numbers of the plans change.
class PlanHistory {
 public:
  PlanHistory(std::uint64_t seed, sluice::Store& store);

  // Makes a request of both, and perhaps a change before it. Returns how their answers differ;
  // empty if they do not.
  std::string step();

  // What the history has had so far.
  struct Counts {
    std::size_t overridden = 0, blocked = 0, unlimited = 0, denied = 0;
  };
  const Counts& counts() const noexcept { return counts_; }

 private:
  using Spec = sluice_oracle::Spec;
  static constexpr std::size_t kLimits = 2;
  using Numbers = std::array<Spec, kLimits>;  // of each limit
  // The plan `free` is the default; `basic` has no numbers for the second limit.
  static constexpr std::array<const char*, 3> kPlans{"free", "pro", "basic"};

  struct Request {
    std::string customer, plan;
    sluice_oracle::Verb verb;
    std::int64_t max_wait_us = 0;
    std::uint64_t cost = 1;
  };

  Spec random_numbers(const Spec& own);
  void write_rules();
  std::string change_override();
  sluice::Override random_override(std::size_t limit);
  Request random_request();
  std::int64_t random_move(const Spec& spec);

  sluice::Attributes attributes_of(const Request& request) const;
  const sluice::Override* override_of(const std::string& customer, std::size_t limit) const;
  const Spec& planned(const std::string& plan, std::size_t limit) const;
  // The numbers that count for a request; absent: no limit.
  std::optional<Spec> numbers_for(const Request& request, std::size_t limit) const;
  std::string compare(const Request& request, const sluice::RuleAnswer& answer);
  std::string compare_blocked(const Request& request,
                              const std::vector<const sluice::Override*>& blocks,
                              const std::vector<sluice_oracle::Charge>& charges,
                              const sluice::RuleAnswer& answer);

  Dice dice_;
  sluice::Limiter limiter_;
  sluice::Overrides overrides_;
  sluice::RuleDecider decider_;
  sluice_oracle::Oracle oracle_;
  std::optional<sluice::RuleSet> rules_;
  Numbers own_;
  std::array<Numbers, kPlans.size()> plans_;
  std::map<std::pair<std::string, std::size_t>, sluice::Override> given_;  // by customer and limit
  std::int64_t now_ = 1'700'000'000'000'000;
  std::vector<std::int64_t> waits_;  // of the last answer
  Counts counts_;
};

}  // namespace sluice_property
